"""Candidate sets via intermediates: path lengths, shares and channel dependencies.

A *line* is that of `weft.kernels.routes.split`.
"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.copies import copy_values
from weft.kernels.routes.dependencies import channel_of, follow_sets, set_dependencies
from weft.kernels.routes.split import finish_line, line_scratch, span, spread

#: An origin is the intermediate that the packets at a row or channel come from, or one of these
#: values if there are no packets, or packets from several intermediates.
NOWHERE = -1
SEVERAL = -2


@njit(cache=True)
def path_lengths(lines, set_offset, set_edge, edge_row, lengths):
    """Fill the length of the longest path from each row over the sets of each line.

    `lines`, int32 [lines, rows]: set_id or via_set of `weft.routing.routes.CandidateRoutes`.
    `set_offset`, `set_edge`: attributes of `weft.routing.routes.CandidateRoutes`. `edge_row`:
    attributes of `weft.fabrics.graph.SwitchGraph`. `lengths`, int32 [lines, rows]: filled with the
    number of edges; undefined if there is a cycle.

    Returns (-1, -1) if there is no cycle; otherwise a line that has a cycle, and a row on the
    cycle.
    """
    rows = lines.shape[1]
    scratch = line_scratch(rows)
    state, order, _, _ = scratch
    for n in range(len(lines)):
        line = lines[n]
        state[:] = 0
        done = 0
        for root in range(rows):
            if state[root] == 0:
                done, looping = finish_line(
                    root, -1, line, set_offset, set_edge, edge_row, scratch, done
                )
                if looping >= 0:
                    return n, looping
        for i in range(done):
            row = order[i]
            longest = 0
            first, stop = span(line, -1, set_offset, row)
            for k in range(first, stop):
                longest = max(longest, 1 + lengths[n, edge_row[set_edge[k]]])
            lengths[n, row] = longest
    return -1, -1


@njit(cache=True)
def arrivals(via, via_set, set_offset, set_edge, edge_row, member_offset, member, share):
    """Fill the shares of packets to an intermediate that reach it at each of its rows.

    Packets are split equally at every hop.

    `via`, `via_set`, `set_offset`, `set_edge`: attributes of `weft.routing.routes.CandidateRoutes`.
    `edge_row`: attributes of `weft.fabrics.graph.SwitchGraph`. `member_offset`, `member`: int64 and
    int32, CSR over intermediates: the rows of each. `share`, float64 [rows, rows]: initially zeros.
    share[s, a] becomes the part of the packets from row s to the intermediate of row a that enter
    it at a; 0 if both rows are in one intermediate.
    """
    rows = len(via)
    scratch = line_scratch(rows)
    state, order, _, _ = scratch
    for v in range(len(via_set)):
        line = via_set[v]
        first, last = member_offset[v], member_offset[v + 1]
        state[:] = 0
        done = 0
        for root in range(rows):
            if state[root] == 0:
                done, _ = finish_line(root, -1, line, set_offset, set_edge, edge_row, scratch, done)
        for i in range(done):
            row = order[i]
            for m in range(first, last):
                share[row, member[m]] = 1.0 if row == member[m] else 0.0
            begin, end = span(line, -1, set_offset, row)
            for k in range(begin, end):
                other = edge_row[set_edge[k]]
                for m in range(first, last):
                    share[row, member[m]] += share[other, member[m]] / (end - begin)
        for m in range(first, last):
            for n in range(first, last):
                share[member[m], member[n]] = 0.0


@njit(cache=True)
def spread_demand(lines, demand, set_offset, set_edge, edge_row, edge_load):
    """Add to the edges the flows from rows to targets, which are split equally at every row.

    `lines`, `set_offset`, `set_edge`, `edge_row`: as in `path_lengths`. `demand`, float64 [lines,
    rows]: flows from each row to the target of each line. `edge_load`, float64 [edges]: flows on
    each edge, changed in place.
    """
    rows = lines.shape[1]
    scratch = line_scratch(rows)
    state, order, _, _ = scratch
    amount = np.zeros(rows, dtype=np.float64)
    for n in range(len(lines)):
        line = lines[n]
        done = 0
        for root in range(rows):
            if demand[n, root] > 0.0 and line[root] >= 0 and state[root] == 0:
                done, _ = finish_line(root, -1, line, set_offset, set_edge, edge_row, scratch, done)
        for i in range(done):
            amount[order[i]] = demand[n, order[i]]
        spread(-1, line, set_offset, set_edge, edge_row, scratch, done, amount, edge_load, None, 0)


@njit(cache=True)
def phase_dependencies(sets, graph, source_rows, channels):
    """Set the dependencies of all paths via intermediates and of all direct paths.

    A packet is sent via an intermediate that contains neither its source nor its destination. The
    destinations of the packets at an intermediate therefore depend on the packets' origin. For each
    row it is enough to record whether packets to an intermediate come from `NOWHERE`, from one
    intermediate only, or from `SEVERAL`.

    `sets`, `channels`: parts of `Sets` and `WaitGraph` of `weft.kernels.routes.dependencies`.
    `source_rows`, int32: rows that send and receive.
    """
    edge_row, set_offset, set_edge = graph.edge_row, sets.offset, sets.edge
    set_id, via, via_set, direct = sets.id, sets.via, sets.via_set, sets.direct
    rows = len(via)
    state = np.zeros(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    origin = np.empty(rows, dtype=np.int32)
    row_origin = np.full(rows, NOWHERE, dtype=np.int32)
    channel_origin = np.full(len(channels.used), NOWHERE, dtype=np.int32)
    inhabited = np.zeros(len(via_set), dtype=np.bool_)
    num_inhabited = 0
    for s in range(len(source_rows)):
        v = via[source_rows[s]]
        if v >= 0 and not inhabited[v]:
            inhabited[v] = True
            num_inhabited += 1
    # With `turn_set`, packets may begin their way via an intermediate at any row of their own one.
    starts = source_rows
    if len(sets.turn_set):
        starts = np.flatnonzero(via >= 0).astype(np.int32)
        _turn_dependencies(sets, graph, source_rows, channels)
    for v in range(len(via_set)):
        # Packets via v need two other intermediates, one of the source and one of the destination.
        if num_inhabited - np.int64(inhabited[v]) < 2:
            continue
        line = via_set[v]
        state[:] = 0
        origin[:] = NOWHERE
        count = 0
        for s in range(len(starts)):
            row = starts[s]
            if via[row] >= 0 and via[row] != v and inhabited[via[row]]:
                origin[row] = via[row]
                state[row] = 1
                order[count] = row
                count += 1
        sources = count
        follow_sets(line, -1, order, count, state, sets, graph, channels)
        _spread_origins(line, order[:sources].copy(), set_offset, set_edge, edge_row, origin)
        for row in range(rows):
            if origin[row] == NOWHERE:
                continue
            if via[row] == v:
                row_origin[row] = origin[row]
            if line[row] < 0:
                continue
            for k in range(set_offset[line[row]], set_offset[line[row] + 1]):
                if via[edge_row[set_edge[k]]] == v:
                    channel_origin[channel_of(sets, k, channels.vls)] = origin[row]
    for t in range(len(source_rows)):
        g = source_rows[t]
        count = 0
        for row in range(rows):
            state[row] = _may_continue(row_origin[row], via[row], via[g])
        for s in range(len(source_rows)):
            row = source_rows[s]
            if direct or via[row] < 0 or via[g] < 0 or via[row] == via[g]:
                state[row] = 1
        for row in range(rows):
            if state[row]:
                order[count] = row
                count += 1
        follow_sets(set_id[g], g, order, count, state, sets, graph, channels)
    for channel in range(len(channel_origin)):
        if channel_origin[channel] == NOWHERE:
            continue
        row = edge_row[channel // channels.vls]
        for t in range(len(source_rows)):
            g = source_rows[t]
            if set_id[g, row] >= 0 and _may_continue(channel_origin[channel], via[row], via[g]):
                set_dependencies(channel, set_id[g, row], sets, graph, channels)


@njit(cache=True)
def _turn_dependencies(sets, graph, source_rows, channels):
    """Set the dependencies of the channels of `turn_set`, taken by every row of an intermediate.

    Parameters are those of `phase_dependencies`.
    """
    edge_row, set_offset, set_edge = graph.edge_row, sets.offset, sets.edge
    set_id, via, via_set, turn_set = sets.id, sets.via, sets.via_set, sets.turn_set
    for t in range(len(source_rows)):
        g = source_rows[t]
        for row in range(len(via)):
            turn = turn_set[g, row]
            if turn < 0:
                continue
            for k in range(set_offset[turn], set_offset[turn + 1]):
                channel = channel_of(sets, k, channels.vls)
                channels.used[channel] = 1
                head = edge_row[set_edge[k]]
                if via[head] != via[row]:
                    if set_id[g, head] >= 0:
                        set_dependencies(channel, set_id[g, head], sets, graph, channels)
                    continue
                if turn_set[g, head] >= 0:
                    set_dependencies(channel, turn_set[g, head], sets, graph, channels)
                for v in range(len(via_set)):
                    if v != via[g] and via_set[v, head] >= 0:
                        set_dependencies(channel, via_set[v, head], sets, graph, channels)


@njit(cache=True)
def _may_continue(origin, here, goal):
    """Return whether packets of an origin may continue from intermediate `here` to `goal`."""
    return origin != NOWHERE and goal >= 0 and goal not in (here, origin)


@njit(cache=True)
def _spread_origins(line, sources, set_offset, set_edge, edge_row, origin):
    """Propagate the origins of the source rows along a line to all rows that packets reach."""
    # A row is stacked when its origin becomes known, and again when it becomes `SEVERAL`.
    stack = np.empty(2 * len(origin), dtype=np.int32)
    depth = len(sources)
    copy_values(stack, sources, depth)
    while depth:
        depth -= 1
        row = stack[depth]
        if line[row] < 0:
            continue
        for k in range(set_offset[line[row]], set_offset[line[row] + 1]):
            other = edge_row[set_edge[k]]
            joined = origin[row]
            if origin[other] != NOWHERE and origin[other] != joined:
                joined = SEVERAL
            if joined != origin[other]:
                origin[other] = joined
                stack[depth] = other
                depth += 1
