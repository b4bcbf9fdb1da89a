"""The event loop of the packet level: packets are routed, links grant them, ranks proceed.

An event is the routing of a packet at a row, or the wake-up of a link at a time from which it may
grant a packet. Other changes (a link or an input port becomes free, credits return) are recorded
as times and compared when needed. `docs/packet-level.md` has the rules.
"""

import numpy as np

from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.adapter import can_send, choose_pair, deliver, foresee, inject, join
from weft.kernels.packet.calendar import (
    give_slot,
    lowest_due,
    mark,
    next_time,
    pop,
    put_on_cable,
)
from weft.kernels.packet.congestion_control import NOTICE, mark_packet, send_notice
from weft.kernels.packet.congestion_control_events import happens
from weft.kernels.packet.lanes import credits_of, duration, kind_of, lane_served, rounded, wake
from weft.kernels.packet.mail import agree, send_on, take_mail
from weft.kernels.packet.records import NEVER
from weft.kernels.packet.route import CANDIDATES, TABLES, route
from weft.kernels.packet.switch import choose_packet, enqueue, look_ahead, take
from weft.kernels.parts import call_for_int
from weft.kernels.prefetch import prefetch
from weft.kernels.program.operations import next_start, program_events, start_ready

# Reasons for which the loop returns, and BEYOND within it: no event is left before the horizon.
BEYOND = 0
DONE = 1
MORE = 2
TIME_OUT = 3
STUCK = 4
NO_ROOM = 5
NO_PATH = 6
NO_TRACE = 7
PAUSED = 8
ASKED = 9
JOINS = 10

#: Largest number of calendar slots, and of credit returns, that one event or grant takes.
ROOM = 16
#: Largest number of letters to other parts that one grant takes.
LETTERS = 2


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
    if not can_grant:
        link.ready_ps = min(link.ready_ps, count.ready_ps)
        if count.soon_ps < NEVER:
            wake(net, number, count.soon_ps)
        return
    picked = count.picked
    lane = picked >> 1
    if pair == NOTICE:
        slot = send_notice(net, number, lane)
        could = net.calendar.packets[slot].time_ps
    elif adapter:
        could = can_send(net, pair)
        slot = inject(net, ranks, pair, number, lane, now)
    else:
        could = net.calendar.packets[slot].time_ps
    packet, kind = net.calendar.packets[slot], kind_of(net, number)
    if rules.route_kind == TABLES:
        forwarding = net.tables.forwarding
        prefetch(forwarding, packet.address * forwarding.shape[1] + link.head_row)
    size = np.int64(packet.wire_bytes)
    lasts = duration(net, number, size)
    until = now + lasts
    link.blocked_ps += max(now - max(link.ready_ps, link.free_at_ps), 0)
    link.ready_ps = NEVER
    link.free_at_ps = until
    if adapter and kind.memory_gbps > 0:
        link.free_at_ps = now + max(lasts, rounded(size, kind.memory_gbps))
        net.adapters.memories[number].cable_free_ps = until
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
    if rules.route_kind != CANDIDATES:
        route(net, slot, now)  # what does not depend on the state is known before it arrives
    if rules.is_watched:
        put_on_cable(net, number, slot)
    send_on(net, slot, now + kind.arrival_ps)


@part_njit()
def _advance(net, ranks, most_events):
    """Handle the events before `COUNT.horizon_ps`.

    Returns BEYOND at the horizon, or as `run`.
    """
    count, calendar, lookahead = net.count, net.calendar, net.rules.lookahead_ps
    while True:
        now = count.now_ps
        if not count.granting:
            # (a) packets to route, and links that wake up
            while next_time(calendar) <= now:
                if calendar.state.free < ROOM or net.credits.state.free < ROOM:
                    return NO_ROOM
                slot = pop(calendar)
                look_ahead(net, ranks)
                if calendar.events[slot].link < 0:
                    link = ~np.int64(calendar.events[slot].link)
                    give_slot(calendar, slot)
                    if net.topology.links[link].wake_at_ps <= now:
                        net.topology.links[link].wake_at_ps = NEVER
                    mark(net, link)
                    continue
                count.events += 1
                packet = calendar.packets[slot]
                if packet.lane < 0:
                    happens(net, slot, now)
                    continue
                if net.rules.is_watched:
                    net.cables[packet.link].first = packet.next
                if net.rules.route_kind == CANDIDATES:
                    route(net, slot, now)
                if packet.out_link < 0:
                    count.fault_row = net.topology.links[packet.link].head_row
                    count.fault_op = packet.op
                    return NO_PATH
                enqueue(net, slot, now)
            # (b) events of programs
            if next_start(ranks, np.int64(NEVER)) <= now:
                program_events(ranks, now, now)
                foresee(net, ranks)
            # (c) operations that have become ready
            start_ready(ranks, now, now)
            if net.rules.is_watched and ranks.count.joining:
                return JOINS
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
            if count.mailed + LETTERS > net.rules.box_size:
                return BEYOND
            _grant(net, ranks, lowest_due(net), now)
        count.granting = 0
        time = next_start(ranks, next_time(calendar))
        if time > now:
            if time >= count.horizon_ps:
                return BEYOND
            # Parts that act side by side stop where they meet: what they ask for together must not
            # depend on `most_events`.
            if count.instants >= most_events and time + 2 * lookahead <= count.horizon_ps:
                return MORE
            count.instants += 1
            count.now_ps = time


@part_njit()
def _upcoming(net, ranks):
    """Return the time of the next event; the present time if its instant is not over."""
    if net.count.granting or net.count.due or ranks.count.ready_tail:
        return net.count.now_ps
    return next_start(ranks, next_time(net.calendar))


@lean_njit(nogil=True)
def run(net, ranks, until, most_events):
    """Simulate a part of the fabric; all parts are simulated at the same time.

    `net`: `weft.kernels.parts.StateParts` of a `weft.kernels.packet.net.Net`. `ranks`: StateParts
    of a `weft.kernels.program.state.Ranks`, with times in int64 ps. `until`: time after which no
    event is handled, ps. `most_events`: number of instants (distinct times of events) after which
    the loop returns.

    Returns DONE (no events; STUCK, if operations or packets are left, is for the caller to find),
    MORE (after `most_events` instants of a part), TIME_OUT (at `RULES.max_time_ps`), NO_ROOM (more
    slots are needed), NO_PATH (a packet without an output link), NO_TRACE (more room for hops is
    needed), PAUSED (at `until`), ASKED (`Ranks.asked` is not empty) or JOINS (if
    `RULES.is_watched`, before messages join their queue pairs). If the reason is in one part, the
    others return MORE.
    """
    count, several = net.count, net.rules.parts > 1
    last = min(until, net.rules.max_time_ps)
    count.instants = 0
    count.horizon_ps = last + 1
    why = np.int64(BEYOND)
    if several and not take_mail(net):
        why = np.int64(NO_ROOM)
    while True:
        time = np.int64(_upcoming(net, ranks))
        if several:
            time = agree(net, time, why)
            if time >= 0 and not take_mail(net):
                why = np.int64(NO_ROOM)
                if time <= last:
                    continue  # the others, which go on, learn of it at the next meeting
            count.horizon_ps = min(count.horizon_ps, last + 1)
        if why != BEYOND:
            return why
        if time < 0:
            return MORE
        if time == NEVER:
            return DONE
        if time > last:
            return TIME_OUT if time > net.rules.max_time_ps else PAUSED
        why = np.int64(_advance(net, ranks, most_events))
        if several and why == BEYOND and count.instants >= most_events:
            why = np.int64(MORE)
