"""A folder of results: an index in SQLite with a row for each run, and their tables in Parquet.

One process writes (it holds the lock); any number of processes on the same machine may read at the
same time. The tables of a run are written to temporary names and renamed before its row is
committed, so that a row never names a table that is not there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import platform
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from weft.core.errors import InputError
from weft.core.files import write_bytes
from weft.study.runs.rows import COLUMNS, Brief, Member, StoredRun, StoreError, checked, run_of
from weft.study.runs.task import Packed, Task, contents
from weft.study.runs.versions import build, libraries

if TYPE_CHECKING:
    import polars as pl

#: Format of the store; a store of a later format is refused.
FORMAT = 1
#: Names inside the folder.
INDEX, LOCK, TABLES, INCOMING, JOBS, PROGRESS = (
    "index.sqlite",
    "lock",
    "tables",
    "incoming",
    "jobs",
    "progress.json",
)
#: Names of tables, and of files that a killed process had not renamed.
_WRITTEN = re.compile(r"[0-9a-f]{32}\.[\w-]+\.[0-9a-f]{8}\.parquet|\..+\.\d+-[0-9a-f]{8}\.tmp")
#: Bytes of the index that readers map into memory, and of the longest value that it has.
_MAPPED_BYTES, _LONGEST_BYTES = 1 << 32, 64 << 20
#: Keys of runs in one query.
_MANY = 500
#: Seconds to wait for the lock.
_LOCK_S = 1.0
#: Seconds between two commits that survive a power failure.
_SYNCHRONISE_S = 1.0

_SCHEMA = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY, status TEXT NOT NULL, build TEXT NOT NULL, wall_s REAL NOT NULL,
    memory_bytes INTEGER NOT NULL, ended_s REAL NOT NULL, limits TEXT NOT NULL,
    tables TEXT NOT NULL, measures TEXT NOT NULL, reason TEXT NOT NULL, function TEXT NOT NULL,
    host TEXT NOT NULL, libraries TEXT NOT NULL, inputs TEXT NOT NULL, parameters TEXT NOT NULL,
    details TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE studies (
    name TEXT PRIMARY KEY, about TEXT NOT NULL, build TEXT NOT NULL, changed_s REAL NOT NULL
);
CREATE TABLE members (
    study TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, seed INTEGER,
    point TEXT NOT NULL, PRIMARY KEY (study, number)
) WITHOUT ROWID;
CREATE INDEX members_of_key ON members (key);
"""


#: Query of all that an index has besides rows.
_CONTENTS = "SELECT type, name, sql FROM sqlite_master"


@cache
def _own_contents() -> set[tuple[str, str, str | None]]:
    """Return what the index of a store has."""
    with contextlib.closing(sqlite3.connect(":memory:")) as index:
        index.executescript(_SCHEMA)
        return set(index.execute(_CONTENTS))


def _bound(connection: sqlite3.Connection) -> None:
    """Limit what the contents of an index can do, since it may come from anyone."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_BYTES)
    connection.execute("PRAGMA trusted_schema = OFF")


def check_parts(folder: Path) -> None:
    """Refuse links among the parts of a store, through which it would change other files.

    Raises `StoreError` if a file of the index or the lock is no regular file, or a folder is a
    link.
    """
    try:
        for name in (INDEX, LOCK, f"{INDEX}-wal", f"{INDEX}-shm", f"{INDEX}-journal"):
            path = folder / name
            # SQLite would wait for a pipe.
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise StoreError("is not a regular file", file=path)
        for name in (TABLES, INCOMING, JOBS):
            path = folder / name
            links = [path] if path.is_symlink() else []
            if not links and path.is_dir():
                with os.scandir(path) as entries:
                    links = [path / each.name for each in entries if each.is_symlink()]
            for link in links:
                raise StoreError("is a link; expected a folder in the store", file=link)
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror}", file=folder) from None


def _open_unlinked(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def writer(folder: str | Path) -> str:
    """Return which process writes to a store, in words; empty if none does."""
    try:
        check_parts(Path(folder))
        with open(Path(folder) / LOCK, "rb", opener=_open_unlinked) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return stream.read().decode(errors="replace").strip() or "another process"
    except (OSError, StoreError):
        pass
    return ""


class Store:
    """An open store.

    `write`: whether to write: creates the folder if it does not exist, and holds the lock.
    """

    def __init__(self, folder: str | Path, *, write: bool = False) -> None:
        self.folder = Path(folder)
        self._lock: io.FileIO | None = None
        self._writes = write
        self._unclean = False
        self._synchronised_s = 0.0
        check_parts(self.folder)
        if write:
            self._create()
        try:
            index = self.folder / INDEX
            if not index.is_file():
                raise StoreError(
                    "is not a store of weft: it has no index.sqlite; expected the folder that weft "
                    "study wrote, such as NAME.study",
                    file=self.folder,
                )
            with self._explained():
                self._index = self._connect(index)
                self._prepare()
            if self._unclean:
                self.clean()
        except BaseException:
            self.close()
            raise

    # -- opening -----------------------------------------------------------------------------

    def _create(self) -> None:
        try:
            (self.folder / TABLES).mkdir(parents=True, exist_ok=True)
            # Opened for appending: another process's words in the file stay until the lock is held.
            self._lock = io.FileIO(self.folder / LOCK, "a+", opener=_open_unlinked)
        except OSError as error:
            raise StoreError(f"cannot be written to: {error.strerror}", file=self.folder) from None
        if not self._locked():
            self._lock.seek(0)
            who = self._lock.read().decode(errors="replace").strip() or "another process"
            self._lock.close()
            raise StoreError(f"is in use by {who}; wait until it has ended", file=self.folder)
        try:
            self._lock.seek(0)
            self._unclean = bool(self._lock.read(1))
            self._lock.truncate(0)
            text = f"process {os.getpid()} on {platform.node()} since {time.strftime('%F %T')}"
            self._lock.write(text.encode())
            if not (self.folder / INDEX).exists():
                sqlite3.connect(self.folder / INDEX).close()
                (self.folder / INDEX).touch()
        except (OSError, sqlite3.Error) as error:
            self._lock.close()
            text = getattr(error, "strerror", None) or str(error)
            raise StoreError(f"cannot be written to: {text}", file=self.folder) from None

    def _locked(self) -> bool:
        """Lock the store; wait for a moment, since `writer` locks it for an instant, too."""
        assert self._lock is not None
        end = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    return False
                time.sleep(_LOCK_S / 20)
            except OSError as error:
                self._lock.close()
                raise StoreError(f"cannot be locked: {error.strerror}", file=self.folder) from None
            else:
                return True

    def _connect(self, index: Path) -> sqlite3.Connection:
        if self._writes:
            connection = sqlite3.connect(index, timeout=30.0, isolation_level=None)
            _bound(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            return connection
        if index.with_name(f"{INDEX}-journal").exists() and os.access(self.folder, os.W_OK):
            # A writer was killed as it created the index; a connection that only reads cannot undo
            # what it had begun.
            with contextlib.closing(sqlite3.connect(index, timeout=30.0)) as undoing:
                undoing.execute("PRAGMA schema_version").fetchone()
        address = index.absolute().as_uri() + "?mode=ro"
        if not os.access(self.folder, os.W_OK) and not index.with_name(INDEX + "-wal").exists():
            address += "&immutable=1"  # SQLite cannot create its shared memory here
        connection = sqlite3.connect(address, uri=True, timeout=30.0, isolation_level=None)
        _bound(connection)
        # Lists of runs take half the time; their intermediate tables are never on the disk.
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _prepare(self) -> None:
        (version,) = self._index.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise StoreError(
                f"is a store of format {version}, made by a later version of weft; this version "
                f"reads format {FORMAT}",
                file=self.folder,
            )
        found = set(self._index.execute(_CONTENTS))
        if version == 0:
            if found or not self._writes:
                raise StoreError("is not a store of weft", file=self.folder)
            self._index.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;")
        elif found != _own_contents():
            # A view may have no end, and a trigger changes what is written.
            kind, name, _ = min(found ^ _own_contents(), key=str)
            raise StoreError(
                f"is not a store as weft makes it: wrong {kind} {name} in index.sqlite",
                file=self.folder,
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of SQLite and of the file system as errors of the store."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise StoreError(f"the index cannot be used: {error}", file=self.folder) from None
        except OSError as error:
            raise StoreError(f"cannot be written to: {error.strerror}", file=self.folder) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index and give back the lock."""
        with contextlib.suppress(AttributeError, sqlite3.Error):
            self._index.close()
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._lock.truncate(0)
            self._lock.close()
            self._lock = None

    # -- runs --------------------------------------------------------------------------------

    def add(
        self,
        task: Task,
        packed: Packed,
        *,
        wall_s: float,
        memory_bytes: int,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        """Store the result of a run durably, or else leave the store as it was.

        It replaces an earlier result with the same key.
        """
        self.insert(record_of(task, packed, wall_s, memory_bytes, limits), packed.tables)

    def insert(self, record: Mapping[str, Any], tables: Mapping[str, bytes]) -> None:
        """Store a run from its row (see `record_of`) and the contents of its tables."""
        key, about = record["key"], json.loads(record["tables"])
        with self._explained():
            self._synchronise()
            before = self.briefs([key])
            for name, data in tables.items():
                path = self.table_path(key, name, about[name][1])
                path.parent.mkdir(exist_ok=True)
                write_bytes(path, data, follow=False)
            self.insert_rows([record])
            for old in before.values():
                for name, (_, digest) in old.tables.items():
                    if about.get(name, ("", ""))[1] != digest:
                        self.table_path(key, name, digest).unlink(missing_ok=True)

    def _synchronise(self) -> None:
        """Let the next commit survive a power failure if the last such commit was a while ago.

        What a killed process has committed is never lost. To wait for the disk takes longer than
        many runs do.
        """
        now = time.monotonic()
        full = now - self._synchronised_s >= _SYNCHRONISE_S
        self._index.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
        if full:
            self._synchronised_s = now

    def insert_rows(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Store rows of runs whose tables are in place, all of them or none."""
        marks = ", ".join("?" * len(COLUMNS))
        with self._explained(), self._together():
            self._index.executemany(
                f"INSERT OR REPLACE INTO runs ({', '.join(COLUMNS)}) VALUES ({marks})",
                ([record[name] for name in COLUMNS] for record in records),
            )

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Make the changes within one transaction."""
        self._index.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._index.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a full disk has rolled back already
                self._index.execute("ROLLBACK")
            raise

    def table_path(self, key: str, name: str, digest: str) -> Path:
        """Return the path of a table of a run, which depends on the contents."""
        return self.folder / TABLES / key[:2] / f"{key}.{name}.{digest[:8]}.parquet"

    def table(self, key: str, name: str) -> pl.DataFrame | None:
        """Return a table of a run, or None if it is not stored.

        Raises `StoreError` if the file is missing or damaged.
        """
        known = self.briefs([key])
        if key not in known or name not in known[key].tables:
            return None
        path = self.table_path(key, name, known[key].tables[name][1])
        return table_of(path, path)

    def run(self, key: str) -> StoredRun | None:
        """Return a run, or None if there is none with this key."""
        return next(self.runs([key]), None)

    def runs(self, keys: Iterable[str] | None = None) -> Iterator[StoredRun]:
        """Yield the runs with these keys, or all, in the order of the keys."""
        for row in self._select(", ".join(COLUMNS), keys):
            yield run_of(row, self.folder)

    def rows(self, keys: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of the runs with these keys, or of all, as `insert` takes them."""
        for row in self._select(", ".join(COLUMNS), keys):
            run_of(row, self.folder)  # checks it
            yield dict(zip(COLUMNS, row, strict=True))

    def briefs(self, keys: Iterable[str] | None = None) -> dict[str, Brief]:
        """Return key -> short form of the runs with these keys, or of all."""
        columns = ("key", *Brief.__dataclass_fields__)
        found = {}
        for row in self._select(", ".join(columns), keys):
            key, *values = (
                self.checked(name, value, str(row[0])[:8])
                for name, value in zip(columns, row, strict=True)
            )
            found[key] = Brief(*values)
        return found

    def checked(self, column: str, value: Any, key: str = "") -> Any:
        """Return a value of a column as `weft.study.runs.rows.checked`; `key` is of its run."""
        return checked(column, value, self.folder, key and f"run {key}")

    def _select(self, columns: str, keys: Iterable[str] | None) -> Iterator[Sequence[Any]]:
        with self._explained():
            if keys is None:
                yield from self._index.execute(f"SELECT {columns} FROM runs ORDER BY key")
                return
            listed = sorted(set(keys))
            for start in range(0, len(listed), _MANY):
                part = listed[start : start + _MANY]
                marks = ", ".join("?" * len(part))
                yield from self._index.execute(
                    f"SELECT {columns} FROM runs WHERE key IN ({marks}) ORDER BY key", part
                )

    def query(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the index."""
        with self._explained():
            return self._index.execute(text, values).fetchall()

    def define(self, name: str, function: Callable[[Any], Any]) -> None:
        """Define a function of one value for queries."""
        self._index.create_function(name, 1, function, deterministic=True)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove runs, all of them or none, and then their tables."""
        removed = self.briefs(keys)
        with self._explained():
            with self._together():
                self._index.executemany(
                    "DELETE FROM runs WHERE key = ?", [[key] for key in removed]
                )
            for key, run in removed.items():
                for name, (_, digest) in run.tables.items():
                    self.table_path(key, name, digest).unlink(missing_ok=True)

    def snapshot(self, folder: Path) -> None:
        """Copy the index as it is at one instant, also while it is written to."""
        with self._explained(), contextlib.closing(sqlite3.connect(folder / INDEX)) as copy:
            self._index.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            # The order of pages depends on what was removed before.
            copy.execute("VACUUM")

    # -- studies -----------------------------------------------------------------------------

    def set_study(
        self,
        name: str,
        about: Mapping[str, Any],
        members: Iterable[Member],
        changed_s: float | None = None,
    ) -> None:
        """Store a study and its list of runs; they replace those of the same name.

        `changed_s`: time of the change in seconds since 1970; by default now.
        """
        rows = (
            (name, each.number, each.key, each.seed, json.dumps(dict(each.point)))
            for each in members
        )
        with self._explained(), self._together():
            self._index.execute("DELETE FROM members WHERE study = ?", [name])
            self._index.execute(
                "INSERT OR REPLACE INTO studies VALUES (?, ?, ?, ?)",
                [name, json.dumps(about), build(), time.time() if changed_s is None else changed_s],
            )
            self._index.executemany("INSERT INTO members VALUES (?, ?, ?, ?, ?)", rows)

    def studies(self) -> dict[str, dict[str, Any]]:
        """Return name -> description of the studies, in the order of their last change."""
        rows = self.query("SELECT name, about FROM studies ORDER BY changed_s")
        return {
            self.checked("study", name): self.checked("about", about) for name, about in rows
        }  # fmt: skip

    def members(self, study: str) -> list[Member]:
        """Return the runs of a study, in order."""
        rows = self.query(
            "SELECT number, key, seed, point FROM members WHERE study = ? ORDER BY number", [study]
        )
        names = Member.__dataclass_fields__
        return [Member(*map(self.checked, names, row)) for row in rows]

    # -- checks ------------------------------------------------------------------------------

    def is_whole(self, key: str, run: Brief) -> bool:
        """Return whether the tables of a run exist and have their size."""
        try:
            return all(
                self.table_path(key, name, digest).stat().st_size == size
                for name, (size, digest) in run.tables.items()
            )
        except OSError:
            return False

    def damages(self) -> Iterator[str]:
        """Yield what is wrong with the store: the index, and missing or damaged tables."""
        with self._explained():
            for (text,) in self._index.execute("PRAGMA integrity_check"):
                if text != "ok":
                    yield f"index: {text}"
        for _ in self.runs():
            pass  # each value is checked
        for key, run in self.briefs().items():
            for name, reason in self.wrong_tables(key, run).items():
                yield f"run {key}: table {name} {reason}"

    def wrong_tables(self, key: str, run: Brief) -> dict[str, str]:
        """Return the name of each missing or damaged table of a run -> what is wrong with it."""
        wrong = {}
        for name, (size, digest) in run.tables.items():
            path = self.table_path(key, name, digest)
            try:
                if path.stat().st_size != size or contents(str(path)) != digest:
                    wrong[name] = "is damaged"
            except FileNotFoundError:
                wrong[name] = "is missing"
            except (OSError, InputError) as error:
                wrong[name] = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        if wrong:  # perhaps another process has just replaced the run
            now = self.briefs([key]).get(key)
            if now is None or now.tables != run.tables:
                return {}
        return wrong

    def files_of_no_run(self) -> list[Path]:
        """Return files that weft wrote and no run has, such as those of killed processes."""
        known = {
            self.table_path(key, name, digest)
            for key, run in self.briefs().items()
            for name, (_, digest) in run.tables.items()
        }
        with self._explained():
            tables = (self.folder / TABLES).glob("*/*")
            return sorted(
                path
                for path in (*self.folder.glob(".*.tmp"), *tables)
                if path not in known and _WRITTEN.fullmatch(path.name)
            )

    def clean(self) -> int:
        """Remove files of no run; return how many."""
        left = self.files_of_no_run()
        with self._explained():
            for path in left:
                path.unlink(missing_ok=True)
        return len(left)


def table_of(source: Path | bytes, file: Path) -> pl.DataFrame:
    """Return a table from its file or contents; `file` is named by the error.

    Raises `StoreError` if it cannot be read.
    """
    import polars as pl  # imported late: most uses of a store read no table

    try:
        return pl.read_parquet(source)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise StoreError(f"cannot be read: {reason}", file=file) from None


def record_of(
    task: Task,
    packed: Packed,
    wall_s: float,
    memory_bytes: int,
    limits: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return the row of a run in the index."""
    tables = {
        name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in packed.tables.items()
    }
    return {
        "key": task.key,
        "function": task.function,
        "parameters": json.dumps(task.parameters, ensure_ascii=False),
        "inputs": json.dumps(dict(task.inputs)),
        "status": packed.status,
        "reason": packed.reason,
        "measures": packed.measures,
        "tables": json.dumps(tables),
        "wall_s": wall_s,
        "memory_bytes": memory_bytes,
        "limits": json.dumps(dict(limits or {})),
        "build": task.build,
        "libraries": json.dumps(libraries()),
        "host": packed.host,
        "ended_s": time.time(),
        "details": packed.details,
    }
