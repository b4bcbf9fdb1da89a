"""Dependencies of a workload's operations: cycles, and who waits for whom."""

from __future__ import annotations

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True)
def successors(num_ops, dep_offset, dep, placed):
    """Turn the runs of predecessors into runs of successors.

    Parameters
    ----------
    num_ops
        Number of operations.
    dep_offset, dep
        int64 [ops + 1] and int32: predecessors of each operation.
    placed
        Whether to tell where in `dep` each one comes from.

    Returns
    -------
    tuple
        int32 [ops + 1] offsets, int32 successors, and int32 positions in `dep` of each of them;
        empty where they are not asked for.
    """
    offset = np.zeros(num_ops + 1, dtype=np.int32)
    for at in range(len(dep)):
        offset[dep[at] + 1] += 1
    for op in range(num_ops):
        offset[op + 1] += offset[op]
    after = np.empty(len(dep), dtype=np.int32)
    place = np.empty(len(dep) if placed else 0, dtype=np.int32)
    # The offset of each run counts up to its end, where the next one begins.
    for op in range(num_ops):
        for at in range(dep_offset[op], dep_offset[op + 1]):
            before = dep[at]
            after[offset[before]] = op
            if placed:
                place[offset[before]] = at
            offset[before] += 1
    for op in range(num_ops, 0, -1):
        offset[op] = offset[op - 1]
    offset[0] = 0
    return offset, after, place


@njit(cache=True)
def out_of_order(op_offset, dep_offset, dep):
    """Find dependencies that no program may have, or that call for a closer look.

    Parameters
    ----------
    op_offset
        int64 [ranks + 1]: where the operations of each rank begin.
    dep_offset, dep
        int64 [ops + 1] and int32: predecessors of each operation.

    Returns
    -------
    tuple
        The first operation that waits for one of another rank and its place in `dep`, both -1
        where none does; and whether any waits for itself or a later one.
    """
    later = False
    for rank in range(len(op_offset) - 1):
        begin, end = op_offset[rank], op_offset[rank + 1]
        for op in range(begin, end):
            for at in range(dep_offset[op], dep_offset[op + 1]):
                if dep[at] < begin or dep[at] >= end:
                    return op, at, later
                later |= dep[at] >= op
    return -1, -1, later


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
def edge_runs(number, op, on, start):
    """Runs of predecessors out of a list of edges: sorted, each edge once.

    Parameters
    ----------
    number
        int32 [ops]: number of each operation in the runs.
    op, on, start
        int32, int32, bool [edges]: which operation waits for which, and whether for its start.

    Returns
    -------
    tuple
        int64 [ops + 1] offsets, int32 predecessors and bool, whether for the start; the last is
        empty when none does.
    """
    num_ops = len(number)
    offset = np.zeros(num_ops + 1, dtype=np.int64)
    for edge in range(len(op)):
        offset[number[op[edge]] + 1] += 1
    for each in range(num_ops):
        offset[each + 1] += offset[each]
    # Predecessor and whether for its start in one number; 31 bits and one.
    run = np.empty(len(op), dtype=np.uint32)
    for edge in range(len(op)):
        each = number[op[edge]]
        run[offset[each]] = np.uint32(number[on[edge]]) << np.uint32(1) | np.uint32(start[edge])
        offset[each] += 1
    begin = np.int64(0)
    count = 0
    any_start = False
    for each in range(num_ops):
        end = offset[each]
        if end - begin > 1:
            run[begin:end].sort()
        offset[each] = count
        for at in range(begin, end):
            # Waiting for the end is the stronger of the two, and comes first.
            if count > offset[each] and run[count - 1] >> 1 == run[at] >> 1:
                continue
            run[count] = run[at]
            any_start |= bool(run[at] & 1)
            count += 1
        begin = end
    offset[num_ops] = count
    dep = np.empty(count, dtype=np.int32)
    on_start = np.empty(count if any_start else 0, dtype=np.bool_)
    for at in range(count):
        dep[at] = run[at] >> 1
        if any_start:
            on_start[at] = run[at] & 1
    return offset, dep, on_start
