"""Everything that the kernel of the packet level works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.kernels.packet import adapter, layout, queue, view
from weft.kernels.packet import engine as kernel
from weft.kernels.packet.net import Net
from weft.kernels.program import operations
from weft.kernels.program.state import Ranks
from weft.sim.common.programs import lay_ranks
from weft.sim.packet.congestion_control import control_state, record
from weft.sim.packet.connections import Connections
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.limits import LONGEST_RUN_PS
from weft.sim.packet.message_routes import Ways
from weft.sim.packet.network import PacketNetwork, picoseconds
from weft.sim.packet.network import aligned_rows as _rows
from weft.sim.packet.policies import Policy, choice_of
from weft.sim.packet.snapshots import Snapshots
from weft.workload import Workload

#: Memory that snapshots may take.
_SNAPSHOT_BYTES = 2**32
#: Most snapshots, and bytes of them, that are kept: when there are more every other one goes, and
#: the time between them doubles.
MAX_SNAPSHOTS = 2000
#: Things that happen in one bucket of the wheel when links are busy, about.
_IN_BUCKET = 6


@dataclass(eq=False)
class State:
    """State of a run; see `weft.kernels.packet.engine.run` for the arrays.

    `cut_short` says that the last step ended before as many instants as it was asked for.
    """

    net: Net
    ranks: Ranks
    snapshot_ps: int
    next_look: int
    cut_short: bool = False
    seen: list[tuple[Any, ...]] = field(default_factory=list)

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
    ) -> State:
        """The state before anything has happened."""
        ops, links, ways = workload.num_ops, network.num_links, connections.ways
        reorders = policy.reorders or connections.several_ways
        setting = _settings(network, hardware, policy, options, lanes, ways, reorders)
        number = np.zeros(layout.NUMBERS, dtype=np.int64)
        number[layout.BUCKET] = -1
        slots = 4 * links + 1024
        number[layout.FREE_SLOTS] = number[layout.FREE_NOTES] = slots
        lane_rows = _rows(links * lanes, layout.LANE_WIDTH, np.int32)
        lane_rows[:, layout.CREDITS] = hardware.buffer_credits
        for column in (layout.BACK_HEAD, layout.LINE_HEAD, layout.LINE_TAIL, layout.TURN):
            lane_rows[:, column] = -1
        state = _rows(links, layout.STATE_WIDTH, np.int64)
        state[:, layout.WAKE_AT] = layout.NEVER
        tables = _tables(hardware)
        arbiter = _rows(links, layout.ARBITER_WIDTH, np.int32)
        arbiter[:, layout.LAST_LANE] = -1
        for table, left in zip(tables, (layout.HIGH_LEFT, layout.LOW_LEFT), strict=True):
            if len(table):
                arbiter[:, left] = table[0, 1]
        arbiter[:, layout.LIMIT_LEFT] = max(int(setting[layout.HIGH_LIMIT]) * 4096, 1)
        pairs = np.zeros((connections.num_pairs, adapter.PAIR_WIDTH), dtype=np.int32)
        pairs[:, adapter.FIRST] = -1
        talks = np.zeros((max(connections.num_connections, 1), adapter.CONNECTION_WIDTH), np.int32)
        talks[:, adapter.OLDEST] = -1
        kept = _rows(len(talks) if reorders else 1, adapter.KEPT_WIDTH, np.int64)
        kept[:, adapter.HELD] = -1
        duration, release = picoseconds(workload.duration_ns), picoseconds(workload.release_ns)
        ranks = lay_ranks(
            workload,
            duration,
            release,
            connections.route,
            {
                "eager_bytes": options["eager_bytes"],
                "handshake": options["handshake"],
                "overhead": picoseconds(options["overhead_ns"]),
                "adapter_latency": picoseconds(hardware.adapter_latency_ns),
                "local_latency": picoseconds(options["local_latency_ns"]),
                "local_gbps": options["local_gbps"],
                "local_units_per_byte": 8000.0,
                "local_whole": True,
            },
        )
        snapshot_ps = 0
        if options["snapshot_ns"] is not None:
            snapshot_ps = int(picoseconds(options["snapshot_ns"]))
        none = np.full(ops, -1, dtype=np.int32)
        # A queue pair is most often a connection: then one column serves for both.
        other = [] if connections.pair is connections.connection else [connections.pair]
        next_sent, next_whole, route_of, connection_of, *pair_of = _side_by_side(
            none, none, connections.route, connections.connection, *other
        )
        route_link, route_lane, route_way, route_level = _side_by_side(
            ways.link, ways.lane, ways.way, ways.level
        )
        net = Net(
            setting=setting,
            number=number,
            fixed=network.fixed,
            spans=network.spans,
            rate=network.rate_gbps,
            memory=network.memory_gbps,
            into=network.into,
            row_base=network.row_base,
            row_link=network.row_link,
            slots=_rows(slots, layout.SLOT_WIDTH, np.int32),
            slot_time=np.zeros(slots, dtype=np.int64),
            free=np.arange(slots - 1, -1, -1, dtype=np.int32),
            notes=_rows(slots, layout.NOTE_WIDTH, np.int64),
            free_note=np.arange(slots - 1, -1, -1, dtype=np.int32),
            bucket_head=np.zeros(queue.BUCKETS, dtype=np.int32),
            bucket_used=np.zeros(queue.BUCKETS >> 6, dtype=np.uint64),
            active_time=np.zeros(slots, dtype=np.int64),
            active_item=np.zeros(slots, dtype=np.int64),
            far_time=np.zeros(slots, dtype=np.int64),
            far_item=np.zeros(slots, dtype=np.int64),
            state=state,
            lanes=lane_rows,
            arbiter=arbiter,
            counts=_rows(links * lanes, layout.COUNT_WIDTH, np.int64),
            marked=np.zeros(
                links * lanes if hardware.congestion_control is not None else 1, dtype=np.int64
            ),
            queue_head=np.full(network.num_queues, -1, dtype=np.int32),
            queue_tail=np.full(network.num_queues, -1, dtype=np.int32),
            asked=np.zeros(links * lanes * network.words, dtype=np.uint64),
            port_free=np.zeros(links * hardware.speedup, dtype=np.int64),
            cable_free=np.zeros(links if network.memory_gbps.any() else 1, dtype=np.int64),
            dirty=np.zeros(links, dtype=np.int32),
            is_dirty=np.zeros(links, dtype=np.uint8),
            pairs=pairs,
            connections=talks,
            kept=kept,
            messages=_rows(ops, adapter.MESSAGE_WIDTH, np.int64),
            next_sent=next_sent,
            next_whole=next_whole,
            sends=ranks.sends,
            pair_of=pair_of[0] if pair_of else connection_of,
            connection_of=connection_of,
            route_of=route_of,
            route_link=route_link,
            route_lane=route_lane,
            route_way=route_way,
            route_level=route_level,
            high=tables[0],
            low=tables[1],
            pick=np.zeros(2 + 2 * lanes, dtype=np.int64),
            loads=np.zeros(64 * network.words, dtype=np.int64),
            traced=traced,
            first_at=np.zeros(slots if len(traced) else 0, dtype=np.int64),
            hops=np.zeros((1024 if len(traced) else 0, kernel.HOP_WIDTH), dtype=np.int64),
            choice=choice_of(policy, len(network.row_base) - 1, links),
            **ways.arrays,
            **control_state(
                hardware.congestion_control,
                hardware.buffer_credits,
                connections.back,
                len(pairs),
                links,
                lanes,
            ),
        )
        return cls(
            net=net,
            ranks=ranks,
            snapshot_ps=snapshot_ps,
            next_look=0 if snapshot_ps else LONGEST_RUN_PS,
        )

    def step(self, instants: int) -> int:
        """Run for about so many instants; more room and snapshots are made on the way."""
        why = kernel.run(self.net, self.ranks, self.next_look, instants)
        self.cut_short = why != kernel.MORE
        if why == kernel.NO_ROOM:
            self._grow()
            return kernel.MORE
        if why == kernel.PAUSED:
            self._look()
            return kernel.MORE
        if why == kernel.NO_TRACE:
            self.net = self.net._replace(hops=_longer(self.net.hops))
            return kernel.MORE
        if why in (kernel.DONE, kernel.TIME_OUT):
            # Puts are written down ahead, and wake-ups may still come when all is over.
            why = kernel.DONE if self._is_over() else kernel.TIME_OUT
        if why == kernel.TIME_OUT:
            # Nothing more happens up to then.
            self.net.number[layout.NOW] = self.net.setting[layout.MAX_TIME]
        return int(why)

    def _last(self) -> int:
        """The latest end or arrival that is written down."""
        return max(int(times.max(initial=0)) for times in (self.ranks.ended, self.ranks.arrived))

    def _is_over(self) -> bool:
        """Whether all has ended and arrived by the time at which the run stops."""
        number, kind = self.net.number, self.ranks.program.kind
        messages = np.count_nonzero((kind == operations.SEND) | (kind == operations.PUT))
        return bool(
            self.ranks.count.ended == len(kind)
            and self.ranks.count.arrived == messages
            and number[layout.IN_FLIGHT] == 0
            and self._last() <= self.net.setting[layout.MAX_TIME]
        )

    def _look(self) -> None:
        """Take the snapshot that is due."""
        self.net.number[layout.NOW] = self.next_look
        arrays = *self.buffers(), *self.counters(self.next_look)
        self.seen.append((self.next_look, *arrays))
        size = sum(array.nbytes for array in arrays) * len(self.seen)
        if len(self.seen) > 2 and (len(self.seen) == MAX_SNAPSHOTS or size > _SNAPSHOT_BYTES):
            self.seen = self.seen[::2]
            self.snapshot_ps *= 2
        self.next_look = self.seen[-1][0] + self.snapshot_ps

    def buffers(self) -> tuple[NDArray[Any], ...]:
        """What buffers hold and wait for now: held, wants, wants_vl and why of `Snapshots`."""
        links, lanes = len(self.net.state), int(self.net.setting[layout.LANES])
        arrays = tuple(
            np.zeros((links, lanes), dtype=dtype)
            for dtype in (np.int32, np.int32, np.int8, np.uint8)
        )
        view.look(self.net, *arrays)
        return arrays

    def counters(self, now: int) -> tuple[NDArray[np.int64], ...]:
        """Packets, wire bytes and waits of links and lanes, and how long links had been busy."""
        links, lanes = len(self.net.state), int(self.net.setting[layout.LANES])
        counts = self.net.counts.reshape(links, lanes, layout.COUNT_WIDTH)
        # What has begun counts for as long as it has lasted.
        free = self.net.state[:, layout.FREE_AT]
        if len(self.net.cable_free) == links:
            slow = (self.net.memory > 0) & (self.net.fixed[:, layout.TAIL_ROW] < 0)
            free = np.where(slow, self.net.cable_free, free)
        busy = counts[:, :, layout.BUSY].sum(1) - np.maximum(free - now, 0)
        return (
            counts[:, :, layout.PACKETS].copy(), counts[:, :, layout.WIRE_BYTES].copy(),
            counts[:, :, layout.WAIT].copy(), busy,
        )  # fmt: skip

    def outcome(self, complete: bool) -> dict[str, Any]:
        """What a result says of a run that is over, or was stopped."""
        number = self.net.number
        ended, arrived = self.ranks.ended, self.ranks.arrived
        # Wake-ups may come after all is over.
        end = self._last() if complete else int(number[layout.NOW])
        if not complete:
            # What was known to come when the run was stopped has not happened.
            ended, arrived = (np.where(times > end, -1, times) for times in (ended, arrived))
        packets, wire_bytes, wait, busy = self.counters(end)
        return {
            "posted_ps": self.ranks.posted, "ended_ps": ended, "left_ps": self.ranks.left,
            "arrived_ps": arrived,
            "end_ps": end, "num_vls": int(self.net.setting[layout.LANES]),
            "packets": packets, "wire_bytes": wire_bytes, "wait_ps": wait, "busy_ps": busy,
            "held_bytes": self._kept(adapter.MOST_HELD), "overtook": self._kept(adapter.OVERTOOK),
            "kept_ps": self._kept(adapter.KEPT), "most_kept_ps": self._kept(adapter.LONGEST_KEPT),
            "snapshots": self._snapshots(end),
            "congestion": record(self.net),
            "hop": self.net.hops[: number[layout.TRACED]],
            "num_hops": int(number[layout.HOPS]), "num_events": int(number[layout.EVENTS]),
        }  # fmt: skip

    def _kept(self, column: int) -> NDArray[np.int64]:
        """A column of what connections kept of packets, zeros where they come in order."""
        found = np.zeros(len(self.net.connections), dtype=np.int64)
        if self.net.setting[layout.REORDERS]:
            found[:] = self.net.kept[:, column]
        return found

    def _snapshots(self, end: int) -> Snapshots | None:
        """Those up to the end: timers of congestion control may run on after it."""
        if not self.snapshot_ps:
            return None
        seen = [moment for moment in self.seen if moment[0] <= end]
        links, lanes = len(self.net.state), int(self.net.setting[layout.LANES])

        def stacked(place: int, dtype: Any, *shape: int) -> NDArray[Any]:
            if not seen:
                return np.zeros((0, *shape), dtype=dtype)
            return np.stack([moment[place] for moment in seen])

        return Snapshots(
            time_ps=np.array([moment[0] for moment in seen], dtype=np.int64),
            held=stacked(1, np.int32, links, lanes),
            wants=stacked(2, np.int32, links, lanes),
            wants_vl=stacked(3, np.int8, links, lanes),
            why=stacked(4, np.uint8, links, lanes),
            wire_bytes=stacked(6, np.int64, links, lanes),
            wait_ps=stacked(7, np.int64, links, lanes),
            busy_ps=stacked(8, np.int64, links),
        )

    def _grow(self) -> None:
        """Twice as many slots and notes."""
        net = self.net
        names = (
            "slots", "slot_time", "active_time", "active_item", "far_time", "far_item", "notes",
            "first_at",
        )  # fmt: skip
        number = net.number.copy()
        number[layout.FREE_SLOTS] += len(net.slots)
        number[layout.FREE_NOTES] += len(net.notes)
        # All at once: an interrupt on the way here leaves a state that a result is made of.
        self.net = net._replace(
            number=number,
            free=_with_fresh(net.free, int(net.number[layout.FREE_SLOTS])),
            free_note=_with_fresh(net.free_note, int(net.number[layout.FREE_NOTES])),
            **{name: _longer(getattr(net, name)) for name in names},
        )


def _with_fresh(free: NDArray[np.int32], left: int) -> NDArray[np.int32]:
    """A stack for twice as many, with the new ones at its bottom: used ones are in the cache."""
    count = len(free)
    made = np.zeros(2 * count, dtype=np.int32)
    made[:count] = np.arange(2 * count - 1, count - 1, -1, dtype=np.int32)
    made[count : count + left] = free[:left]
    return made


def _side_by_side(*columns: NDArray[Any]) -> list[NDArray[np.int32]]:
    """The same numbers as columns of one array: what is looked up together lies together.

    They have two entries at least: a column of one entry is contiguous, and the whole event loop
    would be compiled once more for such ones.
    """
    count = len(columns[0])
    rows = _rows(max(count, 2), 1 << (len(columns) - 1).bit_length(), np.int32)
    for place, column in enumerate(columns):
        rows[:count, place] = column
    return [rows[:, place] for place in range(len(columns))]


def _longer(array: NDArray[Any]) -> NDArray[Any]:
    """The same with as many zeros behind it."""
    if array.ndim == 1:
        return np.concatenate([array, np.zeros_like(array)])
    longer = _rows(2 * len(array), array.shape[1], array.dtype)
    longer[: len(array)] = array
    return longer


def _settings(
    network: PacketNetwork,
    hardware: Hardware,
    policy: Policy,
    options: Mapping[str, Any],
    lanes: int,
    ways: Ways,
    reorders: bool,
) -> NDArray[np.int64]:
    """What the kernel reads as numbers."""
    whole = hardware.mtu_bytes + hardware.header_bytes
    limit = options["max_time_ns"]
    arbitration = hardware.vl_arbitration
    setting = np.zeros(layout.SETTINGS, dtype=np.int64)
    values = {
        layout.MTU: hardware.mtu_bytes,
        layout.HEADER: hardware.header_bytes,
        layout.CREDIT_BYTES: hardware.credit_bytes,
        layout.BUFFER_CREDITS: hardware.buffer_credits,
        layout.FULL_CREDITS: hardware.credits_of(whole),
        layout.LANES: lanes,
        layout.SPEEDUP: hardware.speedup,
        layout.VOQ: hardware.queues == "voq",
        layout.WORDS: network.words,
        layout.CONTROL: hardware.control_bytes,
        layout.TURN_BYTES: hardware.turn_bytes,
        layout.MAX_TIME: LONGEST_RUN_PS if limit is None else picoseconds(limit),
        layout.WEIGHTED: arbitration is not None,
        layout.HIGH_LIMIT: 0 if arbitration is None else arbitration.limit,
        layout.POLICY: policy.number,
        layout.SEED: options["seed"],
        layout.ROUTE_KIND: ways.kind,
        layout.LANE_KIND: ways.lane_kind,
        layout.REORDERS: reorders,
        layout.CONGESTION: hardware.congestion_control is not None,
        layout.ROUND: policy.goes_round,
        layout.WATCHES: policy.watches,
        layout.SHIFT: _shift(network, whole),
    }
    for place, value in values.items():
        setting[place] = value
    return setting


def _shift(network: PacketNetwork, whole: int) -> int:
    """Width of a bucket of the wheel, as a power of 2: some events when all links are busy."""
    per_ps = float((network.rate_gbps / (8000.0 * whole)).sum())
    # A fabric may have no cables, with all its ranks in one host.
    return int(np.clip(np.log2(_IN_BUCKET / max(per_ps, 1e-9)), 4, 24))


def _tables(hardware: Hardware) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """High and low table of lane arbitration, [entries, 2]."""
    arbitration = hardware.vl_arbitration
    if arbitration is None:
        return np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2), dtype=np.int64)
    high, low = (
        np.array(table, dtype=np.int64).reshape(-1, 2)
        for table in (arbitration.high, arbitration.low)
    )
    return high, low
