"""Levels of the rows of a tree: labels of the fabric, or distances from hosts or roots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from weft.fabrics import Fabric
from weft.routing.engine_registry import row_sources
from weft.routing.engines.as_opensm import detected_roots

#: Inferred levels are used if at most this share of the edges connects rows of one level.
MAX_LEVEL_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Levels:
    """Tree levels of rows, int64 [rows] from 1, and an explanation."""

    level: NDArray[np.int64]
    caption: str


def labelled_levels(fabric: Fabric) -> Levels | None:
    """Return the fabric's levels of its rows, or None if one is unknown or all are equal."""
    known = fabric.level[fabric.graph.row_node].astype(np.int64)
    if len(known) and (known >= 0).all() and known.max() > known.min():
        # Hosts that forward have level 0; the lowest level of rows is 1.
        return Levels(
            known - known.min() + 1, "Tree levels: hosts at the bottom, roots at the top."
        )
    return None


def levels_above_hosts(fabric: Fabric) -> Levels | None:
    """Return levels by the distance from the nearest host.

    Returns
    -------
    Levels or None
        None if a row is connected to no host, or too many edges connect rows of one level.
    """
    leaves = np.flatnonzero(row_sources(fabric))
    level = _distance(fabric, leaves) + 1
    return _nearly_tree(fabric, level, "Levels by the distance from the nearest host.")


def levels_below_roots(fabric: Fabric) -> Levels | None:
    """Return levels by the distance from the roots that ``updn`` finds, or None as above.

    This takes long on large fabrics: the distances between all rows are computed.
    """
    if not row_sources(fabric).any():
        return None
    depth = _distance(fabric, detected_roots(fabric))
    level = np.where(depth < 0, 0, depth.max(initial=0) - depth + 1)
    return _nearly_tree(fabric, level, "Levels by the distance from the roots that updn finds.")


def _nearly_tree(fabric: Fabric, level: NDArray[np.int64], caption: str) -> Levels | None:
    """Return the levels, or None if one is unknown (0) or too many edges are within a level."""
    tail, head = fabric.graph.edge_tail, fabric.graph.edge_row
    if not len(tail) or (level < 1).any() or np.mean(level[tail] == level[head]) > MAX_LEVEL_SHARE:
        return None
    return Levels(level, caption)


def _distance(fabric: Fabric, sources: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the hops from each row to the nearest source, -1 if it reaches no source."""
    graph = fabric.graph
    if not len(sources):
        return np.full(graph.num_rows, -1, dtype=np.int64)
    ends = graph.edge_tail, graph.edge_row
    matrix = csr_array((np.ones(len(ends[0])), ends), shape=(graph.num_rows, graph.num_rows))
    hops = dijkstra(matrix, unweighted=True, indices=sources, min_only=True)
    return np.where(np.isfinite(hops), hops, -1).astype(np.int64)
