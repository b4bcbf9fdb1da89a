"""The links of the paths of many flows, in CSR form."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.copies import copy_values
from weft.kernels.hashing import splitmix64
from weft.kernels.routes.split import finish_line, line_scratch, spread
from weft.kernels.routes.walk import DELIVERED, walk_together

#: Number of flows that are walked at the same time.
TOGETHER = 64


@njit(cache=True)
def _with_room(values, end, more):
    """Return the values, copied if needed, with room for `more` after the first `end`."""
    if end + more <= len(values):
        return values
    larger = np.empty(2 * len(values) + more, dtype=values.dtype)
    copy_values(larger, values, end)
    return larger


@njit(cache=True)
def _append(links, end, more, count):
    """Return the links with the first `count` of `more` after the first `end`."""
    links = _with_room(links, end, count)
    for k in range(count):
        links[end + k] = more[k]
    return links


@njit(cache=True)
def table_routes(table, graph, endpoint_out, no_path, sources, destinations, lids):
    """Return the links of the paths from sources to destinations by forwarding tables.

    `table`, `endpoint_out`, `no_path`: as in `weft.kernels.routes.walk.table_loads`. `sources`,
    `destinations`, int32 [flows]: as in `weft.routing.routes.flows.EndpointFlows`. `lids`, int32
    [flows]: LID of each flow as an index in the table.

    Returns int64 [flows + 1] and int32, CSR; a flow without a path has no links.
    """
    longest = len(graph.row_base) + 2
    offset = np.zeros(len(sources) + 1, dtype=np.int64)
    links = np.empty(8 * len(sources) + longest, dtype=np.int32)
    done = 0
    while done < len(sources):
        links = _with_room(links, offset[done], longest)
        done = _fill_paths(
            table, graph, endpoint_out, no_path, sources, destinations, lids, done, offset, links,
            longest,
        )  # fmt: skip
    return offset, links[: offset[done]]


@njit(cache=True)
def _fill_paths(
    table, graph, endpoint_out, no_path, sources, destinations, lids, first, offset, links, longest
):
    """Fill `offset` and `links` from flow `first` on; return the first flow that may not fit.

    This is a separate function because an array that a loop replaces is slow to read in that loop.
    """
    end = offset[first]
    paths = np.empty((longest, TOGETHER), dtype=np.int32)
    row, count = np.empty((2, TOGETHER), dtype=np.int32)
    for pair in range(first, len(sources)):
        if end + longest > len(links):
            return pair
        k = (pair - first) % TOGETHER
        if k == 0:
            walk_together(
                table, graph, endpoint_out, no_path, sources, destinations, lids, pair, paths, row,
                count,
            )  # fmt: skip
        if row[k] == DELIVERED:
            for i in range(count[k]):
                links[end + i] = paths[i, k]
            end += count[k]
        offset[pair + 1] = end
    return len(sources)


@njit(cache=True)
def worst_links(offset, link, link_value, flows, worst, where, length):
    """Find the largest link value on the path of each flow.

    `offset`, `link`: int64 [paths + 1] and int32, CSR: the links of each path. `link_value`,
    float64 [links]: value of each link. `flows`, int32 [paths]: the flow of each path. `worst`,
    `where`, `length`, float64, int32 and int32 [all flows], changed in place unless the path is
    empty: largest value, the link that has it, and hops of the path.
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
def _draw_path(line, row, set_offset, set_edge, graph, state, links, count):
    """Append a random path over the sets of a line (see `weft.kernels.routes.split`) to `links`.

    Return the last row (-1 if the path is too long for `links`), the new random state and the new
    number of links.
    """
    edge_row, edge_link = graph.edge_row, graph.edge_link
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
    set_id, set_offset, set_edge, via, via_set, direct, graph, endpoint_out, sources, destinations,
    states,
):  # fmt: skip
    """Return the paths of flows if every row chooses a random candidate (an ideal hash).

    `set_id`, `set_offset`, `set_edge`, `via`, `via_set`, `direct`: attributes of
    `weft.routing.routes.CandidateRoutes`. `endpoint_out`: as in
    `weft.kernels.routes.walk.table_loads`. `sources`, `destinations`, `states`, int32, int32 and
    uint64 [flows]: endpoints, and the initial random state.

    Returns int64 [flows + 1] and int32, CSR: the links of direct paths, and the links of paths via
    a random intermediate. A flow has both paths if its packets may be sent either way, and neither
    if it is unrouted.
    """
    target_row, target_link = graph.destination_row, graph.destination_link
    sets = (set_offset, set_edge, graph)
    vias = len(via_set)
    scratch = np.empty(2 * len(set_id) + 4, dtype=np.int32)
    offset = np.zeros(len(sources) + 1, dtype=np.int64)
    about_offset = np.zeros(len(sources) + 1 if vias else 0, dtype=np.int64)
    links = np.empty(8 * len(sources) + len(scratch), dtype=np.int32)
    about = np.empty(len(links) if vias else 0, dtype=np.int32)
    end, about_end = 0, 0
    for f in range(len(sources)):
        a, b = sources[f], destinations[f]
        routed = a >= 0 and b >= 0 and target_row[a] >= 0 and target_row[b] >= 0
        if routed:
            row, goal, state = target_row[a], target_row[b], states[f]
            ends = 0
            if endpoint_out[a] >= 0:
                scratch[ends] = endpoint_out[a]
                ends += 1
            if target_link[b] >= 0:
                scratch[ends] = target_link[b]
                ends += 1
            apart = vias > 0 and via[row] >= 0 and via[goal] >= 0 and via[row] != via[goal]
            direct_links = 0
            if direct or not apart:
                at, state, direct_links = _draw_path(set_id[goal], row, *sets, state, scratch, ends)
                routed = at == goal
                links = _append(links, end, scratch, direct_links)
            if routed and apart:
                state = splitmix64(state)
                v = np.int64(state % np.uint64(vias - 2))
                v += v >= min(via[row], via[goal])
                v += v >= max(via[row], via[goal])
                at, state, count = _draw_path(via_set[v], row, *sets, state, scratch, ends)
                routed = at >= 0 and via[at] == v
                if routed:
                    at, state, count = _draw_path(set_id[goal], at, *sets, state, scratch, count)
                    routed = at == goal
                if routed:
                    about = _append(about, about_end, scratch, count)
                    about_end += count
            if routed:
                end += direct_links
        offset[f + 1] = end
        if vias:
            about_offset[f + 1] = about_end
    return offset, links[:end].copy(), about_offset, about[:about_end].copy()


@njit(cache=True)
def _drawn(flow, number, seed):
    """Return the random number of a flow for one of its choices."""
    return splitmix64(np.uint64(flow) ^ splitmix64(np.uint64(number) ^ splitmix64(np.uint64(seed))))


@njit(cache=True)
def hashed_routes(
    set_id, set_offset, set_edge, graph, endpoint_out, via, via_set, minimal_share, sources,
    destinations, flow, seed,
):  # fmt: skip
    """Return one path of each flow, chosen at every row by the hash of the flow.

    The hash also chooses the intermediate or, with probability `minimal_share`, a direct path. The
    arguments not listed are those of `split_routes`.

    `flow`, int64 [pairs]: number of each flow, which is hashed with the seed.

    Returns int64 [pairs + 1] and int32, CSR; a pair without a path has no links.
    """
    edge_row, edge_link, target_row = graph.edge_row, graph.edge_link, graph.destination_row
    target_link, link_row = graph.destination_link, graph.link_row
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
        if apart and drawn >= minimal_share:
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
def split_routes(
    set_id, set_offset, set_edge, graph, endpoint_out, via, via_set, minimal_share, sources,
    destinations, most,
):  # fmt: skip
    """Return the links of flows that are split equally over the candidates of every row.

    If there are intermediates (`via_set` is not empty), the share `minimal_share` is sent direct,
    and the rest is split equally over all intermediates but those of source and destination. In
    this case every choice must lead to the destination
    (`weft.routing.routes.intermediates.routed_rows`).

    - `set_id`, `set_offset`, `set_edge`, `via`, `via_set`: attributes of
      `weft.routing.routes.CandidateRoutes`.
    - `endpoint_out`: as in `weft.kernels.routes.walk.table_loads`.
    - `minimal_share`: share of a flow, 0 to 1, that is sent direct.
    - `sources`, `destinations`, int32 [pairs]: endpoints, -1 to leave a pair out.
    - `most`: largest number of links to return.

    Returns int64 [pairs + 1], int32 and float64, CSR: the links of each pair, and the share of the
    flow (0 to 1) on each link; a pair without a path has no links. `pairs` is the number of first
    pairs for which `most` links are enough; if it is not the number of all pairs, links and shares
    are empty.
    """
    edge_row, edge_link, target_row = graph.edge_row, graph.edge_link, graph.destination_row
    target_link, link_row = graph.destination_link, graph.link_row
    rows = len(set_id)
    vias = len(via_set)
    amount = np.zeros(rows, dtype=np.float64)
    ahead = np.zeros(rows, dtype=np.float64)
    scratch = line_scratch(rows)
    state, order, _, _ = scratch
    sets = (set_offset, set_edge, edge_row)
    starts = np.empty(rows + 1, dtype=np.int32)
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
        num_starts = 0
        via_share = 0.0
        if vias and via[first_row] >= 0 and via[goal] >= 0 and via[first_row] != via[goal]:
            via_share = (1.0 - minimal_share) / (vias - 2)
        for v in range(vias if via_share > 0.0 else 0):
            if v == via[first_row] or v == via[goal]:
                continue
            line = via_set[v]
            done, _ = finish_line(first_row, -1, line, *sets, scratch, 0)
            ahead[first_row] = via_share
            count = spread(-1, line, *sets, scratch, done, ahead, load, touched, count)
            for i in range(done - 1, -1, -1):
                row = order[i]
                if line[row] < 0:
                    if amount[row] == 0.0:
                        starts[num_starts] = row
                        num_starts += 1
                    amount[row] += ahead[row]
                    ahead[row] = 0.0
        if via_share == 0.0 or minimal_share > 0.0:
            starts[num_starts] = first_row
            num_starts += 1
            amount[first_row] += minimal_share if via_share > 0.0 else 1.0
        done = 0
        for i in range(num_starts):
            if state[starts[i]] == 0:
                done, _ = finish_line(starts[i], goal, set_id[goal], *sets, scratch, done)
        count = spread(goal, set_id[goal], *sets, scratch, done, amount, load, touched, count)
        amount[goal] = 0.0
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
