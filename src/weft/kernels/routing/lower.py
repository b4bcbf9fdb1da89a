"""Distribution of source routes over the LIDs of their destinations; completion of the tables."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import spread_entries


@njit(cache=True)
def colour_paths(
    order, source, destination, offset, edge, level, graph, targets, table, sl, chosen
):
    """Write every path to the first LID of its destination whose entries allow the path.

    - `order`, int64 [paths]: the paths, in the order of their assignment.
    - `source`, `destination`, int64 [paths]: source and destination endpoint of each path.
    - `offset`, `edge`: int32 CSR over paths: edges of each path, as in
      `weft.routing.routes.PathRoutes`.
    - `level`, uint8 [paths]: service level of each path.
    - `targets`: parts of `weft.kernels.routing.tables.TableTargets`.
    - `table`, uint8 or uint16 [lids, rows]: output ports, changed in place.
    - `sl`, uint8 [rows, lids]: service level from each row to each LID, changed in place; 255 where
      unset. The shape is [1, 1] if all paths have the same service level.
    - `chosen`, uint8 [paths]: filled with each path's LID offset.

    Returns (-1, -1) if every path fits a LID; otherwise the first path that fits none, and the
    first row where this path conflicts with LID offset 0.
    """
    endpoint_row, edge_tail, edge_port = graph.destination_row, graph.edge_tail, graph.edge_port
    lmc, no_path = targets.lmc, targets.no_path
    for i in range(len(order)):
        p = order[i]
        d = destination[p]
        start = endpoint_row[source[p]]
        first_row = -1
        fits = False
        for o in range(1 << lmc):
            lid = (d << lmc) + o
            differs = -1
            if len(sl) > 1 and sl[start, lid] != 255 and sl[start, lid] != level[p]:
                differs = start
            for k in range(offset[p], offset[p + 1]):
                if differs >= 0:
                    break
                held = table[lid, edge_tail[edge[k]]]
                if held != no_path and held != edge_port[edge[k]]:
                    differs = edge_tail[edge[k]]
            if differs < 0:
                fits = True
                chosen[p] = o
                for k in range(offset[p], offset[p + 1]):
                    table[lid, edge_tail[edge[k]]] = edge_port[edge[k]]
                table[lid, endpoint_row[d]] = targets.port[d]
                if len(sl) > 1:
                    sl[start, lid] = level[p]
                break
            if o == 0:
                first_row = differs
        if not fits:
            return p, first_row
    return -1, -1


@njit(cache=True)
def extend_rows(destinations, graph, targets, table):
    """For each LID, give rows without an entry the port towards the nearest row that has an entry.

    Of equally near rows, the destination's own row is used, else the first that the search finds.

    `destinations`, int64: destinations whose LIDs are completed. `targets`, `table`: as in
    `colour_paths`.
    """
    endpoint_row, rows = graph.destination_row, table.shape[1]
    lmc, no_path, last_port = targets.lmc, targets.no_path, targets.port
    queue = np.empty(rows, dtype=np.int32)
    for i in range(len(destinations)):
        d = destinations[i]
        for lid in range(d << lmc, (d + 1) << lmc):
            line = table[lid]
            line[endpoint_row[d]] = last_port[d]
            queue[0] = endpoint_row[d]
            count = 1
            for row in range(rows):
                if line[row] != no_path and row != endpoint_row[d]:
                    queue[count] = row
                    count += 1
            spread_entries(line, no_path, queue, count, graph)
