"""Records of the flit level: meaning of each field. Times are cycles; -1 means none.

A *node* is an endpoint or a router, endpoints first. The links into a node are its *inputs*, the
links out of it its *outputs*; both are numbered node by node, so that what a router reads in a
cycle lies together. Endpoint e has input e and output e. A *lane* is a virtual channel: lane k of
input i has number ``i << LANE_SHIFT | k`` among the input lanes, and likewise for outputs.
"""

from weft.kernels.records import record_type

# States of the packet at the front of a buffer.
IDLE = 0
ROUTING = 1
WAITING = 2  # for an output lane
GRANTED = 3  # an output lane, which it may use some cycles later
ACTIVE = 4
FORKED = 5  # copied to several outputs (`weft.kernels.flit.multicast`)

# Bits of a flit; the rest is the number of its packet.
TAIL = 1
HEAD = 2
LAST = 4  # the last flit of the packet's data; the tail, unless circuits are held
PACKET_SHIFT = 3

#: Bits of a flit in a word: lane << WORD_SHIFT | flit in a mailbox, or cycle << WORD_SHIFT | flit
#: in an output queue.
WORD_SHIFT = 32
FLIT = (1 << WORD_SHIFT) - 1

# Directions of a packet that an adapter handles.
SENT = 0
RECEIVED = 1
NONE = 2

# Allocators of the switch.
INPUT_FIRST = 0
OUTPUT_FIRST = 1
ISLIP = 2

# Steps of a router in a cycle.
LANES = 1
SWITCH = 2
SPECULATION = 3

# Arbiters.
ROUND_ROBIN = 0
LEAST_RECENT = 1
AGE = 2

IN_LANE = record_type(
    out="i4",  # output lane of the packet at the front; until it has one, lane 0 of its output
    allowed="u4",  # bits: lanes of the output that the packet may use
    front="i4",  # first flit of the buffer
    first="u2",  # place of the second flit in `FlitNet.flits`
    count="u2",  # flits in the buffer
    due="u2",  # low bits of the cycle in which ROUTING or GRANTED ends
    state="u1",  # of the packet at the front
    out_port="u1",  # number of the output among those of the router
)

INPUT = record_type(
    wait="i8",  # sum of grants of heads of packets minus the sum of their arrivals, cycles
    heads="i4",  # heads of packets in the buffers
    ready="u4",  # bits: lanes whose first flit may be sent now
    waiting="u4",  # bits: lanes whose packet waits for an output lane
    deciding="u4",  # bits: lanes in state ROUTING or GRANTED
    tail="i4",  # output at the other end of the link
    tail_node="i4",  # place of its node
    latency="u2",  # cycles
    tail_port="u1",  # number of that output among those of its node
    last_lane="u1",  # lane that was served last
    last_given="u1",  # lane of which the packet got an output lane last
    foreign="u1",  # whether the node of that output is one of another thread
)

OUT_LANE = record_type(
    owner="i4",  # input lane whose packet has the lane; for an endpoint, the packet
    credits="i4",  # free places in the lane's own part of the buffer at the other end
)

OUTPUT = record_type(
    flits="u4",  # flits sent
    free="u4",  # bits: lanes without an owner
    queued="u4",  # bits: lanes with a flit in the output queue
    head="i4",  # input at the other end of the link
    head_node="i4",  # place of its node
    latency="u2",  # cycles
    shared="i2",  # free places in the shared part of the buffer at the other end
    head_port="u1",  # number of that input among those of its node
    last_port="u1",  # input port that was served last
    last_given="u1",  # input port of which a packet got a lane last
    given_lane="u1",  # lane that was given to a packet last
    last_lane="u1",  # lane of the output queue that was served last
    foreign="u1",  # whether the node of that input is one of another thread
)

#: Output of a slow link, or of a router whose outputs serve one packet at a time.
TURN = record_type(
    busy="i8",  # first cycle in which the link takes another flit
    holder="i4",  # input lane that holds the output until its packet has passed
    interval="i4",  # cycles that the link takes for a flit
)

ROUTER = record_type(
    ready="u8",  # bits: input ports with a lane in `INPUT.ready`
    waiting="u8",  # bits: input ports with a lane in `INPUT.waiting`
    deciding="u8",  # bits: input ports with a lane in `INPUT.deciding`
    queued="u8",  # bits: output ports with a lane in `OUTPUT.queued`
    first_in="i4",  # its first input
    first_out="i4",  # its first output
)

#: Input and output port of a router, during the allocation of lanes and of its switch.
PORT = record_type(
    requests="u8",  # bits: input ports that request the output port; 0 between allocations
    asking="i4",  # lanes that chose the output port; 0 between allocations
    offers="i4",  # lane that the input port offers, or the last one that chose the output port
    tried="u4",  # bits: lanes of the input port whose packets have chosen an output in this cycle
    asked="u4",  # bits: those that have not been served in the present attempt
    done="u4",  # bits: those without a further choice
)

#: Output queue of a lane.
QUEUE = record_type(first="u2", count="u2")

#: What routers read of a packet.
PACKET = record_type(
    key="u8",  # random number of the packet, for the draws of routing functions
    state="i8",  # of the routing function
    destination="i4",
    size="i4",  # flits
    via="i4",  # router to which it goes first; -1 for none
    hops="u2",
    kind="u1",  # class of traffic, 0 or 1
    priority="u1",
)

#: What endpoints know of a packet.
ORIGIN = record_type(
    born="i8",  # cycle in which the packet was generated
    entered="i8",  # cycle in which its first flit left the source
    due="i8",  # cycle in which its acknowledgement comes
    source="i4",
    way="i4",  # cycles that its acknowledgement takes back to the source
    message="i4",  # operation whose message it is part of
    next="i4",  # next packet in a list
)

ENDPOINT = record_type(
    birth="i8",  # cycle in which the next packet is generated
    busy="i8",  # cycle until which the adapter handles packets
    drawn="i8",  # random numbers drawn
    stream="u8",  # its seed; 0 until the first draw
    packets="i8",  # packets generated
    ejected="i8",  # flits that arrived in the measurement
    open="u4",  # bits: lanes with a packet that is being sent
    first_message="i4",  # list of messages to send
    last_message="i4",
    turn="i4",  # packets that the first message has sent in its turn
    first_reply="i4",  # list of replies to send, as packets
    last_reply="i4",
    last_lane="u1",  # lane that sent a flit last
    direction="u1",  # of the packet that the adapter handled last: SENT, RECEIVED or NONE
)

#: Packet that an endpoint sends on a lane.
SENDING = record_type(
    packet="i4",
    left="i4",  # flits that are still at the source
    held="u1",  # whether the tail must wait for the acknowledgement
)

#: Message that an endpoint sends (`weft.kernels.program`).
MESSAGE = record_type(
    left="i8",  # bytes that are not in packets yet
    missing="i4",  # packets that have not arrived
    sending="i4",  # packets that have not left
    next="i4",  # next message of the endpoint
    source="i4",
    destination="i4",
    priority="u1",
)

#: Counters.
COUNT = record_type(
    now="i8",
    packets="i4",  # free records of packets
    moved="i8",  # last cycle in which a flit was sent or arrived
    hops="i8",  # flits sent over links, injection and ejection included
    born="i8",  # packets born in the measurement that have an injection lane
    packet_hops="i8",
    serial="i8",  # serial number of the last grant, for the arbiter LEAST_RECENT
    acknowledging="i8",  # packets whose acknowledgement is on its way
    under_way="i8",  # packets with an injection lane, or in the network, and replies
)

#: Thread: its nodes, and what it tells the others after each round.
MEMBER = record_type(
    first_end="i4",  # places of its endpoints, and of its routers
    last_end="i4",
    first_router="i4",
    last_router="i4",
    end_shift="i4",  # place of its endpoints and routers beyond their numbers
    router_shift="i4",
    packets="i8",  # free records of packets that are not needed for sure in the next round
    under_way="i8",  # as in `COUNT`
    moved="i8",
    visited="i8",  # whether a node of it had something to do
    soonest="i8",  # time of the next event of its programs, ps; see `weft.kernels.flit.engine`
)

#: Part of the measurement, for confidence intervals.
BATCH = record_type(
    ejected="i8",  # flits that arrived
    measured="i8",  # packets born in this part that have arrived
    latency="i8",  # sum of their times from birth to the arrival of the tail
    network="i8",  # sum of their times from the source
)
