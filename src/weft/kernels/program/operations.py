"""Programs of ranks over time: what becomes ready, waits for a processor, sends, starts and ends.

The levels that simulate time share this. Time is float64 ns at one and int64 ps at the other; the
functions take what the arrays hold. Ranks know nothing of links: what they send goes on a list, and
the event loop of the level takes it from there to the queue pairs.
"""

import numpy as np

from weft.kernels.lean import inner_njit
from weft.kernels.program.events import (
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
)

CALC = 0
SEND = 1
RECV = 2
PUT = 3

# What an operation sends at the moment.
NOTHING = 0
REQUEST = 1
DATA = 2
ANSWER = 3

# Places of `number`, beside HEAP, that programs use.
READY_HEAD = 1
READY_TAIL = 2
ENDED = 3
ARRIVED = 4
JOINING = 5
TIMELINE = 6

# Places of `setting` that programs use.
EAGER_BYTES = 0
HANDSHAKE = 1
OVERHEAD = 2
ADAPTER_LATENCY = 12
LOCAL_LATENCY = 13

#: A message that stays in its host.
LOCAL = -1
#: The item after all events.
NO_ITEM = 2**62


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
    receive = np.int64(match[op])
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


@inner_njit()
def _begins(setting, number, moves, program, times, heap, op, now, until):
    """Hand what an operation sends to its queue pair, or copy it within its host."""
    size, route_of = program[2], program[10]
    if route_of[op] != LOCAL:
        joining = moves[1]
        joining[number[JOINING]] = op
        number[JOINING] += 1
        return
    if times[4][op] < 0:
        # Copies from one rank to another are made one after the other, in the order posted.
        pair_of, copied = moves[3], moves[4]
        times[4][op] = max(now, copied[pair_of[op]])
        time = times[4][op] + _copying(times, moves[2], size[op])
        copied[pair_of[op]] = time
        if time > until:
            push_event(heap[0], heap[1], number, time, event(BEGIN, op))
            return
    if program[0][op] == PUT or size[op] > setting[EAGER_BYTES]:
        ends(program, times, heap, number, op, now)
    if setting[LOCAL_LATENCY] > 0:
        push_event(heap[0], heap[1], number, now + setting[LOCAL_LATENCY], event(ARRIVE, op))
    else:
        arrives(program, setting, times, heap, number, op, now, until)


@inner_njit()
def _copying(times, copies, size_bytes):
    """Duration of a copy within a host, rounded once where time is counted in whole units."""
    gbps, units_per_byte, whole = copies[0], copies[1], copies[2]
    lasts = units_per_byte * size_bytes / gbps
    if whole and size_bytes > 0:
        lasts = max(np.floor(lasts + 0.5), 1.0)
    return times[4].dtype.type(lasts)


@inner_njit()
def _begins_at(setting, number, moves, program, times, heap, op, time, now, until):
    """Hand over what an operation sends at a time, and the adapter's latency later."""
    if program[10][op] != LOCAL:
        time += setting[ADAPTER_LATENCY]
    if time > until:
        push_event(heap[0], heap[1], number, time, event(BEGIN, op))
    else:
        _begins(setting, number, moves, program, times, heap, op, now, until)


@inner_njit()
def _meet(setting, number, moves, program, times, heap, send, now, until):
    """Begin a rendez-vous without request: both sides are posted."""
    posted, match = times[2], program[4]
    asked, answered = posted[send] + setting[OVERHEAD], posted[match[send]]
    begin = max(asked, answered)
    if program[10][send] == LOCAL and setting[HANDSHAKE]:
        begin = max(asked + setting[LOCAL_LATENCY], answered) + setting[LOCAL_LATENCY]
    _begins_at(setting, number, moves, program, times, heap, send, begin, now, until)


@inner_njit()
def _needs_request(setting, program, send):
    """Whether a rendez-vous goes by a request and an answer that cross the network."""
    return setting[HANDSHAKE] and program[10][send] != LOCAL


@inner_njit()
def comes(setting, number, moves, program, times, heap, op, now, until):
    """Take in a message, request or answer that has arrived."""
    match, posted = program[4], times[2]
    sends = moves[0]
    if program[10][op] == LOCAL or sends[op] == DATA:
        arrives(program, setting, times, heap, number, op, now, until)
        return
    other = np.int64(match[op])
    if sends[op] == REQUEST:
        sends[other] = ANSWER
        if posted[other] < 0:
            times[4][other] = now  # when it was asked, until it is posted
            return
    else:
        sends[other] = DATA
    _begins_at(setting, number, moves, program, times, heap, other, now, now, until)


@inner_njit()
def starts(setting, number, moves, program, times, heap, op, now, until):
    """Start an operation: it has all that it waited for and, if it needs one, a processor."""
    kind, rank, size, match, cpu = program[0], program[1], program[2], program[4], program[6]
    posted, busy = times[2], times[6]
    sends = moves[0]
    what = kind[op]
    held = takes(program, setting, op)
    if held > 0:
        busy[rank[op], cpu[op] if len(cpu) else 0] = now + held
    posted[op] = now
    freed(program, times, heap, number, op, True, now)
    if what == RECV:
        send = np.int64(match[op])
        if size[send] <= setting[EAGER_BYTES]:
            if times[5][send] >= 0:
                received(program, setting, times, heap, number, op, now, until)
        elif not _needs_request(setting, program, send):
            if posted[send] >= 0:
                _meet(setting, number, moves, program, times, heap, send, now, until)
        elif sends[op] == ANSWER:
            asked = times[4][op]
            times[4][op] = -1
            if asked == now < until:
                # What a moment holds has no order; a request takes some ns longer than counted.
                push_event(heap[0], heap[1], number, now, event(BEGIN, op))
            else:
                _begins_at(setting, number, moves, program, times, heap, op, now, now, until)
        return
    if what == SEND and size[op] > setting[EAGER_BYTES]:
        if _needs_request(setting, program, op):
            sends[op] = REQUEST
            _begins_at(setting, number, moves, program, times, heap, op, now + held, now, until)
        elif posted[match[op]] >= 0:
            _meet(setting, number, moves, program, times, heap, op, now, until)
        return
    if what != PUT:
        if held > 0:
            push_event(heap[0], heap[1], number, now + held, event(END, op))
        else:
            ends(program, times, heap, number, op, now)
    if what in (SEND, PUT):
        _begins_at(setting, number, moves, program, times, heap, op, now + held, now, until)


@inner_njit()
def _processor_free(setting, number, moves, program, times, heap, processor, now, until):
    """Serve the first of those that wait for a processor, which may be free now."""
    busy, queue, left, right = times[6:10]
    rank, cpu = processor // busy.shape[1], processor % busy.shape[1]
    op = np.int64(queue[rank, cpu]) - 1
    queue[rank, cpu] = merge_waiting(left[op], right[op], left, right)
    if program[0][op] == RECV:
        busy[rank, cpu] = now + setting[OVERHEAD]
        push_event(heap[0], heap[1], number, busy[rank, cpu], event(END, op))
    else:
        starts(setting, number, moves, program, times, heap, op, now, until)
    if queue[rank, cpu]:
        push_event(heap[0], heap[1], number, busy[rank, cpu], event(FREE_NOW, processor))


@inner_njit()
def program_events(setting, number, moves, program, times, heap, timeline, now, until):
    """Handle what the programs wait for up to `until`, by kind and operation."""
    ready = times[1]
    listed_op, listed_time = timeline
    heap_time, heap_item = heap
    while True:
        # Operations that wait for their release only are in a list of their own.
        listed = np.int64(NO_ITEM)
        if number[TIMELINE] < len(listed_time) and listed_time[number[TIMELINE]] <= until:
            listed = event(START, listed_op[number[TIMELINE]])
        if number[HEAP] and heap_time[0] <= until and heap_item[0] < listed:
            item = pop_event(heap_time, heap_item, number)
        elif listed < NO_ITEM:
            item = listed
            number[TIMELINE] += 1
        else:
            return
        op, what = item & OPERATION, item >> KIND_SHIFT
        if what == START:
            ready[number[READY_TAIL]] = op
            number[READY_TAIL] += 1
        elif what == END:
            ends(program, times, heap, number, op, now)
        elif what == ARRIVE:
            comes(setting, number, moves, program, times, heap, op, now, until)
        elif what == FREE_NOW:
            _processor_free(setting, number, moves, program, times, heap, op, now, until)
        else:
            _begins(setting, number, moves, program, times, heap, op, now, until)


@inner_njit()
def start_ready(setting, number, moves, program, times, heap, now, until):
    """Start the operations that have become ready, first come first served."""
    ready = times[1]
    while number[READY_HEAD] < number[READY_TAIL]:
        op = np.int64(ready[number[READY_HEAD]])  # one type throughout, one compile
        number[READY_HEAD] += 1
        if takes(program, setting, op) > 0 and waits(program, times, heap, number, op, until):
            continue
        starts(setting, number, moves, program, times, heap, op, now, until)
    number[READY_HEAD] = number[READY_TAIL] = 0


@inner_njit()
def next_start(number, heap, timeline, never):
    """When the programs have something to do next; `never` when they have nothing."""
    listed_time = timeline[1]
    time = never
    if number[HEAP]:
        time = min(time, heap[0][0])
    if number[TIMELINE] < len(listed_time):
        time = min(time, listed_time[number[TIMELINE]])
    return time
