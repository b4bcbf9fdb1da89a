"""Fast-forward of the packet level: parts of the traffic that repeat themselves are skipped.

Messages whose paths share links are one *part* of the traffic. Its state is that of its links:
packets, credits, queues and turns. When this state, relative to the present, is the same as before,
the part repeats itself until one of its messages ends or another joins its links. It is then
*frozen*: its events are taken out of the calendar for a number of whole periods, after which its
times are shifted and what was sent in one period is counted for all. If a message joins earlier,
time is set back to the last whole period, and the part is simulated up to the message.

`net` is a `weft.kernels.packet.net.Net`, `ranks` a `weft.kernels.program.state.Ranks`, `steady` a
`Steady`; times are int64 ps.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.hashing import GOLDEN, splitmix64
from weft.kernels.heaps import sift_up
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.packet.adapter import join
from weft.kernels.packet.calendar import (
    give_slot,
    lowest_due,
    mark,
    next_time,
    pop,
    push,
    take_slot,
)
from weft.kernels.packet.engine import DONE, JOINS, MORE, NO_ROOM, PAUSED, ROOM, TIME_OUT
from weft.kernels.packet.lanes import credits_now
from weft.kernels.packet.records import NEVER
from weft.kernels.packet.route import route
from weft.kernels.parts import call_for_int
from weft.kernels.program.events import pop_event
from weft.kernels.program.state import Heap
from weft.kernels.records import record_type

#: A part is compared at the end of a packet of a message, once in the time of so many packets.
EVERY = 2
#: Longest period that is found, in such comparisons.
RECENT = 32

#: Part of the traffic: messages whose paths are connected by common links.
PART = record_type(
    next_ps="i8",  # time of the next check, or of the end of the freeze; NEVER for none
    since_ps="i8",  # time of the state that is kept, -1 for none; of a frozen part, of the freeze
    period_ps="i8",  # period of a frozen part
    periods="i8",  # whole periods for which it is frozen at most
    present="u8",  # digests of the present state and of the present events
    events="u8",
    kept="u8",  # the same of the state kept
    kept_events="u8",
    first_op="i4",  # first of the list of messages
    first_link="i4",  # first of the list of links
    first_event="i4",  # first of the list of events that are out of the calendar
    next_read="i4",  # next part whose events are read
    paced_by="i4",  # message after whose packets the part is checked
    checks="i4",  # checks since a message joined or ended
    kept_at="i4",  # number of the check at which the state was kept
    is_frozen="u1",
    is_read="u1",  # 1 while its events are read
)

#: State and counters.
STATE = record_type(
    resume_ps="i8",  # time at which what was set aside goes on; NEVER for none
    joining="i8",  # numbers of messages that join and of links with packets to grant, set aside
    due="i8",
    skipped_hops="i8",  # packet-hops skipped
    frozen="i8",  # parts that are frozen
    freezes="i8",  # times that a part was frozen
)


class Steady(NamedTuple):
    """Parts of the traffic. A part has the number of one of its links."""

    #: One `STATE`, and `PART` [links].
    state: Any
    parts: Any
    #: int32 [links]: part of each link, -1 for none, and the next link of the same part.
    owner: Any
    next_link: Any
    #: int32 [ops]: next message of the same part; uint8: 1 for messages of parts.
    next_op: Any
    is_active: Any
    #: int64: what counters grow in a period, or until then the counters when the state was kept:
    #: four of each lane, then one of each queue, link and message.
    tallies: Any
    #: uint64 [links * RECENT]: digests of the last states of parts.
    recent: Any
    #: int32 [links]: scratch array for the links of a path, and links set aside.
    path: Any
    due: Any
    #: Heap of the next times of parts; an entry whose part has another time is void.
    actions: Heap


@part_njit()
def _mix(one, two, three):
    """Return a digest of three integers."""
    return splitmix64(splitmix64(np.uint64(one) * GOLDEN + np.uint64(two)) + np.uint64(three))


# -- parts -----------------------------------------------------------------------------------------


@part_njit()
def _follow(net, steady, op, now):
    """Write the links of a message's path to `Steady.path`, and return their number."""
    path, links = steady.path, net.topology.links
    way = net.adapters.routes[net.adapters.route[op]]
    slot = take_slot(net.calendar)
    packet = net.calendar.packets[slot]
    packet.op, packet.address, packet.level = op, way.address, way.level
    packet.marks, packet.via = 0, -1
    link, lane = np.int64(way.link), np.int64(way.lane)
    count = np.int64(0)
    while count < len(path):
        path[count] = link
        count += 1
        packet.link, packet.lane = link, lane
        if links[link].head_row < 0:
            break
        route(net, slot, now)
        if packet.out_link < 0:
            break  # it ends the run when it gets there
        link, lane = np.int64(packet.out_link), np.int64(packet.out_lane)
    give_slot(net.calendar, slot)
    return count


@part_njit()
def _schedule(steady, part, time):
    """Set the time of the next action of a part."""
    parts, heap = steady.parts, steady.actions
    if parts[part].next_ps == time:
        return
    parts[part].next_ps = time
    if heap.size.events == len(heap.time):  # drop void entries
        kept = np.int64(0)
        for index in range(len(heap.time)):
            if parts[heap.item[index]].next_ps == heap.time[index]:
                sift_up(heap.time, heap.item, kept, heap.time[index], heap.item[index])
                kept += 1
        heap.size.events = kept
    heap.size.events += 1
    sift_up(heap.time, heap.item, heap.size.events - 1, time, part)


@part_njit()
def _next_action(steady):
    """Return the time of the next action of a part; NEVER for none."""
    heap = steady.actions
    while heap.size.events:
        if steady.parts[heap.item[0]].next_ps == heap.time[0]:
            return heap.time[0]
        pop_event(heap)
    return np.int64(NEVER)


@part_njit()
def _watch(net, steady, part, time):
    """Watch a part anew from a time on."""
    watched = steady.parts[part]
    watched.checks = 0
    watched.since_ps = -1
    _schedule(steady, part, time)


@part_njit()
def _packet_time(net, op):
    """Return the time of a full packet on the first link of a message."""
    links = net.topology.links
    first = net.adapters.routes[net.adapters.messages[op].route].link
    return net.topology.kinds[links[first].kind].full_packet_ps


@part_njit()
def _unite(net, steady, op, now):
    """Add a message to the part of its links, and unite the parts that it connects."""
    parts, owner = steady.parts, steady.owner
    next_link, next_op = steady.next_link, steady.next_op
    hops = _follow(net, steady, op, now)
    part = np.int64(-1)
    for hop in range(hops):
        part = max(part, np.int64(owner[steady.path[hop]]))
    if part < 0:
        part = np.int64(steady.path[0])
        parts[part].first_op = -1
        parts[part].first_link = -1
    united = parts[part]
    for hop in range(hops):
        link = np.int64(steady.path[hop])
        other = np.int64(owner[link])
        if other < 0:
            owner[link] = part
            next_link[link] = united.first_link
            united.first_link = link
        elif other != part:
            link = np.int64(parts[other].first_link)
            while link >= 0:
                owner[link] = part
                after = np.int64(next_link[link])
                next_link[link] = united.first_link
                united.first_link = link
                link = after
            message = np.int64(parts[other].first_op)
            while message >= 0:
                after = np.int64(next_op[message])
                next_op[message] = united.first_op
                united.first_op = message
                message = after
            parts[other].next_ps = NEVER
    if not steady.is_active[op]:
        steady.is_active[op] = 1
        next_op[op] = united.first_op
        united.first_op = op
    united.paced_by = op
    _watch(net, steady, part, now + _packet_time(net, op))


@part_njit()
def _divide(net, steady, part, now):
    """Divide a part anew after messages have arrived."""
    link, op = np.int64(steady.parts[part].first_link), np.int64(steady.parts[part].first_op)
    steady.parts[part].next_ps = NEVER
    while link >= 0:
        steady.owner[link] = -1
        link = np.int64(steady.next_link[link])
    while op >= 0:
        after = np.int64(steady.next_op[op])
        steady.is_active[op] = 0
        if net.adapters.messages[op].missing_packets > 0:
            _unite(net, steady, op, now)
        op = after


# -- state of a part -------------------------------------------------------------------------------


@part_njit()
def _counted(tallies, index, counter, times, weight):
    """Return a counter increased `times` times by its tally; if `weight` <= 0, tally it."""
    if weight <= 0:
        tallies[index] = counter + weight * tallies[index]
    return counter + times * tallies[index] if times else counter


@part_njit()
def _visit(net, steady, part, now, times, weight):
    """Return a digest of the state of a part, without events, relative to `now`.

    All times are shifted by `times` periods, and all counters are increased `times` times by their
    tallies. A `weight` of 0 sets the tallies to the counters, and -1 to what counters have grown by
    since; 1 leaves them.
    """
    rules, links, packets, count = net.rules, net.topology.links, net.calendar.packets, net.count
    tallies, returns, adapters = steady.tallies, net.credits.returns, net.adapters
    of_queues = np.int64(4 * len(net.lanes))
    of_links = of_queues + len(net.queues)
    of_messages = of_links + len(links)
    shift = times * steady.parts[part].period_ps
    total = np.uint64(0)
    link = np.int64(steady.parts[part].first_link)
    while link >= 0:
        here, memory = links[link], adapters.memories[link]
        total += _mix(link, max(here.free_at_ps - now, 0), max(memory.free_at_ps - now, 0))
        # Waits that have begun count, too: they will be added to counters.
        if here.ready_ps < NEVER:
            total += _mix(link, max(here.ready_ps, here.free_at_ps) - now, -1)
            here.ready_ps += shift
        here.blocked_ps = _counted(tallies, of_links + link, here.blocked_ps, times, weight)
        here.free_at_ps += shift
        memory.free_at_ps += shift
        memory.cable_free_ps += shift
        if here.wake_at_ps < NEVER:
            here.wake_at_ps += shift
        if rules.lanes > 1:
            arbiter = net.arbitration.arbiters[link]
            high = np.int64(arbiter.high_entry) << 32 | np.int64(arbiter.high_left)
            low = np.int64(arbiter.low_entry) << 32 | np.int64(arbiter.low_left)
            total += _mix(_mix(link, arbiter.last_lane, arbiter.limit_left), high, low)
        for index in range(link * rules.lanes, (link + 1) * rules.lanes):
            lane = net.lanes[index]
            total += _mix(index, credits_now(net.credits, lane, now), lane.last_grant)
            if times or weight <= 0:
                packets_before = lane.packets
                lane.packets = _counted(tallies, 4 * index, lane.packets, times, weight)
                lane.wire_bytes = _counted(tallies, 4 * index + 1, lane.wire_bytes, times, weight)
                lane.wait_ps = _counted(tallies, 4 * index + 2, lane.wait_ps, times, weight)
                lane.busy_ps = _counted(tallies, 4 * index + 3, lane.busy_ps, times, weight)
                count.hops += lane.packets - packets_before
                steady.state.skipped_hops += lane.packets - packets_before
            at = np.int64(lane.first_return)
            while at >= 0:
                total += _mix(index, returns[at].time_ps - now, -np.int64(returns[at].credits))
                returns[at].time_ps += shift
                at = np.int64(returns[at].next)
            at, place = np.int64(lane.first_pair), np.int64(0)
            while at >= 0:
                place += 1
                total += _mix(~index, at << 32 | place, adapters.pairs[at].used_bytes)
                at = np.int64(adapters.pairs[at].next)
        first = np.int64(here.first_queue)
        queues = rules.lanes * here.queues if here.head_row >= 0 else 0
        for number in range(first, first + queues):
            queue = net.queues[number]
            queue.wait_ps = _counted(tallies, of_queues + number, queue.wait_ps, times, weight)
            slot, place = np.int64(queue.first), np.int64(0)
            while slot >= 0:
                place += 1
                what = np.int64(packets[slot].op) << 32 | np.int64(packets[slot].wire_bytes)
                total += _mix(number << 32 | place, what, packets[slot].time_ps - now)
                packets[slot].time_ps += shift
                slot = np.int64(packets[slot].next)
        for index in range(link * rules.speedup, (link + 1) * rules.speedup):
            total += _mix(link, max(net.port_free[index] - now, 0), -2)
            net.port_free[index] += shift
        link = np.int64(steady.next_link[link])
    op = np.int64(steady.parts[part].first_op)
    while op >= 0:
        message, left = adapters.messages[op], adapters.messages[op].left_bytes
        message.left_bytes = _counted(tallies, of_messages + op, left, times, weight)
        if times:
            sent = (left - message.left_bytes) // rules.mtu_bytes
            message.missing_packets -= sent
            adapters.connections[message.connection].sent_packets += sent
            count.injected += sent
            count.delivered += sent
            count.injected_bytes += sent * rules.full_packet_bytes
            count.delivered_bytes += sent * rules.full_packet_bytes
        if adapters.pairs[message.pair].first == op:
            total += _mix(op, message.ready_ps - now, -3)
            message.ready_ps += shift
        op = np.int64(steady.next_op[op])
    return total


@part_njit()
def _read_events(net, steady, now):
    """Take the events of the parts that are read out of the calendar, and make digests of them."""
    state, events, parts = net.calendar.state, net.calendar.events, steady.parts
    bucket = state.bucket
    first = np.int64(-1)
    while state.waiting:
        next_time(net.calendar)
        slot = pop(net.calendar)
        events[slot].next = first
        first = slot
    state.bucket = bucket
    while first >= 0:
        slot, event = first, events[first]
        first, link = np.int64(event.next), np.int64(event.link)
        part = np.int64(steady.owner[max(link, ~link)])
        if part < 0 or not parts[part].is_read:
            push(net.calendar, slot, link, event.time_ps)
            continue
        event.next = parts[part].first_event
        parts[part].first_event = slot
        if link >= 0:  # wake-ups follow from the rest of the state
            packet = net.calendar.packets[slot]
            what = np.int64(packet.op) << 32 | np.int64(packet.wire_bytes)
            parts[part].events += _mix(link << 8 | packet.lane, what, event.time_ps - now)


@part_njit()
def _return_events(net, steady, part, shift):
    """Put the events of a part back into the calendar, `shift` later."""
    events = net.calendar.events
    slot = np.int64(steady.parts[part].first_event)
    while slot >= 0:
        after = np.int64(events[slot].next)
        push(net.calendar, slot, np.int64(events[slot].link), events[slot].time_ps + shift)
        slot = after


# -- freezing --------------------------------------------------------------------------------------


@part_njit()
def _periods(net, steady, part, now):
    """Return for how many periods a part may be frozen: no message ends and time does not run out.

    All packets of these periods are full ones.
    """
    of_messages = len(steady.tallies) - len(steady.next_op)
    period = now - steady.parts[part].since_ps
    count = (net.rules.max_time_ps - now) // period
    op = np.int64(steady.parts[part].first_op)
    while op >= 0:
        sent = -steady.tallies[of_messages + op]
        if sent > 0:
            left = net.adapters.messages[op].left_bytes - net.rules.mtu_bytes
            count = min(count, left // sent)
        op = np.int64(steady.next_op[op])
    return count


@part_njit()
def _thaw(net, steady, part, now):
    """End the freeze of a part; return up to when it has been skipped, at or before `now`."""
    frozen = steady.parts[part]
    times = min((now - frozen.since_ps) // frozen.period_ps, frozen.periods)
    until = frozen.since_ps + times * frozen.period_ps
    _visit(net, steady, part, frozen.since_ps, times, 1)
    _return_events(net, steady, part, until - frozen.since_ps)
    frozen.is_frozen = 0
    steady.state.frozen -= 1
    _watch(net, steady, part, now + 1)
    return until


@part_njit()
def _check(net, steady, part, now):
    """Compare the present state of a part with the last ones; if it is one of these, mark it.

    Once a state has come again, it is kept with its events until it comes again with these.
    """
    checked, messages, traced = steady.parts[part], net.adapters.messages, net.trace.traced
    pace, least = messages[checked.paced_by], 2 * net.rules.mtu_bytes
    # States are compared just before the ends of packets of one message.
    is_end = pace.ready_ps == now + 1
    if is_end or pace.left_bytes < least or net.adapters.pairs[pace.pair].first != checked.paced_by:
        flows, paced_by = True, np.int64(-1)
        op = np.int64(checked.first_op)
        while op >= 0:
            message = messages[op]
            if message.missing_packets == 0:
                _divide(net, steady, part, now)
                return
            is_first = net.adapters.pairs[message.pair].first == op
            if is_first and message.left_bytes >= least and paced_by != checked.paced_by:
                paced_by = op
            # Messages that wait behind others of their queue pair send nothing yet.
            flows &= message.left_bytes >= least if is_first else message.left_bytes > 0
            flows &= len(traced) == 0 or not traced[op]
            op = np.int64(steady.next_op[op])
        if not flows or paced_by < 0:
            _watch(net, steady, part, now + 8 * _packet_time(net, np.int64(checked.first_op)))
            return
        is_end &= paced_by == checked.paced_by
        checked.paced_by = paced_by
    pace = messages[checked.paced_by]
    later = now + (EVERY if is_end else 1) * _packet_time(net, np.int64(checked.paced_by))
    _schedule(steady, part, pace.ready_ps - 1 if pace.ready_ps > now + 1 else later)
    if not is_end:
        return
    checked.present = _visit(net, steady, part, now, 0, 1)
    if checked.checks > checked.kept_at + RECENT:
        checked.since_ps = -1
    comes_again = checked.since_ps >= 0 and checked.present == checked.kept
    if checked.since_ps < 0:
        for index in range(min(np.int64(checked.checks), RECENT)):
            comes_again |= steady.recent[part * RECENT + index] == checked.present
    steady.recent[part * RECENT + (checked.checks & (RECENT - 1))] = checked.present
    checked.checks += 1
    if comes_again:
        checked.is_read, checked.events, checked.first_event = 1, 0, -1


@part_njit()
def _settle(net, steady, part, now):
    """Freeze a part whose state and events agree with those kept; else keep the present ones."""
    settled = steady.parts[part]
    if settled.since_ps >= 0 and settled.events == settled.kept_events:
        _visit(net, steady, part, now, 0, -1)
        periods = _periods(net, steady, part, now)
        if periods > 0:
            settled.period_ps = now - settled.since_ps
            settled.periods = periods
            settled.since_ps = now
            settled.is_frozen, settled.is_read = 1, 0
            steady.state.frozen += 1
            steady.state.freezes += 1
            _schedule(steady, part, now + periods * settled.period_ps)
            return
    _return_events(net, steady, part, 0)
    _visit(net, steady, part, now, 0, 0)
    settled.kept, settled.kept_events = settled.present, settled.events
    settled.since_ps, settled.kept_at, settled.is_read = now, settled.checks, 0


@part_njit()
def _act(net, steady, now):
    """Check the parts whose time has come, and end the freezes that are over."""
    heap, parts = steady.actions, steady.parts
    first = np.int64(-1)
    while _next_action(steady) == now:
        part = pop_event(heap)
        parts[part].next_ps = NEVER
        if parts[part].is_frozen:
            _thaw(net, steady, part, now)
            continue
        _check(net, steady, part, now)
        if parts[part].is_read:
            parts[part].next_read = first
            first = part
    if first >= 0:
        _read_events(net, steady, now)
    while first >= 0:
        _settle(net, steady, first, now)
        first = np.int64(parts[first].next_read)


# -- joining ---------------------------------------------------------------------------------------


@part_njit()
def _joins(net, ranks, steady, now):
    """Let messages join, unless parts that they meet must be simulated up to the present first."""
    state, count, joining = steady.state, net.count, ranks.count.joining
    earliest = now
    for index in range(joining if state.frozen else 0):
        for hop in range(_follow(net, steady, np.int64(ranks.joining[index]), now)):
            part = np.int64(steady.owner[steady.path[hop]])
            if part >= 0 and steady.parts[part].is_frozen:
                earliest = min(earliest, _thaw(net, steady, part, now))
    if earliest < now:
        # Set time back; what is due at the present waits.
        state.resume_ps, state.joining, state.due = now, joining, 0
        ranks.count.joining = 0
        while count.due:
            steady.due[state.due] = lowest_due(net)
            state.due += 1
        count.now_ps = earliest
        return
    for index in range(joining):
        op = np.int64(ranks.joining[index])
        join(net, ranks, op, now)
        _unite(net, steady, op, now)
    ranks.count.joining = 0


@part_njit()
def _resume(net, ranks, steady):
    """Go on at the time from which time was set back."""
    state = steady.state
    net.count.now_ps = state.resume_ps
    ranks.count.joining = state.joining
    for index in range(state.due):
        mark(net, np.int64(steady.due[index]))
    state.resume_ps = NEVER


@lean_njit()
def advance(net, ranks, steady, loop, until, most_events):
    """Simulate as `weft.kernels.packet.engine.run` does, but skip what repeats itself.

    `loop`: address of `run`; `until`, `most_events`: see there. Returns the value of `run`.
    """
    state = steady.state
    for _ in range(most_events):
        if net.calendar.state.free < ROOM or net.credits.state.free < ROOM:
            return np.int64(NO_ROOM)
        due = _next_action(steady)
        pause = min(until, due, state.resume_ps - 1)
        why = call_for_int(loop, (net, ranks, pause, most_events))
        waits = state.frozen > 0 or state.resume_ps < NEVER
        if why == JOINS:
            _joins(net, ranks, steady, net.count.now_ps)
        elif why != PAUSED and not (waits and why in (DONE, TIME_OUT)):
            return why
        elif state.resume_ps <= min(until, due):
            _resume(net, ranks, steady)
            _joins(net, ranks, steady, net.count.now_ps)
        elif due <= until:
            net.count.now_ps = due
            _act(net, steady, due)
        else:
            return why
    return np.int64(MORE)


@lean_njit()
def stop(net, steady):
    """End all freezes at present, or up to a period earlier, for the result of a stopped run."""
    for part in range(len(steady.parts)):
        if steady.parts[part].is_frozen:
            _thaw(net, steady, part, net.count.now_ps)
