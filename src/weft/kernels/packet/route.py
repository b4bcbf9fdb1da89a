"""Routing of a packet at a row: forwarding tables, source routes, or a policy's choice."""

import numpy as np

from weft.kernels.lean import part_njit
from weft.kernels.packet.choice import BY_PORTS, DIRECT, lane_by_ports, lane_of
from weft.kernels.packet.congestion_control import BECN
from weft.kernels.parts import call_for_int
from weft.kernels.prefetch import prefetch

# Kinds of routes: `PACKET.address` is a LID, an index in the source routes, or an endpoint.
TABLES = 0
RUNS = 1
CANDIDATES = 2

#: Value for no output link, and for no set of candidates.
NO_PATH = -1


@part_njit()
def route(net, slot, now):
    """Set the output link, -1 if there is none, and lane of a packet at the head of its link.

    `net`: a `weft.kernels.packet.net.Net`. `now`: time, ps.
    """
    rules, tables, packet = net.rules, net.tables, net.calendar.packets[slot]
    row = np.int64(net.topology.links[packet.link].head_row)
    lane = np.int64(packet.lane)
    address = np.int64(packet.address)
    link = np.int64(NO_PATH)
    if rules.route_kind == TABLES:
        port = np.int64(tables.forwarding[address, row])
        here = net.topology.rows[row]
        if port < here.ports:
            link = np.int64(net.topology.ports[here.first_port + port].out_link)
    elif rules.route_kind == RUNS:
        link = np.int64(tables.source_routes[address])
        packet.address = address + 1
    else:
        goal = np.int64(tables.endpoints[address].row)
        group = np.int64(DIRECT)
        if rules.arrives:
            group = call_for_int(rules.arrives, (net, rules.kept, slot, row, goal, now))
        if group == DIRECT:
            if goal == row:
                group = np.int64(NO_PATH)
                link = np.int64(tables.endpoints[address].last_link)
            else:
                group = np.int64(tables.set_id[goal, row])
        if group >= 0:
            first = np.int64(tables.set_offset[group])
            several = np.int64(tables.set_offset[group + 1]) - first
            # All queues of a pair of ranks are one flow.
            flow = np.int64(net.adapters.connection[packet.op])
            if packet.marks & BECN:
                flow += rules.connections
            at = first
            if several > 1 or rules.single:
                packed = (net, rules.kept, slot, row, flow, first, several, now)
                at += call_for_int(rules.choose, packed)
            taken = tables.candidates[at]
            link = np.int64(taken.link)
            lane = lane_of(net, slot, row, taken)
    if rules.lane_kind == BY_PORTS and link >= 0:
        lane = lane_by_ports(net, slot, row, link)
    if rules.lanes > 1:
        prefetch(net.arbitration.arbiters, link)
    packet.out_link = link
    packet.out_lane = lane
