"""A store in one file, and runs that are taken from another store."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.core.errors import InputError
from weft.core.files import written_aside
from weft.study.runs.rows import Brief, StoreError
from weft.study.runs.store import INDEX, TABLES, Store, table_of
from weft.study.runs.task import SETTLED

#: Function from the key of a run and the name, size and hash of a table to its contents; None if
#: the table is missing or damaged.
Reader = Callable[[str, str, int, str], bytes | None]


@dataclass
class PackedStore:
    """What a packed file has."""

    #: Number of runs and tables, and size of the tables.
    runs: int = 0
    tables: int = 0
    bytes: int = 0
    #: Keys of runs that are not in it, since a table is missing or damaged.
    left_out: list[str] = field(default_factory=list)


def pack(store: Store, file: Path) -> PackedStore:
    """Write a store to one tar archive, also while another process writes to the store.

    The archive depends only on the contents of the store. Unpacked, it is a store.

    `file`: the archive; an existing one is replaced when the new one is complete.
    """
    done = PackedStore()
    with _folder_beside(file) as folder, written_aside(file) as stream:
        store.snapshot(folder)
        with (
            contextlib.closing(sqlite3.connect(folder / INDEX)) as index,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            with Store(folder) as snapshot:
                runs = snapshot.briefs()
            for key, run in runs.items():
                tables = _tables(store, key, run)
                if tables is None:
                    # The writer may have replaced the run since; then its new form is packed.
                    now = next(store.rows([key]), None)
                    tables = None if now is None else _tables(store, key, store.briefs([key])[key])
                    index.execute("DELETE FROM runs WHERE key = ?", [key])
                    if now is None or tables is None:
                        done.left_out.append(key)
                        continue
                    marks = ", ".join("?" * len(now))
                    index.execute(
                        f"INSERT INTO runs ({', '.join(now)}) VALUES ({marks})", [*now.values()]
                    )
                done.runs += 1
                for name, data in tables.items():
                    done.tables += 1
                    done.bytes += len(data)
                    archive.addfile(_entry(name, len(data)), io.BytesIO(data))
            index.commit()
            if done.left_out:
                index.execute("VACUUM")
            with (folder / INDEX).open("rb") as whole:
                archive.addfile(_entry(INDEX, os.stat(folder / INDEX).st_size), whole)
    return done


@contextmanager
def _folder_beside(file: Path) -> Iterator[Path]:
    """Make a folder on the disk of a file."""
    parent = file.resolve().parent
    try:
        folder = tempfile.TemporaryDirectory(
            prefix=f".{file.name}-", dir=parent if os.access(parent, os.W_OK) else None
        )
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=file) from None
    with folder as name:
        yield Path(name)


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = 0o644
    return entry


def _tables(store: Store, key: str, run: Brief) -> dict[str, bytes] | None:
    """Return path -> contents of the tables of a run; None if one is missing or damaged."""
    found = {}
    for name, (size, digest) in sorted(run.tables.items()):
        data = _of_folder(store)(key, name, size, digest)
        if data is None:
            return None
        found[str(store.table_path(key, name, digest).relative_to(store.folder))] = data
    return found


# -- merging ---------------------------------------------------------------------------------------


@dataclass
class Pulled:
    """What became of the runs and studies of another store."""

    #: Number of runs that are new, or replace a run without a result.
    taken: int = 0
    #: Number of runs that were there already with equal results, or with a result that the other
    #: store lacks.
    present: int = 0
    #: Keys of runs with different results that replaced those of this store, or were not taken.
    replaced: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    #: Keys of runs that were not taken, since a table is missing or damaged.
    not_whole: list[str] = field(default_factory=list)
    #: Names of studies that were taken.
    studies: list[str] = field(default_factory=list)
    #: Names of studies that have other runs in this store and were not taken.
    kept_studies: list[str] = field(default_factory=list)


def pull(store: Store, source: Path, *, replace: bool = False) -> Pulled:
    """Take the runs and studies of another store.

    Each run is stored as a whole or not at all, so that the process may be killed and repeated.

    `store`: the store, open for writing. `source`: the folder of the other store, or a packed
    store. `replace`: whether runs and studies of the other store replace different ones of this
    store.
    """
    done = Pulled()
    with _opened(store, source) as (other, read):
        # Pages of a damaged index could be read without end.
        if (found := other.query("PRAGMA quick_check(1)")) != [("ok",)]:
            raise StoreError(f"the index is damaged: {found[0][0]}", file=source)
        studies = [
            (
                other.checked("study", name), other.checked("about", about), other.members(name),
                other.checked("changed_s", changed_s),
            )
            for name, about, changed_s in other.query("SELECT name, about, changed_s FROM studies")
        ]  # fmt: skip
        mine = store.briefs()
        for row in other.rows():
            key, about = row["key"], json.loads(row["tables"])
            tables = {name: read(key, name, size, digest) for name, (size, digest) in about.items()}
            whole = {name: data for name, data in tables.items() if data is not None}
            if len(whole) < len(tables):
                done.not_whole.append(key)
                continue
            have = mine.get(key)
            if have is None or not store.is_whole(key, have):
                done.taken += 1
            elif row["status"] not in SETTLED and have.status in SETTLED:
                done.present += 1
                continue
            elif have.status not in SETTLED and row["status"] in SETTLED:
                done.taken += 1
            elif _equal(store, row, whole):
                done.present += 1
                continue
            elif replace:
                done.replaced.append(key)
            else:
                done.kept.append(key)
                continue
            store.insert(row, whole)
        for name, about, members, changed_s in studies:
            if (present := store.studies().get(name)) is not None:
                if store.members(name) == members and present == about:
                    continue
                if not replace:
                    done.kept_studies.append(name)
                    continue
            store.set_study(name, about, members, changed_s)
            done.studies.append(name)
    return done


def _equal(store: Store, row: Mapping[str, Any], tables: Mapping[str, bytes]) -> bool:
    """Return whether a run of another store has the results of the run with the same key."""
    run = store.run(row["key"])
    if run is None or run.status != row["status"] or run.tables.keys() != tables.keys():
        return False
    if run.measures != json.loads(row["measures"]):
        return False
    for name, data in tables.items():
        if run.tables[name][1] != hashlib.sha256(data).hexdigest():
            try:
                table = store.table(run.key, name)
                if table is None or not table.equals(table_of(data, store.folder)):
                    return False
            except StoreError:
                return False
    return True


@contextmanager
def _opened(store: Store, source: Path) -> Iterator[tuple[Store, Reader]]:
    """Open another store, and yield it with the function that reads its tables."""
    with ExitStack() as stack:
        if source.is_dir():
            if os.path.samefile(source, store.folder):
                raise InputError("is the store itself; expected another one", file=source)
            other = stack.enter_context(Store(source))
            yield other, _of_folder(other)
            return
        if source.exists() and not source.is_file():  # such as a pipe, which may have no end
            raise InputError("is neither a store nor a packed store", file=source)
        try:
            archive = stack.enter_context(tarfile.open(source, "r:"))
            entries = {each.name: each for each in archive if each.isreg() and not each.issparse()}
            data = archive.extractfile(entries[INDEX])
            assert data is not None
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-")))
            with (folder / INDEX).open("wb") as stream:
                shutil.copyfileobj(data, stream)
            other = stack.enter_context(Store(folder))
        except (tarfile.TarError, EOFError, KeyError):
            raise InputError("is neither a store nor a packed store", file=source) from None
        except StoreError as error:
            raise StoreError(error.message, file=source) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=source) from None
        yield other, _of_archive(archive, entries)


def _of_folder(store: Store) -> Reader:
    def read(key: str, name: str, size: int, digest: str) -> bytes | None:
        path = store.table_path(key, name, digest)
        try:
            data = path.read_bytes() if path.is_file() and path.stat().st_size == size else b""
        except OSError:
            return None
        return data if _is_whole(data, size, digest) else None

    return read


def _of_archive(archive: tarfile.TarFile, entries: Mapping[str, tarfile.TarInfo]) -> Reader:
    def read(key: str, name: str, size: int, digest: str) -> bytes | None:
        entry = entries.get(f"{TABLES}/{key[:2]}/{key}.{name}.{digest[:8]}.parquet")
        stream = None if entry is None or entry.size != size else archive.extractfile(entry)
        data = b"" if stream is None else stream.read()
        return data if _is_whole(data, size, digest) else None

    return read


def _is_whole(data: bytes, size: int, digest: str) -> bool:
    return len(data) == size and hashlib.sha256(data).hexdigest() == digest
