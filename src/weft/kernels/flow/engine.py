"""The event loop of the flow level: operations become ready, messages share links, time passes.

What waits for a time is in a heap. Each queue pair sends its messages one after the other; the one
that is leaving is a flow in a slot, whose rate a sharing law gives. All that happens at one moment
is settled before rates are shared anew.
"""

import numpy as np

from weft.kernels.flow.maxmin import maxmin_add, maxmin_remove, maxmin_solve
from weft.kernels.flow.penalty import penalty_add, penalty_remove, penalty_solve
from weft.kernels.lean import inner_njit, lean_njit
from weft.kernels.program.events import ARRIVE, BEGIN, event, push_event, same_until
from weft.kernels.program.operations import (
    DATA,
    EAGER_BYTES,
    ENDED,
    JOINING,
    NOTHING,
    PUT,
    READY_TAIL,
    comes,
    ends,
    next_start,
    program_events,
    start_ready,
)

# Why the loop returned.
DONE = 0
MORE = 1
TIME_OUT = 2
STUCK = 3

# Places of `number`, beside those of programs.
FREE = 7
SLOTS = 8
LEAVING = 9
COMING = 10
ACTIVE = 11
SOLVES = 12
CHANGES = 13
PEAK = 14
NUMBERS = 15

# Place of `clock`.
NOW = 0

# Places of `setting`, beside those of programs.
TOLERANCE = 3
MAX_TIME = 4
#: Payload of a packet; 0 where messages do not wait for those of other queue pairs.
MTU = 5
#: Bytes of a packet's header, which a message of one packet takes along.
HEADER = 6
SETTINGS = 14

#: By which part the level of a link may be off, by the tolerance: measured, so that completion
#: times are off by less than the tolerance (docs/flow-level.md).
SLACK = 0.1

#: Slots whose earliest end is kept together.
BLOCK_SHIFT = 7


@inner_njit()
def _has_left(program, setting, network, pairs, times, heap, number, moves, op, now):
    """Let what a queue pair sent arrive one latency after its last byte has left."""
    kind, size, route = program[0], program[2], program[10]
    pair_of, latest = pairs[0], pairs[2]
    if moves[0][op] == DATA and (kind[op] == PUT or size[op] > setting[EAGER_BYTES]):
        ends(program, times, heap, number, op, now)
    # Messages of a queue pair arrive in order, also where their paths differ or nothing lies
    # between them: of one moment, events come in the order of their times, then of operations.
    pair = pair_of[op]
    time = max(now + network[0][route[op]], np.nextafter(latest[pair], np.inf))
    latest[pair] = time
    if time > now:
        push_event(heap[0], heap[1], number, time, event(ARRIVE, op))
    else:
        comes(setting, number, moves, program, times, heap, op, now, same_until(now))


@inner_njit()
def _join(
    program, setting, network, pairs, times, heap, flows, number, moves, maxmin, penalty,
    op, now,
):  # fmt: skip
    """Put what an operation sends at the end of its queue pair's line."""
    pair_of, last = pairs[0], pairs[1]
    before = np.int32(0)
    if times[4][op] < 0:  # else it is the first, and has its turn at its adapter
        # Nothing that is in this line waits for a processor, whose heaps use the same array.
        behind = times[8]
        if moves[0][op] == NOTHING:
            moves[0][op] = DATA
        behind[op] = 0
        pair = pair_of[op]
        before = last[pair]
        last[pair] = op + 1
        if before:
            behind[before - 1] = op + 1
    if not before:
        _serve(
            program, setting, network, pairs, times, heap, flows, number, moves, maxmin,
            penalty, op, now,
        )  # fmt: skip


@inner_njit()
def _sort(numbers, begin, end):
    """Sort a run of numbers in place (Shell's method); most often they are in order."""
    ordered = True
    for at in range(begin + 1, end):
        ordered = ordered and numbers[at - 1] <= numbers[at]
    gap = 0 if ordered else (end - begin) // 2
    while gap:
        for at in range(begin + gap, end):
            moved = numbers[at]
            to = at
            while to >= begin + gap and numbers[to - gap] > moved:
                numbers[to] = numbers[to - gap]
                to -= gap
            numbers[to] = moved
        gap //= 2


@inner_njit()
def wire_bytes(setting, size_bytes):
    """Bytes that cross the links: with a header where the message is one packet."""
    if 0 < setting[MTU] >= size_bytes:
        return size_bytes + setting[HEADER]
    return size_bytes + 0 * setting[HEADER]  # of one type with the other


@inner_njit()
def _serve(
    program, setting, network, pairs, times, heap, flows, number, moves, maxmin, penalty, op, now
):
    """Send the first of a queue pair's line, and those behind it until one takes time."""
    size, route, behind = program[2], program[10], times[8]
    while True:
        wire = wire_bytes(setting, size[op])
        if moves[0][op] == DATA:
            had_turn = times[4][op] >= 0
            times[4][op] = now
            if 0 < setting[MTU] >= size[op] and not had_turn:
                # A packet leaves whole, behind those of its adapter's other queue pairs.
                adapter, free = network[2][route[op]], pairs[3]
                begin = max(now, free[adapter])
                free[adapter] = begin + wire / network[4][route[op]]
                if begin > same_until(now):
                    times[4][op] = begin
                    push_event(heap[0], heap[1], number, begin, event(BEGIN, op))
                    return
            if wire > 0:
                _flows(program, network, flows, number, maxmin, penalty, op, wire, now)
                return
        _has_left(program, setting, network, pairs, times, heap, number, moves, op, now)
        after = np.int64(behind[op])
        if after == 0:
            pairs[1][pairs[0][op]] = 0
            return
        op = after - 1


@inner_njit()
def _flows(program, network, flows, number, maxmin, penalty, op, wire, now):
    """Make a message of so many bytes on the wire a flow."""
    way = program[10][op]
    slot_op, remaining, last, finish, rate, _, free, _, _, coming, _, current = flows
    number[FREE] -= 1
    slot = free[number[FREE]] if number[FREE] >= 0 else number[SLOTS]
    if number[FREE] < 0:
        number[FREE] = 0
        number[SLOTS] += 1
    slot_op[slot] = op
    remaining[slot] = wire
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
def _finished(
    program, setting, network, pairs, times, heap, flows, number, moves, maxmin, penalty,
    now, until,
):  # fmt: skip
    """Take out the flows that have left by now, in program order; what is behind them begins."""
    slot_op, finish, block_end, leaving, changed = flows[0], flows[3], flows[5], flows[7], flows[8]
    behind = times[8]
    blocks = (number[SLOTS] + (1 << BLOCK_SHIFT) - 1) >> BLOCK_SHIFT
    count = 0
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
            changed[count] = slot_op[slot]
            count += 1
        _end_of_block(finish, block_end, block)
    _sort(changed, 0, count)
    for at in range(count):
        op = np.int64(changed[at])
        _has_left(program, setting, network, pairs, times, heap, number, moves, op, now)
        after = np.int64(behind[op])
        if after:
            _serve(
                program, setting, network, pairs, times, heap, flows, number, moves,
                maxmin, penalty, after - 1, now,
            )  # fmt: skip
        else:
            pairs[1][pairs[0][op]] = 0


@lean_njit()
def run(
    program, setting, network, pairs, times, heap, timeline, moves, flows, clock, number,
    maxmin, penalty, most_events,
):  # fmt: skip
    """Go on until all is done, the time is up, nothing moves, or so many events have passed.

    Parameters
    ----------
    program
        kind, rank, size_bytes, duration_ns, match, release_ns, cpu, successors (offset, operation,
        on start) and the route of each operation; see `weft.workload.Workload`.
    setting
        float64, by the places above.
    network
        Of each route: latency, rate when nothing else is there, source and destination adapter,
        and the rate of the source.
    pairs
        Queue pair of each operation, int32; of each queue pair the last of its line, counted from
        1 (0: none), int32, and the latest arrival of what it has sent, float64 ns; of each adapter
        when the next packet may leave.
    times
        Of each operation: int32 predecessors left; the queue of those that are ready; when it was
        posted, ended, its data began to leave, its message arrived (-1 before); of each processor
        [ranks, processors] when it is free and which operation waits first for it, counted from 1;
        and the two below each operation that waits. The first of these two arrays also links the
        lines of queue pairs.
    heap
        float64 times and int64 items of what is to come.
    timeline
        int32 and float64: operations that wait for nothing but their release, by that, and when
        that is, ns.
    moves
        uint8 what each operation sends; int32 those that join their queue pairs at this moment;
        copies within hosts: rate in Gb/s, ns x Gb/s a byte, and 0, as ns are not rounded; of each
        such message its pair of ranks, and until when each pair's copies last.
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
    block_end = flows[5]
    events = 0
    while True:
        now = clock[NOW]
        until = same_until(now)
        while number[READY_TAIL] or number[JOINING]:
            # What is posted at one moment leaves in program order, before what arrivals let begin.
            arrivals = number[JOINING]
            start_ready(setting, number, moves, program, times, heap, now, until)
            count = number[JOINING]
            _sort(moves[1], arrivals, count)
            for place in range(arrivals, arrivals + count):
                op = np.int64(moves[1][place if place < count else place - count])
                _join(
                    program, setting, network, pairs, times, heap, flows, number, moves,
                    maxmin, penalty, op, now,
                )  # fmt: skip
            # Without latency, what has just arrived may have handed over more.
            for place in range(count, number[JOINING]):
                moves[1][place - count] = moves[1][place]
            number[JOINING] -= count
        soonest = np.inf
        blocks = (number[SLOTS] + (1 << BLOCK_SHIFT) - 1) >> BLOCK_SHIFT
        for block in range(blocks):
            soonest = min(soonest, block_end[block])
        time = min(soonest, next_start(number, heap, timeline, np.inf))
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
            clock[NOW] = now = time
            until = same_until(time)
        program_events(setting, number, moves, program, times, heap, timeline, now, until)
        if soonest <= until:
            _finished(
                program, setting, network, pairs, times, heap, flows, number, moves,
                maxmin, penalty, now, until,
            )  # fmt: skip
