"""Output of ``perfquery``, with and without ``-x``: any number of ports, one after the other.

Lines among the ports may give the time (``# time 2026-01-01T00:00:00Z``, or what ``date`` prints),
the node (``# guid 0x…``), and the length of a tick of PortXmitWait (``# tick 8 bytes``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from weft.counters.counters import COUNTERS, Counters, column_of
from weft.counters.formats.counter_format_registry import FileReader, PortReading, counter_reader
from weft.counters.times import moment_of, time_text
from weft.fabrics.formats.diags import FATAL, MESSAGE, has_line, warn_messages
from weft.fabrics.formats.records import shown

_START = r"# (?:Port|PMA?)[A-Za-z ]* ?counters?: |# PortSamplesControl: "
_HEADER = re.compile(
    r"# ([A-Z][\w ]*): (?:Lid (\d{1,5})|DR path .*) port (\d{1,3})(?: \((CapMask: .*)\))?", re.ASCII
)
_WIDE, _NARROW = "Port extended counters", "Port counters"
_VALUE = re.compile(r"([A-Za-z][\w\[\]]*):\.+(0x[0-9a-fA-F]{1,16}|\d{1,20})", re.ASCII)
_NOTE = re.compile(r"#\s*(time|guid|tick)\b[:=]?\s*(.*)", re.ASCII)
_TICK = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) bytes", re.ASCII)
_GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")
#: Counters of all ports.
_LEAST = {"port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts"}
_HALF = ("port", "left out: it has fewer counters than others of its kind", "half a reading")
#: Values of a block that are no counters.
_OTHERS = {"PortSelect", "CounterSelect", "CounterSelect2"}


@counter_reader("perfquery", sniff=has_line(_START))
def read(text: str, file: str) -> list[PortReading]:
    """Output of ``perfquery``, with and without ``-x``, of one or more ports.

    Raises
    ------
    InputError
        If a line is neither header, counter, note nor message, or contradicts another line.
    """
    return _Perfquery(file).read(text)


class _Perfquery(FileReader):
    """The file so far: the present port and its kind, and what notes say of all that follow."""

    now: PortReading | None = None
    kind = ("", "")
    lines = 0
    guid = 0
    time_ns: int | None = None
    tick_bytes: float | None = None

    def read(self, text: str) -> list[PortReading]:
        lines = text.split("\n")
        #: Number of lines, and port, by what a port can count: these have the same lines.
        self.of_kind: dict[tuple[str, str], list[tuple[int, PortReading]]] = defaultdict(list)
        messages: list[tuple[int, str]] = []
        for number, line in enumerate(map(str.rstrip, lines), 1):
            if match := _VALUE.fullmatch(line):
                self._value(match, number, cut=number == len(lines))
            elif not line:
                continue
            elif header := _HEADER.fullmatch(line):
                self._end()
                self._begin(header, number)
            elif note := _NOTE.fullmatch(line):
                self._end()
                self._note(note, number)
            elif (moment := moment_of(line)) is not None:
                self._end()
                self.time_ns = self.assume_utc(moment)
            elif FATAL.match(line):
                self.fail(f"the program failed and its output is incomplete: {line}", number)
            elif MESSAGE.match(line):
                messages.append((number, line))
            elif line[0] != "#" or "ounters:" in line:
                self.fail(f"expected a counter of perfquery or a time, found {shown(line)}", number)
        self._end()
        warn_messages(self.file, messages)
        for ports in self.of_kind.values():
            most = max(count for count, _ in ports)
            for count, port in ports:
                if count < most or not port.values.keys() >= _LEAST:
                    self.leave_out(f"{port.name} in line {port.line}", *_HALF)
                else:
                    self.add(port)
        return self.done()

    def _begin(self, header: re.Match[str], number: int) -> None:
        kind, lid, port, mask = header.groups()
        self.kind, self.lines = (kind, mask or ""), 0
        self.now = PortReading(
            number, int(port), self.guid, int(lid or 0), time_ns=self.time_ns,
            narrow=kind == _NARROW, tick_bytes=self.tick_bytes,
        )  # fmt: skip
        if kind not in (_WIDE, _NARROW):
            self.leave_out(kind, "kind", "of counters of perfquery that weft does not use")
        elif not self.now.lid and not self.guid:
            self.fail("the port has no LID; expected it, or a line '# guid 0x…' before", number)

    def _value(self, match: re.Match[str], number: int, cut: bool) -> None:
        name, text = match.groups()
        if self.now is None:
            self.fail("this value is not below a header of perfquery", number)
        if (self.lines > 0) == (name == "PortSelect"):
            self.fail(
                f"expected PortSelect as first line of {self.now.name}, and only there", number
            )
        self.lines += not cut  # a last line without an end may be cut short
        value = int(text, 16 if text[1:2] == "x" else 10)
        if name == "PortSelect" and value != self.now.port:
            self.fail(f"PortSelect is {value} below a header of port {self.now.port}", number)
        if self.kind[0] not in (_WIDE, _NARROW) or name in _OTHERS or cut:
            return
        if value >> 64:
            self.fail(f"{name} is {value}, but the counter has 64 bits", number)
        if column_of(name) in self.now.values:
            self.fail(f"{name} of {self.now.name} occurs twice", number)
        self.put(self.now, name, value, number)

    def _end(self) -> None:
        """End the present port, if there is one."""
        if self.now is not None and self.kind[0] in (_WIDE, _NARROW):
            self.of_kind[self.kind].append((self.lines, self.now))
        self.now = None

    def _note(self, note: re.Match[str], number: int) -> None:
        what, text = note[1], note[2].strip()
        moment = moment_of(text) if what == "time" else None
        if moment is not None:
            self.time_ns = self.assume_utc(moment)
        elif what == "guid" and _GUID.fullmatch(text):
            self.guid = int(text, 16)
        elif what == "tick" and (match := _TICK.fullmatch(text)) and float(match[1]) > 0:
            self.tick_bytes = float(match[1])
        else:
            expected = {"time": "a date and time", "guid": "a GUID", "tick": "such as '8 bytes'"}
            self.fail(f"# {what} is {shown(text)}; expected {expected[what]}", number)


def write(counters: Counters) -> Iterator[tuple[int, str]]:
    """Yield the time in ns of each reading, and what ``perfquery -x`` of each port would show."""
    fabric = counters.fabric
    columns = [name for name in COUNTERS if not counters.frame[name].null_count()]
    width = max(len(COUNTERS[name].name) for name in COUNTERS) + 5
    for reading in counters.readings:
        time_ns = int(reading.frame["reading"].to_physical()[0])
        lines = [f"# time {time_text(time_ns)}"]
        tick = None
        for row in reading.frame.select("slot", "tick_bytes", *columns).iter_rows(named=True):
            slot = row["slot"]
            if row["tick_bytes"] != tick:
                tick = row["tick_bytes"]
                lines.append(f"# tick {tick:.15g} bytes")
            port = int(fabric.slot_port[slot])
            lines += [
                f"# guid {int(fabric.node_guid[fabric.slot_node[slot]]):#018x}",
                f"# {_WIDE}: Lid {int(fabric.slot_lid[slot])} port {port}",
            ]
            pairs = [("PortSelect", port), *((COUNTERS[name].name, row[name]) for name in columns)]
            lines += [f"{f'{name}:':.<{width}}{value}" for name, value in pairs]
        yield time_ns, "\n".join(lines) + "\n"
