"""State of the packet level: named tuples of arrays of records (`weft.kernels.packet.records`).

A single record is passed as a pointer. Arrays have one dimension unless a shape is given.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Topology(NamedTuple):
    """Links, and the ports and rows at their ends."""

    #: `LINK` of each link, `KIND` of each group of equal links, `ROW` of each row.
    links: Any
    kinds: Any
    rows: Any
    #: `PORT` of all rows, row by row.
    ports: Any


class Calendar(NamedTuple):
    """Future events; see `weft.kernels.packet.calendar`."""

    #: One `CALENDAR`.
    state: Any
    #: `PACKET` and `EVENT` of each slot, and int32 stack of free slots.
    packets: Any
    events: Any
    free: Any
    #: int32 first slot of each bucket's list, and uint64 words with a bit for each bucket in use.
    bucket_first: Any
    bucket_used: Any
    #: Two heaps, of the present bucket and of events beyond the wheel: int64 times, ps, and int64
    #: items (link << 32 | slot). Events of the same time are ordered by item.
    active_time: Any
    active_item: Any
    far_time: Any
    far_item: Any


class Credits(NamedTuple):
    """Credit returns: one `POOL`, the `RETURN` records, and an int32 stack of free records."""

    state: Any
    returns: Any
    free: Any


class Arbitration(NamedTuple):
    """Lane arbitration: `ARBITER` of each link, and the high and the low table of `WEIGHT`."""

    arbiters: Any
    high: Any
    low: Any


class Adapters(NamedTuple):
    """State of the adapters: messages, queue pairs and connections."""

    #: `MESSAGE` of each operation, 0 until it joins, and uint8 [ops]: what the operation sends, as
    #: numbered in `weft.kernels.program.operations`.
    messages: Any
    sends: Any
    #: int32 [ops]: route, and for queue 0 connection and queue pair, of each operation.
    route: Any
    connection: Any
    pair: Any
    #: `ROUTE` of each route, `PAIR` of each queue pair and `CONNECTION` of each connection.
    routes: Any
    pairs: Any
    connections: Any
    #: `REORDER` of each connection; a single record where packets always arrive in order.
    reordered: Any
    #: `MEMORY` of each link.
    memories: Any


class RouteTables(NamedTuple):
    """Routes as rows look them up; all arrays are read-only."""

    #: uint8 or uint16 [lids, rows]: output ports of forwarding tables.
    forwarding: Any
    #: int32: links of all source routes, one route after the other.
    source_routes: Any
    #: int32 [rows, rows], int32 [sets + 1] and `CANDIDATE` records: sets of candidates; see
    #: `weft.routing.routes.CandidateRoutes`.
    set_id: Any
    set_offset: Any
    candidates: Any
    #: `ENDPOINT` of each endpoint.
    endpoints: Any
    #: uint8 [tables, 16]: lane of each service level; int32: table of each pair of ports; and
    #: `LANE_ROW` of each row. See `weft.routing.routes.VirtualLanes`.
    lane_tables: Any
    lane_index: Any
    lane_rows: Any


class Trace(NamedTuple):
    """Trace of the hops of selected messages."""

    #: uint8 [ops]: 1 for operations to trace; empty if nothing is traced.
    traced: Any
    #: int64 [slots]: time, ps, when the slot's packet became the first of its queue; empty if
    #: nothing is traced.
    front_ps: Any
    #: `HOP` records to fill.
    hops: Any


class Mailboxes(NamedTuple):
    """Mail between parts of the fabric; see `weft.kernels.packet.mail`."""

    #: `PACKET` [2 * parts * box_size]: letters of each box of each part.
    letters: Any
    #: int32 [rows]: part of each row.
    row_part: Any
    #: int64 [2 * parts, HEADS + parts and more]: what each part tells the others when they meet,
    #: and the last letter of its box for each of them; and their barrier.
    told: Any
    barrier: Any


class Net(NamedTuple):
    """State that all kernels of the packet level share.

    With several parts, each has a tuple of its own. They share the arrays of `tables`, `adapters`,
    `control` and `mail`; in those of links, each knows its own and what is constant.
    """

    #: One `RULES` and one `COUNT`.
    rules: Any
    count: Any
    #: A `Topology`, `Calendar`, `Credits`, `Arbitration`, `Adapters`, `RouteTables`, `Trace`.
    topology: Topology
    calendar: Calendar
    credits: Credits
    arbitration: Arbitration
    adapters: Adapters
    tables: RouteTables
    trace: Trace
    #: `LANE` of each lane of each link, index ``link * lanes + lane``.
    lanes: Any
    #: `QUEUE` of each queue of packets in a row.
    queues: Any
    #: uint64 [links * lanes * words]: for each output link and incoming lane, the bits of the input
    #: ports where the first packet of a queue requests the link.
    asked: Any
    #: int64 [links * speedup]: time, ps, from which each of the `speedup` parts of a link's input
    #: port is free.
    port_free: Any
    #: int64: heap of the numbers of the links that may have a packet to grant.
    due: Any
    #: `CABLE` of each link: packets on its cable, with `RULES.is_watched`.
    cables: Any
    #: Scratch arrays: `BEST` of each lane, and int64 load of each candidate of a packet.
    best: Any
    loads: Any
    #: A `weft.kernels.packet.congestion_control.Control`.
    control: Any
    mail: Mailboxes
