"""OpenSM's search over ranked switches for updn and dnup, by port and in OpenSM's order."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.tables import count_lids, due

#: Kinds of a step away from the destination; an `EARLY` step must not follow a `LATE` one.
EARLY, LATE, LEVEL = 0, 1, 2
#: In place of a kind: the edge has failed.
GONE = 3

#: Most hops that OpenSM counts; its 255 means a port without a path.
MOST_HOPS = 254


@njit(cache=True)
def port_hops(graph, step, goal, most_hops, hops, least, came, waits, queue):
    """Fill hops[e] with the number of edges of the path to the goal that starts with edge e.

    As in OpenSM, a row propagates the hops of its best port. But which steps may follow depends on
    the step that last put the row into the queue, and that step may belong to another port. Where
    cables connect switches of one rank, paths can therefore lead down and up again.
    """
    edge_offset, edge_row, reverse = graph.edge_offset, graph.edge_row, graph.edge_back
    rows = len(least)
    none = most_hops + 1
    for e in range(len(hops)):
        hops[e] = none
    for row in range(rows):
        least[row] = none
        waits[row] = 0
    least[goal] = 0
    came[goal] = EARLY
    queue[0] = goal
    head, count = 0, 1
    while count > 0:
        row = queue[head]
        head = (head + 1) % rows
        count -= 1
        waits[row] = 0
        for e in range(edge_offset[row], edge_offset[row + 1]):
            if step[e] == GONE or (came[row] == LATE and step[e] == EARLY):
                continue
            back = reverse[e]
            if least[row] + 1 < hops[back]:
                other = edge_row[e]
                hops[back] = least[row] + 1
                least[other] = min(least[other], hops[back])
                if not waits[other]:
                    came[other] = step[e]
                    waits[other] = 1
                    queue[(head + count) % rows] = other
                    count += 1


@njit(cache=True)
def ranked_tables(graph, system, step, row_order, targets, most_hops, table):
    """Fill tables as OpenSM does with the hops of its ranked search.

    Among a row's ports of the fewest hops, the port is chosen as in
    `weft.kernels.routing.tables.counted_tables`.

    - `step`, uint8 [edges]: `EARLY`, `LATE` or `LEVEL`, for a step along the edge away from the
      destination.
    - `system`, `row_order`, `targets`, `table`: as in `counted_tables`.
    - `most_hops`: largest number of edges of a path; longer paths are left out.
    """
    rows = len(graph.edge_offset) - 1
    hops, edges = np.empty((2, len(step)), dtype=np.int32)
    least, queue = np.empty((2, rows), dtype=np.int32)
    every = np.arange(rows).astype(np.int32)
    came, waits = np.empty((2, rows), dtype=np.uint8)
    behind = np.zeros(len(step), dtype=np.int64)
    for turn in range((1 << targets.lmc) + 1):
        for goal in row_order:
            if due(goal, turn, targets):
                port_hops(graph, step, goal, most_hops, hops, least, came, waits, queue)
                count_lids(
                    goal, turn, graph, system, least, hops, most_hops, every, edges, behind,
                    targets, table,
                )  # fmt: skip
