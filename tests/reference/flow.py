"""Plain twin of the flow level: callbacks in a queue, and all rates worked out anew at every step.

It takes nothing from the kernel: dependencies are sets, ways are walked hop by hop through the
forwarding tables, source routes or candidates, and rates come from the twin of the sharing law.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

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
        for op in np.flatnonzero((workload.kind == Kind.SEND) | (workload.kind == Kind.PUT)):
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
        self.free: dict[tuple[int, int], float] = defaultdict(float)
        self.started: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.left: dict[int, float] = {}
        self.arrived: dict[int, float] = {}
        self.asked: dict[int, float] = {}
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
            for op in [op for op, end in ends.items() if end <= time + slack]:
                del self.moving[op]
                self.has_left(op)
            while self.queue and self.queue[0][0] <= time + slack:
                heapq.heappop(self.queue)[-1]()

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
                self.at(then, lambda: self.leave(op))
        elif kind == Kind.RECV:
            send = int(work.match[op])
            if work.size_bytes[send] > self.eager:
                self._meet(send)
            else:
                self._take(send)
        else:
            self.at(then, lambda: self.end(op))

    def _meet(self, send: int) -> None:
        receive = int(self.work.match[send])
        if send in self.asked and receive in self.started:
            latency = self.latency.get(send, self.local_latency) if self.handshake else 0.0
            begin = max(self.asked[send] + latency, self.started[receive]) + latency
            self.at(begin, lambda: self.leave(send))

    def leave(self, op: int) -> None:
        """The first byte leaves."""
        self.left[op] = self.now
        size = float(self.work.size_bytes[op])
        if op not in self.ways:
            self.at(self.now + size / self.local_rate, lambda: self.has_left(op))
        elif size:
            self.moving[op] = Moving(self.ways[op], size)
        else:
            self.has_left(op)

    def has_left(self, op: int) -> None:
        """The last byte has left."""
        if self.work.kind[op] == Kind.PUT or self.work.size_bytes[op] > self.eager:
            self.end(op)
        latency = self.latency.get(op, self.local_latency)
        self.at(self.now + latency, lambda: self.arrive(op))

    def arrive(self, op: int) -> None:
        """The last byte is there."""
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
