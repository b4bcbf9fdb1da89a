"""Dependencies of a workload's operations: cycles, and who waits for whom."""

from __future__ import annotations

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True)
def successors(num_ops, dep_offset, dep):
    """Turn the runs of predecessors into runs of successors.

    Parameters
    ----------
    num_ops
        Number of operations.
    dep_offset, dep
        int64 [ops + 1] and int32: predecessors of each operation.

    Returns
    -------
    tuple
        int64 [ops + 1] offsets, int32 successors, and int32 positions in `dep` of each of them.
    """
    offset = np.zeros(num_ops + 1, dtype=np.int64)
    for at in range(len(dep)):
        offset[dep[at] + 1] += 1
    for op in range(num_ops):
        offset[op + 1] += offset[op]
    fill = offset[:-1].copy()
    after = np.empty(len(dep), dtype=np.int32)
    place = np.empty(len(dep), dtype=np.int32)
    for op in range(num_ops):
        for at in range(dep_offset[op], dep_offset[op + 1]):
            before = dep[at]
            after[fill[before]] = op
            place[fill[before]] = at
            fill[before] += 1
    return offset, after, place


@njit(cache=True)
def in_order(num_ops, dep_offset, dep, succ_offset, succ):
    """Mark the operations that can be put in an order in which each follows all that it needs.

    Returns
    -------
    bool [ops]: false where an operation stands in a cycle or behind one.
    """
    pending = np.empty(num_ops, dtype=np.int64)
    done = np.zeros(num_ops, dtype=np.bool_)
    stack = np.empty(num_ops, dtype=np.int64)
    top = 0
    for op in range(num_ops):
        pending[op] = dep_offset[op + 1] - dep_offset[op]
        if pending[op] == 0:
            stack[top] = op
            top += 1
    while top:
        top -= 1
        op = stack[top]
        done[op] = True
        for at in range(succ_offset[op], succ_offset[op + 1]):
            after = succ[at]
            pending[after] -= 1
            if pending[after] == 0:
                stack[top] = after
                top += 1
    return done


@njit(cache=True)
def by_key(keys, num_keys):
    """Put numbers in the order of their keys, equal ones as they come.

    Parameters
    ----------
    keys
        Integers from 0 to num_keys - 1.

    Returns
    -------
    tuple
        int64 [num_keys + 1], where the run of each key begins, and int32 [keys], the order.
    """
    offset = np.zeros(num_keys + 1, dtype=np.int64)
    for key in keys:
        offset[key + 1] += 1
    for key in range(num_keys):
        offset[key + 1] += offset[key]
    fill = offset[:-1].copy()
    order = np.empty(len(keys), dtype=np.int32)
    for at in range(len(keys)):
        key = keys[at]
        order[fill[key]] = at
        fill[key] += 1
    return offset, order


@njit(cache=True)
def edge_runs(num_ops, op, on, start):
    """Runs of predecessors out of a list of edges: sorted, each edge once.

    Parameters
    ----------
    num_ops
        Number of operations.
    op, on, start
        int32, int32, bool [edges]: which operation waits for which, and whether for its start.

    Returns
    -------
    tuple
        int64 [ops + 1] offsets, int32 predecessors and bool, whether for the start.
    """
    _, by_on = by_key(on, num_ops)
    first, by_op = by_key(op[by_on], num_ops)
    offset = np.zeros(num_ops + 1, dtype=np.int64)
    dep = np.empty(len(op), dtype=np.int32)
    on_start = np.empty(len(op), dtype=np.bool_)
    count = 0
    for each in range(num_ops):
        begin = count
        for at in range(first[each], first[each + 1]):
            edge = by_on[by_op[at]]
            # Waiting for the end is the stronger of the two.
            if count > begin and dep[count - 1] == on[edge]:
                on_start[count - 1] &= start[edge]
                continue
            dep[count] = on[edge]
            on_start[count] = start[edge]
            count += 1
        offset[each + 1] = count
    return offset, dep[:count].copy(), on_start[:count].copy()
