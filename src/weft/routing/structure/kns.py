"""Recognising a KNS (k-ary n-direct s-indirect network) in a fabric that carries no labels.

Neither names nor GUIDs, coordinates nor port numbers are looked at: real fabrics come from
discovery, and are seldom whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.engine_registry import sending_rows

#: Least share of the grid's places that routers must fill, and of their ways into lines that must
#: be cabled. Far below what faults leave; what falls short is another topology.
LEAST_SHARE = 0.5

#: Trials to fit stray lines into a grid, about a millisecond each: far more than damage takes.
MOST_TRIALS = 2000


Joints = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True, eq=False)
class Kns:
    """Routers on a grid of n dimensions, and the lines that join those of one row of it.

    A *line* is the indirect network of the paper: a switch, or a small fat tree of them. A *joint*
    is where a router is cabled to a line, by one cable or several parallel ones.

    Parameters
    ----------
    routers
        int32 [routers]: their rows, ascending.
    coordinates
        int32 [routers, n]. Routers that share a line of dimension i differ in coordinate i only.
        Faults can leave a coordinate open; it is then one that no cable contradicts.
    sizes
        Routers of a full line of each dimension, n of them. Dimensions are numbered by the length
        of their longest line, those of equal lines by their lowest switch.
    line
        int32 [rows]: number of the line that a switch is part of, -1 for a router.
    dimension
        int32 [lines]. Lines that meet in a router differ in it. It can be n and above for lines
        that faults have left with no dimension of the grid.
    stage
        int16 [rows]: cables from a line's switch to the nearest router, 0 for a router; -1 where
        no router can be reached.
    joint_router, joint_line, joint_switch
        int32 [joints], by line, then router: the router's row, the line, the line's switch.
    """

    routers: NDArray[np.int32]
    coordinates: NDArray[np.int32]
    sizes: tuple[int, ...]
    line: NDArray[np.int32]
    dimension: NDArray[np.int32]
    stage: NDArray[np.int16]
    joint_router: NDArray[np.int32]
    joint_line: NDArray[np.int32]
    joint_switch: NDArray[np.int32]

    @property
    def num_lines(self) -> int:
        """Lines of all dimensions."""
        return len(self.dimension)

    @property
    def stages(self) -> int:
        """Stages of switches in the tallest line, s."""
        return max(int(self.stage.max(initial=0)), 1)

    def describe(self) -> str:
        """What was found, in a line."""
        grid = "x".join(map(str, self.sizes))
        missing = prod(self.sizes) - len(self.routers)
        open_ways = len(self.routers) * len(self.sizes) - len(self.joint_router)
        holes = [f"{missing} routers missing"] if missing > 0 else []
        holes += [f"{open_ways} ways from a router into a line missing"] if open_ways else []
        text = f"found a KNS of {grid} routers, s = {self.stages}"
        return f"{text}, {' and '.join(holes)}" if holes else text


def find_kns(fabric: Fabric) -> Kns:
    """Find the KNS that a fabric is, or was before it lost cables, switches, routers or hosts.

    Raises
    ------
    NotApplicable
        With what is at odds with any KNS: two switches with hosts that are cabled together,
        routers that share two lines, lines that do not form a grid.

    Notes
    -----
    Routers are switches with hosts, and hosts that forward; the connected parts of what remains
    are the lines. Two lines that meet in a router are of different dimensions. Two that do not
    meet, and are both met by each of two others, are of one dimension: in a grid all rings of four
    lines are rectangles. Coordinate i tells apart the parts that remain joined without the lines
    of dimension i. This needs no order of ports, as section 3.2.3 of the paper on KNS over
    InfiniBand, and no complete grid either.
    """
    router = _routers(fabric)
    line, first_of_line = _lines(fabric, router)
    stage = _stages(fabric, router)
    joints = _joints(fabric, line)
    dimension, sure = _dimensions(fabric, line, first_of_line, joints)
    routers = np.flatnonzero(router).astype(np.int32)
    coordinates = _coordinates(fabric, np.where(sure, dimension, -1), joints, routers)
    sizes = coordinates.max(axis=0, initial=0) + 1
    # By the longest line and the lowest switch, which few faults change.
    long, low = np.zeros(len(sizes), dtype=np.int64), np.full(len(sizes), len(line))
    real = np.flatnonzero(dimension < len(sizes))
    np.maximum.at(long, dimension[real], np.bincount(joints[1], minlength=len(dimension))[real])
    np.minimum.at(low, dimension[real], first_of_line[real])
    order = np.lexsort((low, long))
    place = np.arange(int(dimension.max()) + 1, dtype=np.int32)
    place[order] = np.arange(len(order))
    found = Kns(
        routers, np.ascontiguousarray(coordinates[:, order], dtype=np.int32),
        tuple(int(size) for size in sizes[order]), line, place[dimension], stage, *joints,
    )  # fmt: skip
    _refuse_sparse(found, int(sure[joints[1]].sum()))
    return found


def _coordinates(
    fabric: Fabric, dimension: NDArray[np.int32], joints: Joints, routers: NDArray[np.int32]
) -> NDArray[np.int32]:
    """int32 [routers, n], on the smallest of the grids that faults leave open; -1 joins nothing."""
    labels = _planes(dimension, joints, routers, int(dimension.max()) + 1)
    if twins := _crooked(labels, dimension, routers, joints):
        one, other = (_name(fabric, joints[0][joint]) for joint in twins)
        raise NotApplicable(
            f"{one} and {other} share the line of {_name(fabric, joints[2][twins[0]])}, and yet "
            "lines of other dimensions alone join them; the lines of a KNS form a grid"
        )
    n = labels.shape[1]
    best = np.zeros((0, n), dtype=np.int32)
    for last in range(n):
        found = np.empty_like(labels)
        axes = [axis for axis in range(n) if axis != last]
        for axis in axes:
            found[:, axis] = _coordinate(labels[:, axis], axis, dimension, joints, routers, None)
        others = found[:, axes]
        found[:, last] = _coordinate(labels[:, last], last, dimension, joints, routers, others)
        if not len(best) or _places(found) < _places(best):
            best = found
    return best


def _places(coordinates: NDArray[np.int32]) -> int:
    return prod(int(size) for size in coordinates.max(axis=0, initial=0) + 1)


def _name(fabric: Fabric, row: Any) -> str:
    return fabric.node_names[int(fabric.graph.row_node[row])]


def _routers(fabric: Fabric) -> NDArray[np.bool_]:
    """Rows that are routers: switches with hosts, hosts that forward, and routers without hosts."""
    graph = fabric.graph
    router = np.zeros(graph.num_rows, dtype=bool)
    router[sending_rows(fabric)] = True
    router[graph.row_node >= fabric.num_switches] = True
    if not router.any():
        raise NotApplicable("a KNS needs routers: no switch has a host and no host forwards")
    between = np.flatnonzero(router[graph.edge_tail] & router[graph.edge_row])
    if len(between):
        edge = between[0]
        link = int(graph.edge_link[edge]) >> 1
        raise NotApplicable(
            f"{_name(fabric, graph.edge_tail[edge])} and {_name(fabric, graph.edge_row[edge])} "
            f"both have hosts or forward for them, and are cabled together "
            f"({fabric.cable_name(link)}); routers of a KNS meet only at switches without hosts"
        )
    if router.all():
        raise NotApplicable("a KNS needs lines: there is no switch without hosts")
    router[_idle_routers(fabric, router)] = True
    return router


def _idle_routers(fabric: Fabric, router: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Switches that have lost their hosts but join lines of different dimensions.

    The top of a fat tree inside a line also sees nothing but switches without hosts. But lines
    that cross in a router span planes: some line across one meets some line across the other.
    """
    graph = fabric.graph
    touches = np.zeros(graph.num_rows, dtype=bool)
    touches[graph.edge_tail[router[graph.edge_row]]] = True
    inner = ~router & ~touches
    beside = np.zeros(graph.num_rows, dtype=bool)
    beside[graph.edge_tail[inner[graph.edge_row]]] = True
    alone = np.flatnonzero(inner & ~beside & (np.diff(graph.edge_offset) > 1))
    if not len(alone):
        return alone
    to_router = ~router[graph.edge_tail] & router[graph.edge_row]
    meets = _meetings(graph.edge_tail[to_router], graph.edge_row[to_router], graph.num_rows)
    found = []
    for row in alone:
        ends = np.unique(graph.edge_row[graph.edge_offset[row] : graph.edge_offset[row + 1]])
        across = meets[ends]
        spans = (across @ meets @ across.T).toarray()
        np.fill_diagonal(spans, 0)
        # Lines that meet each other need no further router to do so.
        if np.any(spans[across[:, ends].toarray() == 0]):
            found.append(row)
    return np.array(found, dtype=np.intp)


def _meetings(line: NDArray[Any], router: NDArray[Any], size: int) -> csr_array:
    """Sparse int64 [size, size]: routers that two different lines share."""
    matrix = csr_array(
        (np.ones(len(line), dtype=np.int64), (line, router)), shape=(size, int(router.max()) + 1)
    )
    matrix.sum_duplicates()
    matrix.data[:] = 1
    pairs = (matrix @ matrix.T).tocoo()
    other = pairs.row != pairs.col
    return csr_array((pairs.data[other], (pairs.row[other], pairs.col[other])), shape=(size, size))


def _lines(
    fabric: Fabric, router: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Line of each row, and a switch of each line."""
    graph = fabric.graph
    inside = ~router[graph.edge_tail] & ~router[graph.edge_row]
    matrix = coo_array(
        (
            np.ones(int(inside.sum()), dtype=np.uint8),
            (graph.edge_tail[inside], graph.edge_row[inside]),
        ),
        shape=(graph.num_rows,) * 2,
    )
    part = connected_components(matrix, directed=False)[1]
    line = np.full(graph.num_rows, -1, dtype=np.int32)
    switches = np.flatnonzero(~router)
    first, number = np.unique(part[switches], return_index=True, return_inverse=True)[1:]
    line[switches] = number
    return line, switches[first]


def _stages(fabric: Fabric, router: NDArray[np.bool_]) -> NDArray[np.int16]:
    graph = fabric.graph
    stage = np.where(router, 0, -1).astype(np.int16)
    front = router
    while front.any():
        reached = np.zeros(graph.num_rows, dtype=bool)
        reached[graph.edge_row[front[graph.edge_tail]]] = True
        front = reached & (stage < 0)
        stage[front] = stage.max() + 1
    flat = np.flatnonzero(
        (stage[graph.edge_tail] == stage[graph.edge_row]) & (stage[graph.edge_row] > 0)
    )
    if len(flat):
        cable = fabric.cable_name(int(graph.edge_link[flat[0]]) >> 1)
        raise NotApplicable(
            f"{cable} joins two switches without hosts of one stage; "
            "a line of a KNS is one switch or a fat tree"
        )
    return stage


def _joints(fabric: Fabric, line: NDArray[np.int32]) -> Joints:
    """Router's row, line and line's switch of each joint, by line, then router."""
    graph = fabric.graph
    edges = np.flatnonzero((line[graph.edge_tail] < 0) & (line[graph.edge_row] >= 0))
    at = np.unique(
        np.stack((line[graph.edge_row[edges]], graph.edge_tail[edges], graph.edge_row[edges])),
        axis=1,
    )
    twice = np.flatnonzero((at[0, 1:] == at[0, :-1]) & (at[1, 1:] == at[1, :-1]))
    if len(twice):
        _, row, switch = at[:, twice[0]]
        raise NotApplicable(
            f"{_name(fabric, row)} is cabled to {_name(fabric, switch)} and to "
            f"{_name(fabric, at[2, twice[0] + 1])}, which are joined without any router; "
            "a router of a KNS has one way into each line"
        )
    return at[1].astype(np.int32), at[0].astype(np.int32), at[2].astype(np.int32)


def _dimensions(
    fabric: Fabric,
    line: NDArray[np.int32],
    first_of_line: NDArray[np.int64],
    joints: Joints,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Dimension of each line, numbered as they are found, and whether it is sure."""
    router, of_line, _ = joints
    lines = len(first_of_line)
    if not len(router):
        raise NotApplicable("no switch with hosts is cabled to one without")
    shared = _meetings(of_line, router, lines)
    meets = shared.tocoo()
    if meets.nnz and meets.data.max() > 1:
        _refuse_double(fabric, meets, first_of_line, joints)
    rings = (shared @ shared).tocoo()
    beside = (rings.data > 1) & (rings.row != rings.col)
    crossing = meets.row.astype(np.int64) * lines + meets.col
    beside[beside] = ~np.isin(
        rings.row[beside].astype(np.int64) * lines + rings.col[beside], crossing
    )
    matrix = coo_array(
        (np.ones(int(beside.sum()), dtype=np.uint8), (rings.row[beside], rings.col[beside])),
        shape=(lines, lines),
    )
    count, group = connected_components(matrix, directed=False)
    clash = np.zeros((count, count), dtype=bool)
    clash[group[meets.row], group[meets.col]] = True
    if np.any(np.diag(clash)):
        twin = np.flatnonzero(group[meets.row] == group[meets.col])[0]
        one, other = first_of_line[meets.row[twin]], first_of_line[meets.col[twin]]
        raise NotApplicable(
            f"the lines of {_name(fabric, one)} and {_name(fabric, other)} meet in a router and "
            "yet others make them parallel; the lines of a KNS form a grid"
        )
    return _merge_groups(group, clash, joints)


def _merge_groups(
    group: NDArray[np.int32],
    clash: NDArray[np.bool_],
    joints: Joints,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Give every group of parallel lines its dimension, largest first.

    A whole grid has one group per dimension. Lines that faults have cut off from all rectangles
    are groups of their own: they join the only dimension that none of theirs meets and of which
    they make no plane that holds two routers of a line across it. Those that fit none get one that
    does for an order, and are not sure: second, bool [lines].
    """
    router, of_line, _ = joints
    weight = np.bincount(group[of_line], minlength=len(clash))
    order = np.lexsort((np.arange(len(clash)), -weight))
    dimension_of = np.full(len(clash), -1, dtype=np.int32)
    rest = []
    for one in order:
        chosen = np.flatnonzero(dimension_of >= 0)
        if clash[one, chosen].all():
            dimension_of[one] = len(chosen)
        else:
            rest.append(one)
    routers = np.unique(router)
    dimension_of_line = np.empty(len(group), dtype=np.int32)

    tried = 0

    def fits(one: int, axis: int) -> bool:
        """No plane would then hold two routers of a line across it."""
        nonlocal tried
        tried += 1
        dimension_of[one] = axis
        dimension_of_line[:] = dimension_of[group]
        labels = _planes(dimension_of_line, joints, routers, int(dimension_of.max()) + 1)
        dimension_of[one] = -1
        return _crooked(labels, dimension_of_line, routers, joints) is None

    def fitting(one: int) -> list[int]:
        """Dimensions that no line of a group meets, and that it fits."""
        taken = dimension_of[clash[one] & (dimension_of >= 0)]
        free = np.setdiff1d(np.arange(int(dimension_of.max()) + 1), taken).tolist()
        return [axis for axis in free if fits(one, axis)]

    # One that fits a single dimension may narrow down the rest; where none does, the largest
    # takes the first that it fits.
    rest = [one for one in rest if weight[one] > 1]
    while rest and tried < MOST_TRIALS:
        left: list[tuple[int, int]] = []
        for one in rest:
            axes = fitting(one)
            if len(axes) == 1:
                dimension_of[one] = axes[0]
            elif axes:
                left.append((one, axes[0]))
        if len(left) == len(rest):
            one, axis = left.pop(0)
            dimension_of[one] = axis
        rest = [one for one, _ in left]
    sure = dimension_of[group] >= 0
    for one in np.flatnonzero(dimension_of < 0):
        taken = dimension_of[clash[one] & (dimension_of >= 0)]
        dimension_of[one] = np.setdiff1d(np.arange(int(dimension_of.max()) + 2), taken)[0]
    return dimension_of[group], sure


def _planes(
    dimension: NDArray[np.int32],
    joints: Joints,
    routers: NDArray[np.int32],
    dimensions: int,
) -> NDArray[np.int32]:
    """int32 [routers, dimensions]: the part that a router is in without one dimension's lines."""
    number = np.searchsorted(routers, joints[0])
    labels = np.empty((len(routers), dimensions), dtype=np.int32)
    size = len(routers) + len(dimension)
    for axis in range(dimensions):
        stays = (dimension[joints[1]] != axis) & (dimension[joints[1]] >= 0)
        ends = (number[stays], len(routers) + joints[1][stays])
        matrix = coo_array((np.ones(len(ends[0]), dtype=np.uint8), ends), shape=(size, size))
        labels[:, axis] = connected_components(matrix, directed=False)[1][: len(routers)]
    return labels


def _refuse_double(
    fabric: Fabric, meets: Any, first_of_line: NDArray[np.int64], joints: Joints
) -> None:
    pair = int(np.flatnonzero(meets.data > 1)[0])
    one, other = meets.row[pair], meets.col[pair]
    router, of_line, _ = joints
    both = np.intersect1d(router[of_line == one], router[of_line == other])
    raise NotApplicable(
        f"{_name(fabric, both[0])} and {_name(fabric, both[1])} share two lines, "
        f"those of {_name(fabric, first_of_line[one])} and "
        f"{_name(fabric, first_of_line[other])}; two routers of a KNS share one at most"
    )


def _crooked(
    labels: NDArray[np.int32],
    dimension: NDArray[np.int32],
    routers: NDArray[np.int32],
    joints: Joints,
) -> tuple[int, int] | None:
    """Two joints of one line whose routers lines of other dimensions join, too, if there are."""
    router, of_line, _ = joints
    axis = dimension[of_line]
    plane = np.where(axis < 0, -1, labels[np.searchsorted(routers, router), axis])
    order = np.lexsort((plane, of_line))
    same = (of_line[order][1:] == of_line[order][:-1]) & (plane[order][1:] == plane[order][:-1])
    twins = np.flatnonzero(same & (plane[order][1:] >= 0))
    return (int(order[twins[0]]), int(order[twins[0] + 1])) if len(twins) else None


def _coordinate(
    label: NDArray[np.int32],
    axis: int,
    dimension: NDArray[np.int32],
    joints: Joints,
    routers: NDArray[np.int32],
    others: NDArray[np.int32] | None,
) -> NDArray[np.int32]:
    """One coordinate of each router: the number of its plane, planes that faults tore put together.

    Two parts of which no line of the dimension has a router each may be of one plane. A torn part
    joins the plane that lacks most of the lines, which is the right one where it alone has a gap;
    for the last dimension, whose other coordinates are given, never one where its place is taken.
    """
    here = dimension[joints[1]] == axis
    part = label[np.searchsorted(routers, joints[0][here])]
    parts, lines = int(label.max(initial=-1)) + 1, len(dimension)
    on_line = np.zeros((parts, lines), dtype=bool)
    on_line[part, joints[1][here]] = True
    place = np.zeros(len(label), dtype=np.int64)
    if others is not None:
        place = np.unique(others, axis=0, return_inverse=True)[1].reshape(-1)
    in_place = np.zeros((parts, int(place.max(initial=0)) + 1), dtype=bool)
    if others is not None:
        in_place[label, place] = True
    takes = np.hstack((on_line, in_place))
    order = np.lexsort((np.arange(parts), -np.bincount(label, minlength=parts)))
    coordinate = np.zeros(parts, dtype=np.int32)
    planes = np.zeros((0, takes.shape[1]), dtype=bool)
    for one in order[np.isin(order, label)]:
        free = np.flatnonzero(~(planes & takes[one]).any(axis=1))
        if len(free):
            chosen = free[np.argmin(planes[free].sum(axis=1))]
        else:
            chosen = len(planes)
            planes = np.vstack((planes, np.zeros((1, takes.shape[1]), dtype=bool)))
        planes[chosen] |= takes[one]
        coordinate[one] = chosen
    return coordinate[label]


def _refuse_sparse(kns: Kns, sure_joints: int) -> None:
    """Refuse a grid that hardly has any routers, or routers with hardly any lines."""
    grid = " x ".join(map(str, kns.sizes))
    places, routers = prod(kns.sizes), len(kns.routers)
    if routers < LEAST_SHARE * places:
        raise NotApplicable(
            f"the {routers} switches with hosts would be routers of a KNS of {grid}, "
            f"which has {places}"
        )
    if sure_joints < LEAST_SHARE * routers * len(kns.sizes):
        raise NotApplicable(
            f"the {routers} switches with hosts would be routers of a KNS of {grid}, but only "
            f"{sure_joints} of its {routers * len(kns.sizes)} ways into lines fit a grid"
        )
