"""Output of ``ibqueryerrors``, also with ``--data``, ``--counters``, ``--details``, ``-r``."""

from __future__ import annotations

import re

from weft.counters.formats.record import ALL_PORTS, FileReader, PortReading
from weft.counters.times import moment_of
from weft.fabrics.formats.diags import FATAL, MESSAGE, warn_messages
from weft.fabrics.formats.records import shown

PATTERN = r'(?:Errors|Data Counters) for (?:0x[0-9a-f]{1,16} )?"|## Summary: \d+ nodes checked'
#: Switches, and with ``--counters`` all nodes, by GUID; else adapters by name alone.
_HEADING = re.compile(r'(?:Errors|Data Counters) for (?:0x([0-9a-f]{1,16}) )?"(.*)"')
_PORT = re.compile(
    r"\s+GUID 0x([0-9a-f]{1,16}) port (ALL|\d{1,3}):((?: \[[^\[\]]*\])*)(?: \([^()]*\))?", re.ASCII
)
_VALUE = re.compile(r"\[(\w+) == (\d{1,20})(?: \([\d.]+[A-Za-z]*\))?\]", re.ASCII)
_OTHER = re.compile(r"#.*|\s+Link info: .*|Suppressing: .*|\s*\(.*\)")


def read(text: str, file: str) -> list[PortReading]:
    """Return the ports of a file, with the counters that are not 0.

    Raises
    ------
    InputError
        If a line is not one of ibqueryerrors, or a port is not of the node in the heading above.
    """
    said = FileReader(file)
    messages: list[tuple[int, str]] = []
    heading: tuple[int, str] | None = None
    time_ns = None
    lines = text.split("\n")
    for number, line in enumerate(map(str.rstrip, lines), 1):
        if port := _PORT.fullmatch(line):
            guid = int(port[1], 16)
            if heading is None:
                said.fail("this port is not below a heading of a node", number)
            at = ALL_PORTS if port[2] == "ALL" else int(port[2])
            row = PortReading(number, at, guid, of_node=heading, time_ns=time_ns)
            if number == len(lines):
                said.leave_out(row.name, "line", "without an end, left out", "half a reading")
                continue
            values = _VALUE.findall(port[3])
            if not values or len(values) != port[3].count("["):
                said.fail(f"expected [counter == value], found {shown(port[3].strip())}", number)
            for name, value in values:
                said.put(row, name, int(value), number)
            said.add(row)
        elif head := _HEADING.fullmatch(line):
            heading = int(head[1] or "0", 16), head[2]
        elif FATAL.match(line):
            said.fail(f"the program failed and its output is incomplete: {line}", number)
        elif MESSAGE.match(line):
            messages.append((number, line))
        elif (moment := moment_of(line.removeprefix("# time"))) is not None:
            time_ns = said.assume_utc(moment)
        elif line and not _OTHER.fullmatch(line):
            said.fail(f"expected a port of ibqueryerrors, found {shown(line)}", number)
    warn_messages(file, messages)
    return said.done()
