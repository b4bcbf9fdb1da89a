"""Reference implementation of the packet level: the departure and arrival of every flit.

Functions have the form described in `tests.reference.packet_network`.
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
    REPORTS,
    ROUTE,
)


def duration(num_bytes, gbps):
    """Return the duration of a packet on a cable [2]."""
    return max(1, math.floor(8000.0 * num_bytes / gbps + 0.5))


def need(net, num_bytes):
    """Return the credits that a packet needs [5]."""
    return -(-num_bytes // net.credit_bytes)


def flit_byte(net, num_bytes, flit):
    """Return the first byte of a flit, or the number of bytes for the flit after the last."""
    return min(flit * net.flit_bytes, num_bytes)


def num_flits(net, num_bytes):
    """Return the number of flits of a packet."""
    return -(-num_bytes // net.flit_bytes)


# -- events ---------------------------------------------------------------------------------------


def push(net, time, kind, link, item, flit):
    """Add an event to the heap; events of one instant are ordered by kind, then by link."""
    order = (kind << 32) | link
    index = net.number[EVENTS]
    net.number[EVENTS] += 1
    assert index < len(net.heap_time), "the heap is full"
    while index > 0:
        above = (index - 1) // 2
        if net.heap_time[above] < time:
            break
        if net.heap_time[above] == time and net.heap_order[above] <= order:
            break
        move(net, above, index)
        index = above
    net.heap_time[index] = time
    net.heap_order[index] = order
    net.heap_item[index] = item
    net.heap_flit[index] = flit


def move(net, start, end):
    """Move an event within the heap."""
    net.heap_time[end] = net.heap_time[start]
    net.heap_order[end] = net.heap_order[start]
    net.heap_item[end] = net.heap_item[start]
    net.heap_flit[end] = net.heap_flit[start]


def sooner(net, one, other):
    """Return whether one event of the heap precedes another."""
    if net.heap_time[one] != net.heap_time[other]:
        return net.heap_time[one] < net.heap_time[other]
    return net.heap_order[one] < net.heap_order[other]


def drop_first(net):
    """Remove the first event."""
    net.number[EVENTS] -= 1
    last = net.number[EVENTS]
    index = 0
    while True:
        least = last
        for below in range(2 * index + 1, min(2 * index + 3, last)):
            if sooner(net, below, least):
                least = below
        move(net, least, index)
        if least == last:
            return
        index = least


# -- flits ----------------------------------------------------------------------------------------


def set_out(net, before, packet, link, lane, begin, takes):
    """Start to move a packet, flit by flit, over a link or, for link -1, into memory."""
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
        index = link * net.num_vls + lane
        net.credits[index] -= credits
        net.held[index] += credits
        assert net.credits[index] >= 0, "a packet left without credits"
        net.sent_packets[index] += 1
        net.sent_bytes[index] += num_bytes
        net.number[HOPS] += 1


def flit_begins(net, x, flit):
    """Send a flit's first byte; check that all its bytes arrive in time [11]."""
    packet, before = net.c_packet[x], net.c_before[x]
    num_bytes = net.p_bytes[packet]
    if before >= 0:
        assert net.c_come[before] > flit, "a flit was needed before it arrived"
        came = net.c_begin[before] + net.latency[net.c_link[before]]
        ready = came + net.route_time[net.c_link[before]]
        for edge in range(flit, flit + 2):
            byte = flit_byte(net, num_bytes, edge)
            needed = (net.c_begin[x] - ready) * num_bytes + byte * net.c_takes[x]
            assert needed >= byte * net.c_takes[before], "underrun"
    if flit + 1 < num_flits(net, num_bytes):
        byte = flit_byte(net, num_bytes, flit + 1)
        time = net.c_begin[x] + byte * net.c_takes[x] // num_bytes
        push(net, time, BEGIN, max(net.c_link[x], 0), x, flit + 1)


def flit_arrives(net, x, flit):
    """Receive the first byte of a flit at the far end of a link."""
    packet, link = net.c_packet[x], net.c_link[x]
    num_bytes = net.p_bytes[packet]
    byte, end = flit_byte(net, num_bytes, flit), flit_byte(net, num_bytes, flit + 1)
    index = link * net.num_vls + net.c_lane[x]
    net.inside[index] += end - byte
    assert net.inside[index] <= net.buffer_bytes, "a buffer overflows"
    assert net.c_come[x] == flit, "flits arrived out of order"
    net.c_come[x] += 1
    came = net.c_begin[x] + net.latency[link]
    if flit + 1 < num_flits(net, num_bytes):
        push(net, came + end * net.c_takes[x] // num_bytes, ARRIVE, link, x, flit + 1)
    if flit > 0:
        return
    if net.head[link] >= 0:
        push(net, came + net.route_time[link], ROUTE, link, x, 0)
        return
    # An adapter writes a packet as it arrives or, if it is slower, at its own rate [8].
    takes = net.c_takes[x]
    if 0 < net.adapter_gbps < net.rate[link]:
        takes = duration(num_bytes, net.adapter_gbps)
    begin = max(soonest(net, x, takes, came), net.memory_until[link])
    net.memory_until[link] = begin + takes
    set_out(net, x, packet, -1, net.c_lane[x], begin, takes)


def soonest(net, x, takes, ready):
    """Return the first time at which a packet can be sent on without underrun [11].

    Byte k arrives `k D_in / b` after `ready` and is needed `k D_out / b` after the start.
    """
    num_bytes = net.p_bytes[net.c_packet[x]]
    begin = ready
    for flit in range(num_flits(net, num_bytes) + 1):
        byte = flit_byte(net, num_bytes, flit)
        late = byte * net.c_takes[x] - byte * takes
        begin = max(begin, ready - (-late // num_bytes))
    return begin


def flit_ends(net, x, flit, time):
    """Send the last byte of a flit."""
    packet, before = net.c_packet[x], net.c_before[x]
    num_bytes = net.p_bytes[packet]
    byte, end = flit_byte(net, num_bytes, flit), flit_byte(net, num_bytes, flit + 1)
    if before >= 0:
        index = net.c_link[before] * net.num_vls + net.c_lane[before]
        net.inside[index] -= end - byte
        assert net.inside[index] >= 0, "more bytes left a buffer than arrived"
    if end < num_bytes:
        end_of_next = flit_byte(net, num_bytes, flit + 2)
        when = net.c_begin[x] - (-(end_of_next * net.c_takes[x]) // num_bytes)
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
        credits, index = need(net, num_bytes), link * net.num_vls + lane
        net.held[index] -= credits
        net.returning[index] += credits
        push(net, time + net.latency[link] + net.credit_latency, CREDIT, link, credits, lane)
        check_credits(net, index)
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
    """Mark all links that leave the same node as a link, because its state has changed."""
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


def check_credits(net, index):
    """Assert that no credit is lost and none is added."""
    total = net.credits[index] + net.held[index] + net.returning[index]
    assert total == net.buffer_bytes // net.credit_bytes, "credits are not conserved"


def say(net, what):
    """Report an event of a message to the program."""
    net.reports[net.number[REPORTS]] = what
    net.number[REPORTS] += 1
