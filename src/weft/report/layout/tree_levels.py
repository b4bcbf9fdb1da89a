"""Which tree level each switch is drawn at, when the fabric is a tree or nearly one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from weft.fabrics import Fabric
from weft.routing.engine_registry import row_sources
from weft.routing.engines.updn import roots_by_distance

Nodes = NDArray[np.int64]

#: Share of the cables between switches that may stay on one level, for levels that were inferred.
MAX_LEVEL_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Levels:
    """Tree levels of the core nodes, from 1, and how they were found."""

    level: Nodes
    caption: str


def labelled_levels(fabric: Fabric, core: Nodes) -> Levels | None:
    """The fabric's own labels of its nodes that forward, or None when they tell nothing."""
    known = fabric.level[core].astype(np.int64)
    if len(core) and (known >= 0).all() and known.max() > known.min():
        # Hosts that forward stand at level 0; the lowest row drawn is 1.
        return Levels(known - known.min() + 1, "Tree levels: hosts at the bottom, tops at the top.")
    return None


def inferred_levels(fabric: Fabric, a: Nodes, b: Nodes) -> Levels | None:
    """Levels of a fabric without labels, or None when it is not nearly a tree.

    Parameters
    ----------
    fabric
        Any fabric.
    a, b
        int64 [cables]: rows at the ends of the cables between nodes that forward.

    Returns
    -------
    Levels or None
        Distances from the hosts, else ranks below the roots that ``updn`` finds: the first of
        them by which nearly all cables join different levels.
    """
    if not len(a) or not row_sources(fabric).any():
        return None
    for level, caption in (
        (_above_hosts(fabric, a, b), "Levels by the distance from the nearest host."),
        (_below_roots(fabric, a, b), "Levels by the distance from the roots that updn finds."),
    ):
        if level is not None and np.mean(level[a] == level[b]) <= MAX_LEVEL_SHARE:
            return Levels(level, caption)
    return None


def _below_roots(fabric: Fabric, a: Nodes, b: Nodes) -> Nodes | None:
    roots = roots_by_distance(fabric).astype(np.int64)
    if not len(roots):
        return None
    rank = _distance(fabric.graph.num_rows, a, b, roots)
    return None if (rank < 0).any() else rank.max() - rank + 1


def _above_hosts(fabric: Fabric, a: Nodes, b: Nodes) -> Nodes | None:
    leaves = np.flatnonzero(row_sources(fabric)).astype(np.int64)
    height = _distance(fabric.graph.num_rows, a, b, leaves)
    return None if (height < 0).any() else height + 1


def _distance(count: int, a: Nodes, b: Nodes, sources: Nodes) -> Nodes:
    """Hops to the nearest of some rows, -1 where none can be reached."""
    matrix = csr_array((np.ones(len(a)), (a, b)), shape=(count, count))
    hops = dijkstra(matrix, directed=False, unweighted=True, indices=sources, min_only=True)
    return np.where(np.isfinite(hops), hops, -1).astype(np.int64)
