"""Paths via intermediates: for all packets (Valiant), or by comparison of loads (UGAL)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from weft.core.errors import InputError
from weft.core.units import Bytes
from weft.fabrics import Fabric
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.choice import DIRECT, UNDECIDED, draw
from weft.kernels.records import record, record_type
from weft.routing.routes import CandidateRoutes
from weft.routing.routes.intermediates import detours
from weft.sim.packet.policies.adaptive import BY, By, least_loaded, load_at
from weft.sim.packet.policies.hashes import drawn
from weft.sim.packet.policies.policy_registry import Policy, fixed, policy

RULES = record_type(
    by="i8",  # quantity that counts as load, as in `adaptive`
    threshold_bytes="i8",  # margin of the minimal path, bytes times links
    by_load="i8",  # whether loads decide; otherwise every packet takes an intermediate
)

#: The path from a row to an intermediate.
TO_VIA = record_type(
    set="i4",  # number of the set of candidates, -1 for none
    via_row="i4",  # row of the intermediate at which the path ends
    links="u1",  # length of the path
)


class Detours(NamedTuple):
    """Paths via intermediates; see `weft.routing.routes.CandidateRoutes`."""

    #: One `RULES` record.
    rules: Any
    #: int32 [rows]: the intermediate that each row belongs to, -1 for none.
    via: Any
    #: `TO_VIA` [intermediates, rows].
    to_via: Any
    #: uint8 [target rows, rows]: number of links to each target row from each row.
    links_to: Any


#: The state without any intermediates.
NO_DETOURS = Detours(
    record(RULES), fixed(np.zeros(1, np.int32)), fixed(np.zeros((1, 1), TO_VIA)),
    fixed(np.zeros((1, 1), np.uint8)),
)  # fmt: skip


@lean_njit(forceinline=True)
def drawn_via(seed, via, vias, serial, row, goal):
    """Return a random intermediate other than the intermediates of two rows."""
    low = min(via[row], via[goal])
    high = max(via[row], via[goal])
    # The offset makes this draw independent of the draws for candidates, which use the row's
    # number.
    drawn = draw(seed, serial, row + len(via), vias - 2)
    drawn += drawn >= low
    drawn += drawn >= high
    return drawn


@part_njit()
def least_loads(net, by, slot, row, minimal, around, now):
    """Return the least load among the candidates of each of two sets."""
    previous = np.int64(0)
    least = np.int64(2**62)
    for group in (minimal, around):
        previous = least
        least = np.int64(2**62)
        for at in range(net.tables.set_offset[group], net.tables.set_offset[group + 1]):
            least = min(least, load_at(net, by, slot, row, np.int64(at), now))
    return previous, least


@part_njit()
def decide(net, kept, slot, row, goal, now):
    """Return the intermediate of a packet at its first switch, or DIRECT for the minimal path."""
    rules = kept.rules
    own, other = kept.via[row], kept.via[goal]
    if own < 0 or other < 0 or own == other:
        return np.int64(DIRECT)
    serial = np.int64(net.calendar.packets[slot].serial)
    via = drawn_via(net.rules.seed, kept.via, len(kept.to_via), serial, row, goal)
    if not rules.by_load:
        return via
    detour = kept.to_via[via, row]
    minimal, around = np.int64(net.tables.set_id[goal, row]), np.int64(detour.set)
    if minimal < 0 or around < 0:
        return via
    near = np.int64(kept.links_to[goal, row])
    far = np.int64(detour.links) + kept.links_to[goal, detour.via_row]
    one, two = least_loads(net, rules.by, slot, row, minimal, around, now)
    more = (one * near - two * far) * net.rules.credit_bytes
    return np.int64(DIRECT) if more <= rules.threshold_bytes else via


@part_njit()
def arrives(net, kept, slot, row, goal, now):
    """Return the set of candidates towards the intermediate of a packet, or DIRECT."""
    packet = net.calendar.packets[slot]
    via = np.int64(packet.via)
    if via == UNDECIDED:
        via = decide(net, kept, slot, row, goal, now)
        packet.via = via
    elif via >= 0 and kept.via[row] == via:
        via = np.int64(DIRECT)
        packet.via = via
    return np.int64(kept.to_via[via, row].set) if via >= 0 else np.int64(DIRECT)


@part_njit()
def choose(net, kept, slot, row, flow, first, several, now):
    """Return the least loaded candidate."""
    return least_loaded(net, kept.rules.by, slot, row, first, several, now)


@policy("valiant", choose=drawn, arrives=arrives)
def valiant() -> Policy:
    """Each packet takes a path via a random intermediate, over random candidates.

    Notes
    -----
    Source: Valiant and Brebner 1981.
    """
    return Policy(reorders=True, by_intermediates=True, keep=_towards)


@policy("ugal", choose=choose, arrives=arrives)
def ugal(*, threshold: Bytes = 8192, by: By = "both") -> Policy:
    """Each packet takes the minimal path or a path via a random intermediate, depending on loads.

    For each of the two paths, the first switch multiplies the load of the path's first link by the
    path's number of links. It chooses the minimal path if that path's product is at most the other
    path's product plus the threshold. On the chosen path, every switch takes the candidate with the
    least load.

    Parameters
    ----------
    threshold
        Margin in bytes times links by which the product of the minimal path may be larger.
    by
        Quantity that counts as load, as in `adaptive`.

    Notes
    -----
    Source: Singh 2005; Kim, Dally, Scott and Abts 2008 (UGAL-L: the loads of the first switch).
    """
    if not 0 <= threshold <= 2**40:
        raise InputError(f"threshold must be 0 to {2**40} bytes, not {threshold}")
    return Policy(
        reorders=True, by_intermediates=True, keep=partial(_towards_and_lengths, by, threshold)
    )


def _towards(fabric: Fabric, routes: CandidateRoutes) -> Detours:
    """Return intermediates and the paths to them."""
    to_via = np.zeros(routes.via_set.shape, dtype=TO_VIA)
    to_via["set"] = routes.via_set
    return NO_DETOURS._replace(via=fixed(routes.via), to_via=fixed(to_via))


def _towards_and_lengths(
    by: By, threshold: int, fabric: Fabric, routes: CandidateRoutes
) -> Detours:
    """Return intermediates and the paths to them, with the path lengths that weight loads."""
    lengths_to, to_via, via_row = detours(fabric, routes)
    rules = record(RULES, by=BY.index(by), threshold_bytes=threshold, by_load=routes.direct)
    paths = np.zeros(to_via.shape, dtype=TO_VIA)
    paths["set"], paths["via_row"], paths["links"] = (
        routes.via_set, via_row, np.minimum(to_via, 255),
    )  # fmt: skip
    lengths = np.minimum(lengths_to, 255).astype(np.uint8)
    return Detours(rules, fixed(routes.via), fixed(paths), fixed(lengths))
