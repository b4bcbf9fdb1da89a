"""The event loop of the flow level: operations become ready, messages share links, time passes.

What waits for a time is in a heap; messages on their way are flows in slots, whose rates a sharing
law gives. All that happens at one moment is settled before rates are shared anew.
"""

import numpy as np

from weft.kernels.flow_events import (
    ARRIVE,
    BEGIN,
    END,
    FREE_NOW,
    HEAP,
    KIND_SHIFT,
    OPERATION,
    START,
    event,
    merge_waiting,
    pop_event,
    push_event,
    same_until,
)
from weft.kernels.lean import inner_njit, lean_njit
from weft.kernels.maxmin import maxmin_add, maxmin_remove, maxmin_solve
from weft.kernels.penalty import penalty_add, penalty_remove, penalty_solve
from weft.kernels.program import (
    EAGER_BYTES,
    ENDED,
    HANDSHAKE,
    LOCAL,
    OVERHEAD,
    PUT,
    READY_HEAD,
    READY_TAIL,
    RECV,
    SEND,
    arrives,
    ends,
    freed,
    received,
    takes,
    waits,
)

# Why the loop returned.
DONE = 0
MORE = 1
TIME_OUT = 2
STUCK = 3

# Places of `number`, beside HEAP and those of programs.
FREE = 5
SLOTS = 6
LEAVING = 7
COMING = 8
ACTIVE = 9
SOLVES = 10
CHANGES = 11
PEAK = 12

# Place of `clock`.
NOW = 0

# Places of `setting`, beside those of programs.
TOLERANCE = 3
LOCAL_RATE = 4
LOCAL_LATENCY = 5
MAX_TIME = 6

#: By which part the level of a link may be off, by the tolerance: measured, so that completion
#: times are off by less than the tolerance (docs/flow-level.md).
SLACK = 0.1

#: Slots whose earliest end is kept together.
BLOCK_SHIFT = 7


@inner_njit()
def _leaves(program, setting, network, times, heap, number, op, now):
    """The last byte of a message has left its source."""
    kind, size, route = program[0], program[2], program[10]
    if kind[op] == PUT or size[op] > setting[EAGER_BYTES]:
        ends(program, times, heap, number, op, now)
    way = route[op]
    latency = setting[LOCAL_LATENCY] if way == LOCAL else network[0][way]
    if latency > 0:
        push_event(heap[0], heap[1], number, now + latency, event(ARRIVE, op))
    else:
        arrives(program, setting, times, heap, number, op, now, same_until(now))


@inner_njit()
def _begins(program, setting, network, times, heap, flows, clock, number, maxmin, penalty, op, now):
    """The first byte of a message leaves."""
    size, route = program[2], program[10]
    times[4][op] = now
    way = route[op]
    if way == LOCAL:
        # A copy in memory shares nothing; it is told apart by having begun.
        drained = now + size[op] / setting[LOCAL_RATE]
        if drained > now:
            push_event(heap[0], heap[1], number, drained, event(BEGIN, op))
            return
    if way == LOCAL or size[op] == 0:
        _leaves(program, setting, network, times, heap, number, op, now)
        return
    slot_op, remaining, last, finish, rate, _, free, _, _, coming, _, current = flows
    number[FREE] -= 1
    slot = free[number[FREE]] if number[FREE] >= 0 else number[SLOTS]
    if number[FREE] < 0:
        number[FREE] = 0
        number[SLOTS] += 1
    slot_op[slot] = op
    remaining[slot] = size[op]
    last[slot] = now
    rate[slot] = 0.0
    current[slot] = 0.0
    finish[slot] = np.inf
    coming[number[COMING]] = slot
    number[COMING] += 1
    number[ACTIVE] += 1
    number[PEAK] = max(number[PEAK], number[ACTIVE])
    if maxmin is not None:
        maxmin_add(maxmin, slot, way)
    if penalty is not None:
        penalty_add(penalty, slot, way, network[2][way], network[3][way])


@inner_njit()
def _meet(program, setting, network, times, heap, number, send):
    """Both sides of a rendez-vous are there: when the data begins to leave."""
    posted, match = times[2], program[4]
    # The request leaves once the processor has prepared it.
    asked, answered = posted[send] + setting[OVERHEAD], posted[match[send]]
    begin = max(asked, answered)
    if setting[HANDSHAKE] > 0:
        way = program[10][send]
        latency = setting[LOCAL_LATENCY] if way == LOCAL else network[0][way]
        begin = max(asked + latency, answered) + latency
    push_event(heap[0], heap[1], number, begin, event(BEGIN, send))


@inner_njit()
def _starts(program, setting, network, times, heap, flows, clock, number, maxmin, penalty, op, now):
    """An operation has all that it waited for and, if it needs one, a processor."""
    kind, rank, size, match, cpu = program[0], program[1], program[2], program[4], program[6]
    posted, busy = times[2], times[6]
    heap_time, heap_item = heap
    what = kind[op]
    held = takes(program, setting, op)
    if held > 0:
        busy[rank[op], cpu[op] if len(cpu) else 0] = now + held
    posted[op] = now
    freed(program, times, heap, number, op, True, now)
    if what == RECV:
        send = match[op]
        if size[send] > setting[EAGER_BYTES]:
            if posted[send] >= 0:
                _meet(program, setting, network, times, heap, number, send)
        elif times[5][send] >= 0:
            received(program, setting, times, heap, number, op, now, same_until(now))
        return
    if what in (SEND, PUT):
        if what == SEND and size[op] > setting[EAGER_BYTES]:
            if posted[match[op]] >= 0:
                _meet(program, setting, network, times, heap, number, op)
            return
        if held > 0:
            if what == SEND:
                push_event(heap_time, heap_item, number, now + held, event(END, op))
            push_event(heap_time, heap_item, number, now + held, event(BEGIN, op))
            return
        if what == SEND:
            ends(program, times, heap, number, op, now)
        _begins(
            program, setting, network, times, heap, flows, clock, number, maxmin, penalty, op, now
        )
        return
    if held > 0:
        push_event(heap_time, heap_item, number, now + held, event(END, op))
    else:
        ends(program, times, heap, number, op, now)


@inner_njit()
def _processor_free(
    program, setting, network, times, heap, flows, clock, number, maxmin, penalty, processor, now
):
    """A processor may be free for the first of those that wait for it."""
    busy, queue, left, right = times[6:10]
    rank, lane = processor // busy.shape[1], processor % busy.shape[1]
    first = queue[rank, lane]
    op = first - 1
    queue[rank, lane] = merge_waiting(left[op], right[op], left, right)
    if program[0][op] == RECV:
        busy[rank, lane] = now + setting[OVERHEAD]
        push_event(heap[0], heap[1], number, busy[rank, lane], event(END, op))
    else:
        _starts(
            program, setting, network, times, heap, flows, clock, number, maxmin, penalty, op, now
        )
    if queue[rank, lane]:
        push_event(heap[0], heap[1], number, busy[rank, lane], event(FREE_NOW, processor))


@inner_njit()
def _give_back(slot, slot_op, network, program, maxmin, penalty):
    """Take a flow from its links."""
    if maxmin is not None:
        maxmin_remove(maxmin, slot)
    if penalty is not None:
        way = program[10][slot_op[slot]]
        penalty_remove(penalty, slot, network[2][way], network[3][way])


@inner_njit()
def _share(flows, network, program, setting, clock, number, maxmin, penalty):
    """Share rates anew and say when each flow that they changed for will have left."""
    slot_op, remaining, last, finish, rate = flows[:5]
    block_end, free, leaving, changed, coming, touched, current = flows[5:]
    now = clock[NOW]
    for at in range(number[LEAVING]):
        slot = leaving[at]
        _give_back(slot, slot_op, network, program, maxmin, penalty)
        free[number[FREE]] = slot
        number[FREE] += 1
    number[LEAVING] = 0
    count = 0
    if maxmin is not None:
        count = maxmin_solve(maxmin, rate, changed, SLACK * setting[TOLERANCE])
    elif penalty is not None:
        count = penalty_solve(penalty, rate, changed)
    else:
        for at in range(number[COMING]):
            slot = coming[at]
            rate[slot] = network[1][program[10][slot_op[slot]]]
            changed[count] = slot
            count += 1
    number[COMING] = 0
    number[SOLVES] += 1
    number[CHANGES] += count
    blocks = 0
    for at in range(count):
        slot = changed[at]
        if rate[slot] == current[slot]:
            continue
        left = remaining[slot] - current[slot] * (now - last[slot])
        remaining[slot] = max(left, 0.0)
        last[slot] = now
        current[slot] = rate[slot]
        finish[slot] = now + remaining[slot] / rate[slot] if rate[slot] > 0 else np.inf
        block = slot >> BLOCK_SHIFT
        if block_end[block] >= 0:
            # Each block once; what it held is found again below.
            block_end[block] = -1.0
            touched[blocks] = block
            blocks += 1
    for at in range(blocks):
        _end_of_block(finish, block_end, touched[at])


@inner_njit()
def _end_of_block(finish, block_end, block):
    soonest = np.inf
    base = block << BLOCK_SHIFT
    for slot in range(base, base + (1 << BLOCK_SHIFT)):
        soonest = min(soonest, finish[slot])
    block_end[block] = soonest


@inner_njit()
def _finished(program, setting, network, times, heap, flows, clock, number, until):
    """Take out the flows that have left by now."""
    slot_op, finish, block_end, leaving = flows[0], flows[3], flows[5], flows[7]
    now = clock[NOW]
    blocks = (number[SLOTS] + (1 << BLOCK_SHIFT) - 1) >> BLOCK_SHIFT
    for block in range(blocks):
        if block_end[block] > until:
            continue
        base = block << BLOCK_SHIFT
        for slot in range(base, min(base + (1 << BLOCK_SHIFT), number[SLOTS])):
            if finish[slot] > until:
                continue
            finish[slot] = np.inf
            number[ACTIVE] -= 1
            leaving[number[LEAVING]] = slot
            number[LEAVING] += 1
            _leaves(program, setting, network, times, heap, number, np.int64(slot_op[slot]), now)
        _end_of_block(finish, block_end, block)


@lean_njit()
def run(program, setting, network, times, heap, flows, clock, number, maxmin, penalty, most_events):
    """Go on until all is done, the time is up, nothing moves, or so many events have passed.

    Parameters
    ----------
    program
        kind, rank, size_bytes, duration_ns, match, release_ns, cpu, successors (offset, operation,
        on start) and the route of each operation; see `weft.workload.Workload`.
    setting
        float64, by the places above.
    network
        Of each route: latency, rate when nothing else is there, source and destination host.
    times
        Of each operation: int32 predecessors left; the queue of those that are ready; when it was
        posted, ended, its data began to leave, its message arrived (-1 before); of each processor
        [ranks, processors] when it is free and which operation waits first for it, counted from 1;
        and the two below each operation that waits.
    heap
        float64 times and int64 items of what is to come.
    flows
        Of each slot: operation, bytes left, time of that, end, rate of the law; of each block of
        slots its first end; free slots; slots that leave, change, come; blocks touched; and the
        rate at which the slot's flow moves.
    clock, number
        Time; counters by the places above.
    maxmin, penalty
        State of the sharing law in force; None for the other, both None without contention.
    most_events
        Moments to pass before the loop returns.

    Returns
    -------
    int: DONE, MORE, TIME_OUT or STUCK.
    """
    heap_time, heap_item = heap
    ready = times[1]
    block_end = flows[5]
    events = 0
    while True:
        while number[READY_HEAD] < number[READY_TAIL]:
            op = np.int64(ready[number[READY_HEAD]])  # one type throughout, one compile
            number[READY_HEAD] += 1
            if takes(program, setting, op) > 0 and waits(
                program, times, heap, number, op, same_until(clock[NOW])
            ):
                continue
            _starts(
                program, setting, network, times, heap, flows, clock, number, maxmin, penalty, op,
                clock[NOW],
            )  # fmt: skip
        number[READY_HEAD] = number[READY_TAIL] = 0
        soonest = np.inf
        blocks = (number[SLOTS] + (1 << BLOCK_SHIFT) - 1) >> BLOCK_SHIFT
        for block in range(blocks):
            soonest = min(soonest, block_end[block])
        next_timer = heap_time[0] if number[HEAP] else np.inf
        time = min(soonest, next_timer)
        now = clock[NOW]
        until = same_until(now)
        if time > until:
            # Nothing else happens now.
            if number[LEAVING] or number[COMING]:
                _share(flows, network, program, setting, clock, number, maxmin, penalty)
                continue
            if time == np.inf:
                return DONE if number[ENDED] == len(program[0]) else STUCK
            if time > setting[MAX_TIME]:
                return TIME_OUT
            if events >= most_events:
                return MORE
            events += 1
            clock[NOW] = time
            until = same_until(time)
        now = clock[NOW]
        while number[HEAP] and heap_time[0] <= until:
            item = pop_event(heap_time, heap_item, number)
            op, what = item & OPERATION, item >> KIND_SHIFT
            if what == END:
                ends(program, times, heap, number, op, now)
            elif what == ARRIVE:
                arrives(program, setting, times, heap, number, op, now, same_until(now))
            elif what == START:
                ready[number[READY_TAIL]] = op
                number[READY_TAIL] += 1
            elif what == FREE_NOW:
                _processor_free(
                    program, setting, network, times, heap, flows, clock, number, maxmin, penalty,
                    op, now,
                )  # fmt: skip
            elif times[4][op] >= 0:
                _leaves(program, setting, network, times, heap, number, op, now)
            else:
                _begins(
                    program, setting, network, times, heap, flows, clock, number, maxmin, penalty,
                    op, now,
                )  # fmt: skip
        if soonest <= until:
            _finished(program, setting, network, times, heap, flows, clock, number, until)
