"""Routers of the flit level: allocation of output lanes and of the switch, and output queues."""

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.flit.lanes import (
    ONE,
    activate,
    arrivals,
    begin_packet,
    bit,
    bit_if,
    clear_ready,
    credits,
    decisions,
    first_after,
    first_packet,
    give_back,
    grant_lane,
    has_place,
    lane_bit,
    may_go_on,
    put_on_link,
    take_flit,
    take_lane,
    use_credit,
)
from weft.kernels.flit.multicast import begin_forks, forks_wait, give_forks, send_forks
from weft.kernels.flit.records import (
    ACTIVE,
    AGE,
    FLIT,
    GRANTED,
    HEAD,
    IDLE,
    INPUT_FIRST,
    ISLIP,
    LANES,
    LEAST_RECENT,
    PACKET_SHIFT,
    SPECULATION,
    TAIL,
    WORD_SHIFT,
)
from weft.kernels.lean import part_njit
from weft.kernels.parts import call_for_bool

#: Later than any packet.
NEVER = 2**62


@part_njit()
def packet_age(net, slot):
    """Return the birth of a packet, earlier for a high priority."""
    return net.origins[slot].born - np.int64(net.packets[slot].priority) * net.rules.ageing


@part_njit()
def _age(net, lane):
    """Return `packet_age` of the packet at the front of a buffer."""
    return packet_age(net, first_packet(net, lane))


@part_njit()
def _choose_outputs(net, now, router, node, attempt):
    """Let waiting packets choose outputs.

    Returns bits of the output ports that were chosen; `Scratch.offers` has the last lane that chose
    each of them.
    """
    rules, scratch = net.rules, net.scratch
    row = node - net.rules.router_shift
    wanted = np.uint64(0)
    ports = router.waiting
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        here = scratch.ports[port]
        done = np.uint64(here.done if attempt else 0)
        asked = bits = np.uint64(net.inputs[number].waiting) & ~done
        while bits:
            k = lowest_bit(bits)
            bits &= bits - ONE
            lane = number << rules.lane_shift | k
            front = net.in_lanes[lane]
            slot = first_packet(net, lane)
            if rules.stored and front.count < net.packets[slot].size:
                asked &= ~bit(k)
                continue
            chooses = rules.adaptive or front.out < 0
            routed = (net, now, row, lane, slot, attempt)
            if (attempt and not chooses) or (chooses and not call_for_bool(rules.route, routed)):
                asked &= ~bit(k)
                done |= bit(k)
                continue
            out_port = np.int64(front.out >> rules.lane_shift) - router.first_out
            to = scratch.ports[out_port]
            to.requests |= bit(port)
            to.asking += 1
            to.offers = lane
            wanted |= bit(out_port)
        here.asked, here.done = asked, done
        here.tried = asked | (here.tried if attempt else 0)
    return wanted


@part_njit()
def _next_asking(net, router, out_port):
    """Return the lane that an output serves next in lane allocation, among those that ask."""
    rules, scratch = net.rules, net.scratch
    number = np.int64(router.first_out) + out_port
    chosen, best = np.int64(-1), np.int64(NEVER)
    ports = scratch.ports[out_port].requests
    while ports:
        port = first_after(ports, net.outputs[number].last_given)
        ports &= ~bit(port)
        into = np.int64(router.first_in) + port
        bits = np.uint64(scratch.ports[port].asked)
        while bits:
            k = first_after(bits, net.inputs[into].last_given)
            bits &= ~bit(k)
            lane = into << rules.lane_shift | k
            if net.in_lanes[lane].out >> rules.lane_shift != number:
                continue
            if rules.arbiter != AGE:
                return lane
            age = _age(net, lane)
            if age < best:
                chosen, best = lane, age
    return chosen


@part_njit()
def give_lanes(net, now, router, node):
    """Give output lanes to waiting packets: they choose outputs, which serve them in turn."""
    rules, scratch = net.rules, net.scratch
    shift = rules.lane_shift
    scratch.used[2] = router.waiting
    attempt = np.int64(0)
    while True:
        wanted = _choose_outputs(net, now, router, node, attempt)
        if not wanted:
            return
        while wanted:
            out_port = lowest_bit(wanted)
            wanted &= wanted - ONE
            output = np.int64(router.first_out) + out_port
            to = scratch.ports[out_port]
            lane, asking = np.int64(to.offers), np.int64(to.asking)
            crowded = asking > 1
            while asking and net.outputs[output].free:
                asking -= 1
                if crowded:
                    lane = _next_asking(net, router, out_port)
                number, k = lane >> shift, lane & ((1 << shift) - 1)
                port = number - router.first_in
                scratch.ports[port].asked &= ~lane_bit(k)
                packet = net.packets[first_packet(net, lane)]
                size = np.int64(packet.size)
                out = take_lane(net, output, net.in_lanes[lane].allowed, lane, size)
                if out >= 0:
                    packet.hops += 1
                    net.outputs[output].last_given = port
                    net.inputs[number].last_given = k
                    grant_lane(net, router, port, number, k, out, now)
            to.requests, to.asking = 0, 0
        attempt += 1
        if not rules.adaptive:
            return


@part_njit()
def _can_go(net, now, lane):
    """Return whether the output of a lane takes a flit of it now."""
    here = net.in_lanes[lane]
    if not has_place(net, np.int64(here.out)):
        return False
    if net.rules.output_buffer:
        return True
    if not net.rules.turns:
        return True
    turn = net.turns[here.out >> net.rules.lane_shift]
    return turn.busy <= now + net.rules.switch_delay and (turn.holder < 0 or turn.holder == lane)


@part_njit()
def _candidates(net, port, number, speculative):
    """Return the bits of the lanes of an input that bid for the switch."""
    if speculative:
        return np.uint64(net.scratch.ports[port].tried)
    if net.rules.input_speedup > 1:
        return np.uint64(net.inputs[number].ready & ~net.scratch.sent[port])
    return np.uint64(net.inputs[number].ready)


@part_njit()
def _bids(net, now, router, lane, outs, speculative):
    """Return whether a lane bids for one of the output ports in `outs`."""
    here = net.in_lanes[lane]
    if speculative:
        port = np.int64(here.out >> net.rules.lane_shift) - router.first_out
        return here.out >= 0 and outs & bit(port) != 0
    return outs & bit(here.out_port) != 0 and (not net.rules.checks or _can_go(net, now, lane))


@part_njit()
def _choose_lane(net, now, router, port, number, outs, speculative):
    """Return the lane that an input offers for one of the output ports in `outs`, or -1."""
    rules = net.rules
    candidates = _candidates(net, port, number, speculative)
    if not candidates:
        return np.int64(-1)
    chosen, best = np.int64(-1), np.int64(NEVER)
    while candidates:
        k = first_after(candidates, net.inputs[number].last_lane)
        candidates &= ~bit(k)
        lane = number << rules.lane_shift | k
        if not _bids(net, now, router, lane, outs, speculative):
            continue
        if rules.arbiter == 0:
            return lane
        key = _age(net, lane) if rules.arbiter == AGE else net.served_in[lane]
        if key < best or (key == best and lane < chosen):
            chosen, best = lane, key
    return chosen


@part_njit()
def _choose_port(net, now, router, out_port, requests, speculative, offered):
    """Return the input port that an output grants, among those that request it.

    If `offered`, the ports offer one lane each; otherwise the oldest of their lanes counts.
    """
    rules = net.rules
    number = np.int64(router.first_out) + out_port
    if rules.arbiter == 0:
        return first_after(requests, net.outputs[number].last_port)
    chosen, best = np.int64(-1), np.int64(NEVER)
    bits = requests
    while bits:
        port = lowest_bit(bits)
        bits &= bits - ONE
        if rules.arbiter == LEAST_RECENT:
            key = net.served_out[number * 64 + port]
        elif offered:
            key = _age(net, np.int64(net.scratch.ports[port].offers))
        else:
            key = np.int64(NEVER)
            lanes = _candidates(net, port, np.int64(router.first_in) + port, speculative)
            while lanes:
                lane = (np.int64(router.first_in) + port) << rules.lane_shift | lowest_bit(lanes)
                lanes &= lanes - ONE
                if _bids(net, now, router, lane, bit(out_port), speculative):
                    key = min(key, _age(net, lane))
        if key < best:
            chosen, best = port, key
    return chosen


@part_njit()
def _choose_ports(net, now, router, wanted, speculative, offered):
    """Let the outputs `wanted` grant input ports; return these, noted in `Scratch.granted`."""
    scratch = net.scratch
    matched = np.uint64(0)
    while wanted:
        out_port = lowest_bit(wanted)
        wanted &= wanted - ONE
        requests = scratch.ports[out_port].requests
        scratch.ports[out_port].requests = 0
        port = _choose_port(net, now, router, out_port, requests, speculative, offered)
        scratch.granted[port] |= bit(out_port)
        matched |= bit(port)
    return matched


@part_njit()
def _forward(net, now, router, port, lane):
    """Send the first flit of a buffer to its output."""
    rules, here = net.rules, net.in_lanes[lane]
    shift = rules.lane_shift
    mask = (1 << shift) - 1
    number, k = lane >> shift, lane & mask
    out = np.int64(here.out)
    out_number = out >> shift
    flit = take_flit(net, now, router, port, number, k)
    leaves = now + rules.switch_delay
    if rules.output_buffer:
        queue = net.queues[out]
        place = np.int64(queue.first) + queue.count
        if place >= rules.output_buffer:
            place -= rules.output_buffer
        net.queued[out * rules.output_buffer + place] = leaves << WORD_SHIFT | flit
        queue.count += 1
        net.outputs[out_number].queued |= lane_bit(out & mask)
        router.queued |= bit(here.out_port)
    else:
        use_credit(net, out_number, out & mask)
        put_on_link(net, leaves, out_number, out & mask, flit)
    if flit & HEAD:
        if rules.circuits:
            net.origins[flit >> PACKET_SHIFT].way += (
                net.outputs[out_number].latency + rules.acknowledge_hop
            )
        net.inputs[number].wait += now
        net.inputs[number].heads -= 1
    if rules.hold_switch:
        net.turns[out_number].holder = -1 if flit & TAIL else lane
    if flit & TAIL:
        give_back(net, out)
        here.state = IDLE
        clear_ready(net, router, port, number, k)
        if here.count:
            begin_packet(net, router, port, number, k, now)
    elif here.count == 0 or not has_place(net, out):
        clear_ready(net, router, port, number, k)


@part_njit()
def _offers(net, now, router, ports, outs, speculative):
    """Match inputs with outputs, inputs first; return the matched input ports."""
    scratch = net.scratch
    wanted = np.uint64(0)
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        lane = _choose_lane(net, now, router, port, number, outs, speculative)
        if lane < 0:
            continue
        out_port = np.int64(net.in_lanes[lane].out >> net.rules.lane_shift) - router.first_out
        wanted |= bit(out_port)
        scratch.ports[out_port].requests |= bit(port)
        scratch.ports[port].offers = lane
    return _choose_ports(net, now, router, wanted, speculative, True)


@part_njit()
def _grants(net, now, router, ports, outs, speculative):
    """Match inputs with outputs, outputs first; return the matched input ports."""
    scratch = net.scratch
    wanted = np.uint64(0)
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        scratch.granted[port] = np.uint64(0)
        lanes = _candidates(net, port, number, speculative)
        while lanes:
            lane = number << net.rules.lane_shift | lowest_bit(lanes)
            lanes &= lanes - ONE
            if not _bids(net, now, router, lane, outs, speculative):
                continue
            out_port = np.int64(net.in_lanes[lane].out >> net.rules.lane_shift) - router.first_out
            wanted |= bit(out_port)
            scratch.ports[out_port].requests |= bit(port)
    left = matched = _choose_ports(net, now, router, wanted, speculative, False)
    while left:
        port = lowest_bit(left)
        left &= left - ONE
        number = np.int64(router.first_in) + port
        outs = scratch.granted[port]
        scratch.ports[port].offers = _choose_lane(net, now, router, port, number, outs, speculative)
    return matched


@part_njit()
def _got_lane(net, now, router, port, lane):
    """Return whether a packet that bid while it waited has an output lane that takes a flit."""
    shift = net.rules.lane_shift
    here, number, k = net.in_lanes[lane], lane >> shift, lane & ((1 << shift) - 1)
    if here.state not in (GRANTED, ACTIVE):
        return False
    if not _can_go(net, now, lane):
        return False
    if here.state == GRANTED:
        link = net.inputs[number]
        link.deciding &= ~lane_bit(k)
        router.deciding &= ~bit_if(link.deciding == 0, port)
        activate(net, router, port, number, k)
    return True


@part_njit()
def _serve(net, router, port, lane, iteration):
    """Record that an input port and a lane of it were served."""
    rules = net.rules
    number = lane >> rules.lane_shift
    out = np.int64(net.in_lanes[lane].out >> rules.lane_shift)
    if rules.allocator == ISLIP and iteration > 0:
        return
    net.outputs[out].last_port = port
    net.inputs[number].last_lane = lane & ((1 << rules.lane_shift) - 1)
    if rules.arbiter == LEAST_RECENT:
        net.count.serial += 1
        net.served_in[lane] = net.count.serial
        net.served_out[out * 64 + port] = net.count.serial


@part_njit()
def _use(scratch, rules, port, out_port):
    """Count a grant; return bits of the input and of the output port if they take no more."""
    scratch.in_grants[port] += 1
    scratch.out_grants[out_port] += 1
    full_in = scratch.in_grants[port] >= rules.input_speedup
    full_out = scratch.out_grants[out_port] >= rules.output_speedup
    return bit_if(full_in, port), bit_if(full_out, out_port)


@part_njit()
def _match_once(net, router):
    """Match inputs with outputs as `_offers` does with `FlitRules.plain`, if all take part."""
    scratch = net.scratch
    wanted, matched = np.uint64(0), np.uint64(0)
    ports = router.ready
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        link = net.inputs[number]
        lane = number << net.rules.lane_shift | first_after(np.uint64(link.ready), link.last_lane)
        out_port = np.int64(net.in_lanes[lane].out_port)
        scratch.ports[out_port].requests |= bit(port)
        scratch.ports[port].offers = lane
        wanted |= bit(out_port)
    while wanted:
        out_port = lowest_bit(wanted)
        wanted &= wanted - ONE
        last = net.outputs[np.int64(router.first_out) + out_port].last_port
        matched |= bit(first_after(scratch.ports[out_port].requests, last))
        scratch.ports[out_port].requests = 0
    return matched


@part_njit()
def cross(net, now, router, step, busy_in, busy_out):
    """Send flits across the switch of a router; see docs/flit-level.md for the allocators.

    `step`: SWITCH, or SPECULATION for packets that bid while they waited for an output lane.
    `busy_in`, `busy_out`: bits of the input and output ports that forks have used in this cycle.
    """
    rules, scratch = net.rules, net.scratch
    speculative = step == SPECULATION
    is_plain = rules.plain and not speculative and not busy_in | busy_out
    several = rules.input_speedup > 1 or rules.output_speedup > 1
    passes = max(rules.input_speedup, rules.output_speedup)
    iterations = rules.iterations
    # These take no more in this cycle.
    used_in, used_out = busy_in if rules.input_speedup == 1 else np.uint64(0), busy_out
    seen_in, seen_out = np.uint64(0), np.uint64(0)
    if speculative:
        passes, iterations = 1, 1
        used_in, used_out = scratch.used[0], scratch.used[1]
    elif several:
        scratch.in_grants[:] = 0
        scratch.out_grants[:] = 0
        scratch.sent[:] = 0
        while busy_in:
            scratch.in_grants[lowest_bit(busy_in)] = 1
            busy_in &= busy_in - ONE
    for _ in range(passes):
        ports = (scratch.used[2] if speculative else router.ready) & ~used_in
        outs = ~used_out
        moved = False
        for iteration in range(iterations):
            if not ports:
                break
            if is_plain:
                matched = _match_once(net, router)
            elif rules.allocator == INPUT_FIRST:
                matched = _offers(net, now, router, ports, outs, speculative)
            else:
                matched = _grants(net, now, router, ports, outs, speculative)
            if not matched:
                break
            while matched:
                port = lowest_bit(matched)
                matched &= matched - ONE
                lane = np.int64(scratch.ports[port].offers)
                if speculative and not _got_lane(net, now, router, port, lane):
                    continue
                out_port = np.int64(net.in_lanes[lane].out_port)
                _serve(net, router, port, lane, iteration)
                ports &= ~bit(port)
                outs &= ~bit(out_port)
                seen_in |= bit(port)
                seen_out |= bit(out_port)
                moved = True
                if several and not speculative:
                    full_in, full_out = _use(scratch, rules, port, out_port)
                    used_in |= full_in
                    used_out |= full_out
                    number = lane >> rules.lane_shift
                    scratch.sent[port] |= lane_bit(lane - (number << rules.lane_shift))
                _forward(net, now, router, port, lane)
        if not moved:
            break
    scratch.used[0], scratch.used[1] = seen_in, seen_out


@part_njit()
def leave(net, now, router):
    """Send flits from the output queues of a router, one for each link that is free."""
    rules = net.rules
    ports = router.queued
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_out) + port
        output = net.outputs[number]
        if rules.turns and net.turns[number].busy > now:
            continue
        endless = output.head < len(net.endpoints)
        chosen, best = np.int64(-1), np.int64(NEVER)
        bits = np.uint64(output.queued)
        while bits:
            k = first_after(bits, output.last_lane)
            bits &= ~bit(k)
            out = number << rules.lane_shift | k
            word = net.queued[out * rules.output_buffer + net.queues[out].first]
            if word >> WORD_SHIFT > now:
                continue
            if not endless and net.out_lanes[out].credits <= 0 and output.shared <= 0:
                continue
            key = np.int64(0)
            if rules.arbiter == AGE:
                key = packet_age(net, (word & FLIT) >> PACKET_SHIFT)
            if key < best:
                chosen, best = k, key
        if chosen < 0:
            continue
        out = number << rules.lane_shift | chosen
        queue = net.queues[out]
        flit = net.queued[out * rules.output_buffer + queue.first] & FLIT
        queue.first = queue.first + 1 if queue.first + 1 < rules.output_buffer else 0
        queue.count -= 1
        may_go_on(net, router, out)
        output.last_lane = chosen
        if queue.count == 0:
            output.queued &= ~lane_bit(chosen)
            router.queued &= ~bit_if(output.queued == 0, port)
        use_credit(net, number, chosen)
        put_on_link(net, now, number, chosen, flit)


@part_njit()
def _send_forks_last(net, casts, now, router, node):
    """Send flits of forks through the ports that have not been used in this cycle."""
    if casts is None:
        return
    rules, used = net.rules, net.scratch.used
    busy = ports = used[0]
    while ports and rules.input_speedup > 1:
        port = lowest_bit(ports)
        ports &= ports - ONE
        if net.scratch.in_grants[port] < rules.input_speedup:
            busy &= ~bit(port)
    send_forks(net, casts, now, router, node, busy, used[1])


@part_njit()
def visit_router(net, now, node):
    """Let a router act in a cycle; return whether it must be visited in the next one."""
    rules = net.rules
    router = net.routers[node - rules.router_shift]
    credits(net, now, node, router)
    arrivals(net, now, node, router)
    if router.deciding:
        decisions(net, now, router)
    used = net.scratch.used
    used[0] = used[1] = used[2] = 0
    order = rules.order
    while order:
        step = order & 3
        order >>= 2
        # Forks come first in even cycles, and last in odd ones.
        if step == LANES:
            begin_forks(net, net.casts, now, router, node)
            if now & 1 == 0:
                give_forks(net, net.casts, now, router, node)
            if router.waiting:
                give_lanes(net, now, router, node)
            if now & 1:
                give_forks(net, net.casts, now, router, node)
        else:
            none = np.uint64(0)
            used_in, used_out = none, none
            if now & 1 == 0:
                used_in, used_out = send_forks(net, net.casts, now, router, node, none, none)
            if router.ready or step == SPECULATION:
                cross(net, now, router, step, used_in, used_out)
            if now & 1:
                _send_forks_last(net, net.casts, now, router, node)
    if router.queued:
        leave(net, now, router)
    if forks_wait(net, net.casts, router, node):
        return True
    return router.ready | router.waiting | router.deciding | router.queued != 0
