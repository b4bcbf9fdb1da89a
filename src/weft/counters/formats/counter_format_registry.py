"""The registry of formats of port counters, and what their readers share.

A format is added by a file with one function::

    @counter_reader("mine", sniff=lambda text: text.startswith("mine"))
    def read(text: str, file: str) -> list[PortReading]: ...

A reader raises `InputError` with the file and line of an error, and issues a `FormatWarning` for
content that it leaves out; `FileReader` helps with both.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NoReturn

from weft.core.errors import InputError
from weft.core.registry import Registry
from weft.counters.counters import COUNTERS, column_of
from weft.counters.times import ReadTime
from weft.fabrics.formats.format_registry import warn, warn_of

#: Readers. The fact `sniff` tells whether a text is in the format.
counter_reader = Registry(
    "format of port counters",
    "weft.counters.formats",
    "weft.counter_readers",
    ("text", "file"),
    ("sniff",),
)

#: Port number for the sum of the counters of all ports.
ALL_PORTS = 255


@dataclass(slots=True)
class PortReading:
    """Counters of a port. A GUID, a LID, or host and device name its node, as far as given."""

    line: int
    port: int
    guid: int = 0
    lid: int = 0
    host: str = ""
    device: str = ""
    #: GUID (0: not given) and name of the node, if these are given beside a GUID of the port.
    of_node: tuple[int, str] | None = None
    time_ns: int | None = None
    narrow: bool | None = None
    tick_bytes: float | None = None
    state: str | None = None
    rate: str | None = None
    values: dict[str, int] = field(default_factory=dict)
    #: Not 0: the values of all ports that are not listed, if the fabric has so many nodes.
    all_of: int = 0

    @property
    def name(self) -> str:
        """The port as the file names it."""
        node = f"{self.host} {self.device}" if self.host else f"{self.guid:#018x}"
        return f"port {self.port} of {node if self.guid or self.host else f'LID {self.lid}'}"


class FileReader:
    """The ports that are read of a file so far, and what was left out."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.ports: list[PortReading] = []
        self._left_out: dict[tuple[str, str, str], list[str]] = defaultdict(list)

    def fail(self, text: str, line: int) -> NoReturn:
        """Raise an error about a line."""
        raise InputError(text, file=self.file, line=line)

    def leave_out(self, item: str, noun: str, what: str, kind: str = "left out counters") -> None:
        """Note something that is left out."""
        self._left_out[noun, what, kind].append(item)

    def add(self, port: PortReading) -> None:
        """Add a port, unless it is the port 0 of a switch or the sum of all ports."""
        if 0 < port.port < ALL_PORTS:
            self.ports.append(port)
        else:
            what = "left out: port 0 of a switch and sums of all ports are not those of a cable"
            self.leave_out(port.name, "reading", what)

    def put(self, port: PortReading, name: str, value: int, line: int) -> None:
        """Add the value of a counter, whose name may be spelled as in any format."""
        column = column_of(name)
        if not column:
            self.leave_out(name, "value", "of counters that weft does not use, left out")
            return
        bits = COUNTERS[column].bits if port.narrow else 64
        if bits and value >> bits:
            self.fail(f"{name} is {value}, but the counter has {bits} bits", line)
        if port.values.setdefault(column, value) != value:
            self.fail(f"{name} of {port.name} occurs twice", line)

    def assume_utc(self, moment: ReadTime) -> int:
        """Return a time, and note if its zone was taken for UTC."""
        if moment.assumed_utc and not self._left_out["time", "", "assumed zone"]:
            self.leave_out("", "time", "", "assumed zone")
            text = "gives times without a zone that is known; they are taken for UTC"
            warn(self.file, text, kind="assumed zone")
        return moment.ns

    def done(self) -> list[PortReading]:
        """Warn of what was left out; return the ports."""
        for (noun, what, kind), items in self._left_out.items():
            if what:
                warn_of(self.file, list(dict.fromkeys(items)), noun, what, kind=kind)
        return self.ports
