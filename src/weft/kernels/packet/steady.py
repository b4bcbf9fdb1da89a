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
    put_on_cable,
    take_slot,
)
from weft.kernels.packet.engine import DONE, JOINS, MORE, NO_PATH, NO_ROOM, PAUSED, ROOM, TIME_OUT
from weft.kernels.packet.lanes import credits_now, wake
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

#: Packets of the shortest message for which it pays.
SHORTEST = 16
#: The cost of watching is counted in records that are read: so many take as long as a packet-hop.
OF_HOP = 4
#: It may cost so many, and so many for each link, and one in `SHARE` of the time of the run.
START, OF_LINK, SHARE = 16384, 32, 32
#: Paths that are kept, and length of each of these entries: message, number of links, and links.
KNOWN, LONGEST = 4096, 16
#: Cost of the path of a message.
OF_PATH = 12
#: Instants of a rest after which its end is looked for.
AT_REST = 4096

#: Part of the traffic: messages whose paths are connected by common links.
PART = record_type(
    next_ps="i8",  # time of the next check, or of the end of the freeze; NEVER for none
    since_ps="i8",  # time of the state that is kept, -1 for none; of a frozen part, of the freeze
    period_ps="i8",  # period of a frozen part
    periods="i8",  # whole periods for which it is frozen at most
    hops="i8",  # packet-hops of a period
    kept="u8",  # digests of the state that is kept, of its events, and at a glance
    kept_events="u8",
    glance="u8",
    first_op="i4",  # first of the list of messages
    first_link="i4",  # first of the list of links
    paced_by="i4",  # message after whose packets the part is checked
    checks="i4",  # checks since a message joined or ended
    patience="i4",  # checks for which a state is kept, twice as many as the one before
    kept_until="i4",  # number of the last of these checks
    is_frozen="u1",
)

#: State and counters.
STATE = record_type(
    resume_ps="i8",  # time at which what was set aside goes on; NEVER for none
    joining="i8",  # numbers of messages that join and of links with packets to grant, set aside
    due="i8",
    skipped_hops="i8",  # packet-hops skipped
    frozen="i8",  # parts that are frozen
    freezes="i8",  # times that a part was frozen
    room="i8",  # free slots that the ends of freezes take
    is_full="i8",  # 1 if there were too few slots to freeze a part
    spent="i8",  # cost of watching
    saved="i8",  # packet-hops skipped, with those that freezes of the present will skip
    rests_until="i8",  # packet-hops simulated when messages are watched again; 0 while they are
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
    #: uint64 [links * RECENT]: digests at a glance of the last states of parts.
    recent: Any
    #: int32 [links]: scratch array for the links of a path, links set aside, and the requests of
    #: links of frozen parts.
    path: Any
    due: Any
    asking: Any
    #: int32 [KNOWN * LONGEST]: paths of messages, at the lowest bits of their numbers.
    known: Any
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
    path, links, known = steady.path, net.topology.links, steady.known
    base = (op & (KNOWN - 1)) * LONGEST
    if known[base] == op:
        count = np.int64(known[base + 1])
        for hop in range(count):
            path[hop] = known[base + 2 + hop]
        return count
    steady.state.spent += OF_PATH
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
    if count + 2 <= LONGEST:
        known[base], known[base + 1] = op, count
        for hop in range(count):
            known[base + 2 + hop] = path[hop]
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
    watched.checks = watched.patience = 0
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
    steady.state.spent += 1
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
def _glance(net, steady, part, now):
    """Return a digest of the heads of the queues of a part, and of what else is quickly read.

    Unlike that of `_visit` it may be the same for two states.
    """
    lanes, total = net.rules.lanes, np.uint64(0)
    link = np.int64(steady.parts[part].first_link)
    while link >= 0:
        steady.state.spent += 1
        here = net.topology.links[link]
        wait = max(here.free_at_ps - now, 0)
        queues = lanes * here.queues if here.head_row >= 0 else 0
        for number in range(np.int64(here.first_queue), here.first_queue + queues):
            slot = np.int64(net.queues[number].first)
            if slot >= 0:
                packet = net.calendar.packets[slot]
                total += _mix(number, packet.op, packet.time_ps - now)
        for index in range(link * lanes, (link + 1) * lanes):
            lane = net.lanes[index]
            total += _mix(index, lane.credits, wait << 20 ^ lane.last_grant)
        link = np.int64(steady.next_link[link])
    return total


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
        steady.state.spent += 1
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
def _digest_of_events(net, steady, part, now):
    """Return a digest of the packets on the cables of a part, relative to `now`.

    Wake-ups follow from the rest of the state.
    """
    total = np.uint64(0)
    link = np.int64(steady.parts[part].first_link)
    while link >= 0:
        slot = np.int64(net.cables[link].first)
        while slot >= 0:
            packet = net.calendar.packets[slot]
            what = np.int64(packet.op) << 32 | np.int64(packet.wire_bytes)
            time = net.calendar.events[slot].time_ps
            total += _mix(link << 8 | packet.lane, what, time - now)
            steady.state.spent += 1
            slot = np.int64(packet.next)
        link = np.int64(steady.next_link[link])
    return total


@part_njit()
def _take_events(net, steady, part):
    """Take the events of a part out of the calendar: only wake-ups without effect stay in it."""
    calendar, packets = net.calendar, net.calendar.packets
    taken = steady.parts[part]
    link, taken.hops = np.int64(taken.first_link), 0
    while link >= 0:
        here = net.topology.links[link]
        for index in range(link * net.rules.lanes, (link + 1) * net.rules.lanes):
            taken.hops += steady.tallies[4 * index]
        steady.asking[link] = here.asking
        here.asking, here.wake_at_ps = 0, NEVER
        steady.state.room += 1
        slot = np.int64(net.cables[link].first)
        net.cables[link].first = -1
        while slot >= 0:
            after = np.int64(packets[slot].next)
            copy, event = take_slot(calendar), calendar.events[slot]
            packets[copy] = packets[slot]
            calendar.events[copy].time_ps = event.time_ps
            event.link = ~link
            put_on_cable(net, link, copy)
            slot = after
        link = np.int64(steady.next_link[link])


@part_njit()
def _return_events(net, steady, part, until, shift):
    """Put the events of a part back, `shift` later; its links grant from `until` on."""
    packets, events = net.calendar.packets, net.calendar.events
    link = np.int64(steady.parts[part].first_link)
    while link >= 0:
        here = net.topology.links[link]
        here.asking = steady.asking[link]
        steady.state.room -= 1
        if here.asking:
            wake(net, link, max(here.free_at_ps, until))
        slot = np.int64(net.cables[link].first)
        while slot >= 0:
            push(net.calendar, slot, link, events[slot].time_ps + shift)
            slot = np.int64(packets[slot].next)
        link = np.int64(steady.next_link[link])


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
    _return_events(net, steady, part, until, until - frozen.since_ps)
    frozen.is_frozen = 0
    steady.state.frozen -= 1
    steady.state.saved -= (frozen.periods - times) * frozen.hops
    if steady.state.rests_until == 0:
        _watch(net, steady, part, now + 1)
    elif steady.state.frozen == 0:
        net.rules.is_watched = 0
    return until


@part_njit()
def _freeze(net, steady, part, now):
    """Freeze a part whose state is the one that is kept; return False if that is of no use."""
    frozen, state = steady.parts[part], steady.state
    before = state.spent
    if _digest_of_events(net, steady, part, now) != frozen.kept_events:
        return False
    _visit(net, steady, part, now, 0, -1)
    periods = _periods(net, steady, part, now)
    if periods <= 0:
        return False
    if net.calendar.state.free < ROOM + state.room + state.spent - before:
        state.is_full = 1
        return False
    _take_events(net, steady, part)
    frozen.period_ps = now - frozen.since_ps
    frozen.periods = periods
    frozen.since_ps = now
    frozen.is_frozen = 1
    state.frozen += 1
    state.freezes += 1
    state.saved += periods * frozen.hops
    _schedule(steady, part, now + periods * frozen.period_ps)
    return True


@part_njit()
def _check(net, steady, part, now):
    """Compare the present state of a part with the last ones.

    If what is seen at a glance has come again, state and counters are noted. If the state itself
    comes again, the part is frozen.
    """
    checked, messages, traced = steady.parts[part], net.adapters.messages, net.trace.traced
    pace, least = messages[checked.paced_by], 2 * net.rules.mtu_bytes
    # States are compared just before the ends of packets of one message.
    is_end = pace.ready_ps == now + 1
    if is_end or pace.left_bytes < least or net.adapters.pairs[pace.pair].first != checked.paced_by:
        flows, paced_by = True, np.int64(-1)
        op = np.int64(checked.first_op)
        while op >= 0:
            steady.state.spent += 1
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
    glance, after = _glance(net, steady, part, now), np.int64(0)
    if checked.since_ps >= 0:
        is_same = glance == checked.glance
        is_same = is_same and _visit(net, steady, part, now, 0, 1) == checked.kept
        if is_same and _freeze(net, steady, part, now):
            return
        if checked.checks >= checked.kept_until:
            checked.since_ps = -1
    if checked.since_ps < 0:
        for back in range(min(np.int64(checked.checks), RECENT), 0, -1):
            if steady.recent[part * RECENT + (checked.checks - back) % RECENT] == glance:
                after = back
    steady.recent[part * RECENT + checked.checks % RECENT] = glance
    if after:
        checked.kept, checked.since_ps = _visit(net, steady, part, now, 0, 0), now
        checked.kept_events = _digest_of_events(net, steady, part, now)
        checked.glance = glance
        checked.patience = max(after, min(2 * checked.patience, RECENT))
        checked.kept_until = checked.checks + checked.patience
    checked.checks += 1


@part_njit()
def _act(net, steady, now):
    """Check the parts whose time has come, and end the freezes that are over."""
    heap, parts = steady.actions, steady.parts
    while _next_action(steady) == now:
        part = pop_event(heap)
        parts[part].next_ps = NEVER
        if parts[part].is_frozen:
            _thaw(net, steady, part, now)
        else:
            _check(net, steady, part, now)
    _rest(net, steady)


# -- rests -----------------------------------------------------------------------------------------


@part_njit()
def _rest(net, steady):
    """Stop watching if this has cost more than it has saved; the next time costs twice as much."""
    state, heap = steady.state, steady.actions
    excess = (state.spent - START - OF_LINK * len(steady.parts)) // OF_HOP - state.saved
    if state.rests_until or SHARE * excess <= net.count.hops - state.skipped_hops:
        return
    state.rests_until = 2 * SHARE * excess
    for index in range(heap.size.events):
        if not steady.parts[heap.item[index]].is_frozen:
            steady.parts[heap.item[index]].next_ps = NEVER
    if state.frozen == 0:
        net.rules.is_watched = 0


@part_njit()
def _watch_again(net, steady):
    """End a rest: find the packets on cables, and the parts of the messages under way."""
    state, calendar, owner, parts = steady.state, net.calendar, steady.owner, steady.parts
    messages, routes = net.adapters.messages, net.adapters.routes
    state.rests_until = 0
    state.spent += len(messages) // 16
    for link in range(len(owner)):
        if owner[link] >= 0 and not parts[owner[link]].is_frozen:
            owner[link] = -1
        if not net.rules.is_watched:
            net.cables[link].first = -1
    if not net.rules.is_watched:
        net.rules.is_watched = 1
        bucket, latest, events = calendar.state.bucket, np.int64(-1), calendar.events
        while calendar.state.waiting:
            next_time(calendar)
            slot = pop(calendar)
            events[slot].next = latest
            latest = slot
            if events[slot].link >= 0:
                put_on_cable(net, np.int64(events[slot].link), slot)
        calendar.state.bucket = bucket
        while latest >= 0:
            slot = latest
            latest = np.int64(events[slot].next)
            push(calendar, slot, np.int64(events[slot].link), events[slot].time_ps)
    for op in range(len(messages)):
        part = np.int64(-1)
        if messages[op].missing_packets:
            part = np.int64(owner[routes[messages[op].route].link])
        if part < 0 or not parts[part].is_frozen:
            steady.is_active[op] = 0
            if messages[op].missing_packets:
                _unite(net, steady, op, net.count.now_ps)


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
        if state.rests_until == 0:
            _unite(net, steady, op, now)
            _rest(net, steady)
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
    left = most_events
    while left > 0:
        if state.is_full or net.calendar.state.free < ROOM + state.room:
            state.is_full = 0
            return np.int64(NO_ROOM)
        rests = state.rests_until > 0
        simulated = net.count.hops - state.skipped_hops
        if rests and simulated >= state.rests_until and state.resume_ps == NEVER:
            _watch_again(net, steady)
        due = _next_action(steady)
        pause = min(until, due, state.resume_ps - 1)
        most = min(left, AT_REST) if rests else left
        why = call_for_int(loop, (net, ranks, pause, most))
        left -= max(net.count.instants, 1)
        if why != NO_PATH and net.calendar.state.free < ROOM + state.room:
            continue
        waits = state.frozen > 0 or state.resume_ps < NEVER
        if why == MORE and rests:
            continue
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
