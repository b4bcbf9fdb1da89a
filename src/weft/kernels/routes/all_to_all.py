"""Link loads of all-to-all traffic, computed along the tree of paths to each destination."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routes.walk import consumes


@njit(cache=True)
def all_to_all_table_loads(table, lids, lid_row, lid_link, graph, row_sources, no_path, loads):
    """Add the flows of all hosts to every listed LID to the loads.

    Links from hosts to rows are left out: their loads do not depend on the routes.

    - `table`, uint8 or uint16 [all lids, rows]: output ports.
    - `lids`, int32: LIDs, as indices in the table.
    - `lid_row`, `lid_link`, int32 [len(lids)]: destination_row and destination_link of each LID.
      The LID's host is one of the hosts that send through that row, and sends nothing to itself.
    - `row_sources`, int64 [rows]: number of hosts that send through each row.
    - `no_path`: the port that means "no path".
    - `loads`, int64 [links]: flows on each link, changed in place.

    Returns the number of flows that are not delivered.
    """
    row_base, row_link, link_row = graph.row_base, graph.row_link, graph.link_row
    rows = len(row_base) - 1
    following = np.empty(rows, dtype=np.int32)
    by_link = np.empty(rows, dtype=np.int32)
    waits = np.empty(rows, dtype=np.int32)
    flow = np.empty(rows, dtype=np.int64)
    ready = np.empty(rows, dtype=np.int32)
    senders = np.int64(0)
    for row in range(rows):
        senders += row_sources[row]
    unrouted = np.int64(0)
    for i in range(len(lids)):
        goal = lid_row[i]
        if goal < 0:
            continue
        line = table[lids[i]]
        waits[:] = 0
        for row in range(rows):
            following[row] = -1
            by_link[row] = -1
            flow[row] = row_sources[row]
            port = line[row]
            if consumes(port, row, goal, lid_link[i]):
                continue
            base = row_base[row]
            if port != no_path and base + port < row_base[row + 1]:
                link = row_link[base + port]
                if link >= 0:
                    by_link[row] = link
                    following[row] = link_row[link]
                    if link_row[link] >= 0:
                        waits[link_row[link]] += 1
        flow[goal] -= 1
        count = 0
        for row in range(rows):
            if waits[row] == 0:
                ready[count] = row
                count += 1
        at = 0
        while at < count:
            row = ready[at]
            at += 1
            if following[row] >= 0:
                flow[following[row]] += flow[row]
                waits[following[row]] -= 1
                if waits[following[row]] == 0:
                    ready[count] = following[row]
                    count += 1
        delivers = consumes(line[goal], goal, goal, lid_link[i])
        if lid_link[i] >= 0:
            delivers = by_link[goal] == lid_link[i]
        arrived = flow[goal] if delivers and waits[goal] == 0 else 0
        if arrived != senders - 1:
            unrouted += _only_delivered(goal, delivers, following, row_sources, flow, ready, waits)
        for row in range(rows):
            if by_link[row] >= 0 and flow[row] > 0:
                loads[by_link[row]] += flow[row]
    return unrouted


@njit(cache=True)
def _only_delivered(goal, delivers, following, row_sources, flow, ready, state):
    """Recount only the flows of rows whose path arrives; return the number of all other flows.

    `delivers` is whether the goal's own table entry leads to the destination.
    """
    rows = len(following)
    state[:] = 0
    for start in range(rows):
        depth = 0
        row = start
        verdict = 0
        while True:
            if state[row] != 0:
                verdict = state[row] if state[row] != 3 else 2
                break
            if row == goal and delivers:
                verdict = 1
                state[row] = 1
                break
            state[row] = 3
            ready[depth] = row
            depth += 1
            if following[row] < 0:
                verdict = 2
                break
            row = following[row]
        for k in range(depth):
            state[ready[k]] = verdict
    unrouted = np.int64(0)
    for row in range(rows):
        flow[row] = 0
    for start in range(rows):
        own = row_sources[start] - (1 if start == goal else 0)
        if own == 0:
            continue
        if state[start] != 1:
            unrouted += own
            continue
        row = start
        flow[row] += own
        while row != goal:
            row = following[row]
            flow[row] += own
    return unrouted
