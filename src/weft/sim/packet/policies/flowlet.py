"""Flowlets: bursts of packets of one flow that take the same candidate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.core.errors import InputError
from weft.core.units import Nanoseconds
from weft.fabrics import Fabric
from weft.kernels.hashing import splitmix64
from weft.kernels.lean import part_njit
from weft.kernels.records import record, record_type
from weft.routing.routes import CandidateRoutes
from weft.sim.common.times import picoseconds
from weft.sim.packet.policies.hashes import drawn
from weft.sim.packet.policies.policy_registry import Policy, policy

RULES = record_type(
    gap_ps="i8",  # idle time that ends a flowlet
    entries="i8",  # number of flowlets that each row stores
)

ENTRY = record_type(
    time_ps="i8",  # time of the last packet, -1 for none
    edge="i4",  # edge taken by that packet
)


class Flowlets(NamedTuple):
    """State of the policy: one `RULES` record, and `ENTRY` records [rows * entries]."""

    rules: Any
    entries: Any


def check_flowlets(gap: float, entries: int) -> None:
    """Refuse options of flowlets that are out of range."""
    if not 1 <= entries <= 2**20:
        raise InputError(f"entries must be 1 to {2**20}, not {entries}")
    if gap >= 1e12:
        raise InputError(f"gap must be below 1e12 ns, not {gap}")


def remembered(gap: float, entries: int, rows: int) -> Flowlets:
    """Return an empty table of `entries` flowlets for each row; the gap is in ns."""
    rules = record(RULES, gap_ps=int(picoseconds(gap)), entries=entries)
    return Flowlets(rules, np.full(rows * entries, -1, dtype=ENTRY))


@part_njit()
def entry_of(flowlets, row, flow):
    """Return the `ENTRY` of a row that a connection uses."""
    entries = flowlets.rules.entries
    index = row * entries + np.int64(splitmix64(np.uint64(flow)) % np.uint64(entries))
    return flowlets.entries[index]


@part_njit()
def place_of(net, first, several, edge):
    """Return the index of an edge among the candidates, -1 for none."""
    for at in range(several):
        if net.tables.candidates[first + at].edge == edge:
            return np.int64(at)
    return np.int64(-1)


@part_njit()
def taken_before(net, entry, gap_ps, first, several, now):
    """Return the flowlet's candidate; -1 after a gap or if the candidate is not available."""
    if entry.time_ps < 0 or now - entry.time_ps > gap_ps:
        return np.int64(-1)
    return place_of(net, first, several, entry.edge)


@part_njit()
def remember(net, entry, first, taken, now):
    """Store a packet's candidate in the entry of its flowlet."""
    entry.edge = net.tables.candidates[first + taken].edge
    entry.time_ps = now


@part_njit()
def choose(net, kept, slot, row, flow, first, several, now):
    """Return the candidate of the current flowlet; after a gap, draw a new candidate."""
    entry = entry_of(kept, row, flow)
    taken = taken_before(net, entry, kept.rules.gap_ps, first, several, now)
    if taken < 0:
        taken = drawn(net, None, slot, row, flow, first, several, now)
    remember(net, entry, first, taken, now)
    return taken


@policy("flowlet", choose=choose)
def flowlet(*, gap: Nanoseconds = 10_000.0, entries: int = 4096) -> Policy:
    """Packets in close succession take the same candidate; after a gap, a new candidate is drawn.

    Parameters
    ----------
    gap
        Longest time between packets of one flowlet.
    entries
        Number of flowlets that each node stores.

    Notes
    -----
    Source: Vanini et al. 2017 (LetFlow); here the time of the last packet replaces the age bit.
    """
    check_flowlets(gap, entries)

    def keep(fabric: Fabric, routes: CandidateRoutes) -> Flowlets:
        return remembered(gap, entries, fabric.graph.num_rows)

    return Policy(reorders=True, keep=keep)
