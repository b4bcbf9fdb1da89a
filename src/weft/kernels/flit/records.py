"""Records of the flit level: meaning of each field. Times are cycles; -1 means none.

A *lane* is a virtual channel of a directed link, with index ``link * lanes + number``. Its record
holds both ends: the output at the tail of the link, which has credits and an owner, and the buffer
at its head.
"""

from weft.kernels.records import record_type

# States of the packet at the front of a buffer.
IDLE = 0
ROUTING = 1
WAITING = 2  # for an output lane
GRANTED = 3  # an output lane, which it may use some cycles later
ACTIVE = 4

# Bits of a flit; the rest is the number of its packet.
TAIL = 1
HEAD = 2
PACKET_SHIFT = 2

#: Word of a calendar's slot: lane << 32 | flit + 1, where 0 stands for a credit.
LANE_SHIFT = 32

LANE = record_type(
    owner="i4",  # buffer whose packet has the output; for an injection lane, the source
    credits="i4",  # free places in the buffer, as the output knows them
    out="i4",  # output lane of the packet at the front
    out_link="i4",  # output link of the packet at the front
    link="i4",  # link of the lane
    next="i4",  # next lane with a decision in the same cycle
    allowed="u4",  # bits: lanes of the output link that the packet may use
    first="i2",  # place of the first flit in the buffer
    count="i2",  # flits in the buffer
    out_port="u1",  # number of the output link among those of the router
    state="u1",  # of the packet at the front
)

LINK = record_type(
    flits="i8",  # flits granted the link
    ready="u4",  # bits: lanes at the head whose first flit may be sent now
    waiting="u4",  # bits: lanes at the head whose packet waits for an output lane
    free="u4",  # bits: lanes at the tail without an owner
    head_row="i4",  # router at the head; -1 for an endpoint
    tail_row="i4",  # router at the tail; -1 for an endpoint
    latency="i4",  # cycles
    in_port="u1",  # number of the link among those into the router at its head
    out_port="u1",  # number of the link among those out of the router at its tail
    last_lane="u1",  # lane at the head that was served last
    last_port="u1",  # input port that was served last by the tail
    next_lane="u1",  # lane of the tail that is offered first to the next packet
)

ROUTER = record_type(
    ready="u8",  # bits: input ports with a lane in `LINK.ready`
    waiting="u8",  # bits: input ports with a lane in `LINK.waiting`
    first_in="i4",  # index of the first input link among those of all routers
    last_waiting="i4",  # input port of which a packet got an output lane last
)

PACKET = record_type(
    born="i8",  # cycle in which the source generated the packet
    entered="i8",  # cycle in which its first flit left the source
    source="i4",
    destination="i4",
    size="i4",  # flits
    hops="i4",
)

SOURCE = record_type(
    birth="i8",  # cycle in which the next packet is generated
    drawn="i8",  # random numbers drawn
    packet="i4",  # packet that is being injected
    lane="i4",  # its injection lane
    left="i4",  # its flits that are still at the source
    link="i4",
    next="i4",  # next source to visit in the same cycle
)

#: Settings of a run; delays are cycles.
RULES = record_type(
    lanes="i4",
    buffer="i4",  # flits of a lane's buffer
    routing_delay="i4",
    vc_delay="i4",
    switch_delay="i4",  # switch allocation and traversal
    credit_delay="i4",
    iterations="i4",  # of switch allocation
    atomic="i4",  # 1: a packet may use an output lane only when its buffer is empty
    whole="i4",  # 1: a packet needs room for all its flits (virtual cut-through)
    stored="i4",  # 1: all flits of a packet must have arrived (store and forward)
    size="i4",  # flits of a packet
    horizon="i4",  # slots of each calendar, a power of two
    slot="i4",  # events that a slot of the calendar of flits and credits can hold
    seed="u8",
    rate="f8",  # packets per cycle and source
    warmup="i8",  # first cycle of the measurement
    end="i8",  # first cycle after the measurement
)

#: Counters.
COUNT = record_type(
    now="i8",
    packets="i4",  # free records of packets
    hops="i8",  # flits granted links, ejection and injection included
    injected="i8",  # flits in the measurement
    ejected="i8",  # flits in the measurement
    measured="i8",  # packets born in the measurement and arrived
    born="i8",  # packets born in the measurement that have an injection lane
    latency="i8",  # sum of their times from birth to the arrival of the tail
    network="i8",  # sum of their times from the source
    packet_hops="i8",
    under_way="i8",  # packets with an injection lane, or in the network
)
