"""Which device of a plan is which one of a fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.fabrics.cabling import Device


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
    by_guid, loosely, taken = len(pairs), [], set(pairs.values())
    for most, loose in ((1, False), (None, False), (None, True)):
        theirs = _by_name(found, most, loose)
        for name, mine in _by_name(planned, most, loose).items():
            others = theirs.get(name, [])
            if len(mine) == len(others) == 1 and mine[0] not in pairs and others[0] not in taken:
                pairs[mine[0]] = others[0]
                taken.add(others[0])
                loosely += [planned[mine[0]].name] * loose
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
