"""The event loop of the packet level: packets are routed, links grant them, ranks go on.

An event is a packet that is routed at a node, or a link that wakes up because something that it
waits for is known to come then; all else is worked out when it is needed: when a link is free
again, when an input port is, when credits are back. `docs/packet-level.md` has the rules.
"""

import numpy as np

from weft.kernels.flow_events import (
    HEAP,
)
from weft.kernels.lean import lean_njit
from weft.kernels.packet_adapter import (
    JOINED,
    choose_pair,
    deliver,
    inject,
    join,
)
from weft.kernels.packet_lanes import credits_of, duration, lane_served, rounded, wake
from weft.kernels.packet_layout import (
    ARRIVAL,
    ASKING,
    BUSY,
    BYTES,
    CREDITS,
    DIRTY,
    EVENTS,
    FAULT_OP,
    FAULT_ROW,
    FREE_AT,
    FREE_SLOTS,
    GRANTING,
    HEAD_ROW,
    HOPS,
    JOINING,
    LANE,
    LANES,
    LINK,
    MAX_TIME,
    NEVER,
    NOW,
    OP,
    PACKETS,
    TAIL_ROW,
    TIMELINE,
    TRACED,
    WAIT,
    WAKE_AT,
    WAKES,
    WIRE_BYTES,
)
from weft.kernels.packet_program import program_events, starts
from weft.kernels.packet_queue import give_slot, lowest_dirty, mark, next_time, pop, push
from weft.kernels.packet_route import route
from weft.kernels.packet_switch import choose_packet, enqueue, take
from weft.kernels.program import (
    ENDED,
    READY_HEAD,
    READY_TAIL,
    takes,
    waits,
)

# Why the loop returned.
DONE = 0
MORE = 1
TIME_OUT = 2
STUCK = 3
NO_ROOM = 4
NO_WAY = 5
NO_TRACE = 6
PAUSED = 7

#: Slots that one event or grant may take.
ROOM = 16
#: Columns of a traced hop: message, packet, link, lane, when it could leave, left, had left.
HOP_WIDTH = 7


@lean_njit(forceinline=True)
def _grant(
    setting, number, network, pool, wheel, state, lanes, arbiter, counts, queues, dirty, is_dirty,
    ends_state, tables, pick, trace, program, times, heap, link, now,
):  # fmt: skip
    """Let a link grant a packet if it can, or be woken up when it may."""
    if not state[link, ASKING]:
        return
    if state[link, FREE_AT] > now:
        wake(setting, number, pool, wheel, state, link, state[link, FREE_AT])
        return
    slots, slot_time = pool[0], pool[1]
    adapter = network[0][link, TAIL_ROW] < 0
    if adapter:
        pair = choose_pair(
            setting, number, pool, ends_state, state, lanes, arbiter, tables, pick, link, now
        )
        found = pair >= 0
        slot = np.int64(-1)
    else:
        pair = np.int64(-1)
        slot = choose_packet(
            setting, number, network, pool, state, lanes, queues, arbiter, tables, pick, link, now
        )
        found = slot >= 0
    if not found:
        if pick[1] < NEVER:
            wake(setting, number, pool, wheel, state, link, pick[1])
        return
    picked = pick[0]
    lane = picked >> 1
    could = now
    if adapter:
        messages, pairs = ends_state[2], ends_state[0]
        op = pairs[pair, 0]
        if times[4][op] < 0:
            could = messages[op, JOINED]
        slot = inject(
            setting, number, network, pool, ends_state, state, lanes, program, times, heap, pair,
            link, lane, now,
        )  # fmt: skip
    else:
        could = slot_time[slot]
    size = np.int64(slots[slot, BYTES])
    lasts = duration(setting, network, link, size)
    until = now + lasts
    state[link, FREE_AT] = until
    if adapter and network[2][link] > 0:
        state[link, FREE_AT] = now + max(lasts, rounded(size, network[2][link]))
    state[link, BUSY] += lasts
    lanes[link * setting[LANES] + lane, CREDITS] -= credits_of(setting, size)
    lane_served(setting, arbiter[link], picked, size)
    count = counts[link * setting[LANES] + lane]
    count[PACKETS] += 1
    count[WIRE_BYTES] += size
    count[WAIT] += now - could
    number[HOPS] += 1
    traced = trace[0]
    if len(traced) and traced[slots[slot, OP]]:
        hop = trace[1][number[TRACED]]
        hop[0], hop[1], hop[2], hop[3] = slots[slot, OP], slots[slot, 8], link, lane
        hop[4], hop[5], hop[6] = could, now, until
        number[TRACED] += 1
    if not adapter:
        take(
            setting, number, network, pool, wheel, state, lanes, queues, dirty, is_dirty, slot,
            until, now,
        )  # fmt: skip
    if state[link, ASKING]:
        wake(setting, number, pool, wheel, state, link, state[link, FREE_AT])
    if network[0][link, HEAD_ROW] < 0:
        deliver(
            setting, number, network, pool, wheel, ends_state, state, lanes, program, times, heap,
            slot, link, lane, now,
        )  # fmt: skip
        return
    slots[slot, LINK] = link
    slots[slot, LANE] = lane
    push(setting, number, pool, wheel, slot, now + network[0][link, ARRIVAL])


@lean_njit()
def run(
    setting, number, network, pool, wheel, state, lanes, arbiter, counts, queues, dirty, is_dirty,
    ends_state, tables, pick, trace, ways, choice, program, times, heap, timeline, moves,
    until, most_events,
):  # fmt: skip
    """Go on until all is done, a time has come, nothing moves, or so many events have passed.

    Parameters
    ----------
    setting, number
        int64: what was set and what counts, by the places of `packet_layout` and `program`.
    network
        What links are (rows of `packet_layout`), their rates and those of memory behind them, the
        incoming link of each port of each row and the first of a row.
    pool
        Slots, their times, and those that are free.
    wheel
        Of `packet_queue`.
    state, lanes, arbiter, counts
        Rows of links and lanes as `packet_layout` has them.
    queues
        First and last of each queue, who asks each lane of a link, and when input ports are free.
    dirty, is_dirty
        Links that may have something to grant.
    ends_state
        Queue pairs, connections, messages, next in each, what operations send, the queue pair,
        connection and route of each operation, and of each route first link, lane, way and level.
    tables
        High and low table of lane arbitration.
    pick
        int64 scratch.
    trace
        Which operations to trace, and rows for their hops.
    ways, choice
        See `packet_route.route`.
    program, times, heap
        See `flow_engine.run`; int64 ps.
    timeline
        int32: operations that wait for nothing but their release, by that.
    moves
        What operations send (of `ends_state`), those that join their queue pairs in this instant,
        and the rate within hosts, Gb/s.
    until
        Time after which nothing is done yet.
    most_events
        Instants to pass before the loop returns.

    Returns
    -------
    int: DONE, MORE, TIME_OUT, STUCK, NO_ROOM (more slots are needed), NO_WAY, NO_TRACE or
    PAUSED (`until` has come).
    """
    ready, joining = times[1], moves[1]
    slots = pool[0]
    release = program[5]
    instants = 0
    while True:
        now = number[NOW]
        if not number[GRANTING]:
            # (a) packets that are routed, and links that wake up
            while next_time(setting, number, pool, wheel) <= now:
                if number[FREE_SLOTS] < ROOM:
                    return NO_ROOM
                slot = pop(number, wheel)
                number[EVENTS] += 1
                if slots[slot, LANE] == WAKES:
                    link = np.int64(slots[slot, LINK])
                    give_slot(pool, number, slot)
                    if state[link, WAKE_AT] <= now:
                        state[link, WAKE_AT] = NEVER
                    mark(number, dirty, is_dirty, link)
                    continue
                flow = np.int64(ends_state[7][slots[slot, OP]])
                if not route(setting, number, network, pool, lanes, ways, choice, slot, flow, now):
                    number[FAULT_ROW] = network[0][slots[slot, LINK], HEAD_ROW]
                    number[FAULT_OP] = slots[slot, OP]
                    return NO_WAY
                enqueue(
                    setting, number, network, pool, wheel, state, lanes, queues, dirty, is_dirty,
                    slot, now,
                )  # fmt: skip
            # (b) what programs wait for
            if (number[HEAP] and heap[0][0] <= now) or (
                number[TIMELINE] < len(timeline) and release[timeline[number[TIMELINE]]] <= now
            ):
                program_events(setting, number, moves, program, times, heap, timeline, now)
            # (c) operations that have become ready
            while number[READY_HEAD] < number[READY_TAIL]:
                op = np.int64(ready[number[READY_HEAD]])
                number[READY_HEAD] += 1
                if takes(program, setting, op) > 0 and waits(program, times, heap, number, op, now):
                    continue
                starts(setting, number, moves, program, times, heap, op, now)
            number[READY_HEAD] = number[READY_TAIL] = 0
            for place in range(number[JOINING]):
                join(
                    setting, number, ends_state, state, lanes, dirty, is_dirty, program[2],
                    np.int64(joining[place]), now,
                )  # fmt: skip
            number[JOINING] = 0
        # (d) grants
        while number[DIRTY]:
            number[GRANTING] = 1
            if number[FREE_SLOTS] < ROOM:
                return NO_ROOM
            if len(trace[0]) and number[TRACED] == len(trace[1]):
                return NO_TRACE
            link = lowest_dirty(number, dirty, is_dirty)
            _grant(
                setting, number, network, pool, wheel, state, lanes, arbiter, counts, queues,
                dirty, is_dirty, ends_state, tables, pick, trace, program, times, heap, link, now,
            )  # fmt: skip
        number[GRANTING] = 0
        time = next_time(setting, number, pool, wheel)
        if number[HEAP]:
            time = min(time, heap[0][0])
        if number[TIMELINE] < len(timeline):
            time = min(time, release[timeline[number[TIMELINE]]])
        if time > now:
            if time == NEVER:
                return DONE if number[ENDED] == len(program[0]) else STUCK
            if time > setting[MAX_TIME]:
                return TIME_OUT
            if time > until:
                return PAUSED
            if instants >= most_events:
                return MORE
            instants += 1
            number[NOW] = time
