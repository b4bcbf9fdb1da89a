"""Programs of ranks over time: what becomes ready, waits for a processor, starts and ends.

The levels that simulate time share this. Time is float64 ns at one and int64 ps at another; the
functions take what the arrays hold.
"""

import numpy as np

from weft.kernels.flow_events import END, FREE_NOW, START, event, merge_waiting, push_event
from weft.kernels.lean import inner_njit, lean_njit

CALC = 0
SEND = 1
RECV = 2
PUT = 3

# Places of `number`, beside HEAP, that programs use.
READY_HEAD = 1
READY_TAIL = 2
ENDED = 3
ARRIVED = 4

# Places of `setting` that programs use.
EAGER_BYTES = 0
HANDSHAKE = 1
OVERHEAD = 2

#: A message that stays in its host.
LOCAL = -1


@inner_njit()
def freed(program, times, heap, number, op, for_start, now):
    """Tell those that wait for an operation's start or end."""
    release, succ_offset, succ, succ_on_start = program[5], program[7], program[8], program[9]
    pending, ready = times[0], times[1]
    heap_time, heap_item = heap
    for at in range(succ_offset[op], succ_offset[op + 1]):
        on_start = len(succ_on_start) > 0 and succ_on_start[at]
        if on_start != for_start:
            continue
        after = succ[at]
        pending[after] -= 1
        if pending[after] == 0:
            if len(release) and release[after] > now:
                push_event(heap_time, heap_item, number, release[after], event(START, after))
            else:
                ready[number[READY_TAIL]] = after
                number[READY_TAIL] += 1


@inner_njit()
def ends(program, times, heap, number, op, now):
    """An operation ends."""
    times[3][op] = now
    number[ENDED] += 1
    freed(program, times, heap, number, op, False, now)


@inner_njit()
def arrives(program, setting, times, heap, number, op, now, until):
    """The last byte of a message is there; its receive may end.

    `until` is the latest time that is the same as `now`.
    """
    kind, match = program[0], program[4]
    posted, arrived = times[2], times[5]
    arrived[op] = now
    number[ARRIVED] += 1
    if kind[op] != SEND:
        return
    receive = match[op]
    if posted[receive] >= 0:
        received(program, setting, times, heap, number, receive, now, until)


@inner_njit()
def received(program, setting, times, heap, number, op, now, until):
    """A posted receive has its message; taking it in may occupy the processor."""
    overhead = setting[OVERHEAD]
    if overhead > 0:
        busy = times[6]
        if waits(program, times, heap, number, op, until):
            return
        busy[program[1][op], 0] = now + overhead
        push_event(heap[0], heap[1], number, now + overhead, event(END, op))
    else:
        ends(program, times, heap, number, op, now)


@inner_njit()
def waits(program, times, heap, number, op, until):
    """Let an operation wait when its processor is in use or others wait for it."""
    busy, queue, left, right = times[6:10]
    rank = program[1][op]
    lane = program[6][op] if len(program[6]) else 0
    first = queue[rank, lane]
    if first == 0 and busy[rank, lane] <= until:
        return False
    left[op] = 0
    right[op] = 0
    queue[rank, lane] = merge_waiting(first, np.int32(op + 1), left, right)
    if first == 0:
        processor = np.int64(rank) * busy.shape[1] + lane
        push_event(heap[0], heap[1], number, busy[rank, lane], event(FREE_NOW, processor))
    return True


@inner_njit()
def takes(program, setting, op):
    """How long an operation occupies its processor when it starts."""
    what = program[0][op]
    if what == CALC:
        return program[3][op]
    return setting[OVERHEAD] if what in (SEND, PUT) else setting[OVERHEAD] * 0


@lean_njit()
def prepare(program, times, heap, number, dep_offset):
    """Count what each operation waits for, and queue those that wait for nothing."""
    pending, ready = times[0], times[1]
    release = program[5]
    for op in range(len(pending)):
        pending[op] = dep_offset[op + 1] - dep_offset[op]
        if pending[op] == 0:
            if len(release) and release[op] > 0:
                push_event(heap[0], heap[1], number, release[op], event(START, op))
            else:
                ready[number[READY_TAIL]] = op
                number[READY_TAIL] += 1
