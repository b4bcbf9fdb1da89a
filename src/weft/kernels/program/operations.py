"""Operations of ranks over time: they become ready, wait for a processor, start, send and end.

The flow and the packet level share these kernels. `ranks` is a `weft.kernels.program.state.Ranks`;
times are float64 ns or int64 ps, as in the arrays of `ranks`; `until` is the latest time that
counts as equal to `now`. Operations that send are put on the list `Ranks.joining`, from which the
event loop of the flow or packet level moves them to the queue pairs.
"""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.program.events import (
    ARRIVE,
    BEGIN,
    END,
    FREE_NOW,
    OPERATION,
    START,
    merge_waiting,
    pop_event,
    push_event,
)

CALC = 0
SEND = 1
RECV = 2
PUT = 3
KEY_REQUEST = 4
KEY_DONE = 5

# What an operation sends at present.
NOTHING = 0
REQUEST = 1
DATA = 2
ANSWER = 3

#: `Program.route` of a message within a host.
LOCAL = -1
#: A number larger than the items of all events.
NO_ITEM = 2**62


@part_njit()
def freed(ranks, op, for_start, now):
    """Release the operations that depend on the start (`for_start`) or end of an operation."""
    program, pending, count = ranks.program, ranks.pending, ranks.count
    release, on_start = program.release, program.successor_on_start
    for at in range(program.successor_offset[op], program.successor_offset[op + 1]):
        if (len(on_start) > 0 and on_start[at]) != for_start:
            continue
        after = program.successor[at]
        pending[after] -= 1
        if pending[after] == 0:
            if len(release) and release[after] > now:
                push_event(ranks.heap, release[after], START | after)
            else:
                ranks.ready[count.ready_tail] = after
                count.ready_tail += 1


@part_njit()
def ends(ranks, op, now):
    """End an operation."""
    ranks.ended[op] = now
    ranks.count.ended += 1
    freed(ranks, op, np.bool_(False), now)  # one compiled version


@part_njit()
def arrives(ranks, op, now, until):
    """Record the arrival of a message, and end its receive if the receive is posted."""
    ranks.arrived[op] = now
    ranks.count.arrived += 1
    if ranks.program.kind[op] != SEND:
        return
    receive = np.int64(ranks.program.match[op])
    if ranks.posted[receive] >= 0:
        received(ranks, receive, now, until)


@part_njit()
def received(ranks, op, now, until):
    """End a posted receive whose message has arrived, after the processor's overhead."""
    overhead = ranks.program.duration[op]
    if overhead > 0:
        if waits(ranks, op, until):
            return
        ranks.busy_until[ranks.program.rank[op], 0] = now + overhead
        push_event(ranks.heap, now + overhead, END | op)
    else:
        ends(ranks, op, now)


@part_njit()
def waits(ranks, op, until):
    """Queue an operation if its processor is in use or has a queue; return whether it is queued."""
    busy, queue = ranks.busy_until, ranks.first_waiting
    left, right = ranks.left_below, ranks.right_below
    rank = ranks.program.rank[op]
    cpu = ranks.program.cpu[op] if len(ranks.program.cpu) else 0
    first = queue[rank, cpu]
    if first == 0 and busy[rank, cpu] <= until:
        return False
    left[op] = 0
    right[op] = 0
    queue[rank, cpu] = merge_waiting(first, np.int32(op + 1), left, right)
    if first == 0:
        processor = np.int64(rank) * busy.shape[1] + cpu
        push_event(ranks.heap, busy[rank, cpu], FREE_NOW | processor)
    return True


@part_njit()
def takes(ranks, op):
    """Return how long an operation occupies its processor when it starts."""
    duration = ranks.program.duration[op]
    return duration if ranks.program.kind[op] in (CALC, SEND, PUT) else duration * 0


@part_njit()
def _begins(ranks, op, now, until):
    """Put an operation on the list `Ranks.joining`, or copy its message within the host."""
    program, rules, left = ranks.program, ranks.rules, ranks.left
    if program.route[op] != LOCAL:
        ranks.joining[ranks.count.joining] = op
        ranks.count.joining += 1
        return
    size = program.size_bytes[op]
    if left[op] < 0:
        # Copies between the same two ranks are made one after the other, in the order posted.
        copied = ranks.copied_until
        pair = ranks.copy_pair[op]
        left[op] = max(now, copied[pair])
        time = left[op] + _copying(ranks, size)
        copied[pair] = time
        if time > until:
            push_event(ranks.heap, time, BEGIN | op)
            return
    if program.kind[op] == PUT or size > rules.eager_bytes:
        ends(ranks, op, now)
    if rules.local_latency > 0:
        push_event(ranks.heap, now + rules.local_latency, ARRIVE | op)
    else:
        arrives(ranks, op, now, until)


@part_njit()
def _copying(ranks, size_bytes):
    """Return the duration of a copy within a host, rounded if times are integers."""
    rules = ranks.rules
    lasts = rules.local_units_per_byte * size_bytes / rules.local_gbps
    if rules.local_whole and size_bytes > 0:
        lasts = max(np.floor(lasts + 0.5), 1.0)
    return ranks.left.dtype.type(lasts)


@part_njit()
def _begins_at(ranks, op, time, now, until):
    """Call `_begins` at `time`; for a message over the network, an adapter's latency later."""
    program, sends = ranks.program, ranks.sends
    if program.route[op] != LOCAL:
        time += ranks.rules.adapter_latency
        if len(program.latency) and sends[op] != REQUEST and sends[op] != ANSWER:
            time += program.latency[op]
    if time > until:
        push_event(ranks.heap, time, BEGIN | op)
    else:
        _begins(ranks, op, now, until)


@part_njit()
def _begin_rendezvous(ranks, send, now, until):
    """Begin a rendezvous that needs no request; both send and receive are posted."""
    posted, rules = ranks.posted, ranks.rules
    requested = posted[send] + ranks.program.duration[send]
    answered = posted[ranks.program.match[send]]
    begin = max(requested, answered)
    if ranks.program.route[send] == LOCAL and rules.handshake:
        begin = max(requested + rules.local_latency, answered) + rules.local_latency
    _begins_at(ranks, send, begin, now, until)


@part_njit()
def _needs_request(ranks, send):
    """Return whether a rendezvous needs a request and an answer that cross the network."""
    return ranks.rules.handshake and ranks.program.route[send] != LOCAL


@part_njit()
def queue_of(ranks, op):
    """Return the queue, of those of its pair of ranks, of what an operation sends at present."""
    program, rules = ranks.program, ranks.rules
    if ranks.sends[op] != DATA:
        return rules.control_queue
    large = program.kind[op] == SEND and program.size_bytes[op] > rules.eager_bytes
    return rules.data_queue if large and rules.handshake else np.int64(0)


@part_njit()
def handle_arrival(ranks, op, now, until):
    """Handle the arrival of a message, request or answer."""
    sends = ranks.sends
    if ranks.program.route[op] == LOCAL or sends[op] == DATA:
        arrives(ranks, op, now, until)
        return
    other = np.int64(ranks.program.match[op])
    if sends[op] == REQUEST:
        sends[other] = ANSWER
        if ranks.posted[other] < 0:
            ranks.left[other] = now  # arrival of the request, kept until the receive is posted
            return
    else:
        sends[other] = DATA
    _begins_at(ranks, other, now, now, until)


@part_njit()
def starts(ranks, op, now, until):
    """Start an operation whose predecessors are done and whose processor, if needed, is free."""
    program, rules, posted, sends = ranks.program, ranks.rules, ranks.posted, ranks.sends
    size = program.size_bytes
    kind = program.kind[op]
    held = takes(ranks, op)
    if held > 0:
        cpu = program.cpu[op] if len(program.cpu) else 0
        ranks.busy_until[program.rank[op], cpu] = now + held
    posted[op] = now
    freed(ranks, op, np.bool_(True), now)
    if rules.scheduled and kind >= KEY_REQUEST:
        if sends[op] == REQUEST:
            ranks.asked[ranks.count.asked] = op
            ranks.count.asked += 1
        if kind == KEY_REQUEST:
            if ranks.left[op] > until:
                push_event(ranks.heap, ranks.left[op], END | op)
            elif ranks.left[op] >= 0:
                ends(ranks, op, now)
            return  # without an answer yet, `answer` ends it
    if kind == RECV:
        send = np.int64(program.match[op])
        if size[send] <= rules.eager_bytes:
            if ranks.arrived[send] >= 0:
                received(ranks, op, now, until)
        elif not _needs_request(ranks, send):
            if posted[send] >= 0:
                _begin_rendezvous(ranks, send, now, until)
        elif sends[op] == ANSWER:
            requested = ranks.left[op]
            ranks.left[op] = -1
            if requested == now < until:
                # Flow level: an event begins the answer, as if the request had arrived after the
                # receive was posted, because a real request takes some ns longer than in the model.
                push_event(ranks.heap, now, BEGIN | op)
            else:
                _begins_at(ranks, op, now, now, until)
        return
    if kind == SEND and size[op] > rules.eager_bytes:
        if _needs_request(ranks, op):
            sends[op] = REQUEST
            _begins_at(ranks, op, now + held, now, until)
        elif posted[program.match[op]] >= 0:
            _begin_rendezvous(ranks, op, now, until)
        return
    if kind != PUT:
        if held > 0:
            push_event(ranks.heap, now + held, END | op)
        else:
            ends(ranks, op, now)
    if kind in (SEND, PUT):
        _begins_at(ranks, op, now + held, now, until)


@part_njit()
def _processor_free(ranks, processor, now, until):
    """Start the first operation that waits for a processor that is free now."""
    busy, queue = ranks.busy_until, ranks.first_waiting
    left, right = ranks.left_below, ranks.right_below
    rank, cpu = processor // busy.shape[1], processor % busy.shape[1]
    op = np.int64(queue[rank, cpu]) - 1
    queue[rank, cpu] = merge_waiting(left[op], right[op], left, right)
    if ranks.program.kind[op] == RECV:
        busy[rank, cpu] = now + ranks.program.duration[op]
        push_event(ranks.heap, busy[rank, cpu], END | op)
    else:
        starts(ranks, op, now, until)
    if queue[rank, cpu]:
        push_event(ranks.heap, busy[rank, cpu], FREE_NOW | processor)


@part_njit()
def program_events(ranks, now, until):
    """Handle the events of programs up to `until`, in the order of time, kind and operation."""
    heap, count = ranks.heap, ranks.count
    listed_time = ranks.timeline_time
    while True:
        # Operations that wait only for their release are in the timeline, not in the heap.
        listed = np.int64(NO_ITEM)
        if count.timeline < len(listed_time) and listed_time[count.timeline] <= until:
            listed = START | ranks.timeline_op[count.timeline]
        if heap.size.events and heap.time[0] <= until and heap.item[0] < listed:
            item = pop_event(heap)
        elif listed < NO_ITEM:
            item = listed
            count.timeline += 1
        else:
            return
        op = item & OPERATION
        kind = item ^ op
        if kind == START:
            ranks.ready[count.ready_tail] = op
            count.ready_tail += 1
        elif kind == END:
            ends(ranks, op, now)
        elif kind == ARRIVE:
            handle_arrival(ranks, op, now, until)
        elif kind == FREE_NOW:
            _processor_free(ranks, op, now, until)
        else:
            _begins(ranks, op, now, until)


@part_njit()
def start_ready(ranks, now, until):
    """Start the operations that have become ready, in the order in which they became ready."""
    count = ranks.count
    while count.ready_head < count.ready_tail:
        op = np.int64(ranks.ready[count.ready_head])  # int64 throughout: one compiled version
        count.ready_head += 1
        if takes(ranks, op) > 0 and waits(ranks, op, until):
            continue
        starts(ranks, op, now, until)
    count.ready_head = 0
    count.ready_tail = 0


@part_njit()
def next_start(ranks, never):
    """Return the time of the programs' next event; `never` if there is none."""
    heap, count = ranks.heap, ranks.count
    time = never
    if heap.size.events:
        time = min(time, heap.time[0])
    if count.timeline < len(ranks.timeline_time):
        time = min(time, ranks.timeline_time[count.timeline])
    return time


@lean_njit()
def answer(ranks, ops, time):
    """End requests of a routing key at `time`, now or later, or when they start after it."""
    for op in ops:
        ranks.left[op] = time
        if ranks.posted[op] >= 0:
            push_event(ranks.heap, time, END | np.int64(op))
