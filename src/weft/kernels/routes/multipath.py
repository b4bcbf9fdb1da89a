"""Counts of the packets on every edge if switches choose among candidates by a hash."""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import GOLDEN, five_tuple_crc32, five_tuple_prefix, splitmix64
from weft.kernels.routes.split import finish_line, line_scratch

IDEAL = 0
#: Hash that numbers the paths: the sum of four codes modulo the number of paths.
NUMBERED = 1
CRC = 2

UDP = 17
ROCE_PORT = 4791
#: 10.0.0.0: endpoint ``e`` has the address 10.0.0.1 + e.
FIRST_ADDRESS = 0x0A000001
#: RoCEv2 senders vary the lower 14 bits of a source port from here (49152) upwards.
FIRST_SOURCE_PORT = 0xC000

#: Largest number of paths; a residue modulo this number, shifted by two bits, fits 64 bits.
MOST_PATHS = 1 << 61

DONE = 0
TOO_MANY_PATHS = 1
STUCK = 2


@njit(cache=True)
def flow_key(key, flow):
    """Return the random state of a flow.

    `key`, uint64: seed. Returns uint64.
    """
    return splitmix64(np.uint64(key) + np.uint64(flow) * GOLDEN)


@njit(cache=True)
def flowlet_hash(state, qp, epoch):
    """Return 64 random bits for one epoch of one QP, distinct for each pair in a flow."""
    return splitmix64(state ^ ((np.uint64(qp) << np.uint64(32)) | np.uint64(epoch)))


@njit(cache=True)
def linear_codes(key, count):
    """Return 31 random bits per endpoint, which stand for the endpoint's name.

    `key`, uint64: seed. `count`: number of endpoints. Returns uint32 [count]: one code per
    endpoint.
    """
    codes = np.empty(count, dtype=np.uint32)
    for endpoint in range(count):
        state = np.uint64(key) ^ (np.uint64(endpoint) * GOLDEN)
        codes[endpoint] = np.uint32(splitmix64(state) >> np.uint64(33))
    return codes


@njit(cache=True)
def residue(limbs, modulus):
    """Return a number, given as 32-bit limbs (lowest first), modulo `modulus` (<= MOST_PATHS)."""
    # The remainder with the appended bits must fit 64 bits.
    width = np.uint64(32) if modulus <= np.uint64(1 << 32) else np.uint64(2)
    mask = (np.uint64(1) << width) - np.uint64(1)
    rest = np.uint64(0)
    for index in range(len(limbs) - 1, -1, -1):
        shift = np.uint64(32)
        while shift > np.uint64(0):
            shift -= width
            piece = (np.uint64(limbs[index]) >> shift) & mask
            rest = ((rest << width) | piece) % modulus
    return rest


class Hashing(NamedTuple):
    """How switches choose paths; see the module."""

    #: `IDEAL`, `NUMBERED` or `CRC`.
    kind: Any
    #: uint32, uint8 [rows]: number to XOR with the CRC, and number of bits by which the result is
    #: rotated right.
    row_mask: Any
    row_rotation: Any
    #: uint32 [endpoints, limbs] twice, [QPs, limbs] and [epochs, limbs]: numbers for `residue`
    #: (NUMBERED only).
    source_code: Any
    destination_code: Any
    qp_code: Any
    epoch_code: Any


@njit(cache=True, nogil=True)
def hashed_counts(
    sets, graph, endpoint_out, group_offset, group_flow, sources, destinations, bin_of, hashing,
    key, counts, unrouted,
):  # fmt: skip
    """Walk every (flow, QP, epoch) once and count the edges on its path.

    - `sets`, `hashing`: parts of `weft.kernels.routes.dependencies.Sets` and of `Hashing`.
    - `endpoint_out`, int32 [destinations]: the link from the endpoint to its row, -1 if the
      endpoint is a row.
    - `group_offset`, `group_flow`: int64 and int32, CSR over rows: the flows to the destinations of
      each row.
    - `sources`, `destinations`, int32 [flows]: endpoints.
    - `bin_of`, int32 [QPs, epochs]: the bin of `counts` to which the path of a QP and epoch adds;
      -1 to leave the path out.
    - `key`, uint64: seed.
    - `counts`, int64 [bins, edges]: number of paths over each edge, changed in place.
    - `unrouted`, bool [flows], changed in place: True for a flow without a path, which is not
      counted.

    Returns (`DONE`, -1) if `counts` is complete. Otherwise `TOO_MANY_PATHS` and a flow whose paths
    cannot be numbered (NUMBERED only), or `STUCK` and a flow whose path leads into a dead end or a
    loop of the candidates.
    """
    edge_row, target_row, link_row = graph.edge_row, graph.destination_row, graph.link_row
    set_id, set_offset, set_edge = sets.id, sets.offset, sets.edge
    kind, qp_code, epoch_code = hashing.kind, hashing.qp_code, hashing.epoch_code
    source_code, destination_code = hashing.source_code, hashing.destination_code
    rows = len(group_offset) - 1
    walk = np.empty(rows + 1, dtype=np.int32)
    num_paths = np.full(rows, -1, dtype=np.int64)
    scratch = line_scratch(rows)
    state, order, _, _ = scratch
    # Residues of the codes of QPs and epochs, modulo the number of paths of the latest flow.
    modulus = np.uint64(0)
    qp_rest = np.zeros(bin_of.shape[0], dtype=np.uint64)
    epoch_rest = np.zeros(bin_of.shape[1], dtype=np.uint64)
    for g in range(rows):
        known = 0
        for i in range(group_offset[g], group_offset[g + 1]):
            f = group_flow[i]
            s, d = sources[f], destinations[f]
            out = endpoint_out[s]
            first = link_row[out] if out >= 0 else target_row[s]
            if first < 0 or (first != g and set_id[g, first] < 0):
                unrouted[f] = True
                continue
            if first == g:
                continue
            from_flow = flow_key(key, f)
            paths = np.uint64(1)
            number = np.uint64(0)
            prefix = np.uint32(0)
            if kind == NUMBERED:
                if state[first] == 0:
                    was = known
                    known, _ = finish_line(
                        first, g, set_id[g], set_offset, set_edge, edge_row, scratch, known
                    )
                    if not _count_paths(
                        order[was:known], g, set_id, set_offset, set_edge, edge_row, num_paths
                    ):
                        return TOO_MANY_PATHS, f
                if num_paths[first] == 0:
                    return STUCK, f
                paths = np.uint64(num_paths[first])
                if paths != modulus:
                    modulus = paths
                    for qp in range(bin_of.shape[0]):
                        qp_rest[qp] = residue(qp_code[qp], paths)
                    for epoch in range(bin_of.shape[1]):
                        epoch_rest[epoch] = residue(epoch_code[epoch], paths)
                number = residue(source_code[s], paths) + residue(destination_code[d], paths)
                number %= paths
            elif kind == CRC:
                prefix = five_tuple_prefix(FIRST_ADDRESS + s, FIRST_ADDRESS + d, UDP)
            for qp in range(bin_of.shape[0]):
                for epoch in range(bin_of.shape[1]):
                    bin_ = bin_of[qp, epoch]
                    if bin_ < 0:
                        continue
                    if kind == NUMBERED:
                        value = _sum_below(number, qp_rest[qp], paths)
                        value = _sum_below(value, epoch_rest[epoch], paths)
                    else:
                        value = flowlet_hash(from_flow, qp, epoch)
                    if kind == CRC:
                        port = np.uint64(FIRST_SOURCE_PORT) | (value >> np.uint64(50))
                        value = np.uint64(five_tuple_crc32(prefix, port, ROCE_PORT))
                    hops = _walk(first, g, sets, graph, hashing, value, num_paths, walk)
                    if hops < 0:
                        return STUCK, f
                    for hop in range(hops):
                        counts[bin_, walk[hop]] += 1
        for i in range(known):
            state[order[i]] = 0
            num_paths[order[i]] = -1
    return DONE, -1


@njit(cache=True)
def _sum_below(one, other, modulus):
    """Return the sum of two numbers below a modulus, modulo this."""
    total = one + other
    return total - modulus if total >= modulus else total


@njit(cache=True, nogil=True)
def _walk(row, g, sets, graph, hashing, value, num_paths, walk):
    """Fill `walk` with a packet's edges to row g; return their number, -1 if g is not reached."""
    set_id, set_offset, set_edge, edge_row = sets.id, sets.offset, sets.edge, graph.edge_row
    hops = 0
    while row != g:
        choice = set_id[g, row]
        if choice < 0 or hops == len(walk):
            return -1
        start = set_offset[choice]
        width = set_offset[choice + 1] - start
        pick = np.int64(0)
        if width > 1:
            if hashing.kind == IDEAL:
                # The upper 32 bits as a fraction of 1, times the number of candidates.
                pick = np.int64(((value >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32))
                value = splitmix64(value)
            elif hashing.kind == NUMBERED:
                through = np.uint64(num_paths[edge_row[set_edge[start]]])
                while value >= through:
                    value -= through
                    pick += 1
                    through = np.uint64(num_paths[edge_row[set_edge[start + pick]]])
            else:
                rotation = np.uint32(hashing.row_rotation[row])
                mixed = np.uint32(value) ^ hashing.row_mask[row]
                mixed = (mixed >> rotation) | (
                    mixed << ((np.uint32(32) - rotation) & np.uint32(31))
                )
                pick = np.int64(np.uint32(mixed) % np.uint32(width))
        edge = set_edge[start + pick]
        walk[hops] = edge
        hops += 1
        row = edge_row[edge]
    return hops


@njit(cache=True)
def _count_paths(order, g, set_id, set_offset, set_edge, edge_row, num_paths):
    """Count the paths to g from each row; return False if a row has more than MOST_PATHS.

    `order` lists each row after the rows that it can send to.
    """
    for i in range(len(order)):
        row = order[i]
        if row == g:
            num_paths[row] = 1
            continue
        choice = set_id[g, row]
        total = np.int64(0)
        for k in range(set_offset[choice], set_offset[choice + 1]):
            total += num_paths[edge_row[set_edge[k]]]
            if total > MOST_PATHS:
                return False
        num_paths[row] = total
    return True
