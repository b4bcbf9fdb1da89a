"""Graph500: breadth-first searches of a Kronecker graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import (
    all_ranks,
    allreduce,
    alltoallv,
    application,
    at_least,
    check_messages,
    check_size,
    generator,
    need,
)
from weft.workload.apps.grids import rows_and_columns
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.workload import Workload

Ints = NDArray[np.int64]
#: Edges per vertex, and probabilities of the quadrants of the adjacency matrix (the last is 0.05).
EDGE_FACTOR = 16
_A, _B, _C = 0.57, 0.19, 0.19


class KroneckerGraph:
    """An undirected Kronecker graph as adjacency lists.

    `scale`: base-2 logarithm of the number of vertices; 16 times as many edges are drawn. Duplicate
    edges are kept, self-loops are removed. `random`: generator that draws the edges and the numbers
    of the vertices.
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
        """Yield the edges that a breadth-first search follows, level by level.

        Yields sources and targets of the edges of a level, int64 [edges] each; the last level
        reaches no new vertex.
        """
        reached = np.zeros(len(self.offset) - 1, dtype=np.bool_)
        reached[root] = True
        frontier = np.array([root], dtype=np.int64)
        while len(frontier):
            degree = self.offset[frontier + 1] - self.offset[frontier]
            index = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
            target = self.target[np.repeat(self.offset[frontier], degree) + index]
            yield np.repeat(frontier, degree), target
            new = np.unique(target[~reached[target]])
            reached[new] = True
            frontier = new


_COUNT_BYTES = 8
#: Largest number of ranks for 1d: the edge counts of all pairs of ranks then take 2 GB.
_MAX_RANKS_1D = 2**14


@application(
    "graph500",
    source="Graph500 specification 3.0; 2-D: Yoo et al. 2005, Buluc and Madduri 2011",
    small={"drawn": 10},
)
def graph500(
    num_ranks: int,
    *,
    scale: int = 26,
    drawn: int = 16,
    searches: int = 1,
    partition: Literal["1d", "2d"] = "1d",
    grid: tuple[int, ...] | None = None,
    edge: Bytes = 8,
    edge_time: Nanoseconds = 0.0,
    seed: int = 0,
) -> Workload:
    """Search a Kronecker graph breadth first from random roots; each level is a phase.

    The benchmark's graph has 2^scale vertices and 16 times as many edges. A smaller graph of
    2^drawn vertices is drawn and searched, and the message sizes of its levels are multiplied by
    2^(scale - drawn); the share of edges in each level changes only slowly with the size of the
    graph. Vertex v belongs to rank v mod P. A search ends with the level that reaches no new
    vertex.

    `1d`: the owner of each vertex of a level sends each of the vertex's edges to the owner of
    the edge's other end (MPI_Alltoallv), as the reference program does. `2d`: ranks form a grid; an
    edge belongs to the rank in the column of its source's owner and the row of its target's owner.
    A level's vertices are sent along columns (MPI_Allgatherv). Then each rank sends the vertices
    that its edges reach, each vertex once, along its row to their owners (MPI_Alltoallv). After
    each level all ranks add up the numbers of new vertices (MPI_Allreduce of 8 bytes).

    Parameters
    ----------
    scale
        Scale of the graph; the benchmark's smallest class has 26, the largest 42.
    drawn
        Scale of the graph that is drawn, 10 to 22; at most `scale`.
    searches
        Number of searches, each from another root that has neighbours; the benchmark runs 64.
    partition
        `1d` or `2d`.
    grid
        Rows and columns of the grid for `2d`; rank r is in row r div columns. If left out, the grid
        is as square as possible.
    edge
        Bytes of an edge or a vertex in a message; the reference program sends two 32-bit numbers.
    edge_time
        Calculation time per edge at the rank that follows the edge.
    seed
        Seed of the graph and the roots.
    """
    at_least(1, searches=searches)
    need(10 <= drawn <= 22, f"drawn must be 10 to 22, not {drawn}")
    need(10 <= scale <= 48, f"scale must be 10 to 48, not {scale}")
    if partition == "1d" and num_ranks > _MAX_RANKS_1D:
        raise NotApplicable(
            f"{num_ranks} ranks are too many for 1d, which counts edges between all pairs of them; "
            f"at most {_MAX_RANKS_1D:,} are possible"
        )
    rows, columns = rows_and_columns(num_ranks, grid)
    check_size(2 * EDGE_FACTOR * edge << scale)
    random = generator(seed)
    graph = KroneckerGraph(min(scale, drawn), random)
    factor = 1 << max(0, scale - drawn)
    roots = np.flatnonzero(np.diff(graph.offset))
    need(
        searches <= len(roots),
        f"searches must be at most {len(roots):,}, the number of vertices with neighbours, "
        f"not {searches}",
    )
    builder = WorkloadBuilder(num_ranks)
    messages = 0
    for search, root in enumerate(random.choice(roots, searches, replace=False)):
        for level, (source, target) in enumerate(graph.levels(int(root))):
            prefix = f"search {search + 1}, " if searches > 1 else ""
            builder.phase(f"{prefix}level {level}")
            if partition == "1d":
                pairs = np.bincount(
                    source % num_ranks * num_ranks + target % num_ranks, minlength=num_ranks**2
                )
                sizes = pairs.reshape(num_ranks, num_ranks)
                messages += int(np.count_nonzero(sizes))
                check_messages(num_ranks, messages)
                _calculate(builder, sizes.sum(axis=1) * factor, edge_time)
                alltoallv(builder, all_ranks(builder)[None], sizes[None] * (factor * edge))
            else:
                _level_2d(builder, source, target, (rows, columns), factor, edge, edge_time)
            allreduce(builder, _COUNT_BYTES)
    return builder.build()


def _level_2d(
    builder: WorkloadBuilder,
    source: Ints,
    target: Ints,
    grid: tuple[int, int],
    factor: int,
    edge: int,
    edge_time: float,
) -> None:
    rows, columns = grid
    ranks = rows * columns
    rank_grid = all_ranks(builder).reshape(rows, columns)
    frontier = np.bincount(np.unique(source) % ranks, minlength=ranks).reshape(rows, columns)
    for column in range(columns):
        if rows > 1:
            sizes = frontier[:, column] * (factor * edge)
            collective_on(builder, "allgatherv", rank_grid[:, column], sizes)
    owner = target % ranks
    holder = owner // columns * columns + source % ranks % columns
    _calculate(builder, np.bincount(holder, minlength=ranks) * factor, edge_time)
    # Each rank sends a vertex once, even if several of its edges lead there.
    once = np.unique(np.stack([holder, target]), axis=1)
    pairs = np.bincount(once[0] * columns + once[1] % ranks % columns, minlength=ranks * columns)
    alltoallv(builder, rank_grid, pairs.reshape(rows, columns, columns) * (factor * edge))


def _calculate(builder: WorkloadBuilder, edges: Ints, edge_time: float) -> None:
    if edge_time:
        builder.calc(all_ranks(builder), edges * edge_time)
