"""What the validator asks of tables: does every row arrive, over how many links, in a loop?"""

import numpy as np
from numba import njit

ARRIVES = 1
STRANDED = 2
CIRCLES = 3


@njit(cache=True)
def _trace_line(
    line, goal_row, goal_link, row_base, row_link, link_row, no_path, state, hops, stack
):
    """Find for every row whether it arrives, following each row's way once.

    Returns a row on a forwarding loop, or -1. hops counts links up to and including the one to
    the destination.
    """
    rows = len(row_base) - 1
    state[:] = 0
    looping = -1
    for start in range(rows):
        if state[start] != 0:
            continue
        depth = 0
        row = start
        while True:
            if row == goal_row and goal_link < 0:
                state[row] = ARRIVES
                hops[row] = 0
                break
            if state[row] != 0:
                break
            state[row] = 255  # on the way being followed
            stack[depth] = row
            depth += 1
            port = line[row]
            base = row_base[row]
            if port == no_path or base + port >= row_base[row + 1] or row_link[base + port] < 0:
                state[row] = STRANDED
                depth -= 1
                break
            link = row_link[base + port]
            following = link_row[link]
            if following < 0:
                depth -= 1
                if link == goal_link:
                    state[row] = ARRIVES
                    hops[row] = 1
                else:
                    state[row] = STRANDED
                break
            row = following
        verdict = state[row]
        if verdict == 255:
            verdict = CIRCLES
            looping = row
        length = hops[row] if verdict == ARRIVES else 0
        while depth:
            depth -= 1
            length += 1
            state[stack[depth]] = verdict
            hops[stack[depth]] = length
    return looping


@njit(cache=True)
def check_tables(
    table,
    lids,
    lid_row,
    lid_link,
    lid_weight,
    row_base,
    row_link,
    link_row,
    row_sources,
    no_path,
    best_hops,
    histogram,
    detours,
    loop_lids,
    loop_rows,
):
    """Trace every listed LID from every row and sum up over source hosts.

    best_hops[lid_row[i], r] is the fewest links between the rows (255: none). histogram[h] counts
    (source host, LID) pairs whose way takes h links between rows and to the host; detours[x] those
    that take x links more than need be. Pairs are weighted by lid_weight[i], 0 for a destination
    that is no host. Loops found go to loop_lids and loop_rows, one per LID while there is room.

    Returns (pairs stranded, pairs circling, pairs that no cable connects, loops found, rows
    stranded or circling over all listed LIDs).
    """
    rows = len(row_base) - 1
    state = np.empty(rows, dtype=np.uint8)
    hops = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    stranded = 0
    circling = 0
    apart = 0
    loops = 0
    lost_rows = 0
    for i in range(len(lids)):
        goal = lid_row[i]
        looping = -1
        if goal >= 0:
            looping = _trace_line(
                table[lids[i]],
                goal,
                lid_link[i],
                row_base,
                row_link,
                link_row,
                no_path,
                state,
                hops,
                stack,
            )
        else:
            state[:] = STRANDED
        if looping >= 0:
            if loops < len(loop_lids):
                loop_lids[loops] = lids[i]
                loop_rows[loops] = looping
            loops += 1
        last = 1 if lid_link[i] >= 0 else 0
        for row in range(rows):
            near = goal >= 0 and best_hops[goal, row] != 255
            if state[row] != ARRIVES and near:
                lost_rows += 1
            weight = row_sources[row] * lid_weight[i]
            if weight == 0:
                continue
            if goal == row:
                weight -= lid_weight[i]  # a host does not send to itself
            if state[row] == ARRIVES:
                histogram[min(hops[row], len(histogram) - 1)] += weight
                extra = hops[row] - last - best_hops[goal, row]
                detours[min(extra, len(detours) - 1)] += weight
            else:
                if not near:
                    apart += weight
                if state[row] == CIRCLES:
                    circling += weight
                else:
                    stranded += weight
    return stranded, circling, apart, loops, lost_rows


@njit(cache=True)
def list_unrouted(
    table,
    lids,
    lid_row,
    lid_link,
    lid_host,
    host_row,
    row_base,
    row_link,
    link_row,
    no_path,
    pairs,
):
    """List the pairs of hosts without a path, by destination; returns how many there are.

    host_row[h] is the row host h sends through, -1 for none. Only the first len(pairs) are kept.
    """
    rows = len(row_base) - 1
    state = np.empty(rows, dtype=np.uint8)
    hops = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    found = 0
    for i in range(len(lids)):
        if lid_row[i] >= 0:
            _trace_line(
                table[lids[i]],
                lid_row[i],
                lid_link[i],
                row_base,
                row_link,
                link_row,
                no_path,
                state,
                hops,
                stack,
            )
        else:
            state[:] = STRANDED
        for host in range(len(host_row)):
            if host == lid_host[i]:
                continue
            if host_row[host] < 0 or state[host_row[host]] != ARRIVES:
                if found < len(pairs):
                    pairs[found, 0] = host
                    pairs[found, 1] = lid_host[i]
                found += 1
    return found


@njit(cache=True)
def arriving_rows(table, lids, lid_row, lid_link, row_base, row_link, link_row, no_path, reached):
    """Set reached[i, row] where what the row sends to LID i arrives."""
    rows = len(row_base) - 1
    state = np.empty(rows, dtype=np.uint8)
    hops = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    for i in range(len(lids)):
        if lid_row[i] < 0:
            continue
        _trace_line(
            table[lids[i]],
            lid_row[i],
            lid_link[i],
            row_base,
            row_link,
            link_row,
            no_path,
            state,
            hops,
            stack,
        )
        for row in range(rows):
            reached[i, row] = state[row] == ARRIVES
