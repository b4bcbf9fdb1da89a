"""valiant: paths via a random intermediate, a group of switches or a single switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.engine_registry import engine, row_sources
from weft.routing.lane_assignment import MaxVls
from weft.routing.routes import MAX_VLS, CandidateRoutes, Routes
from weft.routing.routes.candidate_sets import SetCollector
from weft.routing.structure.groups import find_dragonfly, find_grid, find_megafly, group_distances

_FAR = np.int32(2**30)


@engine("valiant", deadlock_free=True, lmc=False, candidates=True)
def valiant(fabric: Fabric, *, max_vls: MaxVls = 8) -> Routes:
    """Route by Valiant's algorithm: every packet is sent via a random intermediate.

    On dragonflies and megaflies the intermediate is a group that contains neither source nor
    destination; on other networks it is a switch to which neither of the two is attached. Both
    phases use the paths with the fewest cables between groups, and of these the shortest; on
    HyperX they use paths in dimension order. On a megafly the first phase ends at any leaf of the
    intermediate group. Traffic within one group has no intermediate. On networks without groups,
    traffic within one switch has none.

    Parameters
    ----------
    fabric
        A dragonfly, megafly or HyperX, recognised without labels, or any other network, such as a
        Slim Fly, whose switches do not form a tree and whose diameter is small enough for the
        lanes. Groups without a cable between them are allowed: their packets pass through a third
        group.
    max_vls
        Number of available virtual lanes. Complete dragonflies need 3, megaflies and HyperX 2, and
        other networks two for each hop between their most distant switches (4 on a Slim Fly).

    Raises
    ------
    NotApplicable
        If the fabric is none of these networks, or max_vls is too low.
    InputError
        If max_vls is not 1 to 15.

    Notes
    -----
    The lane increases with the phase and, within a phase, with each cable between groups, or
    between switches if there are no groups; local cables after the last cable between groups have
    a separate lane. On a complete megafly a phase goes up, across and down, which needs one lane.

    Source: Valiant and Brebner 1981; Kim, Dally, Scott and Abts 2008 (dragonfly, VAL); Flajslik
    et al. 2018 (megafly); Ahn et al. 2009 (HyperX); Besta and Hoefler 2014 (Slim Fly, with lanes
    by hops after Gopal 1985).
    """
    return around(fabric, "valiant", max_vls, direct=False)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Candidates via intermediates for one kind of network."""

    #: Kind of the network, and text that describes it.
    kind: str
    note: str
    #: As `DragonflyGroups.gap`: empty if every pair of groups has a cable.
    gap: str
    #: int32 [rows]: see `CandidateRoutes.via`.
    via: NDArray[np.int32]
    #: Number of lanes.
    lanes: int
    #: One int8 [edges] array per intermediate, then one per row, and with turns another one per
    #: row: see `SetCollector.add`.
    lines: Iterator[NDArray[np.int8]]


def around(
    fabric: Fabric,
    name: str,
    max_vls: int,
    *,
    direct: bool,
    plan_of: Callable[[Fabric], _Plan] | None = None,
) -> CandidateRoutes:
    """Return candidates via intermediates.

    With `direct`, packets may also be sent without one. `plan_of`: the plan of one kind of network,
    by default of the kind that fits best.
    """
    plan = (plan_of or _plan)(fabric)
    vias = int(plan.via.max()) + 1
    if vias < 3:
        raise NotApplicable(
            f"a {plan.kind} needs at least 3 switches or groups as intermediates, not {vias}"
        )
    if max_vls < plan.lanes:
        raise NotApplicable(
            f"a {plan.kind} needs {plan.lanes} lanes, but max_vls is {max_vls} ({plan.note})"
        )
    sets = SetCollector(fabric)
    for line in plan.lines:
        sets.add(line)
    number, offset, edge, lane = sets.collect()
    rows = fabric.graph.num_rows
    return CandidateRoutes(
        name,
        fabric.digest,
        notes=(plan.note,),
        set_id=number[vias : vias + rows].copy(),
        set_offset=offset,
        set_edge=edge,
        set_lane=lane,
        via=plan.via,
        via_set=number[:vias].copy(),
        direct=direct,
        turn_set=number[vias + rows :].copy(),
    )


def _plan(fabric: Fabric) -> _Plan:
    """Return the first plan without a gap between groups, else the plan with the fewest lanes."""
    plans, reasons = [], []
    for plan_of in (_hyperx, megafly_plan, dragonfly_plan, _low_diameter):
        try:
            plans.append(plan_of(fabric))
        except NotApplicable as reason:
            reasons.append(str(reason))
            continue
        if not plans[-1].gap:
            break
    if not plans:
        raise NotApplicable("; ".join(reasons))
    return min(plans, key=lambda plan: plan.lanes)


def _hyperx(fabric: Fabric) -> _Plan:
    try:
        where = find_grid(fabric)
    except NotApplicable as reason:
        raise NotApplicable(f"not a HyperX: {reason}") from None
    size = "x".join(str(int(most) + 1) for most in where.max(axis=0))
    rows = np.arange(len(where), dtype=np.int32)
    note = f"found a HyperX of {size} switches"
    return _Plan("HyperX", note, "", rows, 2, _grid_lines(fabric, where))


def _grid_lines(fabric: Fabric, where: NDArray[np.int32]) -> Iterator[NDArray[np.int8]]:
    """Yield dimension-order candidates to each switch as intermediate, then as destination."""
    graph = fabric.graph
    tail, head = graph.edge_tail, graph.edge_row
    along = (where[tail] != where[head]).argmax(axis=1)
    aligned = where[head, along]
    for lane in (0, 1):
        for target in where:
            next_dimension = (where != target).argmax(axis=1)
            here = np.all(where == target, axis=1)
            chosen = (along == next_dimension[tail]) & (aligned == target[along]) & ~here[tail]
            yield np.where(chosen, lane, -1).astype(np.int8)


def megafly_plan(fabric: Fabric) -> _Plan:
    """Return the plan of a megafly, whose intermediates are its groups."""
    try:
        groups = find_megafly(fabric)
    except NotApplicable as reason:
        raise NotApplicable(f"not a megafly: {reason}") from None
    leaves = groups.tier == 0
    note = (
        f"found a megafly of {groups.num_groups} groups, {int(leaves.sum())} leaves and "
        f"{int((~leaves).sum())} spines"
    )
    via = np.where(leaves, groups.group, -1).astype(np.int32)
    return _by_groups(fabric, "megafly", note, groups.group, via, groups.gap)


def dragonfly_plan(fabric: Fabric, *, turns: bool = False) -> _Plan:
    """Return the plan of a dragonfly, whose intermediates are its groups.

    With `turns`, direct packets may still turn to an intermediate after a hop in their group.
    """
    try:
        groups = find_dragonfly(fabric)
    except NotApplicable as reason:
        raise NotApplicable(f"not a dragonfly: {reason}") from None
    size = len(groups.group) // groups.num_groups
    note = f"found a dragonfly of {groups.num_groups} groups of {size} switches"
    return _by_groups(
        fabric, "dragonfly", note, groups.group, groups.group, groups.gap, turns=turns
    )


def _low_diameter(fabric: Fabric) -> _Plan:
    """Return a plan in which every switch with hosts is an intermediate and a separate group."""
    graph = fabric.graph
    hosts = row_sources(fabric) > 0
    if graph.num_rows != fabric.num_switches or not hosts.any():
        raise NotApplicable("the fabric has no switches with hosts, or hosts that forward")
    first = np.arange(len(hosts)) == hosts.argmax()
    far = _distances(fabric, first, np.ones(len(graph.edge_row), dtype=np.int32))
    level = far % 2
    if not hosts.all() and np.all(level[graph.edge_tail] != level[graph.edge_row]):
        raise NotApplicable("the switches form a tree, whose minimal paths already use all roots")
    reach = int(far[hosts].max())
    if 2 * reach > MAX_VLS:
        apart = "not all connected" if reach == _FAR else f"in part {reach} or more hops apart"
        raise NotApplicable(
            f"the switches are {apart}; two phases need a lane for each hop, but at most "
            f"{MAX_VLS} lanes exist"
        )
    via = np.where(hosts, np.cumsum(hosts) - 1, -1).astype(np.int32)
    rows = np.arange(graph.num_rows, dtype=np.int32)
    note = f"found no groups: each of {int(hosts.sum())} switches with hosts is an intermediate"
    return _by_groups(fabric, "network without groups", note, rows, via)


def _by_groups(
    fabric: Fabric,
    kind: str,
    note: str,
    group: NDArray[np.int32],
    via: NDArray[np.int32],
    gap: str = "",
    *,
    turns: bool = False,
) -> _Plan:
    """Return a plan of paths with the fewest cables between groups, and of these the fewest hops.

    `fabric`, `kind`, `note`, `via`, `gap`: the fabric, and fields of `_Plan`. `group` [rows]: the
    group of each row; cables within a group are local. `turns`: whether packets may turn to an
    intermediate after a local cable, which then has lane 0; the groups must be cliques, so that it
    is one cable.
    """
    graph = fabric.graph
    if len(np.unique(fabric.graph.components[via >= 0])) > 1:
        raise NotApplicable(f"{note}, but the switches are not all connected")
    ends = np.unique(group[via >= 0])
    hops = int(group_distances(fabric, group)[np.ix_(ends, ends)].max())
    if gap:
        note += f"; {gap}, so packets between such groups pass through a third group"
    inner = group[graph.edge_tail] == group[graph.edge_row]
    # Leaves have only local cables, so paths up, across and down close no cycle in one lane.
    one_lane = hops == 1 and bool(np.any(via < 0))
    first = hops + int(not one_lane and bool(np.any(inner & (via[graph.edge_row] < 0))))
    lanes = first + hops + int(not one_lane and bool(inner.any()))
    # In one lane, spines without a cable to the target group must not send down what goes up again.
    most = len(group) + 1 if one_lane else int(_FAR)
    lines = _group_lines(fabric, group, via, (hops, first, lanes), most)
    if turns:
        lines, lanes = _turn_lines(fabric, group, lines), lanes + 1
    return _Plan(kind, note, gap, via, lanes, lines)


def _turn_lines(
    fabric: Fabric, group: NDArray[np.int32], lines: Iterator[NDArray[np.int8]]
) -> Iterator[NDArray[np.int8]]:
    """Yield lines with lanes from 1 on; then those to rows of other groups, local cables on 0."""
    graph = fabric.graph
    tail, inner = group[graph.edge_tail], group[graph.edge_tail] == group[graph.edge_row]
    raised = [np.where(line >= 0, line + 1, -1).astype(np.int8) for line in lines]
    yield from raised
    for own, line in zip(group, raised[-len(group) :], strict=True):
        turn = np.where(inner & (line >= 0), 0, line)
        yield np.where(tail == own, -1, turn).astype(np.int8)


def _group_lines(
    fabric: Fabric,
    group: NDArray[np.int32],
    via: NDArray[np.int32],
    limits: tuple[int, int, int],
    most: int,
) -> Iterator[NDArray[np.int8]]:
    """Yield the candidates to each intermediate, then to each row, as for `SetCollector.add`.

    Only rows of intermediates have candidates. The lane increases with each cable between groups.
    `limits` are the maximum number of such cables in a phase, and the numbers of lanes of the first
    phase and of both phases. Switches without hosts that are farther than `most` from the target
    have no candidates.
    """
    hops, first, lanes = limits
    graph = fabric.graph
    # One cable between groups weighs more than all local cables of a path.
    between = len(group)
    weight = np.where(group[graph.edge_tail] == group[graph.edge_row], 1, between).astype(np.int32)
    goals = [(0, first, via == v) for v in range(int(via.max()) + 1)]
    goals += [(first, lanes, np.arange(len(via)) == row) for row in range(len(via))]
    for base, end, goal in goals:
        line = np.full(len(weight), -1, dtype=np.int8)
        if np.any(via[goal] >= 0):
            far = _distances(fabric, goal, weight)
            left = far // between
            far[(left > hops) | ((via < 0) & (far > most))] = -_FAR  # no packet arrives there
            chosen = np.flatnonzero(far[graph.edge_tail] == weight + far[graph.edge_row])
            lane = np.minimum(base + hops - left, end - 1)
            line[chosen] = lane[graph.edge_tail[chosen]]
        yield line


def _distances(
    fabric: Fabric, goal: NDArray[np.bool_], weight: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return the least weight of a path from each row to any goal, int32 [rows], or `_FAR`."""
    graph = fabric.graph
    far = np.where(goal, np.int32(0), _FAR)
    cabled = np.flatnonzero(np.diff(graph.edge_offset))
    first = graph.edge_offset[cabled]
    while len(first):
        through = np.minimum.reduceat(weight + far[graph.edge_row], first)
        if np.all(through >= far[cabled]):
            break
        far[cabled] = np.minimum(far[cabled], through)
    return far
