"""The loop of the flit level: endpoints and routers act cycle by cycle (docs/flit-level.md).

Nodes act on their own state only and reach others by mail that arrives at least `FlitRules.stride`
cycles later. So a node may act in that many cycles before the next node does, while its state is in
the cache, and the order of nodes is irrelevant. Only nodes with something to do are visited.
Threads share the nodes: in each round all let their endpoints act and meet, then their routers.
"""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.flit.endpoints import acknowledgements, post_message, visit_endpoint
from weft.kernels.flit.lanes import ONE, bit, bit_if, wake_at
from weft.kernels.flit.multicast import hopeless
from weft.kernels.flit.records import FLIT, PACKET_SHIFT
from weft.kernels.flit.switch import visit_router
from weft.kernels.lean import lean_njit, part_njit
from weft.kernels.prefetch import prefetch
from weft.kernels.program.operations import next_start, program_events, start_ready
from weft.kernels.teams import meet

# Reasons for which the loop returns.
MORE = 0
DONE = 1
NO_PACKETS = 2
STUCK = 3
FAILED = 4

NEVER = 2**62


@part_njit()
def _programs(net, ranks, now):
    """Let the programs of ranks go on up to the present cycle."""
    until = now * net.rules.cycle_ps
    time = until
    while True:
        start_ready(ranks, time, time)
        for index in range(ranks.count.joining):
            op = np.int64(ranks.joining[index])
            post_message(net, ranks, op)
            wake_at(net, now, net.messages[op].source + net.rules.end_shift)
        ranks.count.joining = 0
        time = next_start(ranks, np.int64(NEVER))
        if time > until:
            return
        program_events(ranks, time, time)


@part_njit()
def _quiet_until(net, ranks, now, until):
    """Return the cycle up to which nothing happens, given that no node has mail or work.

    NEVER if nothing follows; more than that if operations are left.
    """
    if ranks is None:
        return until
    time, left = np.int64(NEVER), np.int64(0)
    for member in range(net.rules.members):
        time = min(time, net.members[member].soonest)
        left = max(left, net.members[member].soonest - NEVER)
    if time == NEVER:
        return NEVER + left
    return max((time + net.rules.cycle_ps - 1) // net.rules.cycle_ps, now)


@part_njit()
def _soonest(ranks):
    """Return the time of the next event of programs, or beyond NEVER if operations wait in vain."""
    if ranks is None:
        return np.int64(NEVER)
    time = next_start(ranks, np.int64(NEVER))
    if time == NEVER and ranks.count.ended < len(ranks.ready) - 1:
        time += 1
    return time


@part_njit()
def _awake(net, word, begin, end):
    """Return the bits of the nodes that have something to do in the cycles before `end`."""
    rules, words = net.rules, len(net.active)
    bits = net.active[word]
    for cycle in range(begin, end):
        at = (cycle & (rules.horizon - 1)) * words + word
        bits |= net.mail.awake[at]
        if rules.members > 1:
            other = at + rules.horizon * words
            net.mail.awake[at] |= net.mail.awake[other]
            net.mail.awake[other] = 0
            bits |= net.mail.awake[at]
    return bits


@part_njit()
def _visit(net, ranks, begin, end, place, is_endpoint):
    """Let a node act in the cycles from `begin` to before `end` in which it has something to do."""
    words = len(net.active)
    word, mine = place >> 6, bit(place & 63)
    again = net.active[word] & mine
    for cycle in range(begin, end):
        at_word = (cycle & (net.rules.horizon - 1)) * words + word
        if not (again | net.mail.awake[at_word]) & mine:
            continue
        net.mail.awake[at_word] &= ~mine
        if is_endpoint:
            goes_on = visit_endpoint(net, ranks, cycle, place - net.rules.end_shift)
        else:
            goes_on = visit_router(net, cycle, place)
        again = bit_if(goes_on, place & 63)
    net.active[word] = net.active[word] & ~mine | again


@part_njit()
def _fetch(net, begin, end, place):
    """Request the memory that a router needs in the cycles from `begin` to before `end`."""
    rules, mail = net.rules, net.mail
    router = net.routers[place - rules.router_shift]
    inputs, outputs = router.ready | router.waiting | router.deciding, np.uint64(0)
    for cycle in range(begin, end):
        bucket = cycle & (rules.horizon - 1)
        ports = mail.flit_ports[bucket * rules.places + place]
        inputs |= ports
        outputs |= mail.credit_ports[bucket * rules.places + place]
        while ports:
            number = np.int64(router.first_in) + lowest_bit(ports)
            ports &= ports - ONE
            flit = mail.flits[bucket * len(net.inputs) + number] & FLIT
            prefetch(net.packets, flit >> PACKET_SHIFT)
    while inputs:
        number = np.int64(router.first_in) + lowest_bit(inputs)
        inputs &= inputs - ONE
        prefetch(net.inputs, number)
        prefetch(net.in_lanes, number << rules.lane_shift)
        prefetch(net.in_lanes, (number << rules.lane_shift) + rules.lanes - 1)
        prefetch(net.flits, number * rules.depth << rules.lane_shift)
    while outputs:
        number = np.int64(router.first_out) + lowest_bit(outputs)
        outputs &= outputs - ONE
        prefetch(net.outputs, number)
        prefetch(net.out_lanes, number << rules.lane_shift)


@part_njit()
def _fetch_arrivals(net, begin, end, bits, place):
    """Request what the endpoints from a place on know of the packets that arrive at them."""
    rules, mail = net.rules, net.mail
    while bits:
        at = place + lowest_bit(bits)
        bits &= bits - ONE
        for cycle in range(begin, end):
            bucket = cycle & (rules.horizon - 1)
            if mail.flit_ports[bucket * rules.places + at]:
                flit = mail.flits[bucket * len(net.inputs) + at - rules.end_shift] & FLIT
                prefetch(net.origins, flit >> PACKET_SHIFT)
                prefetch(net.packets, flit >> PACKET_SHIFT)


@part_njit()
def _act(net, ranks, begin, end, first, last, are_endpoints):
    """Let the nodes of some places act; return whether one of them had something to do."""
    visited = np.uint64(0)
    for word in range(first >> 6, (last + 63) >> 6):
        bits = _awake(net, word, begin, end)
        if word * 64 < first:
            bits &= ~(bit(first & 63) - ONE)
        if word * 64 + 64 > last:
            bits &= bit(last & 63) - ONE
        visited |= bits
        if are_endpoints and net.rules.ahead:
            _fetch_arrivals(net, begin, end, bits, word * 64)
        while bits:
            at = lowest_bit(bits)
            bits &= bits - ONE
            if bits and net.rules.ahead and not are_endpoints:
                _fetch(net, begin, end, word * 64 + lowest_bit(bits))
            _visit(net, ranks, begin, end, word * 64 + at, are_endpoints)
    return visited != 0


@part_njit()
def _meet(net):
    """Wait until all threads have come here; return whether to go on."""
    return net.rules.members == 1 or meet(net.barrier, net.rules.members)


@part_njit()
def _tell(net, ranks, visited):
    """Tell the other threads what decides how the run goes on; return whether to go on."""
    rules, count, told = net.rules, net.count, net.members[net.rules.member]
    per_endpoint = (rules.classes * rules.window + 1) * rules.stride
    told.packets = count.packets - (rules.last_end - rules.first_end) * per_endpoint
    told.under_way, told.moved, told.visited = count.under_way, count.moved, visited
    told.soonest = _soonest(ranks)
    return _meet(net)


@lean_njit(nogil=True)
def run(net, ranks, until):
    """Simulate up to a cycle, as one of `FlitRules.members` threads.

    `net`: `weft.kernels.parts.StateParts` of a `FlitNet`, with `routes` hidden. `ranks`: None, or
    parts of a `weft.kernels.program.state.Ranks` with times in int64 ps.

    Returns MORE (at that cycle), DONE (all operations of `ranks` have ended and no packet is left),
    NO_PACKETS (more records of packets are needed), STUCK (no flit can move, or only those of
    tests that cannot succeed, but there are packets or operations left), or FAILED (another thread
    was interrupted).
    """
    rules, count = net.rules, net.count
    quiet = 0
    if not _tell(net, ranks, False):
        return FAILED
    while count.now < until:
        now = count.now
        for member in range(rules.members):
            if net.members[member].packets < 0:
                return NO_PACKETS
        if ranks is not None:
            _programs(net, ranks, now)
        if rules.circuits:
            acknowledgements(net, ranks, now)
            if hopeless(net.casts):
                return STUCK
        hops = count.hops
        end = min(now + rules.stride, until)
        # A flit of an endpoint may arrive before `end`.
        visited = _act(net, ranks, now, end, rules.first_end, rules.last_end, True)
        if not _meet(net):
            return FAILED
        visited |= _act(net, ranks, now, end, rules.first_router, rules.last_router, False)
        if count.hops != hops:
            count.moved = now
        count.now = end
        if not _tell(net, ranks, visited):
            return FAILED
        under_way, moved, visited = np.int64(0), np.int64(0), False
        for member in range(rules.members):
            told = net.members[member]
            under_way += told.under_way
            moved = max(moved, told.moved)
            visited |= told.visited != 0
        if visited or count.acknowledging:
            quiet = 0
            if under_way and now - moved > rules.patience:
                return STUCK
            continue
        quiet += 1
        if quiet > rules.horizon:
            soonest = _quiet_until(net, ranks, end, until)
            if soonest >= NEVER:
                return DONE if soonest == NEVER and under_way == 0 else STUCK
            count.now = max(min(soonest, until), count.now)
            quiet = 0
    return MORE
