"""Where a packet goes on from a node that switches: tables, source routes, or a policy's choice."""

import numpy as np

from weft.kernels.lean import part_njit
from weft.kernels.packet.adaptive import adaptive
from weft.kernels.packet.choice import (
    ADAPTIVE,
    BY_PORTS,
    CONGA,
    ECMP,
    FLOWLET,
    STRAIGHT,
    UGAL,
    lane_by_ports,
    lane_of,
)
from weft.kernels.packet.conga import conga, conga_comes
from weft.kernels.packet.congestion_control import BECN
from weft.kernels.packet.hashed_choice import ecmp, flowlet, spray
from weft.kernels.packet.layout import (
    HEAD_ROW,
    LANE,
    LANE_KIND,
    LINK,
    MARKS,
    OP,
    OUT,
    OUT_LANE,
    POLICY,
    ROUND,
    ROUTE_KIND,
    WAY,
)
from weft.kernels.packet.ugal import makes_for

# Kinds of routes: `WAY` is a LID, a place in the runs of links, or an endpoint.
TABLES = 0
RUNS = 1
CANDIDATES = 2

#: Nothing leads on.
NO_WAY = -1


@part_njit()
def _among(net, slot, row, flow, first, several, now):
    """Which of the candidates a packet takes: every policy has its line here."""
    policy = net.setting[POLICY]
    if policy == CONGA:  # it writes headers where there is one candidate too
        return conga(net, slot, row, flow, first, several, now)
    if several == 1:
        return np.int64(0)
    if policy == ECMP:
        return ecmp(net, row, flow, several)
    if policy == FLOWLET:
        return flowlet(net, slot, row, flow, first, several, now)
    if policy in (ADAPTIVE, UGAL):
        return adaptive(net, slot, row, flow, first, several, now)
    return spray(net, slot, row, several)


@part_njit()
def route(net, slot, now):
    """Write into a packet where it goes on from the node that it came to.

    Parameters
    ----------
    net
        A `packet_net.Net`.
    slot
        The packet.
    now
        Time, ps.

    Returns
    -------
    bool: whether anything leads on.
    """
    setting, slots = net.setting, net.slots
    row = np.int64(net.fixed[slots[slot, LINK], HEAD_ROW])
    lane = np.int64(slots[slot, LANE])
    way = np.int64(slots[slot, WAY])
    link = np.int64(NO_WAY)
    if setting[ROUTE_KIND] == TABLES:
        port = np.int64(net.table[way, row])
        if net.row_base[row] + port < net.row_base[row + 1]:
            link = np.int64(net.row_link[net.row_base[row] + port])
    elif setting[ROUTE_KIND] == RUNS:
        link = np.int64(net.runs[way])
        slots[slot, WAY] = way + 1
    else:
        goal = np.int64(net.goal_row[way])
        group = np.int64(-1)
        via = np.int64(STRAIGHT)
        if setting[ROUND]:
            via = makes_for(net, slot, row, goal, now)
        elif setting[POLICY] == CONGA:
            conga_comes(net, slot, row, goal, now)
        if via >= 0:
            group = np.int64(net.choice.via_set[via, row])
        elif goal == row:
            link = np.int64(net.last_link[way])
        else:
            group = np.int64(net.set_id[goal, row])
        if group >= 0:
            first = np.int64(net.set_offset[group])
            several = np.int64(net.set_offset[group + 1]) - first
            flow = np.int64(net.connection_of[slots[slot, OP]])
            if slots[slot, MARKS] & BECN:
                flow += len(net.connections)
            at = first + _among(net, slot, row, flow, first, several, now)
            link = np.int64(net.edge_link[net.set_edge[at]])
            lane = lane_of(net, slot, row, at, link)
    if link < 0:
        return False
    if setting[LANE_KIND] == BY_PORTS:
        lane = lane_by_ports(net, slot, row, link)
    slots[slot, OUT] = link
    slots[slot, OUT_LANE] = lane
    return True
