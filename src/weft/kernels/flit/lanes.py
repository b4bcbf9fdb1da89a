"""Lanes of the flit level: mail between nodes, buffers, credits and owners of output lanes."""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.flit.records import (
    ACTIVE,
    FLIT,
    GRANTED,
    HEAD,
    PACKET_SHIFT,
    ROUTING,
    WAITING,
    WORD_SHIFT,
)
from weft.kernels.lean import part_njit
from weft.kernels.teams import set_bits

ONE = np.uint64(1)
DUE_MASK = 0xFFFF


@part_njit()
def bit(number):
    """Return a word with one bit."""
    return ONE << np.uint64(number)


@part_njit()
def bit_if(condition, number):
    """Return a word with one bit, or 0; without a branch, which would often be mispredicted."""
    return np.uint64(condition) << np.uint64(number)


@part_njit()
def lane_bit(number):
    """Return the bit of a lane."""
    return np.uint32(1) << np.uint32(number)


@part_njit()
def first_after(word, last):
    """Return the number of the first bit of a word above bit `last`, or else of the first bit."""
    above = word & ~(bit(last) | (bit(last) - ONE))
    return lowest_bit(above if above else word)


@part_njit()
def wake_at(net, cycle, place):
    """Visit a node of this thread in a cycle."""
    words = len(net.active)
    bucket = cycle & (net.rules.horizon - 1)
    net.mail.awake[bucket * words + (place >> 6)] |= bit(place & 63)


@part_njit()
def _announce(net, ports, cycle, place, port, foreign):
    """Visit a node in the cycle in which something arrives at a port of it."""
    rules, words = net.rules, len(net.active)
    bucket = cycle & (rules.horizon - 1)
    if not foreign:
        ports[bucket * rules.places + place] |= bit(port)
        net.mail.awake[bucket * words + (place >> 6)] |= bit(place & 63)
    else:
        bucket += rules.horizon
        set_bits(ports, bucket * rules.places + place, bit(port))
        set_bits(net.mail.awake, bucket * words + (place >> 6), bit(place & 63))


@part_njit()
def announced(net, ports, cycle, place):
    """Return the bits of the ports of a node at which something arrives, and clear them."""
    rules = net.rules
    at = (cycle & (rules.horizon - 1)) * rules.places + place
    found = ports[at]
    ports[at] = 0
    if rules.members > 1:
        at += rules.horizon * rules.places
        found |= ports[at]
        ports[at] = 0
    return found


@part_njit()
def put_on_link(net, now, number, lane, flit):
    """Send a flit over a lane of an output."""
    rules, output, mail = net.rules, net.outputs[number], net.mail
    output.flits += 1
    if rules.turns:
        net.turns[number].busy = now + net.turns[number].interval
    net.count.hops += 1
    cycle = now + output.latency
    bucket = cycle & (rules.horizon - 1)
    at = bucket * len(net.inputs) + output.head
    mail.flits[at] = lane << WORD_SHIFT | flit
    place, port = np.int64(output.head_node), np.int64(output.head_port)
    _announce(net, mail.flit_ports, cycle, place, port, output.foreign)


@part_njit()
def send_credit(net, now, number, lane):
    """Return a credit for a lane of an input."""
    link, mail = net.inputs[number], net.mail
    cycle = now + net.rules.credit_delay + link.latency
    bucket = cycle & (net.rules.horizon - 1)
    mail.credits[bucket * len(net.outputs) + link.tail] |= lane_bit(lane)
    place, port = np.int64(link.tail_node), np.int64(link.tail_port)
    _announce(net, mail.credit_ports, cycle, place, port, link.foreign)


@part_njit()
def use_credit(net, number, lane):
    """Take a place in the buffer at the other end of an output; endpoints accept every flit."""
    output = net.outputs[number]
    sends = net.out_lanes[number << net.rules.lane_shift | lane]
    is_bounded = output.head >= len(net.endpoints)
    output.shared -= is_bounded & (sends.credits <= 0)
    sends.credits -= is_bounded


@part_njit()
def return_credit(net, number, lane):
    """Add a place in the buffer beyond an output; return whether it is a shared one."""
    output, sends = net.outputs[number], net.out_lanes[number << net.rules.lane_shift | lane]
    sends.credits += 1
    is_shared = sends.credits <= 0
    output.shared += is_shared
    return is_shared


@part_njit()
def has_place(net, out):
    """Return whether an output lane takes a flit of its packet now."""
    sends = net.out_lanes[out]
    if net.rules.output_buffer:
        return net.queues[out].count < net.rules.output_buffer
    return sends.credits > 0 or net.outputs[out >> net.rules.lane_shift].shared > 0


@part_njit()
def set_ready(net, router, port, number, k):
    """Mark the first flit of a lane as one that may be sent."""
    net.inputs[number].ready |= lane_bit(k)
    router.ready |= bit(port)


@part_njit()
def clear_ready(net, router, port, number, k):
    """Take back `set_ready`."""
    link = net.inputs[number]
    link.ready &= ~lane_bit(k)
    router.ready &= ~bit_if(link.ready == 0, port)


@part_njit()
def _decide_later(net, router, port, number, k, state, delay, now):
    """Enter a state that ends after a delay."""
    here = net.in_lanes[number << net.rules.lane_shift | k]
    here.state = state
    here.due = (now + delay) & DUE_MASK
    net.inputs[number].deciding |= lane_bit(k)
    router.deciding |= bit(port)


@part_njit()
def first_packet(net, lane):
    """Return the packet at the front of the buffer of an input lane."""
    return np.int64(net.in_lanes[lane].front >> PACKET_SHIFT)


@part_njit()
def begin_waiting(net, router, port, number, k):
    """Let the packet at the front of a buffer wait for an output lane."""
    here = net.in_lanes[number << net.rules.lane_shift | k]
    here.state = WAITING
    here.out = -1
    net.inputs[number].waiting |= lane_bit(k)
    router.waiting |= bit(port)


@part_njit()
def begin_packet(net, router, port, number, k, now):
    """Begin with the packet that has come to the front of a buffer."""
    delay = net.rules.routing_delay
    if delay:
        _decide_later(net, router, port, number, k, ROUTING, delay, now)
    else:
        begin_waiting(net, router, port, number, k)


@part_njit()
def activate(net, router, port, number, k):
    """Let the packet at the front of a buffer use its output lane."""
    lane = number << net.rules.lane_shift | k
    here = net.in_lanes[lane]
    here.state = ACTIVE
    if here.count and has_place(net, np.int64(here.out)):
        set_ready(net, router, port, number, k)


@part_njit()
def grant_lane(net, router, port, number, k, out, now):
    """Give an output lane to the packet at the front of a buffer."""
    lane = number << net.rules.lane_shift | k
    here, link = net.in_lanes[lane], net.inputs[number]
    link.waiting &= ~lane_bit(k)
    router.waiting &= ~bit_if(link.waiting == 0, port)
    here.out = out
    here.out_port = (out >> net.rules.lane_shift) - router.first_out
    if net.rules.vc_delay > 1:
        _decide_later(net, router, port, number, k, GRANTED, net.rules.vc_delay, now)
    else:
        activate(net, router, port, number, k)


@part_njit()
def decisions(net, now, router):
    """End the routing and the lane allocation that are due at a router."""
    ports = router.deciding
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        link = net.inputs[number]
        bits = np.uint64(link.deciding)
        while bits:
            k = lowest_bit(bits)
            bits &= bits - ONE
            here = net.in_lanes[number << net.rules.lane_shift | k]
            if here.due != now & DUE_MASK:
                continue
            link.deciding &= ~lane_bit(k)
            if here.state == ROUTING:
                begin_waiting(net, router, port, number, k)
            else:
                activate(net, router, port, number, k)
        router.deciding &= ~bit_if(link.deciding == 0, port)


@part_njit()
def arrivals(net, now, node, router):
    """Store the flits that arrive at a router."""
    rules, mail = net.rules, net.mail
    bucket = now & (rules.horizon - 1)
    ports = announced(net, mail.flit_ports, now, node)
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        at = bucket * len(net.inputs) + number
        k, flit = mail.flits[at] >> WORD_SHIFT, mail.flits[at] & FLIT
        lane = number << rules.lane_shift | k
        here = net.in_lanes[lane]
        if flit & HEAD:
            net.inputs[number].wait -= now + rules.least
            net.inputs[number].heads += 1
        here.count += 1
        if here.count > 1:
            place = np.int64(here.first) + here.count - 2
            if place >= rules.depth:
                place -= rules.depth
            net.flits[(number * rules.depth + place) << rules.lane_shift | k] = flit
        else:
            here.front = flit
            if flit & HEAD:
                begin_packet(net, router, port, number, k, now)
            elif here.state == ACTIVE and has_place(net, np.int64(here.out)):
                set_ready(net, router, port, number, k)


@part_njit()
def may_go_on(net, router, out):
    """Mark the buffer whose packet owns an output lane as ready."""
    owner = np.int64(net.out_lanes[out].owner)
    if owner < 0:
        return
    here = net.in_lanes[owner]
    if here.state == ACTIVE and here.count and here.out == out:
        shift = net.rules.lane_shift
        number = owner >> shift
        set_ready(net, router, number - router.first_in, number, owner & ((1 << shift) - 1))


@part_njit()
def credits(net, now, node, router):
    """Handle the credits that arrive at a router."""
    rules, mail = net.rules, net.mail
    bucket = now & (rules.horizon - 1)
    ports = announced(net, mail.credit_ports, now, node)
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_out) + port
        bits = np.uint64(mail.credits[bucket * len(net.outputs) + number])
        mail.credits[bucket * len(net.outputs) + number] = 0
        was_shared = False
        while bits:
            k = lowest_bit(bits)
            bits &= bits - ONE
            had_place = has_place(net, number << rules.lane_shift | k)
            was_shared |= return_credit(net, number, k)
            if not (had_place or rules.output_buffer):
                may_go_on(net, router, number << rules.lane_shift | k)
        if was_shared and not rules.output_buffer:
            for k in range(rules.lanes):
                may_go_on(net, router, number << rules.lane_shift | k)


@part_njit()
def take_lane(net, number, allowed, owner, size):
    """Give a free lane of an output to an owner and return it, or -1 if there is none."""
    rules, output = net.rules, net.outputs[number]
    free = np.uint64(output.free & allowed)
    if not free:
        return np.int64(-1)
    checks = rules.atomic or rules.whole
    while free:
        k = first_after(free, output.given_lane)
        free &= ~bit(k)
        lane = number << rules.lane_shift | k
        sends = net.out_lanes[lane]
        if checks and output.head >= len(net.endpoints):
            queued = np.int64(net.queues[lane].count) if rules.output_buffer else np.int64(0)
            if rules.atomic and (sends.credits < rules.buffer or queued):
                continue
            room = max(np.int64(sends.credits), 0) + output.shared - queued
            if rules.whole and room < size:
                continue
        output.given_lane = k
        output.free &= ~lane_bit(k)
        sends.owner = owner
        return lane
    return np.int64(-1)


@part_njit()
def give_back(net, out):
    """Take an output lane from its owner, whose packet has passed."""
    shift = net.rules.lane_shift
    net.out_lanes[out].owner = -1
    net.outputs[out >> shift].free |= lane_bit(out & ((1 << shift) - 1))


@part_njit()
def take_flit(net, now, router, port, number, k):
    """Take the first flit out of a buffer and return it; a tail frees the output lane."""
    rules = net.rules
    lane = number << rules.lane_shift | k
    here = net.in_lanes[lane]
    flit = np.int64(here.front)
    here.count -= 1
    if here.count:
        place = np.int64(here.first)
        here.front = net.flits[(number * rules.depth + place) << rules.lane_shift | k]
        # A short queue stays in the same memory.
        here.first = place + 1 if place + 1 < rules.depth and here.count > 1 else 0
    send_credit(net, now, number, k)
    return flit
