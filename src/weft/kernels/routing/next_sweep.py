"""OpenSM's next sweep after cables failed, as far as it changes entries."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routing.distances import UNREACHED, bfs
from weft.kernels.routing.opensm_ranks import port_hops
from weft.kernels.routing.tables import count_lids


@njit(cache=True)
def next_sweep(
    graph, step, most, goals, system, targets, first, known_hops, known_counts, table
):  # fmt: skip
    """Fill the entries of all endpoints as OpenSM's minhop, updn and dnup do, LMC 0.

    A row whose edges have the hops of before has the choice of before, and its entries stay. So a
    sweep that is the first one records all hops and counts of LIDs, and another one treats only the
    rows whose hops differ; their counts are those of before and the changes so far.

    - `graph`: parts of `Graph`; without `step`, an edge that failed leads back to its own row.
    - `step`, `system`, `targets`: as in `ranked_tables`; with an empty `step`, paths are the
      shortest ones, as in `counted_tables`.
    - `most`: largest number of edges of a path.
    - `goals`, int32: the rows with endpoints, in the order in which they are targets.
    - `first`: whether to record.
    - `known_hops`, uint16 [goals, edges], `known_counts`, int32 [goals + 1, edges]: hops of each
      edge, and LIDs behind it before each goal, of the first sweep.
    - `table`, uint8 or uint16 [LIDs, rows]: the present tables, changed in place.
    """
    edge_offset, edge_row = graph.edge_offset, graph.edge_row
    count_rows, count_edges = len(edge_offset) - 1, len(edge_row)
    hops = np.empty(count_rows, dtype=np.uint16)
    least, queue, rows = np.empty((3, count_rows), dtype=np.int32)
    came, waits = np.empty((2, count_rows), dtype=np.uint8)
    edge_hops, edges = np.empty((2, count_edges), dtype=np.int32)
    behind, more = np.zeros((2, count_edges), dtype=np.int64)
    for at in range(len(goals)):
        goal = goals[at]
        if len(step):
            port_hops(graph, step, goal, most, edge_hops, least, came, waits, queue)
        else:
            bfs(edge_offset, edge_row, goal, hops, queue)
            for row in range(count_rows):
                least[row] = hops[row]
            for e in range(count_edges):
                edge_hops[e] = min(hops[edge_row[e]] + 1, UNREACHED)
        count = 0
        for row in range(count_rows):
            differs = first
            for e in range(edge_offset[row], edge_offset[row + 1]):
                if first:
                    known_hops[at, e], known_counts[at, e] = edge_hops[e], behind[e]
                elif edge_hops[e] != known_hops[at, e]:
                    differs = True
                    break
            if differs:
                rows[count] = row
                count += 1
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    behind[e] = known_counts[at, e] + more[e]
        count_lids(
            goal, 0, graph, system, least, edge_hops, most, rows[:count], edges, behind, targets,
            table,
        )  # fmt: skip
        if not first:
            for row in rows[:count]:
                for e in range(edge_offset[row], edge_offset[row + 1]):
                    more[e] = behind[e] - known_counts[at + 1, e]
    if first:
        for e in range(count_edges):
            known_counts[len(goals), e] = behind[e]
