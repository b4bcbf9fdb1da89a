"""An upper bound on the bisection of any fabric, from a heuristic search for balanced cuts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from scipy.sparse.linalg import ArpackError, eigsh

from weft.fabrics import Fabric, NodeKind

#: Local search refines this number of the best initial cuts.
REFINED = 3
#: Number of eigenvectors, and of breadth-first searches, by which hosts are ordered.
EIGENVECTORS = 3
BALLS = 3
#: Limit on the passes of local search, and on consecutive moves of a pass without a better cut.
PASSES = 20
PATIENCE = 200
#: Largest number of vertices for which eigenvectors are computed densely.
DENSE = 400
#: Cost of a division that no choice of loose hosts can balance.
IMPOSSIBLE = np.iinfo(np.int64).max


def bisection_upper_bound(fabric: Fabric, seed: int = 0) -> int:
    """Return the size of the smallest cut found between two halves of the hosts.

    The result is a number of cables, host cables included. It is the size of an actual cut, and so
    at least the bisection. Halves differ by one host if the number of hosts is odd.

    Parameters
    ----------
    fabric
        Any fabric; hosts without a cable may be in either half.
    seed
        Seed of the random starts; equal seeds give equal results.

    Notes
    -----
    Hosts are ordered by number, by each coordinate, by the first eigenvectors of the Laplacian and
    by distance from random nodes, and each order is halved. For given halves of the hosts, a
    minimum cut divides the switches optimally. The best of these cuts are then refined in passes: a
    pass moves one vertex at a time, always by the best remaining move even if it makes the cut
    worse, and then returns to the best cut of the pass (Fiduccia and Mattheyses 1982).
    """
    hosts = fabric.num_hosts
    if hosts < 2:
        return 0
    # Cutting all cables of one half of the hosts is a balanced cut too.
    cables = np.bincount(fabric.link_from, minlength=fabric.num_nodes)[fabric.host_nodes]
    best = int(np.sort(cables)[: hosts // 2].sum())
    graph = _Graph.of(fabric)
    if not graph.size:
        return best
    cuts = {graph.minimum_cut(order) for order in _orders(fabric, graph, seed)}
    for value, start in sorted(cuts)[:REFINED]:
        side = _refine(graph, np.frombuffer(start, dtype=bool).copy())
        best = min(best, value, graph.cost(side))
    return best


@dataclass(frozen=True)
class _Graph:
    """The graph that a cut divides: forwarding nodes and hosts that are not loose.

    A host is *loose* if its only cable leads to a forwarding node: it is on that node's side, or
    its cable is cut.
    """

    #: int32 [size, size], symmetric: parallel cables between two vertices.
    cables: csr_array
    #: int64 [size]: number of loose hosts attached to the vertex; 1 if the vertex is a host, else
    #: 0.
    loose: NDArray[np.int64]
    fixed: NDArray[np.int64]
    #: Number of hosts without a cable.
    idle: int
    #: int64 and bool [hosts]: vertex of the host, or the vertex to which a loose host is attached
    #: (-1 for none); whether the host is loose.
    host_vertex: NDArray[np.int64]
    host_loose: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Number of vertices."""
        return len(self.loose)

    @property
    def num_hosts(self) -> int:
        return len(self.host_vertex)

    @classmethod
    def of(cls, fabric: Fabric) -> _Graph:
        tail, head = fabric.link_from, fabric.link_to
        auxiliary = fabric.node_kind == NodeKind.AUXILIARY
        used = ~(auxiliary[tail] | auxiliary[head])
        degree = np.bincount(tail[used], minlength=fabric.num_nodes)
        dangling = (fabric.node_kind == NodeKind.HOST) & ~fabric.forwards & (degree == 1)
        # Neither of two hosts joined by a cable is loose.
        dangling[tail[used & ~fabric.forwards[head]]] = False
        vertex = np.full(fabric.num_nodes, -1, dtype=np.int64)
        nodes = np.flatnonzero(~auxiliary & ~dangling & ((degree > 0) | fabric.forwards))
        vertex[nodes] = np.arange(len(nodes))

        size = len(nodes)
        between = used & ~dangling[tail] & ~dangling[head]
        ones = np.ones(int(between.sum()), dtype=np.int32)
        ends = (vertex[tail[between]], vertex[head[between]])
        cables = csr_array(coo_array((ones, ends), shape=(size, size)))
        cables.sum_duplicates()
        below = used & dangling[tail]
        vertex[tail[below]] = vertex[head[below]]
        hosts = fabric.host_nodes
        host_vertex, host_loose = vertex[hosts], dangling[hosts]
        own = host_vertex[~host_loose & (host_vertex >= 0)]
        return cls(
            cables=cables,
            loose=np.bincount(host_vertex[host_loose], minlength=size),
            fixed=np.bincount(own, minlength=size),
            idle=int((host_vertex < 0).sum()),
            host_vertex=host_vertex,
            host_loose=host_loose,
        )

    def minimum_cut(self, order: NDArray[np.int64]) -> tuple[int, bytes]:
        """Return a minimum cut between the first half of the hosts in an order and the rest.

        Returns the number of cables, and the vertices on the side of the first half: bool [size] as
        bytes.
        """
        half = self.num_hosts // 2
        source, sink = self.size, self.size + 1
        ties = []
        for end, part in ((source, order[:half]), (sink, order[half:])):
            chosen = part[self.host_vertex[part] >= 0]
            at, loose = self.host_vertex[chosen], self.host_loose[chosen]
            pull = np.bincount(at[loose], minlength=self.size)
            # A terminal edge heavier than all cables of a host vertex is never cut.
            pull[at[~loose]] += 1 + np.asarray(self.cables.sum(axis=1))[at[~loose]]
            pulled = np.flatnonzero(pull)
            ends = (np.full(len(pulled), end), pulled)
            ties.append((pull[pulled], ends if end == source else ends[::-1]))
        inside = self.cables.tocoo()
        values = np.concatenate((inside.data, *(tie[0] for tie in ties))).astype(np.int32)
        tails = np.concatenate((inside.row, *(tie[1][0] for tie in ties)))
        heads = np.concatenate((inside.col, *(tie[1][1] for tie in ties)))
        shape = (self.size + 2, self.size + 2)
        network = csr_array(coo_array((values, (tails, heads)), shape=shape))
        result = maximum_flow(network, source, sink)
        left = csr_array(network - result.flow)
        left.data[left.data < 0] = 0
        left.eliminate_zeros()
        reached = breadth_first_order(left, source, return_predecessors=False)
        side = np.zeros(self.size, dtype=bool)
        side[reached[reached < self.size]] = True
        return int(result.flow_value), side.tobytes()

    def cut(self, side: NDArray[np.bool_]) -> int:
        """Return the number of cables between the vertices on the two sides."""
        inside = self.cables.tocoo()
        return int(inside.data[side[inside.row] & ~side[inside.col]].sum())

    def misplaced(self, count: int, loose: int) -> int:
        """Return how many hosts to cut off if one side has `count` hosts, `loose` of them loose."""
        half = self.num_hosts // 2
        out = max(0, count - (self.num_hosts - half))
        into = max(0, half - self.idle - count)
        there = int(self.loose.sum()) - loose
        return out + into if out <= loose and into <= there else IMPOSSIBLE

    def cost(self, side: NDArray[np.bool_]) -> int:
        """Return how many cables a division cuts, with the best choice of hosts to cut off."""
        loose = int(self.loose[side].sum())
        misplaced = self.misplaced(loose + int(self.fixed[side].sum()), loose)
        return misplaced if misplaced == IMPOSSIBLE else self.cut(side) + misplaced


def _orders(fabric: Fabric, graph: _Graph, seed: int) -> Iterator[NDArray[np.int64]]:
    """Iterate over orders of the hosts, whose first half is to be cut from the second."""
    yield np.arange(graph.num_hosts)
    for column in fabric.coordinates[fabric.host_nodes].T:
        if (column != column[:1]).any():
            yield np.argsort(column, kind="stable")
    random = np.random.default_rng(seed)
    for scores in (*_eigenvectors(graph, random), *_balls(graph, random)):
        yield np.argsort(np.append(scores, 0.0)[graph.host_vertex], kind="stable")


def _eigenvectors(graph: _Graph, random: np.random.Generator) -> list[NDArray[np.float64]]:
    """Return the first eigenvectors of the normalised Laplacian after the constant one."""
    degree = np.asarray(graph.cables.sum(axis=1), dtype=np.float64)
    scale = 1 / np.sqrt(np.maximum(degree, 1))
    inside = graph.cables.tocoo()
    values = inside.data * scale[inside.row] * scale[inside.col]
    start = random.standard_normal(graph.size)
    wanted = 1 + EIGENVECTORS
    if graph.size <= DENSE:
        dense = np.zeros((graph.size, graph.size))
        dense[inside.row, inside.col] = values
        vectors = np.linalg.eigh(dense)[1][:, ::-1][:, 1:wanted]
    else:
        matrix = csr_array((values, (inside.row, inside.col)), shape=inside.shape)
        try:
            vectors = eigsh(matrix, k=wanted, which="LA", v0=start, tol=1e-3, maxiter=300)[1]
        except ArpackError:
            return []  # no convergence, as on very long rings, or no cables
        vectors = vectors[:, ::-1][:, 1:]
    return [np.round(vector * scale, 9) for vector in vectors.T]


def _balls(graph: _Graph, random: np.random.Generator) -> list[NDArray[np.float64]]:
    """Return the positions of the vertices in breadth-first searches from random vertices."""
    positions = []
    for start in random.integers(graph.size, size=BALLS):
        reached = breadth_first_order(graph.cables, start, return_predecessors=False)
        position = np.full(graph.size, float(graph.size))
        position[reached] = np.arange(len(reached))
        positions.append(position)
    return positions


def _refine(graph: _Graph, side: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Improve a division of the vertices in passes of single moves, in place."""
    best = graph.cost(side)
    for _ in range(PASSES):
        moves, cost = _pass(graph, side)
        if cost >= best:
            break
        best = cost
        side[moves] = ~side[moves]
    return side


def _pass(graph: _Graph, side: NDArray[np.bool_]) -> tuple[list[int], int]:
    """Move each vertex at most once, always by the best remaining move.

    Returns the moves up to the best division of the pass, and the cost of this division.
    """
    offset, neighbour, cables = graph.cables.indptr, graph.cables.indices, graph.cables.data
    weight = graph.loose + graph.fixed
    half = graph.num_hosts // 2
    low, high = half - graph.idle, graph.num_hosts - half
    # Penalty for each host by which the halves are unequal: a loose host can be cut off at the cost
    # of its one cable; a host vertex cannot, so the penalty is the largest number of neighbours of
    # a host vertex.
    price = int(np.diff(offset)[graph.fixed > 0].max(initial=0)) or 1

    side = side.copy()
    tail = np.repeat(np.arange(graph.size), np.diff(offset))
    across = np.where(side[tail] != side[neighbour], cables, -cables)
    gain = np.bincount(tail, weights=across, minlength=graph.size).astype(np.int64)
    cut, count, loose = graph.cut(side), int(weight[side].sum()), int(graph.loose[side].sum())
    free = np.ones(graph.size, dtype=bool)
    moves: list[int] = []
    best, best_length = IMPOSSIBLE, 0
    for _ in range(graph.size):
        after = np.where(side, count - weight, count + weight)
        off = np.maximum(np.maximum(after - high, low - after), 0)
        vertex = int(np.argmin(np.where(free, price * off - gain, IMPOSSIBLE)))
        step = -1 if side[vertex] else 1
        cut -= int(gain[vertex])
        count += step * int(weight[vertex])
        loose += step * int(graph.loose[vertex])
        around = neighbour[offset[vertex] : offset[vertex + 1]]
        change = cables[offset[vertex] : offset[vertex + 1]]
        gain[around] += np.where(side[around] == side[vertex], 2 * change, -2 * change)
        gain[vertex] = -gain[vertex]
        side[vertex] = ~side[vertex]
        free[vertex] = False
        moves.append(vertex)
        misplaced = graph.misplaced(count, loose)
        if misplaced != IMPOSSIBLE and cut + misplaced < best:
            best, best_length = cut + misplaced, len(moves)
        if len(moves) - best_length > PATIENCE:
            break
    return moves[:best_length], best
