"""The event loop of the packet level: packets are routed, links grant them, ranks go on.

An event is a packet that is routed at a node, or a link that wakes up because something that it
waits for is known to come then; all else is worked out when it is needed: when a link is free
again, when an input port is, when credits are back. `docs/packet-level.md` has the rules.
"""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.adapter import (
    READY,
    can_send,
    choose_pair,
    deliver,
    inject,
    join,
)
from weft.kernels.packet.conga import conga_sent
from weft.kernels.packet.congestion_control import NOTICE, mark_packet, send_notice
from weft.kernels.packet.congestion_control_events import happens
from weft.kernels.packet.lanes import credits_of, duration, lane_served, rounded, span, wake
from weft.kernels.packet.layout import (
    ARRIVAL,
    ASKING,
    BUSY,
    BYTES,
    CONGESTION,
    CREDITS,
    DIRTY,
    EVENTS,
    FAULT_OP,
    FAULT_ROW,
    FREE_AT,
    FREE_NOTES,
    FREE_SLOTS,
    GRANTING,
    HEAD_ROW,
    HOPS,
    IN_FLIGHT,
    LANE,
    LANES,
    LINK,
    MAX_TIME,
    NEVER,
    NOW,
    OP,
    PACKETS,
    TAIL_ROW,
    TRACED,
    WAIT,
    WAKE_AT,
    WAKES,
    WATCHES,
    WIRE_BYTES,
)
from weft.kernels.packet.queue import give_slot, lowest_dirty, mark, next_time, pop, push
from weft.kernels.packet.route import route
from weft.kernels.packet.switch import choose_packet, enqueue, take
from weft.kernels.program.operations import next_start, program_events, start_ready

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
#: Columns of a traced hop: message, packet, link, lane, when it could leave, left, had left, and
#: when it could leave and was the first of its queue.
HOP_WIDTH = 8


@part_njit()
def _grant(net, ranks, link, now):
    """Let a link grant a packet if it can, or be woken up when it may."""
    if not net.state[link, ASKING]:
        return
    if net.state[link, FREE_AT] > now:
        wake(net, link, net.state[link, FREE_AT])
        return
    slots, slot_time = net.slots, net.slot_time
    adapter = net.fixed[link, TAIL_ROW] < 0
    if adapter:
        pair = choose_pair(net, link, now)
        found = pair != -1
        slot = np.int64(-1)
    else:
        pair = np.int64(-1)
        slot = choose_packet(net, link, now)
        found = slot >= 0
    if not found:
        if net.pick[1] < NEVER:
            wake(net, link, net.pick[1])
        return
    picked = net.pick[0]
    lane = picked >> 1
    could = now
    if pair == NOTICE:
        slot = send_notice(net, link, lane)
        could = slot_time[slot]
    elif adapter:
        could = can_send(net, pair)
        slot = inject(net, ranks, pair, link, lane, now)
    else:
        could = slot_time[slot]
    size = np.int64(slots[slot, BYTES])
    lasts = duration(net, link, size)
    until = now + lasts
    net.state[link, FREE_AT] = until
    if adapter and net.memory[link] > 0:
        net.state[link, FREE_AT] = now + max(lasts, rounded(size, net.memory[link]))
        net.cable_free[link] = until
    if pair >= 0:
        net.messages[slots[slot, OP], READY] = net.state[link, FREE_AT]
    net.lanes[link * net.setting[LANES] + lane, CREDITS] -= credits_of(net, size)
    lane_served(net, link, picked, size)
    count = net.counts[link * net.setting[LANES] + lane]
    count[PACKETS] += 1
    count[WIRE_BYTES] += size
    count[WAIT] += now - could
    count[BUSY] += lasts
    net.number[HOPS] += 1
    traced = net.traced
    if len(traced) and traced[slots[slot, OP]]:
        hop = net.hops[net.number[TRACED]]
        hop[0], hop[1], hop[2], hop[3] = slots[slot, OP], slots[slot, 8], link, lane
        hop[4], hop[5], hop[6] = could, now, until
        hop[7] = could if adapter else max(could, net.first_at[slot])
        net.number[TRACED] += 1
    if not adapter:
        if net.setting[WATCHES]:
            conga_sent(net, slot, link, size, now)
        take(net, slot, until, now)
        if net.setting[CONGESTION]:
            mark_packet(net, slot, link, lane)
    if net.state[link, ASKING]:
        wake(net, link, net.state[link, FREE_AT])
    if net.fixed[link, HEAD_ROW] < 0:
        deliver(net, ranks, slot, link, lane, now)
        return
    slots[slot, LINK] = link
    slots[slot, LANE] = lane
    push(net, slot, now + span(net, link, ARRIVAL))


@lean_njit()
def run(net, ranks, until, most_events):
    """Go on until all is done, a time has come, nothing moves, or so many events have passed.

    Parameters
    ----------
    net
        A `Net`.
    ranks
        A `weft.kernels.program.state.Ranks`, times being int64 ps.
    until
        Time after which nothing is done yet.
    most_events
        Instants to pass before the loop returns.

    Returns
    -------
    int: DONE, MORE, TIME_OUT, STUCK, NO_ROOM (more slots are needed), NO_WAY, NO_TRACE or PAUSED
    (`until` has come).
    """
    setting, number = net.setting, net.number
    slots = net.slots
    instants = 0
    while True:
        now = number[NOW]
        if not number[GRANTING]:
            # (a) packets that are routed, and links that wake up
            while next_time(net) <= now:
                if number[FREE_SLOTS] < ROOM or number[FREE_NOTES] < ROOM:
                    return NO_ROOM
                slot = pop(net)
                number[EVENTS] += 1
                if slots[slot, LANE] < WAKES:
                    happens(net, slot, now)
                    continue
                if slots[slot, LANE] == WAKES:
                    link = np.int64(slots[slot, LINK])
                    give_slot(net, slot)
                    if net.state[link, WAKE_AT] <= now:
                        net.state[link, WAKE_AT] = NEVER
                    mark(net, link)
                    continue
                if not route(net, slot, now):
                    number[FAULT_ROW] = net.fixed[slots[slot, LINK], HEAD_ROW]
                    number[FAULT_OP] = slots[slot, OP]
                    return NO_WAY
                enqueue(net, slot, now)
            # (b) what programs wait for
            if next_start(ranks, NEVER) <= now:
                program_events(ranks, now, now)
            # (c) operations that have become ready
            start_ready(ranks, now, now)
            for place in range(ranks.count.joining):
                join(net, ranks.program.size_bytes, np.int64(ranks.joining[place]), now)
            ranks.count.joining = 0
        # (d) grants
        while number[DIRTY]:
            number[GRANTING] = 1
            if number[FREE_SLOTS] < ROOM or number[FREE_NOTES] < ROOM:
                return NO_ROOM
            if len(net.traced) and number[TRACED] == len(net.hops):
                return NO_TRACE
            link = lowest_dirty(net)
            _grant(net, ranks, link, now)
        number[GRANTING] = 0
        time = next_start(ranks, next_time(net))
        if time > now:
            if time == NEVER:
                # Puts end when they have left, which is before they have arrived.
                over = ranks.count.ended == len(ranks.program.kind) and number[IN_FLIGHT] == 0
                return DONE if over else STUCK
            if time > setting[MAX_TIME]:
                return TIME_OUT
            if time > until:
                return PAUSED
            if instants >= most_events:
                return MORE
            instants += 1
            number[NOW] = time
