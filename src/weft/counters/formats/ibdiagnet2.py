"""Port counters of ibdiagnet2: ``ibdiagnet2.pm``, and section PM_INFO of ``ibdiagnet2.db_csv``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from weft.counters.counters import COUNTERS, column_of
from weft.counters.formats.counter_format_registry import FileReader, PortReading, counter_reader
from weft.counters.times import moment_in
from weft.fabrics.formats.db_csv import COUNTERS as SECTION
from weft.fabrics.formats.db_csv import is_db_csv, sections
from weft.fabrics.formats.diags import has_line
from weft.fabrics.formats.records import shown

_PORT = re.compile(r"Port=(\d{1,3}) Lid=\w+ GUID=0x([0-9a-fA-F]{1,16})\b.*", re.ASCII)
_VALUE = re.compile(
    r"([A-Za-z][\w\[\]]{0,60})\s*=\s*(0x[0-9a-fA-F]{1,16}|\d{1,20}|-1|N/?A)", re.ASCII
)
_ALWAYS = {name for name, counter in COUNTERS.items() if counter.bits}
_RULE = re.compile(r"[-=*]{3,}")
_COMMENT_TIME = re.compile(r"#.*\b(?:Timestamp|Run date|[Tt]ime|[Dd]ate)\b\s*[:=]?\s*(.*)")
_EXTENDED = re.compile(r"_?ext(?:ended)?$", re.IGNORECASE)
#: Columns of PM_INFO that identify a port.
_KEYS = ("nodeguid", "portguid", "portnumber")

#: Name of a counter, its value, None if the port does not have it, and the line.
_Value = tuple[str, int | None, int]


@counter_reader("ibdiagnet2.pm", sniff=has_line(r"Port=\d+ Lid=\w+ GUID=0x"))
def read_pm(text: str, file: str) -> list[PortReading]:
    """Counters of all ports in ``ibdiagnet2.pm``.

    Raises
    ------
    InputError
        If a line is malformed, or a port occurs twice.
    """
    said = FileReader(file)
    time_ns, rules = None, 0
    now: tuple[PortReading, list[_Value]] | None = None
    ports = []
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        port, value = _PORT.fullmatch(line), _VALUE.fullmatch(line)
        if port:
            now = PortReading(number, int(port[1]), int(port[2], 16), time_ns=time_ns), []
            ports.append(now)
            rules = 0
        elif value and now:
            now[1].append((value[1], _number(value[2]), number))
        elif line.startswith("#"):
            time_ns = _time(said, line, time_ns)
        elif _RULE.fullmatch(line):
            # One rule is below the line of a port, and the next one is above that of the next port.
            rules += 1
            now = now if rules < 2 and now and not now[1] else None
        elif line:
            said.fail(
                f"expected a port or the value of a counter, found {shown(line)}", number
            )  # fmt: skip
    # All ports have the counters of PortCounters. One that lacks some is cut short, or the rest of
    # its lines are those of another port.
    named = [{column_of(name) for name, *_ in values} & _ALWAYS for _, values in ports]
    whole = max(map(len, named), default=0)
    for (row, values), names in zip(ports, named, strict=True):
        if len(names) < whole:
            what = "left out: it has fewer counters than others"
            said.leave_out(f"{row.name} in line {row.line}", "port", what, "half a reading")
        else:
            _add(said, row, values)
    return said.done()


@counter_reader("ibdiagnet2.db_csv", sniff=is_db_csv)
def read_csv(text: str, file: str) -> list[PortReading]:
    """Section PM_INFO of ``ibdiagnet2.db_csv``; no ports if there is none.

    Raises
    ------
    InputError
        If a line is malformed, or a port occurs twice.
    """
    said = FileReader(file)
    found = sections(text, file, (SECTION,)).get(SECTION)
    if found is None:
        return []
    time_ns = None
    for line in text[: text.find("START_")].split("\n"):
        time_ns = _time(said, line, time_ns)
    names = [name for name in found.names if name.lower() not in _KEYS]
    for row in found.rows("NodeGUID", "PortNumber"):
        port = PortReading(
            row.line, row.number("PortNumber"), row.guid("NodeGUID"), time_ns=time_ns
        )
        values: list[_Value] = []
        for name in names:
            text_of = row.text(name) or "NA"
            if not _VALUE.fullmatch(f"a={text_of}"):
                if not column_of(_EXTENDED.sub("", name)):
                    continue
                row.fail(f"{name} is {shown(text_of)}; expected a number")
            values.append((name, _number(text_of), row.line))
        _add(said, port, values)
    return said.done()


def _add(said: FileReader, port: PortReading, values: Iterable[_Value]) -> None:
    """Add the counters of a port: the extended one where there is one, which counts the same."""
    wide: set[str] = set()
    seen: set[str] = set()
    narrow: dict[str, int] = {}
    for name, value, line in values:
        if name in seen:
            said.fail(f"{name} of {port.name} occurs twice", line)
        seen.add(name)
        base = _EXTENDED.sub("", name)
        column = column_of(base)
        if not column:
            said.leave_out(name, "counter", "that weft does not use")
        elif value is not None and base != name:
            wide.add(column)
            port.values[column] = value
        elif value is not None:
            if COUNTERS[column].bits and value >> COUNTERS[column].bits:
                said.fail(f"{name} is {value}, but it has {COUNTERS[column].bits} bits", line)
            narrow[column] = value
    for column, value in narrow.items():
        port.values[column] = max(port.values.get(column, 0), value)
    data = {name for name in port.values if COUNTERS[name].bits == 32}
    port.narrow = None if wide & data and narrow.keys() - wide else not wide & data
    said.add(port)


def _time(said: FileReader, line: str, known: int | None) -> int | None:
    """Return the time that a comment gives, or else the time that is known."""
    match = _COMMENT_TIME.match(line)
    moment = moment_in(match[1]) if match else None
    return known if moment is None else said.assume_utc(moment)


def _number(text: str) -> int | None:
    """Return a value; None for NA and for -1, which some versions write instead."""
    if text[0] in "N-":
        return None
    value = int(text, 16 if text.startswith("0x") else 10)
    return value if value < 1 << 64 else None
