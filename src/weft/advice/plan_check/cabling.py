"""Devices and cables of a plan or a fabric, and which device of a plan is which one of a fabric."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.advice.plan_check.chains import End, Pair
from weft.core.counts import count_text
from weft.core.words import few
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats.cable_plan import CablePlan
from weft.fabrics.machines import adapter_parts

#: Name, card and chip in the description of a switch: ``MF0;sw1:MQM8700/U1``, ``…/L02/U1``.
_SWITCH = re.compile(
    r"(?:MF\d{1,2};)?(?P<name>[^:;/]+)(?::[^/]*)?(?:/(?P<card>[LS])(?P<number>\d{1,3}))?"
    r"(?:/U(?P<chip>\d{1,2}))?",
    re.ASCII,
)
_GUID = re.compile(r"(?:0[xX]|[SHR]-)?([0-9a-fA-F]{16})", re.ASCII)
#: Lower GUIDs were made by a program for a fabric without any: a manufacturer's number is missing.
_LEAST_GUID = 2**40


class Device(NamedTuple):
    """A switch, an adapter, or a device of a plan."""

    name: str
    #: Texts by which it may be known, the label first.
    names: tuple[str, ...]
    guid: int | None = None
    rack: str = ""
    unit: int | None = None
    kind: int | None = None
    #: What is inside one box has the same text here.
    box: str = ""


class Cable(NamedTuple):
    """A cable; the rate is NaN where unknown, nominal if its code is 0 and the cable is planned."""

    ends: Pair
    rate_gbps: float
    rate_code: int
    #: Line in the file of a plan.
    line: int | None = None


@dataclass
class Cabling:
    """Devices and cables; the ends of a cable have the numbers of devices in the list."""

    name: str
    devices: list[Device]
    cables: list[Cable]
    #: Whether it was read from a fabric, or built, and not from a list of cables.
    is_reading: bool = True
    #: Line and reason of the rows of a list that are not understood.
    refused: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def cabling_of_fabric(fabric: Fabric) -> Cabling:
    """Return the cabling of a fabric; numbers of devices are those of its nodes."""
    devices = []
    for node, (label, description) in enumerate(
        zip(fabric.node_names, fabric.descriptions, strict=True)
    ):
        kind = int(fabric.node_kind[node])
        guid, system = int(fabric.node_guid[node]), int(fabric.system_guid[node])
        names = [label, description.strip()]
        box = f"{system:#x}" if system else ""
        if kind == NodeKind.SWITCH:
            parts = _SWITCH.fullmatch(description.strip())
            if parts and parts["card"]:
                card, chip = f"{parts['card']}{int(parts['number'])}", int(parts["chip"] or 1)
                names.append(f"{parts['name']}/{card}/U{chip}")
                box = box or parts["name"]
            elif parts:
                names.append(parts["name"])
        elif known := adapter_parts(description.strip()):
            names.append(known[0])
        known_guid = guid if guid >= _LEAST_GUID and not fabric.family else None
        devices.append(Device(label, tuple(dict.fromkeys(names)), known_guid, kind=kind, box=box))
    ends = zip(
        fabric.link_from.tolist(), fabric.link_from_port.tolist(),
        fabric.link_to.tolist(), fabric.link_to_port.tolist(), strict=True,
    )  # fmt: skip
    pairs = [((a, p), (b, q)) for a, p, b, q in list(ends)[::2]]
    rates = zip(fabric.cable_rate_gbps.tolist(), fabric.cable_rate_code.tolist(), strict=True)
    cables = [Cable(pair, *rate) for pair, rate in zip(pairs, rates, strict=True)]
    return Cabling(fabric.name, devices, cables)


def cabling_of_plan(plan: CablePlan) -> Cabling:
    """Return the cabling of a list of cables."""
    numbers: dict[str, int] = {}
    devices: list[Device] = []
    cables = []
    for cable in plan.cables:
        ends: list[End] = []
        for end in cable.ends:
            if end.node not in numbers:
                numbers[end.node] = len(devices)
                guid = _GUID.fullmatch(end.node)
                devices.append(Device(end.node, (end.node,), int(guid[1], 16) if guid else None))
            number = numbers[end.node]
            known = devices[number]
            rack, unit = known.rack or end.rack, end.unit if known.unit is None else known.unit
            devices[number] = known._replace(rack=rack, unit=unit)
            ends.append((number, end.port))
        pair = (ends[0], ends[1])
        cables.append(Cable(pair, cable.rate_gbps, cable.rate_code, cable.line))
    notes = [f"{count_text(plan.repeated, 'row')} repeat a cable"] if plan.repeated else []
    if plan.not_rates:
        notes.append(f"rates that are not understood: {few(sorted(map(repr, plan.not_rates)))}")
    return Cabling(plan.name, devices, cables, False, plan.refused, notes)


class Matches(NamedTuple):
    """Devices of a plan that were found."""

    #: Number in the plan -> number in the fabric.
    pairs: dict[int, int]
    by_guid: int
    #: Names in the plan that fit only without regard to case and blanks.
    loosely: list[str]
    #: Number in the plan of a device without a match -> adapters found that have its name.
    several: dict[int, list[str]]


def match(planned: Sequence[Device], found: Sequence[Device]) -> Matches:
    """Match devices by GUID, then label, then any name, then any name without case and blanks.

    A name counts if just one device of each side has it.
    """
    guids = {device.guid: number for number, device in enumerate(found) if device.guid}
    pairs = {at: guids[each.guid] for at, each in enumerate(planned) if each.guid in guids}
    by_guid, loosely = len(pairs), []
    taken = set(pairs.values())
    for most, loose in ((1, False), (None, False), (None, True)):
        theirs = _by_name(found, most, loose)
        for name, (number, *others) in _by_name(planned, most, loose).items():
            named = theirs.get(name, [])
            if not others and len(named) == 1 and number not in pairs and named[0] not in taken:
                pairs[number] = named[0]
                taken.add(named[0])
                loosely += [planned[number].name] * loose
    every = _by_name(found, None, False)
    several = {
        number: [found[other].name for other in every[device.name]]
        for number, device in enumerate(planned)
        if number not in pairs and len(every.get(device.name, ())) > 1
    }
    return Matches(pairs, by_guid, loosely, several)


def _by_name(devices: Sequence[Device], most: int | None, loose: bool) -> dict[str, list[int]]:
    """Return the devices that have each name; `most`: number of names of a device that count."""
    known: dict[str, list[int]] = {}
    for number, device in enumerate(devices):
        names = device.names[:most]
        if loose:
            names = tuple({"".join(name.casefold().split()): 0 for name in names})
        for name in filter(None, names):
            known.setdefault(name, []).append(number)
    return known
