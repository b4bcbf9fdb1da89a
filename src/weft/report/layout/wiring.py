"""Wiring of a fabric, as the layouts need it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.fabrics import Fabric

Points = NDArray[np.float64]
Nodes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Wiring:
    """Wiring of a fabric."""

    #: Nodes that forward packets, which the layout places first; others are attached to them.
    core: Nodes
    #: int64 [nodes]: index in `core`, -1 for other nodes.
    core_of: Nodes
    #: int64 [cables]: indices in `core` of both ends, for cables between core nodes, `a` < `b`.
    a: Nodes
    b: Nodes
    #: int64 [nodes]: core node to which a node outside the core is attached; -1 for none.
    parent: Nodes

    @classmethod
    def of(cls, fabric: Fabric) -> Wiring:
        """Return the wiring of a fabric."""
        core = np.flatnonzero(fabric.forwards).astype(np.int64)
        core_of = np.full(fabric.num_nodes, -1, dtype=np.int64)
        core_of[core] = np.arange(len(core))
        tail, head = core_of[fabric.link_from[0::2]], core_of[fabric.link_to[0::2]]
        inner = (tail >= 0) & (head >= 0)
        ends = np.sort(np.stack((tail[inner], head[inner])), axis=0)
        parent = np.full(fabric.num_nodes, -1, dtype=np.int64)
        # In descending order of ports, so that the first cable of a node overwrites the others.
        links = np.flatnonzero((core_of[fabric.link_from] < 0) & (core_of[fabric.link_to] >= 0))
        links = links[np.argsort(-fabric.link_from_port[links].astype(int), kind="stable")]
        parent[fabric.link_from[links]] = fabric.link_to[links]
        return cls(core, core_of, ends[0], ends[1], parent)

    def matrix(self) -> csr_array:
        """Return the symmetric adjacency of the core, one entry per pair."""
        count = len(self.core)
        ends = np.concatenate((self.a, self.b)), np.concatenate((self.b, self.a))
        matrix = csr_array((np.ones(len(ends[0])), ends), shape=(count, count))
        matrix.sum_duplicates()
        return matrix

    def components(self, kept: NDArray[np.bool_]) -> Nodes:
        """Return the connected component of each core node, by the cables [a, b] that are kept."""
        ends = self.a[kept], self.b[kept]
        part = csr_array((np.ones(len(ends[0])), ends), shape=(len(self.core), len(self.core)))
        label: Nodes = connected_components(part, directed=False)[1]
        return label


def hanging(wiring: Wiring, rank: Nodes) -> dict[int, Nodes]:
    """Return core node -> nodes attached to it, in natural order."""
    outside = np.flatnonzero(wiring.parent >= 0)
    if not len(outside):
        return {}
    outside = outside[np.lexsort((rank[outside], wiring.parent[outside]))]
    parents, starts = np.unique(wiring.parent[outside], return_index=True)
    parts = np.split(outside, starts[1:])
    return {int(parent): part for parent, part in zip(parents, parts, strict=True)}


def park_loose(position: Points, wiring: Wiring) -> Points:
    """Place nodes without a cable to a core node in rows below the drawing."""
    loose = np.flatnonzero((wiring.core_of < 0) & (wiring.parent < 0))
    if len(loose):
        placed = np.delete(position, loose, axis=0)
        low = placed.min(axis=0) if len(placed) else np.zeros(2)
        across = max(8, round(float(np.ptp(placed[:, 0]))) if len(placed) else 8)
        index = np.arange(len(loose))
        position[loose, 0] = low[0] + index % across
        position[loose, 1] = low[1] - 2.0 - index // across
    return position
