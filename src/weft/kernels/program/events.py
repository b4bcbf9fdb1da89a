"""Heap of the events of programs of ranks, and heaps of operations that wait for a processor."""

from weft.kernels.heaps import sift_down, sift_up
from weft.kernels.lean import lean_njit

# Kinds of events, in the order in which events of the same time are handled: a processor is free,
# an operation has reached its release, an operation ends, an operation begins to send, a message
# arrives. An item of the heap is kind | operation; for FREE_NOW, the number of the processor
# replaces the operation.
OPERATION = (1 << 40) - 1
FREE_NOW = 0
START = 1 << 40
END = 2 << 40
BEGIN = 3 << 40
ARRIVE = 4 << 40

#: Times in ns count as equal if they differ by at most SAME_TIME times the time. This tolerance is
#: at least SAME_NS and at most SAME_MOST_NS, but never below the rounding error, ROUNDING times the
#: time.
SAME_TIME = 1e-12
SAME_NS = 1e-9
SAME_MOST_NS = 1.0
ROUNDING = 4e-15


@lean_njit()
def same_until(now):
    """Return the latest time that counts as equal to `now`, ns."""
    return now + max(min(now * SAME_TIME, SAME_MOST_NS), SAME_NS, now * ROUNDING)


@lean_njit()
def push_event(heap, time, item):
    """Push an event on a `weft.kernels.program.state.Heap`."""
    heap.size.events += 1
    sift_up(heap.time, heap.item, heap.size.events - 1, time, item)


@lean_njit()
def pop_event(heap):
    """Pop the first event of a heap that is not empty."""
    item = heap.item[0]
    heap.size.events -= 1
    sift_down(heap.time, heap.item, heap.size.events)
    return item


@lean_njit()
def merge_waiting(one, other, left, right):
    """Merge two skew heaps of operations, with the first in program order on top; return the top.

    Operations are counted from 1 here; 0 is an empty heap. `left` and `right` are int32 [ops].
    """
    if one == 0 or other == 0:
        return one + other
    if other < one:
        one, other = other, one
    top = one
    # Walk down the right spine and exchange the children of each operation.
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
