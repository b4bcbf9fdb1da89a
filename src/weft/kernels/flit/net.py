"""State of the flit level: a named tuple of arrays of records (`weft.kernels.flit.records`)."""

from __future__ import annotations

from typing import Any, NamedTuple


class FlitRules(NamedTuple):
    """Settings of a run, numbers that kernels need not read again; delays are cycles."""

    lanes: int = 0
    lane_shift: int = 0  # of numbers of lanes
    classes: int = 0  # classes of traffic; class c has lanes c * class_lanes onwards
    class_lanes: int = 0
    buffer: int = 0  # flits of a lane's own part of the buffer
    depth: int = 0  # places of a lane's buffer, its own and shared ones
    output_buffer: int = 0  # flits of a lane's output queue; 0 for none
    routing_delay: int = 0
    vc_delay: int = 0
    switch_delay: int = 0  # switch allocation and traversal
    credit_delay: int = 0
    least: int = 0  # cycles from the arrival of a packet at a router to the grant of the switch
    order: int = 0  # steps of a router in a cycle, two bits each: LANES, SWITCH or SPECULATION
    iterations: int = 0  # of switch allocation
    allocator: int = 0
    arbiter: int = 0
    input_speedup: int = 0
    output_speedup: int = 0
    hold_switch: int = 0  # 1: an output serves one packet at a time
    turns: int = 0  # 1: outputs have a `TURN`, for hold_switch and slow links
    checks: int = 0  # 1: a ready lane may be unable to send: with `turns`, or shared buffers
    plain: int = 0  # 1: one iteration, inputs first and in turn, no speed-up and no `checks`
    atomic: int = 0  # 1: a packet may use an output lane only when its buffer is empty
    whole: int = 0  # 1: a packet needs room for all its flits (virtual cut-through)
    stored: int = 0  # 1: all flits of a packet must have arrived (store and forward)
    window: int = 0  # packets of a class that an endpoint may be sending
    circuits: int = 0  # 1: the tail of a packet is sent when its data have been acknowledged
    service: int = 0  # of a packet by the adapter, with circuits
    turnaround: int = 0  # of the adapter between sending and receiving
    acknowledge_hop: int = 0  # of an acknowledgement, for each router, without the links
    ageing: int = 0  # cycles by which a packet of high priority counts as older
    turn_packets: int = 0  # packets that a message sends before the next message has its turn
    horizon: int = 0  # slots of the mailboxes, a power of two
    ahead: int = 0  # 1: nodes request memory ahead, since caches do not hold the state
    stride: int = 0  # cycles that a node acts before the next node does
    sizes: int = 0  # number of packet sizes
    largest: int = 0  # size of a packet
    requests: int = 0  # 1: packets of class 0 are answered by packets of class 1
    reply_size: int = 0
    flit_bytes: int = 0
    payload_bytes: int = 0  # largest payload of a packet of a message
    overhead_bytes: int = 0  # bytes of a packet beyond its payload
    control_bytes: int = 0  # payload of the request and of the answer of a rendezvous
    cycle_ps: int = 0
    route: int = 0  # addresses of the routing's kernels, see `Routing`; 0 for none
    enter: int = 0
    adaptive: int = 0  # 1: the routing's choice may change
    patience: int = 0  # cycles without any movement after which packets are stuck
    seed: Any = 0
    rate: float = 0.0  # packets per cycle and source
    stay: float = 0.0  # log(1 - rate)
    warmup: int = 0  # first cycle of the measurement
    end: int = 0  # first cycle after the measurement
    batch: int = 0  # cycles of a batch of the measurement
    members: int = 1  # threads, each of which lets its own endpoints and routers act
    member: int = 0  # this thread
    places: int = 0  # of nodes: each thread's endpoints, and its routers, begin a word of bits
    first_end: int = 0  # its fields of `MEMBER`
    last_end: int = 0
    first_router: int = 0
    last_router: int = 0
    end_shift: int = 0
    router_shift: int = 0


class Mail(NamedTuple):
    """Flits and credits under way, by the cycle of their arrival modulo `FlitRules.horizon`.

    At most one flit and one credit of each lane arrive over a link in a cycle. With several
    threads, there are two of each array of bits: the second one is for what comes from nodes of
    other threads.
    """

    #: int64 [horizon * inputs]: flit that arrives, and its lane: ``lane << WORD_SHIFT | flit``.
    flits: Any
    #: uint64 [horizon * places]: bits of the input ports of a node at which a flit arrives.
    flit_ports: Any
    #: uint32 [horizon * outputs]: bits of the lanes for which a credit arrives.
    credits: Any
    #: uint64 [horizon * places]: bits of the output ports of a node for which credits arrive.
    credit_ports: Any
    #: int32 [horizon]: first packet of the list of those whose data are acknowledged.
    acknowledged: Any
    #: uint64 [horizon * words]: bits of the nodes to visit.
    awake: Any


class Traffic(NamedTuple):
    """What endpoints send."""

    #: int64 [endpoints + 1] and int32: the destinations among which each endpoint draws; -1 for any
    #: other endpoint.
    target_offset: Any
    targets: Any
    #: int32 [sizes] and float64 [sizes]: sizes of packets in flits, and the bound of the random
    #: numbers that select each of them, ascending to 1.
    size: Any
    size_below: Any


class Scratch(NamedTuple):
    """Arrays of the allocation of a switch, by port of a router."""

    #: [64]: `PORT`.
    ports: Any
    #: uint64 [64]: output ports that grant each input port.
    granted: Any
    #: uint32 [64]: lanes of each input port that sent a flit in this cycle.
    sent: Any
    #: int32 [64]: grants of each input and output port in this cycle.
    in_grants: Any
    out_grants: Any
    #: uint64 [3]: input ports and output ports with a grant in this cycle, and input ports with a
    #: lane in `PORT.tried`.
    used: Any


class FlitNet(NamedTuple):
    """State that all kernels of the flit level share."""

    rules: FlitRules
    #: One `COUNT`.
    count: Any
    #: `MEMBER` of each thread, and their barrier.
    members: Any
    barrier: Any
    #: Records of these names.
    inputs: Any
    outputs: Any
    in_lanes: Any
    out_lanes: Any
    #: `TURN` of each output, or one record if none is needed.
    turns: Any
    #: Records of these names.
    routers: Any
    endpoints: Any
    #: int32 [inputs * depth << lane_shift]: flits in the buffers behind the first one, ``packet <<
    #: PACKET_SHIFT`` and bits; by place in the buffer, then by lane.
    flits: Any
    #: `QUEUE` and int64 [output lanes * output_buffer]: output queues; a word is ``cycle <<
    #: WORD_SHIFT | flit``, where the flit may leave from that cycle.
    queues: Any
    queued: Any
    #: `SENDING` of each lane of the outputs of endpoints.
    sending: Any
    #: uint64: bits of the nodes that are visited in every cycle.
    active: Any
    #: `Mail`, `Traffic` and `Scratch`.
    mail: Any
    traffic: Any
    scratch: Any
    #: `MESSAGE` of each operation, or one record if there are no messages.
    messages: Any
    #: `PACKET` and `ORIGIN` of each packet, and int32: stack of free records of packets.
    packets: Any
    origins: Any
    free_packets: Any
    #: int64 [input lanes] and int64 [outputs * 64]: serial number of the last grant of each lane,
    #: and of each input port by each output; only for the arbiter LEAST_RECENT.
    served_in: Any
    served_out: Any
    #: `BATCH` of each part of the measurement.
    batches: Any
    #: int64: measured packets by their time in cycles; the last entry has all longer times.
    histogram: Any
    #: Arrays of the routing function.
    routes: Any
    #: `weft.kernels.flit.multicast.Casts`, or None if there are no multicasts.
    casts: Any
