"""Whether candidates in a tree go up and then down."""

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True)
def first_not_down(leaves, set_id, set_offset, set_edge, edge_row, level):
    """A row and a target where ways between leaves go up again, or up and down; (-1, -1) if none.

    Parameters
    ----------
    leaves
        int64 [leaves]: rows that ways begin and end at.
    set_id, set_offset, set_edge
        See `weft.routes.CandidateRoutes`.
    edge_row
        int32 [edges]: row that each leads to.
    level
        int64 [rows].
    """
    rows = len(level)
    # How a row was met: 0 not at all, 1 by ways that go up, 2 by some that have gone down.
    met = np.zeros(rows, dtype=np.uint8)
    stack = np.empty(2 * rows, dtype=np.int64)
    for goal in leaves:
        met[:] = 0
        depth = 0
        for leaf in leaves:
            if leaf != goal:
                met[leaf] = 1
                stack[depth] = leaf
                depth += 1
        while depth:
            depth -= 1
            row = stack[depth]
            if row == goal or set_id[goal, row] < 0:
                continue
            group = set_id[goal, row]
            rises = level[edge_row[set_edge[set_offset[group]]]] > level[row]
            for at in range(set_offset[group], set_offset[group + 1]):
                head = edge_row[set_edge[at]]
                if (level[head] > level[row]) != rises or (rises and met[row] == 2):
                    return row, goal
                state = 1 if rises else 2
                if met[head] < state:
                    met[head] = state
                    stack[depth] = head
                    depth += 1
    return -1, -1
