"""The loop of the flit level: routers forward flits cycle by cycle.

A cycle has these steps: flits, credits and decisions that are due arrive; sources send flits;
packets at the front of a buffer get output lanes, and flits cross the switch, router by router.
Only sources and routers with something to do are visited.
"""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.flit.records import (
    ACTIVE,
    GRANTED,
    HEAD,
    IDLE,
    LANE_SHIFT,
    PACKET_SHIFT,
    ROUTING,
    TAIL,
    WAITING,
)
from weft.kernels.hashing import splitmix64
from weft.kernels.lean import lean_njit, part_njit

# Reasons for which the loop returns.
DONE = 0
NO_PACKETS = 1

ONE = np.uint64(1)


@part_njit()
def _at(net, cycle, lane, code):
    """Schedule the arrival of a flit at the head of a lane, or of a credit (0) at its tail."""
    bucket = cycle & (net.rules.horizon - 1)
    net.events[bucket * net.rules.slot + net.used[bucket]] = lane << LANE_SHIFT | code
    net.used[bucket] += 1


@part_njit()
def _decide_at(net, cycle, lane):
    """Schedule the end of routing, or of lane allocation, of the packet at a lane's front."""
    bucket = cycle & (net.rules.horizon - 1)
    net.lanes[lane].next = net.decided[bucket]
    net.decided[bucket] = lane


@part_njit()
def _bit(number):
    return ONE << np.uint64(number)


@part_njit()
def _wake(net, row):
    """Put a router among those that are visited."""
    net.active[row >> 6] |= _bit(row & 63)


@part_njit()
def _ready(net, here, lane):
    """Mark the first flit of a lane as ready to be sent."""
    number = np.int64(here.link)
    link = net.links[number]
    row = np.int64(link.head_row)
    link.ready |= np.uint32(1) << np.uint32(lane - number * net.rules.lanes)
    net.routers[row].ready |= _bit(link.in_port)
    _wake(net, row)


@part_njit()
def _not_ready(net, here, lane):
    """Take back `_ready`."""
    number = np.int64(here.link)
    link = net.links[number]
    link.ready &= ~(np.uint32(1) << np.uint32(lane - number * net.rules.lanes))
    if not link.ready:
        net.routers[link.head_row].ready &= ~_bit(link.in_port)


@part_njit()
def _wait(net, lane, route):
    """Let the packet at the front of a buffer wait for an output lane."""
    rules, here = net.rules, net.lanes[lane]
    number = np.int64(here.link)
    link = net.links[number]
    row = np.int64(link.head_row)
    flit = net.flits[lane * rules.buffer + here.first]
    route(net, row, number, lane, np.int64(flit >> PACKET_SHIFT))
    here.state = WAITING
    link.waiting |= np.uint32(1) << np.uint32(lane - number * rules.lanes)
    net.routers[row].waiting |= _bit(link.in_port)
    _wake(net, row)


@part_njit()
def _front(net, now, lane, route):
    """Begin with the packet that has come to the front of a buffer."""
    if net.rules.routing_delay:
        net.lanes[lane].state = ROUTING
        _decide_at(net, now + net.rules.routing_delay, lane)
    else:
        _wait(net, lane, route)


@part_njit()
def _leave(net, now, flit):
    """Count a flit that has arrived at its destination."""
    rules, count = net.rules, net.count
    count.ejected += rules.warmup <= now < rules.end
    if not flit & TAIL:
        return
    slot = flit >> PACKET_SHIFT
    packet = net.packets[slot]
    if rules.warmup <= packet.born < rules.end:
        count.measured += 1
        count.latency += now - packet.born
        count.network += now - packet.entered
        count.packet_hops += packet.hops
    count.under_way -= 1
    net.free_packets[count.packets] = slot
    count.packets += 1


@part_njit()
def _arrive(net, now, lane, flit, route):
    """Handle the arrival of a flit at the head of a link."""
    rules, here = net.rules, net.lanes[lane]
    place = np.int64(here.first) + here.count
    if place >= rules.buffer:
        place -= rules.buffer
    net.flits[lane * rules.buffer + place] = flit
    here.count += 1
    if here.count == 1:
        if flit & HEAD:
            _front(net, now, lane, route)
        elif here.state == ACTIVE and net.lanes[here.out].credits > 0:
            _ready(net, here, lane)


@part_njit()
def _credit(net, lane):
    """Return a credit to the output of a lane."""
    output = net.lanes[lane]
    output.credits += 1
    if output.credits == 1 and output.owner >= 0 and net.links[output.link].tail_row >= 0:
        owner = np.int64(output.owner)
        here = net.lanes[owner]
        if here.state == ACTIVE and here.count:
            _ready(net, here, owner)


@part_njit()
def _activate(net, lane):
    """Let the packet at the front of a buffer use its output lane."""
    here = net.lanes[lane]
    here.state = ACTIVE
    if here.count and net.lanes[here.out].credits > 0:
        _ready(net, here, lane)


@part_njit()
def _random(net, number):
    """Return the next random number of a source, uniform on (0, 1]."""
    source = net.sources[number]
    source.drawn += 1
    stream = splitmix64(net.rules.seed ^ splitmix64(np.uint64(number)))
    return (splitmix64(stream ^ np.uint64(source.drawn)) >> np.uint64(11)) * 2.0**-53 + 2.0**-53


@part_njit()
def _next_birth(net, number):
    """Draw the cycle in which a source generates its next packet."""
    source = net.sources[number]
    rate = net.rules.rate
    if rate >= 1.0:
        source.birth += 1
        return
    gap = np.floor(np.log(_random(net, number)) / np.log1p(-rate))
    source.birth += 1 + np.int64(min(gap, 1e15))


@part_njit()
def _sleep(net, now, number):
    """Visit a source again when its next packet is generated."""
    source = net.sources[number]
    bucket = min(source.birth, now + net.rules.horizon - 1) & (net.rules.horizon - 1)
    source.next = net.births[bucket]
    net.births[bucket] = number


@part_njit()
def _take_lane(net, number, allowed, owner):
    """Give a free lane of an output link to an owner and return it, or -1 if there is none."""
    rules, link = net.rules, net.links[number]
    bits = np.uint64(link.free & allowed)
    need = rules.buffer if rules.atomic else (rules.size if rules.whole else 0)
    low = _bit(link.next_lane) - ONE
    for part in (bits & ~low, bits & low):
        left = part
        while left:
            k = lowest_bit(left)
            left &= left - ONE
            lane = number * rules.lanes + k
            if net.lanes[lane].credits >= need:
                link.next_lane = k + 1 if k + 1 < rules.lanes else 0
                link.free &= ~(np.uint32(1) << np.uint32(k))
                net.lanes[lane].owner = owner
                return lane
    return np.int64(-1)


@part_njit()
def _give_back(net, output, lane):
    """Take a lane from its owner, whose packet has left."""
    output.owner = -1
    number = np.int64(output.link)
    net.links[number].free |= np.uint32(1) << np.uint32(lane - number * net.rules.lanes)


@part_njit()
def _send(net, now, output, lane, flit):
    """Send a flit over a lane."""
    link = net.links[output.link]
    link.flits += 1
    net.count.hops += 1
    output.credits -= link.head_row >= 0
    _at(net, now + link.latency, lane, flit + 1)


@part_njit()
def _begin_packet(net, now, number):
    """Create the next packet of a source on a free injection lane; return whether there is one."""
    rules, count = net.rules, net.count
    source = net.sources[number]
    lane = _take_lane(net, np.int64(source.link), np.uint32(0xFFFFFFFF), number)
    if lane < 0:
        return False
    count.packets -= 1
    slot = np.int64(net.free_packets[count.packets])
    packet = net.packets[slot]
    packet.born = source.birth
    packet.source = number
    packet.size = rules.size
    packet.hops = 0
    packet.destination = net.targets[number]
    if packet.destination < 0:
        hosts = len(net.sources)
        other = min(np.int64(_random(net, number) * (hosts - 1)), hosts - 2)
        packet.destination = other + (other >= number)
    count.born += rules.warmup <= packet.born < rules.end
    count.under_way += 1
    _next_birth(net, number)
    source.packet = slot
    source.lane = lane
    source.left = rules.size
    return True


@part_njit()
def _source(net, now, number):
    """Send a flit of a source; return whether it has more to send."""
    rules, source = net.rules, net.sources[number]
    if source.packet < 0:
        if source.birth > now:
            _sleep(net, now, number)
            return False
        if not _begin_packet(net, now, number):
            return True
    lane = np.int64(source.lane)
    output = net.lanes[lane]
    if output.credits <= 0:
        return True
    flit = np.int64(source.packet) << PACKET_SHIFT
    if source.left == rules.size:
        flit |= HEAD
        net.packets[source.packet].entered = now
    source.left -= 1
    net.count.injected += rules.warmup <= now < rules.end
    if source.left == 0:
        flit |= TAIL
        _give_back(net, output, lane)
        source.packet = -1
    _send(net, now, output, lane, flit)
    return True


@part_njit()
def _give_lanes(net, now, router):
    """Give output lanes to the packets that wait for one at a router, in rotating order."""
    rules = net.rules
    low = _bit(router.last_waiting) | (_bit(router.last_waiting) - ONE)
    for part in (router.waiting & ~low, router.waiting & low):
        ports = part
        while ports:
            port = lowest_bit(ports)
            ports &= ports - ONE
            number = np.int64(net.in_links[router.first_in + port])
            link = net.links[number]
            bits = np.uint64(link.waiting)
            while bits:
                k = lowest_bit(bits)
                bits &= bits - ONE
                lane = number * rules.lanes + k
                here = net.lanes[lane]
                if rules.stored and here.count < rules.size:
                    continue
                out = _take_lane(net, np.int64(here.out_link), here.allowed, lane)
                if out < 0:
                    continue
                link.waiting &= ~(np.uint32(1) << np.uint32(k))
                router.last_waiting = port
                here.out = out
                here.out_port = net.links[here.out_link].out_port
                if rules.vc_delay > 1:
                    here.state = GRANTED
                    _decide_at(net, now + rules.vc_delay, lane)
                else:
                    _activate(net, lane)
            if not link.waiting:
                router.waiting &= ~_bit(port)


@part_njit()
def _forward(net, now, lane, route):
    """Send the first flit of a buffer to its output lane."""
    rules, here = net.rules, net.lanes[lane]
    out = np.int64(here.out)
    output = net.lanes[out]
    flit = np.int64(net.flits[lane * rules.buffer + here.first])
    here.first = here.first + 1 if here.first + 1 < rules.buffer else 0
    here.count -= 1
    _send(net, now + rules.switch_delay, output, out, flit)
    _at(net, now + rules.credit_delay + net.links[here.link].latency, lane, 0)
    if flit & HEAD:
        net.packets[flit >> PACKET_SHIFT].hops += 1
    if flit & TAIL:
        _give_back(net, output, out)
        here.state = IDLE
        _not_ready(net, here, lane)
        if here.count:
            _front(net, now, lane, route)
    elif here.count == 0 or output.credits <= 0:
        _not_ready(net, here, lane)


@part_njit()
def _offer(net, link, first, used_out):
    """Return a ready lane of an input whose output is free, or -1; after the last served first."""
    low = _bit(link.last_lane) | (_bit(link.last_lane) - ONE)
    ready = np.uint64(link.ready)
    for part in (ready & ~low, ready & low):
        bits = part
        while bits:
            lane = first + lowest_bit(bits)
            bits &= bits - ONE
            if not used_out & _bit(net.lanes[lane].out_port):
                return lane
    return np.int64(-1)


@part_njit()
def _cross(net, now, router, route):
    """Send flits across the switch of a router: separable allocation, inputs first."""
    rules = net.rules
    free_in = router.ready
    used_out = np.uint64(0)
    for _ in range(rules.iterations):
        wanted = np.uint64(0)
        bits = free_in
        while bits:
            port = lowest_bit(bits)
            bits &= bits - ONE
            number = np.int64(net.in_links[router.first_in + port])
            lane = _offer(net, net.links[number], number * rules.lanes, used_out)
            if lane < 0:
                continue
            out_port = np.int64(net.lanes[lane].out_port)
            if not wanted & _bit(out_port):
                wanted |= _bit(out_port)
                net.requests[out_port] = np.uint64(0)
            net.requests[out_port] |= _bit(port)
            net.offers[port] = lane
        if not wanted:
            break
        used_out |= wanted
        while wanted:
            out_port = lowest_bit(wanted)
            wanted &= wanted - ONE
            requests = net.requests[out_port]
            lane = np.int64(net.offers[lowest_bit(requests)])
            out_link = net.links[net.lanes[lane].out_link]
            low = _bit(out_link.last_port) | (_bit(out_link.last_port) - ONE)
            port = lowest_bit(requests & ~low if requests & ~low else requests)
            lane = np.int64(net.offers[port])
            out_link.last_port = port
            here = net.lanes[lane]
            net.links[here.link].last_lane = lane - np.int64(here.link) * rules.lanes
            free_in &= ~_bit(port)
            _forward(net, now, lane, route)


@part_njit()
def _events(net, now, route):
    """Handle what is due in a cycle."""
    rules = net.rules
    bucket = now & (rules.horizon - 1)
    first = bucket * rules.slot
    for at in range(first, first + net.used[bucket]):
        code = net.events[at]
        lane, flit = code >> LANE_SHIFT, (code & 0xFFFFFFFF) - 1
        if flit < 0:
            _credit(net, lane)
        elif net.links[net.lanes[lane].link].head_row < 0:
            _leave(net, now, flit)
        else:
            _arrive(net, now, lane, flit, route)
    net.used[bucket] = 0
    lane = np.int64(net.decided[bucket])
    net.decided[bucket] = -1
    while lane >= 0:
        after = np.int64(net.lanes[lane].next)
        if net.lanes[lane].state == ROUTING:
            _wait(net, lane, route)
        else:
            _activate(net, lane)
        lane = after
    number = np.int64(net.births[bucket])
    net.births[bucket] = -1
    while number >= 0:
        net.sending[number >> 6] |= _bit(number & 63)
        number = np.int64(net.sources[number].next)


def loop(route):
    """Return the loop with a kernel of a routing function compiled in.

    Parameters
    ----------
    route
        Kernel ``route(net, row, number, lane, packet)`` that writes `LANE.out_link` and
        `LANE.allowed` of a lane at the head of link `number`, for the packet at its front.

    Returns
    -------
    kernel
        ``run(net, until)`` simulates up to a cycle and returns DONE, or NO_PACKETS if it needs more
        records of packets.
    """

    @lean_njit()
    def run(net, until):
        rules, count = net.rules, net.count
        while count.now < until:
            now = count.now
            if count.packets < len(net.sources):
                return NO_PACKETS
            _events(net, now, route)
            for word in range(len(net.sending)):
                bits = net.sending[word]
                while bits:
                    at = lowest_bit(bits)
                    bits &= bits - ONE
                    if not _source(net, now, word * 64 + at):
                        net.sending[word] &= ~_bit(at)
            for word in range(len(net.active)):
                bits = net.active[word]
                while bits:
                    at = lowest_bit(bits)
                    bits &= bits - ONE
                    router = net.routers[word * 64 + at]
                    if rules.vc_delay == 0 and router.waiting:
                        _give_lanes(net, now, router)
                    if router.ready:
                        _cross(net, now, router, route)
                    if rules.vc_delay and router.waiting:
                        _give_lanes(net, now, router)
                    if not router.waiting and not router.ready:
                        net.active[word] &= ~_bit(at)
            count.now = now + 1
        return DONE

    return run
