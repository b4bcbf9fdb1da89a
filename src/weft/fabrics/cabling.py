"""Devices and cables, of a fabric or of a list of cables, with what identifies a device."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.fabrics.arrays import NodeKind
from weft.fabrics.fabric import Fabric
from weft.fabrics.machines import adapter_parts

#: A port: number of the device, then of the port.
End = tuple[int, int]
Pair = tuple[End, End]

#: Name, line card and chip in the description of a switch: ``MF0;sw1:MQM8700/U1``, ``…/L02/U1``.
_SWITCH = re.compile(
    r"(?:MF\d{1,2};)?(?P<name>[^:;/]+)(?::[^/]*)?(?:/(?P<card>[LS])(?P<number>\d{1,3}))?"
    r"(?:/U(?P<chip>\d{1,2}))?",
    re.ASCII,
)
#: GUIDs below it have no manufacturer's number: a program has made them for want of others.
_LEAST_GUID = 2**40


class Device(NamedTuple):
    """A switch, an adapter, or a device of a list."""

    name: str
    #: All names by which it is known, the label first.
    names: tuple[str, ...]
    guid: int | None = None
    rack: str = ""
    unit: int | None = None
    kind: int | None = None
    #: The same text for all devices in one box.
    box: str = ""


class Cable(NamedTuple):
    """A cable; its rate is NaN if it is not known, and perhaps that of the signals if nominal."""

    ends: Pair
    rate_gbps: float
    rate_code: int
    nominal: bool = False
    #: Line in the file of a list.
    line: int | None = None


@dataclass
class Cabling:
    """Devices and cables; each row of a list is a cable, repeats one, or is refused."""

    name: str
    devices: list[Device] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)
    #: Whether it is a list of cables, which may leave out hosts and what is inside a chassis.
    is_list: bool = False
    rows: int = 0
    repeated: int = 0
    #: Line and reason of the rows that are not understood.
    refused: list[tuple[int, str]] = field(default_factory=list)
    #: Rate that some cables got for want of one in the file; NaN if none did.
    assumed_gbps: float = math.nan
    #: Texts of rates that are not understood.
    not_rates: set[str] = field(default_factory=set)


def chip_name(chassis: str, card: str, chip: str) -> str:
    """Return the name of a switch chip on a line card such as L02 of a chassis."""
    return f"{chassis}/{card[0].upper()}{int(card[1:])}/U{int(chip)}"


def cabling_of(fabric: Fabric, assumed_gbps: float = math.nan) -> Cabling:
    """Return the cabling of a fabric; numbers of devices are those of its nodes."""
    cabling = Cabling(fabric.name, assumed_gbps=assumed_gbps)
    for node, label in enumerate(fabric.node_names):
        description, kind = fabric.descriptions[node].strip(), int(fabric.node_kind[node])
        guid, system = int(fabric.node_guid[node]), int(fabric.system_guid[node])
        box, name = f"{system:#x}" if system else "", ""
        if kind == NodeKind.SWITCH and (parts := _SWITCH.fullmatch(description)):
            name = parts["name"]
            if parts["card"]:
                box = box or name
                name = chip_name(name, parts["card"] + parts["number"], parts["chip"] or "1")
        elif known := adapter_parts(description):
            name = known[0]
        names = tuple(dict.fromkeys((label, description, name)))
        made = bool(fabric.family) or guid < _LEAST_GUID
        cabling.devices.append(Device(label, names, None if made else guid, kind=kind, box=box))
    links = fabric.links[::2].tolist()
    rates = zip(fabric.cable_rate_gbps.tolist(), fabric.cable_rate_code.tolist(), strict=True)
    cabling.cables = [
        Cable(((a, p), (b, q)), *rate) for (a, p, b, q, _), rate in zip(links, rates, strict=True)
    ]
    return cabling
