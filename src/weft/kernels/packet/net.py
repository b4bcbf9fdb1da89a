"""Everything that packets meet: one tuple of arrays that all kernels of the packet level share."""

from __future__ import annotations

from typing import Any, NamedTuple


class Net(NamedTuple):
    """Arrays by name; rows and places are those of `weft.kernels.packet.layout`.

    Parameters
    ----------
    setting, number
        int64: what was set and what counts, by place.
    fixed, spans, rate, memory
        Of links: int32 rows that never change, int64 rows of times that many share, float64 Gb/s,
        and float64 Gb/s of memory behind an adapter at one end, 0 where that is no slower.
    into, row_base, row_link
        int32: the link that comes in and that leaves by port ``p`` of row ``r``, at
        ``row_base[r] + p``.
    slots, slot_time, free
        Packets and wake-ups: int32 rows, int64 ps, int32 stack of those that are free.
    notes, free_note
        Credits on their way back: int64 rows, int32 stack of those that are free.
    bucket_head, bucket_used, active_time, active_item, far_time, far_item
        Of `packet_queue`: int32 lists, uint64 bits, and two heaps of int64.
    state, lanes, arbiter, counts
        int64 rows of links, int32 rows of lanes, int32 rows of lane arbitration of links, int64
        rows of what lanes have carried.
    marked
        int64 [lanes of links], or [1] without congestion control: packets that were marked.
    queue_head, queue_tail, asked, port_free
        int32 first and last packet of each queue, uint64 bits of the ports that ask each lane of
        each link, int64 ps when input ports are free.
    cable_free
        int64 ps when the cable behind an adapter with slower memory is free; `FREE_AT` of its link
        waits for the memory too.
    dirty, is_dirty
        int32 heap and uint8 marks of links that may have something to grant.
    pairs, connections, kept, messages
        int32 rows of queue pairs and of connections, int64 rows of how long these keep packets
        that came early, and of operations; see `packet_adapter`.
    next_sent, next_whole, sends, pair_of, connection_of, route_of
        Of operations: the next in its queue pair and in its connection, what it sends (uint8), its
        queue pair, connection and route (int32).
    route_link, route_lane, route_way, route_level
        Of routes: first link, lane on it, what packets carry, and service level.
    high, low
        int64 [entries, 2]: tables of lane arbitration.
    pick, loads
        int64 scratch: of choices of links, and loads of the candidates of a packet.
    traced, first_at, hops
        uint8 marks of operations to trace (empty for none), int64 ps when each slot's packet became
        the first of its queue (empty without a trace), and int64 rows for their hops.
    table
        uint8 or uint16 [lids, rows]: ports of forwarding tables.
    runs
        int32: links of source routes, one after the other.
    set_id, set_offset, set_edge, set_lane, edge_link, goal_row, last_link
        Of candidates: see `weft.routes.CandidateRoutes`; the link of each edge, the row that each
        endpoint hangs from, and the link to it.
    lane_tables, lane_index, lane_base, lane_ports
        SL to VL by ports; see `weft.routes.VirtualLanes`.
    choice
        What the policy keeps: a `packet_choice.Choice`.
    rules, cct, back, paces, rates, notices
        Of congestion control: int64 numbers, int64 [entries, 2] table, int32 way back of each
        route, int64 rows of queue pairs and of what shares an index, and int32 first and last
        notification of each lane; see `packet_congestion`.
    """

    setting: Any
    number: Any
    fixed: Any
    spans: Any
    rate: Any
    memory: Any
    into: Any
    row_base: Any
    row_link: Any
    slots: Any
    slot_time: Any
    free: Any
    notes: Any
    free_note: Any
    bucket_head: Any
    bucket_used: Any
    active_time: Any
    active_item: Any
    far_time: Any
    far_item: Any
    state: Any
    lanes: Any
    arbiter: Any
    counts: Any
    marked: Any
    queue_head: Any
    queue_tail: Any
    asked: Any
    port_free: Any
    cable_free: Any
    dirty: Any
    is_dirty: Any
    pairs: Any
    connections: Any
    kept: Any
    messages: Any
    next_sent: Any
    next_whole: Any
    sends: Any
    pair_of: Any
    connection_of: Any
    route_of: Any
    route_link: Any
    route_lane: Any
    route_way: Any
    route_level: Any
    high: Any
    low: Any
    pick: Any
    loads: Any
    traced: Any
    first_at: Any
    hops: Any
    table: Any
    runs: Any
    set_id: Any
    set_offset: Any
    set_edge: Any
    set_lane: Any
    edge_link: Any
    goal_row: Any
    last_link: Any
    lane_tables: Any
    lane_index: Any
    lane_base: Any
    lane_ports: Any
    choice: Any
    rules: Any
    cct: Any
    back: Any
    paces: Any
    rates: Any
    notices: Any
