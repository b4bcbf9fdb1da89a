"""Lanes of service levels: what a virtual lane of routes stands for at the flit level."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.flit.routing.common import lanes_of
from weft.kernels.lean import part_njit


class SlToVl(NamedTuple):
    """SL to VL mapping, as `weft.routing.routes.VirtualLanes`."""

    #: int: lanes of a class for each virtual lane of the routes.
    each: int
    #: As there.
    tables: Any
    index: Any
    base: Any
    ports: Any
    #: int32 [inputs]: port of each input at its node.
    in_port: Any


@part_njit()
def lanes_by_ports(net, lanes, packet, level, row, lane, port):
    """Return the bits of the lanes of a service level, from an input lane to a port of a row."""
    table = np.int64(0)
    if len(lanes.index):
        came = np.int64(lanes.in_port[lane >> net.rules.lane_shift])
        table = np.int64(lanes.index[lanes.base[row] + came * lanes.ports[row] + port])
    return lanes_of(net, packet, np.int64(lanes.tables[table, level]) * lanes.each, lanes.each)
