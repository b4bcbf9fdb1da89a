"""Plain twin of the packet level, its network: every flit is moved on its own.

Plain functions over flat arrays, which run as they are and which Numba compiles as they are.
Nothing here comes from the kernel; numbers in brackets are of the rules in docs/packet-level.md.
At every instant at which anything may have changed, all links are looked at anew.
"""

from __future__ import annotations

import math

from tests.reference.packet_choices import choose_lane, next_hop, use_lane
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
    LOOK,
    PACKETS,
    ROUTE,
    SAID,
    WAKE,
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
    net.number[LOOK] = 1
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


def check_credits(net, place):
    """No credit is lost and none is made."""
    there = net.credits[place] + net.held[place] + net.returning[place]
    assert there == net.buffer_bytes // net.credit_bytes, "credits are not conserved"


def say(net, what):
    """Let the program hear of a message."""
    net.said[net.number[SAID]] = what
    net.number[SAID] += 1


# -- switches -------------------------------------------------------------------------------------


def queue_of(net, link, lane, out):
    """The queue of what came by a link and lane and goes out by another link [10]."""
    place = link * net.num_vls + lane
    return place * net.num_ports + net.tail_port[out] if net.voq == 1 else place


def route_packet(net, x, time):
    """Decide on the next link and lane, and join the queue [9, 10]."""
    out, lane = next_hop(net, x, time)
    num_bytes = net.p_bytes[net.c_packet[x]]
    net.c_out[x] = out
    net.c_out_lane[x] = lane
    net.c_earliest[x] = soonest(net, x, duration(num_bytes, net.rate[out]), time)
    if net.c_earliest[x] > time:
        push(net, net.c_earliest[x], WAKE, out, x, 0)
    queue = queue_of(net, net.c_link[x], net.c_lane[x], out)
    if net.queue_first[queue] < 0:
        net.queue_first[queue] = x
    else:
        net.c_next[net.queue_last[queue]] = x
    net.queue_last[queue] = x
    net.waiting[out] += 1
    net.wanted[out * net.num_vls + lane] += need(net, num_bytes)
    net.number[LOOK] = 1


def may_go(net, link, lane, out, time):
    """The crossing first in a queue, if it may leave by a link now; else -1 [13]."""
    x = net.queue_first[queue_of(net, link, lane, out)]
    if x < 0 or net.c_out[x] != out or net.c_earliest[x] > time:
        return -1
    if free_way(net, link, time) < 0:
        return -1
    place = out * net.num_vls + net.c_out_lane[x]
    if net.credits[place] < need(net, net.p_bytes[net.c_packet[x]]):
        return -1
    return x


def free_way(net, link, time):
    """A free way through the input port of a link, -1 when there is none [12]."""
    for way in range(link * net.speedup, (link + 1) * net.speedup):
        if net.port_until[way] <= time:
            return way
    return -1


def grant_in_switch(net, out, time):
    """Let one packet leave by a link, if one may [13, 14]; whether one did."""
    row, vls = net.tail[out], net.num_vls
    for lane in range(vls):
        net.among[lane] = 0
    found = 0
    for at in range(net.in_offset[row], net.in_offset[row + 1]):
        for lane in range(vls):
            x = may_go(net, net.in_link[at], lane, out, time)
            if x >= 0:
                net.among[net.c_out_lane[x]] = 1
                found = 1
    if found == 0:
        return False
    out_lane = choose_lane(net, out)
    if out_lane < 0:
        return False
    # The next (port, lane) after the last one, or else the lowest.
    place = out * vls + out_lane
    lowest, after = -1, -1
    for at in range(net.in_offset[row], net.in_offset[row + 1]):
        for lane in range(vls):
            link = net.in_link[at]
            x = may_go(net, link, lane, out, time)
            if x < 0 or net.c_out_lane[x] != out_lane:
                continue
            if lowest < 0:
                lowest = x
            if after < 0 and net.head_port[link] * vls + lane > net.last_taken[place]:
                after = x
    x = after if after >= 0 else lowest
    link, lane, packet = net.c_link[x], net.c_lane[x], net.c_packet[x]
    num_bytes = net.p_bytes[packet]
    use_lane(net, out, out_lane, num_bytes)
    net.last_taken[place] = net.head_port[link] * vls + lane
    queue = queue_of(net, link, lane, out)
    net.queue_first[queue] = net.c_next[x]
    net.waiting[out] -= 1
    net.wanted[place] -= need(net, num_bytes)
    takes = duration(num_bytes, net.rate[out])
    net.port_until[free_way(net, link, time)] = time + takes
    net.link_until[out] = time + takes
    set_out(net, x, packet, out, out_lane, time, takes)
    return True


# -- adapters -------------------------------------------------------------------------------------


def join(net, message):
    """A message joins its queue pair, which joins the line if it has no other [16]."""
    qp = net.msg_qp[message]
    net.msg_next[message] = -1
    first = net.qp_first[qp] < 0
    if first:
        net.qp_first[qp] = message
    else:
        net.msg_next[net.qp_last[qp]] = message
    net.qp_last[qp] = message
    if first:
        line_up(net, qp)
    net.number[LOOK] = 1


def line_up(net, qp):
    """A queue pair goes to the end of the line of the lane of its first message."""
    message = net.qp_first[qp]
    line = net.msg_link[message] * net.num_vls + net.msg_lane[message]
    net.qp_next[qp] = -1
    if net.line_first[line] < 0:
        net.line_first[line] = qp
    else:
        net.qp_next[net.line_last[line]] = qp
    net.line_last[line] = qp
    net.waiting[net.msg_link[message]] += 1


def next_bytes(net, message):
    """Wire bytes of the next packet of a message [1]."""
    return min(net.msg_bytes[message], net.mtu_bytes) + net.header_bytes


def grant_in_adapter(net, out, time):
    """Let a packet leave an adapter, if one may [17]; whether one did."""
    vls = net.num_vls
    found = 0
    for lane in range(vls):
        net.among[lane] = 0
        qp = net.line_first[out * vls + lane]
        if qp >= 0:
            num_bytes = next_bytes(net, net.qp_first[qp])
            if net.credits[out * vls + lane] >= need(net, num_bytes):
                net.among[lane] = 1
                found = 1
    if found == 0:
        return False
    lane = choose_lane(net, out)
    if lane < 0:
        return False
    qp = net.line_first[out * vls + lane]
    message = net.qp_first[qp]
    num_bytes = next_bytes(net, message)
    use_lane(net, out, lane, num_bytes)
    net.number[FREE_PACKETS] -= 1
    packet = net.free_packet[net.number[FREE_PACKETS]]
    net.p_message[packet] = message
    net.p_bytes[packet] = num_bytes
    net.p_number[packet] = net.number[PACKETS]
    net.p_passed[packet] = 0
    net.number[PACKETS] += 1
    if net.msg_left[message] < 0:
        net.msg_left[message] = time
    net.msg_bytes[message] -= num_bytes - net.header_bytes
    net.p_final[packet] = 1 if net.msg_bytes[message] == 0 else 0
    net.line_first[out * vls + lane] = net.qp_next[qp]
    net.waiting[out] -= 1
    if net.msg_bytes[message] == 0:
        net.qp_first[qp] = net.msg_next[message]
    if net.qp_first[qp] >= 0:
        line_up(net, qp)
    takes = duration(num_bytes, net.rate[out])
    net.link_until[out] = time + takes
    if 0 < net.adapter_gbps < net.rate[out]:
        # The next one begins when this one has been read [18].
        net.link_until[out] = time + max(takes, duration(num_bytes, net.adapter_gbps))
        push(net, net.link_until[out], WAKE, out, 0, 0)
    set_out(net, -1, packet, out, lane, time, takes)
    return True


# -- time -----------------------------------------------------------------------------------------


def advance(net, time):
    """Let flits move and credits come back, then route what is to be routed now [24 a]."""
    while net.number[EVENTS] > 0 and net.heap_time[0] <= time:
        assert net.heap_time[0] == time, "time ran backwards"
        kind = net.heap_order[0] >> 32
        link = net.heap_order[0] & 0xFFFFFFFF
        item, flit = net.heap_item[0], net.heap_flit[0]
        drop_first(net)
        if kind == END:
            flit_ends(net, item, flit, time)
        elif kind == ARRIVE:
            flit_arrives(net, item, flit)
        elif kind == BEGIN:
            flit_begins(net, item, flit)
        elif kind == CREDIT:
            place = link * net.num_vls + flit
            net.returning[place] -= item
            net.credits[place] += item
            check_credits(net, place)
            net.number[LOOK] = 1
        elif kind == WAKE:
            net.number[LOOK] = 1
        else:
            route_packet(net, item, time)


def grant(net, time):
    """Grant, from the link of the lowest number on and then again, until none has any [24 d]."""
    if net.number[LOOK] == 0:
        return
    again = True
    while again:
        again = False
        for link in range(net.num_links):
            if net.waiting[link] == 0 or net.link_until[link] > time:
                continue
            if net.tail[link] < 0:
                again = grant_in_adapter(net, link, time)
            else:
                again = grant_in_switch(net, link, time)
            if again:
                break
    net.number[LOOK] = 0


def run_released(net, release, until):
    """Send messages that wait for nothing, each from its time on; they ascend. Gives the time."""
    time, coming = 0, 0
    while True:
        if net.number[EVENTS] > 0 and coming < len(release):
            soon = min(net.heap_time[0], release[coming])
        elif net.number[EVENTS] > 0:
            soon = net.heap_time[0]
        elif coming < len(release):
            soon = release[coming]
        else:
            return time
        if soon > until:
            return until
        time = soon
        advance(net, time)
        while coming < len(release) and release[coming] <= time:
            join(net, coming)
            coming += 1
        grant(net, time)
        net.number[SAID] = 0
