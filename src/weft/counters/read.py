"""Readings of port counters from files and folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from weft.core.columns import frame
from weft.core.errors import InputError, in_file
from weft.core.files import read_text
from weft.core.words import few
from weft.counters.counters import COUNTER_COLUMNS, COUNTERS, Counters
from weft.counters.formats.counter_format_registry import PortReading, counter_reader
from weft.counters.ports import Ports
from weft.counters.times import ReadTime, moment_in, time_of
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import warn, warn_of
from weft.fabrics.formats.read_write import files_of
from weft.fabrics.formats.session import without_session
from weft.fabrics.formats.signatures import signature

#: Name of a file for the GUID of a node.
_GUID_NAME = re.compile(r"(?:.*[^0-9a-zA-Z])?(0x[0-9a-fA-F]{16})(?:[^0-9a-zA-Z].*)?")


def read_counters(
    paths: str | Path | Sequence[str | Path],
    fabric: Fabric,
    *,
    timed: bool = True,
) -> Counters:
    """Read port counters of a fabric.

    Parameters
    ----------
    paths
        Files and folders: output of ``perfquery``, ``ibqueryerrors`` and ``iblinkinfo``,
        ``ibdiagnet2.pm``, ``ibdiagnet2.db_csv``, and Prometheus text of exporters, recognised by
        their contents. ``PATH@TIME`` gives the time of a reading. All files of a folder whose name
        is a time are one reading.
    fabric
        The fabric, whose GUIDs or LIDs name the ports.
    timed
        Whether each reading must have a time; if not, all files without one are a reading without
        a time, before the others.

    Returns
    -------
    Counters
        One or more readings.

    Raises
    ------
    InputError
        If a file cannot be read, has no time, gives a port twice, or none of its ports is in the
        fabric.

    Notes
    -----
    The time of a port is that of a line before it in its file (a timestamp of Prometheus,
    ``# time 2026-01-01T00:00:00Z``, or what ``date`` prints), else that which is given, else that
    in the name of the file, else that in the name of its folder. A `FormatWarning` tells of what is
    left out: ports that the fabric lacks, parts of files that are cut short, values that contradict
    each other.
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    reader = _Reader(fabric, timed)
    for file in [each for path in listed for each in _files(path)]:
        reader.read(file)
    return Counters(fabric, reader.frame(", ".join(map(str, listed))))


class _File(NamedTuple):
    path: Path
    #: Time that the user gives.
    given: ReadTime | None = None
    #: Time in the name of the folder, which is that of a whole reading.
    folder: ReadTime | None = None
    #: Whether the file is one of a folder, where files of other kinds are passed over.
    found: bool = False


def _files(path: str | Path) -> Iterable[_File]:
    """Yield a file, or the files of a folder, with the time that the path or folder gives."""
    base, given = Path(path), None
    name, at, text = str(path).rpartition("@")
    if at and not base.exists():
        with in_file(path):
            base, given = Path(name), time_of(text)
    if not base.is_dir():
        yield _File(base, given)
        return
    for file in files_of(base, warns=True):
        inner = file.relative_to(base).parents
        names = [*(each.name for each in inner if each.name), base.resolve().name]
        folder = next(filter(None, map(moment_in, names)), None)
        yield _File(file, given, folder, found=True)


class _Chunk(NamedTuple):
    """Ports of a file that were read at one time: time of the reading, and readings by slot."""

    reading_ns: int
    #: Whether the time is that of a folder, so that all its files are one reading.
    is_whole: bool
    ports: dict[int, PortReading]


class _Reader:
    """The readings so far."""

    def __init__(self, fabric: Fabric, timed: bool) -> None:
        self.fabric, self.timed = fabric, timed
        self.ports = Ports(fabric)
        self.chunks: list[_Chunk] = []
        self.others: list[str] = []
        self.strangers: list[str] = []
        self.torn: list[str] = []

    def read(self, file: _File) -> None:
        """Read a file."""
        text = without_session(read_text(file.path), str(file.path))
        form = next((each for each in counter_reader if each.facts["sniff"](text)), None)
        if form is not None:
            self._add(file, form.function(text, str(file.path)))
        elif file.found:
            self.others.append(str(file.path))
        else:
            known = signature(text)
            what = known.name if known else "in no format of port counters that weft reads"
            expected = ", ".join(counter_reader.names())
            raise InputError(f"is {what}; expected one of {expected}", file=file.path)

    def _add(self, file: _File, readings: list[PortReading]) -> None:
        """Add the ports of a file, apart by time."""
        in_name = moment_in(file.path.name)
        usual = file.given or in_name or file.folder
        whole = file.given or file.folder
        name = _GUID_NAME.fullmatch(file.path.name)
        found: dict[int, dict[int, PortReading]] = {}
        lost = len(self.strangers) + len(self.torn)
        # Those that speak of all other ports come last.
        for each in sorted(readings, key=lambda port: port.all_of):
            if name and not each.guid and not each.of_node:
                each.of_node = int(name[1], 16), ""
            if each.time_ns is None:
                each.time_ns = usual.ns if usual else None if self.timed else 0
            slot = -1 if each.all_of else self.ports.slot_of(each)
            if slot < 0 and not each.all_of:
                item = f"{each.name} in line {each.line} of {file.path}"
                (self.torn if slot == -2 else self.strangers).append(item)
                continue
            if each.time_ns is None:
                raise InputError(
                    "has no time at which it was read; name the file or its folder by the time, "
                    "such as 2026-01-01T00-00-00Z, or give it as "
                    f"'{file.path}@2026-01-01T00:00:00Z', or in a line "
                    "'# time 2026-01-01T00:00:00Z' of the file", file=file.path,
                )  # fmt: skip
            of_time = found.setdefault(each.time_ns, {})
            if each.all_of:
                known = len(self.strangers) + len(self.torn) == lost
                if known and each.all_of == self.fabric.num_nodes:
                    for other in np.flatnonzero(self.fabric.port_link >= 0).tolist():
                        of_time.setdefault(other, replace(each, values=dict(each.values)))
                continue
            first = of_time.setdefault(slot, each)
            if first is not each:
                raise InputError(
                    f"{each.name} occurs twice; the first time in line {first.line}",
                    file=file.path, line=each.line,
                )  # fmt: skip
        if usual and usual.assumed_utc and any(at == usual.ns for at in found):
            text = "the time in its name has no zone that is known; it is taken for UTC"
            warn(str(file.path), text, kind="assumed zone")
        alone = len(found) == 1
        for at, ports in found.items():
            time = whole.ns if whole and alone else at
            self.chunks.append(_Chunk(time, bool(whole) and alone, ports))

    def frame(self, source: str) -> pl.DataFrame:
        """Return the frame of `Counters`; `source`: all files, for messages."""
        count = sum(len(chunk.ports) for chunk in self.chunks)
        lost = self.strangers + self.torn
        if not count and self.timed:
            none = f"none of {len(lost):,} ports is in {self.fabric.name}: {few(lost)}"
            raise InputError(none if lost else "has no port counters", file=source)
        warn_of(source, self.others, "file", "without port counters", kind="other files")
        what = "not in the fabric" + " (most of them: another fabric?)" * (len(lost) > count)
        warn_of(source, self.strangers, "port", what, kind="stale", severity="warning")
        what = "left out: GUID, LID or name are those of different nodes of the fabric"
        warn_of(source, self.torn, "port", what, kind="stale", severity="warning")
        times = [chunk.reading_ns for chunk in self.chunks]
        if times != sorted(times):
            text = "the readings are not in the order of their times; they are sorted"
            warn(source, text, kind="order of readings")
        rows: list[tuple[int, int, PortReading]] = []
        unequal: list[str] = []
        for reading_ns, chunks in _readings(self.chunks):
            merged: dict[int, PortReading] = {}
            # What has 64 bits comes first; narrow counters add only what it lacks.
            ports = [each for chunk in chunks for each in chunk.ports.items()]
            for slot, port in sorted(ports, key=lambda each: each[1].narrow is True):
                first = merged.setdefault(slot, port)
                if first is not port:
                    unequal += _combined(first, port, self.fabric.slot_name(slot))
            rows += [(reading_ns, slot, port) for slot, port in sorted(merged.items())]
        what = "that files of one reading give differently; the first one counts"
        warn_of(source, unequal, "counter", what, kind="contradiction of counters",
                severity="warning")  # fmt: skip
        return self._table(rows)

    def _table(self, rows: list[tuple[int, int, PortReading]]) -> pl.DataFrame:
        fields = ("narrow", "tick_bytes", "state", "rate")
        data = {name: [getattr(port, name) for *_, port in rows] for name in fields} | {
            name: [port.values.get(name) for *_, port in rows] for name in COUNTERS
        }
        data["slot"] = [slot for _, slot, _ in rows]
        data["time"] = [port.time_ns or None for *_, port in rows]
        data["reading"] = [at or None for at, *_ in rows]
        return frame(COUNTER_COLUMNS, data)


def _readings(chunks: Sequence[_Chunk]) -> Iterable[tuple[int, list[_Chunk]]]:
    """Yield time and chunks of each reading, in order of time.

    Ports of one time or folder are one reading, and so are ports that follow each other until one
    is read again.
    """
    now: list[_Chunk] = []
    seen: set[int] = set()
    for chunk in sorted(chunks, key=lambda each: each.reading_ns):
        same = now and chunk.reading_ns == now[0].reading_ns
        if now and not same and (chunk.is_whole or now[0].is_whole or seen & chunk.ports.keys()):
            yield now[0].reading_ns, now
            now, seen = [], set()
        now.append(chunk)
        seen |= chunk.ports.keys()
    if now:
        yield now[0].reading_ns, now


def _combined(first: PortReading, other: PortReading, name: str) -> list[str]:
    """Add what another file says of a port; return the counters that differ."""
    unequal = []
    if not first.values:
        first.time_ns, first.narrow = other.time_ns, other.narrow
    for column, value in other.values.items():
        known = first.values.setdefault(column, value)
        if known != value and first.narrow == other.narrow:
            unequal.append(f"{COUNTERS[column].name} of {name}: {known:,} and {value:,}")
    for field in ("tick_bytes", "state", "rate"):
        if getattr(first, field) is None:
            setattr(first, field, getattr(other, field))
    return unequal
