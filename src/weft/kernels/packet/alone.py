"""Times of messages in an empty network."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.packet.lanes import rounded
from weft.kernels.packet.layout import ARRIVAL, HEAD_ROW, SPAN
from weft.kernels.packet.route import RUNS, TABLES


@njit(cache=True)
def first_ways(
    fixed, row_base, row_link, kind, table, runs, set_id, set_offset, set_edge, edge_link, goal_row,
    last_link, link, way, limit,
):  # fmt: skip
    """Links of routes; where there are candidates, by the first of each set.

    Parameters
    ----------
    fixed, row_base, row_link, table, runs, set_id, set_offset, set_edge, edge_link, goal_row, \
last_link
        Of `packet_net.Net`.
    kind
        Of routes; see `packet_route`.
    link, way
        int32 [routes]: first link, and what packets carry.
    limit
        Most links of a route.

    Returns
    -------
    tuple
        int64 [routes + 1] offsets and int32 links.
    """
    offset = np.zeros(len(link) + 1, dtype=np.int64)
    links = np.empty(8 * len(link) + limit, dtype=np.int32)
    end = 0
    for route in range(len(link)):
        if end + limit > len(links):
            larger = np.empty(2 * len(links) + limit, dtype=np.int32)
            larger[:end] = links[:end]
            links = larger
        at = np.int64(link[route])
        place = np.int64(way[route])
        for _ in range(limit):
            links[end] = at
            end += 1
            row = np.int64(fixed[at, HEAD_ROW])
            if row < 0:
                break
            if kind == TABLES:
                at = np.int64(row_link[row_base[row] + np.int64(table[place, row])])
            elif kind == RUNS:
                at = np.int64(runs[place])
                place += 1
            else:
                goal = goal_row[place]
                if goal == row:
                    at = np.int64(last_link[place])
                else:
                    first = set_offset[set_id[goal, row]]
                    at = np.int64(edge_link[set_edge[first]])
        offset[route + 1] = end
    return offset, links[:end].copy()


@njit(cache=True)
def zero_load(fixed, spans, rate, memory, offset, links, route, size, mtu, header, adapter_ps):
    """int64 [messages]: from leaving to arrival, ps.

    The first packets of a message follow each other one by one; once all have the same distance,
    and the last, which may be shorter, follows, the rest is a sum.
    """
    took = np.zeros(len(route), dtype=np.int64)
    longest = np.int64(1)
    for way in range(len(offset) - 1):
        longest = max(longest, offset[way + 1] - offset[way])
    free = np.zeros(longest + 1, dtype=np.int64)
    before = np.zeros(longest + 1, dtype=np.int64)
    for message in range(len(route)):
        first, last = offset[route[message]], offset[route[message] + 1]
        hops = last - first
        free[: hops + 1] = 0
        packets = max((size[message] + mtu - 1) // mtu, 1)
        at = np.int64(0)
        arrival = np.int64(0)
        packet = 0
        while packet < packets:
            payload = min(size[message] - packet * mtu, mtu)
            before[: hops + 1] = free[: hops + 1]
            at = np.int64(0)
            incoming = np.int64(0)
            for hop in range(hops):
                link = links[first + hop]
                lasts = rounded(payload + header, rate[link])
                if hop:
                    at += max(incoming - lasts, 0)
                at = max(at, free[hop])
                free[hop] = at + lasts
                if hop == 0 and memory[link] > 0:
                    free[hop] = at + max(lasts, rounded(payload + header, memory[link]))
                incoming = lasts
                at += spans[fixed[link, SPAN], ARRIVAL]
                if hop == hops - 1:
                    arrival = at + lasts
                    if memory[link] > 0:
                        writing = rounded(payload + header, memory[link])
                        begin = max(at + max(lasts - writing, 0), free[hops])
                        arrival = begin + writing
                        free[hops] = arrival
            packet += 1
            # As soon as packets follow each other evenly, all but the last go on so.
            if 1 < packet < packets - 1:
                step = free[0] - before[0]
                even = True
                for hop in range(1, hops + 1):
                    if free[hop] and free[hop] - before[hop] != step:
                        even = False
                        break
                if even:
                    skipped = packets - 1 - packet
                    for hop in range(hops + 1):
                        if free[hop]:
                            free[hop] += step * skipped
                    packet += skipped
        took[message] = arrival + adapter_ps
    return took
