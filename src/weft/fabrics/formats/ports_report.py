"""Reader of the ports report of ``ibnetdiscover -p``: one line for each port of each node."""

from __future__ import annotations

import re

from weft.fabrics import DEFAULT_RATE
from weft.fabrics.formats.diags import TYPES, End, Row, entries, has_line, port_net
from weft.fabrics.formats.format_registry import reader
from weft.fabrics.formats.netlist import Netlist

_START = r"(?:CA|SW|RT|\?\?)\s+\d{1,5}\s+\d{1,3}\s+0x[0-9a-f]{16} (?:\d{1,2}x|\?\?) "
#: ``CA 134 1 0x… 4x EDR - SW 1719 10 0x… ( 'node1 HCA-1' - 'leaf1' )``; a port without a cable has
#: the name of its node instead of another port.
_LINE = re.compile(
    r"(?P<type>CA|SW|RT|\?\?)\s+(?P<lid>\d{1,5})\s+(?P<port>\d{1,3})\s+0x(?P<guid>[0-9a-f]{16})"
    r"\s+(?P<width>\d{1,2}x|\?\?)\s+(?P<speed>\w{3,5}|\?{3})(?:\s+-\s+"
    r"(?P<far_type>CA|SW|RT|\?\?)\s+(?P<far_lid>\d{1,5})\s+(?P<far_port>\d{1,3})\s+"
    r"0x(?P<far_guid>[0-9a-f]{16})\s+\( '(?P<names>.*' - '.*)' \)|\s+'(?P<name>.*)')",
    re.ASCII,
)


@reader("ibnetdiscover-p", suffixes=(".ports",), sniff=has_line(_START))
def read(text: str, file: str, *, rate: str = DEFAULT_RATE) -> Netlist:
    """Ports report of ``ibnetdiscover -p``, with LIDs and rates.

    Parameters
    ----------
    rate
        Rate of cables whose lines do not state one.

    Raises
    ------
    InputError
        If a line is neither that of a port nor a message, or contradicts another line.
    """
    rows = []
    for line, match in entries(
        text, file, _START, _LINE, "a line of ibnetdiscover -p for each port"
    ):
        own, far = match["name"] or "", ""
        if match["names"] is not None:
            # Names may contain what stands between them; then neither is used.
            names = match["names"].split("' - '")
            own, far = names if len(names) == 2 else ("", "")
        peer = _end(match, far, "far_") if match["far_guid"] else None
        rows.append(Row(line, _end(match, own), match["width"] + match["speed"], peer))
    return port_net(file, rate, rows)


def _end(match: re.Match[str], name: str, of: str = "") -> End:
    numbers = int(match[f"{of}guid"], 16), int(match[f"{of}port"]), int(match[f"{of}lid"])
    return End(*numbers, name, TYPES[match[f"{of}type"]])
