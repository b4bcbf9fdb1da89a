"""Routing functions of the flit level; see `weft.kernels.flit.engine.loop`."""

import numpy as np

from weft.kernels.lean import part_njit

ALL_LANES = np.uint32(0xFFFFFFFF)


@part_njit()
def by_tables(net, row, number, lane, packet):
    """Take the output port of the forwarding table, on any lane."""
    destination = np.int64(net.packets[packet].destination)
    here, routes = net.lanes[lane], net.routes
    port = np.int64(routes.table[destination, row])
    here.out_link = routes.row_link[routes.row_base[row] + port]
    here.allowed = ALL_LANES
