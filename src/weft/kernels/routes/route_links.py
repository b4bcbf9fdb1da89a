"""The links of many routes at once, as runs."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import splitmix64
from weft.kernels.routes.intermediates import finish_line
from weft.kernels.routes.split import finish_order
from weft.kernels.routes.walk import DELIVERED, path_links


@njit(cache=True)
def _with_room(values, end, more):
    """The same values with room for more after the first `end`."""
    if end + more <= len(values):
        return values
    larger = np.empty(2 * len(values) + more, dtype=values.dtype)
    larger[:end] = values[:end]
    return larger


@njit(cache=True)
def _append(links, end, more, count):
    """The same links with some more after the first `end`."""
    links = _with_room(links, end, count)
    for k in range(count):
        links[end + k] = more[k]
    return links


@njit(cache=True)
def table_routes(
    table, row_base, row_link, link_row, target_row, target_link, endpoint_out, no_path,
    sources, destinations, lids,
):  # fmt: skip
    """Links from sources to destinations by forwarding tables.

    Returns
    -------
    tuple
        int64 [pairs + 1] offsets and int32 links; a pair without a path has an empty run.
    """
    scratch = np.empty(len(row_base) + 2, dtype=np.int32)
    offset = np.zeros(len(sources) + 1, dtype=np.int64)
    links = np.empty(8 * len(sources) + len(scratch), dtype=np.int32)
    end = 0
    for pair in range(len(sources)):
        if sources[pair] >= 0 and destinations[pair] >= 0:
            count, how = path_links(
                table, row_base, row_link, link_row, target_row, target_link, endpoint_out,
                no_path, sources[pair], destinations[pair],
                lids[pair] if len(lids) else destinations[pair], scratch,
            )  # fmt: skip
            if how == DELIVERED:
                links = _append(links, end, scratch, count)
                end += count
        offset[pair + 1] = end
    return offset, links[:end].copy()


@njit(cache=True)
def worst_links(offset, link, link_value, flows, worst, where, length):
    """Per flow: the largest link_value of its run, the link that has it, and the run's length.

    Run i is of flow flows[i]; a flow whose run is empty keeps what worst, where and length hold.
    """
    for i in range(len(flows)):
        if offset[i] == offset[i + 1]:
            continue
        high = -1.0
        for k in range(offset[i], offset[i + 1]):
            if link_value[link[k]] > high:
                high = link_value[link[k]]
                where[flows[i]] = link[k]
        worst[flows[i]] = high
        length[flows[i]] = offset[i + 1] - offset[i]


@njit(cache=True)
def _draw_way(line, row, set_offset, set_edge, edge_row, edge_link, state, links, count):
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
def drawn_routes(
    set_id, set_offset, set_edge, via, via_set, direct, edge_row, edge_link, target_row,
    target_link, endpoint_out, sources, destinations, states,
):  # fmt: skip
    """Paths of flows that take a random candidate at every row (an ideal hash).

    Returns
    -------
    tuple
        int64 [flows + 1] offsets and int32 links of the paths that go straight, and the same of
        those by a random intermediate. A flow has both where it may go straight as well (`direct`),
        and two empty runs where it is lost.
    """
    sets = (set_offset, set_edge, edge_row, edge_link)
    vias = len(via_set)
    scratch = np.empty(2 * len(set_id) + 4, dtype=np.int32)
    offset = np.zeros(len(sources) + 1, dtype=np.int64)
    about_offset = np.zeros(len(sources) + 1 if vias else 0, dtype=np.int64)
    links = np.empty(8 * len(sources) + len(scratch), dtype=np.int32)
    about = np.empty(len(links) if vias else 0, dtype=np.int32)
    end, about_end = 0, 0
    for f in range(len(sources)):
        a, b = sources[f], destinations[f]
        there = a >= 0 and b >= 0 and target_row[a] >= 0 and target_row[b] >= 0
        if there:
            row, goal, state = target_row[a], target_row[b], states[f]
            ends = 0
            if endpoint_out[a] >= 0:
                scratch[ends] = endpoint_out[a]
                ends += 1
            if target_link[b] >= 0:
                scratch[ends] = target_link[b]
                ends += 1
            apart = vias > 0 and via[row] >= 0 and via[goal] >= 0 and via[row] != via[goal]
            straight = 0
            if direct or not apart:
                at, state, straight = _draw_way(set_id[goal], row, *sets, state, scratch, ends)
                there = at == goal
                links = _append(links, end, scratch, straight)
            if there and apart:
                state = splitmix64(state)
                v = np.int64(state % np.uint64(vias - 2))
                v += v >= min(via[row], via[goal])
                v += v >= max(via[row], via[goal])
                at, state, count = _draw_way(via_set[v], row, *sets, state, scratch, ends)
                there = at >= 0 and via[at] == v
                if there:
                    at, state, count = _draw_way(set_id[goal], at, *sets, state, scratch, count)
                    there = at == goal
                if there:
                    about = _append(about, about_end, scratch, count)
                    about_end += count
            if there:
                end += straight
        offset[f + 1] = end
        if vias:
            about_offset[f + 1] = about_end
    return offset, links[:end].copy(), about_offset, about[:about_end].copy()


@njit(cache=True)
def _drawn(flow, number, seed):
    """A random number of a flow for one of its choices."""
    return splitmix64(np.uint64(flow) ^ splitmix64(np.uint64(number) ^ splitmix64(np.uint64(seed))))


@njit(cache=True)
def hashed_routes(
    set_id, set_offset, set_edge, edge_row, edge_link, target_row, target_link, endpoint_out,
    link_row, via, via_set, straight, sources, destinations, flow, seed,
):  # fmt: skip
    """One path of each flow: at every row the hash of the flow chooses among its candidates.

    The hash also chooses the intermediate, or none with a chance of `straight`. `flow` numbers
    the flows; other arguments are as of `split_routes`.
    """
    rows = len(set_id)
    vias = len(via_set)
    limit = 2 * rows
    scratch = np.empty(limit + 2, dtype=np.int32)
    offset = np.zeros(len(sources) + 1, dtype=np.int64)
    links = np.empty(8 * len(sources) + len(scratch), dtype=np.int32)
    end = 0
    for pair in range(len(sources)):
        offset[pair + 1] = end
        s, d = sources[pair], destinations[pair]
        if s < 0 or d < 0:
            continue
        goal, out = target_row[d], endpoint_out[s]
        row = link_row[out] if out >= 0 else target_row[s]
        if row < 0 or goal < 0:
            continue
        count = 0
        if out >= 0:
            scratch[0] = out
            count = 1
        towards = -1
        apart = vias > 0 and via[row] >= 0 and via[goal] >= 0 and via[row] != via[goal]
        drawn = np.float64(_drawn(flow[pair], rows, seed) >> np.uint64(11)) / 2.0**53
        if apart and drawn >= straight:
            towards = np.int64(_drawn(flow[pair], rows + 1, seed) % np.uint64(vias - 2))
            towards += towards >= min(via[row], via[goal])
            towards += towards >= max(via[row], via[goal])
        while count <= limit:
            if towards >= 0 and via[row] == towards:
                towards = -1
            if towards < 0 and row == goal:
                break
            choice = via_set[towards, row] if towards >= 0 else set_id[goal, row]
            if choice < 0:
                break
            first = set_offset[choice]
            several = np.uint64(set_offset[choice + 1] - first)
            edge = set_edge[first + np.int64(_drawn(flow[pair], row, seed) % several)]
            scratch[count] = edge_link[edge]
            count += 1
            row = edge_row[edge]
        if towards >= 0 or row != goal:
            continue
        if target_link[d] >= 0:
            scratch[count] = target_link[d]
            count += 1
        links = _append(links, end, scratch, count)
        end += count
        offset[pair + 1] = end
    return offset, links[:end].copy()


@njit(cache=True)
def _put(load, touched, count, edge, share):
    """Add a share to an edge; return how many edges have one, which `touched` lists."""
    if load[edge] == 0.0:
        touched[count] = edge
        count += 1
    load[edge] += share
    return count


@njit(cache=True)
def split_routes(
    set_id, set_offset, set_edge, edge_row, edge_link, target_row, target_link, endpoint_out,
    link_row, via, via_set, straight, sources, destinations, most,
):  # fmt: skip
    """Links of flows that part equally over all candidates at every row, each with its share.

    Where flows may go by intermediates (`via_set` is not empty), the share `straight` does not,
    and the rest parts equally over all intermediates but those of source and destination. Then
    every choice must lead to the destination (`weft.routes.intermediates.routed_rows`).

    Returns
    -------
    tuple
        int64 [pairs + 1] offsets, int32 links and float64 shares; no path, an empty run. The
        last is for how many pairs there was room for: all, unless more than `most` links are
        needed.
    """
    rows = len(set_id)
    vias = len(via_set)
    amount = np.zeros(rows, dtype=np.float64)
    ahead = np.zeros(rows, dtype=np.float64)
    state = np.zeros(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    cursor = np.empty(rows, dtype=np.int32)
    turns = np.empty(rows + 1, dtype=np.int32)
    load = np.zeros(len(edge_row), dtype=np.float64)
    touched = np.empty(len(edge_row), dtype=np.int32)
    offset = np.zeros(len(sources) + 1, dtype=np.int64)
    room = 16 * len(sources) + 64
    links = np.empty(room, dtype=np.int32)
    shares = np.empty(room, dtype=np.float64)
    end = 0
    for pair in range(len(sources)):
        offset[pair + 1] = end
        s, d = sources[pair], destinations[pair]
        if s < 0 or d < 0:
            continue
        goal, out = target_row[d], endpoint_out[s]
        first_row = link_row[out] if out >= 0 else target_row[s]
        if first_row < 0 or (vias == 0 and first_row != goal and set_id[goal, first_row] < 0):
            continue
        count = 0
        turning = 0
        round_about = 0.0
        if vias and via[first_row] >= 0 and via[goal] >= 0 and via[first_row] != via[goal]:
            round_about = (1.0 - straight) / (vias - 2)
        if round_about > 0.0:
            for v in range(vias):
                if v == via[first_row] or v == via[goal]:
                    continue
                line = via_set[v]
                done, _ = finish_line(
                    first_row, line, set_offset, set_edge, edge_row, state, order, 0, stack, cursor
                )
                ahead[first_row] = round_about
                for i in range(done - 1, -1, -1):
                    row = order[i]
                    state[row] = 0
                    share = ahead[row]
                    ahead[row] = 0.0
                    if line[row] < 0:
                        if amount[row] == 0.0:
                            turns[turning] = row
                            turning += 1
                        amount[row] += share
                        continue
                    first, stop = set_offset[line[row]], set_offset[line[row] + 1]
                    share /= stop - first
                    for k in range(first, stop):
                        count = _put(load, touched, count, set_edge[k], share)
                        ahead[edge_row[set_edge[k]]] += share
        if round_about == 0.0 or straight > 0.0:
            turns[turning] = first_row
            turning += 1
            amount[first_row] += straight if round_about > 0.0 else 1.0
        done = 0
        for i in range(turning):
            if state[turns[i]] == 0:
                done = finish_order(
                    turns[i], goal, set_id, set_offset, set_edge, edge_row, state, order, done,
                    stack, cursor,
                )  # fmt: skip
        # Rows finish after all that they send to, so the reverse goes from source to target.
        for i in range(done - 1, -1, -1):
            row = order[i]
            state[row] = 0
            share = amount[row]
            amount[row] = 0.0
            if row == goal:
                continue
            choice = set_id[goal, row]
            first, stop = set_offset[choice], set_offset[choice + 1]
            share /= stop - first
            for k in range(first, stop):
                count = _put(load, touched, count, set_edge[k], share)
                amount[edge_row[set_edge[k]]] += share
        if end + count + 2 > most:
            return offset, links[:0].copy(), shares[:0].copy(), pair
        links = _with_room(links, end, count + 2)
        shares = _with_room(shares, end, count + 2)
        if out >= 0:
            links[end], shares[end] = out, 1.0
            end += 1
        for i in range(count):
            links[end], shares[end] = edge_link[touched[i]], load[touched[i]]
            load[touched[i]] = 0.0
            end += 1
        if target_link[d] >= 0:
            links[end], shares[end] = target_link[d], 1.0
            end += 1
        offset[pair + 1] = end
    return offset, links[:end].copy(), shares[:end].copy(), len(sources)
