"""Adaptive policy: choose the candidate with the least load."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from weft.core.units import Nanoseconds
from weft.fabrics import Fabric
from weft.kernels.lean import part_njit
from weft.kernels.packet.choice import draw, lane_of
from weft.kernels.packet.lanes import credits_now
from weft.kernels.records import record, record_type
from weft.routing.routes import CandidateRoutes
from weft.sim.packet.policies.flowlet import (
    Flowlets,
    check_flowlets,
    entry_of,
    remember,
    remembered,
    taken_before,
)
from weft.sim.packet.policies.policy_registry import Policy, policy

#: Quantity that counts as load; kernels use its index in this list.
By = Literal["both", "queue", "credits"]
BY = get_args(By)
QUEUE, CREDITS = BY.index("queue"), BY.index("credits")

RULES = record_type(by="i8")


class Adaptive(NamedTuple):
    """State of the policy: one `RULES` record, and flowlets (not used if the gap is 0)."""

    rules: Any
    flowlets: Flowlets


def _kept(by: By, gap: float, entries: int, rows: int) -> Adaptive:
    flowlets = remembered(gap, entries, rows) if gap > 0 else remembered(0.0, 1, 1)
    return Adaptive(record(RULES, by=BY.index(by)), flowlets)


@part_njit()
def load_at(net, by, slot, row, at, now):
    """Return a candidate's load in credits: waiting packets, credits in use, or their sum."""
    candidate = net.tables.candidates[at]
    lane = net.lanes[candidate.link * net.rules.lanes + lane_of(net, slot, row, candidate)]
    amount = np.int64(0)
    if by != CREDITS:
        amount += np.int64(lane.routed_credits)
    if by != QUEUE:
        amount += net.rules.buffer_credits - credits_now(net.credits, lane, now)
    return amount


@part_njit()
def least_loaded(net, by, slot, row, first, several, now):
    """Return the candidate with the least load; ties are broken at random."""
    least = np.int64(2**62)
    ties = np.int64(0)
    loads = net.loads
    for at in range(several):
        amount = load_at(net, by, slot, row, first + at, now)
        loads[at] = amount
        if amount < least:
            least = amount
            ties = np.int64(1)
        elif amount == least:
            ties += 1
    skip = draw(net.rules.seed, np.int64(net.calendar.packets[slot].serial), row, ties)
    if ties == several:
        return skip
    for at in range(several):
        if loads[at] == least:
            if skip == 0:
                return np.int64(at)
            skip -= 1
    return np.int64(0)


@part_njit()
def choose(net, kept, slot, row, flow, first, several, now):
    """Return the least loaded candidate; with a gap, packets of a flowlet keep their candidate."""
    gap_ps = kept.flowlets.rules.gap_ps
    entry = entry_of(kept.flowlets, row if gap_ps else np.int64(0), flow)
    taken = np.int64(-1)
    if gap_ps:
        taken = taken_before(net, entry, gap_ps, first, several, now)
    if taken < 0:
        taken = least_loaded(net, kept.rules.by, slot, row, first, several, now)
    if gap_ps:
        remember(net, entry, first, taken, now)
    return taken


@policy("adaptive", choose=choose)
def adaptive(*, by: By = "both", gap: Nanoseconds = 0.0, entries: int = 4096) -> Policy:
    """Each packet takes the candidate with the least load at its current switch.

    Parameters
    ----------
    by
        Load of a candidate: the ``queue`` of packets that wait at this switch for the candidate's
        lane, the ``credits`` in use of that lane's buffer at the far end, or the sum of ``both``.
    gap
        Packets of a connection that follow each other within this time take the same candidate
        (InfiniBand's bounded adaptive routing); with 0, the choice is made for each packet (free).
    entries
        Number of flowlets that each node stores; only used with a gap.

    Notes
    -----
    Source: Mellanox, "HowTo Configure Adaptive Routing and SHIELD" (free and bounded).
    """
    check_flowlets(gap, entries)

    def keep(fabric: Fabric, routes: CandidateRoutes) -> Adaptive:
        return _kept(by, gap, entries, fabric.graph.num_rows)

    return Policy(reorders=True, keep=keep)
