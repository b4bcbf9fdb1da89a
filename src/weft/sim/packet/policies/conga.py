"""CONGA: paths of flowlets chosen by local congestion and by feedback of leaf switches.

A packet between two leaf switches is in a tunnel. The tunnel's header holds the source leaf, the
uplink chosen there (tag), the largest congestion of the links after that uplink (CE), and one
metric of the opposite direction (feedback tag and metric). In trees of three levels the middle
switches use a second tunnel inside the tunnel of the leaves. `PACKET.via` and `policy_a` hold the
leaves' tunnel, `policy_b` and `policy_c` the middle switches' tunnel. The first field of each pair
is the source row, -1 for none; the second is a word of four bytes: tag, CE, feedback tag, feedback
metric.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import InputError, NotApplicable
from weft.core.units import Nanoseconds
from weft.fabrics import Fabric
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.choice import DIRECT, UNDECIDED, draw
from weft.kernels.packet.lanes import kind_of
from weft.kernels.records import record, record_type
from weft.kernels.routing.tree_descent import first_not_down
from weft.routing.routes import CandidateRoutes
from weft.routing.structure.fat_tree import find_levels
from weft.sim.common.times import picoseconds
from weft.sim.packet.policies.flowlet import (
    Flowlets,
    check_flowlets,
    entry_of,
    place_of,
    remember,
    remembered,
)
from weft.sim.packet.policies.policy_registry import Policy, fixed, policy

#: Policy of the middle switches in trees of three levels.
Middle = Literal["conga", "ecmp"]

#: Largest number of levels of switches, and of uplinks of a switch, that the header supports.
_MOST_LEVELS = 3
_MOST_UPLINKS = 255


#: One switch of a tree; see `conga`.
TREE_ROW = record_type(
    first_cell="i8",  # index of the first cell of the switch's tables
    leaf="i4",  # index among leaf switches, -1 for other switches
    pod="i4",  # number of the switch's pod
    level="i1",  # level in the tree, counted from 0
)

RULES = record_type(
    levels="i8",  # number of values of a congestion metric
    tick_ps="i8",
    ageing_ps="i8",  # time after which metrics are halved
    leaf_uplinks="i8",  # columns of the tables of leaf switches
    middle_uplinks="i8",  # columns of the tables of middle switches
    middle_decides="i8",  # whether middle switches choose by congestion
    left="f8",  # factor by which each tick multiplies an estimate
    scale="f8",  # metric of an estimate of 1 byte on a link of 1 Gb/s
)

#: Cell of CONGA's tables, one for each peer and uplink.
CELL = record_type(
    heard_to_ps="i8",  # time of the last `metric_to`, -1 for never
    heard_from_ps="i8",  # time of the last `metric_from`, -1 for never
    metric_to="u1",  # congestion of the path to the peer, from the peer's feedback
    metric_from="u1",  # congestion of the path from the peer, from the CE of the peer's packets
    has_news="u1",  # `metric_from` has changed since it was last fed back
    last_fed="u1",  # in a peer's first cell: tag of the last feedback
)

#: Rate estimator of a link.
ESTIMATE = record_type(
    amount_bytes="f8",
    tick="i8",  # tick up to which the estimate is decayed
)


class Conga(NamedTuple):
    """State of CONGA."""

    #: One `RULES` record.
    rules: Any
    #: Flowlets of all rows.
    flowlets: Flowlets
    #: `TREE_ROW` of each row, `CELL` records, and `ESTIMATE` of each link.
    rows: Any
    cells: Any
    estimates: Any
    #: int16 [edges]: number of the edge among the uplinks of its row, -1 for a downlink.
    uplink: Any


#: Feedback tag of a packet without feedback.
NO_TAG = 255

#: Estimates below this count as 0, bytes.
NOTHING = 1.0


@lean_njit(forceinline=True)
def decayed(rules, estimate, until):
    """Decay an `ESTIMATE` up to a tick and return its bytes; `rules` is a `RULES`."""
    amount = estimate.amount_bytes
    left = rules.left
    for _ in range(until - estimate.tick):
        if amount < NOTHING:
            amount = 0.0
            break
        amount *= left
    estimate.amount_bytes = amount
    estimate.tick = until
    return amount


@lean_njit()
def congestion(rules, estimate, until, rate_gbps):
    """Return a link's metric, below `rules.levels`: its estimate relative to a full link."""
    amount = decayed(rules, estimate, until)
    return min(np.int64(amount * rules.scale / rate_gbps), rules.levels - 1)


@lean_njit()
def aged(metric, heard, now, ageing):
    """Return a metric, halved for each ageing time since its last update."""
    return np.int64(metric) >> min((now - heard) // ageing, np.int64(7))


@lean_njit()
def feedback(cells, base, uplinks, now, ageing):
    """Choose the metric that a packet feeds back, round robin; changed metrics come first.

    `cells`, `base`, `uplinks`: `CELL` records, index of the peer's first record, and number of the
    peer's records. `now`, `ageing`: ps.

    Returns tag and metric, in the two upper bytes of a word.
    """
    last = np.int64(cells[base].last_fed)
    known = np.int64(NO_TAG)
    for step in range(1, uplinks + 1):
        tag = last + step
        while tag >= uplinks:
            tag -= uplinks
        if cells[base + tag].heard_from_ps < 0:
            continue
        if cells[base + tag].has_news:
            known = tag
            break
        if known == NO_TAG:
            known = tag
    if known == NO_TAG:
        return np.int64(NO_TAG) << 16
    cell = cells[base + known]
    cells[base].last_fed = known
    cell.has_news = 0
    return known << 16 | aged(cell.metric_from, cell.heard_from_ps, now, ageing) << 24


@lean_njit()
def learn(cells, base, word, now):
    """Store the metrics of a packet at the end of its tunnel in the cells for the peer."""
    tag, seen = word & 0xFF, word >> 8 & 0xFF
    cell = cells[base + tag]
    if cell.heard_from_ps < 0 or cell.metric_from != seen:
        cell.has_news = 1
    cell.metric_from = seen
    cell.heard_from_ps = now
    fed = word >> 16 & 0xFF
    if fed != NO_TAG:
        cells[base + fed].metric_to = word >> 24 & 0xFF
        cells[base + fed].heard_to_ps = now


@lean_njit()
def marked(word, level):
    """Return a header word with CE raised to at least `level`."""
    seen = word >> 8 & 0xFF
    return word if seen >= level else (word & ~np.int64(0xFF00)) | level << 8


@part_njit()
def sent(net, kept, slot, link, size, now):
    """Update the rate estimate of a link, and the CE of tunnels that began before this switch.

    Links from and to hosts are ignored.
    """
    over = net.topology.links[link]
    row = np.int64(over.tail_row)
    if row < 0 or over.head_row < 0:
        return 0
    packet, rules, estimate = net.calendar.packets[slot], kept.rules, kept.estimates[link]
    until = now // rules.tick_ps
    estimate.amount_bytes = size + decayed(rules, estimate, until)
    level = congestion(rules, estimate, until, kind_of(net, link).rate_gbps)
    if packet.via != row:
        packet.policy_a = marked(np.int64(packet.policy_a), level)
    if packet.policy_b >= 0 and packet.policy_b != row:
        packet.policy_c = marked(np.int64(packet.policy_c), level)
    return 0


@part_njit()
def arrives(net, kept, slot, row, goal, now):
    """Store the metrics of those tunnels of a packet that end at this row."""
    packet = net.calendar.packets[slot]
    if packet.via == UNDECIDED:
        packet.policy_b = -1
        return DIRECT
    here = kept.rows[row]
    if packet.policy_b >= 0 and here.level == 1:
        peer = np.int64(kept.rows[packet.policy_b].pod)
        base = here.first_cell + peer * kept.rules.middle_uplinks
        learn(kept.cells, base, np.int64(packet.policy_c), now)
        packet.policy_b = -1
    if row == goal and packet.via >= 0:
        peer = np.int64(kept.rows[packet.via].leaf)
        base = here.first_cell + peer * kept.rules.leaf_uplinks
        learn(kept.cells, base, np.int64(packet.policy_a), now)
        packet.via = DIRECT
    return DIRECT


@part_njit()
def worst_of(net, kept, candidate, base, now):
    """Return the larger of an uplink's congestion and the congestion of the path after it."""
    rules, link = kept.rules, np.int64(candidate.link)
    rate_gbps = kind_of(net, link).rate_gbps
    here = congestion(rules, kept.estimates[link], now // rules.tick_ps, rate_gbps)
    cell = kept.cells[base + kept.uplink[candidate.edge]]
    if cell.heard_to_ps < 0:
        return here
    return max(here, aged(cell.metric_to, cell.heard_to_ps, now, rules.ageing_ps))


@part_njit()
def least_congested(
    net,
    kept,
    slot,
    row,
    entry,
    base,
    first,
    several,
    now,
):
    """Return the candidate with the least congestion; see `worst_of`.

    If several have the least, return the flowlet's previous candidate if it is among them, else a
    random one of them.
    """
    least = np.int64(2**62)
    ties = np.int64(0)
    skip = np.int64(0)
    cached = np.int64(-1)
    for again in range(2):
        if again:
            if cached >= 0:
                return cached
            skip = draw(net.rules.seed, np.int64(net.calendar.packets[slot].serial), row, ties)
        for at in range(several):
            candidate = net.tables.candidates[first + at]
            worst = worst_of(net, kept, candidate, base, now)
            if again:
                if worst == least:
                    if skip == 0:
                        return np.int64(at)
                    skip -= 1
                continue
            if worst < least:
                least = worst
                ties = 0
                cached = np.int64(-1)
            if worst == least:
                ties += 1
                if candidate.edge == entry.edge:
                    cached = np.int64(at)
    return np.int64(0)


@part_njit()
def choose(net, kept, slot, row, flow, first, several, now):
    """Return the flowlet's uplink, the least congested if it is new; downwards, draw by a hash."""
    packet, candidates = net.calendar.packets[slot], net.tables.candidates
    here, rules = kept.rows[row], kept.rules
    middle = here.level > 0
    if kept.uplink[candidates[first].edge] < 0 or (middle and not rules.middle_decides):
        return draw(net.rules.seed, flow, row, several)
    goal = kept.rows[net.tables.endpoints[packet.address].row]
    if middle:
        uplinks, peer = rules.middle_uplinks, np.int64(goal.pod)
    else:
        uplinks, peer = rules.leaf_uplinks, np.int64(goal.leaf)
    base = here.first_cell + peer * uplinks
    # The paper's age bit: a tick sets it, packets clear it, and a tick that finds it set ends the
    # flowlet. So a flowlet ends at the second tick after its last packet.
    entry, gap = entry_of(kept.flowlets, row, flow), kept.flowlets.rules.gap_ps
    taken = np.int64(-1)
    if entry.time_ps >= 0 and now // gap - entry.time_ps // gap <= 1:
        taken = place_of(net, first, several, entry.edge)
    if taken < 0:
        taken = least_congested(net, kept, slot, row, entry, base, first, several, now)
    remember(net, entry, first, taken, now)
    word = np.int64(kept.uplink[candidates[first + taken].edge])
    word |= feedback(kept.cells, base, uplinks, now, rules.ageing_ps)
    if middle:
        packet.policy_b = row
        packet.policy_c = word
    else:
        packet.via = row
        packet.policy_a = word
    return taken


@policy("conga", choose=choose, single=True, arrives=arrives, sent=sent)
def conga(
    *,
    gap: Nanoseconds = 500_000.0,
    entries: int = 4096,
    alpha: float = 0.1,
    t_dre: Nanoseconds = 16_000.0,
    bits: int = 3,
    ageing: Nanoseconds = 10_000_000.0,
    middle: Middle = "conga",
) -> Policy:
    """Flowlets take the uplink with the least congestion, measured locally and fed back by leaves.

    The policy applies to trees of two or three levels of switches; docs/policies.md has every rule.

    Parameters
    ----------
    gap
        T_fl: time between two checks of the age bits of flowlets.
    entries
        Number of flowlets that each switch stores.
    alpha, t_dre
        Part of a rate estimate that is subtracted at each tick, and time between ticks. The time
        constant of the estimate is t_dre / alpha.
    bits
        Number of bits of a congestion metric.
    ageing
        Time without an update after which a metric is halved; it is halved again after each further
        such time.
    middle
        Policy of the middle switches in trees of three levels: the leaf switches' policy
        (``conga``), or hashes (``ecmp``).

    Notes
    -----
    Source: Alizadeh et al. 2014. The defaults are those of this paper, except for the entries
    (65,536 there); of alpha and t_dre the paper gives only the quotient. Three levels: the paper
    Routing Keys.
    """
    check_flowlets(0.0, entries)
    if not 0 < alpha <= 1:
        raise InputError(f"alpha must be above 0 and at most 1, not {alpha}")
    if not 1 <= bits <= 7:
        raise InputError(f"bits must be 1 to 7, not {bits}")
    for name, value in (("gap", gap), ("t_dre", t_dre), ("ageing", ageing)):
        if not 0.001 <= value < 1e12:
            raise InputError(f"{name} must be 0.001 ns or more and below 1e12 ns, not {value}")
    tick_ps = int(picoseconds(t_dre))
    rules = record(
        RULES,
        levels=1 << bits,
        tick_ps=tick_ps,
        ageing_ps=int(picoseconds(ageing)),
        middle_decides=middle == "conga",
        left=1 - alpha,
        # Number of values divided by the bytes that a link of 1 Gb/s carries in t_dre / alpha.
        scale=(1 << bits) * 8000 * alpha / tick_ps,
    )
    return Policy(reorders=True, keep=partial(_keep, rules, gap, entries))


def _keep(usual: Any, gap: float, entries: int, fabric: Fabric, routes: CandidateRoutes) -> Conga:
    """Return levels, pods and uplinks of a tree, with empty tables."""
    graph = fabric.graph
    level = find_levels(fabric).astype(np.int64) - 1
    most = int(level.max())
    if not 1 <= most < _MOST_LEVELS:
        raise NotApplicable(
            f"policy conga is for trees of two or three levels of switches; {fabric.name} has "
            f"{most + 1}"
        )
    leaves = np.flatnonzero(level == 0)
    _check_up_down(fabric, routes, level, leaves)
    up = level[graph.edge_row] > level[graph.edge_tail]
    uplink = np.full(len(up), -1, dtype=np.int16)
    before = np.concatenate([[0], np.cumsum(up)])
    count = before[graph.edge_offset[1:]] - before[graph.edge_offset[:-1]]
    if count.max(initial=0) > _MOST_UPLINKS:
        raise NotApplicable(f"policy conga supports at most {_MOST_UPLINKS} uplinks of a switch")
    uplink[up] = (before[:-1] - before[graph.edge_offset[graph.edge_tail]])[up]
    pod = _pods(fabric, level)
    if usual["middle_decides"] and most == 2:
        _check_peers(fabric, level, pod)
    columns = [int(count[level == each].max(initial=0)) for each in (0, 1)]
    rules = usual.copy()
    rules["leaf_uplinks"], rules["middle_uplinks"] = columns
    size = np.zeros(graph.num_rows, dtype=np.int64)
    size[level == 0] = len(leaves) * columns[0]
    if usual["middle_decides"]:
        size[level == 1] = (int(pod.max()) + 1) * columns[1]
    rows = np.zeros(graph.num_rows, dtype=TREE_ROW)
    rows["first_cell"] = np.cumsum(size) - size
    rows["leaf"] = -1
    rows["leaf"][leaves] = np.arange(len(leaves))
    rows["pod"], rows["level"] = pod, level
    cells = np.zeros(max(int(size.sum()), 1), dtype=CELL)
    cells["heard_to_ps"] = cells["heard_from_ps"] = -1
    return Conga(
        rules,
        remembered(gap, entries, graph.num_rows),
        fixed(rows),
        cells,
        np.zeros(fabric.num_links, dtype=ESTIMATE),
        fixed(uplink),
    )


def _pods(fabric: Fabric, level: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the pod of each switch, int32 [rows]: its component if the third level is removed."""
    graph = fabric.graph
    inside = (level[graph.edge_tail] < 2) & (level[graph.edge_row] < 2)
    shape = (graph.num_rows, graph.num_rows)
    joined = coo_array(
        (np.ones(int(inside.sum())), (graph.edge_tail[inside], graph.edge_row[inside])), shape
    )
    label = connected_components(joined, directed=False)[1]
    pod: NDArray[np.int32] = np.unique(label, return_inverse=True)[1].astype(np.int32)
    return pod


def _check_up_down(
    fabric: Fabric, routes: CandidateRoutes, level: NDArray[np.int64], leaves: NDArray[Any]
) -> None:
    """Refuse routes that go up after going down."""
    graph = fabric.graph
    row, goal = first_not_down(
        leaves, routes.set_id, routes.set_offset, routes.set_edge, graph.edge_row, level
    )
    if row >= 0:
        names = (fabric.node_names[graph.row_node[each]] for each in (row, goal))
        raise NotApplicable(
            "policy conga expects routes that go up and then down; the {} routes of {} go both up "
            "and down, or up after down, at {}, towards {}".format(
                routes.engine, fabric.name, *names
            )
        )


def _check_peers(fabric: Fabric, level: NDArray[np.int64], pod: NDArray[np.int32]) -> None:
    """Refuse trees in which a middle switch reaches several switches of one pod by its uplinks.

    Feedback contains only the pod, so the switch could not tell the sources of feedback apart.
    """
    graph = fabric.graph
    climbs = (level[graph.edge_tail] == 1) & (level[graph.edge_row] == 2)
    pairs = coo_array(
        (np.ones(int(climbs.sum())), (graph.edge_tail[climbs], graph.edge_row[climbs])),
        (graph.num_rows, graph.num_rows),
    ).tocsr()
    one, other = (pairs @ pairs.T).nonzero()
    apart = pod[one] != pod[other]
    one, other = one[apart], other[apart]
    key = one.astype(np.int64) * (int(pod.max()) + 1) + pod[other]
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[order][1:] == key[order][:-1])
    if len(twice):
        at, first, second = (
            fabric.node_names[graph.row_node[int(row)]]
            for row in (one[order][twice[0]], *np.sort(other[order][twice[0] : twice[0] + 2]))
        )  # fmt: skip
        raise NotApplicable(
            f"policy conga in middle switches: {at} reaches both {first} and {second} of one pod "
            "and cannot tell their feedback apart; middle=ecmp uses hashes there"
        )
