"""The event loop of the packet level: packets are routed, links grant them, ranks proceed.

An event is the routing of a packet at a row, or the wake-up of a link at a time from which it may
grant a packet. Other changes (a link or an input port becomes free, credits return) are recorded
as times and compared when needed. `docs/packet-level.md` has the rules.
"""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.adapter import can_send, choose_pair, deliver, inject, join
from weft.kernels.packet.calendar import give_slot, lowest_due, mark, next_time, pop, push
from weft.kernels.packet.congestion_control import NOTICE, mark_packet, send_notice
from weft.kernels.packet.congestion_control_events import happens
from weft.kernels.packet.lanes import (
    credits_of,
    duration,
    kind_of,
    lane_served,
    rounded,
    wake,
)
from weft.kernels.packet.records import NEVER, WAKES
from weft.kernels.packet.route import route
from weft.kernels.packet.switch import choose_packet, enqueue, take
from weft.kernels.parts import call_for_int
from weft.kernels.program.operations import next_start, program_events, start_ready

# Reasons for which the loop returns.
DONE = 0
MORE = 1
TIME_OUT = 2
STUCK = 3
NO_ROOM = 4
NO_PATH = 5
NO_TRACE = 6
PAUSED = 7
ASKED = 8

#: Largest number of calendar slots, and of credit returns, that one event or grant takes.
ROOM = 16


@part_njit()
def _grant(net, ranks, number, now):
    """Grant a packet to link `number` if it can send now, or schedule its wake-up."""
    link, rules, count = net.topology.links[number], net.rules, net.count
    if not link.asking:
        return
    if link.free_at_ps > now:
        wake(net, number, link.free_at_ps)
        return
    adapter = link.tail_row < 0
    if adapter:
        pair = choose_pair(net, number, now)
        can_grant = pair != -1
        slot = np.int64(-1)
    else:
        pair = np.int64(-1)
        slot = choose_packet(net, number, now)
        can_grant = slot >= 0
    waits = net.arbitration.arbiters[number]
    if not can_grant:
        waits.ready_ps = min(waits.ready_ps, count.ready_ps)
        if count.soon_ps < NEVER:
            wake(net, number, count.soon_ps)
        return
    picked = count.picked
    lane = picked >> 1
    could = now
    if pair == NOTICE:
        slot = send_notice(net, number, lane)
        could = net.calendar.packets[slot].time_ps
    elif adapter:
        could = can_send(net, pair)
        slot = inject(net, ranks, pair, number, lane, now)
    else:
        could = net.calendar.packets[slot].time_ps
    packet, kind = net.calendar.packets[slot], kind_of(net, number)
    size = np.int64(packet.wire_bytes)
    lasts = duration(net, number, size)
    until = now + lasts
    waits.blocked_ps += max(now - max(waits.ready_ps, link.free_at_ps), 0)
    waits.ready_ps = NEVER
    link.free_at_ps = until
    if adapter and kind.memory_gbps > 0:
        link.free_at_ps = now + max(lasts, rounded(size, kind.memory_gbps))
        link.cable_free_ps = until
    if pair >= 0:
        net.adapters.messages[packet.op].ready_ps = link.free_at_ps
    sends = net.lanes[number * rules.lanes + lane]
    sends.credits -= credits_of(rules, size)
    lane_served(net.arbitration, rules, number, picked, size)
    sends.packets += 1
    sends.wire_bytes += size
    sends.wait_ps += now - could
    sends.busy_ps += lasts
    count.hops += 1
    if len(net.trace.traced) and net.trace.traced[packet.op]:
        hop = net.trace.hops[count.traced]
        hop.op = packet.op
        hop.sequence = packet.sequence
        hop.link = number
        hop.lane = lane
        hop.ready_ps = could
        hop.left_ps = now
        hop.gone_ps = until
        hop.front_ps = could if adapter else max(could, net.trace.front_ps[slot])
        count.traced += 1
    if not adapter:
        if rules.sent:
            call_for_int(rules.sent, (net, rules.kept, slot, number, size, now))
        take(net, slot, until, now)
        if rules.has_control:
            mark_packet(net, slot, number, lane)
    if link.asking:
        wake(net, number, link.free_at_ps)
    if link.head_row < 0:
        deliver(net, ranks, slot, number, lane, now)
        return
    packet.link = number
    packet.lane = lane
    push(net.calendar, slot, now + kind.arrival_ps)


@lean_njit()
def run(net, ranks, until, most_events):
    """Simulate.

    `net`: `weft.kernels.parts.StateParts` of a `weft.kernels.packet.net.Net`. `ranks`: StateParts
    of a `weft.kernels.program.state.Ranks`, with times in int64 ps. `until`: time after which no
    event is handled, ps. `most_events`: number of instants (distinct times of events) after which
    the loop returns.

    Returns DONE (no operations or packets left), MORE (after `most_events` instants), TIME_OUT (at
    `RULES.max_time_ps`), STUCK (no events, but operations or packets left), NO_ROOM (more slots are
    needed), NO_PATH (a packet without an output link), NO_TRACE (more room for hops is needed),
    PAUSED (at `until`) or ASKED (`Ranks.asked` is not empty).
    """
    count = net.count
    calendar = net.calendar
    instants = 0
    while True:
        now = count.now_ps
        if not count.granting:
            # (a) packets to route, and links that wake up
            while next_time(calendar) <= now:
                if calendar.state.free < ROOM or net.credits.state.free < ROOM:
                    return NO_ROOM
                slot = pop(calendar)
                count.events += 1
                packet = calendar.packets[slot]
                if packet.lane < WAKES:
                    happens(net, slot, now)
                    continue
                if packet.lane == WAKES:
                    link = np.int64(packet.link)
                    give_slot(calendar, slot)
                    if net.topology.links[link].wake_at_ps <= now:
                        net.topology.links[link].wake_at_ps = NEVER
                    mark(net, link)
                    continue
                if not route(net, slot, now):
                    count.fault_row = net.topology.links[packet.link].head_row
                    count.fault_op = packet.op
                    return NO_PATH
                enqueue(net, slot, now)
            # (b) events of programs
            if next_start(ranks, NEVER) <= now:
                program_events(ranks, now, now)
            # (c) operations that have become ready
            start_ready(ranks, now, now)
            for index in range(ranks.count.joining):
                join(net, ranks, np.int64(ranks.joining[index]), now)
            ranks.count.joining = 0
            if ranks.count.asked:
                return ASKED
        # (d) grants
        while count.due:
            count.granting = 1
            if calendar.state.free < ROOM or net.credits.state.free < ROOM:
                return NO_ROOM
            if len(net.trace.traced) and count.traced == len(net.trace.hops):
                return NO_TRACE
            _grant(net, ranks, lowest_due(net), now)
        count.granting = 0
        time = next_start(ranks, next_time(calendar))
        if time > now:
            if time == NEVER:
                # Puts end at departure, before their packets arrive.
                over = ranks.count.ended == len(ranks.program.kind) and count.in_flight == 0
                return DONE if over else STUCK
            if time > net.rules.max_time_ps:
                return TIME_OUT
            if time > until:
                return PAUSED
            if instants >= most_events:
                return MORE
            instants += 1
            count.now_ps = time
