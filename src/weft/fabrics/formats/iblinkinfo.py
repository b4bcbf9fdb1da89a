"""Reader of ``iblinkinfo``: every port of every node, under a heading for each or on one line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from weft.fabrics import DEFAULT_RATE
from weft.fabrics.formats.diags import TYPES, End, Row, entries, has_line, port_net, rate_of
from weft.fabrics.formats.format_registry import reader
from weft.fabrics.formats.netlist import Netlist

_START = r'\s*(?:0x[0-9a-f]{16}\s+)?(?:"[^"\n]*"\s+)?\d{1,5}\s+\d{1,3}\[[\d ]{0,4}\]\s+==\('
#: ``Switch: 0x… leaf1:``, ``CA: node1 HCA-1:``.
_HEADING = r"(?:Switch:? 0x(?P<switch>[0-9a-f]{16})|(?P<type>CA|Router|\?\?):)\s(?P<heading>.*):"
#: What libibmad prints for a value that it does not know.
_UNKNOWN = r"undefined \(\d+\)"
#: ``3 1[  ] ==( 4X 25.78125 Gbps Active/  LinkUp)==> 7 1[  ] "h2" (Could be 12X)``, with -l and for
#: adapters after a GUID. Down ports have no rate and no peer.
_PORT = (
    r'\s*+(?:0x(?P<guid>[0-9a-f]{16})\s++)?(?:"(?P<name>.*)"\s++)?(?P<lid>\d{1,5})\s++'
    r"(?P<port>\d{1,3})\[[\d ]{0,4}\]\s+==\(\s*+"
    rf"(?:(?P<width>\d{{1,2}}X|\?+|{_UNKNOWN})\s++(?P<speed>[\d.]+ Gbps(?: \(FDR10\))?"
    rf"|[A-Za-z]+ [A-Za-z ]+|{_UNKNOWN})\s++(?=\S+ ?/))?(?P<state>\w[\w ]*|{_UNKNOWN})/\s*"
    rf"(?P<physical>\w[\w ]*|{_UNKNOWN})\)(?: \(HOQ:\d+ VL_Stall:\d+\))?\s*==>\s*+(?:"
    r"(?:0x(?P<far_guid>[0-9a-f]{16})\s++)?(?P<far_lid>\d{1,5})\s++(?P<far_port>\d{1,3})"
    r'\[[\d ]{0,4}\]\s"(?P<far_name>.*)" \([^"]*\)'
    r'|\[\s*\]\s""\s\(\s*\)|"Port not available")'
)
_ANY_START = rf"{_START}|Switch:? 0x|(?:CA|Router|\?\?): "
_LINE = re.compile(f"{_HEADING}|{_PORT}", re.ASCII)

is_iblinkinfo = has_line(_START)


@reader("iblinkinfo", suffixes=(".iblinkinfo",), sniff=is_iblinkinfo)
def read(text: str, file: str, *, rate: str = DEFAULT_RATE) -> Netlist:
    """Output of ``iblinkinfo``, with or without ``-l``, ``-p`` and ``--switches-only``.

    Without ``-l``, the other end of a cable is known by LID and name only. Cables whose other end
    is not listed are left out, with a `FormatWarning`: with ``--switches-only`` those of adapters.

    Parameters
    ----------
    rate
        Rate of cables whose lines do not state one.

    Raises
    ------
    InputError
        If a line is neither heading, port nor message, or contradicts another line.
    """
    rows = [row for row, _ in port_lines(text, file)]
    return port_net(file, rate, *_resolved(rows))


def port_lines(text: str, file: str) -> Iterator[tuple[Row, str]]:
    """Yield each line about a port, and the states of its link, such as ``Active/LinkUp``."""
    heading = End(0, 0, -1)
    for line, match in entries(text, file, _ANY_START, _LINE, "a heading or a port of iblinkinfo"):
        if match["heading"] is not None:
            guid = int(match["switch"] or "0", 16)
            kind = TYPES[match["type"]] if match["type"] else "Switch"
            heading = End(guid, 0, -1, match["heading"], kind, line)
            continue
        own = _own(Netlist(file), line, match, heading)
        if heading.type == "Switch":
            heading = heading._replace(lid=own.lid)
        peer = None
        if match["far_lid"]:
            numbers = int(match["far_guid"] or "0", 16), int(match["far_port"])
            peer = End(*numbers, int(match["far_lid"]), match["far_name"])
        words = rate_of(match["width"] or "", match["speed"] or "")
        yield Row(line, own, words, peer), f"{match['state'].strip()}/{match['physical'].strip()}"


def _own(net: Netlist, line: int, match: re.Match[str], heading: End) -> End:
    """Return the port that a line is about."""
    numbers = int(match["port"]), int(match["lid"])
    if match["name"] is not None:
        if not match["guid"]:
            net.fail("a line of iblinkinfo -l without a GUID", line)
        return End(int(match["guid"], 16), *numbers, match["name"].lstrip(" "))
    if not heading.type or (heading.type == "Switch") == bool(match["guid"]):
        net.fail("this port is not one of the node in the heading above; a heading is lost", line)
    if heading.type != "Switch":
        return heading._replace(guid=int(match["guid"], 16), port=numbers[0], lid=numbers[1])
    if heading.lid not in (-1, numbers[1]):
        net.fail(
            f"LID {numbers[1]} of a switch with LID {heading.lid}; a heading may be lost", line
        )
    return heading._replace(port=numbers[0], lid=numbers[1])


def _resolved(rows: list[Row]) -> tuple[list[Row], list[str]]:
    """Return rows with the GUIDs of all peers, and the cables to peers whose GUID is not known."""
    guids: dict[tuple[int, str, int], set[int]] = defaultdict(set)
    for _, end, _, _ in rows:
        port = -1 if end.type == "Switch" else end.port
        guids[end.lid, end.name, port].add(end.guid)
    lost: dict[tuple[_Name, _Name], list[str]] = defaultdict(list)
    for at, (line, end, _, peer) in enumerate(rows):
        if not peer or peer.guid:
            continue
        found = guids[peer.lid, peer.name, peer.port] | guids[peer.lid, peer.name, -1]
        unique = len(found) == 1 and peer.lid > 0
        rows[at] = rows[at]._replace(peer=peer._replace(guid=min(found)) if unique else None)
        if not unique:
            lost[_name(end), _name(peer)].append(
                f"port {end.port} of {end.name} to LID {peer.lid} {peer.name!r} in line {line}"
            )
    cables: list[str] = []
    for (near, far), texts in lost.items():  # of a cable, one end or both
        back = len(lost[far, near]) if (far, near) in lost else 0
        if near == far:
            cables += texts[: (len(texts) + 1) // 2]
        elif (len(texts), near) > (back, far):
            cables += texts
    return rows, cables


_Name = tuple[int, str, int]


def _name(end: End) -> _Name:
    return end.lid, end.name, end.port
