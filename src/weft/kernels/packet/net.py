"""Everything that packets meet, in parts: tuples of arrays of `weft.kernels.packet.records`.

What is one record there is passed as a pointer to it; arrays are of one dimension unless told.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Topology(NamedTuple):
    """Links and what lies at either end.

    Parameters
    ----------
    links, kinds, rows
        `LINK` of each directed link, `KIND` of links that are alike, `ROW` of each node.
    ports
        `PORT` of all rows, one row after the other.
    """

    links: Any
    kinds: Any
    rows: Any
    ports: Any


class Calendar(NamedTuple):
    """What is to come; see `weft.kernels.packet.calendar`.

    Parameters
    ----------
    state
        One `CALENDAR`.
    packets, free
        `PACKET`, and int32 stack of the slots that are free.
    bucket_first, bucket_used
        int32 and uint64 bits: the list of each bucket, and which have one.
    active_time, active_item, far_time, far_item
        int64: heaps of times in ps, and what decides among equal ones.
    """

    state: Any
    packets: Any
    free: Any
    bucket_first: Any
    bucket_used: Any
    active_time: Any
    active_item: Any
    far_time: Any
    far_item: Any


class Credits(NamedTuple):
    """Credits on their way back: one `POOL`, `RETURN`, and int32 stack of those that are free."""

    state: Any
    returns: Any
    free: Any


class Arbitration(NamedTuple):
    """Lane arbitration: `ARBITER` of each link, and the high and low table of `WEIGHT`."""

    arbiters: Any
    high: Any
    low: Any


class Adapters(NamedTuple):
    """What is sent.

    Parameters
    ----------
    messages, sends
        `MESSAGE` of each operation, and uint8: what it sends, by `weft.kernels.program`.
    routes, pairs, connections
        `ROUTE`, `PAIR` and `CONNECTION`.
    reordered
        `REORDER` of each connection; one where packets come in order.
    """

    messages: Any
    sends: Any
    routes: Any
    pairs: Any
    connections: Any
    reordered: Any


class RouteTables(NamedTuple):
    """What nodes look up; none can be written.

    Parameters
    ----------
    forwarding
        uint8 or uint16 [lids, rows]: ports of forwarding tables.
    source_routes
        int32: links of source routes, one after the other.
    set_id, set_offset, candidates
        int32 [rows, rows], int32 and `CANDIDATE`: see `weft.routes.CandidateRoutes`.
    endpoints
        `ENDPOINT`.
    lane_tables, lane_index, lane_rows
        uint8 [tables, 16], int32 and `LANE_ROW`: see `weft.routes.VirtualLanes`.
    """

    forwarding: Any
    source_routes: Any
    set_id: Any
    set_offset: Any
    candidates: Any
    endpoints: Any
    lane_tables: Any
    lane_index: Any
    lane_rows: Any


class Trace(NamedTuple):
    """Hops of some messages.

    Parameters
    ----------
    traced
        uint8 marks of operations; empty for none.
    front_ps
        int64: when each slot's packet became the first of its queue; empty for none.
    hops
        `HOP`.
    """

    traced: Any
    front_ps: Any
    hops: Any


class Net(NamedTuple):
    """All that kernels of the packet level share.

    Parameters
    ----------
    rules, count
        One `RULES` and one `COUNT`.
    topology, calendar, credits, arbitration, adapters, tables, trace
        See there.
    lanes
        `LANE` of each link and lane, at ``link * lanes + lane``.
    queues
        `QUEUE` of packets in nodes.
    asked
        uint64 bits of the ports that ask each lane of each link.
    port_free
        int64 [links * speedup]: ps when each input port can send more.
    due
        int32 heap of the links that may have something to grant.
    best, loads
        Scratch: `BEST` of each lane, int64 loads of the candidates of a packet.
    choice
        What each policy keeps; see `weft.sim.packet.policies`.
    control
        A `weft.kernels.packet.congestion_control.Control`.
    """

    rules: Any
    count: Any
    topology: Topology
    calendar: Calendar
    credits: Credits
    arbitration: Arbitration
    adapters: Adapters
    tables: RouteTables
    trace: Trace
    lanes: Any
    queues: Any
    asked: Any
    port_free: Any
    due: Any
    best: Any
    loads: Any
    choice: Any
    control: Any
