"""Reference implementation of the flow level: a queue of callbacks; each step computes all rates.

Independent of the kernel: dependencies are sets, paths are followed hop by hop through forwarding
tables, source routes or candidates, and rates come from the reference of the sharing model.
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
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.sim.common.host_parameters import HostParameters, Overhead
from weft.workload import Kind, Workload


@dataclass
class Moving:
    """A message that is being sent."""

    #: Link to the part of the message that crosses it.
    path: dict[int, Fraction]
    left: float
    rate: float = 0.0


def path_of(fabric: Fabric, routes: TableRoutes, source: int, target: int) -> list[int]:
    """Return the links from one host's first port to another's, by the forwarding tables."""
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
    """Return the links from host to host in order, each with the part of a message on it."""
    one = Fraction(1)
    if isinstance(routes, TableRoutes):
        return dict.fromkeys(path_of(fabric, routes, source, target), one)
    start, end = (int(fabric.host_endpoint[host]) for host in (source, target))
    links: dict[int, Fraction] = {}
    row = int(fabric.graph.node_row[fabric.endpoint_node[start]])
    if row < 0:
        slot = fabric.port_offset[fabric.endpoint_node[start]] + fabric.endpoint_port[start] - 1
        links[int(fabric.port_link[slot])] = one
        row = int(fabric.graph.node_row[fabric.link_to[fabric.port_link[slot]]])
    into = int(fabric.graph.destination_link[end])
    if isinstance(routes, PathRoutes):
        path = routes.pair.tolist().index(start * fabric.num_host_endpoints + end)
        for edge in routes.edge[routes.offset[path] : routes.offset[path + 1]]:
            links[int(fabric.graph.edge_link[edge])] = one
    elif isinstance(routes, CandidateRoutes):
        goal = int(fabric.graph.destination_row[end])
        parts = {row: one}
        while parts.keys() - {goal}:
            # All candidates are on minimal paths here, so rows are processed in rounds.
            further: dict[int, Fraction] = {}
            for at, part in parts.items():
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
            parts = further
    if into >= 0:
        links[into] = one
    return links


class PlainFlow:
    """One run; `ended`, `left` and `arrived` hold times in ns by operation."""

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
        rendezvous: str,
        overhead_ns: float | None,
        host_parameters: HostParameters,
        mtu_bytes: int,
        header_bytes: int,
        switch_latency_ns: float,
        local_gbps: float,
        local_latency_ns: float,
    ):
        self.work, self.sharing, self.hosts = workload, sharing, hosts
        self.eager, self.handshake, self.parts = eager_bytes, handshake, host_parameters.overhead
        if overhead_ns is not None or not self.parts:
            self.parts = (Overhead(ns=overhead_ns or 0.0),)
        self.rendezvous = rendezvous
        self.local_rate, self.local_latency = local_gbps / 8, local_latency_ns
        self.capacity = {link: rate / 8 for link, rate in enumerate(fabric.link_rate_gbps)}
        if host_parameters.adapter_gbps:
            payload = host_parameters.adapter_gbps / 8 * mtu_bytes / (mtu_bytes + header_bytes)
            for link, (a, b) in enumerate(zip(fabric.link_from, fabric.link_to, strict=True)):
                if max(a, b) >= fabric.num_switches:
                    self.capacity[link] = min(self.capacity[link], payload)
        self.paths: dict[int, dict[int, Fraction]] = {}
        self.latency: dict[int, float] = {}
        for op in range(workload.num_ops):
            kind = Kind(int(workload.kind[op]))
            answers = kind == Kind.RECV and handshake
            answers = answers and workload.size_bytes[workload.match[op]] > eager_bytes
            if kind not in (Kind.SEND, Kind.PUT) and not answers:
                continue
            ends = hosts[workload.rank[op]], hosts[workload.peer[op]]
            if ends[0] != ends[1]:
                self.paths[op] = parts_of(fabric, routes, *ends)
                cables = sum(
                    float(part) * fabric.cable_latency_ns[link // 2]
                    for link, part in self.paths[op].items()
                )
                hops = float(sum(self.paths[op].values()))
                self.latency[op] = cables + (hops - 1) * switch_latency_ns
                self.latency[op] += 2 * (host_parameters.adapter_latency_ns or 0.0)
        # Links inside some path (neither its first nor its last), which the contention-graph
        # model shares besides adapters.
        self.inner = [False] * fabric.num_links
        for path in self.paths.values():
            for link in list(path)[1:-1]:
                self.inner[link] = True
        self.now, self.counter = 0.0, itertools.count()
        self.queue: list[tuple[float, int, int, int, Callable[[], None]]] = []
        self.moving: dict[int, Moving] = {}
        #: Messages queued in each line (source rank, destination rank, whether it is the further
        #: one of these ranks), and their kinds.
        self.lines: dict[tuple[int, int, bool], deque[tuple[int, str]]] = defaultdict(deque)
        self.mtu, self.header = mtu_bytes, header_bytes
        #: End of the last copy between two ranks of one host.
        self.copied: dict[tuple[int, int], float] = defaultdict(float)
        #: Earliest start of an adapter's next packet.
        self.packet_at: dict[int, float] = defaultdict(float)
        #: Messages that have reached the front of their line.
        self.begun: set[int] = set()
        #: Messages released by requests and answers at this moment; messages posted at this moment.
        self.released: list[tuple[int, str]] = []
        self.joining: list[tuple[int, str]] = []
        #: Latest arrival of the messages of a line.
        self.latest: dict[tuple[int, int, bool], float] = defaultdict(float)
        self.free: dict[tuple[int, int], float] = defaultdict(float)
        self.started: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.left: dict[int, float] = {}
        self.arrived: dict[int, float] = {}
        self.ready_at: dict[int, float] = {}
        #: Arrival of the request of a rendezvous.
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
        """Schedule an action.

        Of actions at one time, those with `first` (operations that waited for a processor) come
        first, in program order.
        """
        order = (0, first) if first is not None else (1, 0)
        heapq.heappush(self.queue, (max(time, self.now), *order, next(self.counter), action))

    def run(self) -> None:
        """Run to the end."""
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
                self._next(op, "data")
            while (
                self.released or self.joining or (self.queue and self.queue[0][0] <= time + slack)
            ):
                while self.queue and self.queue[0][0] <= time + slack:
                    heapq.heappop(self.queue)[-1]()
                self._join()

    def _rates(self) -> None:
        if self.sharing == "maxmin":
            flows = {op: flow.path for op, flow in self.moving.items()}
            used = {link for flow in self.moving.values() for link in flow.path}
            capacity = {link: Fraction(self.capacity[link]) for link in used}
            for op, rate in max_min_rates(capacity, flows).items():
                self.moving[op].rate = float(rate)
        elif self.sharing == "penalty":
            ends = {
                op: [self.hosts[rank] for rank in (self.work.rank[op], self.work.peer[op])]
                for op in self.moving
            }
            graph = [
                penalty.Flow(*ends[op], {link: float(part) for link, part in flow.path.items()})
                for op, flow in self.moving.items()
            ]
            capacities = [self.capacity[link] for link in range(len(self.capacity))]
            rates = penalty.rates(graph, capacities, self.inner) if graph else []
            for flow, rate in zip(self.moving.values(), rates, strict=True):
                flow.rate = rate
        else:
            for flow in self.moving.values():
                flow.rate = min(self.capacity[link] / part for link, part in flow.path.items())

    def _release(self, op: int) -> float:
        return float(self.work.release_ns[op]) if len(self.work.release_ns) else 0.0

    def _wake_dependents(self, op: int, start: bool) -> None:
        for other in self.wake[op, start]:
            self.waits[other].discard((op, start))
            if not self.waits[other]:
                self.at(self._release(other), lambda op=other: self.start(op))

    def start(self, op: int) -> None:
        """Start an operation whose dependencies are satisfied."""
        work, kind = self.work, Kind(int(self.work.kind[op]))
        takes = float(work.duration_ns[op]) if kind == Kind.CALC else 0.0
        if kind in (Kind.SEND, Kind.PUT):
            takes = self.overhead(op)
        processor = (int(work.rank[op]), int(work.cpu[op]) if len(work.cpu) else 0)
        if takes and not self._occupied(processor, takes, op, lambda: self.start(op)):
            return
        self.started[op] = self.now
        self._wake_dependents(op, True)
        then = self.now + takes
        if kind in (Kind.SEND, Kind.PUT):
            large = work.size_bytes[op] > self.eager
            if kind == Kind.SEND and large:
                self.ready_at[op] = then
                self._advance_rendezvous(op)
            else:
                if kind == Kind.SEND:
                    self.at(then, lambda: self.end(op))
                self.at(then, lambda: self.send(op, "data"))
        elif kind == Kind.RECV:
            send = int(work.match[op])
            if work.size_bytes[send] > self.eager:
                self._advance_rendezvous(send)
            else:
                self._take(send)
        else:
            self.at(then, lambda: self.end(op))

    def _advance_rendezvous(self, send: int, on_arrival: bool = False) -> None:
        """Advance a rendezvous by one step if both sides are ready for it."""
        receive = int(self.work.match[send])
        if send in self.ready_at and self.handshake and send in self.paths:
            if send not in self.requested:
                self.requested[send] = float("inf")
                self.at(self.ready_at[send], lambda: self.send(send, "request"))
            elif self.requested[send] <= self.now and receive in self.started:
                if on_arrival:
                    self.released.append((receive, "answer"))
                elif self.requested[send] == self.now:
                    self.at(self.now, lambda: self.released.append((receive, "answer")))
                else:
                    self.at(self.now, lambda: self.send(receive, "answer"))
        elif send in self.ready_at and receive in self.started:
            latency = self.local_latency if self.handshake else 0.0
            begin = max(self.ready_at[send] + latency, self.started[receive]) + latency
            self.at(begin, lambda: self.send(send, "data"))

    def send(self, op: int, what: str) -> None:
        """Append data, a request or an answer to its line.""" ""
        if op not in self.paths:
            self.left[op] = max(self.now, self.copied[self._pair(op)])
            done = self.left[op] + float(self.work.size_bytes[op]) / self.local_rate
            self.copied[self._pair(op)] = done
            self.at(done, lambda: self.has_left(op, what))
            return
        later = self._part(op).latency_ns if what == "data" else 0.0
        if later:
            self.at(self.now + later, lambda: self.joining.append((op, what)))
        else:
            self.joining.append((op, what))

    def _join(self) -> None:
        """Queue the messages of this moment: posted ones in program order, then released ones."""
        joining, self.joining = sorted(self.joining) + self.released, []
        self.released = []
        for op, what in joining:
            line = self.lines[self._line(op, what)]
            line.append((op, what))
            if len(line) == 1:
                self._leave()

    def _pair(self, op: int) -> tuple[int, int]:
        return int(self.work.rank[op]), int(self.work.peer[op])

    def _line(self, op: int, what: str) -> tuple[int, int, bool]:
        asked = op in self.requested
        further = {"get": what == "data" and asked, "put": what != "data", "put-shared": False}
        return *self._pair(op), further[self.rendezvous]

    def _next(self, op: int, what: str) -> None:
        """Remove the first message of a line, which has left."""
        self.lines[self._line(op, what)].popleft()
        self._leave()

    def _leave(self) -> None:
        """Start the first message of each line unless it has begun."""
        for line in list(self.lines.values()):
            if not line or line[0][0] in self.begun:
                continue
            op, what = line[0]
            if what == "data":
                self.begun.add(op)
                begin = self.now
                if self._packet(op):
                    # A message of one packet starts when the adapter has sent its earlier packets.
                    adapter = self.hosts[self.work.rank[op]]
                    first = next(iter(self.paths[op]))
                    lasts = float(self._wire(op) * self.paths[op][first])
                    begin = max(begin, self.packet_at[adapter])
                    self.packet_at[adapter] = begin + lasts / self.capacity[first]
                self.at(begin, lambda op=op: self._flow(op))
                continue
            self.has_left(op, what)
            self._next(op, what)

    def _flow(self, op: int) -> None:
        self.left[op] = self.now
        if not self._wire(op):
            self.has_left(op, "data")
            self._next(op, "data")
            return
        self.moving[op] = Moving(self.paths[op], float(self._wire(op)))

    def _packet(self, op: int) -> bool:
        """Return whether a message is sent as a single packet."""
        return self.sharing != "none" and 0 < self.mtu >= int(self.work.size_bytes[op])

    def _wire(self, op: int) -> int:
        """Return the bytes of a message on the wire."""
        return int(self.work.size_bytes[op]) + self._packet(op) * self.header

    def has_left(self, op: int, what: str) -> None:
        """Process the departure of the last byte."""
        put = self.work.kind[op] == Kind.PUT
        if what == "data" and (put or self.work.size_bytes[op] > self.eager):
            self.end(op)
        time = self.now + self.latency.get(op, self.local_latency)
        if op in self.paths:
            line = self._line(op, what)
            self.latest[line] = time = max(time, self.latest[line])
        self.at(time, lambda: self.arrive(op, what))

    def arrive(self, op: int, what: str) -> None:
        """Process the arrival of the last byte."""
        if what == "request":
            self.requested[op] = self.now
            self._advance_rendezvous(op, on_arrival=True)
            return
        if what == "answer":
            send = int(self.work.match[op])
            later = self._part(send).latency_ns
            if later:
                self.at(self.now + later, lambda: self.released.append((send, "data")))
            else:
                self.released.append((send, "data"))
            return
        self.arrived[op] = self.now
        if self.work.kind[op] == Kind.SEND:
            self._take(op)

    def _take(self, send: int) -> None:
        receive = int(self.work.match[send])
        if send not in self.arrived or receive not in self.started:
            return
        processor = (int(self.work.rank[receive]), 0)
        takes = self.overhead(send)
        if takes and not self._occupied(processor, takes, receive, lambda: self._take(send)):
            return
        self.at(self.now + takes, lambda: self.end(receive))

    def overhead(self, send: int) -> float:
        """Return the processor's time for a message, by its size."""
        part = self._part(send)
        return part.ns + part.ns_per_byte * int(self.work.size_bytes[send])

    def _part(self, send: int) -> Overhead:
        return [part for part in self.parts if part.from_bytes <= self.work.size_bytes[send]][-1]

    def _occupied(
        self, processor: tuple[int, int], takes: float, op: int, again: Callable[[], None]
    ) -> bool:
        """Occupy a processor if it is free; otherwise retry when it may be free."""
        if self.free[processor] > self.now + 1e-12 * self.now + 1e-9:
            self.at(self.free[processor], again, op)
            return False
        self.free[processor] = self.now + takes
        return True

    def end(self, op: int) -> None:
        """End an operation."""
        self.ended[op] = self.now
        self._wake_dependents(op, False)
