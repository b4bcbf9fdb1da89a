"""Routing by coordinates on meshes, tori and HyperX, dimension by dimension.

A dimension is a line, a ring, or full: each switch has a cable to all others of its line. On a
ring, the *dateline* is the cable between the last switch and the first. Lanes of class 0 are for
packets that still have to cross it, those of class 1 for packets that have crossed it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.flit.routing.common import choose, draw, lanes_of, load_of
from weft.kernels.hashing import splitmix64
from weft.kernels.lean import part_njit

# Kinds of dimensions.
LINE = 0
RING = 1
FULL = 2

#: Dimension of an input from an endpoint.
NO_DIMENSION = 255

# `PACKET.state` in order of dimensions: what a packet needs in its present dimension, found when it
# turns into it, so that other routers read neither coordinates nor the destination. In the lowest
# bits the hops that are left; from these bits on, those of them that are on lanes of class 1, the
# last ones; their column in `Grid.output`; the dimension + 1; whether it is a ring.
UPPER = 16
COLUMN = 32
DIMENSION = 40
IS_RING = 48
HOPS = 0xFFFF  # mask
SECOND = 1 << 49  # the packet has been at the router `PACKET.via`

#: `PACKET.state` otherwise: bits from this one on for the dimensions in which the packet left its
#: shortest path.
DEROUTED = 16

#: Random bits of a packet's key: the direction of ties, and the class of packets that do not cross.
TIES = 8
CLASSES = 24

#: A load larger than all.
MOST = 2**62


class Grid(NamedTuple):
    """Coordinates of the switches of a grid."""

    #: int16 [rows, dimensions].
    coordinate: Any
    #: int32 [dimensions]: switches in each dimension, its kind, and the first of its columns in
    #: `output`. The columns of a line or ring are steps forward and back; those of a full dimension
    #: are the coordinates.
    size: Any
    kind: Any
    first: Any
    #: int32 [rows, columns, cables]: output of each step, -1 where there is none.
    output: Any
    #: uint8 [inputs]: dimension of the cable of each input.
    dimension: Any
    #: int32 [endpoints]: row of each endpoint.
    row: Any
    #: int32: whether ties are random (otherwise forward), and the first lane of each class that no
    #: escape path uses.
    rules: Any


@part_njit()
def _output(net, packet, row, column):
    """Return the output of a step; one of several parallel cables by the packet's draw."""
    outputs = net.routes.output
    copy = 0
    if outputs.shape[2] > 1:
        copy = draw(net, packet, np.int64(outputs.shape[2]))
    return np.int64(outputs[row, column, copy])


@part_njit()
def _key_bit(net, packet, number):
    return np.int64(net.packets[packet].key >> np.uint64(number)) & 1


@part_njit()
def _goes_back(net, packet, d, x, y):
    """Return 1 if the first step from coordinate x to y is one back, otherwise 0."""
    routes, size = net.routes, np.int64(net.routes.size[d])
    if routes.kind[d] != RING:
        return np.int64((routes.kind[d] == LINE) & (y < x))
    ahead = y - x + (size if y < x else 0)
    return np.int64(2 * ahead + (routes.rules[0] & _key_bit(net, packet, TIES + d)) > size)


@part_njit()
def _will_cross(net, d, back, x, y):
    """Return whether the steps from coordinate x to y cross a dateline."""
    return (net.routes.kind[d] == RING) & ((y > x) == (back != 0))


@part_njit()
def _column(net, d, back, y):
    """Return the column of a step back or forward, or straight to coordinate y."""
    return net.routes.first[d] + (y if net.routes.kind[d] == FULL else back)


@part_njit()
def _turn(net, row, target, packet):
    """Let a packet begin with its next dimension."""
    routes, record = net.routes, net.packets[packet]
    coordinate, d = routes.coordinate, record.state >> DIMENSION & 0xFF
    while coordinate[row, d] == coordinate[target, d]:
        d += 1
    x, y, size = np.int64(coordinate[row, d]), np.int64(coordinate[target, d]), routes.size[d]
    back = _goes_back(net, packet, d, x, y)
    left = x - y if back else y - x
    left = 1 if routes.kind[d] == FULL else left + (size if left < 0 else 0)
    upper = left * _key_bit(net, packet, CLASSES + d)
    if _will_cross(net, d, back, x, y):
        upper = size - 1 - y if back else y
    column, is_ring = _column(net, d, back, y), np.int64(routes.kind[d] == RING)
    within = left | upper << UPPER | column << COLUMN | is_ring << IS_RING
    record.state = record.state & SECOND | within | (d + 1) << DIMENSION


@part_njit()
def _dor(net, row, packet, first_lane, lanes):
    """Return the output and the lanes of the next step in the packet's dimension.

    `first_lane` and `lanes` are the lanes of the packet's class that it may use; on a ring one half
    of them is class 0.
    """
    state = net.packets[packet].state
    output = _output(net, packet, row, state >> COLUMN & 0xFF)
    net.packets[packet].state = state - 1
    if not state >> IS_RING & 1:
        return output, lanes_of(net, packet, first_lane, lanes)
    # Without branches, which would often be mispredicted.
    half = lanes // 2
    is_upper = state & HOPS <= state >> UPPER & HOPS
    first = first_lane + (half if is_upper else 0)
    return output, lanes_of(net, packet, first, lanes - half if is_upper else half)


@part_njit()
def route_dor(net, now, row, lane, packet, attempt):
    """Go dimension by dimension."""
    if attempt:
        return False
    lanes = np.int64(net.rules.class_lanes)
    if not net.packets[packet].state & HOPS:
        destination = np.int64(net.packets[packet].destination)
        target = np.int64(net.routes.row[destination])
        if row == target:
            output = np.int64(net.inputs[destination].tail)
            choose(net, lane, output, lanes_of(net, packet, 0, lanes))
            return True
        _turn(net, row, target, packet)
    output, allowed = _dor(net, row, packet, 0, lanes)
    choose(net, lane, output, allowed)
    return True


@part_njit()
def enter_valiant(net, now, endpoint, packet):
    """Draw the router that a packet visits first."""
    key = splitmix64(net.packets[packet].key)
    rows = np.uint64(len(net.routers))
    net.packets[packet].via = np.int64(((key >> np.uint64(32)) * rows) >> np.uint64(32))


@part_njit()
def route_valiant(net, now, row, lane, packet, attempt):
    """Go dimension by dimension to a random router, then to the destination on other lanes."""
    if attempt:
        return False
    record = net.packets[packet]
    lanes = np.int64(net.rules.class_lanes)
    if row == record.via and not record.state & SECOND:
        record.state = SECOND
    target, half = np.int64(record.via), lanes // 2
    if record.state & SECOND:
        destination = np.int64(record.destination)
        target = np.int64(net.routes.row[destination])
        if row == target:
            output = np.int64(net.inputs[destination].tail)
            choose(net, lane, output, lanes_of(net, packet, 0, lanes))
            return True
    if not net.packets[packet].state & HOPS:
        _turn(net, row, target, packet)
    if record.state & SECOND:
        output, allowed = _dor(net, row, packet, half, lanes - half)
    else:
        output, allowed = _dor(net, row, packet, 0, half)
    choose(net, lane, output, allowed)
    return True


@part_njit()
def _escapes(net, lane):
    """Return whether a packet is on an escape path, which it does not leave any more."""
    shift = net.rules.lane_shift
    number = lane >> shift
    k = (lane & ((1 << shift) - 1)) % net.rules.class_lanes
    return k < net.routes.rules[1] and net.routes.dimension[number] != NO_DIMENSION


@part_njit()
def _escape(net, row, target, packet):
    """Return the output and the lane of the escape path: in order of dimensions, by datelines."""
    routes = net.routes
    d = 0
    while routes.coordinate[row, d] == routes.coordinate[target, d]:
        d += 1
    x, y = np.int64(routes.coordinate[row, d]), np.int64(routes.coordinate[target, d])
    back = _goes_back(net, packet, d, x, y)
    upper = routes.rules[1] > 1 and not _will_cross(net, d, back, x, y)
    output = _output(net, packet, row, _column(net, d, back, y))
    return output, lanes_of(net, packet, np.int64(upper), 1)


@part_njit()
def _score(net, number, allowed, hops):
    """Return the load of an output times the hops by way of it; more without a free lane."""
    return load_of(net, number) * hops + (0 if net.outputs[number].free & allowed else MOST >> 1)


@part_njit()
def _adaptive(net, row, target, packet, may_deroute):
    """Return the best output towards a target on the lanes that no escape path uses."""
    routes = net.routes
    own = np.int64(routes.rules[1])
    allowed = lanes_of(net, packet, own, net.rules.class_lanes - own)
    dimensions = len(routes.size)
    hops = np.int64(0)
    for d in range(dimensions):
        x, y = np.int64(routes.coordinate[row, d]), np.int64(routes.coordinate[target, d])
        ahead = abs(y - x)
        if routes.kind[d] == FULL:
            ahead = np.int64(x != y)
        elif routes.kind[d] == RING:
            ahead = min(ahead, routes.size[d] - ahead)
        hops += ahead
    chosen, best = np.int64(-1), np.int64(MOST)
    start = draw(net, packet, np.int64(dimensions))
    for step in range(dimensions):
        d = start + step if start + step < dimensions else start + step - dimensions
        x, y = np.int64(routes.coordinate[row, d]), np.int64(routes.coordinate[target, d])
        if x == y:
            continue
        column = _column(net, d, _goes_back(net, packet, d, x, y), y)
        number = _output(net, packet, row, column)
        score = _score(net, number, allowed, hops)
        if score < best:
            chosen, best = number, score
        if routes.kind[d] == RING and 2 * abs(y - x) == routes.size[d]:
            number = _output(net, packet, row, 2 * np.int64(routes.first[d]) + 1 - column)
            score = _score(net, number, allowed, hops)
            if score < best:
                chosen, best = number, score
        was_off = net.packets[packet].state >> (DEROUTED + d) & 1
        if may_deroute and routes.kind[d] == FULL and not was_off:
            for z in range(routes.size[d]):
                if z in (x, y):
                    continue
                number = _output(net, packet, row, np.int64(routes.first[d]) + z)
                score = _score(net, number, allowed, hops + 1)
                if score < best:
                    chosen, best = number, score
    return chosen, allowed


@part_njit()
def _route_adaptive(net, row, lane, packet, attempt, may_deroute):
    destination = np.int64(net.packets[packet].destination)
    target = np.int64(net.routes.row[destination])
    if row == target:
        if attempt:
            return False
        every = lanes_of(net, packet, 0, np.int64(net.rules.class_lanes))
        choose(net, lane, np.int64(net.inputs[destination].tail), every)
        return True
    if _escapes(net, lane):
        attempt += 1
    if attempt > 1:
        return False
    if attempt:
        output, allowed = _escape(net, row, target, packet)
    else:
        output, allowed = _adaptive(net, row, target, packet, may_deroute)
    choose(net, lane, output, allowed)
    return True


@part_njit()
def route_adaptive(net, now, row, lane, packet, attempt):
    """Take the least loaded step of a shortest path, or else the step of the escape path."""
    return _route_adaptive(net, row, lane, packet, attempt, False)


@part_njit()
def route_dal(net, now, row, lane, packet, attempt):
    """Like `route_adaptive`, but leave the shortest path at most once in each dimension."""
    d = np.int64(net.routes.dimension[lane >> net.rules.lane_shift])
    if d != NO_DIMENSION:
        target = net.routes.row[net.packets[packet].destination]
        if net.routes.coordinate[row, d] != net.routes.coordinate[target, d]:
            net.packets[packet].state |= 1 << (DEROUTED + d)
    return _route_adaptive(net, row, lane, packet, attempt, True)
