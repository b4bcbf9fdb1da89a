"""Routing by forwarding tables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.lean import part_njit


class Tables(NamedTuple):
    """Forwarding tables.

    Parameters
    ----------
    table
        [endpoints, rows]: output port, as in `weft.routes.TableRoutes`.
    output
        int32 [rows * 256]: output of each port of a row, without that of the first port 0.
    row_base
        int32 [rows]: first entry of each row in `output`.
    """

    table: Any
    output: Any
    row_base: Any


@part_njit()
def route(net, now, row, lane, packet, attempt):
    """Take the output port of the forwarding table, on any lane of the packet's class."""
    if attempt:
        return False
    here, routes, rules = net.in_lanes[lane], net.routes, net.rules
    port = np.int64(routes.table[np.int64(net.packets[packet].destination), row])
    here.out = np.int64(routes.output[routes.row_base[row] + port]) << rules.lane_shift
    lanes = (np.uint64(1) << np.uint64(rules.class_lanes)) - np.uint64(1)
    here.allowed = np.uint32(lanes << np.uint64(net.packets[packet].kind * rules.class_lanes))
    return True


@part_njit()
def enter(net, now, endpoint, packet):
    """Do nothing when an endpoint begins to send a packet."""
