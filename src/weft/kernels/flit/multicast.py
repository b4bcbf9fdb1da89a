"""Multicasts of the flit level: packets that routers copy to a range of endpoints.

All multicasts use one spanning tree of the routers: a packet goes up to the first router whose
subtree has its source and its range, and from there down to all endpoints of the range. A router
forwards a flit to all outputs in the same cycle. The packet at the front of a buffer that is copied
so is a *fork*.

Runs without multicasts have None in place of `Casts`, and loops without this code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.bits import lowest_bit
from weft.kernels.flit.lanes import (
    ONE,
    begin_packet,
    bit,
    bit_if,
    first_packet,
    give_back,
    has_place,
    lane_bit,
    put_on_link,
    take_flit,
    take_lane,
    use_credit,
)
from weft.kernels.flit.records import FORKED, HEAD, IDLE, TAIL
from weft.kernels.lean import part_njit
from weft.kernels.program.events import ARRIVE, push_event
from weft.kernels.program.operations import next_start
from weft.kernels.records import record_type

NEVER = 2**62

#: Multicast of a workload: some sends of a rank, one after the other.
GROUP = record_type(
    size="i8",  # bytes
    first_op="i4",
    ops="i4",
    waiting="i4",  # sends that have not begun
    low="i4",  # first endpoint of its range
    high="i4",  # endpoint after the last one
    receivers="i4",  # entry of endpoint `low` in `Casts.op_offset`
    way="i4",  # cycles of an acknowledgement from the router where it turns to the source
    top="i4",  # row of that router
    test="u1",  # 1: whether it counts depends on the answers
)

#: Packet of a multicast.
CAST = record_type(
    group="i4",  # -1: one destination
    copies="i4",  # copies whose data have not arrived
    tails="i4",  # copies whose last flit has not arrived
    refused="u1",  # 1: an endpoint has answered no
)

#: Packet at the front of an input lane.
FORK = record_type(
    wanted="u8",  # bits: output ports to which it is copied
    held="u8",  # bits: output ports of which it has a lane
    since="i8",  # cycle from which it may use the lanes
)

#: Router of the spanning tree.
TRUNK = record_type(
    parent="i4",  # node; -1 for none
    up="i4",  # output to the parent
    low="i4",  # first endpoint below it
    high="i4",  # endpoint after the last one
    first="i4",  # its first branch
    end="i4",  # branch after the last one
    way="i4",  # cycles of an acknowledgement to the root, from the router's input on
)

#: Output downwards.
BRANCH = record_type(output="i4", low="i4", high="i4")

#: Counters.
TESTS = record_type(
    under_way="i4",  # packets whose answers decide
    progress="i8",  # operations ended and messages arrived, at the last answer
    quiet="i8",  # cycle since which nothing but tests has happened; -1 for none
    hopeless="u1",  # 1: the tests can never succeed
)


class Casts(NamedTuple):
    """State of the multicasts."""

    #: `GROUP` of each multicast, `CAST` of each packet, `FORK` of each input lane, `TRUNK` of each
    #: router, `BRANCH`, and one `TESTS`.
    groups: Any
    packets: Any
    forks: Any
    trunk: Any
    branches: Any
    tests: Any
    #: int32 [operations]: multicast of each operation, -1 for none.
    of_op: Any
    #: int32: sends that end at each endpoint of the range of each multicast.
    op_offset: Any
    ops: Any
    #: uint8 [input lanes * 64]: lane that a fork has of each output port.
    lanes: Any
    #: uint64 [routers]: bits of the input ports with forks.
    ports: Any
    #: uint32 [inputs]: bits of the lanes with forks.
    of_port: Any
    #: uint32 [64]: lanes of each input port of a router that have been served in this step.
    done: Any


# Endpoints


@part_njit()
def poster(casts, op):
    """Return the operation whose message an endpoint sends when `op` begins; -1: none yet."""
    if casts is None:
        return np.int64(op)
    if casts.of_op[op] < 0:
        return np.int64(op)
    group = casts.groups[casts.of_op[op]]
    group.waiting -= 1
    return np.int64(-1 if group.waiting else group.first_op)


@part_njit()
def data_bytes(casts, ranks, op):
    """Return the size of the data of an operation."""
    if casts is not None and casts.of_op[op] >= 0:
        return np.int64(casts.groups[casts.of_op[op]].size)
    return np.int64(ranks.program.size_bytes[op])


@part_njit()
def begin_cast(net, casts, ranks, now, slot, op):
    """Begin with a packet of a message, of one destination or of a multicast."""
    if casts is None:
        return
    cast = casts.packets[slot]
    cast.group = casts.of_op[op]
    if cast.group < 0:
        return
    group = casts.groups[cast.group]
    cast.copies = cast.tails = group.high - group.low
    cast.refused = 0
    casts.tests.under_way += group.test
    net.origins[slot].due = 0
    for send in range(group.first_op, group.first_op + group.ops):
        if ranks.left[send] < 0:
            ranks.left[send] = now * net.rules.cycle_ps


@part_njit()
def is_cast(casts, slot):
    """Return whether a packet has several destinations."""
    if casts is None:
        return False
    return casts.packets[slot].group >= 0


@part_njit()
def _arrive(net, casts, ranks, now, number, group):
    """Count a packet that has arrived at an endpoint, in the messages of its receivers."""
    at = group.receivers + number - group.low
    for index in range(casts.op_offset[at], casts.op_offset[at + 1]):
        op = np.int64(casts.ops[index])
        net.messages[op].missing -= 1
        if net.messages[op].missing == 0:
            time = now * net.rules.cycle_ps + ranks.rules.adapter_latency
            push_event(ranks.heap, time, ARRIVE | op)


@part_njit()
def copy_arrives(net, casts, ranks, now, number, slot):
    """Act upon a copy whose data have arrived."""
    if casts is None:
        return
    cast = casts.packets[slot]
    group = casts.groups[cast.group]
    if not group.test:
        _arrive(net, casts, ranks, now, number, group)
        return
    at = group.receivers + number - group.low
    for index in range(casts.op_offset[at], casts.op_offset[at + 1]):
        posted = ranks.posted[ranks.program.match[casts.ops[index]]]
        if posted < 0 or posted + ranks.rules.adapter_latency > now * net.rules.cycle_ps:
            cast.refused = 1


@part_njit()
def combine(net, casts, number, slot, leaves):
    """Combine the acknowledgement of a copy with the others; return whether it is the last."""
    origin = net.origins[slot]
    if not is_cast(casts, slot):
        origin.due = leaves + origin.way
        return True
    return _last_answer(net, casts, number, slot, leaves)


@part_njit()
def _last_answer(net, casts, number, slot, leaves):
    """Do what `combine` does, for a copy."""
    if casts is None:
        return True
    cast, origin = casts.packets[slot], net.origins[slot]
    group = casts.groups[cast.group]
    row = np.int64(net.inputs[number].tail_node) - len(net.endpoints)
    way = net.inputs[number].latency + casts.trunk[row].way - casts.trunk[group.top].way
    origin.due = max(origin.due, leaves + way + group.way)
    cast.copies -= 1
    return cast.copies == 0


@part_njit()
def ends_here(net, casts, ranks, now, number, slot):
    """Act upon the last flit of a packet at an endpoint; return whether no copy is left."""
    if casts is None:
        return True
    cast = casts.packets[slot]
    if cast.group < 0:
        return True
    group = casts.groups[cast.group]
    if group.test and not cast.refused:
        _arrive(net, casts, ranks, now, number, group)
    cast.tails -= 1
    casts.tests.under_way -= group.test and cast.tails == 0
    return cast.tails == 0


@part_njit()
def again(net, casts, ranks, now, slot):
    """Return the operation that its source must send again after the answers, or -1."""
    if casts is None:
        return np.int64(-1)
    cast = casts.packets[slot]
    if cast.group < 0 or not cast.refused:
        return np.int64(-1)
    tests, count = casts.tests, ranks.count
    progress = np.int64(count.ended) + np.int64(count.arrived)
    only = net.count.under_way == tests.under_way
    if not only or next_start(ranks, np.int64(NEVER)) != NEVER:
        tests.quiet = -1
    elif tests.quiet < 0 or tests.progress != progress:
        tests.quiet = now
    tests.progress = progress
    # Each test has been repeated in this time, long after the last operation began.
    patience = net.rules.patience * (tests.under_way + 1)
    patience += ranks.rules.adapter_latency // net.rules.cycle_ps
    tests.hopeless = tests.quiet >= 0 and now - tests.quiet > patience
    op = np.int64(casts.groups[cast.group].first_op)
    net.messages[op].left = 0
    net.messages[op].sending = 1
    return op


@part_njit()
def hopeless(casts):
    """Return whether there is nothing left but tests that can never succeed."""
    if casts is None:
        return False
    return casts.tests.hopeless != 0


# Routers


@part_njit()
def begin_forks(net, casts, now, router, node):
    """Make forks of the packets of multicasts that begin to wait for output lanes."""
    if casts is None:
        return
    rules, row = net.rules, node - len(net.endpoints)
    ports = router.waiting
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        link = net.inputs[number]
        bits = np.uint64(link.waiting)
        while bits:
            k = lowest_bit(bits)
            bits &= bits - ONE
            lane = number << rules.lane_shift | k
            slot = first_packet(net, lane)
            if not is_cast(casts, slot):
                continue
            link.waiting &= ~lane_bit(k)
            net.in_lanes[lane].state = FORKED
            casts.of_port[number] |= lane_bit(k)
            casts.ports[row] |= bit(port)
            fork = casts.forks[lane]
            fork.held = 0
            fork.wanted = _outputs(net, casts, router, row, number, slot)
        router.waiting &= ~bit_if(link.waiting == 0, port)


@part_njit()
def _outputs(net, casts, router, row, number, slot):
    """Return the bits of the output ports to which a router copies a packet."""
    trunk, group = casts.trunk[row], casts.groups[casts.packets[slot].group]
    descends = net.inputs[number].tail_node == trunk.parent
    if not descends and row != group.top:
        return bit(trunk.up - router.first_out)
    wanted = np.uint64(0)
    for index in range(trunk.first, trunk.end):
        branch = casts.branches[index]
        if branch.low < group.high and branch.high > group.low:
            wanted |= bit(branch.output - router.first_out)
    return wanted


@part_njit()
def _oldest(net, casts, router, row):
    """Return the lane of the oldest fork of a router that is not in `Casts.done`, and add it."""
    rules = net.rules
    chosen, best, done = np.int64(-1), np.int64(NEVER), np.int64(0)
    ports = casts.ports[row]
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        bits = np.uint64(casts.of_port[number] & ~casts.done[port])
        while bits:
            k = lowest_bit(bits)
            bits &= bits - ONE
            lane = number << rules.lane_shift | k
            slot = first_packet(net, lane)
            age = net.origins[slot].born - np.int64(net.packets[slot].priority) * rules.ageing
            if age < best:
                chosen, best, done = lane, age, port
    if chosen >= 0:
        casts.done[done] |= lane_bit(chosen & ((1 << rules.lane_shift) - 1))
    return chosen


@part_njit()
def give_forks(net, casts, now, router, node):
    """Give output lanes to forks, each in ascending order of its outputs as far as they are free.

    The order prevents that two forks wait for each other.
    """
    if casts is None:
        return
    rules, row = net.rules, node - len(net.endpoints)
    if not casts.ports[row]:
        return
    casts.done[:] = 0
    while True:
        lane = _oldest(net, casts, router, row)
        if lane < 0:
            return
        fork = casts.forks[lane]
        if fork.held == fork.wanted:
            continue
        size = np.int64(net.packets[first_packet(net, lane)].size)
        allowed = np.uint32((ONE << np.uint64(rules.lanes)) - ONE)
        left = fork.wanted & ~fork.held
        while left:
            port = lowest_bit(left)
            out = take_lane(net, np.int64(router.first_out) + port, allowed, lane, size)
            if out < 0:
                break
            left &= left - ONE
            fork.held |= bit(port)
            casts.lanes[lane * 64 + port] = out & ((1 << rules.lane_shift) - 1)
        fork.since = now + rules.vc_delay


@part_njit()
def _goes(net, casts, now, router, lane, busy):
    """Return whether all outputs of a fork take a flit now."""
    rules, fork = net.rules, casts.forks[lane]
    if fork.held != fork.wanted or fork.since > now or not net.in_lanes[lane].count:
        return False
    if fork.wanted & busy:
        return False
    left = fork.wanted
    while left:
        port = lowest_bit(left)
        left &= left - ONE
        number = np.int64(router.first_out) + port
        out = number << rules.lane_shift | np.int64(casts.lanes[lane * 64 + port])
        # Endpoints accept every flit.
        if net.outputs[number].head >= len(net.endpoints) and not has_place(net, out):
            return False
        if rules.turns and net.turns[number].busy > now + rules.switch_delay:
            return False
    return True


@part_njit()
def send_forks(net, casts, now, router, node, busy_in, busy_out):
    """Send flits of forks to all their outputs, those of the oldest packet first.

    `busy_in`, `busy_out`: bits of the input and output ports that take no more flits in this cycle.

    Returns bits of the input ports and of the output ports that sent a flit.
    """
    if casts is None:
        return np.uint64(0), np.uint64(0)
    rules, row = net.rules, node - len(net.endpoints)
    used_in, used_out = np.uint64(0), np.uint64(0)
    if not casts.ports[row]:
        return used_in, used_out
    casts.done[:] = 0
    while True:
        lane = _oldest(net, casts, router, row)
        if lane < 0:
            return used_in, used_out
        number = lane >> rules.lane_shift
        port = number - router.first_in
        if (busy_in | used_in) & bit(port):
            continue
        if _goes(net, casts, now, router, lane, busy_out | used_out):
            used_in |= bit(port)
            used_out |= casts.forks[lane].wanted
            _copy(net, casts, now, router, row, port, lane)


@part_njit()
def _copy(net, casts, now, router, row, port, lane):
    """Send the first flit of a buffer to all outputs of its fork."""
    rules, here, fork = net.rules, net.in_lanes[lane], casts.forks[lane]
    number, k = lane >> rules.lane_shift, lane & ((1 << rules.lane_shift) - 1)
    flit = take_flit(net, now, router, port, number, k)
    left = fork.wanted
    while left:
        out_port = lowest_bit(left)
        left &= left - ONE
        out_number = np.int64(router.first_out) + out_port
        out_lane = np.int64(casts.lanes[lane * 64 + out_port])
        use_credit(net, out_number, out_lane)
        put_on_link(net, now + rules.switch_delay, out_number, out_lane, flit)
        if flit & TAIL:
            give_back(net, out_number << rules.lane_shift | out_lane)
    if flit & HEAD:
        net.inputs[number].wait += now
        net.inputs[number].heads -= 1
    if flit & TAIL:
        here.state = IDLE
        casts.of_port[number] &= ~lane_bit(k)
        if not casts.of_port[number]:
            casts.ports[row] &= ~bit(port)
        if here.count:
            begin_packet(net, router, port, number, k, now)


@part_njit()
def forks_wait(net, casts, router, node):
    """Return whether a fork of a router waits for output lanes or to send a flit."""
    if casts is None:
        return False
    shift = net.rules.lane_shift
    ports = casts.ports[node - len(net.endpoints)]
    while ports:
        port = lowest_bit(ports)
        ports &= ports - ONE
        number = np.int64(router.first_in) + port
        bits = np.uint64(casts.of_port[number])
        while bits:
            lane = number << shift | lowest_bit(bits)
            bits &= bits - ONE
            if casts.forks[lane].held != casts.forks[lane].wanted or net.in_lanes[lane].count:
                return True
    return False
