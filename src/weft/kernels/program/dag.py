"""Dependencies of a workload's operations: predecessors, successors and cycles."""

from __future__ import annotations

import numpy as np

from weft.kernels.cache import njit


@njit(cache=True)
def successors(num_ops, dep_offset, dep, placed):
    """Return the successors of each operation.

    `dep_offset`, `dep`: int64 [ops + 1] and int32: predecessors of each operation. `placed`:
    whether to return the index in `dep` of each dependency.

    Returns int32 [ops + 1]: offsets; int32: successors; and int32: index in `dep` of each
    successor's dependency, empty unless `placed` is set.
    """
    offset = np.zeros(num_ops + 1, dtype=np.int32)
    for at in range(len(dep)):
        offset[dep[at] + 1] += 1
    for op in range(num_ops):
        offset[op + 1] += offset[op]
    after = np.empty(len(dep), dtype=np.int32)
    position = np.empty(len(dep) if placed else 0, dtype=np.int32)
    # Filling advances each offset to the end of its run, where the next run begins. The offsets are
    # shifted back below.
    for op in range(num_ops):
        for at in range(dep_offset[op], dep_offset[op + 1]):
            before = dep[at]
            after[offset[before]] = op
            if placed:
                position[offset[before]] = at
            offset[before] += 1
    for op in range(num_ops, 0, -1):
        offset[op] = offset[op - 1]
    offset[0] = 0
    return offset, after, position


@njit(cache=True)
def out_of_order(op_offset, dep_offset, dep):
    """Find dependencies across ranks, which are not allowed, and dependencies on later operations.

    `op_offset`, int64 [ranks + 1]: first operation of each rank. `dep_offset`, `dep`: int64 [ops +
    1] and int32: predecessors of each operation.

    Returns the first operation that depends on an operation of another rank and the index of this
    dependency in `dep`, both -1 if there is none; and whether any operation up to that one depends
    on itself or on a later operation.
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
    """Mark the operations that can be executed in an order that respects all dependencies.

    `dep_offset`, `dep`: int64 [ops + 1] and int32: predecessors of each operation. `succ_offset`,
    `succ`: int32 [ops + 1] and int32: successors, as returned by `successors`.

    Returns bool [ops]: False for operations in a cycle or after a cycle.
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
    """Sort the indices of keys by key, stably (counting sort).

    `keys`: integers [count] from 0 to num_keys - 1.

    Returns int64 [num_keys + 1] offset of the run of each key, and int32 [count] sorted indices.
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
    """Return the sorted predecessors of each operation, without repetition, from a list of pairs.

    `number`, int32 [ops]: number of each operation in the result. `op`, `on`, `start`, int32,
    int32, bool [pairs]: operation, its predecessor, and whether the operation waits for the
    predecessor's start instead of the predecessor's end.

    Returns int64 [ops + 1]: offsets; int32: predecessors; and bool: True if the operation waits for
    the predecessor's start. The bool array is empty if it would contain only False.
    """
    num_ops = len(number)
    offset = np.zeros(num_ops + 1, dtype=np.int64)
    for edge in range(len(op)):
        offset[number[op[edge]] + 1] += 1
    for each in range(num_ops):
        offset[each + 1] += offset[each]
    # One number holds the predecessor (31 bits) and whether the wait is for its start (1 bit).
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
            # A wait for the end implies a wait for the start, and is sorted before it.
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


@njit(cache=True)
def depths(dep_offset, dep):
    """Return how many operations precede each operation on its longest chain, int32 [ops].

    `dep_offset`, `dep`: int64 [ops + 1] and int32: predecessors of each operation. A dependency on
    a later operation counts as one on an operation without predecessors.
    """
    depth = np.zeros(len(dep_offset) - 1, dtype=np.int32)
    for op in range(len(depth)):
        for at in range(dep_offset[op], dep_offset[op + 1]):
            depth[op] = max(depth[op], depth[dep[at]] + 1)
    return depth
