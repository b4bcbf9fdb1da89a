"""Multicasts in the reference implementation of the flit level: packets by a list, and forks.

Written from the rules in docs/flit-level.md, without code of the kernel.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.reference.balance import mix
from tests.reference.flit_parts import Endpoint, Flit, Lane, Link, Packet, Switch
from tests.reference.flit_twin import PlainFlits
from weft.fabrics import Fabric
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.router import Router
from weft.sim.flit.traffic import Load


@dataclass
class Post:
    """A message of one packet, and the cycles in which it arrives at hosts."""

    cycle: int
    source: int
    low: int
    high: int  # the last host of its range; `low` for one destination
    size: int
    is_cast: bool
    arrived: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class Copy(Packet):
    """A packet, or a copy of it on the way to some of its hosts."""

    post: Post | None = None
    root: Copy | None = None
    copies: int = 0  # of the root: not acknowledged
    tails: int = 0  # of the root: last flits under way
    due: int = 0  # of the root: when all acknowledgements are back


@dataclass(eq=False)
class Fork:
    """The packet at the front of a buffer that is copied: its outputs, in order, and lanes."""

    outputs: list[Link]
    born: int
    lanes: dict[Link, Lane] = field(default_factory=dict)
    copies: dict[Link, Copy] = field(default_factory=dict)
    since: int = 0

    @property
    def complete(self) -> bool:
        return len(self.lanes) == len(self.outputs)


class PlainMulticasts(PlainFlits):
    """A run of packets of one destination and of multicasts, by a list.

    Parameters
    ----------
    fabric, routing, router, latency, interval, circuits, window
        As in `PlainFlits`.
    posts
        The messages, in the order in which each source posts them.
    seed
        Seed of the draws of the routing.
    """

    def __init__(
        self, fabric: Fabric, routing: str, router: Router, posts: Sequence[Post],
        latency: Sequence[int], interval: Sequence[int], circuits: Adapter | None, window: int,
        seed: int,
    ):  # fmt: skip
        self.posts, self.seed = posts, seed
        load = Load(warmup=0, measure=2**20, seed=seed)
        super().__init__(fabric, routing, router, load, latency, interval, circuits, window)
        self.forks: dict[Lane, Fork] = {}
        self.waiting = [
            deque(post for post in posts if post.source == end.number) for end in self.endpoints
        ]
        heads, tails = fabric.link_to.tolist(), fabric.link_from.tolist()
        self.first_host = fabric.num_switches
        below: dict[int, set[int]] = {}

        def hosts_below(node: int) -> set[int]:
            if node >= self.first_host:
                return {node - self.first_host}
            if node not in below:
                below[node] = set().union(*(hosts_below(heads[link]) for link in down[node]))
            return below[node]

        self.down = down = defaultdict[int, list[int]](list)
        level = self._levels(fabric)
        for link, (tail, head) in enumerate(zip(tails, heads, strict=True)):
            if level[tail] > level[head]:
                down[tail].append(link)
        top = min(node for node in range(fabric.num_switches) if level[node] == max(level))
        #: The tree below the first switch of the top level: link to the parent, and links down.
        self.up: dict[int, int] = {}
        self.tree: dict[int, list[int]] = {}
        nodes = [top]
        while nodes:
            node = nodes.pop()
            first: dict[int, int] = {}
            for link in down[node]:
                first.setdefault(heads[link], link)
            self.tree[node] = sorted(first.values())
            for child, link in first.items():
                if child < self.first_host:
                    self.up[child] = link ^ 1
                    nodes.append(child)
        self.below = {node: hosts_below(node) for node in self.tree}
        self.heads, self.tails = heads, tails

    @staticmethod
    def _levels(fabric: Fabric) -> list[int]:
        """Return 0 for hosts, and the distance to the nearest host for switches."""
        level = [-1] * fabric.num_switches + [0] * fabric.num_hosts
        pairs = list(zip(fabric.link_from.tolist(), fabric.link_to.tolist(), strict=True))
        for distance in range(1, fabric.num_switches + 2):
            for tail, head in pairs:
                if level[tail] == distance - 1 and level[head] < 0:
                    level[head] = distance
        return level

    def endpoints_of(self, links: list[Link]) -> list[Endpoint]:
        return [
            Endpoint(number, link, mix(self.seed ^ mix(number)), 0, [])
            for number, link in enumerate(links)
        ]

    # Endpoints

    def begins(self, end: Endpoint, kind: int) -> bool:
        posts = self.waiting[end.number]
        if kind or not posts or posts[0].cycle > self.now or len(end.sending) == self.window:
            return False
        if self.circuits and end.busy_until > self.now:
            return False
        post = posts[0]
        packet = Copy(end.number, post.low, 0, post.size, self.now, 0)
        largest = max(post.size for post in self.posts)
        lane = self.take_lane(end.link, packet, packet, largest)
        if lane is None:
            return False
        posts.popleft()
        packet.key, packet.post, packet.root = end.next_key(), post, packet
        packet.copies = packet.tails = post.high - post.low + 1
        self.count["under_way"] += 1
        if self.circuits:
            self.handle(end, "sent", self.circuits, self.now)
        end.sending[lane] = deque(Flit(packet, number) for number in range(packet.size))
        return True

    def eject(self, end: Endpoint, flit: Flit) -> None:
        packet = flit.packet
        assert isinstance(packet, Copy)
        root, post = packet.root, packet.post
        assert root is not None
        assert post is not None
        if flit.number == packet.size - (2 if self.circuits else 1):
            assert end.number not in post.arrived
            post.arrived[end.number] = self.now
            if self.circuits:
                self.handle(end, "received", self.circuits, self.now - packet.size + 2)
                back = packet.way + packet.routers * self.circuits.acknowledge_hop
                root.due = max(root.due, max(end.busy_until, self.now) + back)
                root.copies -= 1
                if not root.copies:
                    self.acknowledged[root.due].append(root)
        if flit.is_tail:
            root.tails -= 1
            self.count["under_way"] -= not root.tails

    # Routers

    def waits(self, lane: Lane) -> bool:
        return not (lane.buffer and self.is_cast(lane)) and super().waits(lane)

    @staticmethod
    def is_cast(lane: Lane) -> bool:
        return isinstance(lane.packet, Copy) and lane.packet.post.is_cast  # type: ignore[union-attr]

    def allocate_lanes(self, switch: Switch) -> list[Lane]:
        if self.now % 2 == 0:
            self.give_forks(switch)
        waited = super().allocate_lanes(switch)
        if self.now % 2:
            self.give_forks(switch)
        return waited

    def allocate_switch(self, switch: Switch) -> None:
        if self.now % 2 == 0:
            self.send_forks(switch)
        super().allocate_switch(switch)
        if self.now % 2:
            self.send_forks(switch)

    def by_age(self, switch: Switch) -> list[Lane]:
        """Return the lanes of a switch whose packets are copied, the oldest first."""
        lanes = [lane for link in switch.inputs for lane in link.lanes if lane in self.forks]
        return sorted(lanes, key=lambda lane: self.forks[lane].born)

    def give_forks(self, switch: Switch) -> None:
        for link in switch.inputs:
            for lane in link.lanes:
                ready = lane.buffer and lane.waits_from <= self.now and lane not in self.forks
                if ready and self.is_cast(lane):
                    self.forks[lane] = Fork(self.outputs(switch, lane), lane.packet.born)
        for lane in self.by_age(switch):
            fork = self.forks[lane]
            if fork.complete:
                continue
            for output in fork.outputs[len(fork.lanes) :]:
                got = self.take_lane(output, lane, lane.packet, lane.packet.size)
                if got is None:
                    break
                fork.lanes[output] = got
            fork.since = self.now + self.router.vc_delay

    def outputs(self, switch: Switch, lane: Lane) -> list[Link]:
        """Return the outputs to which a switch copies a packet."""
        packet, node = lane.packet, switch.number
        assert isinstance(packet, Copy)
        post = packet.post
        assert post is not None
        hosts = set(range(post.low, post.high + 1))
        comes_down = lane.link.number in self.tree.get(self.tails[lane.link.number], [])
        if not comes_down and not hosts <= self.below[node]:
            return [self.links[self.up[node]]]
        return [
            self.links[link]
            for link in self.tree[node]
            if hosts & self.below.get(self.heads[link], {self.heads[link] - self.first_host})
        ]

    def send_forks(self, switch: Switch) -> None:
        used = set[Link]()
        for lane in self.by_age(switch):
            fork, link = self.forks[lane], lane.link
            if not fork.complete or fork.since > self.now or not lane.buffer or link in used:
                continue
            if switch.granted[link] >= self.router.input_speedup:
                continue
            if any(
                switch.granted[output] or output.free_from > self.now or not out.has_place
                for output, out in fork.lanes.items()
            ):
                continue
            used.add(link)
            self.copy(switch, lane, fork)

    def copy(self, switch: Switch, lane: Lane, fork: Fork) -> None:
        """Send the first flit of a buffer to all outputs."""
        flit = lane.buffer.popleft()
        packet = flit.packet
        switch.granted.update([lane.link, *fork.lanes])
        if flit.number == 0:
            lane.link.wait += self.waited(packet)
            for output in fork.lanes:
                host = self.heads[output.number] - self.first_host
                copy = replace(packet, routers=packet.routers + 1)
                copy.destination = max(host, 0)
                fork.copies[output] = copy  # type: ignore[assignment]
        for output, out in fork.lanes.items():
            self.send(out, Flit(fork.copies[output], flit.number), self.router.switch_delay)
            if flit.is_tail:
                out.owner = None
        self.credits[self.now + self.router.credit_delay + lane.link.latency].append(lane)
        if flit.is_tail:
            del self.forks[lane]
            if lane.buffer:
                self.begin_routing(lane)
