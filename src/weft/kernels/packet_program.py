"""What ranks do at the packet level: messages, requests and answers that join their queue pairs.

What is to join in an instant is put on a list first, of which the event loop takes it: ranks then
need not know of links and lanes.
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
)
from weft.kernels.lean import inner_njit
from weft.kernels.packet_adapter import ANSWER, DATA, REQUEST
from weft.kernels.packet_lanes import rounded
from weft.kernels.packet_layout import ADAPTER_LATENCY, JOINING, LOCAL_LATENCY, NEVER, TIMELINE
from weft.kernels.program import (
    EAGER_BYTES,
    HANDSHAKE,
    LOCAL,
    OVERHEAD,
    PUT,
    READY_TAIL,
    RECV,
    SEND,
    arrives,
    ends,
    freed,
    received,
    takes,
)


@inner_njit()
def _begins(
    setting, number, moves, program, times, heap, op,
    now,
):  # fmt: skip
    """What an operation sends joins its queue pair, or is copied within its host."""
    size, route_of = program[2], program[10]
    if route_of[op] == LOCAL:
        if times[4][op] < 0:
            times[4][op] = now
            if size[op] > 0:
                copied = now + rounded(size[op], moves[2][0])
                push_event(heap[0], heap[1], number, copied, event(BEGIN, op))
                return
        if program[0][op] == PUT or size[op] > setting[EAGER_BYTES]:
            ends(program, times, heap, number, op, now)
        if setting[LOCAL_LATENCY] > 0:
            arrival = now + setting[LOCAL_LATENCY]
            push_event(heap[0], heap[1], number, arrival, event(ARRIVE, op))
        else:
            arrives(program, setting, times, heap, number, op, now, now)
        return
    joining = moves[1]
    joining[number[JOINING]] = op
    number[JOINING] += 1


@inner_njit()
def _begins_at(
    setting, number, moves, program, times, heap, op,
    time, now,
):  # fmt: skip
    """The same at a time, and the adapter's later; what is due now happens now."""
    if program[10][op] != LOCAL:
        time += setting[ADAPTER_LATENCY]
    if time > now:
        push_event(heap[0], heap[1], number, time, event(BEGIN, op))
    else:
        _begins(
            setting, number, moves, program, times, heap, op, now,
        )  # fmt: skip


@inner_njit()
def _meet(
    setting, number, moves, program, times, heap, send,
    now,
):  # fmt: skip
    """Both sides of a rendez-vous are posted; where it takes no request, data follows."""
    posted, match = times[2], program[4]
    asked, answered = posted[send] + setting[OVERHEAD], posted[match[send]]
    begin = max(asked, answered)
    if program[10][send] == LOCAL:
        if setting[HANDSHAKE]:
            begin = max(asked + setting[LOCAL_LATENCY], answered) + setting[LOCAL_LATENCY]
    elif setting[HANDSHAKE]:
        return
    _begins_at(
        setting, number, moves, program, times, heap,
        send, begin, now,
    )  # fmt: skip


@inner_njit()
def _comes(
    setting, number, moves, program, times, heap, op,
    now,
):  # fmt: skip
    """A message, request or answer has arrived."""
    match, posted = program[4], times[2]
    sends = moves[0]
    if program[10][op] == LOCAL or sends[op] == DATA:
        arrives(program, setting, times, heap, number, op, now, now)
        return
    if sends[op] == REQUEST:
        receive = np.int64(match[op])
        sends[receive] = ANSWER
        if posted[receive] >= 0:
            _begins_at(
                setting, number, moves, program, times, heap, receive, now, now,
            )  # fmt: skip
        return
    send = np.int64(match[op])
    sends[send] = DATA
    _begins_at(
        setting, number, moves, program, times, heap,
        send, now, now,
    )  # fmt: skip


@inner_njit()
def starts(
    setting, number, moves, program, times, heap, op,
    now,
):  # fmt: skip
    """An operation has all that it waited for and, if it needs one, a processor."""
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
                received(program, setting, times, heap, number, op, now, now)
        elif program[10][send] == LOCAL or not setting[HANDSHAKE]:
            if posted[send] >= 0:
                _meet(
                    setting, number, moves, program, times, heap, send, now,
                )  # fmt: skip
        elif sends[op] == ANSWER:
            _begins_at(
                setting, number, moves, program, times, heap, op, now, now,
            )  # fmt: skip
        return
    if what == SEND and size[op] > setting[EAGER_BYTES]:
        if program[10][op] != LOCAL and setting[HANDSHAKE]:
            sends[op] = REQUEST
            _begins_at(
                setting, number, moves, program, times, heap, op, now + held, now,
            )  # fmt: skip
        elif posted[match[op]] >= 0:
            _meet(
                setting, number, moves, program, times, heap, op, now,
            )  # fmt: skip
        return
    if what in (SEND, PUT):
        if what == SEND:
            if held > 0:
                push_event(heap[0], heap[1], number, now + held, event(END, op))
            else:
                ends(program, times, heap, number, op, now)
        _begins_at(
            setting, number, moves, program, times, heap, op, now + held, now,
        )  # fmt: skip
        return
    if held > 0:
        push_event(heap[0], heap[1], number, now + held, event(END, op))
    else:
        ends(program, times, heap, number, op, now)


@inner_njit()
def _processor_free(
    setting, number, moves, program, times, heap,
    processor, now,
):  # fmt: skip
    """A processor may be free for the first of those that wait for it."""
    busy, queue, left, right = times[6:10]
    rank, cpu = processor // busy.shape[1], processor % busy.shape[1]
    op = np.int64(queue[rank, cpu]) - 1
    queue[rank, cpu] = merge_waiting(left[op], right[op], left, right)
    if program[0][op] == RECV:
        busy[rank, cpu] = now + setting[OVERHEAD]
        push_event(heap[0], heap[1], number, busy[rank, cpu], event(END, op))
    else:
        starts(
            setting, number, moves, program, times, heap, op, now,
        )  # fmt: skip
    if queue[rank, cpu]:
        push_event(heap[0], heap[1], number, busy[rank, cpu], event(FREE_NOW, processor))


@inner_njit()
def program_events(
    setting, number, moves, program, times, heap,
    timeline, now,
):  # fmt: skip
    """What the programs wait for at this instant, by kind and operation."""
    ready = times[1]
    listed_op, listed_ps = timeline
    heap_time, heap_item = heap
    while True:
        # Those that were released from the start on are in a list of their own.
        listed = np.int64(NEVER)
        if number[TIMELINE] < len(listed_ps) and listed_ps[number[TIMELINE]] <= now:
            listed = event(START, listed_op[number[TIMELINE]])
        if number[HEAP] and heap_time[0] <= now and heap_item[0] < listed:
            item = pop_event(heap_time, heap_item, number)
        elif listed < NEVER:
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
            _comes(
                setting, number, moves, program, times, heap, op, now,
            )  # fmt: skip
        elif what == FREE_NOW:
            _processor_free(
                setting, number, moves, program, times, heap, op, now,
            )  # fmt: skip
        else:
            _begins(
                setting, number, moves, program, times, heap, op, now,
            )  # fmt: skip
