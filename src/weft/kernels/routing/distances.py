"""Hop distances between the rows of a fabric, along any path or along up*/down* paths."""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.parts import parts
from weft.kernels.records import record_type

#: Distances are uint16, wide enough for a ring or a chain of any size that tables can hold.
UNREACHED = 65535
#: Rows of a block of `Search` are arranged as multiples of this number, for arithmetic on vectors.
VECTOR = 8

#: A row that a search reached: index of its block's first head, index of its first choice, distance
#: to its next choice, and the number of flows that it sends or forwards.
REACHED = record_type(row="i4", block="i4", at="i4", step="i4", flow="i8")


class Search(NamedTuple):
    """Work space of kernels that search from a target row, and choose paths to it."""

    #: uint16 [rows], int32 [rows]: distances to the target, and the rows reached, nearest first.
    hops: Any
    queue: Any
    #: uint8 [rows]: 1 where the path of the row only leads down; see `updown`.
    down: Any
    #: int32 [rows + 1], int32 [edges]: first edges of the paths of each row reached; see
    #: `next_edges`.
    first: Any
    edges: Any
    #: int32, float64, int64 [rows]: edge chosen for each row reached; cost of the path of each row,
    #: and the number of flows that it sends or forwards.
    chosen: Any
    cost: Any
    flow: Any
    #: `REACHED` [rows], int32 [rows], float64 and int32 [rows + VECTOR]: the rows reached, in the
    #: order of the queue; the first row of each block; cost and choice of each row.
    reached: Any
    block: Any
    costs: Any
    choice: Any
    #: float64, int32, int32 [2 edges]: load times cost and edge of each choice, and the heads of
    #: each block, as positions in the queue; see `weft.kernels.routing.tables`.
    price: Any
    edge: Any
    head: Any


def search_space(rows: int, edges: int) -> Any:
    """Return the parts of a `Search`."""
    small, wide = np.empty((2, rows), dtype=np.int32), np.empty(rows, dtype=np.int64)
    lists = np.empty(rows + 1, dtype=np.int32), np.empty(edges, dtype=np.int32)
    hops, down = np.empty(rows, dtype=np.uint16), np.empty(rows, dtype=np.uint8)
    blocks = np.empty(rows, dtype=REACHED), np.empty(rows, dtype=np.int32)
    values = np.empty(rows + VECTOR), np.empty(rows + VECTOR, dtype=np.int32)
    choices = np.empty(2 * edges), *np.empty((2, 2 * edges), dtype=np.int32)
    return parts(
        Search(
            hops, small[0], down, *lists, small[1], np.empty(rows), wide, *blocks, *values, *choices
        )
    )


@njit(cache=True)
def bfs(edge_offset, edge_row, root, hops, queue, most=-1):
    """Fill hops[r] with the number of edges from row r to the root, `UNREACHED` without a path.

    Cables are bidirectional, so a search from the root gives the distance to it. hops is uint16
    [rows], queue int32 [rows]. The search ends with `most` rows, if that is the number of rows that
    it can reach. Return the number of rows reached; the queue lists these rows, nearest first.
    """
    hops[:] = UNREACHED
    hops[root] = 0
    queue[0] = root
    head, tail = 0, 1
    while head < tail != most:
        row = queue[head]
        head += 1
        further = hops[row] + 1
        if further >= UNREACHED:
            break
        for e in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_row[e]
            if hops[other] == UNREACHED:
                hops[other] = further
                queue[tail] = other
                tail += 1
    return tail


@njit(cache=True)
def spread_entries(line, no_path, queue, count, graph):
    """Give each row of a table line without an entry the port towards the nearest row with one.

    `queue`, int32 [rows]: `count` rows with entries, to which the others are added.
    """
    edge_offset, edge_row, edge_port = graph.edge_offset, graph.edge_row, graph.edge_port
    head = 0
    while head < count:
        row = queue[head]
        head += 1
        for e in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_row[e]
            if line[other] == no_path:
                line[other] = edge_port[graph.edge_back[e]]
                queue[count] = other
                count += 1


@njit(cache=True)
def bfs_many(edge_offset, edge_row, roots, hops):
    """Fill hops[i, r] with the number of edges from row r to row roots[i].

    `edge_offset`, `edge_row`: CSR of any graph, not only that of a fabric. `roots`, int32: rows
    that distances lead to. `hops`, uint16 [len(roots), rows], changed in place: `UNREACHED` where
    there is no path.
    """
    queue = np.empty(len(edge_offset), dtype=np.int32)
    for i in range(len(roots)):
        bfs(edge_offset, edge_row, roots[i], hops[i], queue)


@njit(cache=True)
def updown(graph, edge_up, root, component_size, hops, down, queue):
    """Fill hops with the distances to the root over up*/down* paths that one LID can have.

    edge_up[e], uint8, is 1 if edge e leads up. down[r], uint8, becomes 1 if the path of row r only
    leads down; only then may a row above r send through r. component_size is the number of rows
    connected to the root; hops and queue are as in `bfs`. Return the number of rows reached; the
    queue lists these rows in the order of the search.

    Each row first gets the shortest legal path that a search from the root finds, as in OpenSM; of
    equally short paths, one that only leads down. If rows remain without a path, the search is
    repeated, and every row that has a path that only leads down uses such a path. Then all rows
    that have a legal path get one.
    """
    tail = _shortest_first(graph, edge_up, root, hops, down, queue)
    if tail < component_size:
        tail = _down_first(graph, edge_up, root, hops, down, queue)
    return tail


@njit(cache=True)
def _shortest_first(graph, edge_up, root, hops, down, queue):
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    hops[:] = UNREACHED
    down[:] = 0
    hops[root] = 0
    down[root] = 1
    queue[0] = root
    start, tail = 0, 1
    while start < tail and hops[queue[start]] + 1 < UNREACHED:
        stop = tail
        for climbing in range(2):  # first paths that only lead down
            for q in range(start, stop):
                row = queue[q]
                if climbing == 0 and not down[row]:
                    continue
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    other = edge_row[e]
                    # The search crosses e from row to other, the packet from other to row.
                    if hops[other] == UNREACHED and edge_up[e] != climbing:
                        hops[other] = hops[row] + 1
                        down[other] = 1 - climbing
                        queue[tail] = other
                        tail += 1
        start = stop
    return tail


@njit(cache=True)
def _down_first(graph, edge_up, root, hops, down, queue):
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    hops[:] = UNREACHED
    down[:] = 0
    hops[root] = 0
    down[root] = 1
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        row = queue[head]
        head += 1
        for e in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_row[e]
            if edge_up[e] and hops[other] == UNREACHED and hops[row] + 1 < UNREACHED:
                hops[other] = hops[row] + 1
                down[other] = 1
                queue[tail] = other
                tail += 1
    # The other rows send up to the nearest of these rows, whose own distances differ.
    for distance in range(UNREACHED - 1):
        further = False
        q = 0
        while q < tail:
            row = queue[q]
            q += 1
            if hops[row] > distance:
                further = True
            elif hops[row] == distance:
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    other = edge_row[e]
                    if not edge_up[e] and hops[other] == UNREACHED:
                        hops[other] = distance + 1
                        queue[tail] = other
                        tail += 1
                        further = True
        if not further:
            break
    return tail


@njit(cache=True)
def next_edges(graph, edge_up, ordered, search, count):
    """List the first edges of the shortest (legal) paths of each of the first `count` rows reached.

    The edges of queue[i] are edges[first[i]:first[i + 1]], ordered by port: all edges to rows one
    hop nearer or, if `ordered`, only the edges among them that begin up*/down* paths (see
    `updown`). `search`: parts of a `Search`. Return the number of edges listed.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    hops, down, rows, first = search.hops, search.down, search.queue, search.first
    edges = search.edges
    filled = 0
    for i in range(count):
        row = rows[i]
        first[i] = filled
        nearer = hops[row] - 1
        if hops[row] != 0 and hops[row] != UNREACHED:
            for e in range(edge_offset[row], edge_offset[row + 1]):
                other = edge_row[e]
                edges[filled] = e  # without a branch: kept if counted
                here = hops[other] == nearer
                if ordered:
                    here &= edge_up[e] != down[row] and (edge_up[e] or down[other])
                filled += here
    first[count] = filled
    return filled
