"""Routing by source routes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.flit.routing.common import choose
from weft.kernels.flit.routing.virtual_lanes import SlToVl, lanes_by_ports
from weft.kernels.lean import part_njit


class SourceRoutes(NamedTuple):
    """Source routes; `PACKET.state` is the number of the packet's path."""

    #: As in `weft.routing.routes.PathRoutes`.
    pair: Any
    offset: Any
    #: int32: outputs of the paths, without those to endpoints.
    output: Any
    #: uint8 [1 or paths]: service level of each path.
    level: Any
    #: int32 [outputs]: port of each output at its node.
    out_port: Any
    #: Lanes of service levels.
    lanes: SlToVl


@part_njit()
def route(net, now, row, lane, packet, attempt):
    """Take the next output of the path, on the lanes of the path's service level."""
    if attempt:
        return False
    routes, path = net.routes, np.int64(net.packets[packet].state)
    at = routes.offset[path] + net.packets[packet].hops
    if at < routes.offset[path + 1]:
        output = np.int64(routes.output[at])
    else:
        output = np.int64(net.inputs[net.packets[packet].destination].tail)
    level = np.int64(routes.level[path if len(routes.level) > 1 else 0])
    port = np.int64(routes.out_port[output])
    allowed = lanes_by_ports(net, routes.lanes, packet, level, row, lane, port)
    choose(net, lane, output, allowed)
    return True


@part_njit()
def enter(net, now, endpoint, packet):
    """Find the path of the packet."""
    pair = net.routes.pair
    goal = np.int64(endpoint) * len(net.endpoints) + net.packets[packet].destination
    low, high = np.int64(0), np.int64(len(pair))
    while high - low > 1:
        middle = (low + high) >> 1
        if pair[middle] <= goal:
            low = middle
        else:
            high = middle
    net.packets[packet].state = low
