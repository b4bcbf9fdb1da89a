"""Reference implementation of the flit level: all routers in every cycle, flits as objects.

Written from the rules in docs/flit-level.md, without code of the kernel.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from tests.reference.balance import mix
from tests.reference.flit_parts import Endpoint, Flit, Lane, Link, Packet, Switch, after
from tests.reference.flit_routings import DimensionOrder, Nca, Tables
from weft.fabrics import Fabric
from weft.sim.common.statistics import BATCHES
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.router import Router
from weft.sim.flit.traffic import Load

#: Numbers of a lane and of its input port.
of_lane: Callable[[Lane], int] = attrgetter("number")
of_port: Callable[[Lane], int] = attrgetter("link.port")


def serve(memory: list[int], number: int) -> None:
    """Put a number at the end of what was served."""
    if number in memory:
        memory.remove(number)
    memory.append(number)


class PlainFlits:
    """One run: the state before cycle `now`.

    Parameters
    ----------
    fabric, router, load, latency, interval, circuits, window
        As in `weft.sim.flit.network.state`.
    routing
        Table [destinations, switches], or the name of a routing.
    """

    def __init__(
        self,
        fabric: Fabric,
        routing: Any,
        router: Router,
        load: Load,
        latency: Sequence[int],
        interval: Sequence[int],
        circuits: Adapter | None = None,
        window: int = 1,
    ):
        self.router, self.load, self.circuits, self.window = router, load, circuits, window
        self.class_lanes = router.lanes // (2 if load.reply else 1)
        self.now = 0
        self.count: Counter[str] = Counter()
        self.histogram: Counter[int] = Counter()
        self.batches = [Counter[str]() for _ in range(BATCHES[0])]
        #: What arrives, by cycle.
        self.flits: dict[int, list[tuple[Lane, Flit]]] = defaultdict(list)
        self.credits: dict[int, list[Lane]] = defaultdict(list)
        self.acknowledged: dict[int, list[Packet]] = defaultdict(list)
        heads, tails = fabric.link_to.tolist(), fabric.link_from.tolist()
        self.links = []
        for number, head in enumerate(heads):
            link = Link(number, head >= fabric.num_switches, latency[number], interval[number])
            link.own, link.shared = router.buffer, router.shared_buffer
            link.lanes = [Lane(link, lane, router.buffer) for lane in range(router.lanes)]
            self.links.append(link)
        self.switches = []
        for switch in range(fabric.num_switches):
            inputs = [link for link in self.links if heads[link.number] == switch]
            outputs = [link for link in self.links if tails[link.number] == switch]
            for port, link in enumerate(inputs):
                link.port = port
            self.switches.append(Switch(switch, inputs, outputs))
        into = fabric.graph.destination_link[: fabric.num_host_endpoints].tolist()
        self.endpoints = self.endpoints_of([self.links[link ^ 1] for link in into])
        self.route: Tables | Nca | DimensionOrder = (
            Tables(fabric, routing, self.links)
            if not isinstance(routing, str)
            else Nca(fabric, self.endpoints, self.lanes_of, routing == "nca-adaptive")
            if routing.startswith("nca")
            else DimensionOrder(fabric, self.endpoints, self.class_lanes, routing == "valiant")
        )

    def endpoints_of(self, links: list[Link]) -> list[Endpoint]:
        count, p = len(links), self.load.rate / self.load.mean_size
        offset, targets = self.load.targets(count)
        x = np.random.default_rng(self.load.seed).random(count)
        endpoints = []
        for end, link in enumerate(links):
            mine = targets[offset[end] : offset[end + 1]].tolist()
            birth = 0 if p == 1 else math.floor(math.log1p(-x[end]) / math.log1p(-p))
            stream = mix(self.load.seed ^ mix(end))
            endpoints.append(Endpoint(end, link, stream, birth if mine else math.inf, mine))
        return endpoints

    def run(self, until: int) -> None:
        """Simulate the cycles before `until`."""
        while self.now < until:
            self.arrive()
            for end in self.endpoints:
                self.begin_packets(end)
                self.inject(end)
            for switch in self.switches:
                self.step(switch)
            self.now += 1

    def step(self, switch: Switch) -> None:
        """Simulate a cycle of a switch."""
        switch.granted.clear()
        if self.router.vc_delay == 0:
            self.allocate_lanes(switch)
            self.allocate_switch(switch)
        else:
            self.allocate_switch(switch)
            waited = self.allocate_lanes(switch)
            if self.router.speculative:
                self.speculate(switch, waited)
        for link in switch.outputs:
            self.send_from_queue(link)

    # Links and lanes

    def arrive(self) -> None:
        for lane in self.credits.pop(self.now, []):
            if lane.borrowed:
                lane.borrowed -= 1
                lane.link.shared += 1
            else:
                lane.credits += 1
        for packet in self.acknowledged.pop(self.now, []):
            packet.acknowledged = True
        for lane, flit in self.flits.pop(self.now, []):
            if lane.link.ends_at_endpoint:
                self.eject(self.endpoints[flit.packet.destination], flit)
                continue
            lane.buffer.append(flit)
            if flit.number == 0:
                flit.packet.came = self.now
                if len(lane.buffer) == 1:
                    self.begin_routing(lane)

    def begin_routing(self, lane: Lane) -> None:
        lane.waits_from = self.now + self.router.routing_delay

    def send(self, lane: Lane, flit: Flit, delay: int) -> None:
        """Send a flit over the link of a lane some cycles later; it takes its credit now."""
        link = lane.link
        if not link.ends_at_endpoint:
            if lane.credits:
                lane.credits -= 1
            else:
                lane.borrowed += 1
                link.shared -= 1
        if flit.number == 0:
            flit.packet.way += link.latency
        link.free_from = self.now + link.interval
        link.flits += 1
        self.count["hops"] += 1
        self.flits[self.now + delay + link.latency].append((lane, flit))

    def lanes_of(self, link: Link, kind: int) -> list[Lane]:
        return link.lanes[kind * self.class_lanes : (kind + 1) * self.class_lanes]

    def take_lane(self, link: Link, owner: Lane | Packet, packet: Packet, size: int) -> Lane | None:
        """Give an owner the first lane of a link that a packet may take, if any."""
        allowed = self.lanes_of(link, packet.kind)
        if packet.only is not None:
            allowed = [allowed[number] for number in packet.only]
        for lane in after(link.lanes, link.given):
            if lane in allowed and lane.owner is None and self.has_room(lane, size):
                lane.owner, link.given = owner, lane.number
                return lane
        return None

    def has_room(self, lane: Lane, size: int) -> bool:
        """Say whether a packet of a size may take a free lane."""
        if lane.link.ends_at_endpoint:
            return True
        if self.router.atomic and (lane.credits < self.router.buffer or lane.queue):
            return False
        room = lane.credits + lane.link.shared - len(lane.queue)
        return self.router.switching == "wormhole" or room >= size

    # Endpoints

    def measuring(self, cycle: int) -> bool:
        return self.load.warmup <= cycle < self.load.warmup + self.load.measure

    def batch(self, cycle: int) -> Counter[str]:
        return self.batches[(cycle - self.load.warmup) // math.ceil(self.load.measure / BATCHES[0])]

    def eject(self, end: Endpoint, flit: Flit) -> None:
        packet = flit.packet
        if self.measuring(self.now):
            self.batch(self.now)["ejected"] += 1
            end.ejected += 1
        if flit.number == packet.size - (2 if self.circuits else 1):
            self.measure(packet)
            if self.circuits:
                self.handle(end, "received", self.circuits, self.now - packet.size + 2)
                hops = packet.routers * self.circuits.acknowledge_hop
                leaves = max(end.busy_until, self.now)
                self.acknowledged[leaves + packet.way + hops].append(packet)
            if self.load.reply and packet.kind == 0:
                to, size = packet.source, self.load.reply
                end.replies.append(Packet(end.number, to, 1, size, self.now, end.next_key()))
                self.count_begun(end.replies[-1])
        if flit.is_tail:
            self.count["under_way"] -= 1

    def count_begun(self, packet: Packet) -> None:
        """Count a request that its source begins to send, or a reply that is born."""
        self.count["under_way"] += 1
        self.count["born"] += self.measuring(packet.born)

    def measure(self, packet: Packet) -> None:
        """Count a packet whose data have arrived."""
        if self.measuring(packet.born):
            batch = self.batch(packet.born)
            batch["measured"] += 1
            batch["latency"] += self.now - packet.born
            batch["network"] += self.now - packet.entered
            self.count["packet_hops"] += packet.routers
            self.histogram[self.now - packet.born] += 1

    def handle(self, end: Endpoint, what: str, circuits: Adapter, since: int) -> None:
        """Let the adapter handle a packet from a cycle on, or as soon as it is free."""
        turn = circuits.turnaround if end.handled not in ("", what) else 0
        end.busy_until = max(end.busy_until, since) + circuits.service + turn
        end.handled = what

    def begin_packets(self, end: Endpoint) -> None:
        for kind in 0, 1:
            while self.begins(end, kind):
                pass

    def begins(self, end: Endpoint, kind: int) -> bool:
        """Begin a packet of a class, if there is one and it may begin."""
        waits = end.replies if kind == 1 else end.birth <= self.now
        sending = sum(lane.owner.kind == kind for lane in end.sending)
        if not waits or sending == self.window or (self.circuits and end.busy_until > self.now):
            return False
        packet = end.replies[0] if kind == 1 else Packet(end.number, -1, 0, 0, int(end.birth), 0)
        lane = self.take_lane(end.link, packet, packet, self.load.largest)
        if lane is None:
            return False
        if kind == 1:
            end.replies.popleft()
        else:
            packet.key = end.next_key()
            packet.destination, packet.size = self.destination(end), self.size(end)
            end.birth += self.gap(end)
            self.count_begun(packet)
        if self.circuits:
            self.handle(end, "sent", self.circuits, self.now)
        end.sending[lane] = deque(Flit(packet, number) for number in range(packet.size))
        return True

    def destination(self, end: Endpoint) -> int:
        ends = end.targets
        if ends == [-1]:
            ends = [other.number for other in self.endpoints if other is not end]
        elif len(ends) == 1:
            return ends[0]
        return ends[min(math.floor(end.uniform() * len(ends)), len(ends) - 1)]

    def size(self, end: Endpoint) -> int:
        sizes = [size for size, _ in self.load.size]
        if len(sizes) == 1:
            return sizes[0]
        u = end.uniform()
        below = zip(sizes, np.cumsum(self.load.shares), strict=True)
        return next((size for size, bound in below if bound >= u), sizes[-1])

    def gap(self, end: Endpoint) -> int:
        p = self.load.rate / self.load.mean_size
        return 1 if p == 1 else 1 + math.floor(math.log(end.uniform()) / math.log1p(-p))

    def inject(self, end: Endpoint) -> None:
        """Send one flit."""
        if end.link.free_from > self.now:
            return
        for lane in after(end.link.lanes, end.last):
            if lane not in end.sending or not lane.has_place:
                continue
            flit = end.sending[lane][0]
            if self.circuits and flit.is_tail and not flit.packet.acknowledged:
                continue
            end.sending[lane].popleft()
            end.last = lane.number
            if flit.number == 0:
                flit.packet.entered = self.now
            self.send(lane, flit, 0)
            if flit.is_tail:
                lane.owner = None
                del end.sending[lane]
            return

    # Routers

    def waits(self, lane: Lane) -> bool:
        """Say whether the packet at the front of a buffer comes to lane allocation."""
        if not lane.buffer or lane.out is not None or lane.waits_from > self.now:
            return False
        here = sum(flit.packet is lane.packet for flit in lane.buffer)
        return self.router.switching != "store-and-forward" or here == lane.packet.size

    def waited(self, packet: Packet) -> int:
        """Return how long a packet has waited at a router beyond the least time."""
        vc_delay = 0 if self.router.speculative else self.router.vc_delay
        return self.now - packet.came - self.router.routing_delay - vc_delay

    def total_wait(self, link: Link) -> int:
        """Return the total wait at an input so far."""
        flits = [flit for lane in link.lanes for flit in lane.buffer]
        return link.wait + sum(self.waited(flit.packet) for flit in flits if flit.number == 0)

    def allocate_lanes(self, switch: Switch) -> list[Lane]:
        """Allocate output lanes; return the lanes whose packets waited for one."""
        waiting = [lane for link in switch.inputs for lane in link.lanes if self.waits(lane)]
        for lane in waiting:
            if lane.choice is None or self.route.adaptive:
                lane.choice = self.route(switch, lane.packet)
        for output in switch.outputs:
            asking = [lane for lane in waiting if lane.choice is output]
            while asking and any(lane.owner is None for lane in output.lanes):
                lane = self.served_next(switch, output, asking)
                asking.remove(lane)
                lane.out = self.take_lane(output, lane, lane.packet, lane.packet.size)
                if lane.out is not None:
                    lane.may_use_from = self.now + self.router.vc_delay
                    output.given_port, lane.link.got = lane.link.port, lane.number
        return waiting

    def served_next(self, switch: Switch, output: Link, asking: list[Lane]) -> Lane:
        """Return the lane that an output serves next in lane allocation."""
        links = after(switch.inputs, output.given_port)
        lanes = [lane for link in links for lane in after(link.lanes, link.got) if lane in asking]
        if self.router.arbiter == "age":
            return min(lanes, key=lambda lane: lane.packet.born)
        return lanes[0]

    def accepts(self, lane: Lane, out: Lane) -> bool:
        """Say whether an output lane takes the first flit of a lane, and its port does."""
        if self.router.output_buffer:
            return len(out.queue) < self.router.output_buffer
        holder = out.link.holder if self.router.hold_switch else None
        return out.has_place and out.link.free_from <= self.now and holder in (None, lane.packet)

    def bids(self, lane: Lane) -> bool:
        may_use = lane.out is not None and lane.may_use_from <= self.now
        return may_use and bool(lane.buffer) and self.accepts(lane, lane.out)

    def allocate_switch(self, switch: Switch) -> None:
        router, granted, sent = self.router, switch.granted, set[Lane]()
        for _ in range(max(router.input_speedup, router.output_speedup)):
            part = {link for link in switch.inputs if granted[link] < router.input_speedup}
            part |= {link for link in switch.outputs if granted[link] < router.output_speedup}
            before = len(sent)
            for iteration in range(router.iterations):
                lanes = [
                    lane
                    for link in switch.inputs
                    for lane in link.lanes
                    if link in part and lane not in sent and self.bids(lane) and lane.choice in part
                ]
                for lane in self.match(lanes):
                    part -= {lane.link, lane.choice}
                    sent.add(lane)
                    self.grant(switch, lane, first=iteration == 0)
            if len(sent) == before:
                break

    def speculate(self, switch: Switch, waited: list[Lane]) -> None:
        free = [lane for lane in waited if not switch.granted.keys() & {lane.link, lane.choice}]
        for lane in self.match(free):
            if lane.out is not None and self.accepts(lane, lane.out):
                lane.may_use_from = self.now
                self.grant(switch, lane, first=True)

    def match(self, lanes: list[Lane]) -> list[Lane]:
        """Return the lanes that are granted the output ports of their choice."""
        if self.router.allocator == "input-first":
            return self.by_outputs(self.by_inputs(lanes))
        granted = {(lane.link, lane.choice) for lane in self.by_outputs(lanes)}
        return self.by_inputs([lane for lane in lanes if (lane.link, lane.choice) in granted])

    def by_inputs(self, lanes: list[Lane]) -> list[Lane]:
        """Return the lane that each input port chooses of its own."""
        ports = defaultdict[Link, list[Lane]](list)
        for lane in lanes:
            ports[lane.link].append(lane)
        return [self.choose(own, port.lanes_served, of_lane) for port, own in ports.items()]

    def by_outputs(self, lanes: list[Lane]) -> list[Lane]:
        """Return a lane of the input port that each output port chooses."""
        ports = defaultdict[Link, list[Lane]](list)
        for lane in lanes:
            ports[lane.choice].append(lane)
        return [self.choose(own, port.ports_served, of_port) for port, own in ports.items()]

    def choose(
        self, lanes: list[Lane], memory: Sequence[int], number_of: Callable[[Lane], int]
    ) -> Lane:
        """Return the lane that the arbiter of a port chooses, by their numbers at the port."""

        def rank(lane: Lane) -> tuple[int, int]:
            number = number_of(lane)
            if self.router.arbiter == "age":
                return lane.packet.born, number
            if self.router.arbiter == "least-recent":
                return memory.index(number) if number in memory else -1, number
            return int(bool(memory) and number <= memory[-1]), number

        return min(lanes, key=rank)

    def grant(self, switch: Switch, lane: Lane, first: bool) -> None:
        """Pass a flit through the switch, in the first iteration or a later one."""
        flit, out = lane.buffer.popleft(), lane.out
        packet = flit.packet
        switch.granted.update([lane.link, out.link])
        if first or self.router.allocator != "islip":
            serve(lane.link.lanes_served, lane.number)
            serve(out.link.ports_served, lane.link.port)
        if flit.number == 0:
            packet.routers += 1
            lane.link.wait += self.waited(packet)
        if self.router.output_buffer:
            out.queue.append((self.now + self.router.switch_delay, flit))
        else:
            self.send(out, flit, self.router.switch_delay)
        self.credits[self.now + self.router.credit_delay + lane.link.latency].append(lane)
        out.link.holder = None if flit.is_tail else packet
        if flit.is_tail:
            out.owner = lane.out = lane.choice = None
            if lane.buffer:
                self.begin_routing(lane)

    def send_from_queue(self, link: Link) -> None:
        """Send the first flit of one lane's queue."""
        lanes = [
            lane
            for lane in after(link.lanes, link.queue_served)
            if lane.queue and lane.queue[0][0] <= self.now and lane.has_place
        ]
        if not lanes or link.free_from > self.now:
            return
        if self.router.arbiter == "age":
            lanes.sort(key=lambda lane: lane.queue[0][1].packet.born)
        link.queue_served = lanes[0].number
        self.send(lanes[0], lanes[0].queue.popleft()[1], 0)
