"""Forwarding tables: greedy balancing over shortest paths, and D-mod-K."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import bfs, next_edges, updown


@njit(cache=True)
def balanced_tables(
    edge_offset, edge_row, edge_port, edge_up, ordered, edge_cost, row_base, slot_edge,
    component_size, row_sources, target_offset, target_destination, destination_port,
    num_endpoints, lmc, passes, no_path, load, table,
):  # fmt: skip
    """Fill the lines of the destinations listed for each row with least-loaded shortest paths.

    Destinations of row g are target_destination[target_offset[g]:target_offset[g + 1]], endpoints
    first. Each gets a tree of shortest (ordered False) or up*/down* (True) paths: from the target
    outwards, every row takes the edge by which the loads of the rest of the way, each times its
    cost, sum to the least; of equals the one of the lowest port. Then the tree's flows, one from
    each source row's hosts, are added to the loads, so that later trees avoid them. On every pass
    but the first a tree's own flows are first taken away and its paths chosen anew. With an LMC,
    the LIDs of one destination avoid each other's edges above all. Switch destinations
    (d >= num_endpoints) load nothing.
    """
    rows = len(edge_offset) - 1
    hops = np.empty(rows, dtype=np.uint16)
    down = np.empty(rows, dtype=np.uint8)
    queue = np.empty(rows, dtype=np.int32)
    first = np.empty(rows + 1, dtype=np.int32)
    edges = np.empty(len(edge_row), dtype=np.int32)
    chosen = np.empty(rows, dtype=np.int32)
    flow = np.empty(rows, dtype=np.int64)
    cost = np.empty(rows, dtype=np.float64)
    senders = np.int64(0)
    for row in range(rows):
        senders += row_sources[row]
    # Each LID offset is balanced on its own: a flow uses one of them.
    for turn in range(passes << lmc):
        offset = turn & ((1 << lmc) - 1)
        again = turn >= (1 << lmc)
        for g in range(rows):
            if target_offset[g] == target_offset[g + 1]:
                continue
            if again and target_destination[target_offset[g]] >= num_endpoints:
                continue  # only the switch itself: its paths weigh nothing and stay
            if ordered:
                count = updown(
                    edge_offset, edge_row, edge_up, g, component_size[g], hops, down, queue
                )
                sort_by_hops(queue, count, hops, first)
            else:
                count = bfs(edge_offset, edge_row, g, hops, queue)
            next_edges(
                edge_offset, edge_row, edge_up, ordered, hops, down, queue, count, first, edges
            )
            for t in range(target_offset[g], target_offset[g + 1]):
                d = target_destination[t]
                line = table[(d << lmc) + offset]
                weighs = d < num_endpoints
                if again:
                    if not weighs:
                        continue
                    for i in range(1, count):
                        chosen[i] = slot_edge[row_base[queue[i]] + line[queue[i]]]
                    carry(queue, count, chosen, edge_row, row_sources, flow, load, -1)
                else:
                    line[:] = no_path
                    line[g] = destination_port[d]
                if lmc == 0:
                    _cheapest(queue, count, first, edges, edge_row, edge_cost, load, cost, chosen)
                else:
                    _unlike(
                        table, d << lmc, 1 << lmc, offset, again, queue, count, first, edges,
                        edge_row, edge_port, edge_cost, load, senders, cost, chosen,
                    )  # fmt: skip
                for i in range(1, count):
                    line[queue[i]] = edge_port[chosen[i]]
                if weighs:
                    carry(queue, count, chosen, edge_row, row_sources, flow, load, 1)


@njit(cache=True)
def _cheapest(queue, count, first, edges, edge_row, edge_cost, load, cost, chosen):
    """Choose the edge of every row but the first, rows being listed nearest first."""
    cost[queue[0]] = 0.0
    for i in range(1, count):
        least = np.inf
        best = edges[first[i]]
        for k in range(first[i], first[i + 1]):
            e = edges[k]
            here = cost[edge_row[e]] + load[e] * edge_cost[e]
            if here < least:
                least = here
                best = e
        cost[queue[i]] = least
        chosen[i] = best


@njit(cache=True)
def _unlike(
    table, lid, lids, offset, again, queue, count, first, edges, edge_row, edge_port, edge_cost,
    load, senders, cost, chosen,
):  # fmt: skip
    """As `_cheapest`, with an edge dearer for each other LID of the destination that takes it."""
    cost[queue[0]] = 0.0
    for i in range(1, count):
        row = queue[i]
        least = np.inf
        best = edges[first[i]]
        for k in range(first[i], first[i + 1]):
            e = edges[k]
            twins = 0
            for other in range(lids if again else offset):
                if other != offset and table[lid + other, row] == edge_port[e]:
                    twins += 1
            here = cost[edge_row[e]] + (load[e] + twins * senders) * edge_cost[e]
            if here < least:
                least = here
                best = e
        cost[row] = least
        chosen[i] = best


@njit(cache=True)
def carry(queue, count, chosen, edge_row, row_sources, flow, load, sign):
    """Add a tree's flows to the loads, or with sign -1 take them away."""
    for i in range(count):
        flow[queue[i]] = row_sources[queue[i]]
    for i in range(count - 1, 0, -1):
        e = chosen[i]
        load[e] += sign * flow[queue[i]]
        flow[edge_row[e]] += flow[queue[i]]


@njit(cache=True)
def counted_tables(
    edge_offset, edge_row, edge_port, row_order, target_offset, target_destination,
    destination_port, num_endpoints, no_path, table,
):  # fmt: skip
    """Fill tables as OpenSM does: by the destinations already behind each port of a switch.

    Rows are served in row_order, and the destinations of each as they are listed, first all that
    are endpoints and then the switches, which count for nothing. Every row sends to the
    destination by the port of least count among those that start a shortest path, of equals
    the lowest.
    """
    rows = len(edge_offset) - 1
    hops = np.empty(rows, dtype=np.uint16)
    no_order = np.empty(0, dtype=np.uint8)
    queue = np.empty(rows, dtype=np.int32)
    first = np.empty(rows + 1, dtype=np.int32)
    edges = np.empty(len(edge_row), dtype=np.int32)
    behind = np.zeros(len(edge_row), dtype=np.int64)
    for turn in range(2):
        for g in row_order:
            count = bfs(edge_offset, edge_row, g, hops, queue)
            next_edges(
                edge_offset, edge_row, no_order, False, hops, no_order, queue, count, first, edges
            )
            for t in range(target_offset[g], target_offset[g + 1]):
                d = target_destination[t]
                if (d < num_endpoints) != (turn == 0):
                    continue
                line = table[d]
                line[:] = no_path
                line[g] = destination_port[d]
                for i in range(1, count):
                    best = edges[first[i]]
                    for k in range(first[i] + 1, first[i + 1]):
                        if behind[edges[k]] < behind[best]:
                            best = edges[k]
                    line[queue[i]] = edge_port[best]
                    if turn == 0:
                        behind[best] += 1


@njit(cache=True)
def sort_by_hops(queue, count, hops, sorted_rows):
    """Reorder the rows of the queue nearest first, keeping the order among equals."""
    buckets = np.zeros(len(hops) + 1, dtype=np.int32)
    for i in range(count):
        buckets[hops[queue[i]] + 1] += 1
    for h in range(len(hops)):
        buckets[h + 1] += buckets[h]
    for i in range(count):
        place = buckets[hops[queue[i]]]
        buckets[hops[queue[i]]] += 1
        sorted_rows[place] = queue[i]
    for i in range(count):
        queue[i] = sorted_rows[i]


@njit(cache=True)
def dmodk_tables(
    rank, row_start, row_end, child_size, up_divisor, up_offset, up_port, down_offset, down_port,
    down_divisor, down_parallel, lmc, no_path, table,
):  # fmt: skip
    """Fill the tables of all endpoints by D-mod-K.

    Row r reaches down to the endpoints of rank row_start[r] <= rank < row_end[r], child_size[r] of
    them through each child; its down ports are down_port[down_offset[r] + child * parallel + copy].
    Any other endpoint goes up by port number (rank // up_divisor[r]) mod its number of up ports.
    LID offsets shift the rank, so that they take different ways.
    """
    for d in range(len(rank)):
        own = rank[d]
        for offset in range(1 << lmc):
            line = table[(d << lmc) + offset]
            for r in range(len(row_start)):
                if row_start[r] <= own < row_end[r]:
                    parallel = down_parallel[r]
                    child = (own - row_start[r]) // child_size[r]
                    copy = ((own + offset) // down_divisor[r]) % parallel
                    line[r] = down_port[down_offset[r] + child * parallel + copy]
                else:
                    ways = up_offset[r + 1] - up_offset[r]
                    if ways == 0:
                        line[r] = no_path
                    else:
                        q = ((own + offset) // up_divisor[r]) % ways
                        line[r] = up_port[up_offset[r] + q]
