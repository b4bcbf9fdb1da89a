"""Routing by forwarding tables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.flit.routing.common import choose
from weft.kernels.flit.routing.virtual_lanes import SlToVl, lanes_by_ports
from weft.kernels.lean import part_njit


class Tables(NamedTuple):
    """Forwarding tables."""

    #: [endpoints, rows]: output port, as in `weft.routing.routes.TableRoutes`.
    table: Any
    #: int32 [rows * 256]: output of each port of a row, without that of the first port 0.
    output: Any
    #: int32 [rows]: first entry of each row in `output`.
    row_base: Any
    #: uint8 [1 or rows, 1 or endpoints]: service level of packets by the row at which they enter
    #: and by their destination.
    level: Any
    #: int32 [endpoints]: row of each endpoint.
    row: Any
    #: Lanes of service levels.
    lanes: SlToVl


@part_njit()
def route(net, now, row, lane, packet, attempt):
    """Take the output port of the forwarding table, on the lanes of the packet's service level."""
    if attempt:
        return False
    routes = net.routes
    port = np.int64(routes.table[np.int64(net.packets[packet].destination), row])
    level = np.int64(net.packets[packet].state)
    allowed = lanes_by_ports(net, routes.lanes, packet, level, row, lane, port)
    choose(net, lane, np.int64(routes.output[routes.row_base[row] + port]), allowed)
    return True


@part_njit()
def enter(net, now, endpoint, packet):
    """Store the service level of the packet in `PACKET.state`."""
    level = net.routes.level
    destination = np.int64(net.packets[packet].destination)
    line = np.int64(net.routes.row[endpoint]) if level.shape[0] > 1 else np.int64(0)
    net.packets[packet].state = level[line, destination if level.shape[1] > 1 else 0]
