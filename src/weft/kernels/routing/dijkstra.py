"""Shortest paths over edges whose weights grow with the flows on them, as in OpenSM's sssp."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.copies import copy_values

#: Key of an entry behind the heap.
NEVER = 2**63 - 1


@njit(cache=True)
def weighted_tables(
    graph, row_rank, rank_row, row_weight, first_weight, far, listed, destination_port, hangs, lmc,
    no_path, table,
):  # fmt: skip
    """Fill the table entries of the destinations in the given order.

    For each destination, Dijkstra's algorithm runs outwards; then the weight of every edge of the
    tree grows by the weights of the rows that send over the edge. The initial weight, first_weight,
    exceeds the growth of any path, so that paths stay minimal. Of paths of equal weight, the one
    that OpenSM's heap yields first is used: rows enter the heap by row_rank, then the adapter, if
    the destination is not itself a row.

    - `row_rank`, int32 [rows], `rank_row`, int32 [connected rows]: each row's index in the initial
      order of the heap, and the row of each index; those that no edge connects to the destinations
      are not in the heap.
    - `row_weight`, int64 [rows]: flows that the row sends to each LID.
    - `first_weight`: initial weight of an edge, in flows.
    - `far`: paths of this weight or more are not found.
    - `listed`, int32: the destinations to fill, in this order.
    - `destination_port`, int32 [destinations]: output port at the destination's row; 0 if the
      destination is a row.
    - `hangs`, uint8 [destinations]: 0 for a destination that is itself a row, else 1.
    - `lmc`, `no_path`: LID mask control, and the port that means "no path".
    - `table`, uint8 or uint16 [lids, rows]: output ports, changed in place.
    """
    edge_offset, edge_row, edge_port = graph.edge_offset, graph.edge_row, graph.edge_port
    edge_back, edge_tail, destination_row = graph.edge_back, graph.edge_tail, graph.destination_row
    rows = len(edge_offset) - 1
    weight = np.full(len(edge_row), first_weight, dtype=np.int64)
    head = np.empty(len(edge_row), dtype=np.int32)
    for edge in range(len(edge_row)):
        head[edge] = row_rank[edge_row[edge]]
    distance = np.empty(rows + 1, dtype=np.int64)
    # Entries behind the heap are never less, so that every node has four children.
    key = np.full(4 * rows + 5, NEVER, dtype=np.int64)
    heap = np.zeros(4 * rows + 5, dtype=np.int32)
    position = np.empty(rows + 1, dtype=np.int32)
    by_edge = np.empty(rows, dtype=np.int32)
    order = np.empty(rows, dtype=np.int32)
    nearer = np.empty(len(edge_row), dtype=np.int32)
    flow = np.empty(rows, dtype=np.int64)
    for i in range(len(listed)):
        d = listed[i]
        goal = destination_row[d]
        # A row has one LID with any LMC; the lines of its other offsets are copies.
        lines = 1 << lmc if hangs[d] else 1
        for offset in range(lines):
            line = table[(d << lmc) + offset]
            line[:] = no_path
            line[goal] = destination_port[d]
            count = _dijkstra(
                graph, weight, first_weight, far, head, rank_row, row_rank[goal], hangs[d],
                distance, (key, heap, position), by_edge, (order, nearer),
            )  # fmt: skip
            for row in range(rows):
                flow[row] = row_weight[row]
            for k in range(count - 1, 0, -1):
                row = order[k]
                edge = by_edge[row]
                line[row] = edge_port[edge_back[edge]]
                weight[edge] += flow[row]
                # by_edge leads away from the goal: its tail is the next row of the path.
                flow[edge_tail[edge]] += flow[row]
        for offset in range(lines, 1 << lmc):
            copy_values(table[(d << lmc) + offset], table[d << lmc], rows)


@njit(cache=True)
def _dijkstra(
    graph, weight, least, far, head, rank_row, goal, hangs, distance, queue, by_edge, lists,
):  # fmt: skip
    """List the rows by distance from the goal; fill by_edge with the edge to each row.

    `lists`: the list to fill, and room for the edges of a row.
    Nodes of the heap are numbered by row_rank; the adapter, if there is one, is the last node.
    No weight is below `least`: the search ends when all rows are nearer than any further path.
    Return the number of rows listed.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    (key, heap, position), (order, nearer) = queue, lists
    rows = len(rank_row)
    size = rows + hangs
    for k in range(size):
        distance[k] = key[k] = far
        heap[k] = position[k] = k
    start = rows if hangs else goal
    distance[start] = 0
    _up(queue, start, np.int64(0), start)
    count, found, furthest = 0, 1 - hangs, np.int64(0)
    while size > 0:
        node, here = heap[0], key[0]
        if here == far or (found == rows and furthest <= here + least):
            break
        size -= 1
        _down(queue, size)
        if node == rows:
            distance[goal] = found = 1
            _up(queue, goal, np.int64(1), position[goal])
            continue
        row = rank_row[node]
        order[count] = row
        count += 1
        listed = 0
        for edge in range(edge_offset[row], edge_offset[row + 1]):
            nearer[listed] = edge  # without a branch: kept if counted
            # Never true for a row that has left the heap: its distance is smaller already.
            listed += here + weight[edge] < distance[head[edge]]
        for k in range(listed):
            edge = nearer[k]
            other, there = head[edge], here + weight[edge]
            if there < distance[other]:  # no more if another cable leads there
                if distance[other] == far:
                    found += 1
                    furthest = max(furthest, there)
                distance[other] = there
                by_edge[edge_row[edge]] = edge
                _up(queue, other, there, position[other])
    for k in range(size):
        if key[k] < far:
            order[count] = rank_row[heap[k]]
            count += 1
        key[k] = NEVER
    return count


@njit(cache=True)
def _up(queue, node, value, at):
    """Move a node at a position of the heap (four children per node) towards the root."""
    key, heap, position = queue
    while at > 0:
        parent = (at - 1) >> 2
        if value >= key[parent]:
            break
        key[at], heap[at] = key[parent], heap[parent]
        position[heap[at]] = at
        at = parent
    key[at], heap[at], position[node] = value, node, at


@njit(cache=True)
def _down(queue, size):
    """Move the last node to the root, then down, in exchange with the nearest child.

    Of equal children, that is the last one.
    """
    key, heap, position = queue
    node, value = heap[size], key[size]
    key[size] = NEVER
    at = 0
    while 4 * at + 1 < size:
        first = 4 * at + 1
        a, b, c, d = key[first], key[first + 1], key[first + 2], key[first + 3]
        left, right = min(a, b), min(c, d)
        one, two = first + (b <= a), first + 2 + (d <= c)
        best = two if right <= left else one
        nearest = min(left, right)
        if value <= nearest:
            break
        key[at], heap[at] = nearest, heap[best]
        position[heap[at]] = at
        at = best
    key[at], heap[at], position[node] = value, node, at
