"""Balanced tables over channels in ascending order, which cannot deadlock.

A channel is an edge of the fabric's graph; ``order[channel]`` is its place, and a packet only ever
goes on to a channel of a higher place.
"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import UNREACHED

#: Passes of balancing that count loads as they are.
EVEN_PASSES = 3


@njit(cache=True)
def _levels(goal, graph, weight, distances, order, channel_at, hops, latest, pinned, rows):
    """Distances to the goal over channels in ascending order, one channel per row.

    hops[row] is the length, -1 where there is no way. latest[row] is the highest place of a
    channel by which the row can leave on a way of that length; channels that enter the row must
    have a lower one. A row takes a channel only to rows one level nearer. That can leave rows
    without a way though there is one; then the rows on it are pinned to the channel of the
    highest place that leads on at all, which bars nothing that entered before. Returns the number
    of rows reached, listed by level.
    """
    edge_offset, edge_row, edge_tail, reverse, _ = graph
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
                for place in range(channels - 1, -1, -1):
                    tail = edge_tail[channel_at[place]]
                    if highest[tail] == -1 and highest[edge_row[channel_at[place]]] > place:
                        highest[tail] = place
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
    edge_offset, edge_row, edge_tail, reverse, edge_port, edge_cost, row_base, slot_edge,
    row_sources, weight, distances, goals, lane, order, channel_at, target_offset,
    target_destination, destination_port, num_endpoints, lmc, passes, no_path, load, table,
    best_table,
):  # fmt: skip
    """Fill the lines of all destinations with balanced ways over channels in ascending order.

    Destinations of row g are target_destination[target_offset[g]:target_offset[g + 1]], endpoints
    first. From the farthest row inwards each takes, of the ways that are as short as any (see
    `_levels`) and later than what enters the row, the one whose links carry least; after some
    passes the fourth power of what they carry counts, which lowers the worst load. Each LID is
    chosen again in each pass. best_table gets the tables of the pass whose worst load times sum of
    loads is least; returns that worst load (times its link's cost) and that sum.
    """
    graph = (edge_offset, edge_row, edge_tail, reverse, reverse)
    rows, channels = len(edge_offset) - 1, len(edge_row)
    hops = np.empty(rows, dtype=np.int32)
    latest = np.empty(rows, dtype=np.int32)
    pinned = np.empty(rows, dtype=np.int32)
    listed = np.empty(rows, dtype=np.int32)
    first = np.empty(rows + 1, dtype=np.int32)
    ways = np.empty(channels, dtype=np.int32)
    cost = np.empty(rows, dtype=np.float64)
    entered = np.empty(rows, dtype=np.int32)
    flow = np.empty(rows, dtype=np.int64)
    senders = np.int64(0)
    for row in range(rows):
        senders += row_sources[row]
    found_worst, found_total = np.inf, np.inf
    for turn in range(passes):
        steep = turn >= EVEN_PASSES
        for goal in goals:
            begin, end = target_offset[goal], target_offset[goal + 1]
            if begin == end or (turn > 0 and target_destination[begin] >= num_endpoints):
                continue
            places = order[lane[goal]]
            count = _levels(goal, graph, weight, distances, places, channel_at[lane[goal]],
                            hops, latest, pinned, listed)  # fmt: skip
            filled = 0
            for i in range(1, count):
                row = listed[i]
                first[i] = filled
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    other = edge_row[e]
                    if hops[other] == hops[row] - 1 and places[e] < latest[other]:
                        if pinned[row] >= 0 and pinned[row] != e:
                            continue
                        ways[filled] = e
                        filled += 1
            first[count] = filled
            for t in range(begin, end):
                d = target_destination[t]
                weighs = d < num_endpoints
                if turn > 0 and not weighs:
                    continue
                for lid in range(d << lmc, (d + 1) << lmc):
                    line = table[lid]
                    if turn == 0:
                        line[:] = no_path
                        line[goal] = destination_port[d]
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
                            e = ways[k]
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
                            e = ways[k]
                            if places[e] <= entered[row]:
                                continue
                            carried = load[e]
                            if lmc:
                                for twin in range(d << lmc, (d + 1) << lmc):
                                    if twin != lid and (turn > 0 or twin < lid):
                                        carried += senders * (table[twin, row] == edge_port[e])
                            burden = carried * edge_cost[e]
                            if steep:
                                burden = burden**4
                            if cost[edge_row[e]] + burden < least:
                                least = cost[edge_row[e]] + burden
                                best = e
                        other = edge_row[best]
                        line[row] = edge_port[best]
                        load[best] += flow[row]
                        flow[other] += flow[row]
                        entered[other] = max(entered[other], places[best])
        worst, total = 0.0, 0.0
        for e in range(channels):
            worst = max(worst, load[e] * edge_cost[e])
            total += load[e]
        if turn == 0 or worst * total < found_worst * found_total:
            found_worst, found_total = worst, total
            for lid in range(len(table)):
                for row in range(rows):
                    best_table[lid, row] = table[lid, row]
    return found_worst, found_total


@njit(cache=True)
def lead_in(edge_offset, edge_row, edge_port, reverse, destination_row, lmc, no_path, table):
    """Send rows without a way to the nearest row that has one, line by line."""
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
