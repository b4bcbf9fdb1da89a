"""Collecting candidate sets target by target, each distinct set kept once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric


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
