"""State of the packet-level kernel: its arrays, steps, snapshots and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.kernels.packet import calendar, records, view
from weft.kernels.packet import engine as kernel
from weft.kernels.packet.lanes import LIMIT_BYTES
from weft.kernels.packet.net import Adapters, Arbitration, Calendar, Credits, Net, Trace
from weft.kernels.parts import parts, renewed
from weft.kernels.program import operations
from weft.kernels.program.state import Ranks
from weft.kernels.records import aligned, copied, record
from weft.kernels.teams import Team
from weft.sim.common.programs import lay_ranks, split_programs
from weft.sim.common.times import LONGEST_RUN_PS, PS_PER_NS, picoseconds
from weft.sim.keys.run import Answers, KeyRun
from weft.sim.packet.congestion_control import congestion_record, control_state
from weft.sim.packet.connections import Connections
from weft.sim.packet.hardware import Hardware, VlArbitration
from weft.sim.packet.network import PacketNetwork
from weft.sim.packet.partition import Partition, gathered, mailboxes, split
from weft.sim.packet.policies import Policy
from weft.sim.packet.recurrence import Recurrence, recurrence_of
from weft.sim.packet.rolled import PacketWindows
from weft.sim.packet.snapshots import Snapshots
from weft.workload import Workload

if TYPE_CHECKING:
    from weft.sim.packet.fast_forward import FastForward

#: Largest size of all snapshots in memory, bytes.
_SNAPSHOT_BYTES = 2**32
#: Largest number of snapshots: at this number, or if they take too many bytes, every other snapshot
#: is dropped and the time between snapshots doubles.
MAX_SNAPSHOTS = 2000
#: Mean number of events in one bucket of the calendar's wheel when links are busy.
_IN_BUCKET = 6


@dataclass(eq=False)
class PacketRunState:
    """State of a run; see `weft.kernels.packet.engine` for the arrays.

    `nets` and `programs` are the state of each part of `cut`, which the `team` simulates. Of a
    rolled workload, they have the operations of one of its `windows`.
    `cut_short` is True if the last step ended before its number of instants; `kept` is the state of
    the policy's kernels, and `arguments` are the nets and the programs as the last step had them.
    """

    nets: list[Net]
    programs: list[Ranks]
    num_ops: int
    num_messages: int
    cut: Partition
    team: Team
    snapshot_ps: int
    next_look: int
    cut_short: bool = False
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    keyed: KeyRun | None = None
    windows: PacketWindows | None = None
    recurrence: Recurrence | None = None
    fast_forward: FastForward | None = None
    kept: Any = None
    arguments: list[list[Any]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        workload: Workload,
        network: PacketNetwork,
        connections: Connections,
        hardware: Hardware,
        policy: Policy,
        options: Mapping[str, Any],
        lanes: int,
        traced: NDArray[np.uint8],
        cut: Partition,
        keyed: KeyRun | None = None,
        windows: PacketWindows | None = None,
    ) -> PacketRunState:
        """Return the state at time 0; with `windows`, `workload` is the first of them."""
        links, topology = network.num_links, network.topology
        changes = keyed is not None and keyed.rules.scheduled
        reorders = policy.reorders or connections.several_paths or changes
        ranks = lay_ranks(workload, connections.route, options, changes)
        if windows is not None:
            ranks = windows.begun(ranks)
        if keyed is not None:
            keyed.mark(ranks.sends, ranks.left)
        snapshot_ps = 0
        if options["snapshot_ns"] is not None:
            snapshot_ps = int(picoseconds(options["snapshot_ns"]))
        slots = 4 * links // cut.parts + 1024
        shift = _shift(network, hardware.mtu_bytes + hardware.header_bytes, cut.parts)
        team = Team(cut.parts)
        net = Net(
            rules=_rules(network, hardware, policy, options, lanes, connections, reorders),
            count=record(records.COUNT, fault_row=-1, mail_ps=records.NEVER),
            topology=topology._replace(links=_copied(topology.links)),
            **_events(slots, shift),
            arbitration=arbitration(hardware.vl_arbitration, links),
            adapters=_adapters(connections, ranks.sends, reorders, links, keyed is not None),
            tables=connections.message_routes.tables,
            trace=Trace(
                traced=traced,
                front_ps=np.zeros(slots if len(traced) else 0, dtype=np.int64),
                hops=np.zeros(1024 if len(traced) else 0, dtype=records.HOP),
            ),
            lanes=aligned(
                links * lanes,
                records.LANE,
                {
                    "credits": hardware.buffer_credits
                    + np.repeat(topology.kinds["more_credits"][topology.links["kind"]], lanes),
                    "first_return": -1, "last_grant": -1,
                    "first_pair": -1, "last_pair": -1,
                },
            ),
            queues=aligned(network.num_queues, records.QUEUE, {"first": -1, "last": -1}),
            asked=np.zeros(links * lanes * network.words, dtype=np.uint64),
            port_free=np.zeros(links * hardware.speedup, dtype=np.int64),
            due=np.zeros(links, dtype=np.int64),
            cables=aligned(links, records.CABLE, {"first": -1}),
            best=np.zeros(lanes, dtype=records.BEST),
            loads=np.zeros(64 * network.words, dtype=np.int64),
            control=control_state(
                hardware.congestion_control, hardware.buffer_credits,
                connections.num_queues * connections.num_pairs, links, lanes,
            ),
            mail=mailboxes(cut, team.barrier),
        )  # fmt: skip
        nets = split(net, cut, lambda: _events(slots, shift))
        return cls(
            nets=nets,
            programs=split_programs(ranks, cut.parts, cut.rank, workload.rank),
            num_ops=workload.num_ops if windows is None else windows.work.num_ops,
            num_messages=len(workload.messages) if windows is None else windows.work.num_messages,
            windows=windows,
            recurrence=recurrence_of(windows, nets, cut, policy),
            cut=cut,
            team=team,
            kept=policy.attach(nets[0]),
            snapshot_ps=snapshot_ps,
            next_look=0 if snapshot_ps else LONGEST_RUN_PS,
            keyed=keyed,
        )

    def step(self, instants: int) -> int:
        """Run for about `instants` instants; extend full arrays and take snapshots when due."""
        until, keyed = self.next_look, self.keyed
        if keyed is not None and keyed.next_change_ns < np.inf:
            until = min(until, int(picoseconds(keyed.next_change_ns)))
        if self.recurrence is not None:
            until = min(until, self.recurrence.look_ps)
        why = self._run(until, instants)
        self.cut_short = why != kernel.MORE
        if why == kernel.NO_ROOM:
            return kernel.MORE
        if why == kernel.PAUSED:
            if until == self.next_look:
                self._look()
            elif self.recurrence is not None:
                self.recurrence.look(self.nets, self.programs)
            self._change_paths(until)
            return kernel.MORE
        if why == kernel.ASKED:
            if self.windows is None:
                self._answer()
            else:
                if self.recurrence is not None:
                    self.recurrence.look_after(self.nets, self.programs)
                self.nets, self.programs = self.windows.go_on(self.nets, self.programs, self.cut)
            return kernel.MORE
        if why == kernel.DONE:
            # Puts end at departure, before their packets arrive.
            over = self.ended == self.num_ops and self.count["in_flight"] == 0
            why = kernel.DONE if over else kernel.STUCK
        if why in (kernel.DONE, kernel.TIME_OUT):
            # Arrivals of puts are recorded in advance, and wake-ups may still be due after the end.
            why = kernel.DONE if self._is_over() else kernel.TIME_OUT
        if why in (kernel.DONE, kernel.TIME_OUT):
            # There are no more events before the end.
            limit = int(self.net.rules["max_time_ps"])
            end = self._last() if why == kernel.DONE else limit
            while self.seen and self.next_look <= end:
                self._look()
            self._now(end)
        return why

    def _run(self, until: int, instants: int) -> int:
        """Run all parts, and extend arrays that are full; return the reason of the first to stop.

        After arrays were extended, this is NO_ROOM.
        """
        known = self.arguments or [[None, None] for _ in self.nets]
        states = zip(self.nets, self.programs, strict=True)
        self.arguments = [[*map(renewed, old, new)] for old, new in zip(known, states, strict=True)]
        if self.fast_forward is not None:
            reasons = [self.fast_forward.advance(self.arguments[0], until, instants)]
        else:
            reasons = self.team.run(kernel.run, [(*own, until, instants) for own in self.arguments])
        for part, why in enumerate(reasons):
            if why == kernel.NO_ROOM:
                self._grow(part)
            elif why == kernel.NO_TRACE:
                trace = self.nets[part].trace
                longer = trace._replace(hops=_copied(trace.hops, 2))
                self.nets[part] = self.nets[part]._replace(trace=longer)
        if kernel.NO_PATH in reasons:
            return kernel.NO_PATH
        if {kernel.NO_ROOM, kernel.NO_TRACE} & {*reasons}:
            return kernel.NO_ROOM
        return kernel.ASKED if kernel.ASKED in reasons else int(reasons[0])

    def align(self) -> None:
        """Bring all parts to the present time of the one that is furthest."""
        latest = int(self.count["now_ps"])
        while len(self.nets) > 1 and self._run(latest, 2**62) == kernel.NO_ROOM:
            pass
        self._now(latest)

    def _now(self, time: int) -> None:
        for net in self.nets:
            net.count["now_ps"] = time

    @property
    def net(self) -> Net:
        """State of the first part, which has the arrays that all parts share."""
        return self.nets[0]

    @property
    def ranks(self) -> Ranks:
        """Programs of the first part, which have the arrays that all parts share."""
        return self.programs[0]

    @property
    def count(self) -> Any:
        """Counters of all parts, and the time of the part that is furthest."""
        if len(self.nets) == 1:
            return self.net.count
        counts = [net.count for net in self.nets]
        sums = {
            name: sum(int(each[name]) for each in counts)
            for name in ("injected", "injected_bytes", "delivered", "delivered_bytes", "in_flight",
                         "hops", "events", "traced")
        }  # fmt: skip
        return record(records.COUNT, now_ps=max(int(each["now_ps"]) for each in counts), **sums)

    @property
    def skipped_ps(self) -> int:
        """How far the clock of the parts is behind."""
        return 0 if self.windows is None else self.windows.skipped

    @property
    def now_ns(self) -> float:
        """Simulated time."""
        return float(self.count["now_ps"] + self.skipped_ps) / PS_PER_NS

    @property
    def ended(self) -> int:
        """Number of operations that have ended."""
        return sum(int(ranks.count.ended) for ranks in self.programs)

    @property
    def arrived(self) -> int:
        """Number of messages that have arrived."""
        return sum(int(ranks.count.arrived) for ranks in self.programs)

    def _answer(self) -> None:
        """Pass requests and returns of routing keys to the scheduler."""
        assert self.keyed is not None
        net, ranks = self.net, self.ranks
        ops = ranks.asked[: ranks.count.asked].tolist()
        ranks.count.asked = 0
        now = int(net.count["now_ps"])
        self._end_requests(self.keyed.answer(ops, now / PS_PER_NS, ranks.arrived), now)
        self._change_paths(now)

    def _end_requests(self, ends: Answers, now: int) -> None:
        """End requests of routing keys at the times, ns, of their answers."""
        for ops, time_ns in ends:
            operations.answer(self.ranks, ops, max(int(picoseconds(time_ns)), now))

    def _change_paths(self, now: int) -> None:
        """Change the paths of routing keys that have been granted by a time, ps."""
        if self.keyed is None:
            return
        net = self.net
        changes, ends = self.keyed.due((now + 0.5) / PS_PER_NS)
        self._end_requests(ends, now)
        for paths in changes:
            # Kernels get a read-only view of the links.
            paths.write(net.adapters.routes["address"], net.tables.source_routes.base)
            fresh = self.ranks.posted[paths.ops] < 0
            net.adapters.route[paths.ops[fresh]] = paths.op_route[fresh]

    def _last(self) -> int:
        """Return the latest recorded end or arrival."""
        latest = max(int(each.max(initial=0)) for each in (self.ranks.ended, self.ranks.arrived))
        if self.windows is None:
            return latest
        before = float(self.windows.tally.until_ns.max(initial=0.0))
        return max(latest, round(before * PS_PER_NS) - self.windows.skipped)

    def _is_over(self) -> bool:
        """Return whether everything has ended and arrived by the time limit."""
        return bool(
            self.ended == self.num_ops
            and self.arrived == self.num_messages
            and self.count["in_flight"] == 0
            and self._last() <= self.net.rules["max_time_ps"]
        )

    def _look(self) -> None:
        """Take the snapshot that is due."""
        self._now(self.next_look)
        arrays = *self.buffers(), *self.counters(self.next_look)
        self.seen.append((self.next_look, *arrays))
        size = sum(array.nbytes for array in arrays) * len(self.seen)
        if len(self.seen) > 2 and (len(self.seen) == MAX_SNAPSHOTS or size > _SNAPSHOT_BYTES):
            self.seen = self.seen[::2]
            self.snapshot_ps *= 2
        self.next_look = self.seen[-1][0] + self.snapshot_ps

    def buffers(self) -> tuple[NDArray[Any], ...]:
        """Return held, wants, wants_vl and why of `Snapshots` for the current time."""
        links, lanes = self._shape
        arrays = tuple(
            np.zeros((links, lanes), dtype=dtype)
            for dtype in (np.int32, np.int32, np.int8, np.uint8)
        )
        for net in self.nets:
            view.look(parts(net), self.cut.tail, self.cut.head, *arrays)
        return arrays

    def counters(self, now: int) -> tuple[NDArray[np.int64], ...]:
        """Return packets, bytes and waits of links and lanes; busy and blocked times of links."""
        net = gathered(self.nets, self.cut)
        lanes, links = net.lanes.reshape(self._shape), net.topology.links
        # For a packet that is being sent, only the time up to now counts as busy.
        memory = self.net.topology.kinds["memory_gbps"][links["kind"]]
        slow = (memory > 0) & (links["tail_row"] < 0)
        cable = self.net.adapters.memories["cable_free_ps"]
        free = np.where(slow, cable, links["free_at_ps"])
        busy = lanes["busy_ps"].sum(1) - np.maximum(free - now, 0)
        since = np.maximum(links["ready_ps"], links["free_at_ps"])
        blocked = links["blocked_ps"] + np.maximum(now - since, 0)
        sent = (lanes[name].copy() for name in ("packets", "wire_bytes", "wait_ps"))
        return *sent, busy, blocked

    @property
    def _shape(self) -> tuple[int, int]:
        """Numbers of links and lanes."""
        return len(self.net.topology.links), int(self.net.rules["lanes"])

    def times(self, complete: bool) -> dict[str, Any]:
        """Return the times of operations of a run that ended or was stopped."""
        ranks, end = self.ranks, records.NEVER if complete else int(self.count["now_ps"])
        # Times after the stop that were recorded in advance are not part of the result.
        ended, arrived = (
            np.where(times > end, -1, times) for times in (ranks.ended, ranks.arrived)
        )
        left = np.where(ranks.program.kind < operations.KEY_REQUEST, ranks.left, -1)
        return {
            "posted_ps": ranks.posted, "ended_ps": ended, "left_ps": left, "arrived_ps": arrived,
        }  # fmt: skip

    def outcome(self, complete: bool) -> dict[str, Any]:
        """Return the counters of a run that ended or was stopped."""
        count = self.count
        # The current time may be the time of a wake-up after the last end or arrival.
        end = self._last() if complete else int(count["now_ps"])
        packets, wire_bytes, wait, busy, blocked = self.counters(end)
        links = self.net.topology.links
        first = links["first_queue"].astype(np.int64)
        waited = np.concatenate([[0], np.cumsum(self.net.queues["wait_ps"])])
        return {
            "end_ps": end + self.skipped_ps, "num_vls": int(self.net.rules["lanes"]),
            "packets": packets, "wire_bytes": wire_bytes, "wait_ps": wait, "busy_ps": busy,
            "blocked_ps": blocked,
            "buffer_wait_ps": waited[first + self.net.rules["lanes"] * links["queues"]]
            - waited[first],
            "held_bytes": self._kept("most_held_bytes"),
            "overtook": self._kept("early_packets"),
            "kept_ps": self._kept("kept_ps"), "most_kept_ps": self._kept("longest_kept_ps"),
            "snapshots": self._snapshots(end),
            "congestion": congestion_record(self.net),
            "hop": self._hops(),
            "windows": {"letters": sum(int(net.count["letters"]) for net in self.nets)}
            | {name: int(self.net.count[name]) for name in ("windows", "longest_hops")},
            "num_hops": int(count["hops"]), "num_events": int(count["events"]),
            "skipped": None if self.fast_forward is None else self.fast_forward.skipped(),
        }  # fmt: skip

    def _hops(self) -> NDArray[Any]:
        """Return the hops of all parts, in the order in which they began."""
        hops = np.concatenate([net.trace.hops[: net.count["traced"]] for net in self.nets])
        return hops[np.lexsort((hops["link"], hops["left_ps"]))]

    def _kept(self, name: str) -> NDArray[np.int64]:
        """Return a field of the reorder records of connections; zeros if packets stay in order."""
        adapters = self.net.adapters
        values = np.zeros(len(adapters.connections), dtype=np.int64)
        if self.net.rules["reorders"]:
            values[:] = adapters.reordered[name]
        by_queue = values.reshape(int(self.net.rules["queues"]), -1)
        largest = name in ("most_held_bytes", "longest_kept_ps")
        return np.asarray(by_queue.max(axis=0) if largest else by_queue.sum(axis=0))

    def _snapshots(self, end: int) -> Snapshots | None:
        """Return the snapshots up to the end (timers of congestion control may expire later)."""
        if not self.snapshot_ps:
            return None
        seen = [moment for moment in self.seen if moment[0] <= end]
        like = 0, *self.buffers(), *self.counters(end)  # shapes and types, if there is none
        stacks = (np.stack(each)[1:] for each in zip(like, *seen, strict=True))
        names = ("time_ps", "held", "wants", "wants_vl", "why",
                 "packets", "wire_bytes", "wait_ps", "busy_ps", "blocked_ps")  # fmt: skip
        return Snapshots(**dict(zip(names, stacks, strict=True)))

    def _grow(self, part: int) -> None:
        """Double the slots of the calendar and of credit returns of a part."""
        net = self.nets[part]
        old, pool = net.calendar, net.credits.state
        longer = ("packets", "events", "active_time", "active_item", "far_time", "far_item")
        # Use a single assignment, so that an interrupt leaves a consistent state for the result.
        self.nets[part] = net._replace(
            calendar=old._replace(
                state=copied(old.state, free=old.state.free + len(old.packets)),
                free=_with_fresh(old.free, int(old.state.free)),
                **{name: _copied(getattr(old, name), 2) for name in longer},
            ),
            credits=Credits(
                state=copied(pool, free=pool.free + len(net.credits.returns)),
                returns=_copied(net.credits.returns, 2),
                free=_with_fresh(net.credits.free, int(pool.free)),
            ),
            trace=net.trace._replace(front_ps=_copied(net.trace.front_ps, 2)),
        )


def _with_fresh(free: NDArray[np.int32], left: int) -> NDArray[np.int32]:
    """Return a stack of twice the size, with new entries below the used ones, which are cached."""
    count = len(free)
    stack = np.zeros(2 * count, dtype=np.int32)
    stack[:count] = np.arange(2 * count - 1, count - 1, -1, dtype=np.int32)
    stack[count : count + left] = free[:left]
    return stack


def _copied(array: NDArray[Any], times: int = 1) -> NDArray[Any]:
    """Return an aligned copy, padded with zeros to some times the length."""
    copy = aligned(times * len(array), array.dtype)
    copy[: len(array)] = array
    return copy


def _events(slots: int, shift: int) -> dict[str, Any]:
    """Return an empty calendar for `slots` packets and wake-ups, and as many credit returns."""
    calendar_of = Calendar(
        state=record(records.CALENDAR, free=slots, bucket=-1, shift=shift),
        packets=aligned(slots, records.PACKET),
        events=aligned(slots, records.EVENT),
        free=np.arange(slots - 1, -1, -1, dtype=np.int32),
        bucket_first=np.zeros(calendar.BUCKETS, dtype=np.int32),
        bucket_used=np.zeros(calendar.BUCKETS >> 6, dtype=np.uint64),
        active_time=np.zeros(slots, dtype=np.int64),
        active_item=np.zeros(slots, dtype=np.int64),
        far_time=np.zeros(slots, dtype=np.int64),
        far_item=np.zeros(slots, dtype=np.int64),
    )
    credits_of = Credits(
        state=record(records.POOL, free=slots),
        returns=aligned(slots, records.RETURN),
        free=np.arange(slots - 1, -1, -1, dtype=np.int32),
    )
    return {"calendar": calendar_of, "credits": credits_of}


def arbitration(given: VlArbitration | None, links: int) -> Arbitration:
    """Return the initial state of the lane arbitration of links."""
    rules = VlArbitration() if given is None else given
    high, low = (np.array(list(table), dtype=records.WEIGHT) for table in (rules.high, rules.low))
    arbiters = aligned(links, records.ARBITER, {"last_lane": -1})
    for table, left in ((high, "high_left"), (low, "low_left")):
        if len(table):
            arbiters[left] = table["weight"][0]
    arbiters["limit_left"] = max(rules.limit * LIMIT_BYTES, 1)
    return Arbitration(arbiters, high, low)


def _adapters(
    connections: Connections,
    sends: NDArray[np.uint8],
    reorders: bool,
    links: int,
    changes: bool,
) -> Adapters:
    """Return the initial state of queue pairs and connections; with `changes`, routes change."""
    count = connections.num_queues * max(connections.num_connections, 1)
    return Adapters(
        messages=aligned(len(sends), records.MESSAGE),
        sends=sends,
        route=connections.route.copy() if changes else connections.route,
        connection=connections.connection,
        pair=connections.pair,
        routes=connections.message_routes.routes,
        pairs=aligned(connections.num_queues * connections.num_pairs, records.PAIR, {"first": -1}),
        connections=aligned(count, records.CONNECTION),
        reordered=aligned(count if reorders else 1, records.REORDER, {"first_held": -1}),
        memories=aligned(links, records.MEMORY),
    )


def _rules(
    network: PacketNetwork,
    hardware: Hardware,
    policy: Policy,
    options: Mapping[str, Any],
    lanes: int,
    connections: Connections,
    reorders: bool,
) -> Any:
    """Return the kernel's scalar settings."""
    packet_bytes = hardware.mtu_bytes + hardware.header_bytes
    limit = options["max_time_ns"]
    weights = hardware.vl_arbitration
    return record(
        records.RULES,
        mtu_bytes=hardware.mtu_bytes,
        header_bytes=hardware.header_bytes,
        full_packet_bytes=packet_bytes,
        control_bytes=hardware.control_bytes,
        quantum_bytes=hardware.quantum_bytes,
        credit_bytes=hardware.credit_bytes,
        full_packet_credits=hardware.credits_of(packet_bytes),
        buffer_credits=hardware.buffer_credits,
        lanes=lanes,
        speedup=hardware.speedup,
        words=network.words,
        high_limit=0 if weights is None else weights.limit,
        max_time_ps=LONGEST_RUN_PS if limit is None else picoseconds(limit),
        seed=options["seed"],
        queues=connections.num_queues,
        connections=max(connections.num_connections, 1),
        pairs=connections.num_pairs,
        route_kind=connections.message_routes.kind,
        lane_kind=connections.message_routes.lane_kind,
        is_voq=hardware.queues == "voq",
        is_weighted=weights is not None,
        reorders=reorders,
        has_control=hardware.congestion_control is not None,
        parts=1,
        box_size=kernel.LETTERS,
    )


def _shift(network: PacketNetwork, packet_bytes: int, parts: int) -> int:
    """Return the binary logarithm of the width in ps of a bucket of the wheel, for busy links."""
    per_ps = float((network.rate_gbps / (8000.0 * packet_bytes)).sum()) / parts
    # The sum is 0 for a fabric without cables.
    return int(np.clip(np.log2(_IN_BUCKET / max(per_ps, 1e-9)), 4, 24))
