"""Fabric and router settings as the state of the flit level's kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import whole_numbers
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.flit import multicast, records
from weft.kernels.flit.multicast import Casts
from weft.kernels.flit.net import FlitNet, FlitRules, Mail, Scratch, Traffic
from weft.kernels.records import record
from weft.kernels.teams import new_barrier
from weft.sim.common.statistics import BATCHES
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.router import MOST_CYCLES, MOST_PORTS, Allocator, Arbiter, Router
from weft.sim.flit.team import OF_RULES, members
from weft.sim.flit.traffic import Load

#: Cycles without any movement after which packets are stuck, beyond the longest delays.
PATIENCE = 1000
#: Most cycles that a node acts before the next one does.
MOST_STRIDE = 16
#: Bytes of input lanes from which nodes request memory ahead; less is in caches anyway.
MOST_CACHED = 1 << 20
#: Longest time of a packet that the histogram tells apart, cycles.
HISTOGRAM = 1 << 16

#: Settings of `FlitMessages` that kernels read.
OF_MESSAGES = (
    "flit_bytes", "payload_bytes", "overhead_bytes", "control_bytes", "cycle_ps", "turn_packets",
)  # fmt: skip

ALLOCATORS: dict[Allocator, int] = {
    "input-first": records.INPUT_FIRST,
    "output-first": records.OUTPUT_FIRST,
    "islip": records.ISLIP,
}
ARBITERS: dict[Arbiter, int] = {
    "round-robin": records.ROUND_ROBIN,
    "least-recent": records.LEAST_RECENT,
    "age": records.AGE,
}


@dataclass(frozen=True, eq=False)
class Links:
    """Links of a fabric, numbered node by node as inputs and as outputs."""

    fabric: Fabric
    #: int32: link of each input and of each output. Input and output e belong to endpoint e; those
    #: of routers follow, in the order of rows and of links.
    in_link: NDArray[np.int32]
    out_link: NDArray[np.int32]
    #: int32 [links]: input and output of each link; -1 if it has none.
    input_of: NDArray[np.int32]
    output_of: NDArray[np.int32]
    #: int [outputs]: cycles that a link takes for a flit.
    interval: NDArray[np.int32]
    #: Records of these names, without settings of routers.
    inputs: NDArray[Any]
    outputs: NDArray[Any]
    routers: NDArray[Any]

    @classmethod
    def of(
        cls, fabric: Fabric, latency: NDArray[Any] | int = 1, interval: NDArray[Any] | int = 1
    ) -> Links:
        """Return the links of a fabric.

        `latency`, `interval`: cycles that a flit is on a link, and that a link takes for a flit, at
        least 1: one number, or int [links].

        Raises `NotApplicable` if a router has more than 64 ports, hosts forward, or a host has no
        cable.
        """
        graph, ends = fabric.graph, fabric.num_host_endpoints
        if graph.num_rows != fabric.num_switches:
            raise NotApplicable("the flit level takes fabrics whose hosts do not forward")
        if fabric.is_scale_up.any():
            raise NotApplicable(
                "the flit level takes fabrics whose hosts have one network; those of "
                f"{fabric.name} have a scale-up network, too"
            )
        down = graph.destination_link[:ends]
        if (down < 0).any():
            raise NotApplicable("the flit level takes fabrics whose hosts all have a cable")
        count = 2 * fabric.num_cables
        head, tail = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        head[graph.edge_link], tail[graph.edge_link] = graph.edge_row, graph.edge_tail
        tail[down] = head[down ^ 1] = graph.destination_row[:ends]
        in_link, into = _by_node(head, down, graph.num_rows)
        out_link, out_of = _by_node(tail, down ^ 1, graph.num_rows)
        input_of, output_of = (np.full(count, -1, dtype=np.int32) for _ in range(2))
        input_of[in_link] = np.arange(len(in_link), dtype=np.int32)
        output_of[out_link] = np.arange(len(out_link), dtype=np.int32)
        inputs = np.zeros(len(in_link), dtype=records.INPUT)
        outputs = np.zeros(len(out_link), dtype=records.OUTPUT)
        in_port, out_port = _ports(into, ends), _ports(out_of, ends)
        inputs["tail"] = output_of[in_link]
        inputs["tail_node"], inputs["tail_port"] = out_of[inputs["tail"]], out_port[inputs["tail"]]
        outputs["head"] = input_of[out_link]
        outputs["head_node"] = into[outputs["head"]]
        outputs["head_port"] = in_port[outputs["head"]]
        cycles = _cycles(latency, "latencies", MOST_CYCLES, count)
        inputs["latency"], outputs["latency"] = cycles[in_link], cycles[out_link]
        intervals = _cycles(interval, "intervals", MOST_CYCLES, count)[out_link]
        routers = np.zeros(graph.num_rows, dtype=records.ROUTER)
        nodes = np.arange(ends, ends + graph.num_rows)
        routers["first_in"] = np.searchsorted(into, nodes)
        routers["first_out"] = np.searchsorted(out_of, nodes)
        return cls(
            fabric, in_link, out_link, input_of, output_of, intervals, inputs, outputs, routers
        )

    @property
    def ends(self) -> int:
        """Number of endpoints: those of hosts, since auxiliary adapters send nothing."""
        return self.fabric.num_host_endpoints

    @property
    def shortest(self) -> int:
        """Shortest latency of a link at a router, cycles."""
        both = self.outputs["latency"][self.ends :], self.inputs["latency"][self.ends :]
        return int(min(latency.min(initial=MOST_CYCLES) for latency in both))

    @property
    def longest(self) -> int:
        """Longest latency of a link, cycles."""
        return int(self.outputs["latency"].max(initial=1))

    def output_of_port(self) -> NDArray[np.int32]:
        """Return the output of each port of a row, indexed like `SwitchGraph.row_link`; or -1."""
        links = self.fabric.graph.row_link
        return np.where(links >= 0, self.output_of[np.maximum(links, 0)], -1).astype(np.int32)


def _by_node(
    row: NDArray[np.int32], of_ends: NDArray[np.int32], rows: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the links at one kind of end: of endpoints, then of rows; and the node of each."""
    used = np.flatnonzero(row >= 0)
    used = used[np.argsort(row[used], kind="stable")]
    if np.bincount(row[used], minlength=rows).max(initial=0) > MOST_PORTS:
        raise NotApplicable(f"the flit level takes routers with at most {MOST_PORTS} ports")
    ends = len(of_ends)
    links = np.concatenate([of_ends, used]).astype(np.int32)
    nodes = np.concatenate([np.arange(ends), row[used] + ends]).astype(np.int32)
    return links, nodes


def _ports(node: NDArray[np.int32], ends: int) -> NDArray[np.int64]:
    """Return the number of each link among those of its node."""
    first = np.searchsorted(node, node[ends:])
    return np.concatenate([np.zeros(ends, dtype=np.int64), np.arange(ends, len(node)) - first])


def _cycles(given: NDArray[Any] | int, name: str, most: int, count: int) -> NDArray[Any]:
    """Return numbers of cycles of all links."""
    if np.ndim(given) == 0:
        given = np.full(count, given)
    return np.asarray(whole_numbers(given, name, low=1, high=most, shape=(count,), of="links"))


def lanes_of_class(router: Router, load: Load | None) -> int:
    """Return the virtual channels of each class of traffic."""
    if load is None or not load.reply:
        return router.lanes
    if router.lanes % 2:
        raise InputError(
            "requests and replies have half of the virtual channels each, so lanes must be even, "
            f"not {router.lanes}"
        )
    return router.lanes // 2


@dataclass(frozen=True, eq=False)
class FlitMessages:
    """Messages that endpoints send, and their packets."""

    #: int32 [operations]: endpoints of each operation that sends.
    source: NDArray[np.int32]
    destination: NDArray[np.int32]
    #: Size of the largest message, and least payload of a packet.
    largest_bytes: int
    smallest_bytes: int
    #: Bytes of a flit.
    flit_bytes: int
    #: Largest payload of a packet, and bytes of a packet beyond its payload.
    payload_bytes: int
    overhead_bytes: int
    #: Payload of the request and of the answer of a rendezvous.
    control_bytes: int
    #: Duration of a cycle.
    cycle_ps: int
    #: Packets that a message sends before the next message of its endpoint has its turn.
    turn_packets: int = 1
    #: uint8 [operations]: 1 for messages of high priority; None for equal priorities.
    priority: NDArray[np.uint8] | None = None

    @property
    def largest(self) -> int:
        """Largest packet, flits."""
        return self._flits(min(max(self.largest_bytes, self.control_bytes), self.payload_bytes))

    @property
    def smallest(self) -> int:
        """Smallest packet, flits."""
        return self._flits(self.smallest_bytes)

    def _flits(self, payload: int) -> int:
        return max(-(-(payload + self.overhead_bytes) // self.flit_bytes), 1)

    def records(self) -> NDArray[Any]:
        """Return the `records.MESSAGE` of each operation."""
        table = np.zeros(max(len(self.source), 1), dtype=records.MESSAGE)
        table["source"][: len(self.source)] = self.source
        table["destination"][: len(self.source)] = self.destination
        table["next"] = -1
        if self.priority is not None:
            table["priority"][: len(self.source)] = self.priority
        return table


def state(
    links: Links,
    routes: Any,
    router: Router,
    traffic: Load | FlitMessages,
    *,
    circuits: Adapter | None = None,
    window: int = 1,
    ageing: int = 0,
    lockstep: bool = False,
    seed: int = 0,
    threads: int = 1,
    casts: Casts | None = None,
) -> FlitNet:
    """Return the state at cycle 0.

    - `circuits`: adapter of packets that hold circuits; None if they do not.
    - `window`: packets of a class of traffic that an endpoint may be sending at a time.
    - `ageing`: cycles by which a packet of high priority counts as older, for arbiter ``age``.
    - `lockstep`: whether all nodes must act in a cycle before any acts in the next one, because the
      routing reads the state of other nodes.
    - `threads`: threads of the run; 1 for circuits, or with `lockstep`.
    - `seed`: seed of the routing function's draws for messages; a `Load` has its own.
    - `casts`: multicasts among the messages; None if there are none.
    """
    ends = links.ends
    load = traffic if isinstance(traffic, Load) else None
    messages = traffic if isinstance(traffic, FlitMessages) else None
    class_lanes = lanes_of_class(router, load)
    classes = router.lanes // class_lanes
    largest = traffic.largest
    router = router.sized(largest, links.longest)
    assert router.buffer is not None
    if circuits is not None and (traffic.smallest < 2 or (load is not None and load.reply == 1)):
        raise InputError(
            "packets that hold circuits have at least 2 flits, one of them the tail, not 1"
        )
    first = np.append(links.routers["first_in"], len(links.in_link))
    of_threads, thread, place = members(ends, np.diff(first), threads)
    shift = (router.lanes - 1).bit_length()
    depth = router.buffer + router.shared_buffer
    inputs, outputs = links.inputs.copy(), links.outputs.copy()
    for here, node, other, back in (
        (inputs, "tail_node", links.outputs["head_node"], inputs["tail"]),
        (outputs, "head_node", links.inputs["tail_node"], outputs["head"]),
    ):
        here["foreign"] = thread[here[node]] != thread[other[back]]
        here[node] = place[here[node]]
    inputs["last_lane"] = outputs["last_lane"] = router.lanes - 1
    inputs["last_given"] = outputs["given_lane"] = router.lanes - 1
    outputs["free"] = (1 << router.lanes) - 1
    outputs["shared"] = router.shared_buffer
    outputs["last_port"] = outputs["last_given"] = MOST_PORTS - 1
    in_lanes = np.zeros(len(inputs) << shift, dtype=records.IN_LANE)
    out_lanes = np.zeros(len(outputs) << shift, dtype=records.OUT_LANE)
    out_lanes["owner"] = -1
    out_lanes["credits"] = router.buffer
    endpoints = np.zeros(ends, dtype=records.ENDPOINT)
    for name in ("first_message", "last_message", "first_reply", "last_reply"):
        endpoints[name] = -1
    endpoints["last_lane"], endpoints["direction"] = router.lanes - 1, records.NONE
    offset, targets = (np.zeros(ends + 1, np.int64), np.zeros(0, np.int32))
    sizes = Load() if load is None else load
    if load is not None:
        offset, targets = load.targets(ends)
        endpoints["birth"] = load.births(ends, np.diff(offset) > 0)
    slowest = int(links.interval.max(initial=1))
    has_turns = router.hold_switch or slowest > 1
    turns = np.zeros(len(outputs) if has_turns else 1, dtype=records.TURN)
    turns["holder"] = -1
    if has_turns:
        turns["interval"] = links.interval
    order = (
        (records.SWITCH | records.LANES << 2)
        if router.vc_delay
        else (records.LANES | records.SWITCH << 2)
    )
    if router.speculative:
        order |= records.SPECULATION << 4
    lag = max(router.switch_delay, router.credit_delay) + links.longest
    stride = 1
    if load is not None and circuits is None and not lockstep:
        crossing = 0 if router.output_buffer else router.switch_delay
        stride = min(links.shortest + min(crossing, router.credit_delay), MOST_STRIDE)
    horizon = 1 << max(lag + stride, slowest).bit_length()
    held = circuits or Adapter()
    longest = lag + router.vc_delay + router.routing_delay + slowest
    if circuits:
        hops = len(place) * (links.longest + held.acknowledge_hop)
        longest += hops + len(endpoints) * (held.service + held.turnaround)
    room = 2 * ends * (classes * window + 1) + len(in_lanes) // 4
    recent = router.arbiter == "least-recent"
    places = int(place.max()) + 1
    words, planes = -(-places // 64), horizon * (1 if threads == 1 else 2)
    warmup, measure, rate = sizes.warmup, sizes.measure, float(sizes.rate / sizes.mean_size)
    settings: dict[str, Any] = dict(
        lanes=router.lanes, lane_shift=shift, classes=classes,
        class_lanes=class_lanes, buffer=router.buffer, depth=depth,
        output_buffer=router.output_buffer, routing_delay=router.routing_delay,
        vc_delay=router.vc_delay, switch_delay=router.switch_delay,
        credit_delay=router.credit_delay,
        least=router.routing_delay + (0 if router.speculative else router.vc_delay),
        order=order, iterations=router.iterations, allocator=ALLOCATORS[router.allocator],
        arbiter=ARBITERS[router.arbiter], input_speedup=router.input_speedup,
        output_speedup=router.output_speedup, hold_switch=router.hold_switch,
        turns=has_turns, checks=has_turns or router.shared_buffer > 0,
        plain=not (has_turns or router.shared_buffer)
        and (router.iterations, router.input_speedup, router.output_speedup) == (1, 1, 1)
        and (router.allocator, router.arbiter) == ("input-first", "round-robin"),
        atomic=router.atomic, whole=router.switching != "wormhole",
        stored=router.switching == "store-and-forward", window=window,
        circuits=circuits is not None, service=held.service, turnaround=held.turnaround,
        acknowledge_hop=held.acknowledge_hop, ageing=ageing, horizon=horizon, stride=stride,
        ahead=in_lanes.nbytes > MOST_CACHED, sizes=len(sizes.size), largest=largest,
        requests=classes == 2, reply_size=sizes.reply,
        **{} if messages is None else {name: getattr(messages, name) for name in OF_MESSAGES},
        patience=PATIENCE + longest,
        warmup=warmup if load else 0,
        end=warmup + measure if load else 2**60,
        batch=-(-measure // BATCHES[0]) if load else 2**60,
    )  # fmt: skip
    return FlitNet(
        rules=FlitRules(
            seed=np.uint64(seed if load is None else load.seed), rate=rate,
            stay=math.log1p(-rate) if rate < 1 else 0.0,
            members=threads, places=places,
            **{name: int(of_threads[0][name]) for name in OF_RULES},
            **{name: int(value) for name, value in settings.items()},
        ),
        count=record(records.COUNT, packets=room),
        members=of_threads,
        barrier=new_barrier(),
        inputs=inputs,
        outputs=outputs,
        in_lanes=in_lanes,
        out_lanes=out_lanes,
        turns=turns,
        routers=links.routers.copy(),
        endpoints=endpoints,
        flits=np.zeros(len(in_lanes) * depth, dtype=np.int32),
        queues=np.zeros(len(out_lanes) if router.output_buffer else 1, dtype=records.QUEUE),
        queued=np.zeros(len(out_lanes) * router.output_buffer, dtype=np.int64),
        sending=np.zeros(ends << shift, dtype=records.SENDING),
        active=np.zeros(words, dtype=np.uint64),
        mail=Mail(
            flits=np.zeros(horizon * len(inputs), dtype=np.int64),
            flit_ports=np.zeros(planes * places, dtype=np.uint64),
            credits=np.zeros(horizon * len(outputs), dtype=np.uint32),
            credit_ports=np.zeros(planes * places, dtype=np.uint64),
            acknowledged=np.full(horizon, -1, dtype=np.int32),
            awake=_awake(planes, words, place[:ends]),
        ),
        traffic=Traffic(target_offset=offset, targets=targets, **sizes.arrays()),
        scratch=Scratch(
            **{
                name: np.zeros(MOST_PORTS, dtype=dtype)
                for name, dtype in {
                    "ports": records.PORT, "granted": np.uint64, "sent": np.uint32,
                    "in_grants": np.int32, "out_grants": np.int32,
                }.items()
            },
            used=np.zeros(3, dtype=np.uint64),
        ),
        messages=(
            np.zeros(1, dtype=records.MESSAGE) if messages is None else messages.records()
        ),
        packets=np.zeros(room, dtype=records.PACKET),
        origins=np.zeros(room, dtype=records.ORIGIN),
        free_packets=np.arange(room, dtype=np.int32),
        served_in=np.arange(-len(in_lanes) if recent else 0, 0),
        served_out=np.arange(-64 * len(outputs) if recent else 0, 0),
        batches=np.zeros(BATCHES[0], dtype=records.BATCH),
        histogram=np.zeros(HISTOGRAM + 1, dtype=np.int64),
        routes=routes,
        casts=with_room(casts, room, len(in_lanes)),
    )  # fmt: skip


def _awake(planes: int, words: int, ends: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return the bits of nodes to visit: all endpoints in cycle 0."""
    bits = np.zeros(planes * words * 64, dtype=np.uint8)
    bits[ends] = 1
    return np.packbits(bits, bitorder="little").view(np.uint64)


def waits_of(net: FlitNet) -> NDArray[np.int64]:
    """Return the total wait of packets at each input, those still there included, cycles.

    A packet that has been at an input for less than the least time of a router counts as negative.
    """
    total: NDArray[np.int64] = net.inputs["wait"] + net.inputs["heads"] * int(net.count.now)
    return total


def with_room(casts: Casts | None, packets: int, in_lanes: int) -> Casts | None:
    """Return the state of multicasts with room for numbers of packets and of input lanes."""
    if casts is None:
        return None
    more = np.zeros(packets - len(casts.packets), dtype=multicast.CAST)
    casts = casts._replace(packets=np.concatenate([casts.packets, more]))
    if len(casts.forks) == in_lanes:
        return casts
    return casts._replace(
        forks=np.zeros(in_lanes, dtype=multicast.FORK),
        lanes=np.zeros(in_lanes * MOST_PORTS, dtype=np.uint8),
    )


def with_packets(net: FlitNet) -> FlitNet:
    """Return the state with room for twice as many packets under way."""
    old = len(net.packets)
    free = np.zeros(2 * old, dtype=np.int32)
    count = int(net.count.packets)
    free[:count] = net.free_packets[:count]
    free[count : count + old] = np.arange(old, 2 * old)
    net.count.packets = count + old
    return net._replace(
        packets=np.concatenate([net.packets, np.zeros(old, dtype=records.PACKET)]),
        origins=np.concatenate([net.origins, np.zeros(old, dtype=records.ORIGIN)]),
        free_packets=free,
        casts=with_room(net.casts, 2 * old, len(net.in_lanes)),
    )
