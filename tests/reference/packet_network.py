"""Reference implementation of the packet level's network: every flit is moved individually.

Plain functions over flat arrays, which run as plain Python and which Numba can compile unchanged.
Independent of the kernel; numbers in brackets are those of the rules in docs/packet-level.md.
Whenever the state of a node changes, all links that leave it are checked anew.
"""

from __future__ import annotations

from tests.reference.packet_choices import choose_lane, next_hop, use_lane
from tests.reference.packet_flits import (
    check_credits,
    drop_first,
    duration,
    flit_arrives,
    flit_begins,
    flit_ends,
    look_at,
    need,
    push,
    set_out,
    soonest,
)
from tests.reference.packet_state import (
    ARRIVE,
    BEGIN,
    CREDIT,
    END,
    EVENTS,
    FREE_PACKETS,
    LOOKS,
    PACKETS,
    REPORTS,
    WAKE,
)

# -- switches -------------------------------------------------------------------------------------


def queue_of(net, link, lane, out):
    """Return the queue of packets from a link and lane to another link [10]."""
    index = link * net.num_vls + lane
    return index * net.num_ports + net.tail_port[out] if net.voq == 1 else index


def route_packet(net, x, time):
    """Choose the next link and lane, and join the queue [9, 10]."""
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
    look_at(net, out)


def may_go(net, link, lane, out, time):
    """Return the first crossing of a queue if it may leave by a link now; else -1 [13]."""
    x = net.queue_first[queue_of(net, link, lane, out)]
    if x < 0 or net.c_out[x] != out or net.c_earliest[x] > time:
        return -1
    if free_slot(net, link, time) < 0:
        return -1
    index = out * net.num_vls + net.c_out_lane[x]
    if net.credits[index] < need(net, net.p_bytes[net.c_packet[x]]):
        return -1
    return x


def free_slot(net, link, time):
    """Return a free slot of a link's input port (one of `speedup`), -1 when there is none [12]."""
    for slot in range(link * net.speedup, (link + 1) * net.speedup):
        if net.port_until[slot] <= time:
            return slot
    return -1


def grant_in_switch(net, out, time):
    """Grant a link to one packet if possible [13, 14]; return whether it was granted."""
    row, vls = net.tail[out], net.num_vls
    for lane in range(vls):
        net.among[lane] = 0
    any_candidate = 0
    for at in range(net.in_offset[row], net.in_offset[row + 1]):
        for lane in range(vls):
            x = may_go(net, net.in_link[at], lane, out, time)
            if x >= 0:
                net.among[net.c_out_lane[x]] = 1
                any_candidate = 1
    if any_candidate == 0:
        return False
    out_lane = choose_lane(net, out)
    if out_lane < 0:
        return False
    # The next (port, lane) in cyclic order after the last one granted.
    index = out * vls + out_lane
    lowest, after = -1, -1
    for at in range(net.in_offset[row], net.in_offset[row + 1]):
        for lane in range(vls):
            link = net.in_link[at]
            x = may_go(net, link, lane, out, time)
            if x < 0 or net.c_out_lane[x] != out_lane:
                continue
            if lowest < 0:
                lowest = x
            if after < 0 and net.head_port[link] * vls + lane > net.last_taken[index]:
                after = x
    x = after if after >= 0 else lowest
    link, lane, packet = net.c_link[x], net.c_lane[x], net.c_packet[x]
    num_bytes = net.p_bytes[packet]
    use_lane(net, out, out_lane, num_bytes)
    net.last_taken[index] = net.head_port[link] * vls + lane
    queue = queue_of(net, link, lane, out)
    net.queue_first[queue] = net.c_next[x]
    net.waited[link] += time - net.c_earliest[x]
    net.waiting[out] -= 1
    net.wanted[index] -= need(net, num_bytes)
    takes = duration(num_bytes, net.rate[out])
    net.port_until[free_slot(net, link, time)] = time + takes
    net.link_until[out] = time + takes
    set_out(net, x, packet, out, out_lane, time, takes)
    return True


# -- adapters -------------------------------------------------------------------------------------


def join(net, message):
    """Append a message to its queue pair; if the pair was empty, line up the pair [16]."""
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
    look_at(net, net.msg_link[message])


def line_up(net, qp):
    """Append a queue pair to the service queue of its first message's link and lane."""
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
    """Return the wire bytes of the next packet of a message [1]."""
    return min(net.msg_bytes[message], net.mtu_bytes) + net.header_bytes


def grant_in_adapter(net, out, time):
    """Let one packet leave an adapter if possible [17]; return whether one did."""
    vls = net.num_vls
    any_candidate = 0
    for lane in range(vls):
        net.among[lane] = 0
        qp = net.line_first[out * vls + lane]
        if qp >= 0:
            num_bytes = next_bytes(net, net.qp_first[qp])
            if net.credits[out * vls + lane] >= need(net, num_bytes):
                net.among[lane] = 1
                any_candidate = 1
    if any_candidate == 0:
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
    net.p_number[packet] = (net.injected[out] * net.num_links + out) % 2**31
    net.injected[out] += 1
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
    net.qp_taken[qp] += num_bytes
    goes_on = net.qp_first[qp] >= 0 and net.qp_taken[qp] < net.quantum_bytes
    if goes_on:
        following = net.qp_first[qp]
        goes_on = net.msg_link[following] == out and net.msg_lane[following] == lane
    if goes_on:
        line = out * vls + lane
        net.qp_next[qp] = net.line_first[line]
        if net.line_first[line] < 0:
            net.line_last[line] = qp
        net.line_first[line] = qp
        net.waiting[out] += 1
    else:
        net.qp_taken[qp] = 0
        if net.qp_first[qp] >= 0:
            line_up(net, qp)
            # The next message may use another port of the host.
            look_at(net, net.msg_link[net.qp_first[qp]])
    takes = duration(num_bytes, net.rate[out])
    net.link_until[out] = time + takes
    if 0 < net.adapter_gbps < net.rate[out]:
        # The next packet begins after this one has been read from memory [18].
        net.link_until[out] = time + max(takes, duration(num_bytes, net.adapter_gbps))
        push(net, net.link_until[out], WAKE, out, 0, 0)
    set_out(net, -1, packet, out, lane, time, takes)
    return True


# -- time -----------------------------------------------------------------------------------------


def advance(net, time):
    """Move flits and return credits, then route the packets due now [24 a]."""
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
            index = link * net.num_vls + flit
            net.returning[index] -= item
            net.credits[index] += item
            check_credits(net, index)
            look_at(net, link)
        elif kind == WAKE:
            look_at(net, link)
        else:
            route_packet(net, item, time)


def grant(net, time):
    """Grant links in order of numbers, restarting after each grant, until none can be [24 d]."""
    ordered = 1
    again = True
    while again:
        again = False
        count = net.number[LOOKS]
        for end in range(ordered, count):
            link, at = net.look[end], end
            while at > 0 and net.look[at - 1] > link:
                net.look[at] = net.look[at - 1]
                at -= 1
            net.look[at] = link
        ordered = max(count, 1)
        for at in range(count):
            link = net.look[at]
            if net.waiting[link] == 0 or net.link_until[link] > time:
                continue
            if net.tail[link] < 0:
                again = grant_in_adapter(net, link, time)
            else:
                again = grant_in_switch(net, link, time)
            if again:
                break
    for at in range(net.number[LOOKS]):
        net.looked[net.look[at]] = 0
    net.number[LOOKS] = 0


def count_blocked(net, time, end):
    """Add the time until the next event to links that are free and send nothing that waits."""
    for out in range(net.num_links):
        if net.waiting[out] == 0 or net.link_until[out] > time:
            continue
        row = net.tail[out]
        if row < 0:
            net.blocked[out] += end - time
            continue
        ready = 0
        for at in range(net.in_offset[row], net.in_offset[row + 1]):
            for lane in range(net.num_vls):
                x = net.queue_first[queue_of(net, net.in_link[at], lane, out)]
                if x >= 0 and net.c_out[x] == out and net.c_earliest[x] <= time:
                    ready = 1
        net.blocked[out] += (end - time) * ready


def run_released(net, release, until):
    """Send independent messages at their ascending release times; return the time reached."""
    time, next_message = 0, 0
    while True:
        if net.number[EVENTS] > 0 and next_message < len(release):
            soon = min(net.heap_time[0], release[next_message])
        elif net.number[EVENTS] > 0:
            soon = net.heap_time[0]
        elif next_message < len(release):
            soon = release[next_message]
        else:
            return time
        if soon > until:
            return until
        time = soon
        advance(net, time)
        while next_message < len(release) and release[next_message] <= time:
            join(net, next_message)
            next_message += 1
        grant(net, time)
        net.number[REPORTS] = 0
