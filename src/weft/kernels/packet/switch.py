"""Switches: packets queue for their links, and links grant them."""

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
    send_back,
    wake,
)
from weft.kernels.packet.records import NEVER


@tiny_njit()
def queue_of(net, come, lane, out):
    """The queue of packets that came by a link on a lane and go on by another."""
    if not net.rules.is_voq:
        return come * net.rules.lanes + lane
    links = net.topology.links
    came = links[come]
    return np.int64(came.first_queue) + lane * came.queues + links[out].tail_port


@part_njit()
def _ask(net, packet):
    """Let the first packet of a queue ask its link."""
    out, lane = np.int64(packet.out_link), np.int64(packet.lane)
    port = np.int64(net.topology.links[packet.link].head_port)
    place = (out * net.rules.lanes + lane) * net.rules.words + (port >> 6)
    net.asked[place] |= np.uint64(1) << np.uint64(port & 63)
    net.topology.links[out].asking |= np.int64(1) << lane


@part_njit()
def _asks_no_more(net, out, lane, port):
    asked = net.asked
    base = (out * net.rules.lanes + lane) * net.rules.words
    asked[base + (port >> 6)] &= ~(np.uint64(1) << np.uint64(port & 63))
    for word in range(net.rules.words):
        if asked[base + word]:
            return
    net.topology.links[out].asking &= ~(np.int64(1) << lane)


@part_njit()
def port_free(net, come):
    """When an input port can send another packet."""
    free = net.port_free
    speedup = net.rules.speedup
    soonest = free[come * speedup]
    for place in range(1, speedup):
        soonest = min(soonest, free[come * speedup + place])
    return soonest


@part_njit()
def _occupy(net, come, until):
    free = net.port_free
    speedup = net.rules.speedup
    first = come * speedup
    for place in range(come * speedup, (come + 1) * speedup):
        if free[place] < free[first]:
            first = place
    free[first] = until


@part_njit()
def _look(net, link, time, now):
    """See to it that a link is looked at when a packet could leave by it at a time."""
    time = max(time, net.topology.links[link].free_at_ps)
    if time <= now:
        mark(net, link)
    else:
        wake(net, link, time)


@part_njit()
def enqueue(net, slot, now):
    """A routed packet joins its queue."""
    packet = net.calendar.packets[slot]
    come, lane = np.int64(packet.link), np.int64(packet.lane)
    out, size = np.int64(packet.out_link), np.int64(packet.wire_bytes)
    # Into a faster cable, no earlier than every byte is there in time.
    late = duration(net, come, size) - duration(net, out, size)
    packet.time_ps = now + max(late, 0)
    net.lanes[out * net.rules.lanes + packet.out_lane].routed_credits += credits_of(net.rules, size)
    packet.next = -1
    if len(net.trace.front_ps):
        net.trace.front_ps[slot] = now
    queue = net.queues[queue_of(net, come, lane, out)]
    if queue.first >= 0:
        net.calendar.packets[queue.last].next = slot
        queue.last = slot
        return
    queue.first = slot
    queue.last = slot
    _ask(net, packet)
    _look(net, out, packet.time_ps, now)


@part_njit()
def choose_packet(net, link, now):
    """Which packet a link of a switch takes at a time that it is free.

    Returns
    -------
    int: the slot or -1, with the lane in `COUNT.picked`; without a packet, when there may be one
    stands in `COUNT.soon_ps`.
    """
    packets, topology, best = net.calendar.packets, net.topology, net.best
    count, words = net.rules.lanes, net.rules.words
    first_port = np.int64(topology.rows[topology.links[link].tail_row].first_port)
    asking = np.uint64(topology.links[link].asking)
    soon = np.int64(NEVER)
    candidates = np.int64(0)
    while asking:
        lane = lowest_bit(asking)
        asking &= asking - np.uint64(1)
        place = (link * count + lane) * words
        for word in range(words):
            bits = net.asked[place + word]
            while bits:
                port = (word << 6) + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                come = np.int64(topology.ports[first_port + port].in_link)
                slot = np.int64(net.queues[queue_of(net, come, lane, link)].first)
                packet = packets[slot]
                out_lane = np.int64(packet.out_lane)
                onto = net.lanes[link * count + out_lane]
                turn = port * count + lane - onto.turn - 1
                if turn < 0:
                    turn += words * 64 * count
                seen = candidates >> out_lane & 1
                if seen and best[out_lane].turn < turn:
                    continue
                at = max(packet.time_ps, port_free(net, come))
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
                best[out_lane].turn = turn
                best[out_lane].slot = slot
    net.count.soon_ps = soon
    if not candidates:
        return np.int64(-1)
    picked = choose_lane(net.arbitration, net.rules, link, candidates)
    if picked < 0:
        return np.int64(-1)
    net.count.picked = picked
    return best[picked >> 1].slot


@part_njit()
def take(net, slot, until, now):
    """Take a granted packet out of its queue and its buffer, which it has left at a time.

    The next of its queue asks its own link then.
    """
    packet = net.calendar.packets[slot]
    come, lane = np.int64(packet.link), np.int64(packet.lane)
    out, size = np.int64(packet.out_link), np.int64(packet.wire_bytes)
    port = np.int64(net.topology.links[come].head_port)
    needed = credits_of(net.rules, size)
    onto = net.lanes[out * net.rules.lanes + packet.out_lane]
    onto.routed_credits -= needed
    onto.turn = port * net.rules.lanes + lane
    _occupy(net, come, until)
    after = np.int64(packet.next)
    net.queues[queue_of(net, come, lane, out)].first = after
    if after < 0:
        _asks_no_more(net, out, lane, port)
    else:
        follower = net.calendar.packets[after]
        if len(net.trace.front_ps):
            net.trace.front_ps[after] = now
        other = np.int64(follower.out_link)
        if other != out:
            _asks_no_more(net, out, lane, port)
            _ask(net, follower)
        time = max(follower.time_ps, port_free(net, come))
        _look(net, other, time, now)
    send_back(net, come, lane, needed, until + kind_of(net, come).credit_latency_ps, now)
