"""Reduction of the largest edge load of tables: single destinations get another tree of paths."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.lean import lean_njit
from weft.kernels.routing.tables import carry, search_from

#: If more than one in this number of edges has the peak load, the topology causes the peak, not the
#: choice of trees.
SHARED = 8
#: Relative difference below which loads count as equal.
SAME = 1e-9
#: Number of next lower loads to try if the peak cannot be lowered.
DEPTH = 6


@lean_njit()
def lower_peaks(
    graph, edge_up, ordered, edge_cost, component_size, row_sources, targets, rounds, load, table,
    search,
):  # fmt: skip
    """Choose trees that avoid the edges of the peak: the largest load times cost.

    A tree that uses an edge of the peak is chosen again, and replaced only if the new tree uses no
    such edge. If no tree can be replaced, the next lower value of load times cost becomes the peak,
    at most `DEPTH` times; lower loads there may allow replacements later. Nothing changes if more
    than one in `SHARED` edges have the peak load. The arguments not listed are those of
    `weft.kernels.routing.tables.balanced_tables`.

    `rounds`: largest number of rounds over all trees. `load`, int64 [edges]: number of flows on
    each edge by this table, changed in place. `table`, uint8 or uint16 [destinations, rows]: tables
    with LMC 0, changed in place.
    Returns the number of replacements of trees.
    """
    edge_row, edge_port = graph.edge_row, graph.edge_port
    edge_tail, row_base, slot_edge = graph.edge_tail, graph.row_base, graph.slot_edge
    target_offset, target_destination = targets.offset, targets.destination
    queue, chosen = search.queue, search.chosen
    before, over, hot = search.choice, search.block, search.edge
    rows = len(graph.edge_offset) - 1
    changed = 0
    depth = 0
    below = np.inf
    for _ in range(rounds):
        peak = 0.0
        for e in range(len(load)):
            here = load[e] * edge_cost[e]
            if here < below:
                peak = max(peak, here)
        limit = peak * (1.0 - SAME)
        num_hot = 0
        for e in range(len(load)):
            if load[e] * edge_cost[e] >= limit:
                if num_hot == len(edge_row) // SHARED:
                    return changed
                hot[num_hot] = e
                num_hot += 1
        if peak == 0.0:
            return changed
        moved = 0
        for g in range(rows):
            count = 0
            for t in range(target_offset[g], target_offset[g + 1]):
                d = target_destination[t]
                if d >= targets.num_endpoints:
                    continue
                line = table[d]
                sources = row_sources[d % len(row_sources)]
                uses = False
                for h in range(num_hot):
                    e = hot[h]
                    if line[edge_tail[e]] == edge_port[e] and load[e] * edge_cost[e] >= limit:
                        uses = True
                        break
                if not uses:
                    continue
                if count == 0:
                    count = search_from(g, graph, edge_up, ordered, component_size[g], search)
                for i in range(1, count):
                    before[queue[i]] = slot_edge[row_base[queue[i]] + line[queue[i]]]
                carry(search, count, before, edge_row, sources, load, 0)  # only fills the flows
                used = _over(search, count, before, load, edge_cost, limit)
                carry(search, count, before, edge_row, sources, load, -1)
                _around(search, count, edge_row, edge_cost, load, limit, over)
                carry(search, count, chosen, edge_row, sources, load, 1)
                left = _over(search, count, chosen, load, edge_cost, limit)
                if left == 0 and used > 0:
                    for i in range(1, count):
                        line[queue[i]] = edge_port[chosen[queue[i]]]
                    moved += 1
                else:
                    carry(search, count, chosen, edge_row, sources, load, -1)
                    carry(search, count, before, edge_row, sources, load, 1)
        changed += moved
        if moved:
            depth, below = 0, np.inf
        elif depth < DEPTH:
            depth, below = depth + 1, limit
        else:
            break
    return changed


@njit(cache=True)
def _over(search, count, chosen, load, edge_cost, limit):
    """Count the edges of a tree whose load times cost reaches the limit."""
    queue, flow = search.queue, search.flow
    over = 0
    for i in range(1, count):
        row = queue[i]
        over += flow[row] and load[chosen[row]] * edge_cost[chosen[row]] >= limit
    return over


@njit(cache=True)
def _around(search, count, edge_row, edge_cost, load, limit, over):
    """Choose for every row the path with the fewest edges over the limit, then the least cost.

    The flows that a row would add are estimated by its flows in the previous tree.
    """
    queue, first, edges = search.queue, search.first, search.edges
    cost, chosen, flow = search.cost, search.chosen, search.flow
    cost[queue[0]] = 0.0
    over[queue[0]] = 0
    for i in range(1, count):
        row = queue[i]
        least = np.inf
        fewest = len(queue) + 1
        best = edges[first[i]]
        for k in range(first[i], first[i + 1]):
            e = edges[k]
            other = edge_row[e]
            here = cost[other] + load[e] * edge_cost[e]
            beyond = over[other]
            if flow[row] and (load[e] + flow[row]) * edge_cost[e] >= limit:
                beyond += 1
            if beyond < fewest or (beyond == fewest and here < least):
                fewest = beyond
                least = here
                best = e
        cost[row] = least
        over[row] = fewest
        chosen[row] = best
