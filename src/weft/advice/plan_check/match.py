"""Which device of a plan is which one of a fabric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from weft.fabrics.cabling import Cable, Cabling, Device


class Matches(NamedTuple):
    """Devices of a plan that were found."""

    #: Number in the plan -> number in the fabric.
    pairs: dict[int, int]
    by_guid: int
    #: Numbers in the plan of devices that were matched by their cables alone.
    by_place: set[int]
    #: Names in the plan that fit only without regard to case and blanks.
    loosely: list[str]
    #: Number in the plan of a device without a match -> adapters found that have its name.
    several: dict[int, list[str]]


def match(plan: Cabling, there: Cabling) -> Matches:
    """Match devices by GUID, then label, then any name, then any name without case and blanks.

    A name counts if just one device of each side has it. A device that is left is the one, not
    matched either, to which all its cables lead, from and to the planned ports.
    """
    planned, found = plan.devices, there.devices
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
    by_place = _by_place(plan.cables, there.cables, pairs) if pairs else {}
    by_place = {number: at for number, at in by_place.items() if number not in several}
    return Matches(pairs | by_place, by_guid, set(by_place), loosely, several)


def _by_place(
    planned: Sequence[Cable], found: Sequence[Cable], pairs: Mapping[int, int]
) -> dict[int, int]:
    other = {end: there for cable in found for end, there in permutations(cable.ends)}
    taken = set(pairs.values())
    leads: dict[int, set[int | None]] = {}
    for cable in planned:
        for (number, port), (peer, peer_port) in permutations(cable.ends):
            if number not in pairs:
                there, there_port = other.get((pairs.get(peer, -1), peer_port), (None, None))
                same = there_port == port and there not in taken
                leads.setdefault(number, set()).add(there if same else None)
    one = {number: at for number, (at, *more) in leads.items() if at is not None and not more}
    count = Counter(one.values())
    return {number: at for number, at in one.items() if count[at] == 1}


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
