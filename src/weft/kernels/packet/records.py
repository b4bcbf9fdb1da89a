"""Records of the packet level: meaning and unit of each field.

Fields that are read and written together are one record of a cache line or less: an event touches
a packet, a lane and a link somewhere in memory, and each record costs one cache miss instead of
one per field. Links, rows, packets (slots of the calendar) and other records are given by their
index; -1 means none. Credits are counted in units of `RULES.credit_bytes`.
"""

from weft.kernels.records import record_type

#: Infinite time, ps.
NEVER = 2**62
#: `PACKET.lane` of a packet that an adapter holds because one sent earlier has not arrived.
HELD = -6


# -- topology --------------------------------------------------------------------------------------

LINK = record_type(
    free_at_ps="i8",  # earliest departure of the link's next packet
    wake_at_ps="i8",  # time of the link's next wake-up
    ready_ps="i8",  # since when the link, if free, could send but for credits and arbitration
    blocked_ps="i8",  # time for which it was free and sent nothing that was ready
    head_row="i4",  # row at the far end; -1 for an adapter
    tail_row="i4",  # row at the near end; -1 for an adapter
    kind="i4",  # index of the link's `KIND`
    first_queue="i4",  # index of the link's first queue at the far end
    injected="i4",  # packets that an adapter has injected on the link
    asking="i4",  # bits: incoming lanes with packets for the link; at an adapter, lanes in use
    queues="u2",  # number of queues per lane at the far end
    head_port="u2",  # port at the far end
    tail_port="u2",  # port at the near end
    is_due="u1",  # 1 while the link is in `Net.due`
    crosses="u1",  # 1 if the rows at its ends are in different parts of the fabric
)

#: Properties that many links share.
KIND = record_type(
    latency_ps="i8",  # latency of the cable
    credit_latency_ps="i8",  # latency of a credit return
    arrival_ps="i8",  # time from departure of a packet's first byte to the routing at the far end
    full_packet_ps="i8",  # duration of a packet of the largest size
    rate_gbps="f8",
    memory_gbps="f8",  # rate of the memory of the adapter at one end; 0 for no limit
    more_credits="i8",  # credits of a lane beyond those of a buffer, for what is under way
)

ROW = record_type(
    first_port="i4",  # index of the row's port 0 among the ports of all rows
    ports="i4",  # number of the row's ports, port 0 included
)

PORT = record_type(in_link="i4", out_link="i4")

# -- events and packets ----------------------------------------------------------------------------

#: When a slot of the calendar is due, beside the slot's `PACKET`.
EVENT = record_type(
    time_ps="i8",  # time of the event
    link="i4",  # link by which events of the same time are ordered; ~link: a wake-up of the link
    next="i4",  # next event of the same bucket
)

#: A packet, or an event of congestion control.
PACKET = record_type(
    time_ps="i8",  # in a queue, earliest departure; if held to reorder, arrival
    next="i4",  # next packet in the same list
    link="i4",  # incoming link
    out_link="i4",  # outgoing link, -1 if there is none
    op="i4",  # operation of the packet's message
    address="i4",  # key of route lookups: a LID, an endpoint, or an index in the source routes
    sequence="i4",  # number of the packet in its connection
    serial="i4",  # number of the packet for random draws; see `weft.kernels.packet.adapter`
    wire_bytes="i4",  # header and payload
    via="i4",  # intermediate, or -1; policies may use this field and the next three
    policy_a="i4",
    policy_b="i4",
    policy_c="i4",
    lane="i1",  # lane on `link`; a negative number is an event of `congestion_control`
    out_lane="i1",  # lane on `out_link`
    level="u1",  # service level
    marks="u1",  # FECN and BECN bits of congestion control
    sends="u1",  # what the operation sends: request, data or answer
    is_last="u1",  # 1: last packet of its message
)

#: State of the calendar.
CALENDAR = record_type(
    shift="i8",  # a bucket is 2**shift ps wide
    bucket="i8",  # number of the bucket that holds the present time
    active="i8",  # events in the heap of the present bucket
    far="i8",  # events in the heap for times beyond the buckets
    waiting="i8",  # number of all scheduled events
    free="i8",  # number of free slots
)

#: A credit return.
RETURN = record_type(
    time_ps="i8",  # time of arrival at the sender
    credits="i4",
    next="i4",  # next return of the same lane
)

#: State of the pool of `RETURN` records: number of free records.
POOL = record_type(free="i8")

# -- lanes of links --------------------------------------------------------------------------------

LANE = record_type(
    packets="i8",  # packets that have departed on the lane
    wire_bytes="i8",  # size of these packets
    wait_ps="i8",  # sum of the packets' waits from earliest possible to actual departure
    busy_ps="i8",  # sum of the packets' durations on the link
    credits="i4",  # credits that the sender has
    first_return="i4",  # first of the list of the lane's credit returns
    last_return="i4",
    last_grant="i4",  # latest grant (for round robin): input port * lanes + incoming lane
    routed_credits="i4",  # credits needed by packets routed to the lane and not yet granted
    first_pair="i4",  # first queue pair that waits for the lane, at an adapter
    last_pair="i4",
    is_short="u1",  # 1 while a packet waits for credits whose return has not been sent
)

#: Queue in a switch.
QUEUE = record_type(
    wait_ps="i8",  # sum of the waits of packets that have left
    first="i4",  # first packet
    last="i4",
)

#: Packets on the cable of a link, in the order of their arrival.
CABLE = record_type(first="i4", last="i4")

#: Memory of the adapters at a link's ends, where that is slower than the link.
MEMORY = record_type(
    free_at_ps="i8",  # end of the last write to memory by the adapter at the link's head
    cable_free_ps="i8",  # end of the last packet on the cable; reading from memory may take longer
)

#: Lane arbitration of a link.
ARBITER = record_type(
    last_lane="i4",  # lane of the last packet
    high_entry="i4",  # present entry of the high table
    high_left="i4",  # rest of the weight of that entry, in units of 64 bytes
    low_entry="i4",  # present entry of the low table
    low_left="i4",  # rest of the weight of that entry, in units of 64 bytes
    limit_left="i4",  # bytes that the high table may send before the low table is served
)

#: Entry of a table of lane arbitration; the weight is in units of 64 bytes.
WEIGHT = record_type(lane="i8", weight="i8")

#: Best packet for a lane so far: distance in round-robin order, and slot.
BEST = record_type(distance="i8", slot="i8")

# -- adapters --------------------------------------------------------------------------------------

#: Message, request or answer that an operation sends.
MESSAGE = record_type(
    left_bytes="i8",  # payload that has not been injected
    ready_ps="i8",  # earliest departure of the next packet if there were no other traffic
    missing_packets="i4",  # with one part: packets that have not arrived, or not in order
    next_sent="i4",  # next message of the queue pair
    route="i4",  # index of the `ROUTE`
    connection="i4",  # index of the `CONNECTION`
    pair="i4",  # index of the `PAIR`
)

ROUTE = record_type(
    link="i4",  # first link
    address="i4",  # see `PACKET`
    back="i4",  # index of the `ROUTE` back to the source, for congestion control
    lane="u1",  # lane on the first link
    level="u1",  # service level
)

#: Queue of a queue pair.
PAIR = record_type(
    first="i4",  # message being sent
    last="i4",  # last message of the queue
    next="i4",  # next queue pair in the queue of the lane
    used_bytes="i4",  # bytes sent in the present quantum
)

#: Connection: messages of one pair of ranks, whose packets leave in the order of the messages.
CONNECTION = record_type(sent_packets="i4")  # packets injected

#: Packets of a connection that are held because a packet sent earlier has not arrived.
REORDER = record_type(
    in_order_at_ps="i8",  # arrival of the last packet before the first gap in the sequence
    kept_ps="i8",  # sum of the times for which packets were held
    longest_kept_ps="i8",  # largest of these times
    held_bytes="i8",  # size of the packets held now
    most_held_bytes="i8",  # largest held_bytes so far
    early_packets="i8",  # packets that were held
    first_held="i4",  # first of the list of held packets, ordered by sequence
    in_order_packets="i4",  # packets that have arrived without a gap
)

# -- routes ----------------------------------------------------------------------------------------

#: Candidate: edge in `weft.routing.routes.CandidateRoutes`, output link and lane.
CANDIDATE = record_type(edge="i4", link="i4", lane="u1")

ENDPOINT = record_type(
    row="i4",  # row that the endpoint is attached to
    last_link="i4",  # link from that row to the endpoint
)

#: SL-to-VL tables of a row: `RouteTables.lane_index[base + i * ports + o]` is the table for input
#: port i and output port o.
LANE_ROW = record_type(base="i8", ports="i8")

# -- settings and counters of a run ----------------------------------------------------------------

#: Settings.
RULES = record_type(
    mtu_bytes="i8",  # largest payload of a packet
    header_bytes="i8",  # header of each packet
    full_packet_bytes="i8",  # size of a full packet on the wire
    control_bytes="i8",  # payload of requests and answers
    quantum_bytes="i8",  # bytes that a queue pair sends before the next is served
    credit_bytes="i8",  # size of a credit
    full_packet_credits="i8",  # credits of a packet of the largest size
    buffer_credits="i8",  # size of each lane's buffer, in credits
    lanes="i8",  # number of lanes per link
    speedup="i8",  # packets that can leave an input port at the same time
    words="i8",  # 64-bit words that hold one bit for each port of a row
    high_limit="i8",  # limit of the high table in lane arbitration, in units of 4096 bytes
    max_time_ps="i8",  # simulated time at which the run gives up
    seed="i8",
    queues="i8",  # queues of each pair of ranks
    connections="i8",  # number of connections, of which each queue has as many
    pairs="i8",  # number of queue pairs, likewise
    choose="i8",  # addresses of the policy's kernels, 0 for none, and of its state
    arrives="i8",
    sent="i8",
    kept="i8",
    single="i8",  # 1: `choose` is also called if there is only one candidate
    route_kind="i8",  # TABLES, RUNS or CANDIDATES of `weft.kernels.packet.route`
    lane_kind="i8",  # KEEP, BY_PORTS or BY_CANDIDATE of `weft.kernels.packet.choice`
    is_voq="i8",  # 1: input ports have a queue for each outgoing link
    is_weighted="i8",  # 1: lane arbitration uses tables of weights
    reorders="i8",  # 1: packets of a connection may overtake each other
    has_control="i8",  # 1: congestion control is on
    parts="i8",  # number of parts of the fabric, each simulated by a thread
    lookahead_ps="i8",  # shortest time in which a part can change what happens in another
    box_size="i8",  # letters that fit into a part's box, 1 if there is one part
    is_watched="i8",  # 1: the loop returns before messages join, and lists packets on cables
)

#: State and counters of a part.
COUNT = record_type(
    now_ps="i8",  # simulated time
    granting="i8",  # 1 once links have begun to grant in this instant
    due="i8",  # number of links in `Net.due`
    picked="i8",  # result of lane arbitration: lane * 2, plus 1 if from the high table
    soon_ps="i8",  # if arbitration picks no packet: earliest time at which it may pick one
    ready_ps="i8",  # and earliest time at which credits and arbitration alone prevent it
    injected="i8",  # packets injected
    injected_bytes="i8",  # size of these packets on the wire
    delivered="i8",  # packets delivered
    delivered_bytes="i8",  # size of these packets on the wire
    in_flight="i8",  # packets injected and not yet delivered
    hops="i8",  # packets granted
    events="i8",  # events handled, without wake-ups
    traced="i8",  # hops recorded
    fault_row="i8",  # row without an output link for a packet
    fault_op="i8",  # operation of that packet
    instants="i8",  # instants since the loop was called
    part="i8",  # number of this part
    horizon_ps="i8",  # time before which events are handled without looking at other parts
    box="i8",  # box of this part that is being filled, 0 or 1
    mailed="i8",  # letters in that box
    mail_ps="i8",  # earliest time at which one of them has effect
    window_hops="i8",  # `hops` at the begin of this window
    windows="i8",  # windows of time so far
    letters="i8",  # letters sent
    longest_hops="i8",  # sum over windows of the packets granted by the part that granted most
)

#: A hop of a traced message.
HOP = record_type(
    op="i8",
    sequence="i8",  # number of the packet in its connection
    link="i8",
    lane="i8",
    ready_ps="i8",  # earliest possible departure
    left_ps="i8",  # departure of the first byte
    gone_ps="i8",  # departure of the last byte
    front_ps="i8",  # earliest possible departure after the packet became the first of its queue
)
