"""States and rates of links, as ``iblinkinfo`` prints them; it has no counters."""

from __future__ import annotations

from weft.counters.formats.record import FileReader, PortReading
from weft.fabrics.formats.iblinkinfo import port_lines


def read(text: str, file: str) -> list[PortReading]:
    """Return the ports of a file, with the state and rate of each link.

    Raises
    ------
    InputError
        If a line is neither heading, port nor message.
    """
    said = FileReader(file)
    for row, state in port_lines(text, file):
        end, rate = row.end, None if "?" in row.rate else row.rate
        said.add(PortReading(row.line, end.port, end.guid, end.lid, state=state, rate=rate))
    return said.done()
