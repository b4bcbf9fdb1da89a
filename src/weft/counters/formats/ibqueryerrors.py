"""Output of ``ibqueryerrors``, also with ``--data``, ``--counters``, ``--details``, ``-r``.

A port is listed with the counters that exceed their thresholds, which are 0 unless the summary at
the end says otherwise. So after a complete summary, other counters of errors are known to be 0:
those of the ports above, and if all nodes were checked, those of all ports.
"""

from __future__ import annotations

import re

from weft.counters.counters import COUNTERS, column_of
from weft.counters.formats.counter_format_registry import (
    ALL_PORTS,
    FileReader,
    PortReading,
    counter_reader,
)
from weft.counters.times import moment_of
from weft.fabrics.formats.diags import FATAL, MESSAGE, has_line, warn_messages
from weft.fabrics.formats.records import shown

_START = r'(?:Errors|Data Counters) for (?:0x[0-9a-f]{1,16} )?"|## Summary: \d+ nodes checked'
#: Switches, and with ``--counters`` all nodes, by GUID; else adapters by name alone.
_HEADING = re.compile(r'(Errors|Data Counters) for (?:0x([0-9a-f]{1,16}) )?"(.*)"')
_PORT = re.compile(
    r"\s+GUID 0x([0-9a-f]{1,16}) port (ALL|\d{1,3}):((?: \[[^\[\]]*\])*)(?: \([^()]*\))?", re.ASCII
)
_VALUE = re.compile(r"\[(\w+) == (\d{1,20})(?: \([\d.]+[A-Za-z]*\))?\]", re.ASCII)
_OTHER = re.compile(r"#.*|\s+Link info: .*|Suppressing: .*|\s*\(.*\)")
_SUMMARY = re.compile(
    r"## Summary: (\d{1,9}) nodes checked, \d+ bad nodes found\n"
    r"##\s+\d+ ports checked, (\d{1,9}) ports have errors beyond threshold\n"
    r"## (?:Thresholds:(.*)|\(null\))\n(##\s+\d+ PMA query failures\n)?## Suppressed:(.*)\n"
)
#: Counters that are listed unless they are 0. Not all devices have PortXmitWait.
_ERRORS = {name for name, each in COUNTERS.items() if 0 < each.bits < 32} - {"qp1_dropped"}
#: Those of data, with ``--data``.
_DATA = {"port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts"}


@counter_reader("ibqueryerrors", sniff=has_line(_START))
def read(text: str, file: str) -> list[PortReading]:
    """Output of ``ibqueryerrors``: counters of ports with errors, and with none.

    Raises
    ------
    InputError
        If a line is not one of ibqueryerrors, or a port is not of the node in the heading above.
    """
    said = FileReader(file)
    messages: list[tuple[int, str]] = []
    heading: tuple[int, str] | None = None
    time_ns, has_errors, summary = None, True, ""
    listed: list[PortReading] = []
    lines = text.split("\n")
    for number, line in enumerate(map(str.rstrip, lines), 1):
        whole = number < len(lines)
        if port := _PORT.fullmatch(line):
            guid = int(port[1], 16)
            if heading is None:
                said.fail("this port is not below a heading of a node", number)
            at = ALL_PORTS if port[2] == "ALL" else int(port[2])
            row = PortReading(number, at, guid, of_node=heading, time_ns=time_ns)
            if not whole:
                said.leave_out(row.name, "line", "without an end, left out", "half a reading")
                continue
            values = _VALUE.findall(port[3])
            if not values or len(values) != port[3].count("["):
                said.fail(f"expected [counter == value], found {shown(port[3].strip())}", number)
            for name, value in values:
                said.put(row, name, int(value), number)
            said.add(row)
            listed += [row] * (at != ALL_PORTS)
        elif head := _HEADING.fullmatch(line):
            heading, has_errors = (int(head[2] or "0", 16), head[3]), head[1] == "Errors"
        elif line.startswith("##"):
            summary += f"{line}\n"
            if line.startswith("## Suppressed:") and whole:
                if has_errors and _complete(said, listed, summary, time_ns, number):
                    listed = []
                summary = ""
        elif FATAL.match(line):
            said.fail(f"the program failed and its output is incomplete: {line}", number)
        elif MESSAGE.match(line):
            messages.append((number, line))
        elif (moment := moment_of(line.removeprefix("# time"))) is not None:
            time_ns = said.assume_utc(moment)
        elif line and not _OTHER.fullmatch(line):
            said.fail(f"expected a port of ibqueryerrors, found {shown(line)}", number)
    if listed and has_errors:
        what = "without a summary of them, so that counters not listed are not known"
        said.leave_out(f"lines {listed[0].line} to {listed[-1].line}", "part", what,
                       "half a reading")  # fmt: skip
    warn_messages(file, messages)
    return said.done()


def _complete(
    said: FileReader, listed: list[PortReading], text: str, time_ns: int | None, line: int
) -> bool:
    """Add the counters that are 0 by a summary; return whether it is one of these ports."""
    summary = _SUMMARY.fullmatch(text)
    if summary is None or int(summary[2]) != len(listed):
        return False
    hidden = {column_of(name) for name in re.findall(r"\w+", f"{summary[3] or ''} {summary[5]}")}
    zeros = dict.fromkeys(sorted(_ERRORS - hidden), 0)
    with_data = any(_DATA & row.values.keys() for row in listed)
    for row in listed:
        row.values = {**zeros, **dict.fromkeys(_DATA if with_data else (), 0), **row.values}
    if not summary[4]:
        said.ports.append(
            PortReading(line, 0, values=zeros, time_ns=time_ns, all_of=int(summary[1]))
        )
    return True
