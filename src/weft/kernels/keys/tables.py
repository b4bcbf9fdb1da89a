"""Forwarding tables of routing keys: a LID offset for each flow."""

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True)
def give_offsets(destination, offset, edge, graph, lmc, table, taken, chosen):
    """Give each flow the first LID offset from 1 whose entries allow its path, and set the entries.

    - `destination`, int32 [flows]: number of the destination of each flow.
    - `offset`, `edge`: int64 [flows + 1] and int32: edges of the path of each flow.
    - `table` [destinations << lmc, rows], changed: output ports, as in
      `weft.routing.routes.TableRoutes`.
    - `taken`, bool, same shape as `table`, changed: entries that the path of a flow has set.
    - `chosen`, int32 [flows], written: LID offset of each flow.

    Returns the first flow for which no offset is left, or -1. All such flows get offset -1.
    """
    edge_tail, edge_port = graph.edge_tail, graph.edge_port
    left = -1
    for flow in range(len(destination)):
        chosen[flow] = 0
        if offset[flow] == offset[flow + 1]:
            continue
        for o in range(1, 1 << lmc):
            line = (np.int64(destination[flow]) << lmc) + o
            fits = True
            for at in range(offset[flow], offset[flow + 1]):
                row = edge_tail[edge[at]]
                if taken[line, row] and table[line, row] != edge_port[edge[at]]:
                    fits = False
                    break
            if fits:
                for at in range(offset[flow], offset[flow + 1]):
                    row = edge_tail[edge[at]]
                    table[line, row] = edge_port[edge[at]]
                    taken[line, row] = True
                chosen[flow] = o
                break
        if chosen[flow] == 0:
            chosen[flow] = -1
            left = flow if left < 0 else left
    return left
