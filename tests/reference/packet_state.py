"""State of the flit-by-flit network as flat arrays; see `tests.reference.packet_network`.

Arrays may be numpy's, for compiled functions, or lists, for plain ones. Values of each link and
lane have index `link * num_vls + lane`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Kinds of routes.
TABLES, PATHS, CANDIDATES = 0, 1, 2
# Policies over candidates.
ECMP, SPRAY, FLOWLET, ADAPTIVE = 0, 1, 2, 3

# Indices of `number`.
EVENTS, PACKETS, LOOKS, REPORTS, FREE_CROSSINGS, FREE_PACKETS, HOPS, DELIVERED = range(8)
NUMBERS = 8

# Kinds of events, in the order in which those of one instant are processed: the last byte of a flit
# leaves a buffer, the first byte of a flit arrives at a buffer, the first byte of a flit leaves,
# credits return, a packet or a link may have become able to send, a packet is routed.
END, ARRIVE, BEGIN, CREDIT, WAKE, ROUTE = range(6)


class Network(NamedTuple):
    """Cables, nodes, routes, messages and everything in flight. Times are int64 ps.

    A *crossing* is one packet on one link, then in the buffer behind it, until its last byte has
    left that buffer. Writing to memory is a crossing too, on link -1.
    """

    # Constants.
    num_links: int
    num_vls: int
    num_ports: int
    flit_bytes: int
    mtu_bytes: int
    header_bytes: int
    quantum_bytes: int
    buffer_bytes: int
    credit_bytes: int
    credit_latency: int
    voq: int
    speedup: int
    weighted: int
    adapter_gbps: float
    route_kind: int
    policy: int
    gap: int
    entries: int
    seed: Any

    # By link: rate (Gbit/s), latency, rows at its tail and head (-1 for adapters), ports at its
    # ends, and the routing time of the node at its head.
    rate: Any
    latency: Any
    tail: Any
    head: Any
    tail_port: Any
    head_port: Any
    route_time: Any
    # Links into each row, by port, and links out of it, by number.
    in_offset: Any
    in_link: Any
    out_offset: Any
    out_link: Any

    # Routes: link of each port of each row; row of attachment of each destination and link to it;
    # tables; paths; candidates.
    row_base: Any
    row_link: Any
    last_row: Any
    last_link: Any
    num_rows: int
    table: Any
    path_offset: Any
    path_edge: Any
    edge_link: Any
    set_id: Any
    set_offset: Any
    set_edge: Any
    set_lane: Any
    own_lanes: int
    # SL to VL: tables, and the table of each (row, port in, port out) where they differ.
    lanes_by_port: int
    lane_table: Any
    lane_index: Any
    lane_base: Any
    lane_ports: Any

    # Lane arbitration by weights: entries of the high and the low table, limit in bytes (-1: none).
    high_lane: Any
    high_weight: Any
    low_lane: Any
    low_weight: Any
    high_limit: int

    # By message: queue pair, the number that draws use for it, payload not yet sent, number of
    # packets that have not arrived, destination, LID or path, SL, first link and lane, next message
    # of its queue pair; times at which its first byte left, its last byte left, and its last byte
    # arrived.
    msg_qp: Any
    msg_name: Any
    msg_bytes: Any
    msg_coming: Any
    msg_goal: Any
    msg_path: Any
    msg_sl: Any
    msg_link: Any
    msg_lane: Any
    msg_next: Any
    msg_left: Any
    msg_sent: Any
    msg_arrived: Any
    # Messages waiting in each queue pair, and queue pairs waiting for each link and lane.
    qp_first: Any
    qp_last: Any
    qp_next: Any
    qp_taken: Any
    line_first: Any
    line_last: Any

    # By packet in flight: message, wire bytes, number, edges of its path passed, whether it is the
    # last of its message.
    p_message: Any
    p_bytes: Any
    p_number: Any
    p_passed: Any
    p_final: Any
    free_packet: Any
    # By crossing: packet, the crossing before it, link and lane, departure of the first byte and
    # duration; number of flits that have arrived; next link and lane, the time of rule 11, and the
    # crossing behind it in its queue.
    c_packet: Any
    c_before: Any
    c_link: Any
    c_lane: Any
    c_begin: Any
    c_takes: Any
    c_come: Any
    c_out: Any
    c_out_lane: Any
    c_earliest: Any
    c_next: Any
    free_crossing: Any

    # By link and lane: credits at the sender, held by packets, and on the way back; bytes in the
    # buffer behind it; credits needed by packets routed to it; input granted last by round robin;
    # packets and bytes that left.
    credits: Any
    held: Any
    returning: Any
    inside: Any
    wanted: Any
    last_taken: Any
    sent_packets: Any
    sent_bytes: Any
    # By link: sum of the waits of packets that came over it, in the buffer behind it; end of its
    # transmission; number of packets or queue pairs that wait for it; end of use of each slot of
    # its input port [links * speedup]; end of the write to memory.
    waited: Any
    # By link: time for which it was free and sent nothing that waited.
    blocked: Any
    link_until: Any
    waiting: Any
    port_until: Any
    memory_until: Any
    # Arbitration by link: lane granted last; packets injected; entry and weight left in either
    # table; bytes of high priority left.
    last_lane: Any
    injected: Any
    high_entry: Any
    high_left: Any
    low_entry: Any
    low_left: Any
    limit_left: Any
    among: Any
    # Queues, first and last crossing.
    queue_first: Any
    queue_last: Any
    # Flowlets [rows * entries]: link and time of the last packet.
    flowlet_link: Any
    flowlet_time: Any

    # Links to check, and whether each is among them: all links of a node when the state of one of
    # them has changed.
    look: Any
    looked: Any
    # Events, a binary heap; counters; reports to the program of messages sent or arrived: twice the
    # message's number, plus one for arrivals.
    heap_time: Any
    heap_order: Any
    heap_item: Any
    heap_flit: Any
    number: Any
    reports: Any
