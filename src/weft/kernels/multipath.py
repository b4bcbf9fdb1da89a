"""Packets that each switch sends on by a hash: how often every edge is chosen."""

import numpy as np
from numba import njit

from weft.kernels.hashing import GOLDEN, five_tuple_crc32, five_tuple_prefix, splitmix64
from weft.kernels.split import finish_order

IDEAL = 0
LINEAR = 1
CRC = 2

UDP = 17
ROCE_PORT = 4791
#: 10.0.0.0: endpoint ``e`` has the address 10.0.0.1 + e.
FIRST_ADDRESS = 0x0A000001
#: RoCEv2 senders vary the lower 14 bits of a source port from here (49152) upwards.
FIRST_SOURCE_PORT = 0xC000

#: Factors of source, destination, QP and epoch in the linear form.
LINEAR_FACTORS = (1315423911, 2654435761, 97531, 19260817)
#: Sums of two path counts up to this one fit 64 bits.
MOST_PATHS = 1 << 61

DONE = 0
TOO_MANY_PATHS = 1
STUCK = 2


@njit(cache=True)
def flow_key(key, flow):
    """State from which all choices of a flow come."""
    return splitmix64(np.uint64(key) + np.uint64(flow) * GOLDEN)


@njit(cache=True)
def flowlet_hash(state, qp, epoch):
    """64 random bits of one epoch of one QP; no two of a flow are mixed from the same state."""
    return splitmix64(state ^ ((np.uint64(qp) << np.uint64(32)) | np.uint64(epoch)))


@njit(cache=True)
def linear_code(key, endpoint):
    """31 bits that stand for an endpoint's name in the linear form."""
    return splitmix64(np.uint64(key) ^ (np.uint64(endpoint) * GOLDEN)) >> np.uint64(33)


@njit(cache=True, nogil=True)
def hashed_counts(
    set_id,
    set_offset,
    set_edge,
    edge_row,
    target_row,
    endpoint_out,
    link_row,
    group_offset,
    group_flow,
    sources,
    destinations,
    bin_of,
    hashing,
    key,
    row_mask,
    row_turn,
    counts,
    lost,
):
    """Walk every (flow, QP, epoch) once and count in counts[bin, edge] the edges that it takes.

    bin_of[qp, epoch] says where a walk counts, -1 to leave it out. Flows come grouped by the row
    that their destination hangs from: group_flow[group_offset[g]:group_offset[g + 1]]. A flow
    without a path is set in `lost` and counts nowhere. Returns (DONE, -1), or with the flow in
    question TOO_MANY_PATHS to number them (LINEAR only), or STUCK when candidates lead into a
    dead end or a loop; `counts` is then of no use.
    """
    rows = len(group_offset) - 1
    walk = np.empty(rows + 1, dtype=np.int32)
    ways = np.full(rows, -1, dtype=np.int64)
    state = np.zeros(rows, dtype=np.uint8)
    order = np.empty(rows, dtype=np.int32)
    stack = np.empty(rows, dtype=np.int32)
    cursor = np.empty(rows, dtype=np.int32)
    for g in range(rows):
        known = 0
        for i in range(group_offset[g], group_offset[g + 1]):
            f = group_flow[i]
            s, d = sources[f], destinations[f]
            out = endpoint_out[s]
            first = link_row[out] if out >= 0 else target_row[s]
            if first < 0 or (first != g and set_id[g, first] < 0):
                lost[f] = True
                continue
            if first == g:
                continue
            from_flow = flow_key(key, f)
            paths = np.uint64(1)
            linear = np.uint64(0)
            prefix = np.uint32(0)
            if hashing == LINEAR:
                if state[first] == 0:
                    was = known
                    known = finish_order(
                        first,
                        g,
                        set_id,
                        set_offset,
                        set_edge,
                        edge_row,
                        state,
                        order,
                        known,
                        stack,
                        cursor,
                    )
                    if not _count_paths(
                        order[was:known], g, set_id, set_offset, set_edge, edge_row, ways
                    ):
                        return TOO_MANY_PATHS, f
                if ways[first] == 0:
                    return STUCK, f
                paths = np.uint64(ways[first])
                linear = linear_code(key, s) * np.uint64(LINEAR_FACTORS[0])
                linear += linear_code(key, d) * np.uint64(LINEAR_FACTORS[1])
            elif hashing == CRC:
                prefix = five_tuple_prefix(FIRST_ADDRESS + s, FIRST_ADDRESS + d, UDP)
            for qp in range(bin_of.shape[0]):
                for epoch in range(bin_of.shape[1]):
                    place = bin_of[qp, epoch]
                    if place < 0:
                        continue
                    if hashing == LINEAR:
                        value = linear + np.uint64(qp) * np.uint64(LINEAR_FACTORS[2])
                        value += np.uint64(epoch) * np.uint64(LINEAR_FACTORS[3])
                        value %= paths
                    else:
                        value = flowlet_hash(from_flow, qp, epoch)
                        if hashing == CRC:
                            port = np.uint64(FIRST_SOURCE_PORT) | (value >> np.uint64(50))
                            value = np.uint64(five_tuple_crc32(prefix, port, ROCE_PORT))
                    hops = _walk(
                        first,
                        g,
                        set_id,
                        set_offset,
                        set_edge,
                        edge_row,
                        hashing,
                        value,
                        row_mask,
                        row_turn,
                        ways,
                        walk,
                    )
                    if hops < 0:
                        return STUCK, f
                    for hop in range(hops):
                        counts[place, walk[hop]] += 1
        for i in range(known):
            state[order[i]] = 0
            ways[order[i]] = -1
    return DONE, -1


@njit(cache=True)
def _walk(
    row,
    g,
    set_id,
    set_offset,
    set_edge,
    edge_row,
    hashing,
    value,
    row_mask,
    row_turn,
    ways,
    walk,
):
    """Write the edges that a packet takes to row g; return how many, -1 when it does not arrive."""
    hops = 0
    while row != g:
        choice = set_id[g, row]
        if choice < 0 or hops == len(walk):
            return -1
        start = set_offset[choice]
        width = set_offset[choice + 1] - start
        pick = np.int64(0)
        if width > 1:
            if hashing == IDEAL:
                # The upper 32 bits as a fraction of 1, times the number of candidates.
                pick = np.int64(((value >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32))
                value = splitmix64(value)
            elif hashing == LINEAR:
                through = np.uint64(ways[edge_row[set_edge[start]]])
                while value >= through:
                    value -= through
                    pick += 1
                    through = np.uint64(ways[edge_row[set_edge[start + pick]]])
            else:
                turn = np.uint32(row_turn[row])
                mine = np.uint32(value) ^ row_mask[row]
                mine = (mine >> turn) | (mine << ((np.uint32(32) - turn) & np.uint32(31)))
                pick = np.int64(np.uint32(mine) % np.uint32(width))
        edge = set_edge[start + pick]
        walk[hops] = edge
        hops += 1
        row = edge_row[edge]
    return hops


@njit(cache=True)
def _count_paths(order, g, set_id, set_offset, set_edge, edge_row, ways):
    """Number of paths to g from each row; `order` has a row after all that it can send to."""
    for i in range(len(order)):
        row = order[i]
        if row == g:
            ways[row] = 1
            continue
        choice = set_id[g, row]
        total = np.int64(0)
        for k in range(set_offset[choice], set_offset[choice + 1]):
            total += ways[edge_row[set_edge[k]]]
            if total > MOST_PATHS:
                return False
        ways[row] = total
    return True
