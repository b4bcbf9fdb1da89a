"""Reference implementation of the flit level: all routers in every cycle, flits as objects.

Written from the rules in docs/flit-level.md, without code of the kernel.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.reference.balance import mix
from weft.fabrics import Fabric
from weft.routes import TableRoutes
from weft.sim.flit.network import Load, Router


@dataclass(eq=False)
class Packet:
    source: int
    number: int  # of the packets of its source, in order of birth
    destination: int
    born: int
    entered: int = -1  # cycle in which the source sends the first flit
    routers: int = 0


class Flit(NamedTuple):
    packet: Packet
    number: int


class Sent(NamedTuple):
    source: int
    packet: int
    flit: int
    link: int
    lane: int
    cycle: int


@dataclass(eq=False)
class Lane:
    """Output at the tail of a link, and buffer at its head."""

    link: Link
    number: int
    credits: float  # endless at an endpoint, which accepts every flit
    owner: Lane | Source | None = None
    buffer: deque[Flit] = field(default_factory=deque)
    # Of the packet at the front of the buffer.
    waits_from: int = 0
    out: Lane | None = None
    may_use_from: int = 0


@dataclass(eq=False)
class Link:
    number: int
    latency: int
    ends_at_endpoint: bool
    lanes: list[Lane] = field(default_factory=list)
    given: int = -1  # the lane given last
    served: int = -1  # the lane at the head served last
    served_port: int = -1  # by the output port at the tail: the input port served last


@dataclass(eq=False)
class Switch:
    inputs: list[Link]
    to: list[Link | None]  # output by destination
    last: int = -1  # the input port that got a lane last


@dataclass(eq=False)
class Source:
    number: int
    link: Link
    birth: int
    stream: int
    packets: int = 0
    drawn: int = 0
    packet: Packet | None = None
    lane: Lane | None = None
    flits: int = 0  # flits of the packet that were sent

    def uniform(self) -> float:
        self.drawn += 1
        return ((mix(self.stream ^ self.drawn) >> 11) + 1) / 2**53


def after(items: Sequence[Any], last: int) -> list[Any]:
    """Return the items in rotating order, from the one after number `last`."""
    return [*items[last + 1 :], *items[: last + 1]]


class PlainFlits:
    """One run.

    `sent` has each flit on each link, from the cycle in which it is granted. `count` has the
    counters of the kernel, which count a packet from the cycle in which its source begins it.
    """

    def __init__(
        self,
        fabric: Fabric,
        routes: TableRoutes,
        router: Router,
        load: Load,
        latency: Sequence[int],
        births: Sequence[int],
    ):
        self.router, self.load = router, load
        self.now = 0
        self.sent: list[Sent] = []
        self.count: Counter[str] = Counter()
        #: Flits (or None: a credit) that arrive at a lane, by cycle.
        self.arrivals: dict[int, list[tuple[Lane, Flit | None]]] = defaultdict(list)
        heads, tails = fabric.link_to.tolist(), fabric.link_from.tolist()
        self.links = [
            Link(number, int(latency[number]), head >= fabric.num_switches)
            for number, head in enumerate(heads)
        ]
        for link in self.links:
            credits = math.inf if link.ends_at_endpoint else router.buffer
            link.lanes = [Lane(link, number, credits) for number in range(router.lanes)]
        ends = range(fabric.num_endpoints)
        self.switches = []
        for switch in range(fabric.num_switches):
            inputs = [link for link in self.links if heads[link.number] == switch]
            outputs = [link for link in self.links if tails[link.number] == switch]
            of_port = {int(fabric.link_from_port[link.number]): link for link in outputs}
            to = [of_port.get(int(routes.table[end, switch])) for end in ends]
            self.switches.append(Switch(inputs, to))
        self.sources = []
        for end in ends:
            link, stream = self.links[fabric.graph.destination_link[end] ^ 1], load.seed ^ mix(end)
            self.sources.append(Source(end, link, int(births[end]), mix(stream)))

    def run(self, until: int) -> None:
        """Simulate the cycles before `until`."""
        while self.now < until:
            self.arrive()
            for source in self.sources:
                self.begin_packet(source)
                self.inject(source)
            for switch in self.switches:
                if self.router.vc_delay == 0:
                    self.allocate_lanes(switch)
                self.allocate_switch(switch)
                if self.router.vc_delay > 0:
                    self.allocate_lanes(switch)
            self.now += 1

    def measuring(self, cycle: int) -> bool:
        return self.load.warmup <= cycle < self.load.warmup + self.load.measure

    def arrive(self) -> None:
        for lane, flit in self.arrivals.pop(self.now, []):
            if flit is None:
                lane.credits += 1
            elif lane.link.ends_at_endpoint:
                self.eject(flit)
            else:
                lane.buffer.append(flit)
                if len(lane.buffer) == 1 and flit.number == 0:
                    self.begin_routing(lane)

    def begin_routing(self, lane: Lane) -> None:
        lane.waits_from = self.now + self.router.routing_delay

    def eject(self, flit: Flit) -> None:
        packet = flit.packet
        self.count["ejected"] += self.measuring(self.now)
        if flit.number == self.load.size - 1:
            self.count["under_way"] -= 1
            if self.measuring(packet.born):
                self.count["measured"] += 1
                self.count["latency"] += self.now - packet.born
                self.count["network"] += self.now - packet.entered
                self.count["packet_hops"] += packet.routers

    def take_lane(self, link: Link, owner: Lane | Source) -> Lane | None:
        """Give an owner the first lane of a link that a packet may take, if any."""
        whole = 0 if self.router.switching == "wormhole" else self.load.size
        least = max(whole, self.router.buffer if self.router.atomic else 0)
        for lane in after(link.lanes, link.given):
            if lane.owner is None and lane.credits >= least:
                lane.owner, link.given = owner, lane.number
                return lane
        return None

    def begin_packet(self, source: Source) -> None:
        if source.packet is not None or source.birth > self.now:
            return
        source.lane = self.take_lane(source.link, source)
        if source.lane is None:
            return
        to = self.destination(source)
        source.packet = Packet(source.number, source.packets, to, source.birth)
        source.packets, source.flits = source.packets + 1, 0
        source.birth += self.gap(source)
        self.count["under_way"] += 1
        self.count["born"] += self.measuring(source.packet.born)

    def destination(self, source: Source) -> int:
        if self.load.targets is not None:
            return int(self.load.targets[source.number])
        others = [end for end in range(len(self.sources)) if end != source.number]
        return others[math.floor(source.uniform() * len(others))]

    def gap(self, source: Source) -> int:
        rate = self.load.rate / self.load.size
        if rate == 1:  # then no number is drawn
            return 1
        return 1 + math.floor(math.log(source.uniform()) / math.log1p(-rate))

    def inject(self, source: Source) -> None:
        packet, lane = source.packet, source.lane
        if packet is None or lane is None or lane.credits == 0:
            return
        self.count["injected"] += self.measuring(self.now)
        if source.flits == 0:
            packet.entered = self.now
        self.send(lane, Flit(packet, source.flits), self.now)
        source.flits += 1
        if source.flits == self.load.size:
            lane.owner = source.packet = source.lane = None

    def send(self, lane: Lane, flit: Flit, cycle: int) -> None:
        packet, link = flit.packet, lane.link
        lane.credits -= 1
        which = packet.source, packet.number, flit.number
        self.sent.append(Sent(*which, link.number, lane.number, cycle))
        self.arrivals[cycle + link.latency].append((lane, flit))

    def allocate_lanes(self, switch: Switch) -> None:
        for port in after(range(len(switch.inputs)), switch.last):
            for lane in switch.inputs[port].lanes:
                if self.waits(lane):
                    link = switch.to[lane.buffer[0].packet.destination]
                    assert link is not None, "there is no path"
                    lane.out = self.take_lane(link, lane)
                    lane.may_use_from = self.now + self.router.vc_delay
                    if lane.out is not None:
                        switch.last = port

    def waits(self, lane: Lane) -> bool:
        if not lane.buffer or lane.out is not None or lane.waits_from > self.now:
            return False
        here = sum(flit.packet is lane.buffer[0].packet for flit in lane.buffer)
        return self.router.switching != "store-and-forward" or here == self.load.size

    def ready(self, lane: Lane) -> bool:
        may_use = lane.out is not None and lane.may_use_from <= self.now
        return may_use and bool(lane.buffer) and lane.out.credits > 0

    def allocate_switch(self, switch: Switch) -> None:
        granted: set[int] = set()  # input ports
        used: set[Link] = set()
        for _ in range(self.router.iterations):
            offers: dict[Link, dict[int, Lane]] = defaultdict(dict)  # by output and input port
            for port, link in enumerate(switch.inputs):
                for lane in after(link.lanes, link.served):
                    if port not in granted and self.ready(lane) and lane.out.link not in used:
                        offers[lane.out.link][port] = lane
                        break
            for out, offered in offers.items():
                ports = after(range(len(switch.inputs)), out.served_port)
                port = next(port for port in ports if port in offered)
                out.served_port, switch.inputs[port].served = port, offered[port].number
                granted.add(port)
                used.add(out)
                self.grant(offered[port])

    def grant(self, lane: Lane) -> None:
        flit, out = lane.buffer.popleft(), lane.out
        self.send(out, flit, self.now + self.router.switch_delay)
        credit_sent = self.now + self.router.credit_delay
        self.arrivals[credit_sent + lane.link.latency].append((lane, None))
        flit.packet.routers += flit.number == 0
        if flit.number == self.load.size - 1:
            out.owner = lane.out = None
            if lane.buffer:
                self.begin_routing(lane)
