"""Adapters: queue pairs send messages packet by packet; messages of a connection complete in order.

`net` is a `weft.kernels.packet.net.Net`, `ranks` a `weft.kernels.program.state.Ranks`; times are
int64 ps. Queue pairs with messages wait in the queue of their lane, which serves them round robin.
"""

import numpy as np

from weft.kernels.lean import part_njit
from weft.kernels.packet.calendar import give_slot, mark, take_slot
from weft.kernels.packet.choice import next_serial
from weft.kernels.packet.congestion_control import (
    NOTICE,
    delay_pair,
    has_notice,
    is_delayed,
    notify,
    space,
)
from weft.kernels.packet.lanes import (
    choose_lane,
    credit_time,
    credits_now,
    credits_of,
    duration,
    kind_of,
    rounded,
    send_back,
)
from weft.kernels.packet.records import HELD, NEVER
from weft.kernels.prefetch import prefetch
from weft.kernels.program.events import ARRIVE, END, push_event
from weft.kernels.program.operations import DATA, NOTHING, PUT, queue_of

#: Number of releases of operations for which memory is requested ahead, twice.
AHEAD = 3


@part_njit()
def foresee(net, ranks):
    """Request memory for operations that start soon, in the order of their releases."""
    ops, program, adapters = ranks.timeline_op, ranks.program, net.adapters
    at = ranks.count.timeline
    if at + 2 * AHEAD >= len(ops):
        return
    op = np.int64(ops[at + 2 * AHEAD])
    prefetch(adapters.messages, op)
    prefetch(adapters.route, op)
    prefetch(adapters.pair, op)
    prefetch(adapters.connection, op)
    prefetch(program.size_bytes, op)
    prefetch(program.duration, op)
    prefetch(program.successor_offset, op)
    prefetch(ranks.posted, op)
    prefetch(ranks.left, op)
    prefetch(ranks.ended, op)
    op = np.int64(ops[at + AHEAD])
    prefetch(adapters.routes, np.int64(adapters.route[op]))
    prefetch(adapters.pairs, np.int64(adapters.pair[op]))
    prefetch(adapters.connections, np.int64(adapters.connection[op]))
    route = np.int64(adapters.route[ops[at + 1]])
    if route >= 0:  # not within a host
        first = adapters.routes[route]
        prefetch(net.topology.links, np.int64(first.link))
        prefetch(net.lanes, first.link * net.rules.lanes + first.lane)


@part_njit()
def join(net, ranks, op, now):
    """Append a message, request or answer to its queue."""
    rules, adapters = net.rules, net.adapters
    messages, sends, message = adapters.messages, adapters.sends, adapters.messages[op]
    if sends[op] == NOTHING:
        sends[op] = DATA
    queue = queue_of(ranks, op) if rules.queues > 1 else np.int64(0)
    message.route = adapters.route[op]
    message.connection = adapters.connection[op] + queue * rules.connections
    message.pair = adapters.pair[op] + queue * rules.pairs
    left = ranks.program.size_bytes[op] if sends[op] == DATA else rules.control_bytes
    message.left_bytes = left
    message.missing_packets = max((left + rules.mtu_bytes - 1) // rules.mtu_bytes, 1)
    message.ready_ps = now
    message.next_sent = -1
    number = np.int64(message.pair)
    pair = adapters.pairs[number]
    before, pair.last = np.int64(pair.last), op
    if pair.first >= 0:
        messages[before].next_sent = op
        return
    pair.first = op
    if rules.has_control and is_delayed(net, number, now):
        return
    route = adapters.routes[message.route]
    link = np.int64(route.link)
    line_up(net, link, np.int64(route.lane), number)
    mark(net, link)


@part_njit()
def line_up(net, link, lane, pair):
    """Append a queue pair to the queue of a lane."""
    queue, pairs = net.lanes[link * net.rules.lanes + lane], net.adapters.pairs
    pairs[pair].next = -1
    if queue.first_pair < 0:
        queue.first_pair = pair
        net.topology.links[link].asking |= np.int64(1) << lane
    else:
        pairs[queue.last_pair].next = pair
    queue.last_pair = pair


@part_njit()
def choose_pair(net, link, now):
    """Choose the queue pair that an adapter's free link serves.

    Returns the queue pair; NOTICE for a notification; -1 if no lane can send. `COUNT.picked` is set
    to the result of `choose_lane`, `COUNT.soon_ps` to the earliest time at which a lane that
    now lacks credits may send, and `COUNT.ready_ps` to `now`.
    """
    rules, adapters = net.rules, net.adapters
    asking = np.int64(net.topology.links[link].asking)
    base = link * rules.lanes
    soon = np.int64(NEVER)
    candidates = np.int64(0)
    for number in range(rules.lanes):
        if not asking >> number & 1:
            continue
        lane = net.lanes[base + number]
        left = np.int64(0)
        if not has_notice(net, base + number):
            left = adapters.messages[adapters.pairs[lane.first_pair].first].left_bytes
        needed = credits_of(rules, min(left, rules.mtu_bytes) + rules.header_bytes)
        if credits_now(net.credits, lane, now) >= needed:
            candidates |= np.int64(1) << number
            continue
        back = credit_time(net.credits, lane, needed)
        if back == NEVER:
            lane.is_short = 1
        soon = min(soon, back)
    net.count.soon_ps = soon
    net.count.ready_ps = now
    if not candidates:
        return np.int64(-1)
    picked = choose_lane(net.arbitration, rules, link, candidates)
    if picked < 0:
        return np.int64(-1)
    net.count.picked = picked
    if has_notice(net, base + (picked >> 1)):
        return np.int64(NOTICE)
    return np.int64(net.lanes[base + (picked >> 1)].first_pair)


@part_njit()
def can_send(net, pair):
    """Return when the next packet of a queue pair could leave without other traffic, ps."""
    ready = net.adapters.messages[net.adapters.pairs[pair].first].ready_ps
    if net.rules.has_control:
        return max(ready, net.control.paces[pair].next_at_ps)
    return ready


@part_njit()
def inject(net, ranks, number, link, lane, now):
    """Inject the next packet of queue pair `number`, and requeue the queue pair.

    Returns the slot of the packet.
    """
    rules, count, adapters = net.rules, net.count, net.adapters
    messages, sends, pair = adapters.messages, adapters.sends, adapters.pairs[number]
    op = np.int64(pair.first)
    message = messages[op]
    route = adapters.routes[message.route]
    payload = min(message.left_bytes, rules.mtu_bytes)
    wire_bytes = payload + rules.header_bytes
    connection = adapters.connections[message.connection]
    slot = take_slot(net.calendar)
    packet = net.calendar.packets[slot]
    packet.wire_bytes = wire_bytes
    packet.op = op
    packet.address = route.address
    packet.sequence = connection.sent_packets
    packet.serial = next_serial(net, link)
    packet.level = route.level
    packet.marks = 0
    packet.sends = sends[op]
    packet.is_last = message.left_bytes == payload
    packet.via = -1
    packet.out_link = link
    packet.out_lane = lane
    connection.sent_packets += 1
    count.injected += 1
    count.in_flight += 1
    count.injected_bytes += wire_bytes
    if sends[op] == DATA and ranks.left[op] < 0:
        ranks.left[op] = now
    message.left_bytes -= payload
    # A queue pair that has more to send returns to the front of the queue, or to the end of the
    # queue when the quantum is used up.
    queue = net.lanes[link * rules.lanes + lane]
    queue.first_pair = pair.next
    if queue.first_pair < 0:
        net.topology.links[link].asking &= ~(np.int64(1) << lane)
    if message.left_bytes == 0:
        until = now + duration(net, link, wire_bytes)
        if sends[op] == DATA:
            _has_left(net, ranks, op, until)
        pair.first = message.next_sent
    used = pair.used_bytes + wire_bytes
    pair.used_bytes = 0
    if rules.has_control and space(net, number, op, link, wire_bytes, now):
        delay_pair(net, number, link)
    elif pair.first >= 0:
        following = adapters.routes[messages[pair.first].route]
        on_link, on_lane = np.int64(following.link), np.int64(following.lane)
        if used < rules.quantum_bytes and on_link == link and on_lane == lane:
            pair.used_bytes = used
            _put_first(net, link, lane, number)
        else:
            line_up(net, on_link, on_lane, number)
            if on_link != link:
                mark(net, on_link)
    return slot


@part_njit()
def _put_first(net, link, lane, pair):
    """Put a queue pair at the front of the queue of a lane."""
    queue = net.lanes[link * net.rules.lanes + lane]
    net.adapters.pairs[pair].next = queue.first_pair
    if queue.first_pair < 0:
        queue.last_pair = pair
        net.topology.links[link].asking |= np.int64(1) << lane
    queue.first_pair = pair


@part_njit()
def _has_left(net, ranks, op, until):
    """End the operation of a put or rendezvous message whose last byte departs at `until`."""
    program = ranks.program
    if program.kind[op] != PUT and program.size_bytes[op] <= ranks.rules.eager_bytes:
        return
    if program.successor_offset[op + 1] == program.successor_offset[op]:
        # No operation depends on this one: no event is needed.
        ranks.ended[op] = until
        ranks.count.ended += 1
    else:
        push_event(ranks.heap, until, END | op)


@part_njit()
def deliver(net, ranks, slot, link, lane, now):
    """Deliver a packet that begins to leave over the last link of its path."""
    rules, count, packet = net.rules, net.count, net.calendar.packets[slot]
    kind = kind_of(net, link)
    size = np.int64(packet.wire_bytes)
    takes = duration(net, link, size)
    arrival = now + kind.latency_ps + takes
    if kind.memory_gbps > 0:
        into = net.adapters.memories[link]
        writing = rounded(size, kind.memory_gbps)
        begin = arrival - takes + max(takes - writing, 0)
        arrival = max(begin, into.free_at_ps) + writing
        into.free_at_ps = arrival
    needed = credits_of(rules, size)
    back = arrival + kind.credit_latency_ps
    if rules.has_control and packet.marks and notify(net, slot, link, arrival):
        send_back(net, link, lane, needed, back, now)
        return
    count.in_flight -= 1
    count.delivered += 1
    count.delivered_bytes += size
    send_back(net, link, lane, needed, back, now)
    if rules.reorders:
        _put_in_order(net, ranks, slot, arrival)
        return
    _arrives_in_order(net, ranks, packet, arrival)
    give_slot(net.calendar, slot)


@part_njit()
def _put_in_order(net, ranks, slot, arrival):
    """Hold a packet if it overtook a packet sent earlier.

    Otherwise, release the held packets that follow this packet without a gap in the sequence.
    """
    packets, packet = net.calendar.packets, net.calendar.packets[slot]
    number = np.int64(net.adapters.messages[packet.op].connection)
    kept = net.adapters.reordered[number]
    if packet.sequence != kept.in_order_packets:
        kept.early_packets += 1
        kept.held_bytes += packet.wire_bytes
        kept.most_held_bytes = max(kept.most_held_bytes, kept.held_bytes)
        before = np.int64(-1)
        after = np.int64(kept.first_held)
        while after >= 0 and packets[after].sequence < packet.sequence:
            before = after
            after = np.int64(packets[after].next)
        packet.next = after
        if before < 0:
            kept.first_held = slot
        else:
            packets[before].next = slot
        packet.time_ps = arrival
        packet.lane = HELD
        return
    kept.in_order_at_ps = max(kept.in_order_at_ps, arrival)
    kept.in_order_packets += 1
    _arrives_in_order(net, ranks, packet, kept.in_order_at_ps)
    give_slot(net.calendar, slot)
    held = np.int64(kept.first_held)
    while held >= 0 and packets[held].sequence == kept.in_order_packets:
        follower = packets[held]
        kept.in_order_packets += 1
        kept.held_bytes -= follower.wire_bytes
        arrived = follower.time_ps
        kept.in_order_at_ps = max(kept.in_order_at_ps, arrived)
        kept.kept_ps += kept.in_order_at_ps - arrived
        kept.longest_kept_ps = max(kept.longest_kept_ps, kept.in_order_at_ps - arrived)
        _arrives_in_order(net, ranks, follower, kept.in_order_at_ps)
        after = np.int64(follower.next)
        give_slot(net.calendar, held)
        held = after
    kept.first_held = held


@part_njit()
def _arrives_in_order(net, ranks, packet, time):
    """Count a packet that arrived in order at `time`; if it is its message's last, that has come.

    Packets of a connection leave in the order of its messages, so these also come in this order.
    """
    op = np.int64(packet.op)
    if net.rules.parts == 1:
        net.adapters.messages[op].missing_packets -= 1
    if not packet.is_last:
        return
    time += ranks.rules.adapter_latency
    if packet.sends == DATA and ranks.program.kind[op] == PUT:
        # No operation depends on the arrival of a put: no event is needed.
        ranks.arrived[op] = time
        ranks.count.arrived += 1
    else:
        push_event(ranks.heap, time, ARRIVE | op)
