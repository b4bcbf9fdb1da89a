"""States and rates of links, as ``iblinkinfo`` prints them; it has no counters."""

from __future__ import annotations

from weft.counters.formats.counter_format_registry import FileReader, PortReading, counter_reader
from weft.fabrics.formats.iblinkinfo import is_iblinkinfo, port_lines


@counter_reader("iblinkinfo", sniff=is_iblinkinfo)
def read(text: str, file: str) -> list[PortReading]:
    """Output of ``iblinkinfo``: the state and rate of each link, and no counters.

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
