"""Reference implementations of policies: each switch's choices, recomputed from a run's hops.

A run with all messages traced records when each packet left by which link. This gives the
order in which packets arrived at switches and links sent them, and each switch's state over time.
A reference policy replays that order with tables of its own and returns the link that the packet
had to take at each switch. Rules are those of docs/policies.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tests.reference.packet_layout import ps
from weft.kernels.hashing import splitmix64
from weft.routing.routes import CandidateRoutes
from weft.sim.packet.result import PacketResult

ROUTED, SENT = range(2)


def draw(seed: int, one: int, other: int, count: int) -> int:
    """Return a number below `count`, a hash of two numbers and the seed."""
    inner = int(splitmix64(np.uint64(seed)))
    inner = int(splitmix64(np.uint64(other ^ inner)))
    return int(splitmix64(np.uint64(one ^ inner))) % count


@dataclass
class Packet:
    """A packet and its hops: link, lane, begin and end of each departure."""

    #: Index among the packets of the run, and number for random draws.
    number: int
    drawn: int
    op: int
    connection: int
    wire_bytes: int
    goal: int
    hops: list[tuple[int, int, int, int]] = field(default_factory=list)
    #: State that a policy keeps in the packet.
    via: int | None = None
    decided: bool = False
    tunnels: dict[int, dict[str, int]] = field(default_factory=dict)


class Played:
    """Events of a run in order, at switches only, as hosts do not forward."""

    def __init__(self, result: PacketResult, routes: CandidateRoutes):
        fabric, hardware = result.fabric, result.hardware
        self.fabric, self.graph, self.routes, self.hardware = fabric, fabric.graph, routes, hardware
        self.seed = int(result.options["seed"])
        self.link_of = fabric.graph.edge_link
        self.latency = [ps(float(each)) for each in np.repeat(fabric.cable_latency_ns, 2)]
        self.rate = fabric.link_rate_gbps
        self.packets = self._packets(result)
        self.pending: dict[tuple[int, int], int] = defaultdict(int)
        self.taken: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for packet in self.packets:
            self._credits(packet)

    def _packets(self, result: PacketResult) -> list[Packet]:
        work, hosts, mtu = result.workload, result.host, self.hardware.mtu_bytes
        packets: dict[tuple[int, int], Packet] = {}
        left = {int(op): int(work.size_bytes[op]) for op in work.messages}
        injected: dict[int, int] = defaultdict(int)
        for row in result.hop.tolist():
            op, sequence, link, lane, _, begin, end, _ = row
            connection = int(result.connections.connection[op])
            key = connection, sequence
            if key not in packets:
                payload = min(left[op], mtu)
                left[op] -= payload
                goal = int(self.graph.destination_row[hosts[work.peer[op]]])
                drawn = (injected[link] * result.network.num_links + link) % 2**31
                injected[link] += 1
                packets[key] = Packet(
                    len(packets), drawn, op, connection, payload + self.hardware.header_bytes, goal
                )
            packets[key].hops.append((link, lane, begin, end))
        return list(packets.values())

    def _credits(self, packet: Packet) -> None:
        """Record when a packet takes and returns credits of each buffer."""
        count = self.hardware.credits_of(packet.wire_bytes)
        for at, (link, lane, begin, end) in enumerate(packet.hops):
            last = at + 1 == len(packet.hops)
            gone = end + self.latency[link] if last else packet.hops[at + 1][3]
            back = gone + self.latency[link] + ps(self.hardware.credit_latency_ns)
            self.taken[link, lane].append((begin, back, count))

    def events(self) -> Iterator[tuple[int, int, Packet, int]]:
        """Yield time, kind, packet and index of its next hop, in the order of rule 24."""
        passing = ps(self.hardware.switch_latency_ns)
        order = []
        for packet in self.packets:
            for at in range(1, len(packet.hops)):
                before, _, begin, _ = packet.hops[at - 1]
                routed = begin + self.latency[before] + passing
                order.append((routed, ROUTED, before, packet.number, at))
                order.append((packet.hops[at][2], SENT, packet.hops[at][0], packet.number, at))
        for time, what, _, number, at in sorted(order):
            yield time, what, self.packets[number], at

    def row_of(self, packet: Packet, at: int) -> int:
        """Return the switch from which a packet left by a hop."""
        return int(self.graph.link_row[packet.hops[at - 1][0]])

    def candidates(self, group: int) -> list[tuple[int, int]]:
        """Return edges of a set, each with its index among the edges of all sets."""
        first, last = self.routes.set_offset[group : group + 2].tolist()
        return [(int(self.routes.set_edge[at]), at) for at in range(first, last)]

    def load(self, edge: int, lane: int, time: int, by: str) -> int:
        """Return the credits that packets waiting for an edge's lane need, plus those in use.

        `by` is ``queue`` (waiting packets only), ``credits`` (those in use only) or ``both``.
        """
        index = int(self.link_of[edge]), lane
        total = 0
        if by != "credits":
            total += self.pending[index]
        if by != "queue":
            total += sum(n for begin, back, n in self.taken[index] if begin < time < back)
        return total

    def note(self, what: int, packet: Packet, at: int) -> None:
        """Record that a packet waits for a link, or that the link was granted to the packet."""
        sign = 1 if what == ROUTED else -1
        count = self.hardware.credits_of(packet.wire_bytes)
        self.pending[packet.hops[at][:2]] += sign * count


class PlainRound:
    """Paths via intermediates: Valiant's, and UGAL's."""

    def __init__(self, played: Played, *, threshold: int | None = None, by: str = "both"):
        self.played, self.threshold, self.by = played, threshold, by

    def follow(self) -> Iterator[tuple[Packet, int, int]]:
        """Yield each packet at each switch, with the link that it had to take."""
        for time, what, packet, at in self.played.events():
            if what == ROUTED:
                row = self.played.row_of(packet, at)
                yield packet, at, self.next_link(packet, row, time)
            self.played.note(what, packet, at)

    def row_of(self, packet: Packet) -> int:
        """Return the first switch of a packet."""
        return self.played.row_of(packet, 1)

    def lane(self, index: int) -> int:
        """Return the lane of a candidate."""
        return int(self.played.routes.set_lane[index])

    def next_link(self, packet: Packet, row: int, time: int) -> int:
        """Return the next link of a packet."""
        played, routes = self.played, self.played.routes
        if not packet.decided:
            packet.via, packet.decided = self.decide(packet, row, time), True
        elif packet.via is not None and packet.via == int(routes.via[row]):
            packet.via = None
        if packet.via is not None:
            group = int(routes.via_set[packet.via, row])
        elif row == packet.goal:
            return packet.hops[-1][0]
        else:
            group = int(routes.set_id[packet.goal, row])
        candidates = played.candidates(group)
        if self.threshold is not None:
            loads = [played.load(edge, self.lane(p), time, self.by) for edge, p in candidates]
            candidates = [
                each for each, load in zip(candidates, loads, strict=True) if load == min(loads)
            ]
        edge, _ = candidates[draw(played.seed, packet.drawn, row, len(candidates))]
        return int(played.link_of[edge])

    def decide(self, packet: Packet, row: int, time: int) -> int | None:
        """Return the intermediate, or None for a minimal path."""
        played, routes = self.played, self.played.routes
        ends = {int(routes.via[row]), int(routes.via[packet.goal])}
        if len(ends) == 1 or -1 in ends:
            return None
        free = [via for via in range(len(routes.via_set)) if via not in ends]
        rows = len(routes.via)
        via = free[draw(played.seed, packet.drawn, row + rows, len(free))]
        if self.threshold is None or not routes.direct:
            return via
        costs = []
        for group, links in (
            (routes.set_id[packet.goal, row], self.links(packet.goal, None, row)),
            (routes.via_set[via, row], self.links(packet.goal, via, row)),
        ):
            candidates = played.candidates(int(group))
            least = min(played.load(edge, self.lane(p), time, self.by) for edge, p in candidates)
            costs.append(least * links * played.hardware.credit_bytes)
        return None if costs[0] <= costs[1] + self.threshold else via

    def links(self, goal: int, via: int | None, row: int) -> int:
        """Return the number of links to the goal on the path of first candidates."""
        routes, count = self.played.routes, 0
        while row != goal or via is not None:
            if via is not None and routes.via[row] == via:
                via = None
                continue
            group = routes.set_id[goal, row] if via is None else routes.via_set[via, row]
            row = int(self.played.graph.edge_row[self.played.candidates(int(group))[0][0]])
            count += 1
        return count


class PlainAdaptive(PlainRound):
    """The least loaded candidate on one lane, chosen per packet or, with a gap, per flowlet."""

    def __init__(self, played: Played, *, by: str, gap: int, entries: int):
        super().__init__(played, threshold=0, by=by)
        self.gap, self.entries = gap, entries
        self.flowlets: dict[tuple[int, int], tuple[int, int]] = {}

    def lane(self, index: int) -> int:
        return 0

    def decide(self, packet: Packet, row: int, time: int) -> int | None:
        return None

    def next_link(self, packet: Packet, row: int, time: int) -> int:
        entry = row, int(splitmix64(np.uint64(packet.connection))) % self.entries
        last, since = self.flowlets.get(entry, (-1, -1))
        group = self.played.routes.set_id[packet.goal, row]
        candidates = [edge for edge, _ in self.played.candidates(int(group))] if group >= 0 else []
        links = [int(self.played.link_of[edge]) for edge in candidates]
        link = super().next_link(packet, row, time)
        if self.gap and last in links and time - since <= self.gap:
            link = last
        if len(links) > 1:
            self.flowlets[entry] = link, time
        return link


class PlainConga:
    """CONGA: flowlets, rate estimators, and tables of congestion to and from other switches."""

    def __init__(
        self, played: Played, *, gap: int, entries: int, alpha: float, t_dre: int, bits: int,
        ageing: int, middle: str,
    ):  # fmt: skip
        self.played = played
        self.gap, self.entries, self.alpha, self.t_dre = gap, entries, alpha, t_dre
        self.bits, self.ageing, self.middle = bits, ageing, middle
        graph = played.graph
        self.edges = list(zip(graph.edge_tail.tolist(), graph.edge_row.tolist(), strict=True))
        ends = played.fabric.num_endpoints
        self.level = dict.fromkeys(sorted(set(graph.destination_row[:ends].tolist())), 0)
        for height in range(3):
            for tail, head in self.edges:
                if self.level.get(tail) == height:
                    self.level.setdefault(head, height + 1)
        self.pod = self._pods()
        self.tag: dict[int, int] = {}
        count: dict[int, int] = defaultdict(int)
        for edge, (tail, head) in enumerate(self.edges):
            if self.level[head] > self.level[tail]:
                self.tag[edge] = count[tail]
                count[tail] += 1
        self.flowlets: dict[tuple[int, int], tuple[int, int]] = {}
        self.sizes: dict[int, list[tuple[int, int]]] = defaultdict(list)
        #: By switch, peer and tag: metric and time of the last feedback received; metric and time
        #: of feedback to return, and whether it is new. By switch and peer: tag returned last.
        self.heard: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.pending_feedback: dict[tuple[int, int, int], tuple[int, int, bool]] = {}
        self.last_tag: dict[tuple[int, int], int] = defaultdict(int)

    def _pods(self) -> dict[int, int]:
        """Return the lowest switch of each switch's component in the fabric without level 2."""
        pod = {row: row for row, level in self.level.items() if level < 2}
        for _ in pod:
            for tail, head in self.edges:
                if tail in pod and head in pod:
                    pod[tail] = pod[head] = min(pod[tail], pod[head])
        return pod

    def follow(self) -> Iterator[tuple[Packet, int, int]]:
        """Yield each packet at each switch, with the link that it had to take."""
        for time, what, packet, at in self.played.events():
            row = self.played.row_of(packet, at)
            if what == ROUTED:
                self.receive(packet, row, time)
                yield packet, at, self.next_link(packet, row, time)
            elif at + 1 < len(packet.hops):
                self.sent(packet, row, packet.hops[at][0], time)

    def peer_of(self, row: int, other: int) -> int:
        """Return a switch's identifier for another: the switch itself, or its pod."""
        return other if self.level[row] == 0 else self.pod[other]

    def estimate(self, link: int, time: int) -> float:
        """Return the bytes that a link has sent, decayed at each tick since then."""
        now, total = time // self.t_dre, 0.0
        done = 0
        for tick, size in self.sizes[link]:
            total = self._decayed(total, tick - done) + size
            done = tick
        return self._decayed(total, now - done)

    def _decayed(self, total: float, ticks: int) -> float:
        for _ in range(ticks):
            if total < 1:
                return 0.0
            total *= 1 - self.alpha
        return total

    def metric(self, link: int, time: int) -> int:
        """Return the quantised congestion of a link."""
        full = self.played.rate[link] / 8000 * self.t_dre / self.alpha
        return min(int(self.estimate(link, time) / full * 2**self.bits), 2**self.bits - 1)

    def aged(self, metric: int, since: int, time: int) -> int:
        """Return a metric, aged by the time since its last update."""
        return int(metric / 2 ** ((time - since) // self.ageing))

    def sent(self, packet: Packet, row: int, link: int, time: int) -> None:
        """Record that a link has sent a packet."""
        self.sizes[link].append((time // self.t_dre, packet.wire_bytes))
        for header in packet.tunnels.values():
            if header["source"] != row:
                header["ce"] = max(header["ce"], self.metric(link, time))

    def receive(self, packet: Packet, row: int, time: int) -> None:
        """Process the tunnels of a packet that end at a switch."""
        for level in (1, 0):
            header = packet.tunnels.get(level)
            if header is None or self.level[row] != level or header["source"] == row:
                continue
            peer = self.peer_of(row, header["source"])
            key = row, peer, header["tag"]
            recorded = self.pending_feedback.get(key)
            is_new = recorded is None or recorded[2] or recorded[0] != header["ce"]
            self.pending_feedback[key] = header["ce"], time, is_new
            if "last_tag" in header:
                self.heard[row, peer, header["last_tag"]] = header["last_metric"], time
            del packet.tunnels[level]

    def next_link(self, packet: Packet, row: int, time: int) -> int:
        """Return the next link of a packet."""
        played = self.played
        if row == packet.goal:
            return packet.hops[-1][0]
        edges = [edge for edge, _ in played.candidates(int(played.routes.set_id[packet.goal, row]))]
        hashed = self.level[row] == 1 and self.middle == "ecmp"
        if edges[0] not in self.tag or hashed:
            edge = edges[draw(played.seed, packet.connection, row, len(edges))]
            return int(played.link_of[edge])
        entry = row, int(splitmix64(np.uint64(packet.connection))) % self.entries
        peer = self.peer_of(row, packet.goal)
        edge, last = self.flowlets.get(entry, (-1, -1))
        ticks = time // self.gap - last // self.gap
        if edge not in edges or ticks > 1:
            edge = self.least_congested(packet, row, peer, edge, edges, time)
        self.flowlets[entry] = edge, time
        header = {"source": row, "tag": self.tag[edge], "ce": 0, **self.feedback(row, peer, time)}
        packet.tunnels[self.level[row]] = header
        return int(played.link_of[edge])

    def least_congested(
        self, packet: Packet, row: int, peer: int, cached: int, edges: list[int], time: int
    ) -> int:
        """Return the edge of a new flowlet."""
        metrics = []
        for edge in edges:
            metric = self.metric(int(self.played.link_of[edge]), time)
            if (row, peer, self.tag[edge]) in self.heard:
                metric = max(metric, self.aged(*self.heard[row, peer, self.tag[edge]], time))
            metrics.append(metric)
        best = [edge for edge, m in zip(edges, metrics, strict=True) if m == min(metrics)]
        if cached in best:
            return cached
        return best[draw(self.played.seed, packet.drawn, row, len(best))]

    def feedback(self, row: int, peer: int, time: int) -> dict[str, int]:
        """Return the feedback that a packet carries to the peer."""
        tags = sorted(tag for at, other, tag in self.pending_feedback if (at, other) == (row, peer))
        last = self.last_tag[row, peer]
        tags = [tag for tag in tags if tag > last] + [tag for tag in tags if tag <= last]
        is_new = [tag for tag in tags if self.pending_feedback[row, peer, tag][2]]
        if not tags:
            return {}
        tag = (is_new or tags)[0]
        metric, since, _ = self.pending_feedback[row, peer, tag]
        self.pending_feedback[row, peer, tag] = metric, since, False
        self.last_tag[row, peer] = tag
        return {"last_tag": tag, "last_metric": self.aged(metric, since, time)}
