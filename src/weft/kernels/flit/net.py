"""State of the flit level: a named tuple of arrays of records (`weft.kernels.flit.records`)."""

from __future__ import annotations

from typing import Any, NamedTuple


class Mail(NamedTuple):
    """Flits and credits under way, by the cycle of their arrival modulo `RULES.horizon`.

    At most one flit and one credit of each lane arrive over a link in a cycle.

    Parameters
    ----------
    flits, lanes
        int32 and uint8 [horizon * inputs]: flit that arrives, and its lane.
    flit_ports
        uint64 [horizon * nodes]: bits of the input ports of a node at which a flit arrives.
    credits
        unsigned [horizon * outputs]: bits of the lanes for which a credit arrives.
    credit_ports
        uint64 [horizon * nodes]: bits of the output ports of a node for which credits arrive.
    acknowledged
        int32 [horizon]: first packet of the list of those whose data are acknowledged.
    awake
        uint64 [horizon * words]: bits of the nodes to visit.
    """

    flits: Any
    lanes: Any
    flit_ports: Any
    credits: Any
    credit_ports: Any
    acknowledged: Any
    awake: Any


class Traffic(NamedTuple):
    """What endpoints send.

    Parameters
    ----------
    target_offset, targets
        int64 [endpoints + 1] and int32: the destinations among which each endpoint draws; -1 for
        any other endpoint.
    size, size_below
        int32 [sizes] and float64 [sizes]: sizes of packets in flits, and the bound of the random
        numbers that select each of them, ascending to 1.
    """

    target_offset: Any
    targets: Any
    size: Any
    size_below: Any


class Scratch(NamedTuple):
    """Arrays of the allocation of a switch, by port of a router.

    Parameters
    ----------
    requests
        uint64 [64]: input ports that request each output port.
    offers
        int32 [64]: lane that each input port offers.
    granted
        uint64 [64]: output ports that grant each input port.
    sent
        uint32 [64]: lanes of each input port that sent a flit in this cycle.
    in_grants, out_grants
        int32 [64]: grants of each input and output port in this cycle.
    tried, asked, done
        uint32 [64]: lanes of each input port whose packets have chosen an output in this cycle's
        lane allocation; those that have not been served in the present attempt; and those without
        a further choice.
    used
        uint64 [3]: input ports and output ports with a grant in this cycle, and input ports with a
        lane in `tried`.
    """

    requests: Any
    offers: Any
    granted: Any
    sent: Any
    in_grants: Any
    out_grants: Any
    tried: Any
    asked: Any
    done: Any
    used: Any


class Net(NamedTuple):
    """State that all kernels of the flit level share.

    Parameters
    ----------
    rules, count
        One `RULES` and one `COUNT`.
    inputs, outputs, in_lanes, out_lanes
        Records of these names.
    turns
        `TURN` of each output, or one record if none is needed.
    routers, endpoints
        Records of these names.
    flits
        int32 [input lanes * depth]: flits in the buffers behind the first one, ``packet <<
        PACKET_SHIFT`` and bits.
    queues, queued
        `QUEUE` and int64 [output lanes * output_buffer]: output queues; a word is
        ``cycle << TIME_SHIFT | flit``, where the flit may leave from that cycle.
    sending
        `SENDING` of each lane of the outputs of endpoints.
    active
        uint64: bits of the nodes that are visited in every cycle.
    mail, traffic, scratch
        `Mail`, `Traffic` and `Scratch`.
    messages
        `MESSAGE` of each operation, or one record if there are no messages.
    packets, origins, free_packets
        `PACKET` and `ORIGIN` of each packet, and int32: stack of free records of packets.
    served_in, served_out
        int64 [input lanes] and int64 [outputs * 64]: serial number of the last grant of each lane,
        and of each input port by each output; only for the arbiter LEAST_RECENT.
    batches
        `BATCH` of each part of the measurement.
    histogram
        int64: measured packets by their time in cycles; the last entry has all longer times.
    routes
        Arrays of the routing function.
    casts
        `weft.kernels.flit.multicast.Casts`, or None if there are no multicasts.
    """

    rules: Any
    count: Any
    inputs: Any
    outputs: Any
    in_lanes: Any
    out_lanes: Any
    turns: Any
    routers: Any
    endpoints: Any
    flits: Any
    queues: Any
    queued: Any
    sending: Any
    active: Any
    mail: Any
    traffic: Any
    scratch: Any
    messages: Any
    packets: Any
    origins: Any
    free_packets: Any
    served_in: Any
    served_out: Any
    batches: Any
    histogram: Any
    routes: Any
    casts: Any
