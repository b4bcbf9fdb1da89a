"""Source routes: validity, lengths and channel dependencies."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routes.dependencies import lane_of, set_dependency

SOUND = 0
BROKEN = 1


@njit(cache=True)
def first_broken_path(pair, offset, edge, endpoints, graph):
    """Find the first path that does not lead from its source's row to its destination's row.

    `pair`, `offset`, `edge`: attributes of `weft.routing.routes.PathRoutes`. `endpoints`: number of
    host endpoints.

    Returns (-1, `SOUND`), or the index of the path and `BROKEN`.
    """
    endpoint_row, edge_tail, edge_row = graph.destination_row, graph.edge_tail, graph.edge_row
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
    """Count the listed paths by length.

    - `paths`, int64: indices of paths.
    - `offset`: attributes of `weft.routing.routes.PathRoutes`.
    - `start_row`, `end_row`, `extra`, int32, int32 and int64 [len(paths)]: first and last row, and
      the number of links at hosts.
    - `best_hops`, uint16 [rows, rows]: fewest edges between two rows.
    - `histogram`, `detours`, int64, changed in place: ``histogram[h]`` counts the paths of h hops,
      ``detours[x]`` the paths that have x hops more than a minimal path.
    """
    for i in range(len(paths)):
        length = offset[paths[i] + 1] - offset[paths[i]]
        histogram[length + extra[i]] += 1
        detours[length - best_hops[end_row[i], start_row[i]]] += 1


@njit(cache=True)
def path_dependencies(
    start_row, start_port, level, offset, edge, graph, edge_port_in, lanes, channels
):
    """Set the dependencies of the paths.

    - `start_row`, `start_port`, `level`, int32, int32 and uint8 [paths]: first row, port by which
      packets enter this row (0 if they start at the row), service level.
    - `offset`, `edge`: attributes of `weft.routing.routes.PathRoutes`.
    - `edge_port_in`, int32 [edges]: port by which the edge enters the row at its head.
    - `lanes`, `channels`: parts of `Lanes` and `WaitGraph` of `weft.kernels.routes.dependencies`.
    """
    edge_row, edge_port = graph.edge_row, graph.edge_port
    vls, used = channels.vls, channels.used
    for i in range(len(start_row)):
        row = start_row[i]
        port_in = start_port[i]
        before = np.int64(-1)
        for k in range(offset[i], offset[i + 1]):
            e = edge[k]
            channel = np.int64(e) * vls + lane_of(row, port_in, edge_port[e], level[i], lanes)
            used[channel] = 1
            if before >= 0:
                set_dependency(before, channel, graph, channels)
            before = channel
            row = edge_row[e]
            port_in = edge_port_in[e]


@njit(cache=True)
def reversed_paths(table, endpoint_row, graph, offset, edges):
    """Fill the reverse of the paths that tables give from every endpoint to every other.

    The path from s to d is the table's path from d to s (in table[s]), with each cable in the other
    direction. All table paths must arrive.

    - `table`, uint8 or uint16 [endpoints or more, rows]: output ports.
    - `endpoint_row`, int32 [endpoints]: row of each endpoint.
    - `offset`, int64 [endpoints * (endpoints - 1) + 1]: zeros, filled with the start of each path
      in `edges`. Paths are ordered by source, then by destination.
    - `edges`, int32: filled with the edges of all paths; if it is empty, only `offset` is filled.

    Returns the number of edges of all paths.
    """
    row_base, slot_edge = graph.row_base, graph.slot_edge
    edge_row, edge_back = graph.edge_row, graph.edge_back
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
                    # The last cable of the table's path is the first of the reversed one.
                    edges[offset[number + 1] - 1 - count] = edge_back[e]
                count += 1
                row = edge_row[e]
            at += count
            number += 1
            offset[number] = at
    return at
