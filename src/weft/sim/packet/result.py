"""Results of the packet level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import NotApplicable
from weft.core.frozen import read_only
from weft.kernels.packet.alone import first_paths, zero_load
from weft.kernels.program import operations as program
from weft.sim.common.congestion_matrix import WithCongestionMatrix
from weft.sim.common.metrics import link_kinds
from weft.sim.common.replay import ReplayInPicoseconds, TimedResult, ratio, totals
from weft.sim.common.rolled_result import RolledReplay
from weft.sim.common.times import picoseconds
from weft.sim.keys.key_set import KeySet
from weft.sim.packet.congestion_control import CongestionRecord
from weft.sim.packet.connections import Connections
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.message_routes import MessageRoutes
from weft.sim.packet.network import PacketNetwork
from weft.sim.packet.policies import policy as policies
from weft.sim.packet.snapshots import Snapshots
from weft.sim.packet.throttling import throttling
from weft.workload import Workload

if TYPE_CHECKING:
    from weft.sim.packet.fast_forward import Skipped


def alone_ps(
    network: PacketNetwork,
    message_routes: MessageRoutes,
    hardware: Hardware,
    route: NDArray[Any],
    size_bytes: NDArray[Any],
) -> NDArray[np.int64]:
    """Return the time of each message from departure to arrival in an empty network.

    On each link, each packet follows the previous one as soon as rules 11, 12 and 18 of
    docs/packet-level.md allow, and credits are always available. If buffers are smaller than the
    round trip of a credit needs, the simulated time is longer.

    `route`, `size_bytes`, int [messages]: route of each message, and size of each message.
    """
    used, which = np.unique(route, return_inverse=True)
    topology = network.topology
    offset, links = first_paths(
        topology,
        message_routes.tables,
        message_routes.kind,
        message_routes.routes[used],
        len(topology.rows) + 3,
    )
    took: NDArray[np.int64] = zero_load(
        topology, offset, links, which.astype(np.int64), np.asarray(size_bytes, dtype=np.int64),
        hardware.mtu_bytes, hardware.header_bytes, int(picoseconds(hardware.adapter_latency_ns)),
    )  # fmt: skip
    return took


LINK_COLUMNS: Mapping[str, Column] = {
    "link": Column(pl.Int32, "", "Directed link (as in `Fabric.links`; links inside hosts follow)"),
    "name": Column(pl.String, "", "Output port and input port of the link"),
    "kind": Column(
        pl.String, "", "switch-switch, host-switch, switch-host, host-host, auxiliary or in-host"
    ),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate"),
    "packets": Column(pl.Int64, "", "Packets sent on the link"),
    "wire_bytes": Column(pl.Int64, "B", "Bytes sent on the link (headers included)"),
    "utilisation": Column(
        pl.Float64, "", "Part of the run for which the link carried packets (null: run of 0 ns)"
    ),
    "mean_wait_ns": Column(
        pl.Float64,
        "ns",
        "Mean wait of packets beyond the earliest departure on an idle link (null: no packets)",
    ),
}

QUEUE_COLUMNS: Mapping[str, Column] = {
    "link": LINK_COLUMNS["link"],
    "name": LINK_COLUMNS["name"],
    "vl": Column(pl.Int32, "", "Virtual lane"),
    "packets": Column(pl.Int64, "", "Packets sent on the link and lane"),
    "wire_bytes": LINK_COLUMNS["wire_bytes"],
    "mean_wait_ns": LINK_COLUMNS["mean_wait_ns"],
}

HOP_COLUMNS: Mapping[str, Column] = {
    "message": Column(pl.Int64, "", "Operation that sends the message"),
    "packet": Column(pl.Int64, "", "Number of the packet in its connection (-1: notification)"),
    "link": Column(pl.Int32, "", "Directed link of the hop"),
    "name": LINK_COLUMNS["name"],
    "vl": Column(pl.Int32, "", "Virtual lane on the link"),
    "ready_ns": Column(pl.Float64, "ns", "Earliest departure (on an idle link)"),
    "left_ns": Column(pl.Float64, "ns", "Departure of the first byte"),
    "gone_ns": Column(pl.Float64, "ns", "Departure of the last byte"),
    "wait_ns": Column(pl.Float64, "ns", "Wait (left_ns - ready_ns)"),
    "behind_ns": Column(
        pl.Float64, "ns", "Part of the wait behind other packets of the same queue (0 in adapters)"
    ),
}

REORDER_COLUMNS: Mapping[str, Column] = {
    "connection": Column(pl.Int32, "", "Connection (one direction of a queue pair)"),
    "source_rank": Column(pl.Int32, "", "Sending rank"),
    "destination_rank": Column(pl.Int32, "", "Receiving rank"),
    "messages": Column(pl.Int64, "", "Messages of the connection"),
    "packets": Column(pl.Int64, "", "Packets of the connection"),
    "early_packets": Column(
        pl.Int64, "", "Packets that overtook an earlier packet (answers of rendezvous included)"
    ),
    "most_held_bytes": Column(
        pl.Int64, "B", "Largest reorder buffer at the receiver (headers included)"
    ),
    "reordering_ns": Column(pl.Float64, "ns", "Total time of early packets in the reorder buffer"),
    "longest_reordering_ns": Column(
        pl.Float64, "ns", "Longest time of a packet in the reorder buffer"
    ),
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PacketCounters(TimedResult, WithCongestionMatrix):
    """Counters of every link and lane of a packet-level run.

    Parameters
    ----------
    fabric, engine, hardware, policy, options
        The arguments of the run; `engine` is the name of the routes' engine.
    host
        int32 [ranks]: host of each rank.
    network, connections
        Links, and the route, connection and queue pair of each message.
    end_ps
        Simulated time at the end.
    complete
        False if the run was stopped before everything had ended.
    deadlock
        For a stopped run: a cycle of full buffers that wait for each other forever, while packets
        move elsewhere; empty if there is none. Only detected with ``queues="input"``.
    num_vls
        Number of virtual lanes.
    packets, wire_bytes, wait_ps
        int64 [links, lanes]: packets sent on each link and lane, their bytes, and their waits,
        counted from the earliest departure on an idle link.
    busy_ps
        int64 [links]: time for which the link carried packets.
    blocked_ps
        int64 [links]: time for which the link was free and sent nothing for lack of credits or
        because of arbitration, as PortXmitWait counts, although a packet was ready for it.
    buffer_wait_ps
        int64 [links]: total wait, in the buffer at the far end of each link, of packets that came
        over the link and have left that buffer; 0 if the link ends at an adapter.
    held_bytes, overtook
        int64 [connections]: largest reorder buffer at the receiver, and the number of packets that
        were in it because an earlier packet had not arrived.
    kept_ps, most_kept_ps
        int64 [connections]: total and longest time of packets in the reorder buffer; excludes
        packets that are still in it when a run is stopped.
    conservation
        Packets and bytes injected, delivered and in flight.
    snapshots
        Snapshots of all buffers; None without `snapshot_ns`.
    congestion
        Counters of congestion control; None without it.
    hop
        One `weft.kernels.packet.records.HOP` record for each hop of traced messages.
    num_hops, num_events, run_s
        Number of hops of all packets, number of events of the loop, and wall-clock time of the
        simulation.
    keys
        Routing keys of the workload as they were made, before a scheduler moves them; None if the
        policy uses no keys.
    threads, fewer_threads
        Number of threads of the simulation, and why it is not larger, if more were wanted.
    windows
        Of several threads: ``windows`` in which the parts of the fabric were simulated side by
        side; ``letters``, the packets and credits between parts; and ``longest_hops``, the sum over
        windows of the packet-hops of the part that had most.
    skipped
        What was skipped; None without `fast_forward`.
    """

    hardware: Hardware
    policy: str
    network: PacketNetwork
    connections: Connections
    end_ps: int
    complete: bool
    deadlock: str
    num_vls: int
    packets: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]
    wait_ps: NDArray[np.int64]
    busy_ps: NDArray[np.int64]
    blocked_ps: NDArray[np.int64]
    buffer_wait_ps: NDArray[np.int64]
    held_bytes: NDArray[np.int64]
    overtook: NDArray[np.int64]
    kept_ps: NDArray[np.int64]
    most_kept_ps: NDArray[np.int64]
    conservation: Mapping[str, int]
    snapshots: Snapshots | None
    congestion: CongestionRecord | None
    hop: NDArray[Any]
    num_hops: int
    num_events: int
    keys: KeySet | None
    threads: int
    fewer_threads: str
    windows: Mapping[str, int]
    skipped: Skipped | None

    @property
    def reorders(self) -> bool:
        """Whether packets of a connection may overtake each other."""
        entry, options = policies.parse(self.policy)
        policy = entry.function(**policies.bind(entry, options))
        return policy.reorders or self.connections.several_paths

    def link_name(self, link: int) -> str:
        """Return the name of a directed link, which may be inside a host."""
        return self.network.link_name(self.fabric, link)

    @cached_property
    def link_names(self) -> NDArray[np.object_]:
        """Names of all directed links, those inside hosts included, object [links]."""
        inside = range(self.fabric.num_links, self.network.num_links)
        names = np.empty(self.network.num_links, dtype=np.object_)
        names[: self.fabric.num_links] = self.fabric.link_names
        names[self.fabric.num_links :] = [self.link_name(link) for link in inside]
        return read_only(names)

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `LINK_COLUMNS`."""
        links = self.network.num_links
        kinds = link_kinds(self.fabric).tolist() + ["in-host"] * (links - self.fabric.num_links)
        packets = self.packets.sum(1)
        return frame(
            LINK_COLUMNS,
            {
                "link": np.arange(links, dtype=np.int32),
                "name": self.link_names.tolist(),
                "kind": kinds,
                "rate_gbps": self.network.rate_gbps,
                "packets": packets,
                "wire_bytes": self.wire_bytes.sum(1),
                "utilisation": ratio(self.busy_ps, np.full(links, self.end_ps)),
                "mean_wait_ns": ratio(self.wait_ps.sum(1) / 1000, packets),
            },
        )

    def queues(self) -> pl.DataFrame:
        """Return one row for each link and lane that carried packets; see `QUEUE_COLUMNS`."""
        link, lane = np.nonzero(self.packets)
        return frame(
            QUEUE_COLUMNS,
            {
                "link": link.astype(np.int32),
                "name": self.link_names[link].tolist(),
                "vl": lane.astype(np.int32),
                "packets": self.packets[link, lane],
                "wire_bytes": self.wire_bytes[link, lane],
                "mean_wait_ns": self.wait_ps[link, lane] / 1000 / self.packets[link, lane],
            },
        )

    def _waits_ns(self) -> NDArray[np.float64]:
        return self.buffer_wait_ps / 1000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PacketResult(PacketCounters, ReplayInPicoseconds):
    """Result of a packet-level run: times in whole ps, and the counters of `PacketCounters`.

    Parameters
    ----------
    workload
        The workload.
    posted_ps, ended_ps
        int64 [ops]: start and end of every operation, -1 if it did not happen.
    left_ps, arrived_ps
        int64 [ops]: departure of the first byte and arrival of the last byte of every message.
    """

    def reordering(self) -> pl.DataFrame:
        """Return one row for each connection with messages; see `REORDER_COLUMNS`.

        All counts are 0 if the policy keeps packets in order and each connection has one route.
        """
        work, lines = self.workload, self.connections
        ops = work.messages[lines.route[work.messages] != program.LOCAL]
        line, first, which = np.unique(
            lines.connection[ops], return_index=True, return_inverse=True
        )
        packets = np.maximum(-(-work.size_bytes[ops] // self.hardware.mtu_bytes), 1)
        return frame(
            REORDER_COLUMNS,
            {
                "connection": line,
                "source_rank": work.rank[ops[first]],
                "destination_rank": work.peer[ops[first]],
                "messages": np.bincount(which, minlength=len(line)),
                "packets": totals(which, packets, len(line)),
                "early_packets": self.overtook[line],
                "most_held_bytes": self.held_bytes[line],
                "reordering_ns": self.kept_ps[line] / 1000,
                "longest_reordering_ns": self.most_kept_ps[line] / 1000,
            },
        )

    def throttling(self) -> pl.DataFrame:
        """Return one row for each queue pair between hosts; see `THROTTLING_COLUMNS`.

        Raises
        ------
        NotApplicable
            If the hardware has no congestion control.
        """
        if self.congestion is None:
            raise NotApplicable("the hardware of this run has no congestion control")
        return throttling(self.congestion, self.connections, self.workload, self.host)

    def hops(self) -> pl.DataFrame:
        """Return one row for each hop of packets of traced messages, by time; see `HOP_COLUMNS`."""
        hop = self.hop
        return frame(
            HOP_COLUMNS,
            {
                "message": hop["op"],
                "packet": hop["sequence"],
                "link": hop["link"].astype(np.int32),
                "name": self.link_names[hop["link"]].tolist(),
                "vl": hop["lane"].astype(np.int32),
                "ready_ns": hop["ready_ps"] / 1000,
                "left_ns": hop["left_ps"] / 1000,
                "gone_ns": hop["gone_ps"] / 1000,
                "wait_ns": (hop["left_ps"] - hop["ready_ps"]) / 1000,
                "behind_ns": (hop["front_ps"] - hop["ready_ps"]) / 1000,
            },
        )

    def alone_ns(self) -> NDArray[np.float64]:
        """Return the zero-load time of each message from its departure, float64 [messages].

        Where routes leave a choice, the path follows the first candidate at each node.
        """
        every = alone_ns(self.workload, self.network, self.connections, self.hardware, self.options)
        return every[self.workload.messages]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RolledPacketResult(PacketCounters, RolledReplay):
    """Result of a rolled workload at the packet level; it has no times of single operations.

    Its attributes are those of `PacketCounters`, `workload`, `tally`, the statistics of operations,
    and `most_ops`, the largest number of operations that existed at a time.
    """


def alone_ns(
    workload: Workload, network: PacketNetwork, connections: Connections, hardware: Hardware,
    options: Mapping[str, Any],
) -> NDArray[np.float64]:  # fmt: skip
    """Return the zero-load time of each message from its departure, 0 for other operations.

    Where routes leave a choice, the path follows the first candidate at each node.
    """
    took, ops, size = np.zeros(workload.num_ops), workload.messages, workload.size_bytes
    route = connections.route[ops]
    local, away = ops[route == program.LOCAL], ops[route != program.LOCAL]
    fixed = float(options["local_latency_ns"])
    took[local] = size[local] * 8 / float(options["local_gbps"]) + fixed
    route = route[route != program.LOCAL]
    took[away] = alone_ps(network, connections.message_routes, hardware, route, size[away]) / 1000
    return took
