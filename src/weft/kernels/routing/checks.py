"""What the validator asks of tables: does every row arrive, over how many links, in a loop?"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routes.walk import consumes
from weft.kernels.routing.distances import UNREACHED

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
            port = line[row]
            if consumes(port, row, goal_row, goal_link):
                state[row] = ARRIVES
                hops[row] = 0
                break
            if state[row] != 0:
                break
            state[row] = 255  # on the way being followed
            stack[depth] = row
            depth += 1
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
    table, lmc, target_row, target_link, target_weight, row_base, row_link, link_row, row_sources,
    row_itself, no_path, best_hops, histogram, detours, loop_lids, loop_rows,
):  # fmt: skip
    """Trace every LID from every row and sum up over source hosts.

    best_hops[target_row[d], r] is the fewest links between the rows (`UNREACHED`: none).
    row_sources[r] hosts send through row r, of which row_itself[r], 0 or 1, is the row and needs
    no link to get there. A pair of hosts is routed when every LID of the destination arrives;
    histogram[h] counts the pairs whose way to its first LID takes h links, detours[x] those that
    take x links more than need be. target_weight[d] is 0 for a destination that is no host.
    Loops found go to loop_lids and loop_rows, one per LID while there is room.

    Returns (pairs without a path, pairs that no cable connects, loops found, rows stranded or
    circling over all LIDs).
    """
    rows = len(row_base) - 1
    state = np.empty(rows, dtype=np.uint8)
    served = np.empty(rows, dtype=np.bool_)
    hops = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    lost = 0
    apart = 0
    loops = 0
    lost_rows = 0
    for d in range(len(target_row)):
        goal = target_row[d]
        if goal < 0:
            continue
        last = 1 if target_link[d] >= 0 else 0
        served[:] = True
        for lid in range(d << lmc, (d + 1) << lmc):
            looping = _trace_line(
                table[lid], goal, target_link[d], row_base, row_link, link_row, no_path, state,
                hops, stack,
            )  # fmt: skip
            if looping >= 0:
                if loops < len(loop_lids):
                    loop_lids[loops] = lid
                    loop_rows[loops] = looping
                loops += 1
            for row in range(rows):
                if state[row] != ARRIVES:
                    served[row] = False
                    if best_hops[goal, row] != UNREACHED:
                        lost_rows += 1
                elif lid == d << lmc and row_sources[row] and target_weight[d]:
                    inside = row_itself[row]
                    outside = row_sources[row] - inside
                    if goal == row:  # a host does not send to itself
                        inside, outside = inside - (1 - last), outside - last
                    histogram[hops[row]] += inside
                    histogram[hops[row] + 1] += outside
                    detours[hops[row] - last - best_hops[goal, row]] += inside + outside
        if not target_weight[d]:
            continue
        for row in range(rows):
            if served[row]:
                continue
            pairs = row_sources[row] - (1 if goal == row else 0)
            if best_hops[goal, row] == UNREACHED:
                apart += pairs
            lost += pairs
    return lost, apart, loops, lost_rows


@njit(cache=True)
def list_unrouted(
    table, lmc, host_endpoint, target_row, target_link, host_row, row_base, row_link, link_row,
    no_path, pairs,
):  # fmt: skip
    """List the pairs of hosts without a path to every LID, by destination; return how many.

    host_endpoint[h] is the destination that host h is and host_row[h] the row it sends through,
    -1 for none. Only the first len(pairs) are kept.
    """
    rows = len(row_base) - 1
    state = np.empty(rows, dtype=np.uint8)
    arrives = np.empty(rows, dtype=np.bool_)
    hops = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    found = 0
    for host in range(len(host_row)):
        d = host_endpoint[host]
        known = d >= 0 and target_row[d] >= 0
        arrives[:] = known
        if known:
            for lid in range(d << lmc, (d + 1) << lmc):
                _trace_line(
                    table[lid], target_row[d], target_link[d], row_base, row_link, link_row,
                    no_path, state, hops, stack,
                )  # fmt: skip
                for row in range(rows):
                    arrives[row] &= state[row] == ARRIVES
        for source in range(len(host_row)):
            if source == host:
                continue
            if host_row[source] < 0 or not arrives[host_row[source]]:
                if found < len(pairs):
                    pairs[found, 0] = source
                    pairs[found, 1] = host
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
            table[lids[i]], lid_row[i], lid_link[i], row_base, row_link, link_row, no_path, state,
            hops, stack,
        )  # fmt: skip
        for row in range(rows):
            reached[i, row] = state[row] == ARRIVES
