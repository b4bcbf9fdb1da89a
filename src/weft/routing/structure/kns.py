"""Recognition of a KNS (k-ary n-direct s-indirect network) in a fabric without labels.

Names, GUIDs, coordinates and port numbers are not used, since real fabrics come from discovery.
Parts of the KNS may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.engine_registry import sending_rows

#: At least this share of the grid's positions must have a router, and at least this share of the
#: connections of routers to lines must exist. In a faulty KNS both shares are far larger; a fabric
#: with smaller shares has another topology.
LEAST_SHARE = 0.5

#: Maximum number of trials to fit separated lines into the grid. A trial takes about a millisecond;
#: faults need far fewer trials.
MOST_TRIALS = 2000


Joints = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True, eq=False)
class Kns:
    """Routers on a grid of n dimensions, and the lines between routers along each dimension.

    A *line* is the indirect network of the paper: a switch, or a small fat tree of switches. A
    *joint* is the connection of a router to a line, by one cable or several parallel ones.
    """

    #: int32 [routers]: rows of the routers, ascending.
    routers: NDArray[np.int32]
    #: int32 [routers, n]: routers that share a line of dimension i differ only in coordinate i. If
    #: faults leave a coordinate ambiguous, it has a value that no cable contradicts.
    coordinates: NDArray[np.int32]
    #: Number of routers of a complete line in each of the n dimensions. Dimensions are ordered by
    #: the length of their longest line, then by their lowest switch.
    sizes: tuple[int, ...]
    #: int32 [rows]: index of the line of a switch, -1 for a router.
    line: NDArray[np.int32]
    #: int32 [lines]: dimension of each line; lines that share a router have different ones. Lines
    #: for which faults leave no dimension of the grid have numbers from n upwards.
    dimension: NDArray[np.int32]
    #: int16 [rows]: number of cables from a switch to the nearest router, 0 for a router; -1 if no
    #: router can be reached.
    stage: NDArray[np.int16]
    #: int32 [joints]: the router's row, the line, and the line's switch of each joint, ordered by
    #: line, then router.
    joint_router: NDArray[np.int32]
    joint_line: NDArray[np.int32]
    joint_switch: NDArray[np.int32]

    @cached_property
    def num_lines(self) -> int:
        """Number of lines of all dimensions."""
        return len(self.dimension)

    @property
    def stages(self) -> int:
        """Number of stages of switches in the tallest line, s."""
        return max(int(self.stage.max(initial=0)), 1)

    def describe(self) -> str:
        """Return the structure as one line of text."""
        grid = "x".join(map(str, self.sizes))
        missing = prod(self.sizes) - len(self.routers)
        open_joints = len(self.routers) * len(self.sizes) - len(self.joint_router)
        holes = [f"{missing} routers missing"] if missing > 0 else []
        holes += [f"{open_joints} connections of routers to lines missing"] if open_joints else []
        text = f"found a KNS of {grid} routers, s = {self.stages}"
        return f"{text}, {' and '.join(holes)}" if holes else text


def find_kns(fabric: Fabric) -> Kns:
    """Find the KNS of a fabric, from which cables, switches, routers and hosts may be missing.

    Routers are switches with hosts, and hosts that forward. Without them, the fabric falls into
    connected components, the lines. Two lines that share a router have different dimensions. Two
    lines that share no router, but are both crossed by the same two others, have the same
    dimension: in a grid all cycles of four lines are rectangles. If the lines of dimension i are
    removed, two routers remain connected exactly if their coordinates i are equal. Unlike the
    method of section 3.2.3 of the paper on KNS over InfiniBand, this method needs neither an order
    of the ports nor a complete grid.
    """
    router = _routers(fabric)
    line, first_of_line = _lines(fabric, router)
    stage = _stages(fabric, router)
    joints = _joints(fabric, line)
    dimension, sure = _dimensions(fabric, line, first_of_line, joints)
    routers = np.flatnonzero(router).astype(np.int32)
    coordinates = _coordinates(fabric, np.where(sure, dimension, -1), joints, routers)
    sizes = coordinates.max(axis=0, initial=0) + 1
    # Order dimensions by the longest line and the lowest switch, which few faults change.
    long, low = np.zeros(len(sizes), dtype=np.int64), np.full(len(sizes), len(line))
    real = np.flatnonzero(dimension < len(sizes))
    np.maximum.at(long, dimension[real], np.bincount(joints[1], minlength=len(dimension))[real])
    np.minimum.at(low, dimension[real], first_of_line[real])
    order = np.lexsort((low, long))
    new_dimension = np.arange(int(dimension.max()) + 1, dtype=np.int32)
    new_dimension[order] = np.arange(len(order))
    kns = Kns(
        routers, np.ascontiguousarray(coordinates[:, order], dtype=np.int32),
        tuple(int(size) for size in sizes[order]), line, new_dimension[dimension], stage, *joints,
    )  # fmt: skip
    _refuse_sparse(kns, int(sure[joints[1]].sum()))
    return kns


def _coordinates(
    fabric: Fabric, dimension: NDArray[np.int32], joints: Joints, routers: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return coordinates, int32 [routers, n], in the smallest grid that faults allow.

    Lines of dimension -1 are left out.
    """
    labels = _planes(dimension, joints, routers, int(dimension.max()) + 1)
    if pair := _crooked(labels, dimension, routers, joints):
        one, other = (_name(fabric, joints[0][joint]) for joint in pair)
        raise NotApplicable(
            f"{one} and {other} share the line of {_name(fabric, joints[2][pair[0]])}, but lines "
            "of other dimensions also connect them; the lines of a KNS form a grid"
        )
    n = labels.shape[1]
    best = np.zeros((0, n), dtype=np.int32)
    for last in range(n):
        grid = np.empty_like(labels)
        axes = [axis for axis in range(n) if axis != last]
        for axis in axes:
            grid[:, axis] = _coordinate(labels[:, axis], axis, dimension, joints, routers, None)
        others = grid[:, axes]
        grid[:, last] = _coordinate(labels[:, last], last, dimension, joints, routers, others)
        if not len(best) or _grid_size(grid) < _grid_size(best):
            best = grid
    return best


def _grid_size(coordinates: NDArray[np.int32]) -> int:
    return prod(int(size) for size in coordinates.max(axis=0, initial=0) + 1)


def _name(fabric: Fabric, row: Any) -> str:
    return fabric.node_names[int(fabric.graph.row_node[row])]


def _routers(fabric: Fabric) -> NDArray[np.bool_]:
    """Return the routers: switches with hosts, hosts that forward, and routers without hosts."""
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
            f"are both routers (they have hosts or forward), but are cabled together "
            f"({fabric.cable_name(link)}); routers of a KNS are cabled only to switches without "
            "hosts"
        )
    if router.all():
        raise NotApplicable("a KNS needs lines, but every switch has hosts")
    router[_idle_routers(fabric, router)] = True
    return router


def _idle_routers(fabric: Fabric, router: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return routers that have lost all hosts: they connect lines of different dimensions.

    The top switches of a fat tree inside a line are also cabled only to switches without hosts. A
    router is recognised by the planes that two of its lines span: some line that crosses one of
    these two lines shares a router with some line that crosses the other.
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
    idle = []
    for row in alone:
        ends = np.unique(graph.edge_row[graph.edge_offset[row] : graph.edge_offset[row + 1]])
        across = meets[ends]
        spans = (across @ meets @ across.T).toarray()
        np.fill_diagonal(spans, 0)
        # Pairs of its lines that share another router do not show that this switch is a router.
        if np.any(spans[across[:, ends].toarray() == 0]):
            idle.append(row)
    return np.array(idle, dtype=np.intp)


def _meetings(line: NDArray[Any], router: NDArray[Any], size: int) -> csr_array:
    """Return the number of routers that two different lines share, sparse int64 [size, size]."""
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
    """Return the line of each row, and the first switch of each line."""
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
            f"{cable} connects two switches of one stage that have no hosts; "
            "a line of a KNS is one switch or a fat tree"
        )
    return stage


def _joints(fabric: Fabric, line: NDArray[np.int32]) -> Joints:
    """Return the router's row, the line and the line's switch of each joint, by line and router."""
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
            f"{_name(fabric, at[2, twice[0] + 1])}, which belong to one line; "
            "a router of a KNS is cabled to one switch of each of its lines"
        )
    return at[1].astype(np.int32), at[0].astype(np.int32), at[2].astype(np.int32)


def _dimensions(
    fabric: Fabric, line: NDArray[np.int32], first_of_line: NDArray[np.int64], joints: Joints
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the dimension of each line, numbered from the largest, and whether it is certain."""
    router, of_line, _ = joints
    lines = len(first_of_line)
    if not len(router):
        raise NotApplicable("no switch with hosts is cabled to a switch without hosts")
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
        meeting = np.flatnonzero(group[meets.row] == group[meets.col])[0]
        one, other = first_of_line[meets.row[meeting]], first_of_line[meets.col[meeting]]
        raise NotApplicable(
            f"the lines of {_name(fabric, one)} and {_name(fabric, other)} share a router, but "
            "other lines make them parallel; the lines of a KNS form a grid"
        )
    return _merge_groups(group, clash, joints)


def _merge_groups(
    group: NDArray[np.int32], clash: NDArray[np.bool_], joints: Joints
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Assign a dimension to every group of parallel lines, largest group first.

    A complete grid has one group per dimension. Lines that faults have separated from all
    rectangles are groups of their own. Such a group gets a dimension if it shares no router with
    any line of that dimension, and if then the routers of every line are in different planes of
    the line's dimension (see `_planes`). Groups that fit no dimension get a number for ordering
    only; for their lines the second result, bool [lines], is False.
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
        """Return whether every line's routers have different planes if a group gets an axis."""
        nonlocal tried
        tried += 1
        dimension_of[one] = axis
        dimension_of_line[:] = dimension_of[group]
        labels = _planes(dimension_of_line, joints, routers, int(dimension_of.max()) + 1)
        dimension_of[one] = -1
        return _crooked(labels, dimension_of_line, routers, joints) is None

    def fitting(one: int) -> list[int]:
        """Return the dimensions that a group fits and with whose lines it shares no router."""
        taken = dimension_of[clash[one] & (dimension_of >= 0)]
        free = np.setdiff1d(np.arange(int(dimension_of.max()) + 1), taken).tolist()
        return [axis for axis in free if fits(one, axis)]

    # A group that fits a single dimension may leave fewer choices for the rest; if every group
    # fits several, the largest group gets the first dimension that it fits.
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
    dimension: NDArray[np.int32], joints: Joints, routers: NDArray[np.int32], dimensions: int
) -> NDArray[np.int32]:
    """Return each router's component if the lines of each dimension are removed.

    The result is int32 [routers, dimensions].
    """
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
        f"through {_name(fabric, first_of_line[one])} and "
        f"{_name(fabric, first_of_line[other])}; two routers of a KNS share at most one line"
    )


def _crooked(
    labels: NDArray[np.int32],
    dimension: NDArray[np.int32],
    routers: NDArray[np.int32],
    joints: Joints,
) -> tuple[int, int] | None:
    """Return two joints of one line whose routers are also connected by other dimensions."""
    router, of_line, _ = joints
    axis = dimension[of_line]
    plane = np.where(axis < 0, -1, labels[np.searchsorted(routers, router), axis])
    order = np.lexsort((plane, of_line))
    same = (of_line[order][1:] == of_line[order][:-1]) & (plane[order][1:] == plane[order][:-1])
    pairs = np.flatnonzero(same & (plane[order][1:] >= 0))
    return (int(order[pairs[0]]), int(order[pairs[0] + 1])) if len(pairs) else None


def _coordinate(
    label: NDArray[np.int32],
    axis: int,
    dimension: NDArray[np.int32],
    joints: Joints,
    routers: NDArray[np.int32],
    others: NDArray[np.int32] | None,
) -> NDArray[np.int32]:
    """Return one coordinate of each router: the number of its plane.

    Faults can split a plane into components, which are merged. Two components can be of one plane
    if no line of the dimension has routers in both. Of the planes possible for a component, it is
    merged with the one that has routers of the fewest lines. If only one plane has a gap, this is
    the correct one. For the last
    dimension, `others` contains the other coordinates, and the merged components must not have two
    routers at one position.
    """
    here = dimension[joints[1]] == axis
    part = label[np.searchsorted(routers, joints[0][here])]
    parts, lines = int(label.max(initial=-1)) + 1, len(dimension)
    on_line = np.zeros((parts, lines), dtype=bool)
    on_line[part, joints[1][here]] = True
    position = np.zeros(len(label), dtype=np.int64)
    if others is not None:
        position = np.unique(others, axis=0, return_inverse=True)[1].reshape(-1)
    at_position = np.zeros((parts, int(position.max(initial=0)) + 1), dtype=bool)
    if others is not None:
        at_position[label, position] = True
    takes = np.hstack((on_line, at_position))
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
    """Refuse a grid with too few routers, or routers with too few lines."""
    grid = " x ".join(map(str, kns.sizes))
    positions, routers = prod(kns.sizes), len(kns.routers)
    if routers < LEAST_SHARE * positions:
        raise NotApplicable(
            f"the {routers} switches with hosts would be routers of a KNS of {grid}, "
            f"which has {positions} routers"
        )
    if sure_joints < LEAST_SHARE * routers * len(kns.sizes):
        raise NotApplicable(
            f"the {routers} switches with hosts would be routers of a KNS of {grid}, but only "
            f"{sure_joints} of their {routers * len(kns.sizes)} connections to lines fit a grid"
        )
