"""The links of many routes at once, as runs."""

import numpy as np
from numba import njit

from weft.kernels.hashing import splitmix64
from weft.kernels.split import finish_order
from weft.kernels.walk import DELIVERED, path_links


@njit(cache=True)
def _with_room(values, end, more):
    """The same values with room for more after the first `end`."""
    if end + more <= len(values):
        return values
    larger = np.empty(2 * len(values) + more, dtype=values.dtype)
    larger[:end] = values[:end]
    return larger


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
                links = _with_room(links, end, count)
                links[end : end + count] = scratch[:count]
                end += count
        offset[pair + 1] = end
    return offset, links[:end].copy()


@njit(cache=True)
def hashed_routes(
    set_id, set_offset, set_edge, edge_row, edge_link, target_row, target_link, endpoint_out,
    link_row, sources, destinations, flow, seed,
):  # fmt: skip
    """One path of each flow: at every row the hash of the flow chooses among its candidates.

    `flow` numbers the flows; other arguments are as of `split_routes`.
    """
    limit = len(set_id)
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
        count = 0
        if out >= 0:
            scratch[0] = out
            count = 1
        while row >= 0 and row != goal and count <= limit:
            choice = set_id[goal, row]
            if choice < 0:
                break
            first = set_offset[choice]
            several = set_offset[choice + 1] - first
            draw = splitmix64(
                np.uint64(flow[pair]) ^ splitmix64(np.uint64(row) ^ splitmix64(np.uint64(seed)))
            )
            edge = set_edge[first + np.int64(draw % np.uint64(several))]
            scratch[count] = edge_link[edge]
            count += 1
            row = edge_row[edge]
        if row != goal:
            continue
        if target_link[d] >= 0:
            scratch[count] = target_link[d]
            count += 1
        links = _with_room(links, end, count)
        links[end : end + count] = scratch[:count]
        end += count
        offset[pair + 1] = end
    return offset, links[:end].copy()


@njit(cache=True)
def split_routes(
    set_id, set_offset, set_edge, edge_row, edge_link, target_row, target_link, endpoint_out,
    link_row, sources, destinations,
):  # fmt: skip
    """Links of flows that part equally over all candidates at every row, each with its share.

    Returns
    -------
    tuple
        int64 [pairs + 1] offsets, int32 links and float64 shares; no path, an empty run.
    """
    rows = len(set_id)
    amount = np.zeros(rows, dtype=np.float64)
    state = np.zeros(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    cursor = np.empty(rows, dtype=np.int32)
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
        if first_row < 0 or (first_row != goal and set_id[goal, first_row] < 0):
            continue
        done = finish_order(
            first_row, goal, set_id, set_offset, set_edge, edge_row, state, order, 0, stack, cursor
        )
        amount[first_row] = 1.0
        needs = 2
        for i in range(done):
            row = order[i]
            if row != goal:
                needs += set_offset[set_id[goal, row] + 1] - set_offset[set_id[goal, row]]
        links = _with_room(links, end, needs)
        shares = _with_room(shares, end, needs)
        if out >= 0:
            links[end], shares[end] = out, 1.0
            end += 1
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
                links[end], shares[end] = edge_link[set_edge[k]], share
                end += 1
                amount[edge_row[set_edge[k]]] += share
        if target_link[d] >= 0:
            links[end], shares[end] = target_link[d], 1.0
            end += 1
        offset[pair + 1] = end
    return offset, links[:end].copy(), shares[:end].copy()
