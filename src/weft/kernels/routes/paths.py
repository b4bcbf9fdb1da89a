"""Source routes: whether they hold, and what they wait for."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routes.dependencies import lane_of, set_dependency

SOUND = 0
BROKEN = 1


@njit(cache=True)
def first_broken_path(pair, offset, edge, endpoints, endpoint_row, edge_tail, edge_row):
    """Find the first path that does not lead from its source's row to its destination's.

    Returns (path, `SOUND` or `BROKEN`).
    """
    if offset[0] != 0 or offset[len(pair)] != len(edge):
        return 0, BROKEN
    for i in range(len(pair)):
        row = endpoint_row[pair[i] // endpoints]
        if row < 0 or offset[i + 1] < offset[i]:
            return i, BROKEN
        for k in range(offset[i], offset[i + 1]):
            e = edge[k]
            if e < 0 or e >= len(edge_row) or edge_tail[e] != row:
                return i, BROKEN
            row = edge_row[e]
        if row != endpoint_row[pair[i] % endpoints]:
            return i, BROKEN
    return -1, SOUND


@njit(cache=True)
def count_lengths(paths, offset, start_row, end_row, extra, best_hops, histogram, detours):
    """Sum up the lengths of the listed paths.

    start_row, end_row and extra (links besides those between rows) go with `paths`.
    histogram[h] counts paths of h links, detours[x] those that take x links more than need be.
    """
    for i in range(len(paths)):
        length = offset[paths[i] + 1] - offset[paths[i]]
        histogram[length + extra[i]] += 1
        detours[length - best_hops[end_row[i], start_row[i]]] += 1


@njit(cache=True)
def path_dependencies(
    start_row, start_port, level, offset, edge, edge_offset, edge_row, edge_port, edge_port_in,
    vl_tables, vl_index, vl_base, vl_ports, vls, first_bit, bits, used,
):  # fmt: skip
    """Set the bit of every dependency of the paths.

    start_row, start_port (the port by which it comes to that row, 0 when it starts there) and
    level (the SL) are those of each path.
    """
    for i in range(len(start_row)):
        row = start_row[i]
        port_in = start_port[i]
        before = np.int64(-1)
        for k in range(offset[i], offset[i + 1]):
            e = edge[k]
            lane = lane_of(
                row, port_in, edge_port[e], level[i], vl_tables, vl_index, vl_base, vl_ports
            )
            channel = np.int64(e) * vls + lane
            used[channel] = 1
            if before >= 0:
                set_dependency(before, channel, edge_offset, edge_row, vls, first_bit, bits)
            before = channel
            row = edge_row[e]
            port_in = edge_port_in[e]


@njit(cache=True)
def reversed_ways(
    table, endpoint_row, row_base, slot_edge, edge_row, edge_link, edge_of_link, offset, edges
):
    """The ways that tables give from every endpoint to every other, turned round.

    Path s * (endpoints - 1) + d, less one when d comes after s, is the way from endpoint d to
    endpoint s, walked by line s of the table, each cable the other way. offset has one more than
    there are paths; with `edges` empty only it is filled. All ways must arrive. Returns the edges
    of all.
    """
    at = np.int64(0)
    number = 0
    for s in range(len(endpoint_row)):
        line = table[s]
        for d in range(len(endpoint_row)):
            if s == d:
                continue
            row = endpoint_row[d]
            count = 0
            while row != endpoint_row[s]:
                e = slot_edge[row_base[row] + line[row]]
                if len(edges):
                    # The last cable of this way is the first of the path.
                    edges[offset[number + 1] - 1 - count] = edge_of_link[edge_link[e] ^ 1]
                count += 1
                row = edge_row[e]
            at += count
            number += 1
            offset[number] = at
    return at
