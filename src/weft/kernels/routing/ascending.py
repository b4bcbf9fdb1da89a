"""Balanced tables over channels in ascending order, which cannot deadlock.

A channel is an edge of the fabric's graph, and ``order[channel]`` is its number. These numbers
ascend along every path.
"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import UNREACHED, spread_entries

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
    graph, demand, goals, lane, order, channel_at, targets, passes, load, table, best_table, search
):
    """Fill the entries of all destinations with balanced paths over channels in ascending order.

    From the farthest row to the nearest, each row considers its shortest paths (see `_levels`) that
    begin with a later channel than all chosen ones that enter the row. Of these paths, it takes the
    one with the least sum of loads. After `EVEN_PASSES` passes, the fourth powers of the loads are
    summed, which lowers the largest load. Every pass chooses the paths to each LID again.

    - `demand`: parts of `weft.kernels.routing.nue.NueDemand`.
    - `goals`, int32: target rows, in the order of routing.
    - `lane`, int32 [rows]: layer of the paths to each row, an index in `order`.
    - `order`, `channel_at`, int32 [layers, edges]: number of each edge in each layer, and edge of
      each number.
    - `targets`: parts of `weft.kernels.routing.tables.TableTargets`.
    - `passes`: number of passes.
    - `load`, int64 [edges]: flows on each edge; initially zeros, changed in place.
    - `table`, `best_table`, uint8 or uint16 [lids, rows]: the tables of the latest pass, and those
      of the pass with the least product of the two returned values.
    - `search`: parts of `weft.kernels.routing.distances.Search`.

    Returns the largest product of an edge's load and cost with `best_table`, and the sum of the
    loads of all edges.
    """
    target_offset, target_destination = targets.offset, targets.destination
    num_endpoints, lmc = targets.num_endpoints, targets.lmc
    edge_cost = demand.edge_cost
    rows, channels = len(graph.edge_offset) - 1, len(graph.edge_row)
    hops = np.empty(rows, dtype=np.int32)
    latest = np.empty(rows, dtype=np.int32)
    pinned = np.empty(rows, dtype=np.int32)
    best_worst, best_total = np.inf, np.inf
    for round_ in range(passes):
        again, steep = round_ > 0, round_ >= EVEN_PASSES
        for goal in goals:
            begin, end = target_offset[goal], target_offset[goal + 1]
            if begin == end or (again and target_destination[begin] >= num_endpoints):
                continue
            numbers = order[lane[goal]]
            count = _levels(
                goal, graph, demand, numbers, channel_at[lane[goal]], hops, latest, pinned,
                search.queue,
            )  # fmt: skip
            _list_choices(search, count, graph, numbers, hops, latest, pinned)
            for t in range(begin, end):
                d = target_destination[t]
                weighs = d < num_endpoints
                if again and not weighs:
                    continue
                first, last = d << lmc, (d + 1) << lmc
                for lid in range(first, last):
                    if again:
                        _take_out(search, count, graph, demand, table[lid], load)
                    else:
                        table[lid, :] = targets.no_path
                        table[lid, goal] = targets.port[d]
                    _find_costs(search, count, graph, demand, load, steep, weighs)
                    _choose_edges(
                        search, count, graph, demand, numbers, load, steep, table, lid, first,
                        last if again else lid,
                    )  # fmt: skip
        worst, total = 0.0, 0.0
        for e in range(channels):
            worst = max(worst, load[e] * edge_cost[e])
            total += load[e]
        if not again or worst * total < best_worst * best_total:
            best_worst, best_total = worst, total
            for lid in range(len(table)):
                for row in range(rows):
                    best_table[lid, row] = table[lid, row]
    return best_worst, best_total


@njit(cache=True)
def _list_choices(search, count, graph, numbers, hops, latest, pinned):
    """List the edges by which each of the first `count` rows may send; see `_levels`."""
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    listed, first, choices = search.queue, search.first, search.edges
    filled = 0
    for i in range(1, count):
        row = listed[i]
        first[i] = filled
        for e in range(edge_offset[row], edge_offset[row + 1]):
            other = edge_row[e]
            if hops[other] != hops[row] - 1 or numbers[e] >= latest[other]:
                continue
            if pinned[row] >= 0 and pinned[row] != e:
                continue
            choices[filled] = e
            filled += 1
    first[count] = filled


@njit(cache=True)
def _take_out(search, count, graph, demand, line, load):
    """Subtract the flows of the paths in a line of the table from the loads."""
    edge_row, row_base, slot_edge = graph.edge_row, graph.row_base, graph.slot_edge
    listed, flow = search.queue, search.flow
    for i in range(count):
        flow[listed[i]] = demand.row_sources[listed[i]]
    for i in range(count - 1, 0, -1):
        row = listed[i]
        e = slot_edge[row_base[row] + line[row]]
        load[e] -= flow[row]
        flow[edge_row[e]] += flow[row]


@njit(cache=True)
def _find_costs(search, count, graph, demand, load, steep, weighs):
    """Fill the least cost of a path from each row, and the flows that begin there."""
    edge_row, edge_cost, row_sources = graph.edge_row, demand.edge_cost, demand.row_sources
    listed, first, choices = search.queue, search.first, search.edges
    cost, flow = search.cost, search.flow
    cost[listed[0]] = 0.0
    flow[listed[0]] = 0
    for i in range(1, count):
        least = np.inf
        for k in range(first[i], first[i + 1]):
            e = choices[k]
            burden = load[e] * edge_cost[e]
            if steep:
                burden = burden**4
            least = min(least, cost[edge_row[e]] + burden)
        cost[listed[i]] = least
        flow[listed[i]] = row_sources[listed[i]] if weighs else 0


@njit(cache=True)
def _choose_edges(
    search, count, graph, demand, numbers, load, steep, table, lid, first_twin, last_twin
):
    """Choose the edge of each row, farthest rows first, and add the flows to the loads.

    The edges of LIDs from `first_twin` up to `last_twin` other than `lid` are avoided.
    """
    edge_row, edge_port, edge_cost = graph.edge_row, graph.edge_port, demand.edge_cost
    listed, first, choices = search.queue, search.first, search.edges
    cost, flow, entered = search.cost, search.flow, search.chosen
    for i in range(count):
        entered[listed[i]] = -1
    for i in range(count - 1, 0, -1):
        row = listed[i]
        best = -1
        least = np.inf
        for k in range(first[i], first[i + 1]):
            e = choices[k]
            if numbers[e] <= entered[row]:
                continue
            edge_load = load[e]
            for twin in range(first_twin, last_twin):
                if twin != lid:
                    edge_load += demand.senders * (table[twin, row] == edge_port[e])
            burden = edge_load * edge_cost[e]
            if steep:
                burden = burden**4
            if cost[edge_row[e]] + burden < least:
                least = cost[edge_row[e]] + burden
                best = e
        other = edge_row[best]
        table[lid, row] = edge_port[best]
        load[best] += flow[row]
        flow[other] += flow[row]
        entered[other] = max(entered[other], numbers[best])


@njit(cache=True)
def complete_rows(graph, lmc, no_path, table):
    """For each LID, give rows without a path the port towards the nearest row that has a path.

    `lmc`, `no_path`: as in `weft.kernels.routing.tables.TableTargets`. `table`, uint8 or uint16
    [lids, rows]: output ports, changed in place.
    """
    rows = table.shape[1]
    queue = np.empty(rows, dtype=np.int32)
    for lid in range(len(table)):
        if graph.destination_row[lid >> lmc] < 0:
            continue
        line = table[lid]
        tail = 0
        for row in range(rows):
            if line[row] != no_path:
                queue[tail] = row
                tail += 1
        if tail == rows:
            continue
        spread_entries(line, no_path, queue, tail, graph)
