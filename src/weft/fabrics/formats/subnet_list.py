"""Reader of OpenSM's dump of a fabric, ``opensm-subnet.lst``: one line per end of each cable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from weft.core.errors import InputError, source_name
from weft.core.files import read_text
from weft.fabrics import DEFAULT_RATE, NodeKind
from weft.fabrics.formats.format_registry import reader
from weft.fabrics.formats.labels import guid_id
from weft.fabrics.formats.netlist import Netlist, NodeRecord, PortRecord
from weft.fabrics.formats.records import node_record
from weft.fabrics.formats.session import without_session

#: One end of a cable. All numbers are hexadecimal, including the port and the number of ports; the
#: digits are upper-case in OpenSM's list and lower-case in that of ibdiagnet2. The limit of the
#: description, which has 64 bytes, keeps matching linear.
_END = (
    r"\{ (SW|CA|RT|\*\*)[A-Z-]* Ports:([0-9A-F]{1,2}) SystemGUID:([0-9A-F]{16}) "
    r"NodeGUID:([0-9A-F]{16}) PortGUID:([0-9A-F]{16}) VenID:([0-9A-F]{1,8}) "
    r"DevID:([0-9A-F]{1,8}) Rev:[0-9A-F]+ \{(.{0,255}?)\} LID:([0-9A-F]{1,4}) PN:([0-9A-F]{1,2}) \}"
)
#: Lists of old programs have no speed.
_LINE = re.compile(
    _END + " " + _END + r" PHY=(\S+) LOG=(\S+)(?: SPD=(\S+))?\s*", re.ASCII | re.IGNORECASE
)
#: Column SPD of ibdiagnet2 and OpenSM -> speed.
SPEEDS = {
    "2.5": "SDR", "5": "DDR", "10": "QDR", "FDR10": "FDR10", "14": "FDR", "25": "EDR",
    "50": "HDR", "100": "NDR", "200": "XDR",
}  # fmt: skip
_TYPE = {"SW": "Switch", "CA": "Ca"}


def is_subnet_list(text: str) -> bool:
    """Return whether the first line of a text, without comments, is one of opensm-subnet.lst."""
    head = re.match(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*+", text)
    return _LINE.match(text, head.end() if head else 0) is not None


@reader("opensm-subnet", suffixes=(".lst",), sniff=is_subnet_list)
def read(text: str, file: str, *, rate: str = DEFAULT_RATE) -> Netlist:
    """OpenSM's opensm-subnet.lst, or ibdiagnet2.lst: the fabric that was discovered, with LIDs.

    Parameters
    ----------
    rate
        Rate of cables whose lines do not state one, or the half of it that they lack.

    Raises
    ------
    InputError
        If a line is invalid or contradicts another; the message names file and line.
    """
    net = Netlist(file, rate)
    number: dict[int, int] = {}
    for line, near, far, width, state, speed in _ends(text, file):
        guid = int(near[3], 16)
        if guid not in number:
            number[guid] = len(net.nodes)
            net.add_node(_node(near, line))
        if state == "DWN":
            continue
        switch = near[0] == "SW"
        net.ports.append(
            PortRecord(
                line,
                number[guid],
                int(near[9], 16),
                _id(far),
                int(far[9], 16),
                net.rate(f"{width}{SPEEDS.get(speed, '?')}", line),
                -1 if switch else int(near[8], 16),
                0,
                None if switch else int(near[4], 16),
                int(far[8], 16),
                None if far[0] == "SW" else int(far[4], 16),
            )
        )
    return net


@dataclass(frozen=True)
class DiscoveredSubnet:
    """Ports and cables that OpenSM discovered in its last sweep."""

    #: Base LID by port GUID (port 0 of a switch, ports of adapters); 0 for none.
    lid: dict[int, int]
    #: Port GUID and port number at one end and at the other; each cable is listed in both
    #: directions.
    cables: set[tuple[int, int, int, int]]


def read_seen(path: Path) -> DiscoveredSubnet:
    """Return the ports, LIDs and cables that ``opensm-subnet.lst`` lists."""
    return _seen(without_session(read_text(path), source_name(path)), str(path))


@lru_cache(maxsize=1)  # most sweeps of OpenSM see what the one before did
def _seen(text: str, file: str) -> DiscoveredSubnet:
    seen = DiscoveredSubnet({}, set())
    for _, near, far, _, state, _ in _ends(text, file):
        guid = int(near[4], 16)
        seen.lid[guid] = int(near[8], 16)
        if state != "DWN":
            seen.cables.add((guid, int(near[9], 16), int(far[4], 16), int(far[9], 16)))
    return seen


_End = tuple[str, ...]


def _ends(text: str, file: str) -> Iterator[tuple[int, _End, _End, str, str, str]]:
    """Iterate over line number, both ends, width, state and speed of each line."""
    for line, cable in enumerate(text.splitlines(), 1):
        if not cable.strip() or cable.startswith("#"):
            continue
        match = _LINE.fullmatch(cable)
        if match is None:
            raise InputError(
                "expected both ends of a cable as in OpenSM's opensm-subnet.lst", file=file,
                line=line,
            )  # fmt: skip
        fields = match.groups("?")
        near, far = ((fields[at].upper(), *fields[at + 1 : at + 10]) for at in (0, 10))
        yield line, near, far, fields[20].lower(), fields[21].upper(), fields[22].upper()


def _id(end: tuple[str, ...]) -> str:
    kind = NodeKind.SWITCH if end[0] == "SW" else NodeKind.HOST
    return guid_id(kind, int(end[3], 16), router=end[0] not in _TYPE)


def _node(end: tuple[str, ...], line: int) -> NodeRecord:
    return node_record(
        line, _TYPE.get(end[0], "Rt"), int(end[3], 16), end[7], int(end[1], 16),
        lid=int(end[8], 16), port_guid=int(end[4], 16), system_guid=int(end[2], 16),
        vendor_id=int(end[5], 16), device_id=int(end[6], 16),
    )  # fmt: skip
