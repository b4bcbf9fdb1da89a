"""Candidate sets by way of intermediates: how far, what waits for what, and what they load.

A *line* gives for one target, a row or an intermediate, the set of every row, -1 where ways end.
"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import splitmix64
from weft.kernels.routes.dependencies import follow_sets, set_waits
from weft.kernels.routes.effective_bisection import (
    mean_share,
    partners,
    random_matching,
    store_links,
)

#: No packet comes here, or packets from several intermediates do; else the one that they are from.
NOWHERE = -1
SEVERAL = -2


@njit(cache=True)
def finish_line(root, line, set_offset, set_edge, edge_row, state, order, done, stack, cursor):
    """Append the rows that root can send through, each after the ones that it sends to.

    state is 0 for rows not yet met and becomes 2. Returns (how many are in order, a row on a
    circle or -1).
    """
    stack[0] = root
    depth = 1
    state[root] = 1
    circle = -1
    cursor[root] = set_offset[line[root]] if line[root] >= 0 else 0
    while depth:
        row = stack[depth - 1]
        stop = set_offset[line[row] + 1] if line[row] >= 0 else 0
        if cursor[row] < stop:
            other = edge_row[set_edge[cursor[row]]]
            cursor[row] += 1
            if state[other] == 1:
                circle = other
            elif state[other] == 0:
                state[other] = 1
                cursor[other] = set_offset[line[other]] if line[other] >= 0 else 0
                stack[depth] = other
                depth += 1
        else:
            depth -= 1
            state[row] = 2
            order[done] = row
            done += 1
    return done, circle


@njit(cache=True)
def way_lengths(lines, set_offset, set_edge, edge_row, lengths):
    """Fill lengths[n, row] with the links of the longest way by line n from each row.

    Returns the line and a row of a circle, or (-1, -1); lengths mean nothing with a circle.
    """
    rows = lines.shape[1]
    state = np.empty(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    cursor = np.empty(rows, dtype=np.int32)
    for n in range(len(lines)):
        line = lines[n]
        state[:] = 0
        done = 0
        for root in range(rows):
            if state[root] == 0:
                done, circle = finish_line(
                    root, line, set_offset, set_edge, edge_row, state, order, done, stack, cursor
                )
                if circle >= 0:
                    return n, circle
        for i in range(done):
            row = order[i]
            longest = 0
            if line[row] >= 0:
                for k in range(set_offset[line[row]], set_offset[line[row] + 1]):
                    longest = max(longest, 1 + lengths[n, edge_row[set_edge[k]]])
            lengths[n, row] = longest
    return -1, -1


@njit(cache=True)
def arrivals(via, via_set, set_offset, set_edge, edge_row, member_offset, member, share):
    """Fill share[s, a]: of what row s sends to the intermediate of row a, the part that turns on a.

    Split equally at every hop. member[member_offset[v]:member_offset[v + 1]] are the rows of v.
    What is already there needs no way: 0.
    """
    rows = len(via)
    state = np.empty(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    cursor = np.empty(rows, dtype=np.int32)
    for v in range(len(via_set)):
        line = via_set[v]
        first, last = member_offset[v], member_offset[v + 1]
        state[:] = 0
        done = 0
        for root in range(rows):
            if state[root] == 0:
                done, _ = finish_line(
                    root, line, set_offset, set_edge, edge_row, state, order, done, stack, cursor
                )
        for i in range(done):
            row = order[i]
            for m in range(first, last):
                share[row, member[m]] = 1.0 if row == member[m] else 0.0
            if line[row] < 0:
                continue
            begin, end = set_offset[line[row]], set_offset[line[row] + 1]
            for k in range(begin, end):
                other = edge_row[set_edge[k]]
                for m in range(first, last):
                    share[row, member[m]] += share[other, member[m]] / (end - begin)
        for m in range(first, last):
            for n in range(first, last):
                share[member[m], member[n]] = 0.0


@njit(cache=True)
def spread_demand(lines, demand, set_offset, set_edge, edge_row, edge_load):
    """Add to edge_load what rows send to the target of each line, demand[n, row], split equally."""
    rows = lines.shape[1]
    state = np.empty(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    cursor = np.empty(rows, dtype=np.int32)
    amount = np.zeros(rows, dtype=np.float64)
    for n in range(len(lines)):
        line = lines[n]
        state[:] = 0
        done = 0
        for root in range(rows):
            if demand[n, root] > 0.0 and line[root] >= 0 and state[root] == 0:
                done, _ = finish_line(
                    root, line, set_offset, set_edge, edge_row, state, order, done, stack, cursor
                )
        for i in range(done):
            amount[order[i]] = demand[n, order[i]]
        # Rows finish after all that they send to, so the reverse goes from source to target.
        for i in range(done - 1, -1, -1):
            row = order[i]
            if line[row] < 0:
                continue
            first, last = set_offset[line[row]], set_offset[line[row] + 1]
            part = amount[row] / (last - first)
            for k in range(first, last):
                edge_load[set_edge[k]] += part
                amount[edge_row[set_edge[k]]] += part


@njit(cache=True)
def phase_dependencies(
    set_id,
    set_offset,
    set_edge,
    set_lane,
    via,
    via_set,
    direct,
    edge_offset,
    edge_row,
    source_rows,
    lane,
    vls,
    first_bit,
    bits,
    used,
):
    """Set the bits of all paths by intermediates, and of all that go straight.

    A packet goes by an intermediate other than those of its source and its destination, so where
    it may turn to depends on where it comes from. At each row it is enough to know whether packets
    to an intermediate come from `NOWHERE`, from one intermediate alone, or from `SEVERAL`.
    """
    rows = len(via)
    state = np.zeros(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    origin = np.empty(rows, dtype=np.int32)
    turning = np.full(rows, NOWHERE, dtype=np.int32)
    turns = np.full(len(edge_row) * vls, NOWHERE, dtype=np.int32)
    inhabited = np.zeros(len(via_set), dtype=np.bool_)
    for s in range(len(source_rows)):
        if via[source_rows[s]] >= 0:
            inhabited[via[source_rows[s]]] = True
    for v in range(len(via_set)):
        # Packets by v come from one of two others or more, and go to another one of these.
        if inhabited.sum() - np.int64(inhabited[v]) < 2:
            continue
        line = via_set[v]
        state[:] = 0
        origin[:] = NOWHERE
        count = 0
        for s in range(len(source_rows)):
            row = source_rows[s]
            if via[row] >= 0 and via[row] != v:
                origin[row] = via[row]
                state[row] = 1
                order[count] = row
                count += 1
        sources = count
        follow_sets(
            line, -1, order, count, state, set_offset, set_edge, set_lane, edge_offset, edge_row,
            lane, vls, first_bit, bits, used,
        )  # fmt: skip
        _spread_origins(line, order[:sources].copy(), set_offset, set_edge, edge_row, origin)
        for row in range(rows):
            if origin[row] == NOWHERE:
                continue
            if via[row] == v:
                turning[row] = origin[row]
            if line[row] < 0:
                continue
            for k in range(set_offset[line[row]], set_offset[line[row] + 1]):
                if via[edge_row[set_edge[k]]] == v:
                    channel = np.int64(set_edge[k]) * vls + (set_lane[k] if len(set_lane) else lane)
                    turns[channel] = origin[row]
    for t in range(len(source_rows)):
        g = source_rows[t]
        count = 0
        for row in range(rows):
            state[row] = _may_turn(turning[row], via[row], via[g])
        for s in range(len(source_rows)):
            row = source_rows[s]
            if direct or via[row] < 0 or via[g] < 0 or via[row] == via[g]:
                state[row] = 1
        for row in range(rows):
            if state[row]:
                order[count] = row
                count += 1
        follow_sets(
            set_id[g], g, order, count, state, set_offset, set_edge, set_lane, edge_offset,
            edge_row, lane, vls, first_bit, bits, used,
        )  # fmt: skip
    for channel in range(len(turns)):
        if turns[channel] == NOWHERE:
            continue
        row = edge_row[channel // vls]
        for t in range(len(source_rows)):
            g = source_rows[t]
            if set_id[g, row] >= 0 and _may_turn(turns[channel], via[row], via[g]):
                set_waits(
                    channel, set_id[g, row], set_offset, set_edge, set_lane, edge_offset,
                    edge_row, lane, vls, first_bit, bits,
                )  # fmt: skip


@njit(cache=True)
def _may_turn(origin, here, goal):
    """Whether packets of an origin may turn in an intermediate to a destination of another one."""
    return origin != NOWHERE and goal >= 0 and goal not in (here, origin)


@njit(cache=True)
def _spread_origins(line, sources, set_offset, set_edge, edge_row, origin):
    """Carry the origins of the source rows along a line to all rows that packets come to."""
    stack = np.empty(len(origin), dtype=np.int32)
    stacked = np.zeros(len(origin), dtype=np.bool_)
    depth = len(sources)
    stack[:depth] = sources
    stacked[sources] = True
    while depth:
        depth -= 1
        row = stack[depth]
        stacked[row] = False
        if line[row] < 0:
            continue
        for k in range(set_offset[line[row]], set_offset[line[row] + 1]):
            other = edge_row[set_edge[k]]
            joined = origin[row]
            if origin[other] != NOWHERE and origin[other] != joined:
                joined = SEVERAL
            if joined != origin[other]:
                origin[other] = joined
                if not stacked[other]:
                    stacked[other] = True
                    stack[depth] = other
                    depth += 1


@njit(cache=True)
def _walk(line, row, set_offset, set_edge, edge_row, edge_link, state, links, count):
    """Follow random choices to the end of a line; returns (row, random state, links so far).

    The row is -1 when the way is too long for `links`.
    """
    while line[row] >= 0:
        if count >= len(links) - 1:
            return -1, state, count
        first = set_offset[line[row]]
        state = splitmix64(state)
        width = np.uint64(set_offset[line[row] + 1] - first)
        edge = set_edge[first + np.int64(state % width)]
        links[count] = edge_link[edge]
        count += 1
        row = edge_row[edge]
    return row, state, count


@njit(cache=True)
def phase_bisections(
    set_id,
    set_offset,
    set_edge,
    via,
    via_set,
    direct,
    edge_row,
    edge_link,
    target_row,
    target_link,
    endpoint_out,
    endpoints,
    two_way,
    link_cost,
    seed,
    samples,
    means,
    lost,
):
    """As `candidate_bisections`, each flow by way of a random intermediate.

    When flows may go straight, each in turn takes of its two ways the one whose most loaded link
    would carry least, the straight one at equal; when all are there each chooses once more.
    """
    hosts = len(endpoints)
    half = hosts // 2
    order = np.empty(hosts, dtype=np.int64)
    flows = 2 * half if two_way else half
    start = np.empty(flows + 1, dtype=np.int64)
    other_start = np.empty(flows + 1, dtype=np.int64)
    round_about = np.empty(flows, dtype=np.uint8)
    stored = np.empty(1024, dtype=np.int32)
    others = np.empty(1024, dtype=np.int32)
    links = np.empty(2 * len(via) + 4, dtype=np.int32)
    loads = np.zeros(len(link_cost), dtype=np.int32)
    vias = len(via_set)
    for sample in range(samples):
        random_matching(seed, sample, order)
        sequence = splitmix64(splitmix64(np.uint64(seed)) ^ np.uint64(sample))
        start[0] = 0
        other_start[0] = 0
        lost[sample] = 0
        for f in range(flows):
            a, b = partners(order, endpoints, f)
            start[f + 1] = start[f]
            other_start[f + 1] = other_start[f]
            if a < 0 or b < 0 or target_row[a] < 0 or target_row[b] < 0:
                lost[sample] += 1
                continue
            row, goal = target_row[a], target_row[b]
            ends = 0
            if endpoint_out[a] >= 0:
                links[ends] = endpoint_out[a]
                ends += 1
            if target_link[b] >= 0:
                links[ends] = target_link[b]
                ends += 1
            state = splitmix64(sequence ^ np.uint64(f + 1))
            apart = via[row] >= 0 and via[goal] >= 0 and via[row] != via[goal]
            if direct or not apart:
                at, state, count = _walk(
                    set_id[goal], row, set_offset, set_edge, edge_row, edge_link, state, links,
                    ends,
                )  # fmt: skip
                if at != goal:
                    lost[sample] += 1
                    continue
                stored = store_links(links, count, start[f], stored)
                start[f + 1] = start[f] + count
            if apart:
                state = splitmix64(state)
                v = np.int64(state % np.uint64(vias - 2))
                v += v >= min(via[row], via[goal])
                v += v >= max(via[row], via[goal])
                at, state, count = _walk(
                    via_set[v], row, set_offset, set_edge, edge_row, edge_link, state, links, ends
                )
                if at >= 0 and via[at] == v:
                    at, state, count = _walk(
                        set_id[goal], at, set_offset, set_edge, edge_row, edge_link, state, links,
                        count,
                    )  # fmt: skip
                else:
                    at = -1
                if at != goal:
                    lost[sample] += 1
                    start[f + 1] = start[f]
                    continue
                others = store_links(links, count, other_start[f], others)
                other_start[f + 1] = other_start[f] + count
        _choose(start, stored, other_start, others, flows, link_cost, loads, round_about)
        # What each flow takes, one after the other, at the front of the ways that go straight.
        count = start[flows] + other_start[flows]
        taken = np.empty(count, dtype=np.int32)
        count = 0
        for f in range(flows):
            begin = start[f]
            start[f] = count
            if round_about[f]:
                for k in range(other_start[f], other_start[f + 1]):
                    taken[count] = others[k]
                    count += 1
            else:
                for k in range(begin, start[f + 1]):
                    taken[count] = stored[k]
                    count += 1
        start[flows] = count
        means[sample] = mean_share(start, taken, flows, link_cost, loads)


@njit(cache=True)
def _choose(start, stored, other_start, others, flows, link_cost, loads, round_about):
    """Set round_about[f] for flows that take their other way, and the loads that follow."""
    for turn in range(2):
        for f in range(flows):
            if turn:
                if round_about[f]:
                    for k in range(other_start[f], other_start[f + 1]):
                        loads[others[k]] -= 1
                else:
                    for k in range(start[f], start[f + 1]):
                        loads[stored[k]] -= 1
            straight = 0.0
            for k in range(start[f], start[f + 1]):
                straight = max(straight, (loads[stored[k]] + 1) * link_cost[stored[k]])
            about = 0.0
            for k in range(other_start[f], other_start[f + 1]):
                about = max(about, (loads[others[k]] + 1) * link_cost[others[k]])
            none = start[f] == start[f + 1]
            round_about[f] = about > 0.0 and (none or about < straight)
            if round_about[f]:
                for k in range(other_start[f], other_start[f + 1]):
                    loads[others[k]] += 1
            else:
                for k in range(start[f], start[f + 1]):
                    loads[stored[k]] += 1
