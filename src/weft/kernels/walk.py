"""Following packets through forwarding tables, link by link."""

import numpy as np
from numba import njit

DELIVERED = 0
NO_PATH = 1
LOOP = 2
WRONG_HOST = 3


@njit(cache=True, inline="always")
def first_row(source, endpoint_row, endpoint_out, link_row):
    """Row that a packet of an endpoint meets first, and the link to it (-1 when it is the row)."""
    link = endpoint_out[source]
    if link >= 0:
        return link_row[link], link
    return endpoint_row[source], link


@njit(cache=True)
def path_links(
    table,
    row_base,
    row_link,
    link_row,
    target_row,
    target_link,
    endpoint_out,
    no_path,
    source,
    destination,
    lid,
    links,
):
    """Write the links from an endpoint to a destination; return (how many, how it ended).

    `links` must hold two more than there are rows.
    """
    count = 0
    row, link = first_row(source, target_row, endpoint_out, link_row)
    if link >= 0:
        links[0] = link
        count = 1
    if row < 0:
        return count, NO_PATH
    line = table[lid]
    limit = len(links) - 1
    while True:
        if row == target_row[destination] and target_link[destination] < 0:
            return count, DELIVERED
        port = line[row]
        if port == no_path or port >= row_base[row + 1] - row_base[row]:
            return count, NO_PATH
        link = row_link[row_base[row] + port]
        if link < 0:
            return count, NO_PATH
        if count >= limit:
            return count, LOOP
        links[count] = link
        count += 1
        row = link_row[link]
        if row < 0:
            if link == target_link[destination]:
                return count, DELIVERED
            return count, WRONG_HOST


@njit(cache=True)
def table_loads(
    table,
    row_base,
    row_link,
    link_row,
    target_row,
    target_link,
    endpoint_out,
    no_path,
    sources,
    destinations,
    lids,
    weights,
    order,
    loads,
):
    """Add the weight of every delivered flow to the links on its path; return flows undelivered.

    `order` lists the flows by destination, so that a destination's line of the table stays in
    the nearest cache. A flow's links are taken as they are met and taken back when it turns out
    not to arrive.
    """
    lost = 0
    limit = len(row_base) + 1
    for i in range(len(order)):
        f = order[i]
        d = destinations[f]
        s = sources[f]
        if s < 0 or d < 0:
            lost += 1
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
            if row == goal_row and goal < 0:
                arrived = True
                break
            port = line[row]
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
            lost += 1
            _take_back(
                line,
                row_base,
                row_link,
                link_row,
                endpoint_out,
                target_row,
                no_path,
                s,
                hops,
                weight,
                loads,
            )
    return lost


@njit(cache=True)
def _take_back(
    line,
    row_base,
    row_link,
    link_row,
    endpoint_out,
    target_row,
    no_path,
    source,
    hops,
    weight,
    loads,
):
    row, link = first_row(source, target_row, endpoint_out, link_row)
    if link >= 0:
        loads[link] -= weight
    for _ in range(hops):
        link = row_link[row_base[row] + line[row]]
        loads[link] -= weight
        row = link_row[link]


@njit(cache=True)
def table_flow_cost(
    table,
    row_base,
    row_link,
    link_row,
    target_row,
    target_link,
    endpoint_out,
    no_path,
    sources,
    destinations,
    lids,
    link_value,
    order,
    worst,
    where,
    length,
):
    """Per flow: the largest link_value on its path, the link that has it, and the path's length.

    A flow that does not arrive gets worst = nan, where = -1 and length = -1; a flow from an
    endpoint to itself 0, -1 and 0.
    """
    links = np.empty(len(row_base) + 1, dtype=np.int32)
    for i in range(len(order)):
        f = order[i]
        s = sources[f]
        d = destinations[f]
        worst[f] = np.nan
        where[f] = -1
        length[f] = -1
        if s < 0 or d < 0:
            continue
        if s == d:
            worst[f] = 0.0
            length[f] = 0
            continue
        count, end = path_links(
            table,
            row_base,
            row_link,
            link_row,
            target_row,
            target_link,
            endpoint_out,
            no_path,
            s,
            d,
            lids[f] if len(lids) else d,
            links,
        )
        if end != DELIVERED:
            continue
        high = -1.0
        for k in range(count):
            if link_value[links[k]] > high:
                high = link_value[links[k]]
                where[f] = links[k]
        worst[f] = high
        length[f] = count


@njit(cache=True)
def flows_through(
    table,
    row_base,
    row_link,
    link_row,
    target_row,
    target_link,
    endpoint_out,
    no_path,
    sources,
    destinations,
    lids,
    order,
    wanted,
    counts,
    flows,
):
    """Count, or when `flows` has room list, the flows that cross each wanted link.

    wanted[link] is the position of a link in `counts`, or -1. With `flows` empty, counts[p]
    becomes the number of flows over link p; otherwise counts[p] is where its run begins and moves
    to its end.
    """
    links = np.empty(len(row_base) + 1, dtype=np.int32)
    for i in range(len(order)):
        f = order[i]
        s = sources[f]
        d = destinations[f]
        if s < 0 or d < 0 or s == d:
            continue
        count, end = path_links(
            table,
            row_base,
            row_link,
            link_row,
            target_row,
            target_link,
            endpoint_out,
            no_path,
            s,
            d,
            lids[f] if len(lids) else d,
            links,
        )
        if end != DELIVERED:
            continue
        for k in range(count):
            p = wanted[links[k]]
            if p >= 0:
                if len(flows):
                    flows[counts[p]] = f
                counts[p] += 1
