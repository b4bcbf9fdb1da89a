"""The store: an SQLite database that holds the ledger's state and its log.

All changes of a batch of events are one transaction. Nothing is answered before it is committed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import ge
from pathlib import Path
from typing import IO, Any

from weft.core.errors import InputError, WeftError
from weft.subnet.service.ledger import (
    Announced,
    Decision,
    Event,
    Failed,
    Granted,
    KeyState,
    Ledger,
    Left,
    Made,
    Rebased,
    Refused,
    Snapshot,
    Withdrawn,
)
from weft.subnet.service.log import answer_json, event_json, line, packed, read_event

#: Version of the tables below. `kept` has, for the last two snapshots, their own numbers and those
#: of the events with which they make up the state; "begin" in `meta` is the first of the two.
VERSION = 2
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE token (name TEXT PRIMARY KEY, hash BLOB NOT NULL) STRICT;
CREATE TABLE event (
    number INTEGER PRIMARY KEY, event TEXT NOT NULL, answer TEXT NOT NULL, key BLOB, base BLOB
) STRICT;
CREATE TABLE kept (
    snapshot INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (snapshot, number)
) STRICT;
CREATE TABLE application (name TEXT PRIMARY KEY, announced INTEGER NOT NULL) STRICT;
CREATE TABLE key (
    application TEXT NOT NULL, phase TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
    generation INTEGER NOT NULL, made INTEGER, PRIMARY KEY (application, phase)
) STRICT;
CREATE TABLE granted (
    application TEXT NOT NULL, phase TEXT NOT NULL, alternative INTEGER NOT NULL,
    generation INTEGER NOT NULL, since_ns INTEGER NOT NULL, lease_ns INTEGER NOT NULL,
    until_ns INTEGER NOT NULL, PRIMARY KEY (application, phase)
) STRICT;
"""


#: Number of the snapshot with which the log begins; 0 if it begins with the first event.
_BEGIN = "(SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM meta WHERE name = 'begin')"


class StoreFailed(WeftError):
    """A change that could not be stored, so that it has not happened."""


@dataclass(frozen=True)
class StoredSubnet:
    """The subnet for which keys are in use."""

    #: Cables of the fabric that are missing.
    missing: tuple[int, ...]
    #: Base LID of each host.
    base_lid: tuple[int, ...]


class ServiceStore:
    """The store of one service.

    `path`: the database; it is created if it does not exist. `digest`: digest of the fabric
    (`Fabric.digest`). `settings`: settings that the log depends on, by name; they cannot change for
    an existing store.
    """

    def __init__(self, path: str | Path, digest: str, settings: dict[str, str]) -> None:
        # Names of one file by way of links have one lock.
        self.path = Path(path).resolve()
        self._lock = _locked(self.path)
        try:
            self._open(digest, settings)
        except BaseException:
            self.close()
            raise

    def _open(self, digest: str, settings: dict[str, str]) -> None:
        try:
            # Only the owner may read the store; SQLite gives its further files the same mode.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            if self.path.stat().st_nlink > 1:
                raise InputError("has several names; remove the other hard links", file=self.path)
            self._database = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=5.0
            )
            known = self._database.execute("SELECT name FROM sqlite_master").fetchall()
            if known and not {("meta",), ("event",)} <= set(known):
                raise InputError("is a database of another program", file=self.path)
            self._database.execute("PRAGMA journal_mode=WAL")
            # A commit is on the disk before it returns.
            self._database.execute("PRAGMA synchronous=FULL")
            if not known:
                self._create(digest, settings)
            self._check(digest, settings)
            (last,) = self._database.execute("SELECT max(number) FROM event").fetchone()
            self._place, self._sizes = self._files()
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", file=self.path) from None
        except sqlite3.Error as error:
            raise InputError(f"cannot be used as a store: {error}", file=self.path) from None
        #: Number of the last event.
        self.last: int = last or 0
        #: Why the store cannot be used any more; empty if it can.
        self.lost = ""

    def _create(self, digest: str, settings: dict[str, str]) -> None:
        values = {"version": str(VERSION), "fabric": digest, **settings}
        with self._database:
            self._database.executescript(f"BEGIN IMMEDIATE;{_TABLES}")
            self._database.executemany("INSERT INTO meta VALUES (?, ?)", values.items())

    def _check(self, digest: str, settings: dict[str, str]) -> None:
        meta = dict(self._database.execute("SELECT name, value FROM meta"))
        check_version(meta, self.path)
        if meta.get("fabric") != digest:
            raise InputError(
                "is the store of another fabric; use another store, or the fabric that it was "
                "made for",
                file=self.path,
            )
        for name, value in settings.items():
            if meta.get(name) != value:
                raise InputError(
                    f"was made with {name} {meta.get(name)}, not {value}", file=self.path
                )
        # The log, which grows, is checked where it is read.
        for table in ("token", "application", "key", "granted"):
            (state,) = self._database.execute(f"PRAGMA quick_check({table})").fetchone()
            if state != "ok":
                raise InputError(f"is damaged: {state}", file=self.path)

    def close(self) -> None:
        """Close the database and release the lock."""
        if hasattr(self, "_database"):
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
        self._lock.close()

    def _files(self) -> tuple[list[tuple[int, int]], list[int]]:
        """Return device and inode, and the size, of the database, its log and the lock.

        None of them becomes smaller: SQLite keeps the size of a log that it writes anew.

        Raises `OSError` if one is not there.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        about = [os.stat(path) for path in (self.path, log, lock_path(self.path))]
        return [(each.st_dev, each.st_ino) for each in about], [each.st_size for each in about]

    def check_files(self) -> None:
        """Make sure that the store has its files still, and that nobody has cut or replaced them.

        Otherwise another service could use the store at the same time, or what is written would be
        in a file without a name. The store is then lost until the service starts again.

        Raises `StoreFailed` if a file has been removed, replaced or cut.
        """
        if not self.lost:
            try:
                place, sizes = self._files()
                if place == self._place and all(map(ge, sizes, self._sizes)):
                    self._sizes = sizes
                    return
                what = "was cut" if place == self._place else "was replaced"
            except OSError as error:
                what = f"cannot be found: {error.strerror}"
            self.lost = (
                f"{self.path}, its log (-wal) or its lock {what} while it was in use; nothing is "
                "stored any more: stop the service, restore the store if it is damaged, and start "
                "the service again"
            )
        raise StoreFailed(self.lost)

    # -- writing -----------------------------------------------------------------------------

    def record(
        self, batch: Sequence[tuple[Event, Decision]], tokens: Mapping[str, str] | None = None
    ) -> None:
        """Store events and what they changed, and new tokens by their owners, all or none."""
        self.check_files()
        last = self.last + len(batch)
        left = dict(tokens or {})
        run = self._database.execute
        try:
            run("BEGIN IMMEDIATE")
            for number, (event, answer) in enumerate(batch, self.last + 1):
                self._write(number, event, answer)
                if isinstance(event, Announced) and event.application in left:
                    # Here, since the same batch may also remove an application of this name.
                    row = event.application, hashed(left[event.application])
                    run("INSERT OR REPLACE INTO token VALUES (?, ?)", row)
            for event, _ in batch:
                if isinstance(event, Announced):
                    left.pop(event.application, None)
            for name, token in left.items():
                run("INSERT OR REPLACE INTO token VALUES (?, ?)", (name, hashed(token)))
            run("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                run("ROLLBACK")
            if not isinstance(error, sqlite3.Error):
                raise
            raise StoreFailed(f"{self.path} cannot store a change: {error}") from None
        self.last = last

    def remember(self, missing: Sequence[int], base_lid: Sequence[int]) -> None:
        """Store the subnet for which keys are in use, as in `StoredSubnet`."""
        self.check_files()
        now = StoredSubnet(tuple(missing), tuple(base_lid))
        try:
            if now != self.subnet():
                self._database.execute(
                    "INSERT OR REPLACE INTO meta VALUES ('subnet', ?)", (json.dumps(asdict(now)),)
                )
        except sqlite3.Error as error:
            raise StoreFailed(f"{self.path} cannot store a change: {error}") from None

    def subnet(self) -> StoredSubnet | None:
        """Return what was last remembered."""
        rows = self._database.execute("SELECT value FROM meta WHERE name = 'subnet'").fetchall()
        if not rows:
            return None
        content = json.loads(rows[0][0])
        return StoredSubnet(tuple(content["missing"]), tuple(content["base_lid"]))

    def _write(self, number: int, event: Event, answer: Decision) -> None:
        run = self._database.execute
        key, base = packed(event)
        run(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?)",
            (number, event_json(event), answer_json(answer), key, base),
        )
        match event:
            case Announced():
                run("INSERT INTO application VALUES (?, ?)", (event.application, number))
                for phase in event.phases:
                    row = (event.application, phase, KeyState.MAKING, "", 0, None)
                    run("INSERT INTO key VALUES (?, ?, ?, ?, ?, ?)", row)
            case Rebased():
                run(
                    "UPDATE key SET made = ? WHERE application = ? AND phase = ?",
                    (number, event.application, event.phase),
                )
            case Made():
                run(
                    "UPDATE key SET state = ?, reason = '', generation = generation + 1, made = ? "
                    "WHERE application = ? AND phase = ?",
                    (KeyState.READY, number, event.application, event.phase),
                )
            case Failed():
                run(
                    "UPDATE key SET state = ?, reason = ? WHERE application = ? AND phase = ?",
                    (KeyState.FAILED, event.reason, event.application, event.phase),
                )
            case Withdrawn():
                for application, phase in event.keys:
                    run(
                        "UPDATE key SET state = ?, reason = ?, made = NULL "
                        "WHERE application = ? AND phase = ?",
                        (KeyState.MAKING, event.reason, application, phase),
                    )
            case Snapshot():
                (begin,) = run("SELECT coalesce(max(snapshot), 0) FROM kept").fetchone()
                run("DELETE FROM kept WHERE snapshot < ?", (begin,))
                run(
                    "INSERT INTO kept SELECT ?1, ?1 UNION SELECT ?1, announced FROM application "
                    "UNION SELECT ?1, made FROM key WHERE made IS NOT NULL",
                    (number,),
                )
                run("INSERT OR REPLACE INTO meta VALUES ('begin', ?)", (str(begin),))
            case Left():
                run("DELETE FROM key WHERE application = ?", (event.application,))
                run("DELETE FROM application WHERE name = ?", (event.application,))
                run("DELETE FROM token WHERE name = ?", (event.application,))
        for grant in answer.ended:
            run(
                "DELETE FROM granted WHERE application = ? AND phase = ?",
                (grant.application, grant.phase),
            )
        for grant in answer.granted:
            run(
                "INSERT INTO granted VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
                "SET until_ns = excluded.until_ns",
                (
                    grant.application, grant.phase, grant.alternative, grant.generation,
                    grant.since_ns, grant.lease_ns, grant.until_ns,
                ),
            )  # fmt: skip

    # -- reading -----------------------------------------------------------------------------

    def load(self, ledger: Ledger) -> None:
        """Bring a new ledger into the stored state."""
        self.check_files()
        run = self._database.execute
        try:
            rows = run(
                "SELECT event, key, base FROM event WHERE number IN "
                "(SELECT announced FROM application UNION SELECT made FROM key) ORDER BY number"
            )
            for text, key, base in rows:
                ledger.handle(read_event(json.loads(text), key, base))
            # In the order of the grants, in which a replay of the log has them.
            ledger.restore(
                run("SELECT application, phase, state, reason, generation FROM key").fetchall(),
                [Granted(*row) for row in run("SELECT * FROM granted ORDER BY rowid")],
            )
            last = run("SELECT event FROM event ORDER BY number DESC LIMIT 1").fetchone()
            if last is not None:
                ledger.now_ns = json.loads(last[0])["time_ns"]
        except (
            sqlite3.Error, LookupError, ValueError, TypeError, Refused, InputError
        ) as error:  # fmt: skip
            raise WeftError(f"{self.path} is damaged: {error}") from None

    def snapshot_ns(self) -> int | None:
        """Return the time of the last snapshot, or of the first event; None without events."""
        row = self._database.execute(
            "SELECT event FROM event WHERE number = coalesce((SELECT max(snapshot) FROM kept), "
            "(SELECT min(number) FROM event))"
        ).fetchone()
        return None if row is None else int(json.loads(row[0])["time_ns"])

    def trim(self, most: int = 1000) -> bool:
        """Remove some events that do not belong to the log any more.

        Returns whether there may be more.
        """
        self.check_files()
        try:
            done = self._database.execute(
                f"DELETE FROM event WHERE number IN (SELECT number FROM event WHERE number < "
                f"{_BEGIN} AND number NOT IN (SELECT number FROM kept) ORDER BY number LIMIT ?)",
                (most,),
            )
        except sqlite3.Error as error:
            raise StoreFailed(f"{self.path} cannot store a change: {error}") from None
        return done.rowcount == most

    def log(self, after: int = 0, limit: int = -1) -> Iterator[tuple[int, str]]:
        """Return the numbers and lines of the log after an event; for any thread."""
        # Another connection does not see a change before it is committed.
        try:
            with contextlib.closing(
                sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)
            ) as reader:
                yield from log_lines(reader, after, limit)
        except sqlite3.Error as error:
            raise WeftError(f"{self.path} is damaged: {error}") from None

    # -- tokens ------------------------------------------------------------------------------

    def tokens(self) -> dict[str, bytes]:
        """Return the hash of each token by the name of its owner; the administrator's is empty."""
        return dict(self._database.execute("SELECT name, hash FROM token"))


def log_lines(
    database: sqlite3.Connection, after: int = 0, limit: int = -1
) -> Iterator[tuple[int, str]]:
    """Return the numbers and lines of the log of a database after an event."""
    rows = database.execute(
        f"SELECT number, event, answer, key, base FROM event WHERE number > ? AND (number >= "
        f"{_BEGIN} OR number IN (SELECT number FROM kept WHERE snapshot = {_BEGIN})) "
        "ORDER BY number LIMIT ?",
        (after, limit),
    )
    for number, *parts in rows:
        yield number, line(number, *parts)


def check_version(meta: Mapping[str, str], path: Path) -> None:
    """Refuse a store whose `meta` has another version."""
    version = meta.get("version", "none")
    if version != str(VERSION):
        raise InputError(
            f"is a store of version {version}; this weft knows version {VERSION}", file=path
        )


def hashed(token: str) -> bytes:
    """Return the hash of a token. Tokens are long random texts, which need no slow hash."""
    return hashlib.sha256(token.encode()).digest()


def lock_path(path: Path) -> Path:
    """Return the file whose lock the service holds that uses a store."""
    return path.with_name(f"{path.name}.lock")


def _locked(path: Path) -> IO[Any]:
    """Lock a store, or refuse it."""
    lock = lock_path(path)
    try:
        # Held while the store is open.
        stream = open(lock, "ab+", buffering=0, opener=_private)  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path) from None
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n".encode())
    except BlockingIOError:
        stream.seek(0)
        owner = stream.read().decode(errors="replace").strip()
        stream.close()
        who = f" (process {owner})" if owner else ""
        raise InputError(f"is in use by another weft serve{who}", file=path) from None
    except OSError as error:
        stream.close()
        raise InputError(f"cannot be locked: {error.strerror}", file=path) from None
    return stream


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)
