"""Events of programs of ranks, in the order of their times, and operations that wait."""

import numpy as np

from weft.kernels.heaps import sift_down, sift_up
from weft.kernels.lean import lean_njit

# Kinds of events. What waited for a processor comes before all else of the same moment.
FREE_NOW = 0
START = 1
END = 2
BEGIN = 3
ARRIVE = 4
#: An item of the heap is kind << KIND_SHIFT | operation, or processor where one is free.
KIND_SHIFT = 40
OPERATION = (1 << KIND_SHIFT) - 1

#: What lies closer together happens at once: this part of the time, but at least and at most so
#: many ns; and never less than what rounding makes of late times.
SAME_TIME = 1e-12
SAME_NS = 1e-9
SAME_MOST_NS = 1.0
ROUNDING = 4e-15


@lean_njit()
def same_until(now):
    """The latest time that is the same as now."""
    return now + max(min(now * SAME_TIME, SAME_MOST_NS), SAME_NS, now * ROUNDING)


@lean_njit()
def event(kind, op):
    """An event as one number, by which those of one moment are ordered."""
    return np.int64(kind) << KIND_SHIFT | np.int64(op)


@lean_njit()
def push_event(heap, time, item):
    """Put an event into a `weft.kernels.program.state.Heap`."""
    heap.size.events += 1
    sift_up(heap.time, heap.item, heap.size.events - 1, time, item)


@lean_njit()
def pop_event(heap):
    """Take the first event out of a heap that has one."""
    item = heap.item[0]
    heap.size.events -= 1
    last = heap.size.events
    sift_down(heap.time, heap.item, last, heap.time[last], heap.item[last])
    return item


@lean_njit()
def merge_waiting(one, other, left, right):
    """Merge two skew heaps of operations, the first in program order on top; 0 is none.

    Operations are counted from 1 here.
    """
    if one == 0 or other == 0:
        return one + other
    if other < one:
        one, other = other, one
    top = one
    # Down the right side, where each child that stays becomes a left one.
    while True:
        below = right[one - 1]
        right[one - 1] = left[one - 1]
        if below == 0:
            left[one - 1] = other
            return top
        if other < below:
            below, other = other, below
        left[one - 1] = below
        one = below
