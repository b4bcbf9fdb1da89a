"""Parting source routes among the LIDs of their destinations, and completing the tables."""

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True)
def colour_paths(
    order, source, destination, offset, edge, level, endpoint_row, edge_tail, edge_port, last_port,
    lmc, no_path, table, sl, chosen,
):  # fmt: skip
    """Write every path into the first LID of its destination that agrees with it everywhere.

    order lists the paths. sl is [rows, lids], 255 where not yet given, or [1, 1] when all have one
    level. Returns (-1, -1), or the path that fits nowhere and the row where it leaves LID offset
    0, the first on its way.
    """
    for i in range(len(order)):
        p = order[i]
        d = destination[p]
        start = endpoint_row[source[p]]
        first_row = -1
        found = False
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
                found = True
                chosen[p] = o
                for k in range(offset[p], offset[p + 1]):
                    table[lid, edge_tail[edge[k]]] = edge_port[edge[k]]
                table[lid, endpoint_row[d]] = last_port[d]
                if len(sl) > 1:
                    sl[start, lid] = level[p]
                break
            if o == 0:
                first_row = differs
        if not found:
            return p, first_row
    return -1, -1


@njit(cache=True)
def join_rows(
    destinations, lmc, endpoint_row, last_port, edge_offset, edge_row, edge_port, edge_back,
    no_path, table,
):  # fmt: skip
    """Lead rows without an entry for a LID to the nearest one that has one.

    edge_back[e] is the edge of the same cable the other way. Among nearest rows the one found
    first serves, the target's own row before all.
    """
    rows = len(edge_offset) - 1
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
            head = 0
            while head < count:
                row = queue[head]
                head += 1
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    other = edge_row[e]
                    if line[other] == no_path:
                        line[other] = edge_port[edge_back[e]]
                        queue[count] = other
                        count += 1
