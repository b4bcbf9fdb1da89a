"""Balanced tables over channels in ascending order, which cannot deadlock.

A channel is an edge of the fabric's graph, and ``order[channel]`` is its number. These numbers
ascend along every path.
"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import UNREACHED

#: Number of passes in which a path costs the sum of its edges' loads; in later passes it costs the
#: sum of their fourth powers.
EVEN_PASSES = 3


@njit(cache=True)
def _levels(goal, graph, demand, order, channel_at, hops, latest, pinned, rows):
    """Find the shortest paths to the goal along which the channel numbers ascend.

    hops[row] becomes the length of the row's path in edges, -1 where there is none. latest[row]
    becomes the highest number of a channel by which paths of this length leave the row; a path can
    enter the row only by a channel of a lower number. Every channel leads to a row one hop nearer
    to the goal. If a row thus gets no path although an ascending path exists, each row of that
    path is pinned to the highest channel from which ascending paths reach the goal, and the
    search is repeated; every channel that could enter a pinned row still can. pinned[row] is this
    channel, -1 for none. Return the number of rows reached; `rows` lists them, nearest first.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    edge_tail, reverse = graph.edge_tail, graph.edge_back
    weight, distances = demand.weight, demand.distances
    count_rows, channels = len(edge_offset) - 1, len(edge_row)
    pinned[:] = -1
    highest = np.empty(0, dtype=np.int32)
    while True:
        hops[:] = -1
        latest[:] = -1
        hops[goal] = 0
        latest[goal] = channels
        rows[0] = goal
        start, count, level = 0, 1, 0
        while start < count:
            stop = count
            level += 1
            for q in range(start, stop):
                row = rows[q]
                for out in range(edge_offset[row], edge_offset[row + 1]):
                    other, channel = edge_row[out], reverse[out]
                    if order[channel] >= latest[row] or (
                        pinned[other] >= 0 and pinned[other] != channel
                    ):
                        continue
                    if hops[other] == -1:
                        hops[other] = level
                        rows[count] = other
                        count += 1
                    if hops[other] == level:
                        latest[other] = max(latest[other], order[channel])
            start = stop
        stuck = False
        for row in range(count_rows):
            if weight[row] == 0 or hops[row] >= 0 or distances[goal, row] == UNREACHED:
                continue
            if len(highest) == 0:
                highest = np.empty(count_rows, dtype=np.int32)
                highest[:] = -1
                highest[goal] = channels
                for number in range(channels - 1, -1, -1):
                    tail = edge_tail[channel_at[number]]
                    if highest[tail] == -1 and highest[edge_row[channel_at[number]]] > number:
                        highest[tail] = number
            at = row
            while highest[at] >= 0 and at != goal:
                other = edge_row[channel_at[highest[at]]]
                if hops[other] >= 0 and latest[other] > highest[at]:
                    break
                if pinned[other] != channel_at[highest[other]]:
                    pinned[other] = channel_at[highest[other]]
                    stuck = True
                at = other
        if not stuck:
            return count


@njit(cache=True)
def ordered_tables(
    graph, demand, goals, lane, order, channel_at, targets, passes, load, table, best_table
):
    """Fill the entries of all destinations with balanced paths over channels in ascending order.

    From the farthest row to the nearest, each row considers its shortest paths (see `_levels`) that
    begin with a later channel than all chosen ones that enter the row. Of these paths, it takes the
    one with the least sum of loads. After `EVEN_PASSES` passes, the fourth powers of the loads are
    summed, which lowers the largest load. Every pass chooses the paths to each LID again.

    - `demand`: parts of `weft.kernels.routing.nue.Demand`.
    - `goals`, int32: target rows, in the order of routing.
    - `lane`, int32 [rows]: layer of the paths to each row, an index in `order`.
    - `order`, `channel_at`, int32 [layers, edges]: number of each edge in each layer, and edge of
      each number.
    - `targets`: parts of `weft.kernels.routing.tables.Targets`.
    - `passes`: number of passes.
    - `load`, int64 [edges]: flows on each edge; initially zeros, changed in place.
    - `table`, `best_table`, uint8 or uint16 [lids, rows]: the tables of the latest pass, and those
      of the pass with the least product of the two returned values.

    Returns the largest product of an edge's load and cost with `best_table`, and the sum of the
    loads of all edges.
    """
    edge_offset, edge_row, edge_port = graph.edge_offset, graph.edge_row, graph.edge_port
    row_base, slot_edge = graph.row_base, graph.slot_edge
    target_offset, target_destination = targets.offset, targets.destination
    num_endpoints, lmc = targets.num_endpoints, targets.lmc
    edge_cost, row_sources = demand.edge_cost, demand.row_sources
    rows, channels = len(edge_offset) - 1, len(edge_row)
    hops = np.empty(rows, dtype=np.int32)
    latest = np.empty(rows, dtype=np.int32)
    pinned = np.empty(rows, dtype=np.int32)
    listed = np.empty(rows, dtype=np.int32)
    first = np.empty(rows + 1, dtype=np.int32)
    choices = np.empty(channels, dtype=np.int32)
    cost = np.empty(rows, dtype=np.float64)
    entered = np.empty(rows, dtype=np.int32)
    flow = np.empty(rows, dtype=np.int64)
    senders = np.int64(0)
    for row in range(rows):
        senders += row_sources[row]
    best_worst, best_total = np.inf, np.inf
    for round_ in range(passes):
        steep = round_ >= EVEN_PASSES
        for goal in goals:
            begin, end = target_offset[goal], target_offset[goal + 1]
            if begin == end or (round_ > 0 and target_destination[begin] >= num_endpoints):
                continue
            numbers = order[lane[goal]]
            count = _levels(
                goal, graph, demand, numbers, channel_at[lane[goal]], hops, latest, pinned, listed
            )
            filled = 0
            for i in range(1, count):
                row = listed[i]
                first[i] = filled
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    other = edge_row[e]
                    if hops[other] == hops[row] - 1 and numbers[e] < latest[other]:
                        if pinned[row] >= 0 and pinned[row] != e:
                            continue
                        choices[filled] = e
                        filled += 1
            first[count] = filled
            for t in range(begin, end):
                d = target_destination[t]
                weighs = d < num_endpoints
                if round_ > 0 and not weighs:
                    continue
                for lid in range(d << lmc, (d + 1) << lmc):
                    line = table[lid]
                    if round_ == 0:
                        line[:] = targets.no_path
                        line[goal] = targets.port[d]
                    elif weighs:
                        for i in range(count):
                            flow[listed[i]] = row_sources[listed[i]]
                        for i in range(count - 1, 0, -1):
                            row = listed[i]
                            e = slot_edge[row_base[row] + line[row]]
                            load[e] -= flow[row]
                            flow[edge_row[e]] += flow[row]
                    cost[goal] = 0.0
                    flow[goal] = 0
                    for i in range(1, count):
                        least = np.inf
                        for k in range(first[i], first[i + 1]):
                            e = choices[k]
                            burden = load[e] * edge_cost[e]
                            if steep:
                                burden = burden**4
                            least = min(least, cost[edge_row[e]] + burden)
                        cost[listed[i]] = least
                        entered[listed[i]] = -1
                        flow[listed[i]] = row_sources[listed[i]] if weighs else 0
                    entered[goal] = -1
                    for i in range(count - 1, 0, -1):
                        row = listed[i]
                        best = -1
                        least = np.inf
                        for k in range(first[i], first[i + 1]):
                            e = choices[k]
                            if numbers[e] <= entered[row]:
                                continue
                            edge_load = load[e]
                            if lmc:
                                for twin in range(d << lmc, (d + 1) << lmc):
                                    if twin != lid and (round_ > 0 or twin < lid):
                                        edge_load += senders * (table[twin, row] == edge_port[e])
                            burden = edge_load * edge_cost[e]
                            if steep:
                                burden = burden**4
                            if cost[edge_row[e]] + burden < least:
                                least = cost[edge_row[e]] + burden
                                best = e
                        other = edge_row[best]
                        line[row] = edge_port[best]
                        load[best] += flow[row]
                        flow[other] += flow[row]
                        entered[other] = max(entered[other], numbers[best])
        worst, total = 0.0, 0.0
        for e in range(channels):
            worst = max(worst, load[e] * edge_cost[e])
            total += load[e]
        if round_ == 0 or worst * total < best_worst * best_total:
            best_worst, best_total = worst, total
            for lid in range(len(table)):
                for row in range(rows):
                    best_table[lid, row] = table[lid, row]
    return best_worst, best_total


@njit(cache=True)
def complete_rows(graph, lmc, no_path, table):
    """For each LID, give rows without a path the port towards the nearest row that has a path.

    `lmc`, `no_path`: as in `weft.kernels.routing.tables.Targets`. `table`, uint8 or uint16 [lids,
    rows]: output ports, changed in place.
    """
    edge_offset, edge_row, edge_port = graph.edge_offset, graph.edge_row, graph.edge_port
    reverse, destination_row = graph.edge_back, graph.destination_row
    rows = len(edge_offset) - 1
    queue = np.empty(rows, dtype=np.int32)
    for lid in range(len(table)):
        if destination_row[lid >> lmc] < 0:
            continue
        line = table[lid]
        tail = 0
        for row in range(rows):
            if line[row] != no_path:
                queue[tail] = row
                tail += 1
        if tail == rows:
            continue
        head = 0
        while head < tail:
            row = queue[head]
            head += 1
            for out in range(edge_offset[row], edge_offset[row + 1]):
                other = edge_row[out]
                if line[other] == no_path:
                    line[other] = edge_port[reverse[out]]
                    queue[tail] = other
                    tail += 1
