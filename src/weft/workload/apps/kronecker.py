"""Kronecker graphs of the Graph500 benchmark and the levels of a breadth-first search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: Edges of each vertex, and chances of the quarters of the adjacency matrix (the last is 0.05).
EDGE_FACTOR = 16
_A, _B, _C = 0.57, 0.19, 0.19


class Graph:
    """An undirected graph with numbered vertices, from each of them to its neighbours.

    Parameters
    ----------
    scale
        2^scale vertices and 16 times as many edges, as the generator draws them: edges that come
        twice stay, those from a vertex to itself are left out.
    random
        Draws edges and the numbers of the vertices.
    """

    def __init__(self, scale: int, random: np.random.Generator):
        vertices = 1 << scale
        edges = EDGE_FACTOR * vertices
        ends = np.zeros((2, edges), dtype=np.int64)
        for bit in range(scale):
            down = random.random(edges) > _A + _B
            below, above = _C / (1 - _A - _B), _A / (_A + _B)
            right = random.random(edges) > np.where(down, below, above)
            ends[0] |= down.astype(np.int64) << bit
            ends[1] |= right.astype(np.int64) << bit
        ends = random.permutation(vertices)[ends[:, ends[0] != ends[1]]]
        source, target = np.concatenate([ends, ends[::-1]], axis=1)
        #: Neighbours of vertex v are `target[offset[v] : offset[v + 1]]`.
        self.offset: Ints = np.concatenate([[0], np.cumsum(np.bincount(source, None, vertices))])
        self.target: Ints = target[np.argsort(source, kind="stable")]

    def levels(self, root: int) -> Iterator[tuple[Ints, Ints]]:
        """Edges that a search follows, level by level: from all vertices of a level to others.

        Yields
        ------
        Sources and targets, int64 [edges]; the last level finds nothing new.
        """
        found = np.zeros(len(self.offset) - 1, dtype=np.bool_)
        found[root] = True
        front = np.array([root], dtype=np.int64)
        while len(front):
            degree = self.offset[front + 1] - self.offset[front]
            place = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
            target = self.target[np.repeat(self.offset[front], degree) + place]
            yield np.repeat(front, degree), target
            fresh = np.unique(target[~found[target]])
            found[fresh] = True
            front = fresh
