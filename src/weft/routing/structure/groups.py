"""Recognition of dragonflies, megaflies and HyperX in fabrics without labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.distances import bfs_many
from weft.routing.engine_registry import row_sources

#: The search for groups of one size gives up after ten steps per switch and this many more (about
#: 0.2 s). A step adds a switch to a clique; a complete dragonfly needs one step per switch.
MAX_STEPS = 20_000


@dataclass(frozen=True, eq=False)
class DragonflyGroups:
    """The groups of a dragonfly or megafly."""

    #: int32 [rows]: the group of each switch.
    group: NDArray[np.int32]
    #: int8 [rows]: 1 for spines, which have no hosts, and 0 for all other switches.
    tier: NDArray[np.int8]
    #: Text that names two groups without a cable between them; empty if every pair has one.
    gap: str = ""

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1


def neighbours(fabric: Fabric) -> csr_array:
    """Return the number of cables between each two rows, sparse int32 [rows, rows]."""
    graph = fabric.graph
    ends = (graph.edge_tail, graph.edge_row)
    counts = np.ones(len(graph.edge_row), dtype=np.int32)
    return coo_array((counts, ends), shape=(graph.num_rows,) * 2).tocsr()


def _only_switches(fabric: Fabric) -> None:
    if fabric.graph.num_rows == 0 or fabric.num_hosts == 0:
        raise NotApplicable("the fabric has no switches or no hosts")
    if fabric.graph.num_rows != fabric.num_switches:
        raise NotApplicable("hosts of a dragonfly, megafly or HyperX do not forward")


def _name(fabric: Fabric, row: Any) -> str:
    return fabric.node_names[int(fabric.graph.row_node[row])]


def find_grid(fabric: Fabric) -> NDArray[np.int32]:
    """Find the coordinates of the switches of a HyperX.

    Returns int32 [rows, dimensions]: two switches are cabled, by any number of cables, if and only
    if they differ in exactly one coordinate. Dimensions and coordinates follow the order of the
    switches.

    Raises `NotApplicable` if the fabric is not a HyperX; the message names the first difference.

    The neighbours of a switch form one clique for each line through it. The neighbours of the
    first switch get coordinates by this rule. A switch k hops from the first switch differs from it
    in k coordinates; each of these k values occurs at a neighbour k - 1 hops from the first switch.
    """
    _only_switches(fabric)
    joined = neighbours(fabric)
    rows = joined.shape[0]
    near = [joined.indices[joined.indptr[r] : joined.indptr[r + 1]] for r in range(rows)]
    near = [np.sort(row) for row in near]
    lines: list[NDArray[Any]] = []
    left = near[0]
    while len(left):
        peers = np.intersect1d(left, near[left[0]])
        lines.append(np.concatenate((left[:1], peers)))
        left = np.setdiff1d(left, lines[-1])
    where = np.full((rows, max(len(lines), 1)), -1, dtype=np.int32)
    where[0] = 0
    level = np.full(rows, -1, dtype=np.int32)
    level[0] = 0
    for d, line in enumerate(lines):
        where[line] = 0
        where[line, d] = np.arange(1, len(line) + 1)
        level[line] = 1
    size = np.array([len(line) + 1 for line in lines] or [1])
    if int(np.prod(size.astype(object))) != rows:
        raise NotApplicable(
            f"a grid of the lines through {_name(fabric, 0)} has "
            f"{np.prod(size.astype(object))} switches, not {rows}"
        )
    reached = np.concatenate(lines) if lines else np.zeros(0, dtype=np.int64)
    while len(reached):
        following = np.unique(np.concatenate([near[row] for row in reached]))
        following = following[level[following] < 0]
        depth = level[reached[0]]
        for row in following:
            below = near[row][level[near[row]] == depth]
            where[row] = where[below].max(axis=0)
        level[following] = depth + 1
        reached = following
    number = np.ravel_multi_index(tuple(where.clip(0).T), tuple(size), mode="clip")
    if np.any(where < 0) or len(np.unique(number)) != rows:
        raise NotApplicable("the switches do not form a grid")
    graph = fabric.graph
    apart = (where[graph.edge_tail] != where[graph.edge_row]).sum(axis=1)
    if np.any(apart != 1):
        link = int(graph.edge_link[np.flatnonzero(apart != 1)[0]])
        raise NotApplicable(f"{fabric.cable_name(link >> 1)} is not along a line of the grid")
    degree = np.array([len(row) for row in near])
    short = np.flatnonzero(degree != (size - 1).sum())
    if len(short):
        raise NotApplicable(
            f"{_name(fabric, short[0])} is not cabled to all other switches of its lines"
        )
    return where


def find_megafly(fabric: Fabric) -> DragonflyGroups:
    """Find the groups of a megafly, whose leaves have hosts and whose spines have none.

    Pairs of groups without a direct cable are allowed: `DragonflyGroups.gap` names one.
    """
    _only_switches(fabric)
    graph = fabric.graph
    spine = row_sources(fabric) == 0
    if not spine.any():
        raise NotApplicable("there are no spines: every switch has hosts")
    flat = np.flatnonzero(~spine[graph.edge_tail] & ~spine[graph.edge_row])
    if len(flat):
        link = int(graph.edge_link[flat[0]])
        raise NotApplicable(f"{fabric.cable_name(link >> 1)} connects two switches with hosts")
    inside = spine[graph.edge_tail] != spine[graph.edge_row]
    ends = (graph.edge_tail[inside], graph.edge_row[inside])
    matrix = coo_array((np.ones(len(ends[0]), dtype=np.uint8), ends), shape=(graph.num_rows,) * 2)
    group = connected_components(matrix, directed=False)[1].astype(np.int32)
    joined = neighbours(fabric)
    for row in np.flatnonzero(spine):
        heads = joined.indices[joined.indptr[row] : joined.indptr[row + 1]]
        leaves = heads[~spine[heads]]
        missing = np.setdiff1d(np.flatnonzero(~spine & (group == group[row])), leaves)
        if len(missing) or not len(leaves):
            what = _name(fabric, missing[0]) if len(missing) else "any switch with hosts"
            raise NotApplicable(f"spine {_name(fabric, row)} is not cabled to {what}")
        beside = heads[spine[heads] & (group[heads] == group[row])]
        if len(beside):
            names = f"{_name(fabric, row)} and {_name(fabric, beside[0])}"
            raise NotApplicable(f"spines {names} of one group are cabled to each other")
    if group.max() < 2:
        raise NotApplicable(f"the fabric has {group.max() + 1} groups; three are needed")
    return DragonflyGroups(group, spine.astype(np.int8), _gap(fabric, group))


def find_dragonfly(fabric: Fabric) -> DragonflyGroups:
    """Find the groups of a dragonfly: cliques of switches with hosts, connected by cables.

    All groups have the same size; several cables may connect two switches. If there are no
    cliques with cables between every two of them, pairs of groups that are only connected via a
    third group are allowed: `DragonflyGroups.gap` then names a pair without a cable.

    Two switches of a group of size a have a - 2 common neighbours in the group; the ends of a
    global cable rarely have as many. Edges whose ends have fewer are removed repeatedly. A search
    then divides the switches into cliques of the remaining edges, starting with the switch that has
    the fewest choices. The largest group size for which the search succeeds is used. A switch may
    be without a global cable: some global ports are empty if their number is not a multiple of the
    number of other groups.
    """
    _only_switches(fabric)
    bare = np.flatnonzero(row_sources(fabric) == 0)
    if len(bare):
        raise NotApplicable(f"switch {_name(fabric, bare[0])} has no hosts")
    joined = neighbours(fabric)
    joined.data[:] = 1
    rows = joined.shape[0]
    least = int(np.diff(joined.indptr).min())
    most = int(np.diff(joined.indptr).max())
    tier = np.zeros(rows, dtype=np.int8)
    damaged: list[NDArray[np.int32]] = []
    for size in range(min(rows // 3, least + 1), 1, -1):
        # A group needs at least one cable to each other group.
        if rows % size or size * (most - size + 1) < rows // size - 1:
            continue
        group = _cliques(fabric, joined, size, damaged)
        if group is not None:
            return DragonflyGroups(group, tier)
    for group in damaged:
        hops = group_distances(fabric, group)
        if hops.max() == 2 and rows > 2 * len(hops):
            return DragonflyGroups(group, tier, _gap(fabric, group))
    raise NotApplicable(
        _gap(fabric, damaged[0])
        if damaged
        else f"the {rows} switches cannot be divided into three or more connected cliques, as far "
        "as was searched"
    )


def _cliques(
    fabric: Fabric, joined: csr_array, size: int, damaged: list[NDArray[np.int32]]
) -> NDArray[np.int32] | None:
    """Divide rows into cliques of one size, any two of which are cabled; return each row's clique.

    Cliques are numbered by their first row. If there is no such division, the result is None, and
    the first division into any cliques, if there is one, is added to `damaged`.
    """
    kept = joined.astype(np.int32)
    while size > 2:
        strong = (kept @ kept).multiply(kept).tocsr()
        strong.data = (strong.data >= size - 2).astype(np.int32)
        strong.eliminate_zeros()
        if strong.nnz == kept.nnz:
            break
        kept = strong
    rows = kept.shape[0]
    near = [set(kept.indices[kept.indptr[r] : kept.indptr[r + 1]].tolist()) for r in range(rows)]
    if min(map(len, near)) < size - 1:
        return None
    free = set(range(rows))
    first: NDArray[np.int32] | None = None
    trail: list[tuple[Iterator[frozenset[int]], frozenset[int]]] = []
    steps = iter(range(MAX_STEPS + 10 * rows))
    choices = _choices(near, size, free, steps)
    while True:
        clique = next(choices, None)
        if clique is None:
            if not trail:
                damaged += [] if first is None else [first]
                return None
            choices, taken = trail.pop()
            free |= taken
            continue
        free -= clique
        if not free:
            group = np.empty(rows, dtype=np.int32)
            cliques = sorted([clique, *(taken for _, taken in trail)], key=min)
            for number, members in enumerate(cliques):
                group[list(members)] = number
            if _joined(fabric, group).all():
                return group
            first = first if first is not None else group
            free |= clique
            continue
        trail.append((choices, clique))
        choices = _choices(near, size, free, steps)


def _choices(
    near: list[set[int]], size: int, free: set[int], steps: Iterator[int]
) -> Iterator[frozenset[int]]:
    """Yield the possible cliques around the free row that has the fewest free neighbours."""
    row = min(free, key=lambda one: (len(near[one] & free), one))
    return _grow(near, size, [row], sorted(near[row] & free), steps)


def _grow(
    near: list[set[int]], size: int, clique: list[int], others: list[int], steps: Iterator[int]
) -> Iterator[frozenset[int]]:
    """Yield the cliques that extend a clique by some of its common neighbours `others`.

    Each added row uses one of the steps; once no step is left, no more cliques are yielded.
    """
    if len(clique) == size:
        yield frozenset(clique)
        return
    for at, row in enumerate(others):
        if len(clique) + len(others) - at < size or next(steps, None) is None:
            return
        inside = [other for other in others[at + 1 :] if other in near[row]]
        yield from _grow(near, size, [*clique, row], inside, steps)


def group_distances(fabric: Fabric, group: NDArray[np.int32]) -> NDArray[np.uint16]:
    """Return the smallest number of global cables on paths between any two groups.

    Returns uint16 [groups, groups]: `weft.kernels.routing.distances.UNREACHED` if there is no path.
    """
    joined = csr_array(_joined(fabric, group))
    hops = np.empty(joined.shape, dtype=np.uint16)
    roots = np.arange(len(hops), dtype=np.int32)
    bfs_many(joined.indptr.astype(np.int32), joined.indices.astype(np.int32), roots, hops)
    return hops


def _joined(fabric: Fabric, group: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return whether groups are equal or connected by a cable, bool [groups, groups]."""
    graph = fabric.graph
    joined = np.eye(int(group.max()) + 1, dtype=bool)
    joined[group[graph.edge_tail], group[graph.edge_row]] = True
    return joined


def _gap(fabric: Fabric, group: NDArray[np.int32]) -> str:
    """Return text that names the first two groups without a cable; empty if there are none."""
    missing = np.argwhere(~_joined(fabric, group))
    if not len(missing):
        return ""
    a, b = (_name(fabric, np.flatnonzero(group == number)[0]) for number in missing[0])
    return f"no cable connects the groups of {a} and {b}"
