"""Reference implementation of the packet level's program: callbacks around the flit network.

Independent of the kernel. Numbers in brackets are those of the rules in docs/packet-level.md.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

import numpy as np

from tests.reference import packet_network
from tests.reference.packet_layout import Message, lay, ps
from tests.reference.packet_state import EVENTS, REPORTS
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.common.host_parameters import HostParameters, Overhead
from weft.sim.packet.hardware import Hardware
from weft.workload import Kind, Workload

# Kinds of events of the program, in their order at one instant [24 b].
PROCESSOR, RELEASE, END, JOIN, ARRIVE = range(5)
# Messages of an operation: request and answer of a rendezvous, and the data.
REQUEST, ANSWER, DATA = range(3)

STANDARD = Hardware()
NOTHING_KNOWN = HostParameters()


class PlainPackets:
    """One run; `posted`, `ended`, `left` and `arrived` hold times in ps by operation."""

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        workload: Workload,
        hosts: Sequence[int],
        *,
        hardware: Hardware = STANDARD,
        policy: str = "ecmp",
        gap_ps: int = 10_000_000,
        entries: int = 4096,
        qps: int = 1,
        eager_bytes: int = 16384,
        handshake: bool = True,
        rendezvous: str = "get",
        overhead_ns: float = 0.0,
        host_parameters: HostParameters = NOTHING_KNOWN,
        local_gbps: float = 100.0,
        local_latency_ns: float = 200.0,
        lid_offset: Sequence[int] | None = None,
        ports: str = "first",
        seed: int = 0,
        flit_bytes: int = 64,
    ):
        self.work, self.hosts, self.hardware = workload, [int(host) for host in hosts], hardware
        self.eager, self.handshake, self.parts = eager_bytes, handshake, host_parameters.overhead
        if not self.parts or overhead_ns:
            self.parts = (Overhead(ns=overhead_ns or 0.0),)
        self.rendezvous = rendezvous
        self.local_gbps, self.local_latency = local_gbps, ps(local_latency_ns)
        self.copied: dict[tuple[int, int], int] = defaultdict(int)
        self.adapter = ps(hardware.adapter_latency_ns or 0.0)
        self.qps = qps
        self.now = 0
        self.ready: deque[int] = deque()
        self.events: list[tuple[int, int, int, int, Callable[[], None]]] = []
        self.sequence = 0
        self.busy: dict[tuple[int, int], int] = defaultdict(int)
        self.waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.posted: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.arrived: dict[int, int] = {}
        self.known: set[int] = set()
        self.requested: set[int] = set()
        self.needs: dict[int, int] = {}
        self.wake: dict[tuple[int, bool], list[int]] = defaultdict(list)
        flags = workload.dep_on_start
        for op in range(workload.num_ops):
            run = range(workload.dep_offset[op], workload.dep_offset[op + 1])
            self.needs[op] = len(run)
            for at in run:
                on_start = bool(flags[at]) if len(flags) else False
                self.wake[int(workload.dep[at]), on_start].append(op)
        # Operation and part of each network message; undelivered messages of each queue pair.
        self.message_part: list[tuple[int, int]] = []
        self.number: dict[tuple[int, int], int] = {}
        self.order: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.complete: set[int] = set()
        self.net = lay(
            fabric, routes, hardware, self._messages(lid_offset), policy=policy, gap_ps=gap_ps,
            entries=entries, seed=seed, ports=ports, flit_bytes=flit_bytes,
        )  # fmt: skip

    def _messages(self, lid_offset: Sequence[int] | None) -> list[Message]:
        """Return all messages between hosts; the rank of the receive sends the answer."""
        work, ends = self.work, []
        for op in work.messages.tolist():
            rank, peer = int(work.rank[op]), int(work.peer[op])
            if self.hosts[rank] == self.hosts[peer]:
                continue
            asks = self._large(op) and self.handshake
            for part in (REQUEST, ANSWER, DATA) if asks else (DATA,):
                self.number[op, part] = len(self.message_part)
                self.message_part.append((op, part))
                ends.append((peer, rank) if part == ANSWER else (rank, peer))
        # Queue pairs are in order of (sender, receiver). Operations from one rank to another take
        # the queue pairs of these ranks in rotation [23].
        first = {pair: self.qps * at for at, pair in enumerate(sorted(set(ends)))}
        owner = [self._owner(op, part) for op, part in self.message_part]
        operations_of: dict[tuple[int, int], list[int]] = defaultdict(list)
        for op, pair in sorted(set(zip(owner, ends, strict=True))):
            operations_of[pair].append(op)
        messages = []
        for (op, part), pair, number in zip(self.message_part, ends, owner, strict=True):
            name = first[pair] + operations_of[pair].index(number) % self.qps
            source, target = (self.hosts[end] for end in pair)
            qp = source if self.hardware.queue_pairs == "host" else name
            asks = self._large(op) and self.handshake
            further = {"get": asks and part == DATA, "put": part != DATA, "put-shared": False}
            qp = 2 * qp + further[self.rendezvous]  # [21]
            size = int(work.size_bytes[op]) if part == DATA else self.hardware.control_bytes
            offset = int(lid_offset[op]) if lid_offset is not None and part != ANSWER else 0
            messages.append(Message(qp, name, size, source, target, offset))
        return messages

    def _owner(self, op: int, part: int) -> int:
        """Return the operation of a message; it is an operation of the sending rank [24]."""
        return int(self.work.match[op]) if part == ANSWER else op

    def _large(self, op: int) -> bool:
        return self.work.kind[op] == Kind.SEND and self.work.size_bytes[op] > self.eager

    def _local(self, num_bytes: int) -> int:
        lasts = int(np.floor(8000.0 * num_bytes / self.local_gbps + 0.5))
        return max(lasts, 1) if num_bytes else 0

    # -- time ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end, or until no event is left."""
        for op, count in self.needs.items():
            if count == 0:
                self._allow(op)
        while True:
            self._instant()
            times = [event[0] for event in self.events[:1]]
            if self.net.number[EVENTS]:
                times.append(self.net.heap_time[0])
            if not times:
                break
            packet_network.count_blocked(self.net, self.now, min(times))
            self.now = min(times)
        for (op, part), message in self.number.items():
            if part == DATA and self.net.msg_left[message] >= 0:
                self.left[op] = self.net.msg_left[message]

    def _instant(self) -> None:
        """Process all events of this instant [24]."""
        while True:
            packet_network.advance(self.net, self.now)
            self._collect_reports()
            while self.events and self.events[0][0] == self.now:
                heapq.heappop(self.events)[-1]()
            while self.ready:
                self._begin(self.ready.popleft())
            packet_network.grant(self.net, self.now)
            coming = self.net.number[EVENTS] and self.net.heap_time[0] == self.now
            if not coming and not (self.events and self.events[0][0] == self.now):
                return

    def _later(self, time: int, kind: int, number: int, action: Callable[[], None]) -> None:
        """Schedule an action, or run it now if its time is now."""
        if time == self.now:
            action()
            return
        self._note(time, kind, number, action)

    def _note(self, time: int, kind: int, number: int, action: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (time, kind, number, self.sequence, action))

    # -- operations ------------------------------------------------------------------------------

    def _allow(self, op: int) -> None:
        """Release an operation whose dependencies are satisfied."""
        release = ps(self.work.release_ns[op]) if len(self.work.release_ns) else 0
        if release > self.now:
            self._note(release, RELEASE, op, lambda: self.ready.append(op))
        else:
            self.ready.append(op)

    def _wake_dependents(self, op: int, start: bool) -> None:
        for other in sorted(self.wake[op, start]):
            self.needs[other] -= 1
            if self.needs[other] == 0:
                self._allow(other)

    def _processor(self, op: int) -> tuple[int, int]:
        return int(self.work.rank[op]), int(self.work.cpu[op]) if len(self.work.cpu) else 0

    def _takes(self, op: int) -> int:
        """Return how long an operation occupies its processor when it begins."""
        kind = self.work.kind[op]
        if kind == Kind.CALC:
            return ps(self.work.duration_ns[op])
        return self._overhead(op) if kind in (Kind.SEND, Kind.PUT) else 0

    def _overhead(self, op: int) -> int:
        """Return the processor's time for a message, by its size [21]."""
        send = int(self.work.match[op]) if self.work.kind[op] == Kind.RECV else op
        part = self._part(send)
        return ps(part.ns + part.ns_per_byte * int(self.work.size_bytes[send]))

    def _part(self, send: int) -> Overhead:
        return [part for part in self.parts if part.from_bytes <= self.work.size_bytes[send]][-1]

    def _must_wait(self, op: int) -> bool:
        """Queue an operation if its processor is busy or has a queue; return whether it did."""
        processor = self._processor(op)
        queue = self.waiting[processor]
        if not queue and self.busy[processor] <= self.now:
            return False
        heapq.heappush(queue, op)
        if len(queue) == 1:
            self._schedule_processor(processor)
        return True

    def _schedule_processor(self, processor: tuple[int, int]) -> None:
        number = processor[0] << 8 | processor[1]
        self._note(self.busy[processor], PROCESSOR, number, lambda: self._next(processor))

    def _next(self, processor: tuple[int, int]) -> None:
        """Give a free processor to the first waiting operation in program order."""
        op = heapq.heappop(self.waiting[processor])
        if self.work.kind[op] == Kind.RECV:
            self._process_receive(op)
        else:
            self._start(op)
        if self.waiting[processor]:
            self._schedule_processor(processor)

    def _begin(self, op: int) -> None:
        if self._takes(op) == 0 or not self._must_wait(op):
            self._start(op)

    def _start(self, op: int) -> None:
        """Begin an operation, which has its processor if it needs one."""
        kind, takes = Kind(int(self.work.kind[op])), self._takes(op)
        if takes:
            self.busy[self._processor(op)] = self.now + takes
        self.posted[op] = self.now
        self._wake_dependents(op, True)
        if kind == Kind.RECV:
            self._receive(op)
        elif self._large(op):
            self._start_rendezvous(op)
        elif kind in (Kind.SEND, Kind.PUT):
            if kind == Kind.SEND:
                self._later(self.now + takes, END, op, lambda: self._end(op))
            self._post(self.now + takes, op, DATA)
        else:
            self._later(self.now + takes, END, op, lambda: self._end(op))

    def _end(self, op: int) -> None:
        self.ended[op] = self.now
        self._wake_dependents(op, False)

    def _receive(self, op: int) -> None:
        send = int(self.work.match[op])
        if not self._large(send):
            if send in self.known:
                self._received(op)
        elif self.handshake:
            if send in self.requested:
                self._post(self.now, send, ANSWER)
        elif send in self.posted:
            self._post(max(self.now, self.posted[send] + self._overhead(send)), send, DATA)

    def _start_rendezvous(self, op: int) -> None:
        """Begin a rendezvous [21]."""
        if self.handshake:
            self._post(self.now + self._overhead(op), op, REQUEST)
        elif int(self.work.match[op]) in self.posted:
            self._post(self.now + self._overhead(op), op, DATA)

    def _received(self, op: int) -> None:
        """Complete a posted receive whose message has arrived."""
        if self._overhead(op) == 0:
            self._end(op)
        elif not self._must_wait(op):
            self._process_receive(op)

    def _process_receive(self, op: int) -> None:
        self.busy[self._processor(op)] = self.now + self._overhead(op)
        self._note(self.now + self._overhead(op), END, op, lambda: self._end(op))

    # -- messages --------------------------------------------------------------------------------

    def _post(self, time: int, op: int, part: int) -> None:
        """Post a message; it joins its queue pair after the adapter's latency [20]."""
        if (op, part) in self.number:
            message = self.number[op, part]
            time += self.adapter + (ps(self._part(op).latency_ns) if part == DATA else 0)
            self._later(time, JOIN, self._owner(op, part), lambda: self._join(message))
        else:
            self._later(time, JOIN, self._owner(op, part), lambda: self._copy(op, part))

    def _copy(self, op: int, part: int) -> None:
        """Begin a message within a host [21]."""
        if part == DATA:
            pair = int(self.work.rank[op]), int(self.work.peer[op])
            self.left[op] = max(self.now, self.copied[pair])
            complete = self.left[op] + self._local(int(self.work.size_bytes[op]))
            self.copied[pair] = complete
            self._later(complete, END, op, lambda: self._copied(op))
            return
        complete, number = self.now + self.local_latency, self._owner(op, part)
        self._later(complete, ARRIVE, number, lambda: self._known(op, part))

    def _copied(self, op: int) -> None:
        if self.work.kind[op] == Kind.PUT or self._large(op):
            self._end(op)
        self._later(self.now + self.local_latency, ARRIVE, op, lambda: self._known(op, DATA))

    def _join(self, message: int) -> None:
        self._undelivered(message).append(message)
        packet_network.join(self.net, message)

    def _undelivered(self, message: int) -> list[int]:
        """Return the undelivered messages of the same queue pair and ranks, in order [19]."""
        op, part = self.message_part[message]
        ends = int(self.work.rank[op]), int(self.work.peer[op])
        return self.order[self.net.msg_qp[message], *(ends[::-1] if part == ANSWER else ends)]

    def _collect_reports(self) -> None:
        """Process the network's reports: messages sent, and messages arrived in order [19]."""
        reports = self.net.reports[: self.net.number[REPORTS]]
        self.net.number[REPORTS] = 0
        for report in reports:
            message, arrived = divmod(report, 2)
            op, part = self.message_part[message]
            if not arrived:
                if part == DATA and (self.work.kind[op] == Kind.PUT or self._large(op)):
                    self._note(self.now, END, op, lambda op=op: self._end(op))
                continue
            self.complete.add(message)
            line = self._undelivered(message)
            while line and line[0] in self.complete:
                self._deliver(line.pop(0))

    def _deliver(self, message: int) -> None:
        op, part = self.message_part[message]
        time, number = self.now + self.adapter, self._owner(op, part)
        self._note(time, ARRIVE, number, lambda: self._known(op, part))

    def _known(self, op: int, part: int) -> None:
        """Process the arrival of a message at its rank [20]."""
        if part == DATA:
            self.arrived[op] = self.now
        receive = int(self.work.match[op])
        if part == REQUEST:
            self.requested.add(op)
            if receive in self.posted:
                self._post(self.now, op, ANSWER)
        elif part == ANSWER:
            self._post(self.now, op, DATA)
        elif self.work.kind[op] == Kind.SEND:
            self.known.add(op)
            if receive in self.posted:
                self._received(receive)
