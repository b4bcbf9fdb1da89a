"""Coordinates of a folded Clos network, even with missing or slower cables and switches.

A switch of level l > 1 is identified by its subtree (the part of the fabric below it, without the
switches above level l) and by its plane (the part that remains when the levels below it are
removed). Both are connected components. Names and the order of ports therefore do not matter, and a
few missing cables change neither subtrees nor planes.

Parts that do not belong to such a network can be left out: cables that do not connect neighbouring
levels, switches that lead down to no leaf switch, hosts that are not at a leaf switch, cables
between two blocks, and all connected parts but the one with most hosts. In a block of a tree, each
of some switches is connected to each of some switches of the next level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import NotApplicable
from weft.core.frozen import FrozenArrays
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.levels import tree_levels


@dataclass(frozen=True, eq=False)
class Stage(FrozenArrays):
    """Cables from the subtrees of one level to the switches of the next."""

    #: int32 [leaves]: subtree of each leaf switch.
    subtree: NDArray[np.int32]
    #: Numbers of planes above a switch of this stage, and of parallel cables to each parent.
    planes: int
    parallel: int
    #: int32 [subtrees, prefixes, parallel * planes]: edge of `SwitchGraph` that leads upwards from
    #: the switch with a given subtree and prefix, -1 if there is none. Column ``c * planes + p`` is
    #: parallel cable ``c`` to plane ``p``. A prefix combines the planes chosen at the stages below
    #: into one number, with the lowest stage most significant.
    edge: NDArray[np.int32]

    @property
    def width(self) -> int:
        """Number of columns of `edge`: cables upwards from a switch."""
        return self.planes * self.parallel


@dataclass(frozen=True, eq=False)
class FoldedClos(FrozenArrays):
    """Coordinates of a folded Clos network."""

    #: int16 [rows]: level, 1 for leaf switches; 0 for switches that are left out.
    level: NDArray[np.int16]
    #: int32: row of each leaf switch, and number of the leaf switch at each row, -1 for others.
    leaf_row: NDArray[np.int32]
    leaf_of_row: NDArray[np.int32]
    #: One for each pair of successive levels, the lowest first.
    stages: tuple[Stage, ...]
    #: int32 [edges]: edge of the same cable in the other direction.
    reverse: NDArray[np.int32]
    #: Whether no cable of a complete tree of these dimensions is missing.
    complete: bool
    #: What is left out, by name; empty if nothing is.
    left_out: str


def find_folded_clos(fabric: Fabric) -> FoldedClos:
    """Find the coordinates of all switches of a folded Clos network, without labels.

    Leaf-spine networks, XGFTs and PGFTs have such coordinates, even if they are slimmed.
    """
    clos = find_largest_clos(fabric.whole)
    if clos.left_out:
        raise NotApplicable(f"this is a folded Clos network only without {clos.left_out}")
    return clos


@lru_cache(maxsize=4)
def find_largest_clos(fabric: Fabric) -> FoldedClos:
    """Find the coordinates of the largest part of a fabric that is a folded Clos network.

    Parts are left out as the description of the module says; cables between blocks only if there is
    no other way. The blocks are found from the switches of the upper level: two are in one block if
    at least half of the lower switches below either of them are below both. A lower switch belongs
    to the block of most of its neighbours above, in a tie the first.
    """
    graph = fabric.graph
    if graph.num_rows != fabric.num_switches:
        raise NotApplicable("hosts of a fat tree do not forward")
    found = tree_levels(fabric)
    low = np.minimum(found[graph.edge_tail], found[graph.edge_row])
    used = (np.abs(found[graph.edge_tail] - found[graph.edge_row]) == 1) & (low > 0)
    try:
        return _numbered(fabric, found, used)
    except NotApplicable:
        within = used & _within_blocks(fabric, found, used)
        if np.array_equal(within, used):
            raise
        return _numbered(fabric, found, within)


def _within_blocks(
    fabric: Fabric, level: NDArray[np.int64], used: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return whether each used edge connects two switches of one block."""
    graph = fabric.graph
    up = used & (level[graph.edge_tail] < level[graph.edge_row])
    below = graph.matrix(up).T.tocsr()
    degree = np.diff(below.indptr)
    common = (below @ below.T).tocoo()
    row, other = common.coords
    alike = 2 * common.data >= degree[row] + degree[other] - common.data
    alike &= level[row] == level[other]
    size = (graph.num_rows, graph.num_rows)
    block = connected_components(
        coo_array((np.ones(int(alike.sum()), np.uint8), (row[alike], other[alike])), shape=size),
        directed=False,
    )[1]
    upper, lower = below.nonzero()
    votes = coo_array((np.ones(len(lower), np.int64), (lower, block[upper])), shape=size).tocsr()
    mine = np.asarray(votes.argmax(axis=1)).ravel()
    low, high = (np.where(up, a, b) for a, b in ((graph.edge_tail, graph.edge_row),
                                                (graph.edge_row, graph.edge_tail)))  # fmt: skip
    within: NDArray[np.bool_] = block[high] == mine[low]
    return within


def _numbered(fabric: Fabric, found: NDArray[np.int64], used: NDArray[np.bool_]) -> FoldedClos:
    """Return the coordinates of the part that some edges form."""
    graph = fabric.graph
    leads = found == 1
    for at in range(2, int(found.max()) + 1):
        heads = graph.edge_row[used & leads[graph.edge_tail] & (found[graph.edge_tail] == at - 1)]
        leads[heads[found[heads] == at]] = True
    component = _components(fabric, used, leads)
    row = graph.destination_row[fabric.host_endpoint[fabric.host_endpoint >= 0]]
    at_leaf = row[(row >= 0) & (found[row] == 1)]
    leads &= component == np.bincount(component[at_leaf], minlength=graph.num_rows).argmax()
    level = np.where(leads, found, 0).astype(np.int16)
    used = used & leads[graph.edge_tail] & leads[graph.edge_row]
    height = int(level.max())
    leaf_row = np.flatnonzero(level == 1).astype(np.int32)
    leaf_of_row = np.full(graph.num_rows, -1, dtype=np.int32)
    leaf_of_row[leaf_row] = np.arange(len(leaf_row))
    stages: list[Stage] = []
    # Prefix of each row at its level, and number of prefixes at the current level.
    prefix, prefixes = np.zeros(graph.num_rows, dtype=np.int64), 1
    subtree = leaf_of_row.astype(np.int64)
    above = np.zeros(graph.num_rows, dtype=np.int64)
    for low in range(1, height):
        part, planes = _planes(fabric, used, level, low + 1, above)
        edge, parallel = _columns(fabric, used, level, low, subtree, prefix, prefixes, part, planes)
        stages.append(Stage(subtree[leaf_row].astype(np.int32), planes, parallel, edge))
        prefix = np.where(level > low, prefix * planes + part, prefix)
        prefixes *= planes
        subtree = _subtrees(fabric, used, level, low + 1, leaf_row)
        above = np.where(level > low, prefix, 0)
        _refuse_twins(fabric, level == low + 1, subtree, prefix)
    complete = all(np.all(stage.edge >= 0) for stage in stages)
    reverse = graph.edge_back
    left_out = _left_out(fabric, level, used)
    return FoldedClos(level, leaf_row, leaf_of_row, tuple(stages), reverse, complete, left_out)


def _left_out(fabric: Fabric, level: NDArray[np.int16], used: NDArray[np.bool_]) -> str:
    """Return the switches that reach a host, the hosts and the other cables that are left out."""
    graph, names = fabric.graph, fabric.node_names
    hosts = np.flatnonzero(fabric.host_endpoint >= 0)
    row = graph.destination_row[fabric.host_endpoint[hosts]]
    reached = np.isin(graph.components, graph.components[row[row >= 0]])
    switches = np.flatnonzero((level == 0) & reached)
    off = hosts[(row >= 0) & (level[row] != 1)]
    cables = ~used & (level[graph.edge_tail] > 0) & (level[graph.edge_row] > 0)
    parts = [
        (what, [names[node] for node in nodes.tolist()])
        for what, nodes in (("switch", switches), ("host", fabric.num_switches + off))
    ]
    numbers = np.unique(graph.edge_link[cables] >> 1)
    parts.append(("cable", [fabric.cable_name(cable) for cable in numbers.tolist()]))
    plural = {"switch": "switches", "host": "hosts", "cable": "cables"}
    return "; ".join(
        f"{what if len(each) == 1 else f'{len(each):,} {plural[what]}:'} {few(each)}"
        for what, each in parts
        if each
    )


def _components(
    fabric: Fabric, used: NDArray[np.bool_], kept: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the connected component of each row among the kept rows."""
    graph = fabric.graph
    inside = used & kept[graph.edge_tail] & kept[graph.edge_row]
    component: NDArray[np.int32] = connected_components(graph.matrix(inside), directed=False)[1]
    return component.astype(np.int64)


def _planes(
    fabric: Fabric,
    used: NDArray[np.bool_],
    level: NDArray[np.int16],
    lowest: int,
    above: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int]:
    """Return the plane of each row from level `lowest` up, and the number of planes."""
    kept = level >= lowest
    component = _components(fabric, used, kept)
    rows = np.flatnonzero(kept)
    # Components in order of their first row, numbered from 0 within each plane of the stage below.
    _, first, inverse = np.unique(component[rows], return_index=True, return_inverse=True)
    outer = above[rows[first]]
    order = np.lexsort((first, outer))
    start = np.searchsorted(outer[order], outer[order], side="left")
    number = np.empty(len(first), dtype=np.int64)
    number[order] = np.arange(len(first)) - start
    plane = np.zeros(len(level), dtype=np.int64)
    plane[rows] = number[inverse]
    return plane, int(number.max(initial=0)) + 1


def _subtrees(
    fabric: Fabric,
    used: NDArray[np.bool_],
    level: NDArray[np.int16],
    top: int,
    leaf_row: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Return the subtree of each row up to level `top`, in the order of first leaf switches."""
    component = _components(fabric, used, level <= top)
    _, first = np.unique(component[leaf_row], return_index=True)
    number = np.full(int(component.max()) + 1, -1, dtype=np.int64)
    number[component[leaf_row[np.sort(first)]]] = np.arange(len(first))
    subtree: NDArray[np.int64] = number[component]
    return subtree


def _columns(
    fabric: Fabric,
    used: NDArray[np.bool_],
    level: NDArray[np.int16],
    low: int,
    subtree: NDArray[np.int64],
    prefix: NDArray[np.int64],
    prefixes: int,
    plane: NDArray[np.int64],
    planes: int,
) -> tuple[NDArray[np.int32], int]:
    """Return `Stage.edge` of the cables from level `low`, and the number of parallel cables."""
    graph = fabric.graph
    up = np.flatnonzero(used & (level[graph.edge_tail] == low) & (level[graph.edge_row] == low + 1))
    key = graph.edge_tail[up].astype(np.int64) * planes + plane[graph.edge_row[up]]
    order = np.lexsort((graph.edge_port[up], key))
    up, key = up[order], key[order]
    cable = np.arange(len(up)) - np.searchsorted(key, key, side="left")
    parallel = int(cable.max(initial=0)) + 1
    # All subtrees, even those without a switch at level `low`.
    shape = (int(subtree[level <= low].max()) + 1, prefixes, parallel * planes)
    edge = np.full(shape, -1, dtype=np.int32)
    tail = graph.edge_tail[up]
    edge[subtree[tail], prefix[tail], cable * planes + key % planes] = up
    return edge, parallel


def _refuse_twins(
    fabric: Fabric, here: NDArray[np.bool_], subtree: NDArray[np.int64], prefix: NDArray[np.int64]
) -> None:
    """Refuse two switches of one level with the same subtree and plane."""
    rows = np.flatnonzero(here)
    order = rows[np.lexsort((prefix[rows], subtree[rows]))]
    twins = (np.diff(subtree[order]) == 0) & (np.diff(prefix[order]) == 0)
    for at in np.flatnonzero(twins)[:1]:
        one, other = (fabric.node_names[fabric.graph.row_node[order[at + k]]] for k in (0, 1))
        raise NotApplicable(
            f"this is not a folded Clos network: switches {one} and {other} lead down to the same "
            "leaf switches, and the levels above connect them too; expected such switches to have "
            "no common switch above them, directly or via others"
        )
