"""Paths while a subnet manager replaces forwarding tables, switch by switch.

All kernels share these arguments:

lids
    int32: LIDs of adapter ports, as indices in the tables.
lmc
    LID mask control of the tables.
start_row
    int32: rows at which packets enter.
"""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.routes.dependencies import set_dependency

#: Results of `next_edge` that are no edges: the packet is lost, or reaches the adapter port.
LOST = -1
DELIVERED = -2


@njit(cache=True, inline="always")
def next_edge(port, row, goal_link, graph):
    """Return the edge by which a packet leaves a row, `LOST` or `DELIVERED`."""
    row_base, row_link, slot_edge = graph.row_base, graph.row_link, graph.slot_edge
    slot = row_base[row] + np.int64(port)
    if slot >= row_base[row + 1]:
        return LOST
    if row_link[slot] == goal_link:
        return DELIVERED
    return np.int64(slot_edge[slot])


@njit(cache=True)
def mixed_dependencies(before, after, lids, lmc, graph, start_row, channels):
    """Set the dependencies of all paths on which each row has its entry of either table.

    `before`, `after`, uint8 or uint16 [all lids, rows]: output ports; other ports than those of a
    row, and ports without a cable, are no path. `channels`: parts of
    `weft.kernels.routes.dependencies.WaitGraph`, with one lane. If `used` is empty, no dependencies
    are set.

    Returns the number of entries of rows on these paths that lose packets.
    """
    row_base, edge_row, destination_link = graph.row_base, graph.edge_row, graph.destination_link
    rows, used = len(row_base) - 1, channels.used
    reached = np.full(rows, -1, dtype=np.int64)
    queue = np.empty(rows, dtype=np.int64)
    choice = np.empty((rows, 2), dtype=np.int64)
    lost = 0
    for i in range(len(lids)):
        lid = lids[i]
        goal = destination_link[lid >> lmc]
        for row in range(rows):
            choice[row, 0] = next_edge(before[lid, row], row, goal, graph)
            choice[row, 1] = next_edge(after[lid, row], row, goal, graph)
        count = 0
        for s in range(len(start_row)):
            reached[start_row[s]] = i
            queue[count] = start_row[s]
            count += 1
        at = 0
        while at < count:
            row = queue[at]
            at += 1
            for k in range(2):
                edge = choice[row, k]
                if edge < 0:
                    lost += edge == LOST
                    continue
                head = np.int64(edge_row[edge])
                if reached[head] != i:
                    reached[head] = i
                    queue[count] = head
                    count += 1
                if len(used) == 0:
                    continue
                used[edge] = 1
                for m in range(2):
                    following = choice[head, m]
                    if following >= 0:
                        set_dependency(edge, following, graph, channels)
    return lost


@njit(cache=True)
def mark_used(table, lids, lmc, graph, start_row, used):
    """Set used[lid, row], uint8 [all lids, rows], to 1 for each entry on a path to a listed LID."""
    edge_row, destination_link = graph.edge_row, graph.destination_link
    for i in range(len(lids)):
        lid = lids[i]
        goal = destination_link[lid >> lmc]
        for s in range(len(start_row)):
            row = np.int64(start_row[s])
            while used[lid, row] == 0:
                used[lid, row] = 1
                edge = next_edge(table[lid, row], row, goal, graph)
                if edge < 0:
                    break
                row = np.int64(edge_row[edge])
