"""Checks of forwarding tables: whether each row reaches each LID, path lengths, and loops."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.lean import lean_njit
from weft.kernels.routes.walk import consumes
from weft.kernels.routing.distances import UNREACHED

ARRIVES = 1
STRANDED = 2
CIRCLES = 3  # the path leads into a forwarding loop


@njit(cache=True)
def _trace_line(line, goal_row, goal_link, graph, no_path, state, hops, stack):
    """Fill the state of every row for one LID, following each row's path once.

    state[row] becomes `ARRIVES`, `STRANDED` or `CIRCLES`. hops[row] becomes the number of links of
    the path, the link to the destination included. Return a row on a forwarding loop, or -1 if
    there is none.
    """
    row_base, row_link, link_row = graph.row_base, graph.row_link, graph.link_row
    rows = len(row_base) - 1
    looping = -1
    for row in range(rows):
        state[row] = 0
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
            state[row] = 255  # on the path being followed
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


@lean_njit()
def check_tables(
    table, lmc, graph, target_weight, row_sources, row_itself, no_path, best_hops, histogram,
    detours, loops_found, room,
):  # fmt: skip
    """Trace every LID from every row, and sum the results over source hosts.

    A pair of hosts is routed when the source reaches every LID of the destination.

    - `table`, uint8 or uint16 [destinations << lmc, rows]: output ports.
    - `lmc`, `no_path`: LID mask control, and the port that means "no path".
    - `target_weight`, int64 [destinations]: 0 for a destination that is not a host.
    - `row_sources`, `row_itself`, int64 [rows]: number of hosts that send through the row; and 1 if
      the row itself is one of these hosts, else 0.
    - `best_hops`, uint16 [rows, rows]: fewest edges between two rows, `UNREACHED` where there is no
      path.
    - `histogram`, `detours`: int64 [rows + 2] each, changed in place. ``histogram[h]`` counts the
      pairs whose path to the first LID has h hops; ``detours[x]`` counts the pairs whose path to
      the first LID has x hops more than a minimal path.
    - `loops_found`, int32 [2, LIDs]: filled with the LIDs that have a forwarding loop, and a row
      on the loop of each, as far as there is room.
    - `room`, int32 [4, rows]: work space.

    Returns the number of pairs of hosts that are not routed; of pairs among them that no cables
    connect; of LIDs with a loop; and of (row, LID) pairs that cables connect but the table does
    not.
    """
    target_row, target_link = graph.destination_row, graph.destination_link
    rows = len(graph.row_base) - 1
    state, served, hops, stack = room[0], room[1], room[2], room[3]
    unrouted = 0
    apart = 0
    loops = 0
    unrouted_rows = 0
    for d in range(len(target_row)):
        goal = target_row[d]
        if goal < 0:
            continue
        last = 1 if target_link[d] >= 0 else 0
        for row in range(rows):
            served[row] = True
        for lid in range(d << lmc, (d + 1) << lmc):
            looping = _trace_line(
                table[lid], goal, target_link[d], graph, no_path, state, hops, stack
            )
            if looping >= 0:
                if loops < loops_found.shape[1]:
                    loops_found[0, loops] = lid
                    loops_found[1, loops] = looping
                loops += 1
            for row in range(rows):
                if state[row] != ARRIVES:
                    served[row] = False
                    if best_hops[goal, row] != UNREACHED:
                        unrouted_rows += 1
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
            unrouted += pairs
    return unrouted, apart, loops, unrouted_rows


@njit(cache=True)
def arriving_rows(table, lids, lid_row, lid_link, graph, no_path, reached):
    """Set reached[i, row] to whether the table leads from the row to lids[i].

    `table`, `no_path`: as in `check_tables`. `lids`, int32:
    LIDs to check, as indices in the table. `lid_row`, `lid_link`, int32 [len(lids)]: row of the
    LID's destination (-1 for none), and the link from that row to the destination. `reached`, bool
    [len(lids), rows]: filled with the results.
    """
    rows = len(graph.row_base) - 1
    state = np.empty(rows, dtype=np.uint8)
    hops = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    for i in range(len(lids)):
        if lid_row[i] < 0:
            continue
        _trace_line(table[lids[i]], lid_row[i], lid_link[i], graph, no_path, state, hops, stack)
        for row in range(rows):
            reached[i, row] = state[row] == ARRIVES
