"""Routing by candidates, among which a policy chooses, direct or via an intermediate.

The kernels of a policy are ``send(net, packet, row, goal)``, which may set `PACKET.via` before the
packet leaves a row, and ``pick(net, packet, row, first, count)``, which returns the place of one
of `count` candidates from place `first` of `Candidates.output` on.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from weft.kernels.flit.routing.common import below, choose, draw, lanes_of, load_of
from weft.kernels.hashing import splitmix64
from weft.kernels.lean import part_njit
from weft.kernels.records import record_type

#: Added to the hops of a packet for the draw of an intermediate, beyond all hops.
OF_VIA = 1 << 16

#: A load larger than all.
MOST = 2**62

RULES = record_type(
    each="i4",  # lanes of a class for each virtual lane of the routes
    turns="i4",  # 1: packets decide at all rows of their source's intermediate
    threshold="i8",  # by which the minimal path may be more loaded
)


class Candidates(NamedTuple):
    """Sets of candidates, as in `weft.routing.routes.CandidateRoutes`."""

    #: One `RULES`.
    rules: Any
    #: int32 [endpoints]: row of each endpoint.
    row: Any
    #: As there.
    set_id: Any
    set_offset: Any
    #: int32: output of each candidate; uint8: its virtual lane.
    output: Any
    lane: Any
    #: int32: row at the other end of each candidate.
    head: Any
    #: As there.
    via: Any
    via_set: Any
    turn_set: Any
    #: uint8 [rows, rows]: links on a path to each target row from each row; uint8 and int32
    #: [intermediates, rows]: links on a path to each intermediate, and the row at which it ends.
    #: Only for policies that compare paths.
    links_to: Any
    links_to_via: Any
    via_row: Any


@part_njit()
def allowed_on(net, packet, at):
    """Return the bits of the lanes that a packet may use on a candidate."""
    routes = net.routes
    return lanes_of(net, packet, np.int64(routes.lane[at]) * routes.rules.each, routes.rules.each)


@part_njit()
def _source_row(net, packet):
    return np.int64(net.routes.row[net.origins[packet].source])


@part_njit()
def set_of(net, packet, row, goal):
    """Return the number of the set of candidates of a packet at a row."""
    routes, via = net.routes, np.int64(net.packets[packet].via)
    if via >= 0:
        return np.int64(routes.via_set[via, row])
    if routes.rules.turns and routes.via[row] == routes.via[_source_row(net, packet)]:
        early = np.int64(routes.turn_set[goal, row])
        if early >= 0:
            return early
    return np.int64(routes.set_id[goal, row])


@cache
def route_of(send, pick):
    """Return the kernel ``route`` of a `Routing` with those of a policy."""

    def route(net, now, row, lane, packet, attempt):
        if attempt:
            return False
        routes, here = net.routes, net.packets[packet]
        goal = np.int64(routes.row[here.destination])
        if here.via >= 0 and routes.via[row] == here.via:
            here.via = -1
        send(net, packet, row, goal)
        if here.via < 0 and row == goal:
            output = np.int64(net.inputs[here.destination].tail)
            choose(net, lane, output, lanes_of(net, packet, 0, net.rules.class_lanes))
            return True
        group = set_of(net, packet, row, goal)
        first = np.int64(routes.set_offset[group])
        count = np.int64(routes.set_offset[group + 1]) - first
        at = pick(net, packet, row, first, count) if count > 1 else first
        choose(net, lane, np.int64(routes.output[at]), allowed_on(net, packet, at))
        return True

    names = [getattr(kernel, "py_func", kernel).__qualname__ for kernel in (send, pick)]
    # The disk keeps compiled code by this name.
    route.__qualname__ = ".".join(["route_of", *names])
    return part_njit()(route)


@part_njit()
def stay(net, packet, row, goal):
    """Keep the intermediate of a packet."""


@part_njit()
def by_hash(net, packet, row, first, count):
    """Pick one candidate for all packets of a pair of endpoints, by a hash for each row."""
    source, destination = net.origins[packet].source, net.packets[packet].destination
    pair = np.uint64(source) * np.uint64(len(net.endpoints)) + np.uint64(destination)
    number = splitmix64(splitmix64(net.rules.seed ^ pair) ^ np.uint64(row))
    return first + below(number, count)


@part_njit()
def drawn(net, packet, row, first, count):
    """Pick a random candidate."""
    return first + draw(net, packet, count)


@part_njit()
def least_loaded(net, packet, row, first, count):
    """Pick the least loaded candidate, if possible one with a free lane, from a random one on."""
    start = draw(net, packet, count)
    chosen, best = first, np.int64(MOST)
    for step in range(count):
        at = first + (start + step if start + step < count else start + step - count)
        output = np.int64(net.routes.output[at])
        load = load_of(net, output)
        if not net.outputs[output].free & allowed_on(net, packet, at):
            load += MOST >> 1
        if load < best:
            chosen, best = at, load
    return chosen


@part_njit()
def draw_via(net, packet, row, goal):
    """Draw an intermediate other than those of two rows; -1 if the two are in one or in none."""
    via = net.routes.via
    one, two = np.int64(via[row]), np.int64(via[goal])
    if one < 0 or two < 0 or one == two:
        return np.int64(-1)
    here = net.packets[packet]
    number = splitmix64(here.key ^ np.uint64(OF_VIA + here.hops))
    drawn = below(number, np.int64(len(net.routes.via_set) - 2))
    drawn += drawn >= min(one, two)
    drawn += drawn >= max(one, two)
    return drawn


@part_njit()
def enter_by_via(net, now, endpoint, packet):
    """Send a packet via a random intermediate."""
    row = np.int64(net.routes.row[endpoint])
    goal = np.int64(net.routes.row[net.packets[packet].destination])
    net.packets[packet].via = draw_via(net, packet, row, goal)


@part_njit()
def least_load(net, group):
    """Return the least load of the outputs of a set."""
    routes, least = net.routes, np.int64(MOST)
    for at in range(routes.set_offset[group], routes.set_offset[group + 1]):
        least = min(least, load_of(net, np.int64(routes.output[at])))
    return least


@part_njit()
def decide(net, packet, row, goal):
    """Send a packet via a random intermediate if the minimal path is more loaded here, by UGAL.

    `PACKET.state` is one more than the hops at the last decision.
    """
    routes, here = net.routes, net.packets[packet]
    if here.state != here.hops or here.via >= 0:
        return
    if here.hops and not (
        routes.rules.turns and routes.via[row] == routes.via[_source_row(net, packet)]
    ):
        return
    here.state = here.hops + 1
    via = draw_via(net, packet, row, goal)
    if via < 0:
        return
    near = np.int64(routes.links_to[goal, row])
    far = np.int64(routes.links_to_via[via, row]) + routes.links_to[goal, routes.via_row[via, row]]
    minimal = least_load(net, set_of(net, packet, row, goal)) * near
    around = least_load(net, np.int64(routes.via_set[via, row])) * far
    if minimal > around + routes.rules.threshold:
        here.via = via


@part_njit()
def _path_load(net, row, via, goal):
    """Return the sum of loads on a path that takes the least loaded candidate at each row."""
    routes, total = net.routes, np.int64(0)
    while True:
        if via >= 0 and routes.via[row] == via:
            via = np.int64(-1)
        if via < 0 and row == goal:
            return total
        group = np.int64(routes.via_set[via, row] if via >= 0 else routes.set_id[goal, row])
        best, chosen = np.int64(MOST), np.int64(0)
        for at in range(routes.set_offset[group], routes.set_offset[group + 1]):
            load = load_of(net, np.int64(routes.output[at]))
            if load < best:
                best, chosen = load, at
        total += best
        row = np.int64(routes.head[chosen])


@part_njit()
def enter_by_paths(net, now, endpoint, packet):
    """Send a packet via a random intermediate if the links of the minimal path are more loaded."""
    row = np.int64(net.routes.row[endpoint])
    goal = np.int64(net.routes.row[net.packets[packet].destination])
    via = draw_via(net, packet, row, goal)
    if via < 0:
        return
    minimal = _path_load(net, row, np.int64(-1), goal)
    if minimal > _path_load(net, row, via, goal) + net.routes.rules.threshold:
        net.packets[packet].via = via
