"""Coordinates of a folded Clos network, even with missing or slower cables and switches.

A switch of level l > 1 is identified by its subtree (the part of the fabric below it, without the
switches above level l) and by its plane (the part that remains when the levels below it are
removed). Both are connected components. Names and the order of ports therefore do not matter, and a
few missing cables change neither subtrees nor planes.
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
from weft.fabrics import Fabric
from weft.routing.structure.fat_tree import find_levels


@dataclass(frozen=True, eq=False)
class Stage(FrozenArrays):
    """Cables from the subtrees of one level to the switches of the next.

    Parameters
    ----------
    subtree
        int32 [leaves]: subtree of each leaf switch.
    planes, parallel
        Numbers of planes above a switch of this stage, and of parallel cables to each parent.
    edge
        int32 [subtrees, prefixes, parallel * planes]: edge of `SwitchGraph` that leads upwards from
        the switch with a given subtree and prefix, -1 if there is none. Column ``c * planes + p``
        is parallel cable ``c`` to plane ``p``. A prefix combines the planes chosen at the stages
        below into one number, with the lowest stage most significant.
    """

    subtree: NDArray[np.int32]
    planes: int
    parallel: int
    edge: NDArray[np.int32]

    @property
    def width(self) -> int:
        """Number of columns of `edge`: cables upwards from a switch."""
        return self.planes * self.parallel


@dataclass(frozen=True, eq=False)
class FoldedClos(FrozenArrays):
    """Coordinates of a folded Clos network.

    Parameters
    ----------
    level
        int16 [rows]: level, 1 for leaf switches.
    leaf_row, leaf_of_row
        int32: row of each leaf switch, and number of the leaf switch at each row, -1 for others.
    stages
        One for each pair of successive levels, the lowest first.
    reverse
        int32 [edges]: edge of the same cable in the other direction.
    complete
        Whether no cable of a complete tree of these dimensions is missing.
    """

    level: NDArray[np.int16]
    leaf_row: NDArray[np.int32]
    leaf_of_row: NDArray[np.int32]
    stages: tuple[Stage, ...]
    reverse: NDArray[np.int32]
    complete: bool


@lru_cache(maxsize=4)
def find_folded_clos(fabric: Fabric) -> FoldedClos:
    """Find the coordinates of all switches of a folded Clos network, without labels.

    Raises
    ------
    NotApplicable
        If a cable connects two switches of one level, a host forwards, or two switches have the
        same subtree and plane. The message names the first case.

    Notes
    -----
    Leaf-spine networks, XGFTs and PGFTs have such coordinates, even if they are slimmed.
    """
    level = find_levels(fabric, idle=True)
    graph = fabric.graph
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
        part, planes = _planes(fabric, level, low + 1, above)
        edge, parallel = _columns(fabric, level, low, subtree, prefix, prefixes, part, planes)
        stages.append(Stage(subtree[leaf_row].astype(np.int32), planes, parallel, edge))
        prefix = np.where(level > low, prefix * planes + part, prefix)
        prefixes *= planes
        subtree = _subtrees(fabric, level, low + 1, leaf_row)
        above = np.where(level > low, prefix, 0)
        _refuse_twins(fabric, level == low + 1, subtree, prefix)
    complete = all(np.all(stage.edge >= 0) for stage in stages)
    reverse = graph.edge_of_link[graph.edge_link ^ 1]
    return FoldedClos(level, leaf_row, leaf_of_row, tuple(stages), reverse, complete)


def _components(fabric: Fabric, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the connected component of each row among the kept rows."""
    graph = fabric.graph
    inside = kept[graph.edge_tail] & kept[graph.edge_row]
    ends = (graph.edge_tail[inside], graph.edge_row[inside])
    matrix = coo_array((np.ones(len(ends[0]), np.uint8), ends), shape=(graph.num_rows,) * 2)
    component: NDArray[np.int64] = connected_components(matrix, directed=False)[1]
    return component.astype(np.int64)


def _planes(
    fabric: Fabric, level: NDArray[np.int16], lowest: int, above: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Return the plane of each row from level `lowest` up, and the number of planes."""
    kept = level >= lowest
    component = _components(fabric, kept)
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
    fabric: Fabric, level: NDArray[np.int16], top: int, leaf_row: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return the subtree of each row up to level `top`, in the order of first leaf switches."""
    component = _components(fabric, level <= top)
    _, first = np.unique(component[leaf_row], return_index=True)
    number = np.full(int(component.max()) + 1, -1, dtype=np.int64)
    number[component[leaf_row[np.sort(first)]]] = np.arange(len(first))
    subtree: NDArray[np.int64] = number[component]
    return subtree


def _columns(
    fabric: Fabric,
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
    up = np.flatnonzero((level[graph.edge_tail] == low) & (level[graph.edge_row] == low + 1))
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
