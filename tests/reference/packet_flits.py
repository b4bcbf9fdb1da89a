"""Plain twin of the packet level, its flits: each leaves, comes to a buffer and leaves it.

Functions as in `tests.reference.packet_network`, which see.
"""

from __future__ import annotations

import math

from tests.reference.packet_state import (
    ARRIVE,
    BEGIN,
    CREDIT,
    DELIVERED,
    END,
    EVENTS,
    FREE_CROSSINGS,
    FREE_PACKETS,
    HOPS,
    LOOKS,
    ROUTE,
    SAID,
)


def duration(num_bytes, gbps):
    """How long a packet takes on a cable [2]."""
    return max(1, math.floor(8000.0 * num_bytes / gbps + 0.5))


def need(net, num_bytes):
    """Credits that a packet takes [5]."""
    return -(-num_bytes // net.credit_bytes)


def flit_byte(net, num_bytes, flit):
    """The byte with which a flit begins, or with which the last one ends."""
    return min(flit * net.flit_bytes, num_bytes)


def num_flits(net, num_bytes):
    """Flits of a packet."""
    return -(-num_bytes // net.flit_bytes)


# -- what is to come ------------------------------------------------------------------------------


def push(net, time, kind, link, item, flit):
    """Note an event; those of an instant are ordered by kind, then by link."""
    order = (kind << 32) | link
    place = net.number[EVENTS]
    net.number[EVENTS] += 1
    assert place < len(net.heap_time), "the heap is full"
    while place > 0:
        above = (place - 1) // 2
        if net.heap_time[above] < time:
            break
        if net.heap_time[above] == time and net.heap_order[above] <= order:
            break
        move(net, above, place)
        place = above
    net.heap_time[place] = time
    net.heap_order[place] = order
    net.heap_item[place] = item
    net.heap_flit[place] = flit


def move(net, start, end):
    """Move an event within the heap."""
    net.heap_time[end] = net.heap_time[start]
    net.heap_order[end] = net.heap_order[start]
    net.heap_item[end] = net.heap_item[start]
    net.heap_flit[end] = net.heap_flit[start]


def sooner(net, one, other):
    """Whether the event at one place comes before that at another."""
    if net.heap_time[one] != net.heap_time[other]:
        return net.heap_time[one] < net.heap_time[other]
    return net.heap_order[one] < net.heap_order[other]


def drop_first(net):
    """Take the first event away."""
    net.number[EVENTS] -= 1
    last = net.number[EVENTS]
    place = 0
    while True:
        least = last
        for below in range(2 * place + 1, min(2 * place + 3, last)):
            if sooner(net, below, least):
                least = below
        move(net, least, place)
        if least == last:
            return
        place = least


# -- flits ----------------------------------------------------------------------------------------


def set_out(net, before, packet, link, lane, begin, takes):
    """A packet begins to leave by a link, or to be written to memory: by flits."""
    net.number[FREE_CROSSINGS] -= 1
    assert net.number[FREE_CROSSINGS] >= 0, "too many packets on their way"
    x = net.free_crossing[net.number[FREE_CROSSINGS]]
    net.c_packet[x] = packet
    net.c_before[x] = before
    net.c_link[x] = link
    net.c_lane[x] = lane
    net.c_begin[x] = begin
    net.c_takes[x] = takes
    net.c_come[x] = 0
    net.c_out[x] = -1
    net.c_next[x] = -1
    num_bytes = net.p_bytes[packet]
    order = max(link, 0)
    push(net, begin, BEGIN, order, x, 0)
    first = flit_byte(net, num_bytes, 1)
    push(net, begin - (-(first * takes) // num_bytes), END, order, x, 0)
    if link >= 0:
        push(net, begin + net.latency[link], ARRIVE, order, x, 0)
        credits = need(net, num_bytes)
        place = link * net.num_vls + lane
        net.credits[place] -= credits
        net.held[place] += credits
        assert net.credits[place] >= 0, "a packet left without credits"
        net.sent_packets[place] += 1
        net.sent_bytes[place] += num_bytes
        net.number[HOPS] += 1


def flit_begins(net, x, flit):
    """The first byte of a flit leaves; it must be there, and so must each after it in time [11]."""
    packet, before = net.c_packet[x], net.c_before[x]
    num_bytes = net.p_bytes[packet]
    if before >= 0:
        assert net.c_come[before] > flit, "a flit was asked for before it was there"
        came = net.c_begin[before] + net.latency[net.c_link[before]]
        ready = came + net.route_time[net.c_link[before]]
        for edge in range(flit, flit + 2):
            byte = flit_byte(net, num_bytes, edge)
            asked = (net.c_begin[x] - ready) * num_bytes + byte * net.c_takes[x]
            assert asked >= byte * net.c_takes[before], "underrun"
    if flit + 1 < num_flits(net, num_bytes):
        byte = flit_byte(net, num_bytes, flit + 1)
        time = net.c_begin[x] + byte * net.c_takes[x] // num_bytes
        push(net, time, BEGIN, max(net.c_link[x], 0), x, flit + 1)


def flit_arrives(net, x, flit):
    """The first byte of a flit comes to the far end of a link."""
    packet, link = net.c_packet[x], net.c_link[x]
    num_bytes = net.p_bytes[packet]
    byte, end = flit_byte(net, num_bytes, flit), flit_byte(net, num_bytes, flit + 1)
    place = link * net.num_vls + net.c_lane[x]
    net.inside[place] += end - byte
    assert net.inside[place] <= net.buffer_bytes, "a buffer overflows"
    assert net.c_come[x] == flit, "flits came out of order"
    net.c_come[x] += 1
    came = net.c_begin[x] + net.latency[link]
    if flit + 1 < num_flits(net, num_bytes):
        push(net, came + end * net.c_takes[x] // num_bytes, ARRIVE, link, x, flit + 1)
    if flit > 0:
        return
    if net.head[link] >= 0:
        push(net, came + net.route_time[link], ROUTE, link, x, 0)
        return
    # An adapter writes what comes, as it comes or, if it is slower, at its own rate [8].
    takes = net.c_takes[x]
    if 0 < net.adapter_gbps < net.rate[link]:
        takes = duration(num_bytes, net.adapter_gbps)
    begin = max(soonest(net, x, takes, came), net.memory_until[link])
    net.memory_until[link] = begin + takes
    set_out(net, x, packet, -1, net.c_lane[x], begin, takes)


def soonest(net, x, takes, ready):
    """The first time at which a packet can go on so that each flit is there in time [11].

    Byte k comes at `k D_in / b` after `ready` and is asked for at `k D_out / b` after the start.
    """
    num_bytes = net.p_bytes[net.c_packet[x]]
    found = ready
    for flit in range(num_flits(net, num_bytes) + 1):
        byte = flit_byte(net, num_bytes, flit)
        late = byte * net.c_takes[x] - byte * takes
        found = max(found, ready - (-late // num_bytes))
    return found


def flit_ends(net, x, flit, time):
    """The last byte of a flit leaves."""
    packet, before = net.c_packet[x], net.c_before[x]
    num_bytes = net.p_bytes[packet]
    byte, end = flit_byte(net, num_bytes, flit), flit_byte(net, num_bytes, flit + 1)
    if before >= 0:
        place = net.c_link[before] * net.num_vls + net.c_lane[before]
        net.inside[place] -= end - byte
        assert net.inside[place] >= 0, "more left a buffer than came"
    if end < num_bytes:
        further = flit_byte(net, num_bytes, flit + 2)
        when = net.c_begin[x] - (-(further * net.c_takes[x]) // num_bytes)
        push(net, when, END, max(net.c_link[x], 0), x, flit + 1)
        return
    if net.c_link[x] >= 0:
        look_at(net, net.c_link[x])
    if before < 0:
        if net.p_final[packet] == 1:
            net.msg_sent[net.p_message[packet]] = time
            say(net, 2 * net.p_message[packet])
    else:
        link, lane = net.c_link[before], net.c_lane[before]
        credits, place = need(net, num_bytes), link * net.num_vls + lane
        net.held[place] -= credits
        net.returning[place] += credits
        push(net, time + net.latency[link] + net.credit_latency, CREDIT, link, credits, lane)
        check_credits(net, place)
        net.free_crossing[net.number[FREE_CROSSINGS]] = before
        net.number[FREE_CROSSINGS] += 1
    if net.c_link[x] < 0:
        message = net.p_message[packet]
        net.msg_coming[message] -= 1
        if net.msg_coming[message] == 0:
            net.msg_arrived[message] = time
            say(net, 2 * message + 1)
        net.free_crossing[net.number[FREE_CROSSINGS]] = x
        net.number[FREE_CROSSINGS] += 1
        net.free_packet[net.number[FREE_PACKETS]] = packet
        net.number[FREE_PACKETS] += 1
        net.number[DELIVERED] += 1


def look_at(net, link):
    """Something has changed about a link: look at all that leave the same node."""
    row = net.tail[link]
    first, end = 0, 1
    if row >= 0:
        first, end = net.out_offset[row], net.out_offset[row + 1]
    for at in range(first, end):
        other = link if row < 0 else net.out_link[at]
        if net.looked[other] == 1:
            return
        net.looked[other] = 1
        net.look[net.number[LOOKS]] = other
        net.number[LOOKS] += 1


def check_credits(net, place):
    """No credit is lost and none is made."""
    there = net.credits[place] + net.held[place] + net.returning[place]
    assert there == net.buffer_bytes // net.credit_bytes, "credits are not conserved"


def say(net, what):
    """Let the program hear of a message."""
    net.said[net.number[SAID]] = what
    net.number[SAID] += 1
