"""Forwarding tables: greedy balancing over shortest paths, and D-mod-K."""

import numpy as np
from numba import njit

from weft.kernels.distances import bfs, next_edges, updown


@njit(cache=True)
def balanced_tables(
    edge_offset,
    edge_row,
    edge_port,
    edge_up,
    ordered,
    edge_cost,
    component_size,
    row_sources,
    target_offset,
    target_destination,
    destination_port,
    num_endpoints,
    lmc,
    no_path,
    load,
    table,
):
    """Fill the table rows of the destinations listed for each row, least-loaded edge first.

    Destinations of row g are target_destination[target_offset[g]:target_offset[g + 1]]. Each gets
    a tree of shortest (ordered False) or up*/down* (True) paths: from the farthest row inwards,
    every row sends its own sources and those behind it over the edge whose load, times its cost
    per unit, would be least; of equals the one of the lowest port. Loads persist from destination
    to destination, so later trees avoid the edges of earlier ones. Switch destinations
    (d >= num_endpoints) add no load.
    """
    rows = len(edge_offset) - 1
    hops = np.empty(rows, dtype=np.uint8)
    down = np.empty(rows, dtype=np.uint8)
    queue = np.empty(rows, dtype=np.int32)
    first = np.empty(rows + 1, dtype=np.int32)
    edges = np.empty(len(edge_row), dtype=np.int32)
    flow = np.empty(rows, dtype=np.int64)
    for g in range(rows):
        if target_offset[g] == target_offset[g + 1]:
            continue
        if ordered:
            count = updown(edge_offset, edge_row, edge_up, g, component_size[g], hops, down, queue)
            _sort_by_hops(queue, count, hops, first, edges)
        else:
            count = bfs(edge_offset, edge_row, g, hops, queue)
        next_edges(edge_offset, edge_row, edge_up, ordered, hops, down, queue, count, first, edges)
        for t in range(target_offset[g], target_offset[g + 1]):
            d = target_destination[t]
            weighs = d < num_endpoints
            for lid in range(d << lmc, (d << lmc) + (1 << lmc)):
                line = table[lid]
                line[:] = no_path
                line[g] = destination_port[d]
                for i in range(count):
                    flow[queue[i]] = row_sources[queue[i]]
                for i in range(count - 1, 0, -1):
                    row = queue[i]
                    best = -1
                    least = np.inf
                    for k in range(first[i], first[i + 1]):
                        e = edges[k]
                        cost = (load[e] + flow[row]) * edge_cost[e]
                        if cost < least:
                            least = cost
                            best = e
                    if best >= 0:
                        line[row] = edge_port[best]
                        if weighs:
                            load[best] += flow[row]
                            flow[edge_row[best]] += flow[row]


@njit(cache=True)
def _sort_by_hops(queue, count, hops, first, scratch):
    """Reorder the rows of the queue nearest first, keeping the order among equals."""
    buckets = np.zeros(257, dtype=np.int32)
    for i in range(count):
        buckets[hops[queue[i]] + 1] += 1
    for h in range(256):
        buckets[h + 1] += buckets[h]
    for i in range(count):
        place = buckets[hops[queue[i]]]
        buckets[hops[queue[i]]] += 1
        first[place] = queue[i]
    for i in range(count):
        queue[i] = first[i]


@njit(cache=True)
def dmodk_tables(
    rank,
    row_start,
    row_end,
    child_size,
    up_divisor,
    up_offset,
    up_port,
    down_offset,
    down_port,
    down_divisor,
    down_parallel,
    lmc,
    no_path,
    table,
):
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
