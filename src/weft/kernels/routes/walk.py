"""Walks through forwarding tables, link by link."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.prefetch import prefetch

#: Row of a flow that has arrived.
DELIVERED = -2


@njit(cache=True, inline="always")
def first_row(source, endpoint_row, endpoint_out, link_row):
    """Return an endpoint's first row and the link to it, link -1 if the endpoint is that row."""
    link = endpoint_out[source]
    if link >= 0:
        return link_row[link], link
    return endpoint_row[source], link


@njit(cache=True, inline="always")
def consumes(port, row, goal_row, goal_link):
    """Return whether a row itself receives a packet: it is the destination and `port` is 0.

    As in an InfiniBand switch, the forwarding table decides for the row's own LID, too: any other
    port sends the packet out again.
    """
    return port == 0 and row == goal_row and goal_link < 0


@njit(cache=True)
def edge_at(row, port, graph):
    """Return the edge at a port of a row, -1 if it leads to no row or there is no such port."""
    slot = graph.row_base[row] + port
    return np.int64(graph.slot_edge[slot]) if slot < graph.row_base[row + 1] else np.int64(-1)


@njit(cache=True)
def walk_together(
    table, graph, endpoint_out, no_path, sources, destinations, lids, first, links, row, count
):
    """Walk some flows, each by one hop before any takes its next hop.

    While one flow waits for its table entry, which is rarely in cache, others proceed.

    `first`: the first flow; the number of flows is the length of `row`, if there are so many.
    `links`, int32 [rows + 2, flows]: filled with the links of each path. `row`, `count`, int32
    [flows]: filled with the last row, `DELIVERED` if the flow has arrived, and the number of links.
    Other arguments are as in `table_loads`.
    """
    row_base, row_link, link_row = graph.row_base, graph.row_link, graph.link_row
    target_row, target_link = graph.destination_row, graph.destination_link
    flows = min(len(row), len(sources) - first)
    for k in range(flows):
        row[k], count[k] = -1, 0
        if sources[first + k] >= 0 and destinations[first + k] >= 0:
            row[k], link = first_row(sources[first + k], target_row, endpoint_out, link_row)
            if link >= 0:
                links[0, k] = link
                count[k] = 1
            if row[k] >= 0:
                prefetch(table, lids[first + k] * table.shape[1] + row[k])
    moving = True
    while moving:
        moving = False
        for k in range(flows):
            at = row[k]
            if at < 0:
                continue
            destination = destinations[first + k]
            goal_link = target_link[destination]
            port = table[lids[first + k], at]
            if consumes(port, at, target_row[destination], goal_link):
                row[k] = DELIVERED
                continue
            row[k] = -1
            slot = row_base[at] + port
            if port == no_path or slot >= row_base[at + 1] or count[k] == len(links) - 1:
                continue
            link = row_link[slot]
            if link < 0:
                continue
            links[count[k], k] = link
            count[k] += 1
            row[k] = link_row[link]
            if row[k] >= 0:
                prefetch(table, lids[first + k] * table.shape[1] + row[k])
                moving = True
            elif link == goal_link:
                row[k] = DELIVERED


@njit(cache=True)
def table_loads(
    table, graph, endpoint_out, no_path, sources, destinations, lids, weights, order, loads
):
    """Add the weight of every delivered flow to the links of its path.

    - `table`, uint8 or uint16 [all lids, rows]: output ports.
    - `endpoint_out`, int32 [destinations]: the link from the endpoint to its row, -1 if the
      endpoint is a row.
    - `no_path`: the port that means "no path".
    - `sources`, `destinations`, `lids`, `weights`, `order`: arrays [flows] as in
      `weft.routing.routes.flows.EndpointFlows`; weights have the type of `loads`. `order` lists the
      flows by destination, so that the entries of one LID stay in the L1 cache.
    - `loads`, int64 or float64 [links]: load of each link in units of the weights, changed in
      place.

    Returns the number of flows that are not delivered; these add no load.
    """
    row_base, row_link, link_row = graph.row_base, graph.row_link, graph.link_row
    target_row, target_link = graph.destination_row, graph.destination_link
    unrouted = 0
    limit = len(row_base) + 1
    for i in range(len(order)):
        f = order[i]
        d = destinations[f]
        s = sources[f]
        if s < 0 or d < 0:
            unrouted += 1
            continue
        if s == d:
            continue
        weight = weights[f] if len(weights) else 1
        line = table[lids[f] if len(lids) else d]
        goal = target_link[d]
        goal_row = target_row[d]
        row, link = first_row(s, target_row, endpoint_out, link_row)
        if link >= 0:
            loads[link] += weight
        hops = 0
        arrived = False
        while row >= 0:
            port = line[row]
            if consumes(port, row, goal_row, goal):
                arrived = True
                break
            base = row_base[row]
            if port == no_path or base + port >= row_base[row + 1] or hops > limit:
                break
            link = row_link[base + port]
            if link < 0:
                break
            loads[link] += weight
            hops += 1
            row = link_row[link]
            if row < 0:
                arrived = link == goal
        if not arrived:
            unrouted += 1
            _subtract(line, graph, endpoint_out, no_path, s, hops, weight, loads)
    return unrouted


@njit(cache=True)
def _subtract(line, graph, endpoint_out, no_path, source, hops, weight, loads):
    row_base, row_link, link_row = graph.row_base, graph.row_link, graph.link_row
    target_row = graph.destination_row
    row, link = first_row(source, target_row, endpoint_out, link_row)
    if link >= 0:
        loads[link] -= weight
    for _ in range(hops):
        link = row_link[row_base[row] + line[row]]
        loads[link] -= weight
        row = link_row[link]


@njit(cache=True)
def row_users(table, lids, targets, graph, no_path, sources, slots, rows, endpoints):
    """Count the flows over each of some links by source row and destination row.

    Every endpoint sends one flow to every other endpoint.

    `table`, `no_path`: as in `table_loads`. `lids`, `targets`, int32 or int64: LID (as an index in
    the table) and endpoint of each destination; destinations at the same row are consecutive.
    `sources`, int64 [rows]: endpoints that send through each row. `slots`, `rows`, `endpoints`,
    int32 [links]: `slots` is a link's index in `row_link`, and `rows` the row at its tail. For a
    link from a host, `slots` is -1, `rows` is the row at the link's head, and `endpoints` the
    endpoint at its tail.

    Returns int32 indices in `slots`, int32 source rows, int32 destination rows and int64 numbers of
    flows: one entry per link and pair of rows, as far as there are flows.

    Each row has one next hop to a destination. The rows whose packets to this destination cross a
    link therefore form a tree, which is searched from the link against the packets' direction.
    """
    target_row, target_link = graph.destination_row, graph.destination_link
    row_base = graph.row_base
    num_rows = len(row_base) - 1
    first = np.empty(num_rows, dtype=np.int32)
    sibling = np.empty(num_rows, dtype=np.int32)
    stack = np.empty(num_rows, dtype=np.int32)
    flows = np.zeros((len(slots), num_rows), dtype=np.int64)
    crossing = np.empty((len(slots), num_rows), dtype=np.int32)
    num_crossing = np.zeros(len(slots), dtype=np.int64)
    out = np.empty((1024, 3), dtype=np.int32)
    out_flows = np.empty(len(out), dtype=np.int64)
    count = 0
    for t in range(len(targets)):
        target = targets[t]
        goal_row, goal = target_row[target], target_link[target]
        line = table[lids[t]]
        has_tree = False
        for k in range(len(slots)):
            row = rows[k]
            if slots[k] >= 0:
                if line[row] == no_path or row_base[row] + line[row] != slots[k]:
                    continue
            elif endpoints[k] == target:
                continue
            if not _arrives(line, graph, no_path, row, goal_row, goal):
                continue
            if slots[k] < 0:
                if flows[k, row] == 0:
                    crossing[k, num_crossing[k]] = row
                    num_crossing[k] += 1
                flows[k, row] += 1
                continue
            if not has_tree:
                has_tree = True
                _list_senders(line, graph, no_path, first, sibling)
            stack[0] = row
            high = 1
            while high > 0:
                high -= 1
                r = stack[high]
                weight = sources[r] - (r == goal_row)
                if weight > 0:
                    if flows[k, r] == 0:
                        crossing[k, num_crossing[k]] = r
                        num_crossing[k] += 1
                    flows[k, r] += weight
                r = first[r]
                while r >= 0:
                    stack[high] = r
                    high += 1
                    r = sibling[r]
        if t + 1 < len(targets) and target_row[targets[t + 1]] == goal_row:
            continue
        for k in range(len(slots)):
            while count + num_crossing[k] > len(out_flows):
                out = np.concatenate((out, np.empty_like(out)))
                out_flows = np.concatenate((out_flows, np.empty_like(out_flows)))
            for i in range(num_crossing[k]):
                r = crossing[k, i]
                out[count, 0] = k
                out[count, 1] = r
                out[count, 2] = goal_row
                out_flows[count] = flows[k, r]
                flows[k, r] = 0
                count += 1
            num_crossing[k] = 0
    return out[:count, 0], out[:count, 1], out[:count, 2], out_flows[:count]


@njit(cache=True)
def _list_senders(line, graph, no_path, first, sibling):
    """List the rows that send to each row: the first of them, and the next one after each."""
    row_base, row_link, link_row = graph.row_base, graph.row_link, graph.link_row
    first[:] = -1
    for row in range(len(first)):
        slot = row_base[row] + line[row]
        if line[row] == no_path or slot >= row_base[row + 1] or row_link[slot] < 0:
            continue
        after = link_row[row_link[slot]]
        if after >= 0:
            sibling[row] = first[after]
            first[after] = row


@njit(cache=True)
def _arrives(line, graph, no_path, row, goal_row, goal):
    """Return whether packets of a row reach a destination."""
    row_base, row_link, link_row = graph.row_base, graph.row_link, graph.link_row
    for _ in range(len(row_base)):
        if consumes(line[row], row, goal_row, goal):
            return True
        if line[row] == no_path:
            return False
        slot = row_base[row] + line[row]
        link = row_link[slot] if slot < row_base[row + 1] else -1
        if link < 0:
            return False
        row = link_row[link]
        if row < 0:
            return link == goal
    return False
