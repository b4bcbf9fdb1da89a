"""valiant: by way of a random intermediate, a group of switches or a single one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routes import MAX_VLS, CandidateRoutes, Routes
from weft.routing.engine_registry import components, engine, provenance, row_sources
from weft.routing.lane_assignment import check_vls
from weft.routing.structure.groups import find_dragonfly, find_grid, find_megafly, group_distances


class SetCollector:
    """Gathers the sets of many lines; a line gives the set of every row for one target.

    Parameters
    ----------
    fabric
        Whose edges they are.
    """

    def __init__(self, fabric: Fabric):
        self._graph = fabric.graph
        self._rows: list[NDArray[np.int64]] = []
        self._counts: list[NDArray[np.int64]] = []
        self._edges: list[NDArray[np.int32]] = []
        self._lanes: list[NDArray[np.uint8]] = []

    def add(self, lane_of_edge: NDArray[np.int8]) -> None:
        """Add a line, given as the lane on which each edge belongs to its tail's set, -1 for none.

        Parameters
        ----------
        lane_of_edge
            int8 [edges].
        """
        edges = np.flatnonzero(lane_of_edge >= 0).astype(np.int32)
        rows, counts = np.unique(self._graph.edge_tail[edges], return_counts=True)
        self._rows.append(rows.astype(np.int64) + len(self._rows) * self._graph.num_rows)
        self._counts.append(counts.astype(np.int64))
        self._edges.append(edges)
        self._lanes.append(lane_of_edge[edges].astype(np.uint8))

    def collect(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
        """All lines so far: set numbers int32 [lines, rows], and the sets' CSR and lanes."""
        self._graph.need_memory(len(self._rows), 4, "candidate sets")
        lines = np.full((len(self._rows), self._graph.num_rows), -1, dtype=np.int32)
        if not self._rows or not sum(map(len, self._edges)):
            empty = np.zeros(0, dtype=np.int32)
            return lines, np.zeros(1, dtype=np.int32), empty, np.zeros(0, dtype=np.uint8)
        where, counts = np.concatenate(self._rows), np.concatenate(self._counts)
        edges, lanes = np.concatenate(self._edges), np.concatenate(self._lanes)
        first = np.cumsum(counts) - counts
        # Sets are told apart by a sum of random numbers, one for each edge and lane, and then
        # member by member: a set that only looks like another one stays apart.
        random = np.random.default_rng(0).integers(
            0, 2**63, (len(self._graph.edge_row), int(lanes.max()) + 1), dtype=np.uint64
        )
        code = np.add.reduceat(random[edges, lanes], first)
        _, kept, number = np.unique(code, return_index=True, return_inverse=True)
        alike = kept[number]
        same = counts == counts[alike]
        owner = np.repeat(np.arange(len(counts)), counts)
        twin = np.minimum(
            first[alike][owner] + np.arange(len(edges)) - first[owner], len(edges) - 1
        )
        differs = owner[(edges != edges[twin]) | (lanes != lanes[twin])]
        same[differs] = False
        kept = np.concatenate((kept, np.flatnonzero(~same)))
        number[~same] = np.arange(len(kept) - int((~same).sum()), len(kept))
        lines.reshape(-1)[where] = number
        offset = np.concatenate(([0], np.cumsum(counts[kept]))).astype(np.int32)
        listed = np.repeat(first[kept] - offset[:-1], counts[kept]) + np.arange(int(offset[-1]))
        return lines, offset, edges[listed], lanes[listed]


_FAR = np.int32(2**30)


@engine("valiant", deadlock_free=True, lmc=False, candidates=True)
def valiant(fabric: Fabric, *, max_vls: int = 8) -> Routes:
    """Valiant's randomised routing: every packet goes by a random intermediate first.

    On dragonflies and megaflies the intermediate is a group other than those of source and
    destination, elsewhere a switch other than theirs. Both phases take shortest paths: those of
    fewest cables between groups, and of these the shortest; dimension by dimension on HyperX. On
    a megafly packets turn on any leaf of the group. Traffic within one group, on other networks
    within one switch, goes straight.

    Parameters
    ----------
    fabric
        A dragonfly, megafly or HyperX, recognised without labels, or any other network whose
        switches are close enough for the lanes and do not form a tree, such as a Slim Fly. Groups
        may lack direct cables to others: packets between them pass through a third group.
    max_vls
        Virtual lanes that there are. Complete dragonflies need 3, megaflies and HyperX 2, and
        other networks two for each hop between their most distant switches, 4 on a Slim Fly.

    Raises
    ------
    NotApplicable
        On anything else, with what is missing, and when max_vls is too low.
    InputError
        When max_vls is not 1 to 15.

    Notes
    -----
    The lane of a packet grows with its phase and, within a phase, with each cable between groups,
    or between switches where there are no groups; local cables after the last one have a lane of
    their own. On a complete megafly a phase goes up, across and down, which needs one lane.

    Source: Valiant and Brebner 1981; Kim, Dally, Scott and Abts 2008 (dragonfly, VAL); Flajslik
    et al. 2018 (megafly); Ahn et al. 2009 (HyperX); Besta and Hoefler 2014 (Slim Fly, with lanes
    by hops after Gopal 1985).
    """
    return around(fabric, "valiant", max_vls, direct=False)


@dataclass(frozen=True, eq=False)
class _Plan:
    """How packets go by intermediates.

    Parameters
    ----------
    kind, note
        Of network, and what was found.
    gap
        Of `Groups`: empty when nothing is missing.
    via
        int32 [rows]: see `CandidateRoutes.via`.
    lanes
        How many there are.
    lines
        int8 [edges] each: see `SetCollector.add`; to each intermediate, then to each row.
    """

    kind: str
    note: str
    gap: str
    via: NDArray[np.int32]
    lanes: int
    lines: Iterator[NDArray[np.int8]]


def around(fabric: Fabric, name: str, max_vls: int, *, direct: bool) -> CandidateRoutes:
    """Candidates by way of intermediates; with `direct` packets may also go straight."""
    check_vls(max_vls)
    plan = _plan(fabric)
    vias = int(plan.via.max()) + 1
    if vias < 3:
        raise NotApplicable(f"a {plan.kind} of {vias} switches has no third one to go by")
    if max_vls < plan.lanes:
        raise NotApplicable(
            f"a {plan.kind} needs {plan.lanes} lanes, and max_vls is {max_vls} ({plan.note})"
        )
    sets = SetCollector(fabric)
    for line in plan.lines:
        sets.add(line)
    number, offset, edge, lane = sets.collect()
    return CandidateRoutes(
        **provenance(fabric, name, notes=(plan.note,)),
        set_id=number[vias:].copy(),
        set_offset=offset,
        set_edge=edge,
        set_lane=lane,
        via=plan.via,
        via_set=number[:vias].copy(),
        direct=direct,
    )


def _plan(fabric: Fabric) -> _Plan:
    """The first plan of a complete structure, or else the one of fewest lanes."""
    plans, reasons = [], []
    for plan_of in (_hyperx, _megafly, _dragonfly, _low_diameter):
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
        raise NotApplicable(f"it is no HyperX: {reason}") from None
    size = "x".join(str(int(most) + 1) for most in where.max(axis=0))
    rows = np.arange(len(where), dtype=np.int32)
    note = f"found a HyperX of {size} switches"
    return _Plan("HyperX", note, "", rows, 2, _grid_lines(fabric, where))


def _grid_lines(fabric: Fabric, where: NDArray[np.int32]) -> Iterator[NDArray[np.int8]]:
    """Lines to every switch, as an intermediate and then as a destination, by dimensions."""
    graph = fabric.graph
    tail, head = graph.edge_tail, graph.edge_row
    along = (where[tail] != where[head]).argmax(axis=1)
    aligned = where[head, along]
    for lane in (0, 1):
        for target in where:
            turn = (where != target).argmax(axis=1)
            here = np.all(where == target, axis=1)
            chosen = (along == turn[tail]) & (aligned == target[along]) & ~here[tail]
            yield np.where(chosen, lane, -1).astype(np.int8)


def _megafly(fabric: Fabric) -> _Plan:
    try:
        found = find_megafly(fabric)
    except NotApplicable as reason:
        raise NotApplicable(f"it is no megafly: {reason}") from None
    leaves = found.tier == 0
    note = (
        f"found a megafly of {found.num_groups} groups, {int(leaves.sum())} leaves and "
        f"{int((~leaves).sum())} spines"
    )
    via = np.where(leaves, found.group, -1).astype(np.int32)
    return _by_groups(fabric, "megafly", note, found.group, via, found.gap)


def _dragonfly(fabric: Fabric) -> _Plan:
    try:
        found = find_dragonfly(fabric)
    except NotApplicable as reason:
        raise NotApplicable(f"it is no dragonfly: {reason}") from None
    size = len(found.group) // found.num_groups
    note = f"found a dragonfly of {found.num_groups} groups of {size} switches"
    return _by_groups(fabric, "dragonfly", note, found.group, found.group, found.gap)


def _low_diameter(fabric: Fabric) -> _Plan:
    """Every switch with hosts is an intermediate, and a group of its own."""
    graph = fabric.graph
    hosts = row_sources(fabric) > 0
    if graph.num_rows != fabric.num_switches or not hosts.any():
        raise NotApplicable("it has no switches with hosts, or hosts that forward")
    first = np.arange(len(hosts)) == hosts.argmax()
    far = _distances(fabric, first, np.ones(len(graph.edge_row), dtype=np.int32))
    level = far % 2
    if not hosts.all() and np.all(level[graph.edge_tail] != level[graph.edge_row]):
        raise NotApplicable(
            "its switches form a tree, whose shortest paths already part over all its roots"
        )
    reach = int(far[hosts].max())
    if 2 * reach > MAX_VLS:
        apart = "not all connected" if reach == _FAR else f"{reach} hops apart or more"
        raise NotApplicable(
            f"its switches are {apart}, and two phases need a lane for each hop, {MAX_VLS} at most"
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
) -> _Plan:
    """Paths by groups of switches: fewest cables between groups, then fewest in all.

    Parameters
    ----------
    fabric, kind, note, via
        As of `_Plan`.
    group
        int32 [rows]: the group of each row; cables within one are local.
    gap
        Of `Groups`.
    """
    graph = fabric.graph
    if len(np.unique(components(fabric)[via >= 0])) > 1:
        raise NotApplicable(f"{note}, not all connected")
    ends = np.unique(group[via >= 0])
    hops = int(group_distances(fabric, group)[np.ix_(ends, ends)].max())
    if gap:
        note += f"; {gap}, so that packets between such groups pass through a third"
    inner = group[graph.edge_tail] == group[graph.edge_row]
    # Leaves have local cables only: up, across and down in one lane is no cycle.
    one_lane = hops == 1 and bool(np.any(via < 0))
    first = hops + int(not one_lane and bool(np.any(inner & (via[graph.edge_row] < 0))))
    lanes = first + hops + int(not one_lane and bool(inner.any()))
    # One lane forbids down and up again, from a spine that has no cable to the group sought.
    most = len(group) + 1 if one_lane else int(_FAR)
    lines = _group_lines(fabric, group, via, (hops, first, lanes), most)
    return _Plan(kind, note, gap, via, lanes, lines)


def _group_lines(
    fabric: Fabric,
    group: NDArray[np.int32],
    via: NDArray[np.int32],
    limits: tuple[int, int, int],
    most: int,
) -> Iterator[NDArray[np.int8]]:
    """Lines to every intermediate, then to every row of one.

    A packet's lane grows with each cable between groups. The limits are the most such cables of a
    phase, and the lanes of the first phase and of both. Switches without hosts that are farther
    than `most` from where a line leads are left out.
    """
    hops, first, lanes = limits
    graph = fabric.graph
    # One cable between groups counts more than all local ones of a path.
    between = len(group)
    weight = np.where(group[graph.edge_tail] == group[graph.edge_row], 1, between).astype(np.int32)
    goals = [(0, first, via == v) for v in range(int(via.max()) + 1)]
    goals += [(first, lanes, np.arange(len(via)) == row) for row in range(len(via))]
    for base, end, goal in goals:
        line = np.full(len(weight), -1, dtype=np.int8)
        if np.any(via[goal] >= 0):
            far = _distances(fabric, goal, weight)
            left = far // between
            far[(left > hops) | ((via < 0) & (far > most))] = -_FAR  # no packet comes there
            chosen = np.flatnonzero(far[graph.edge_tail] == weight + far[graph.edge_row])
            lane = np.minimum(base + hops - left, end - 1)
            line[chosen] = lane[graph.edge_tail[chosen]]
        yield line


def _distances(
    fabric: Fabric, goal: NDArray[np.bool_], weight: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Least weight of a path from each row to any goal, int32 [rows]; `_FAR` without one."""
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
