"""The event loop of the flow level: operations become ready, messages share links, time passes.

Events are in a heap. Each queue sends its messages one after the other; the message that it sends
is a flow in a slot, whose rate a sharing model gives. All events of one time are handled before
rates are computed again. `ranks` is a `weft.kernels.program.state.Ranks`, `level` a
`weft.kernels.flow.state.Level`; times are float64 ns.
"""

import numpy as np

from weft.kernels.flow.maxmin import maxmin_add, maxmin_remove, maxmin_solve
from weft.kernels.flow.penalty import penalty_add, penalty_remove, penalty_solve
from weft.kernels.heaps import sort_part
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.program.events import ARRIVE, BEGIN, START, push_event, same_until
from weft.kernels.program.operations import (
    DATA,
    NOTHING,
    PUT,
    ends,
    handle_arrival,
    next_start,
    program_events,
    queue_of,
    start_ready,
)

# Reasons for which the loop returns.
DONE = 0
MORE = 1
TIME_OUT = 2
STUCK = 3
ASKED = 4

#: Relative error allowed for the level of a link (see `maxmin`), divided by the tolerance. By
#: measurement, this value keeps the error of completion times below the tolerance
#: (docs/flow-level.md).
SLACK = 0.1

#: Binary logarithm of the number of slots in a block; each block stores its flows' earliest end.
BLOCK_SHIFT = 7


@part_njit()
def _queue(ranks, level, op):
    """Return the index of the queue of what an operation sends at present."""
    return level.pairs.pair_of[op] + queue_of(ranks, op) * level.rules.pairs


@part_njit()
def _has_left(ranks, level, op, now):
    """Schedule the arrival of a message that has departed; end its operation unless it is eager."""
    program, latest = ranks.program, level.pairs.latest_ns
    large = program.kind[op] == PUT or program.size_bytes[op] > ranks.rules.eager_bytes
    if ranks.sends[op] == DATA and large:
        ends(ranks, op, now)
    # Messages of a queue arrive in order, even if their paths differ or they depart together.
    # Each message arrives later than the previous one, because events of equal times are ordered by
    # operation.
    queue = _queue(ranks, level, op)
    latency = level.paths.latency_ns[program.route[op]]
    time = max(now + latency, np.nextafter(latest[queue], np.inf))
    latest[queue] = time
    if time > now:
        push_event(ranks.heap, time, ARRIVE | op)
    else:
        handle_arrival(ranks, op, now, same_until(now))


@part_njit()
def _join(ranks, level, maxmin, penalty, op, now):
    """Append what an operation sends to its queue; if the queue was empty, send it."""
    last = level.pairs.last
    before = np.int32(0)
    if ranks.left[op] < 0:  # otherwise the operation is first and has waited for its adapter
        # The heaps of processors use the same array, but no operation of this queue is in a heap.
        behind = ranks.left_below
        if ranks.sends[op] == NOTHING:
            ranks.sends[op] = DATA
        behind[op] = 0
        queue = _queue(ranks, level, op)
        before = last[queue]
        last[queue] = op + 1
        if before:
            behind[before - 1] = op + 1
    if not before:
        _serve(ranks, level, maxmin, penalty, op, now)


@part_njit()
def _serve(ranks, level, maxmin, penalty, op, now):
    """Send what the operations of a queue send, from `op` on, until a transfer takes time."""
    size, route, left = ranks.program.size_bytes, ranks.program.route, ranks.left
    paths, rules = level.paths, level.rules
    while True:
        one_packet = 0 < rules.mtu_bytes >= size[op]
        wire = size[op] + (rules.header_bytes if one_packet else 0)
        if ranks.sends[op] == DATA:
            has_waited = left[op] >= 0
            left[op] = now
            if one_packet and not has_waited:
                # A message of one packet departs after the one-packet messages of the other queue
                # pairs of the adapter.
                free = level.pairs.adapter_free_ns
                adapter = paths.source[route[op]]
                begin = max(now, free[adapter])
                free[adapter] = begin + wire / paths.source_rate_bytes_per_ns[route[op]]
                if begin > same_until(now):
                    left[op] = begin
                    push_event(ranks.heap, begin, BEGIN | op)
                    return
            if wire > 0:
                _start_flow(route[op], level, maxmin, penalty, op, wire, now)
                return
        _has_left(ranks, level, op, now)
        after = np.int64(ranks.left_below[op])
        if after == 0:
            level.pairs.last[_queue(ranks, level, op)] = 0
            return
        op = after - 1


@part_njit()
def _start_flow(route, level, maxmin, penalty, op, wire_bytes, now):
    """Start a flow for a message of `wire_bytes`."""
    flows, count = level.flows, level.count
    count.free -= 1
    slot = flows.free[count.free] if count.free >= 0 else count.slots
    if count.free < 0:
        count.free = 0
        count.slots += 1
    flows.op[slot] = op
    flows.left_bytes[slot] = wire_bytes
    flows.since_ns[slot] = now
    flows.shared_rate[slot] = 0.0
    flows.rate[slot] = 0.0
    flows.end_ns[slot] = np.inf
    flows.coming[count.coming] = slot
    count.coming += 1
    count.active += 1
    count.peak = max(count.peak, count.active)
    if maxmin is not None:
        maxmin_add(maxmin, slot, route)
    if penalty is not None:
        penalty_add(penalty, slot, route, level.paths.source[route], level.paths.destination[route])


@part_njit()
def _remove_flow(slot, route, level, maxmin, penalty):
    """Remove a flow from the sharing model."""
    if maxmin is not None:
        maxmin_remove(maxmin, slot)
    if penalty is not None:
        penalty_remove(penalty, slot, level.paths.source[route], level.paths.destination[route])


@part_njit()
def _share(route, level, maxmin, penalty):
    """Compute rates again, and the end of each flow whose rate has changed."""
    flows, count = level.flows, level.count
    changed, rate, shared, end = flows.changed, flows.rate, flows.shared_rate, flows.end_ns
    now = count.now_ns
    for at in range(count.leaving):
        slot = flows.leaving[at]
        _remove_flow(slot, route[flows.op[slot]], level, maxmin, penalty)
        flows.free[count.free] = slot
        count.free += 1
    count.leaving = 0
    news = 0
    if maxmin is not None:
        news = maxmin_solve(maxmin, shared, changed, SLACK * level.rules.tolerance)
    elif penalty is not None:
        news = penalty_solve(penalty, shared, changed)
    else:
        for at in range(count.coming):
            slot = flows.coming[at]
            shared[slot] = level.paths.rate_bytes_per_ns[route[flows.op[slot]]]
            changed[news] = slot
            news += 1
    count.coming = 0
    count.solves += 1
    count.changes += news
    blocks = 0
    for at in range(news):
        slot = changed[at]
        if shared[slot] == rate[slot]:
            continue
        left = max(flows.left_bytes[slot] - rate[slot] * (now - flows.since_ns[slot]), 0.0)
        flows.left_bytes[slot] = left
        flows.since_ns[slot] = now
        rate[slot] = shared[slot]
        end[slot] = now + left / shared[slot] if shared[slot] > 0 else np.inf
        block = slot >> BLOCK_SHIFT
        if flows.block_end_ns[block] >= 0:
            # -1 marks a listed block; its earliest end is found again below.
            flows.block_end_ns[block] = -1.0
            flows.touched[blocks] = block
            blocks += 1
    for at in range(blocks):
        _end_of_block(end, flows.block_end_ns, flows.touched[at])


@part_njit()
def _end_of_block(end_ns, block_end_ns, block):
    soonest = np.inf
    base = block << BLOCK_SHIFT
    for slot in range(base, base + (1 << BLOCK_SHIFT)):
        soonest = min(soonest, end_ns[slot])
    block_end_ns[block] = soonest


@part_njit()
def _end_flows(ranks, level, maxmin, penalty, now, until):
    """End the flows departed by `until`, in program order; start the messages behind them."""
    flows, count = level.flows, level.count
    end, block_end, changed = flows.end_ns, flows.block_end_ns, flows.changed
    blocks = (count.slots + (1 << BLOCK_SHIFT) - 1) >> BLOCK_SHIFT
    left = 0
    for block in range(blocks):
        if block_end[block] > until:
            continue
        base = block << BLOCK_SHIFT
        for slot in range(base, min(base + (1 << BLOCK_SHIFT), count.slots)):
            if end[slot] > until:
                continue
            end[slot] = np.inf
            count.active -= 1
            flows.leaving[count.leaving] = slot
            count.leaving += 1
            changed[left] = flows.op[slot]
            left += 1
        _end_of_block(end, block_end, block)
    sort_part(changed, 0, left)
    for at in range(left):
        op = np.int64(changed[at])
        _has_left(ranks, level, op, now)
        after = np.int64(ranks.left_below[op])
        if after:
            _serve(ranks, level, maxmin, penalty, after - 1, now)
        else:
            level.pairs.last[_queue(ranks, level, op)] = 0


@lean_njit()
def post(ranks, begin, end):
    """Schedule the starts of operations that are added to a run, each at its release."""
    for op in range(begin, end):
        push_event(ranks.heap, ranks.program.release[op], START | op)


@lean_njit()
def share_again(ranks, level, maxmin):
    """Add the flows under way to a max-min state without flows, and compute their rates."""
    flows = level.flows
    for slot in range(level.count.slots):
        if flows.end_ns[slot] < np.inf:
            maxmin_add(maxmin, slot, ranks.program.route[flows.op[slot]])
    maxmin_solve(maxmin, flows.shared_rate, flows.changed, SLACK * level.rules.tolerance)


@lean_njit()
def run(ranks, level, maxmin, penalty, most_events):
    """Simulate until all operations have ended, the time is up, or a number of instants has passed.

    `ranks`: a `weft.kernels.program.state.Ranks`, with times in float64 ns. `level`: a
    `weft.kernels.flow.state.Level`. `maxmin`, `penalty`: the sharing model in use is a
    `MaxMinState` or a `PenaltyState`, and the other is None; without contention, both are None.
    `most_events`: number of instants (distinct times of events) after which the loop returns.

    Returns DONE, MORE (after `most_events`, or `most_arrivals` of the rules), TIME_OUT, STUCK (no
    events, but operations left), or ASKED (`Ranks.asked` is not empty).
    """
    count, joining = level.count, ranks.joining
    block_end = level.flows.block_end_ns
    events = 0
    while True:
        now = count.now_ns
        until = same_until(now)
        while ranks.count.ready_tail or ranks.count.joining:
            # Messages posted at one time depart in program order, before messages that arrivals
            # start.
            arrivals = ranks.count.joining
            start_ready(ranks, now, until)
            joined = ranks.count.joining
            sort_part(joining, arrivals, joined)
            for index in range(arrivals, arrivals + joined):
                op = np.int64(joining[index if index < joined else index - joined])
                _join(ranks, level, maxmin, penalty, op, now)
            # Without latency, the arrivals in this loop may have put more operations on the list.
            for index in range(joined, ranks.count.joining):
                joining[index - joined] = joining[index]
            ranks.count.joining -= joined
        if ranks.count.asked:
            return ASKED
        soonest = np.inf
        blocks = (count.slots + (1 << BLOCK_SHIFT) - 1) >> BLOCK_SHIFT
        for block in range(blocks):
            soonest = min(soonest, block_end[block])
        time = min(soonest, next_start(ranks, np.inf))
        if time > until:
            # There are no further events at the present time.
            if count.leaving or count.coming:
                _share(ranks.program.route, level, maxmin, penalty)
                continue
            if ranks.count.arrived >= level.rules.most_arrivals:
                return MORE
            if time == np.inf:
                return DONE if ranks.count.ended == len(ranks.program.kind) else STUCK
            if time > level.rules.max_time_ns:
                return TIME_OUT
            if events >= most_events:
                return MORE
            events += 1
            count.now_ns = now = time
            until = same_until(time)
        program_events(ranks, now, until)
        if soonest <= until:
            _end_flows(ranks, level, maxmin, penalty, now, until)
