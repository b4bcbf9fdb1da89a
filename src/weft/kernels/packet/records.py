"""Records of the packet level: what each field says, and its unit.

What is read and written together is one record of a cache line or less: an event touches a packet,
a lane and a link somewhere in memory, and each costs one miss instead of one for each number.
Links and rows are numbers, and -1 stands for none.
"""

from weft.kernels.records import record_type

#: A time that does not come.
NEVER = 2**62
#: `PACKET.lane` of a slot that wakes a link up; `congestion_control` has lower ones.
WAKES = -1


# -- topology --------------------------------------------------------------------------------------

LINK = record_type(
    free_at_ps="i8",  # when it can send again
    wake_at_ps="i8",  # when it wakes up
    memory_free_ps="i8",  # until when the memory of the adapter at its head is busy
    cable_free_ps="i8",  # as free_at_ps, but for the wait for an adapter's slower memory
    head_row="i4",  # at the far end; -1 for an adapter
    tail_row="i4",  # at the near end
    kind="i4",  # of links that share latency and rate
    first_queue="i4",  # at the far end
    asking="i4",  # a bit for each incoming lane with packets for it, or lane of its adapter
    queues="u2",  # of each lane at the far end
    head_port="u2",
    tail_port="u2",
    is_due="u1",  # whether it is among those that may have something to grant
)

KIND = record_type(
    latency_ps="i8",  # of the cable
    credit_latency_ps="i8",  # of a credit on its way back
    arrival_ps="i8",  # from the first byte's leaving to the packet's being routed at the far end
    whole_ps="i8",  # duration of a packet of the largest size
    rate_gbps="f8",
    memory_gbps="f8",  # of the adapter at one end, 0 where it is no slower
)

ROW = record_type(
    first_port="i4",  # place of its port 0 among all
    ports="i4",  # how many it has, port 0 included
)

PORT = record_type(in_link="i4", out_link="i4")

# -- what is on its way ----------------------------------------------------------------------------

#: A packet, or whatever else is to come at a time.
PACKET = record_type(
    time_ps="i8",  # when it comes, may leave, or arrived
    next="i4",  # in the list that it is in
    link="i4",  # that it came by, or that wakes up
    out_link="i4",  # where it goes on
    op="i4",  # its message
    address="i4",  # what nodes look up: a LID, an endpoint, or a place in the source routes
    sequence="i4",  # number in its connection
    serial="i4",  # number of all packets
    wire_bytes="i4",
    via="i4",  # where it makes for first: an intermediate or -1; free for policies from here on
    policy_a="i4",
    policy_b="i4",
    policy_c="i4",
    lane="i1",  # on `link`
    out_lane="i1",
    level="u1",  # service level
    marks="u1",  # of congestion control
)

#: State of the calendar.
CALENDAR = record_type(
    shift="i8",  # width of a bucket, 2**shift ps
    bucket="i8",  # that time is in
    active="i8",  # what the heap of that bucket holds
    far="i8",  # what the heap of all beyond the wheel holds
    waiting="i8",  # what there is in all
    free="i8",  # slots that are free
)

#: Credits on their way back.
RETURN = record_type(
    time_ps="i8",  # when the sender has them
    credits="i4",
    next="i4",  # of the lane
)

#: State of the pool of `RETURN`.
POOL = record_type(free="i8")

# -- lanes of links --------------------------------------------------------------------------------

LANE = record_type(
    packets="i8",  # that have left on it
    wire_bytes="i8",  # of these
    wait_ps="i8",  # that they waited after they could have left
    busy_ps="i8",  # that they took to leave
    credits="i4",  # that the sender has
    first_return="i4",  # list of credits on their way back
    last_return="i4",
    turn="i4",  # what was taken last: input port * lanes + lane
    routed_credits="i4",  # of the packets that are routed to it and not granted
    first_pair="i4",  # line of an adapter's queue pairs
    last_pair="i4",
    is_short="u1",  # whether somebody waits for credits that nobody has sent back yet
)

QUEUE = record_type(first="i4", last="i4")

#: Lane arbitration of a link.
ARBITER = record_type(
    last_lane="i4",
    high_entry="i4",  # whose turn it is
    high_left="i4",  # of its weight, in units of 64 bytes
    low_entry="i4",
    low_left="i4",
    limit_left="i4",  # bytes that high priority may send while low waits
)

#: Entry of a table of lane arbitration.
WEIGHT = record_type(lane="i8", weight="i8")

#: The best packet found for a lane.
BEST = record_type(turn="i8", slot="i8")

# -- adapters --------------------------------------------------------------------------------------

#: What is sent for an operation: its message, request or answer.
MESSAGE = record_type(
    left_bytes="i8",  # to send
    latest_ps="i8",  # latest arrival so far
    ready_ps="i8",  # when the next packet could leave with nothing in its way
    missing_packets="i4",  # that have not arrived
    next_sent="i4",  # of its queue pair
    next_whole="i4",  # of its connection
    route="i4",
    connection="i4",
    pair="i4",
)

ROUTE = record_type(
    link="i4",  # the first
    address="i4",  # see `PACKET`
    back="i4",  # route from its destination to its source, with congestion control
    lane="u1",  # on the first link
    level="u1",  # service level
)

#: Queue pair.
PAIR = record_type(
    first="i4",  # message being sent
    last="i4",
    next="i4",  # in line for the lane
    turn_bytes="i4",  # that it has sent in its turn
)

CONNECTION = record_type(
    oldest="i4",  # message that has not arrived
    newest="i4",
    sent_packets="i4",
    whole_packets="i4",  # that have arrived without a gap
)

#: Packets of a connection that came before one sent earlier, and are kept.
REORDER = record_type(
    whole_at_ps="i8",  # when the packets that have arrived without a gap were all there
    kept_ps="i8",  # how long packets were kept, added up
    longest_kept_ps="i8",
    held_bytes="i8",
    most_held_bytes="i8",
    overtook_packets="i8",  # that were kept at all
    first_held="i4",
)

# -- where packets go ------------------------------------------------------------------------------

#: One of the ways that a set of candidates leaves.
CANDIDATE = record_type(edge="i4", link="i4", lane="u1")

ENDPOINT = record_type(
    row="i4",  # that it hangs from
    last_link="i4",  # from there to it
)

#: SL to VL by ports: the table for ports i and o is at base + i * ports + o.
LANE_ROW = record_type(base="i8", ports="i8")

# -- numbers of a run ------------------------------------------------------------------------------

#: What was set.
RULES = record_type(
    mtu_bytes="i8",
    header_bytes="i8",
    whole_bytes="i8",  # of a packet of the largest size on the wire
    control_bytes="i8",  # payload of requests and answers
    turn_bytes="i8",  # that a queue pair sends before the next has its turn
    credit_bytes="i8",
    whole_credits="i8",  # of a packet of the largest size
    buffer_credits="i8",  # of each lane
    lanes="i8",
    speedup="i8",  # packets that leave an input port at a time
    words="i8",  # of 64 bits that hold a bit for each port
    high_limit="i8",  # of lane arbitration, units of 4096 bytes
    max_time_ps="i8",
    seed="i8",
    policy="i8",  # number among all
    route_kind="i8",  # see `route`
    lane_kind="i8",  # see `choice`
    is_voq="i8",  # one queue for each outgoing link
    is_weighted="i8",  # lane arbitration has tables
    reorders="i8",  # packets of a connection may overtake each other
    has_control="i8",  # there is congestion control
)

#: What is counted.
COUNT = record_type(
    now_ps="i8",
    granting="i8",  # whether links have begun to grant in this instant
    due="i8",  # links that may have something to grant
    picked="i8",  # of choices of links: lane * 2 + high
    soon_ps="i8",  # when there may be one, where there was none
    serials="i8",  # packets injected
    injected_bytes="i8",
    delivered="i8",
    delivered_bytes="i8",
    in_flight="i8",
    hops="i8",
    events="i8",
    traced="i8",  # hops written down
    fault_row="i8",  # where nothing led on, and for which operation
    fault_op="i8",
)

#: A hop of a traced message: when the packet could leave, left, had left, and could leave and was
#: the first of its queue.
HOP = record_type(
    op="i8",
    sequence="i8",
    link="i8",
    lane="i8",
    ready_ps="i8",
    left_ps="i8",
    gone_ps="i8",
    front_ps="i8",
)
