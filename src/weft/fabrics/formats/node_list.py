"""Reader of lists of nodes (``ibswitches``, ``ibhosts``, ``ibnetdiscover -l``)."""

from __future__ import annotations

import re

from weft.fabrics.formats.diags import TYPES, entries, has_line
from weft.fabrics.formats.format_registry import reader
from weft.fabrics.formats.netlist import Netlist
from weft.fabrics.formats.records import node_record

_START = r"(?:Ca|Switch|Router|\?\?\?)\s*: 0x[0-9a-f]{16} ports \d"
#: ``Switch : 0x… ports 36 "leaf1" base port 0 lid 2 lmc 0``; ibnetdiscover lists the device instead
#: of the port.
_LINE = re.compile(
    r"(?P<type>Ca|Switch|Router|\?\?\?)\s*: 0x(?P<guid>[0-9a-f]{16}) ports (?P<ports>\d{1,3}) "
    r"(?:devid 0x(?P<device>[0-9a-f]{1,8}) vendid 0x(?P<vendor>[0-9a-f]{1,8}) )?"
    r'"(?P<name>.*)"(?: (?:enhanced|base) port 0 lid (?P<lid>\d{1,5}) lmc (?P<lmc>\d))?'
    r"(?: \(scp\))?",
    re.ASCII,
)


@reader("node-list", suffixes=(".nodes",), sniff=has_line(_START))
def read(text: str, file: str) -> Netlist:
    """Lists of nodes with their names, as of ``ibswitches``, ``ibhosts`` or ``ibnetdiscover -l``.

    They have no cables, so a file that has them must be given, too.

    Raises
    ------
    InputError
        If a line is neither that of a node nor a message, or contradicts another line.
    """
    net = Netlist(file, whole=False)
    for line, match in entries(
        text, file, _START, _LINE, "a line of ibswitches or ibhosts for each node"
    ):
        device, vendor = (int(match[name] or "0", 16) for name in ("device", "vendor"))
        net.add_node(
            node_record(
                line, TYPES[match["type"]], int(match["guid"], 16), match["name"],
                int(match["ports"]), lid=int(match["lid"] or -1), lmc=int(match["lmc"] or 0),
                vendor_id=vendor, device_id=device,
            )
        )  # fmt: skip
    return net
