"""Switches: packets queue at input ports for their output links, which grant them.

`net` is a `weft.kernels.packet.net.Net`; times are int64 ps. The first packet of each queue
requests its output link: the bit of the input port and lane is set in `Net.asked`.
"""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.lean import part_njit, tiny_njit
from weft.kernels.packet.calendar import mark
from weft.kernels.packet.lanes import (
    choose_lane,
    credit_time,
    credits_now,
    credits_of,
    duration,
    kind_of,
    wake,
)
from weft.kernels.packet.mail import return_credits
from weft.kernels.packet.records import NEVER
from weft.kernels.packet.route import CANDIDATES
from weft.kernels.prefetch import prefetch


@tiny_njit()
def queue_of(net, incoming, lane, out):
    """Return the queue of packets from link `incoming`, on a lane, to link `out`."""
    if not net.rules.is_voq:
        return incoming * net.rules.lanes + lane
    links = net.topology.links
    into = links[incoming]
    return np.int64(into.first_queue) + lane * into.queues + links[out].tail_port


@part_njit()
def _request(net, packet):
    """Set the request of the first packet of a queue for its output link."""
    out, lane = np.int64(packet.out_link), np.int64(packet.lane)
    port = np.int64(net.topology.links[packet.link].head_port)
    word = (out * net.rules.lanes + lane) * net.rules.words + (port >> 6)
    net.asked[word] |= np.uint64(1) << np.uint64(port & 63)
    net.topology.links[out].asking |= np.int64(1) << lane


@part_njit()
def _withdraw_request(net, out, lane, port):
    asked = net.asked
    base = (out * net.rules.lanes + lane) * net.rules.words
    asked[base + (port >> 6)] &= ~(np.uint64(1) << np.uint64(port & 63))
    for word in range(net.rules.words):
        if asked[base + word]:
            return
    net.topology.links[out].asking &= ~(np.int64(1) << lane)


@part_njit()
def _first_free(net, incoming):
    """Return the index of the part of the input port of link `incoming` that is free first."""
    free, first = net.port_free, incoming * net.rules.speedup
    for index in range(first + 1, first + net.rules.speedup):
        if free[index] < free[first]:
            first = index
    return first


@tiny_njit()
def port_free(net, incoming):
    """Return when the input port of link `incoming` can send another packet, ps."""
    return net.port_free[_first_free(net, incoming)]


@part_njit()
def _schedule(net, link, time, now):
    """Schedule arbitration of a link for a packet that could leave at a time."""
    time = max(time, net.topology.links[link].free_at_ps)
    if time <= now:
        mark(net, link)
    else:
        wake(net, link, time)


@part_njit()
def look_ahead(net, ranks):
    """Request memory for the two events after the present one, before they need it."""
    calendar, rules, lanes, links = net.calendar, net.rules, net.lanes, net.topology.links
    adapters, returns = net.adapters, net.credits.returns
    active, times, items = calendar.state.active, calendar.active_time, calendar.active_item
    if active > 1:
        # The second event of a heap is one of its root's two children.
        later = items[1 if active == 2 or times[1] < times[2] else 2]
        link, slot = later >> 32, later & np.int64(0xFFFFFFFF)
        out, lane, out_lane = link, link * rules.lanes, link * rules.lanes
        if calendar.events[slot].link >= 0:
            packet = calendar.packets[slot]
            out = np.int64(packet.out_link)
            lane += packet.lane
            out_lane = out * rules.lanes + packet.out_lane
            if rules.parts == 1:
                prefetch(adapters.messages, np.int64(packet.op))
        prefetch(lanes, lane)
        prefetch(lanes, out_lane)
        prefetch(links, link)
        prefetch(links, out)
        prefetch(net.queues, lane)
        prefetch(net.port_free, link * rules.speedup)
        prefetch(net.asked, out_lane * rules.words)
    link, slot = items[0] >> 32, items[0] & np.int64(0xFFFFFFFF)
    packet, base = calendar.packets[slot], link * rules.lanes
    if calendar.events[slot].link < 0:
        # What the link will probably grant, of a queue pair or an input port.
        if links[link].asking:
            lane = lowest_bit(np.uint64(links[link].asking))
            asked = net.asked[(base + lane) * rules.words]
            if links[link].tail_row < 0:
                prefetch(adapters.pairs, np.int64(lanes[base + lane].first_pair))
            elif asked:
                first = np.int64(net.topology.rows[links[link].tail_row].first_port)
                port = net.topology.ports[first + lowest_bit(asked)]
                prefetch(net.queues, port.in_link * rules.lanes + lane)
                prefetch(lanes, port.in_link * rules.lanes + lane)
                prefetch(links, np.int64(port.in_link))
    elif packet.lane >= 0:
        out = max(np.int64(packet.out_link), 0)
        if rules.route_kind == CANDIDATES:
            goal, row = net.tables.endpoints[packet.address], links[link].head_row
            prefetch(net.tables.set_id, goal.row * net.tables.set_id.shape[1] + row)
            if goal.row == row:
                out = np.int64(goal.last_link)
        into, onto = lanes[base + packet.lane], lanes[out * rules.lanes + packet.out_lane]
        prefetch(returns, np.int64(into.first_return))
        prefetch(returns, np.int64(into.last_return))
        prefetch(returns, np.int64(onto.first_return))
        if links[out].head_row < 0:
            prefetch(ranks.arrived, np.int64(packet.op))
            if rules.reorders:
                connection = np.int64(adapters.messages[packet.op].connection)
                prefetch(adapters.reordered, connection)


@part_njit()
def enqueue(net, slot, now):
    """Append a routed packet to its queue."""
    packet = net.calendar.packets[slot]
    incoming, lane = np.int64(packet.link), np.int64(packet.lane)
    out, size = np.int64(packet.out_link), np.int64(packet.wire_bytes)
    # To a faster link, a packet departs late enough that each of its bytes has arrived in time.
    late = duration(net, incoming, size) - duration(net, out, size)
    packet.time_ps = now + max(late, 0)
    net.lanes[out * net.rules.lanes + packet.out_lane].routed_credits += credits_of(net.rules, size)
    packet.next = -1
    if len(net.trace.front_ps):
        net.trace.front_ps[slot] = now
    queue = net.queues[queue_of(net, incoming, lane, out)]
    before, queue.last = np.int64(queue.last), slot
    if queue.first >= 0:
        net.calendar.packets[before].next = slot
        return
    queue.first = slot
    _request(net, packet)
    _schedule(net, out, packet.time_ps, now)


@part_njit()
def choose_packet(net, link, now):
    """Choose the packet that a free link of a switch grants.

    Per lane, input ports and their lanes take turns: the packet that follows the last grant in
    round-robin order wins.

    Returns the slot of the packet; -1 if none can leave. `COUNT.picked` is set to the result of
    `choose_lane`, `COUNT.soon_ps` to the earliest time at which a packet that now cannot leave
    may do so, and `COUNT.ready_ps` to that at which its bytes have arrived.
    """
    packets, topology, best = net.calendar.packets, net.topology, net.best
    count, words = net.rules.lanes, net.rules.words
    first_port = np.int64(topology.rows[topology.links[link].tail_row].first_port)
    asking = np.uint64(topology.links[link].asking)
    soon = ready = np.int64(NEVER)
    candidates = np.int64(0)
    while asking:
        lane = lowest_bit(asking)
        asking &= asking - np.uint64(1)
        index = (link * count + lane) * words
        for word in range(words):
            bits = net.asked[index + word]
            while bits:
                port = (word << 6) + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                incoming = np.int64(topology.ports[first_port + port].in_link)
                slot = np.int64(net.queues[queue_of(net, incoming, lane, link)].first)
                packet = packets[slot]
                out_lane = np.int64(packet.out_lane)
                onto = net.lanes[link * count + out_lane]
                distance = port * count + lane - onto.last_grant - 1
                if distance < 0:
                    distance += words * 64 * count
                seen = candidates >> out_lane & 1
                if seen and best[out_lane].distance < distance:
                    continue
                ready = min(ready, packet.time_ps)
                at = max(packet.time_ps, port_free(net, incoming))
                needed = credits_of(net.rules, np.int64(packet.wire_bytes))
                if credits_now(net.credits, onto, now) < needed:
                    back = credit_time(net.credits, onto, needed)
                    if back == NEVER:
                        onto.is_short = 1
                    at = max(at, back)
                if at > now:
                    soon = min(soon, at)
                    continue
                candidates |= np.int64(1) << out_lane
                best[out_lane].distance = distance
                best[out_lane].slot = slot
    net.count.soon_ps = soon
    net.count.ready_ps = max(ready, now)
    if not candidates:
        return np.int64(-1)
    picked = choose_lane(net.arbitration, net.rules, link, candidates)
    if picked < 0:
        return np.int64(-1)
    net.count.picked = picked
    return best[picked >> 1].slot


@part_njit()
def take(net, slot, until, now):
    """Take a granted packet out of its queue, and free its input port and buffer at time `until`.

    The next packet of the queue then requests its output link.
    """
    packet = net.calendar.packets[slot]
    incoming, lane = np.int64(packet.link), np.int64(packet.lane)
    out, size = np.int64(packet.out_link), np.int64(packet.wire_bytes)
    port = np.int64(net.topology.links[incoming].head_port)
    needed = credits_of(net.rules, size)
    onto = net.lanes[out * net.rules.lanes + packet.out_lane]
    onto.routed_credits -= needed
    onto.last_grant = port * net.rules.lanes + lane
    net.port_free[_first_free(net, incoming)] = until
    after = np.int64(packet.next)
    queue = net.queues[queue_of(net, incoming, lane, out)]
    queue.first = after
    queue.wait_ps += now - packet.time_ps
    if after < 0:
        _withdraw_request(net, out, lane, port)
    else:
        follower = net.calendar.packets[after]
        if len(net.trace.front_ps):
            net.trace.front_ps[after] = now
        other = np.int64(follower.out_link)
        if other != out:
            _withdraw_request(net, out, lane, port)
            _request(net, follower)
        waits = net.topology.links[other]
        waits.ready_ps = min(waits.ready_ps, max(follower.time_ps, now))
        time = max(follower.time_ps, port_free(net, incoming))
        _schedule(net, other, time, now)
    back = until + kind_of(net, incoming).credit_latency_ps
    return_credits(net, incoming, lane, needed, back, now)
