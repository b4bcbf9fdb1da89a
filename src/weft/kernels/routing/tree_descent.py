"""Check that candidates in a tree lead up and then down."""

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True)
def first_not_down(leaves, set_id, set_offset, set_edge, edge_row, level):
    """Find a row and target whose candidates lead both up and down, or up after down.

    `leaves`, int64: rows at which paths begin and end. `set_id`, `set_offset`, `set_edge`:
    attributes of `weft.routing.routes.CandidateRoutes`. `edge_row`: attributes of
    `weft.fabrics.graph.SwitchGraph`. `level`, int64 [rows]: level in the tree.

    Returns the first row and target that are found; (-1, -1) if there are none.
    """
    rows = len(level)
    # State of a row: 0 not reached, 1 reached by paths up only, 2 by a path that has led down.
    state_of = np.zeros(rows, dtype=np.uint8)
    stack = np.empty(2 * rows, dtype=np.int64)
    for goal in leaves:
        state_of[:] = 0
        depth = 0
        for leaf in leaves:
            if leaf != goal:
                state_of[leaf] = 1
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
                if (level[head] > level[row]) != rises or (rises and state_of[row] == 2):
                    return row, goal
                state = 1 if rises else 2
                if state_of[head] < state:
                    state_of[head] = state
                    stack[depth] = head
                    depth += 1
    return -1, -1
