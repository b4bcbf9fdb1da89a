"""Zero-load latency of messages."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.copies import copy_values
from weft.kernels.packet.lanes import rounded
from weft.kernels.packet.route import RUNS, TABLES


@njit(cache=True)
def first_paths(topology, tables, kind, routes, limit):
    """Return the links of each route; of a set of candidates, the first is taken.

    `topology`, `tables`: a `Topology` and `RouteTables`; see `weft.kernels.packet.net`. `kind`:
    kind of routes: TABLES, RUNS or CANDIDATES of `weft.kernels.packet.route`. `routes`: `ROUTE` of
    each. `limit`: largest number of links of a route.

    Returns int64 [routes + 1]: offset of each route in the links; int32: links of all routes.
    """
    offset = np.zeros(len(routes) + 1, dtype=np.int64)
    links = np.empty(8 * len(routes) + limit, dtype=np.int32)
    end = 0
    for route in range(len(routes)):
        if end + limit > len(links):
            larger = np.empty(2 * len(links) + limit, dtype=np.int32)
            copy_values(larger, links, end)
            links = larger
        at = np.int64(routes[route].link)
        address = np.int64(routes[route].address)
        for _ in range(limit):
            links[end] = at
            end += 1
            row = np.int64(topology.links[at].head_row)
            if row < 0:
                break
            if kind == TABLES:
                port = topology.rows[row].first_port + np.int64(tables.forwarding[address, row])
                at = np.int64(topology.ports[port].out_link)
            elif kind == RUNS:
                at = np.int64(tables.source_routes[address])
                address += 1
            else:
                goal = tables.endpoints[address]
                if goal.row == row:
                    at = np.int64(goal.last_link)
                else:
                    first = tables.set_offset[tables.set_id[goal.row, row]]
                    at = np.int64(tables.candidates[first].link)
        offset[route + 1] = end
    return offset, links[:end].copy()


@njit(cache=True)
def zero_load(topology, offset, links, route, size, mtu, header, adapter_ps):
    """Return the times of messages from departure to arrival in an empty network.

    - `topology`: a `weft.kernels.packet.net.Topology`.
    - `offset`, `links`: links of routes, as returned by `first_paths`.
    - `route`, `size`, int64 [messages]: route of each message, and bytes of each message.
    - `mtu`, `header`: largest payload of a packet, and header of each packet, bytes.
    - `adapter_ps`: latency of an adapter, ps.

    Returns int64 [messages]: latency of each message, ps.
    """
    # Packets are followed one by one until their distances in time are equal on all links. The
    # times of the remaining packets then follow by multiplication. The last packet, which may be
    # shorter, is again followed.
    latency = np.zeros(len(route), dtype=np.int64)
    longest = np.int64(1)
    for number in range(len(offset) - 1):
        longest = max(longest, offset[number + 1] - offset[number])
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
            copy_values(before, free, hops + 1)
            at = np.int64(0)
            incoming = np.int64(0)
            for hop in range(hops):
                link = topology.kinds[topology.links[links[first + hop]].kind]
                lasts = rounded(payload + header, link.rate_gbps)
                if hop:
                    at += max(incoming - lasts, 0)
                at = max(at, free[hop])
                free[hop] = at + lasts
                if hop == 0 and link.memory_gbps > 0:
                    free[hop] = at + max(lasts, rounded(payload + header, link.memory_gbps))
                incoming = lasts
                at += link.arrival_ps
                if hop == hops - 1:
                    arrival = at + lasts
                    if link.memory_gbps > 0:
                        writing = rounded(payload + header, link.memory_gbps)
                        begin = max(at + max(lasts - writing, 0), free[hops])
                        arrival = begin + writing
                        free[hops] = arrival
            packet += 1
            # Equal distances stay equal up to the last packet but one.
            if not 1 < packet < packets - 1:
                continue
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
        latency[message] = arrival + adapter_ps
    return latency
