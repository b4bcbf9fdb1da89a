"""Single-source shortest paths whose weights grow by the ways over them, as OpenSM's sssp."""

import numpy as np

from weft.kernels.cache import njit

_FAR = np.int64(1) << 62


@njit(cache=True)
def weighted_tables(
    edge_offset, edge_row, edge_port, edge_back, row_rank, rank_row, row_weight, first_weight,
    turn_destination, destination_row, destination_port, hangs, lmc, no_path, table,
):  # fmt: skip
    """Fill the lines of the destinations in the order in which they are listed.

    Dijkstra from each destination outwards; then every edge of its tree gains the weights of the
    rows that send over it. All weights begin at first_weight, above what any path can gain, so
    that paths stay shortest. Of paths of equal weight OpenSM takes the one that its heap meets
    first: rows enter the heap by row_rank (rank_row is the inverse), and after them the adapter
    when the destination hangs from its row (hangs[d]) and is not the row itself.
    """
    rows = len(edge_offset) - 1
    weight = np.full(len(edge_row), first_weight, dtype=np.int64)
    distance = np.empty(rows + 1, dtype=np.int64)
    heap = np.empty(rows + 1, dtype=np.int32)
    place = np.empty(rows + 1, dtype=np.int32)
    by_edge = np.empty(rows, dtype=np.int32)
    order = np.empty(rows, dtype=np.int32)
    flow = np.empty(rows, dtype=np.int64)
    for i in range(len(turn_destination)):
        d = turn_destination[i]
        goal = destination_row[d]
        for offset in range(1 << lmc):
            line = table[(d << lmc) + offset]
            line[:] = no_path
            line[goal] = destination_port[d]
            count = _dijkstra(
                edge_offset, edge_row, weight, row_rank, rank_row, goal, hangs[d],
                distance, heap, place, by_edge, order,
            )  # fmt: skip
            for k in range(count):
                flow[order[k]] = row_weight[order[k]]
            for k in range(count - 1, 0, -1):
                row = order[k]
                edge = by_edge[row]
                line[row] = edge_port[edge_back[edge]]
                weight[edge] += flow[row]
                # by_edge leads outwards, so the row it leaves is the next one of the way.
                flow[edge_row[edge_back[edge]]] += flow[row]


@njit(cache=True)
def _dijkstra(
    edge_offset, edge_row, weight, row_rank, rank_row, goal, hangs,
    distance, heap, place, by_edge, order,
):  # fmt: skip
    """List the rows by distance from the goal, with the edge by which each was met.

    Heap nodes are the ranks of rows; the adapter, when there is one, comes after them all.
    """
    rows = len(by_edge)
    size = rows + hangs
    for k in range(size):
        distance[k] = _FAR
        heap[k] = k
        place[k] = k
    start = rows if hangs else row_rank[goal]
    distance[start] = 0
    _up(heap, place, distance, start)
    count = 0
    while size > 0:
        node = heap[0]
        here = distance[node]
        if here == _FAR:
            break
        size -= 1
        heap[0] = heap[size]
        place[heap[0]] = 0
        _down(heap, place, distance, size)
        if node == rows:
            distance[row_rank[goal]] = 1
            _up(heap, place, distance, place[row_rank[goal]])
            continue
        row = rank_row[node]
        order[count] = row
        count += 1
        for edge in range(edge_offset[row], edge_offset[row + 1]):
            other = row_rank[edge_row[edge]]
            # A row that has left the heap is nearer, and every weight is positive.
            if here + weight[edge] < distance[other]:
                distance[other] = here + weight[edge]
                by_edge[edge_row[edge]] = edge
                _up(heap, place, distance, place[other])
    return count


@njit(cache=True)
def _up(heap, place, distance, at):
    """Move a node of a heap of four children each towards the root."""
    node = heap[at]
    while at > 0:
        parent = (at - 1) >> 2
        if distance[node] >= distance[heap[parent]]:
            break
        heap[at] = heap[parent]
        place[heap[at]] = at
        at = parent
    heap[at] = node
    place[node] = at


@njit(cache=True)
def _down(heap, place, distance, size):
    """Move the root down, past the nearest child; of equals the last."""
    node = heap[0]
    at = 0
    while 4 * at + 1 < size:
        best = 4 * at + 1
        for child in range(best + 1, min(best + 4, size)):
            if distance[heap[child]] <= distance[heap[best]]:
                best = child
        if distance[node] <= distance[heap[best]]:
            break
        heap[at] = heap[best]
        place[heap[at]] = at
        at = best
    heap[at] = node
    place[node] = at
