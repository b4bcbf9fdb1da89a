"""Plain twin of the flow level: callbacks in a queue, and all rates worked out anew at every step.

It takes nothing from the kernel: dependencies are sets, ways are walked hop by hop through the
forwarding tables, source routes or candidates, and rates come from the twin of the sharing law.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tests.reference import penalty
from tests.reference.maxmin import max_min_rates
from weft.fabrics import Fabric
from weft.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.workload import Kind, Workload


@dataclass
class Moving:
    """A message on its way."""

    #: Directed links, each with the part of the message that crosses it.
    way: dict[int, Fraction]
    left: float
    rate: float = 0.0


def way_of(fabric: Fabric, routes: TableRoutes, source: int, target: int) -> list[int]:
    """Directed links from one host's first port to another's, by the forwarding tables."""
    start, end = (int(fabric.host_endpoint[host]) for host in (source, target))
    node = int(fabric.endpoint_node[start])
    links = []
    if not fabric.forwards[node]:
        slot = fabric.port_offset[node] + fabric.endpoint_port[start] - 1
        links.append(int(fabric.port_link[slot]))
        node = int(fabric.link_to[links[-1]])
    goal = fabric.endpoint_node[end]
    while node != goal:
        port = int(routes.lft(int(fabric.graph.node_row[node]))[end])
        links.append(int(fabric.port_link[fabric.port_offset[node] + port - 1]))
        node = int(fabric.link_to[links[-1]])
    return links


def parts_of(fabric: Fabric, routes: Routes, source: int, target: int) -> dict[int, Fraction]:
    """Directed links from host to host in order, each with the part of a message on it."""
    whole = Fraction(1)
    if isinstance(routes, TableRoutes):
        return dict.fromkeys(way_of(fabric, routes, source, target), whole)
    start, end = (int(fabric.host_endpoint[host]) for host in (source, target))
    links: dict[int, Fraction] = {}
    row = int(fabric.graph.node_row[fabric.endpoint_node[start]])
    if row < 0:
        slot = fabric.port_offset[fabric.endpoint_node[start]] + fabric.endpoint_port[start] - 1
        links[int(fabric.port_link[slot])] = whole
        row = int(fabric.graph.node_row[fabric.link_to[fabric.port_link[slot]]])
    into = int(fabric.graph.destination_link[end])
    if isinstance(routes, PathRoutes):
        path = routes.pair.tolist().index(start * fabric.num_host_endpoints + end)
        for edge in routes.edge[routes.offset[path] : routes.offset[path + 1]]:
            links[int(fabric.graph.edge_link[edge])] = whole
    elif isinstance(routes, CandidateRoutes):
        goal = int(fabric.graph.destination_row[end])
        there = {row: whole}
        while there.keys() - {goal}:
            # All candidates are on shortest ways here, so that rows pass in rounds.
            further: dict[int, Fraction] = {}
            for at, part in there.items():
                if at == goal:
                    further[at] = further.get(at, Fraction(0)) + part
                    continue
                choice = int(routes.set_id[goal, at])
                edges = routes.set_edge[routes.set_offset[choice] : routes.set_offset[choice + 1]]
                for edge in edges:
                    link, head = (
                        int(of[edge]) for of in (fabric.graph.edge_link, fabric.graph.edge_row)
                    )
                    links[link] = links.get(link, Fraction(0)) + part / len(edges)
                    further[head] = further.get(head, Fraction(0)) + part / len(edges)
            there = further
    if into >= 0:
        links[into] = whole
    return links


class PlainFlow:
    """One run; `ended`, `left` and `arrived` hold the times by operation."""

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        workload: Workload,
        hosts: list[int],
        *,
        sharing: str,
        eager_bytes: int,
        handshake: bool,
        overhead_ns: float,
        mtu_bytes: int,
        header_bytes: int,
        switch_latency_ns: float,
        local_gbps: float,
        local_latency_ns: float,
    ):
        self.work, self.sharing, self.hosts = workload, sharing, hosts
        self.eager, self.handshake, self.overhead = eager_bytes, handshake, overhead_ns
        self.local_rate, self.local_latency = local_gbps / 8, local_latency_ns
        self.capacity = {link: rate / 8 for link, rate in enumerate(fabric.link_rate_gbps)}
        self.ways: dict[int, dict[int, Fraction]] = {}
        self.latency: dict[int, float] = {}
        for op in range(workload.num_ops):
            kind = Kind(int(workload.kind[op]))
            answers = kind == Kind.RECV and handshake
            answers = answers and workload.size_bytes[workload.match[op]] > eager_bytes
            if kind not in (Kind.SEND, Kind.PUT) and not answers:
                continue
            ends = hosts[workload.rank[op]], hosts[workload.peer[op]]
            if ends[0] != ends[1]:
                self.ways[op] = parts_of(fabric, routes, *ends)
                cables = sum(
                    float(part) * fabric.cable_latency_ns[link // 2]
                    for link, part in self.ways[op].items()
                )
                hops = float(sum(self.ways[op].values()))
                self.latency[op] = cables + (hops - 1) * switch_latency_ns
        # What the contention graph's model shares beyond adapters: links that some route crosses
        # neither first nor last.
        self.inner = [False] * fabric.num_links
        for way in self.ways.values():
            for link in list(way)[1:-1]:
                self.inner[link] = True
        self.now, self.turn = 0.0, itertools.count()
        self.queue: list[tuple[float, int, int, int, Callable[[], None]]] = []
        self.moving: dict[int, Moving] = {}
        #: What each queue pair (source rank, destination rank) has to send, and what that is.
        self.lines: dict[tuple[int, int], deque[tuple[int, str]]] = defaultdict(deque)
        self.mtu, self.header = mtu_bytes, header_bytes
        #: Until when the copies between two ranks of one host last.
        self.copied: dict[tuple[int, int], float] = defaultdict(float)
        #: When an adapter may send the next packet.
        self.packet_at: dict[int, float] = defaultdict(float)
        #: Messages whose turn in their queue pair has come.
        self.begun: set[int] = set()
        #: What requests and answers let begin now, as they came; and what is posted now.
        self.let_begin: list[tuple[int, str]] = []
        self.joining: list[tuple[int, str]] = []
        #: Latest arrival of what a queue pair has sent.
        self.latest: dict[tuple[int, int], float] = defaultdict(float)
        self.free: dict[tuple[int, int], float] = defaultdict(float)
        self.started: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.left: dict[int, float] = {}
        self.arrived: dict[int, float] = {}
        self.asked: dict[int, float] = {}
        #: When the request of a rendez-vous has arrived.
        self.requested: dict[int, float] = {}
        self.waits: dict[int, set[tuple[int, bool]]] = {}
        self.wake: dict[tuple[int, bool], list[int]] = defaultdict(list)
        for op in range(workload.num_ops):
            run = range(workload.dep_offset[op], workload.dep_offset[op + 1])
            flags = workload.dep_on_start
            self.waits[op] = {
                (int(workload.dep[at]), bool(flags[at]) if len(flags) else False) for at in run
            }
            for event in self.waits[op]:
                self.wake[event].append(op)

    def at(self, time: float, action: Callable[[], None], first: int | None = None) -> None:
        """Do something later; what waited for a processor goes first, in program order."""
        order = (0, first) if first is not None else (1, 0)
        heapq.heappush(self.queue, (max(time, self.now), *order, next(self.turn), action))

    def run(self) -> None:
        """To the end."""
        for op, events in self.waits.items():
            if not events:
                self.at(self._release(op), lambda op=op: self.start(op))
        while self.queue or self.moving:
            self._rates()
            ends = {op: self.now + flow.left / flow.rate for op, flow in self.moving.items()}
            time = min([*ends.values(), *(event[0] for event in self.queue[:1])])
            for flow in self.moving.values():
                flow.left -= flow.rate * (time - self.now)
            self.now = time
            slack = 1e-12 * time + 1e-9
            for op in sorted(op for op, end in ends.items() if end <= time + slack):
                del self.moving[op]
                self.has_left(op, "data")
                self._next(op)
            while (
                self.let_begin or self.joining or (self.queue and self.queue[0][0] <= time + slack)
            ):
                while self.queue and self.queue[0][0] <= time + slack:
                    heapq.heappop(self.queue)[-1]()
                self._join()

    def _rates(self) -> None:
        if self.sharing == "maxmin":
            flows = {op: flow.way for op, flow in self.moving.items()}
            used = {link for flow in self.moving.values() for link in flow.way}
            capacity = {link: Fraction(self.capacity[link]) for link in used}
            for op, rate in max_min_rates(capacity, flows).items():
                self.moving[op].rate = float(rate)
        elif self.sharing == "penalty":
            ends = {
                op: [self.hosts[rank] for rank in (self.work.rank[op], self.work.peer[op])]
                for op in self.moving
            }
            graph = [
                penalty.Flow(*ends[op], {link: float(part) for link, part in flow.way.items()})
                for op, flow in self.moving.items()
            ]
            capacities = [self.capacity[link] for link in range(len(self.capacity))]
            found = penalty.rates(graph, capacities, self.inner) if graph else []
            for flow, rate in zip(self.moving.values(), found, strict=True):
                flow.rate = rate
        else:
            for flow in self.moving.values():
                flow.rate = min(self.capacity[link] / part for link, part in flow.way.items())

    def _release(self, op: int) -> float:
        return float(self.work.release_ns[op]) if len(self.work.release_ns) else 0.0

    def _tell(self, op: int, start: bool) -> None:
        for other in self.wake[op, start]:
            self.waits[other].discard((op, start))
            if not self.waits[other]:
                self.at(self._release(other), lambda op=other: self.start(op))

    def start(self, op: int) -> None:
        """All that an operation waited for is there."""
        work, kind = self.work, Kind(int(self.work.kind[op]))
        takes = float(work.duration_ns[op]) if kind == Kind.CALC else 0.0
        if kind in (Kind.SEND, Kind.PUT):
            takes = self.overhead
        processor = (int(work.rank[op]), int(work.cpu[op]) if len(work.cpu) else 0)
        if takes and not self._occupied(processor, takes, op, lambda: self.start(op)):
            return
        self.started[op] = self.now
        self._tell(op, True)
        then = self.now + takes
        if kind in (Kind.SEND, Kind.PUT):
            large = work.size_bytes[op] > self.eager
            if kind == Kind.SEND and large:
                self.asked[op] = then
                self._meet(op)
            else:
                if kind == Kind.SEND:
                    self.at(then, lambda: self.end(op))
                self.at(then, lambda: self.send(op, "data"))
        elif kind == Kind.RECV:
            send = int(work.match[op])
            if work.size_bytes[send] > self.eager:
                self._meet(send)
            else:
                self._take(send)
        else:
            self.at(then, lambda: self.end(op))

    def _meet(self, send: int, comes: bool = False) -> None:
        """One more step of a rendez-vous, if both sides have come that far."""
        receive = int(self.work.match[send])
        if send in self.asked and self.handshake and send in self.ways:
            if send not in self.requested:
                self.requested[send] = float("inf")
                self.at(self.asked[send], lambda: self.send(send, "request"))
            elif self.requested[send] <= self.now and receive in self.started:
                if comes:
                    self.let_begin.append((receive, "answer"))
                elif self.requested[send] == self.now:
                    self.at(self.now, lambda: self.let_begin.append((receive, "answer")))
                else:
                    self.at(self.now, lambda: self.send(receive, "answer"))
        elif send in self.asked and receive in self.started:
            latency = self.local_latency if self.handshake else 0.0
            begin = max(self.asked[send] + latency, self.started[receive]) + latency
            self.at(begin, lambda: self.send(send, "data"))

    def send(self, op: int, what: str) -> None:
        """Put data, a request or an answer into the line of its queue pair."""
        if op not in self.ways:
            self.left[op] = max(self.now, self.copied[self._pair(op)])
            there = self.left[op] + float(self.work.size_bytes[op]) / self.local_rate
            self.copied[self._pair(op)] = there
            self.at(there, lambda: self.has_left(op, what))
            return
        self.joining.append((op, what))

    def _join(self) -> None:
        """What is posted at one moment goes into the lines in program order, before the rest."""
        joining, self.joining = sorted(self.joining) + self.let_begin, []
        self.let_begin = []
        for op, what in joining:
            line = self.lines[self._pair(op)]
            line.append((op, what))
            if len(line) == 1:
                self._leave()

    def _pair(self, op: int) -> tuple[int, int]:
        return int(self.work.rank[op]), int(self.work.peer[op])

    def _next(self, op: int) -> None:
        """The first of a line has left."""
        self.lines[self._pair(op)].popleft()
        self._leave()

    def _leave(self) -> None:
        """Begin with what is first in its line and has not begun."""
        for line in list(self.lines.values()):
            if not line or line[0][0] in self.begun:
                continue
            op, what = line[0]
            if what == "data":
                self.begun.add(op)
                begin = self.now
                if self._packet(op):
                    # A packet leaves whole, behind those of its adapter's other queue pairs.
                    adapter = self.hosts[self.work.rank[op]]
                    first = next(iter(self.ways[op]))
                    lasts = float(self._wire(op) * self.ways[op][first])
                    begin = max(begin, self.packet_at[adapter])
                    self.packet_at[adapter] = begin + lasts / self.capacity[first]
                self.at(begin, lambda op=op: self._flow(op))
                continue
            self.has_left(op, what)
            self._next(op)

    def _flow(self, op: int) -> None:
        self.left[op] = self.now
        if not self._wire(op):
            self.has_left(op, "data")
            self._next(op)
            return
        self.moving[op] = Moving(self.ways[op], float(self._wire(op)))

    def _packet(self, op: int) -> bool:
        """Whether a message leaves whole."""
        return self.sharing != "none" and 0 < self.mtu >= int(self.work.size_bytes[op])

    def _wire(self, op: int) -> int:
        """Bytes on the wire."""
        return int(self.work.size_bytes[op]) + self._packet(op) * self.header

    def has_left(self, op: int, what: str) -> None:
        """The last byte has left."""
        put = self.work.kind[op] == Kind.PUT
        if what == "data" and (put or self.work.size_bytes[op] > self.eager):
            self.end(op)
        time = self.now + self.latency.get(op, self.local_latency)
        if op in self.ways:
            time = max(time, self.latest[self._pair(op)])
            self.latest[self._pair(op)] = time
        self.at(time, lambda: self.arrive(op, what))

    def arrive(self, op: int, what: str) -> None:
        """The last byte is there."""
        if what == "request":
            self.requested[op] = self.now
            self._meet(op, comes=True)
            return
        if what == "answer":
            self.let_begin.append((int(self.work.match[op]), "data"))
            return
        self.arrived[op] = self.now
        if self.work.kind[op] == Kind.SEND:
            self._take(op)

    def _take(self, send: int) -> None:
        receive = int(self.work.match[send])
        if send not in self.arrived or receive not in self.started:
            return
        processor = (int(self.work.rank[receive]), 0)
        if self.overhead and not self._occupied(
            processor, self.overhead, receive, lambda: self._take(send)
        ):
            return
        self.at(self.now + self.overhead, lambda: self.end(receive))

    def _occupied(
        self, processor: tuple[int, int], takes: float, op: int, again: Callable[[], None]
    ) -> bool:
        """Take a processor if it is free; try again when it may be, if not."""
        if self.free[processor] > self.now + 1e-12 * self.now + 1e-9:
            self.at(self.free[processor], again, op)
            return False
        self.free[processor] = self.now + takes
        return True

    def end(self, op: int) -> None:
        """An operation is over."""
        self.ended[op] = self.now
        self._tell(op, False)
