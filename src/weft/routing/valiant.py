"""valiant: by way of a random intermediate, on dragonflies, megaflies and HyperX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routes import CandidateRoutes, Routes
from weft.routing.base import engine, provenance
from weft.routing.lanes import check_vls
from weft.routing.sets import SetCollector
from weft.routing.structure.groups import Groups, find_dragonfly, find_grid, find_megafly


@engine("valiant", deadlock_free=True, lmc=False, candidates=True)
def valiant(fabric: Fabric, *, max_vls: int = 8) -> Routes:
    """Valiant's randomised routing: every packet goes by a random intermediate first.

    On dragonflies and megaflies the intermediate is a group other than those of source and
    destination, on HyperX a switch other than theirs. Both phases take shortest ways of their
    kind: local, global, local on a dragonfly; up, global, down on a megafly, whose packets turn on
    any leaf of the group; dimension by dimension on HyperX. What stays in one group (on HyperX at
    one switch) goes straight.

    Parameters
    ----------
    fabric
        A dragonfly, megafly or HyperX, recognised without labels: complete but for spare parallel
        cables.
    max_vls
        Virtual lanes that there are. Dragonflies need 3, the others 2: the first phase rides on
        lane 0, the second on lane 1, and on a dragonfly the last local cable on lane 2.

    Raises
    ------
    NotApplicable
        On anything else, with what is missing, and when max_vls is too low.
    InputError
        When max_vls is not 1 to 15.

    Notes
    -----
    Source: Valiant and Brebner 1981; Kim, Dally, Scott and Abts 2008 (dragonfly, VAL); Flajslik
    et al. 2018 (megafly); Ahn et al. 2009 (HyperX).
    """
    return around(fabric, "valiant", max_vls, direct=False)


def around(fabric: Fabric, name: str, max_vls: int, *, direct: bool) -> CandidateRoutes:
    """Candidates by way of intermediates; with `direct` packets may also go straight."""
    check_vls(max_vls)
    reasons = []
    for kind, find, lines_of, lanes in (
        ("HyperX", find_grid, _grid, 2),
        ("megafly", find_megafly, _megafly, 2),
        ("dragonfly", find_dragonfly, _dragonfly, 3),
    ):
        try:
            found: Any = find(fabric)
        except NotApplicable as reason:
            reasons.append(f"it is no {kind}: {reason}")
            continue
        via, lines, note = lines_of(fabric, found)
        if via.max() < 2:
            raise NotApplicable(f"a HyperX of {len(via)} switches has no third one to go by")
        if max_vls < lanes:
            raise NotApplicable(f"a {kind} needs {lanes} lanes, and max_vls is {max_vls}")
        sets = SetCollector(fabric)
        for line in lines:
            sets.add(line)
        number, offset, edge, lane = sets.collect()
        vias = int(via.max()) + 1
        return CandidateRoutes(
            **provenance(fabric, name, notes=(note,)),
            set_id=number[vias:].copy(),
            set_offset=offset,
            set_edge=edge,
            set_lane=lane,
            via=via.astype(np.int32),
            via_set=number[:vias].copy(),
            direct=direct,
        )
    raise NotApplicable("; ".join(reasons))


def _grid(
    fabric: Fabric, where: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Iterator[NDArray[np.int8]], str]:
    size = "x".join(str(int(most) + 1) for most in where.max(axis=0))
    rows = np.arange(len(where), dtype=np.int32)
    return rows, _grid_lines(fabric, where), f"found a HyperX of {size} switches"


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


def _dragonfly(
    fabric: Fabric, found: Groups
) -> tuple[NDArray[np.int32], Iterator[NDArray[np.int8]], str]:
    size = len(found.group) // found.num_groups
    note = f"found a dragonfly of {found.num_groups} groups of {size} switches"
    return found.group, _dragonfly_lines(fabric, found), note


def _dragonfly_lines(fabric: Fabric, found: Groups) -> Iterator[NDArray[np.int8]]:
    """Lines to every group, then to every switch: the shortest of local, global, local."""
    graph, group = fabric.graph, found.group
    tail, head = graph.edge_tail, graph.edge_row
    local = group[tail] == group[head]
    far = 9

    def shortest(goal: int, left: NDArray[Any]) -> NDArray[np.bool_]:
        """Edges of shortest ways into a group; left[edge] links are left behind a global one."""
        into = ~local & (group[head] == goal)
        by_global = np.full(len(group), far)
        np.minimum.at(by_global, tail[into], 1 + left[into])
        ahead = np.where(into, 1 + left, np.where(local, 1 + by_global[head], far))
        best = np.full(len(group), far)
        np.minimum.at(best, tail, ahead)
        chosen: NDArray[np.bool_] = (ahead == best[tail]) & (ahead < far) & (group[tail] != goal)
        return chosen

    nothing = np.zeros(len(tail), dtype=np.int64)
    for goal in range(found.num_groups):
        yield np.where(shortest(goal, nothing), 0, -1).astype(np.int8)
    for target in range(len(group)):
        lanes = np.where(shortest(int(group[target]), (head != target).astype(np.int64)), 1, -1)
        lanes[local & (head == target)] = 2
        yield lanes.astype(np.int8)


def _megafly(
    fabric: Fabric, found: Groups
) -> tuple[NDArray[np.int32], Iterator[NDArray[np.int8]], str]:
    leaves = found.tier == 0
    note = (
        f"found a megafly of {found.num_groups} groups, {int(leaves.sum())} leaves and "
        f"{int((~leaves).sum())} spines"
    )
    return np.where(leaves, found.group, -1), _megafly_lines(fabric, found), note


def _megafly_lines(fabric: Fabric, found: Groups) -> Iterator[NDArray[np.int8]]:
    """Lines to every group, then to every leaf: up, global, down."""
    graph, group, spine = fabric.graph, found.group, found.tier == 1
    tail, head = graph.edge_tail, graph.edge_row
    up, down = spine[head] & ~spine[tail], spine[tail] & ~spine[head]
    for lane, targets in ((0, range(found.num_groups)), (1, range(len(group)))):
        for target in targets:
            if lane and spine[target]:
                yield np.full(len(tail), -1, dtype=np.int8)
                continue
            goal = group[target] if lane else target
            into = spine[tail] & spine[head] & (group[head] == goal) & (group[tail] != goal)
            gate = np.zeros(len(group), dtype=bool)
            gate[tail[into]] = True
            last = down & (group[tail] == goal)
            if lane:
                last &= head == target
                # Within the group, up to any spine of it.
                gate |= spine & (group == goal)
            climb = up & gate[head] & ((tail != target) if lane else (group[tail] != goal))
            yield np.where(into | last | climb, lane, -1).astype(np.int8)
