"""Endpoints of the flit level: what they send, and what they do with packets that arrive."""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.flit.lanes import (
    ONE,
    announced,
    bit,
    first_after,
    give_back,
    lane_bit,
    put_on_link,
    return_credit,
    take_lane,
    use_credit,
    wake_at,
)
from weft.kernels.flit.multicast import (
    again,
    begin_cast,
    combine,
    copy_arrives,
    data_bytes,
    ends_here,
    is_cast,
    poster,
)
from weft.kernels.flit.records import FLIT, HEAD, LAST, PACKET_SHIFT, RECEIVED, SENT, TAIL
from weft.kernels.hashing import splitmix64
from weft.kernels.lean import part_njit
from weft.kernels.parts import call_for_none
from weft.kernels.program.events import ARRIVE, END, push_event
from weft.kernels.program.operations import DATA, NOTHING, PUT


@part_njit()
def _stream(net, number):
    """Return the seed of an endpoint."""
    endpoint = net.endpoints[number]
    if endpoint.stream == 0:
        endpoint.stream = splitmix64(net.rules.seed ^ splitmix64(np.uint64(number)))
    return endpoint.stream


@part_njit()
def draw(net, number):
    """Return the next random number of an endpoint, uniform on (0, 1]."""
    endpoint = net.endpoints[number]
    endpoint.drawn += 1
    stream = _stream(net, number)
    return (splitmix64(stream ^ np.uint64(endpoint.drawn)) >> np.uint64(11)) * 2.0**-53 + 2.0**-53


@part_njit()
def _next_birth(net, number):
    """Draw the cycle in which an endpoint generates its next packet."""
    endpoint, rate = net.endpoints[number], net.rules.rate
    if rate >= 1.0:
        endpoint.birth += 1
        return
    gap = np.floor(np.log(draw(net, number)) / net.rules.stay)
    endpoint.birth += 1 + np.int64(min(gap, 1e15))


@part_njit()
def _index(net, number, count):
    """Draw a whole number below `count`."""
    return min(np.int64(draw(net, number) * count), count - 1)


@part_njit()
def _destination(net, number):
    """Draw the destination of a packet."""
    first = net.traffic.target_offset[number]
    count = net.traffic.target_offset[number + 1] - first
    if count > 1:
        first += _index(net, number, count)
    target = np.int64(net.traffic.targets[first])
    if target < 0:
        other = _index(net, number, len(net.endpoints) - 1)
        target = other + (other >= number)
    return target


@part_njit()
def _size(net, number):
    """Draw the size of a packet."""
    if net.rules.sizes == 1:
        return np.int64(net.traffic.size[0])
    u = draw(net, number)
    k = 0
    while u > net.traffic.size_below[k]:
        k += 1
    return np.int64(net.traffic.size[k])


@part_njit()
def _new_packet(net, number, destination, size, born):
    """Return a new packet of an endpoint."""
    count = net.count
    count.packets -= 1
    slot = np.int64(net.free_packets[count.packets])
    endpoint = net.endpoints[number]
    endpoint.packets += 1
    packet, origin = net.packets[slot], net.origins[slot]
    packet.key = splitmix64(_stream(net, number) ^ splitmix64(np.uint64(endpoint.packets)))
    packet.destination = destination
    packet.size = size
    packet.hops = 0
    packet.via = -1
    packet.state = 0
    packet.kind = 0
    packet.priority = 0
    origin.born = born
    origin.source = number
    origin.way = 0
    origin.message = -1
    origin.next = -1
    count.under_way += 1
    return slot


@part_njit()
def _packet_left(net, ranks, now, op):
    """Count a packet that has left; with the last one, a put or rendezvous send ends."""
    net.messages[op].sending -= 1
    if ranks.sends[op] != DATA or net.messages[op].sending > 0:
        return
    if ranks.program.kind[op] != PUT and ranks.program.size_bytes[op] <= ranks.rules.eager_bytes:
        return
    end = (now + 1) * net.rules.cycle_ps
    if ranks.program.successor_offset[op + 1] == ranks.program.successor_offset[op]:
        # No operation depends on this one: no event is needed.
        ranks.ended[op] = end
        ranks.count.ended += 1
    else:
        push_event(ranks.heap, end, END | op)


@part_njit()
def _next_of_message(net, ranks, number, now):
    """Return the next packet of an endpoint's messages, which take turns."""
    rules, endpoint = net.rules, net.endpoints[number]
    op = np.int64(endpoint.first_message)
    message = net.messages[op]
    payload = min(message.left, np.int64(rules.payload_bytes))
    size = (payload + rules.overhead_bytes + rules.flit_bytes - 1) // rules.flit_bytes
    slot = _new_packet(net, number, np.int64(message.destination), max(size, 1), now)
    net.origins[slot].message = op
    net.packets[slot].priority = message.priority
    begin_cast(net, net.casts, ranks, now, slot, op)
    is_data = ranks.sends[op] == DATA
    if is_data and ranks.left[op] < 0:
        ranks.left[op] = now * rules.cycle_ps
    message.left -= payload
    endpoint.turn += 1
    if message.left > 0 and endpoint.turn < rules.turn_packets:
        return slot
    endpoint.turn = 0
    endpoint.first_message = message.next
    if endpoint.first_message < 0:
        endpoint.last_message = -1
    if message.left > 0:
        append_message(net, number, op)
    return slot


@part_njit()
def post_message(net, ranks, op):
    """Let an endpoint send a message, or the request or answer of a rendezvous.

    A multicast is sent when all its operations have begun.
    """
    rules, message, sends = net.rules, net.messages[op], ranks.sends
    if sends[op] == NOTHING:
        sends[op] = DATA
    message.left = (
        data_bytes(net.casts, ranks, op) if sends[op] == DATA else np.int64(rules.control_bytes)
    )
    message.missing = max((message.left + rules.payload_bytes - 1) // rules.payload_bytes, 1)
    message.sending = message.missing
    first = poster(net.casts, op)
    if first >= 0:
        append_message(net, np.int64(message.source), first)


@part_njit()
def append_message(net, number, op):
    """Append a message to those of an endpoint."""
    endpoint = net.endpoints[number]
    net.messages[op].next = -1
    if endpoint.last_message < 0:
        endpoint.first_message = op
    else:
        net.messages[endpoint.last_message].next = op
    endpoint.last_message = op


@part_njit()
def _has_next(net, ranks, number, kind, now):
    """Return whether an endpoint has a packet of a class to send."""
    endpoint = net.endpoints[number]
    if ranks is not None:
        return kind == 0 and endpoint.first_message >= 0
    if kind == 1:
        return endpoint.first_reply >= 0
    return endpoint.birth <= now


@part_njit()
def _next_packet(net, ranks, number, kind, now):
    """Return the next packet of a class that an endpoint sends."""
    rules, endpoint = net.rules, net.endpoints[number]
    if ranks is not None:
        return _next_of_message(net, ranks, number, now)
    if kind == 1:
        slot = np.int64(endpoint.first_reply)
        endpoint.first_reply = net.origins[slot].next
        if endpoint.first_reply < 0:
            endpoint.last_reply = -1
        return slot
    destination, size = _destination(net, number), _size(net, number)
    slot = _new_packet(net, number, destination, size, endpoint.birth)
    net.count.born += rules.warmup <= endpoint.birth < rules.end
    _next_birth(net, number)
    return slot


@part_njit()
def _open_packets(net, ranks, number, now):
    """Begin with packets for which there is an injection lane."""
    rules, endpoint = net.rules, net.endpoints[number]
    for kind in range(rules.classes):
        lanes = ((ONE << np.uint64(rules.class_lanes)) - ONE) << np.uint64(kind * rules.class_lanes)
        while _has_next(net, ranks, number, kind, now):
            busy, count = np.uint64(endpoint.open) & lanes, 0
            while busy:
                busy &= busy - ONE
                count += 1
            if count >= rules.window:
                break
            if rules.circuits and endpoint.busy > now:
                wake_at(net, min(endpoint.busy, now + rules.horizon - 1), number + rules.end_shift)
                break
            if not np.uint64(net.outputs[number].free) & lanes:
                break
            # A packet that needs much room must be known before its lane; no class has both.
            lane = take_lane(net, number, np.uint32(lanes), 0, np.int64(rules.largest))
            if lane < 0:
                break
            slot = _next_packet(net, ranks, number, kind, now)
            sending = net.sending[lane]
            sending.packet = slot
            sending.left = net.packets[slot].size
            sending.held = rules.circuits
            endpoint.open |= lane_bit(lane - (number << rules.lane_shift))
            if rules.enter:
                call_for_none(rules.enter, (net, now, number, slot))
            if rules.circuits:
                _handle(net, now, number, SENT)


@part_njit()
def _handle(net, since, number, direction):
    """Occupy an adapter with a packet; return the cycle in which it has handled the packet."""
    rules, endpoint = net.rules, net.endpoints[number]
    begin = max(since, endpoint.busy)
    if endpoint.direction == 1 - direction:
        begin += rules.turnaround
    endpoint.direction = direction
    endpoint.busy = begin + rules.service
    return endpoint.busy


@part_njit()
def _send_flit(net, ranks, now, number):
    """Send a flit of an endpoint, of its lanes in turn; return whether there was one."""
    rules, endpoint, output = net.rules, net.endpoints[number], net.outputs[number]
    if rules.turns and net.turns[number].busy > now:
        wake_at(net, net.turns[number].busy, number + rules.end_shift)
        return False
    bits = np.uint64(endpoint.open)
    while bits:
        k = first_after(bits, endpoint.last_lane)
        bits &= ~bit(k)
        lane = number << rules.lane_shift | k
        sending, sends = net.sending[lane], net.out_lanes[lane]
        if sending.left == 1 and sending.held:
            continue
        if sends.credits <= 0 and output.shared <= 0:
            continue
        packet = net.packets[sending.packet]
        flit = np.int64(sending.packet) << PACKET_SHIFT
        if sending.left == packet.size:
            flit |= HEAD
            origin = net.origins[sending.packet]
            origin.entered = now
            if rules.circuits:
                origin.way += output.latency
        sending.left -= 1
        if sending.left == rules.circuits:
            flit |= LAST
            if ranks is not None:
                _packet_left(net, ranks, now, np.int64(net.origins[sending.packet].message))
        if sending.left == 0:
            flit |= TAIL
            give_back(net, lane)
            endpoint.open &= ~lane_bit(k)
        endpoint.last_lane = k
        use_credit(net, number, k)
        put_on_link(net, now, number, k, flit)
        return True
    return False


@part_njit()
def _acknowledge(net, now, number, slot):
    """Schedule the acknowledgement of a packet's data."""
    began = now - np.int64(net.packets[slot].size) + 2  # its first flit came then or before
    leaves = max(_handle(net, began, number, RECEIVED), now)
    if combine(net, net.casts, number, slot, leaves):
        _post(net, now, slot)


@part_njit()
def _post(net, now, slot):
    """Put a packet on the list of the cycle in which its acknowledgement comes, or before it."""
    bucket = min(net.origins[slot].due, now + net.rules.horizon - 1) & (net.rules.horizon - 1)
    net.origins[slot].next = net.mail.acknowledged[bucket]
    net.mail.acknowledged[bucket] = slot
    net.count.acknowledging += 1


@part_njit()
def acknowledgements(net, ranks, now):
    """Let sources send the tails of packets whose acknowledgement has come."""
    rules = net.rules
    bucket = now & (rules.horizon - 1)
    slot = np.int64(net.mail.acknowledged[bucket])
    net.mail.acknowledged[bucket] = -1
    while slot >= 0:
        origin = net.origins[slot]
        after = np.int64(origin.next)
        net.count.acknowledging -= 1
        if origin.due > now:
            _post(net, now, slot)
        else:
            source = np.int64(origin.source)
            for k in range(rules.lanes):
                sending = net.sending[source << rules.lane_shift | k]
                if sending.packet == slot and net.endpoints[source].open & lane_bit(k):
                    sending.held = 0
            op = again(net, net.casts, ranks, now, slot)
            if op >= 0:
                append_message(net, source, op)
            wake_at(net, now, source)
        slot = after


@part_njit()
def _reply(net, now, number, slot):
    """Queue the reply to a request that has arrived."""
    endpoint = net.endpoints[number]
    answer = _new_packet(
        net, number, np.int64(net.origins[slot].source), np.int64(net.rules.reply_size), now
    )
    net.packets[answer].kind = 1
    net.count.born += net.rules.warmup <= now < net.rules.end
    if endpoint.last_reply < 0:
        endpoint.first_reply = answer
    else:
        net.origins[endpoint.last_reply].next = answer
    endpoint.last_reply = answer


@part_njit()
def _has_arrived(net, ranks, now, number, slot):
    """Count a packet whose data have arrived, and act upon it."""
    rules, count, origin = net.rules, net.count, net.origins[slot]
    if is_cast(net.casts, slot):
        copy_arrives(net, net.casts, ranks, now, number, slot)
    elif ranks is not None:
        op = np.int64(origin.message)
        net.messages[op].missing -= 1
        if net.messages[op].missing == 0:
            time = now * rules.cycle_ps + ranks.rules.adapter_latency
            push_event(ranks.heap, time, ARRIVE | op)
    if rules.warmup <= origin.born < rules.end:
        count.packet_hops += net.packets[slot].hops
        batch = net.batches[(origin.born - rules.warmup) // rules.batch]
        batch.measured += 1
        batch.latency += now - origin.born
        batch.network += now - origin.entered
        net.histogram[min(now - origin.born, len(net.histogram) - 1)] += 1
    if rules.requests and net.packets[slot].kind == 0:
        _reply(net, now, number, slot)
    if rules.circuits:
        _acknowledge(net, now, number, slot)


@part_njit()
def _receive(net, ranks, now, number):
    """Take the flit that arrives at an endpoint."""
    rules, count = net.rules, net.count
    bucket = now & (rules.horizon - 1)
    flit = net.mail.flits[bucket * len(net.inputs) + number] & FLIT
    if rules.warmup <= now < rules.end:
        net.endpoints[number].ejected += 1
        net.batches[(now - rules.warmup) // rules.batch].ejected += 1
    slot = flit >> PACKET_SHIFT
    if flit & LAST:
        _has_arrived(net, ranks, now, number, slot)
    if flit & TAIL and ends_here(net, net.casts, ranks, now, number, slot):
        count.under_way -= 1
        net.free_packets[count.packets] = slot
        count.packets += 1


@part_njit()
def visit_endpoint(net, ranks, now, number):
    """Let an endpoint act in a cycle; return whether it must be visited in the next one."""
    rules, mail = net.rules, net.mail
    bucket = now & (rules.horizon - 1)
    place = number + rules.end_shift
    if announced(net, mail.credit_ports, now, place):
        bits = np.uint64(mail.credits[bucket * len(net.outputs) + number])
        mail.credits[bucket * len(net.outputs) + number] = 0
        while bits:
            k = lowest_bit(bits)
            bits &= bits - ONE
            return_credit(net, number, k)
    if announced(net, mail.flit_ports, now, place):
        _receive(net, ranks, now, number)
    _open_packets(net, ranks, number, now)
    sent = False
    if net.endpoints[number].open:
        sent = _send_flit(net, ranks, now, number)
    if ranks is None and not sent and net.endpoints[number].birth > now:
        wake_at(
            net, min(net.endpoints[number].birth, now + rules.horizon - 1), number + rules.end_shift
        )
    return sent
