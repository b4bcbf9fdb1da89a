"""What a run of the packet level found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.packet.alone import first_ways, zero_load
from weft.kernels.program import operations as program
from weft.sim.common.metrics import link_kinds
from weft.sim.common.replay import Replay, ratio, totals
from weft.sim.packet.congestion_control import CongestionRecord
from weft.sim.packet.connections import Connections
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.message_routes import Ways
from weft.sim.packet.network import PacketNetwork, picoseconds
from weft.sim.packet.policies import policy as policies
from weft.sim.packet.snapshots import Snapshots
from weft.sim.packet.throttling import throttling
from weft.workload import Workload


def alone_ps(
    network: PacketNetwork,
    ways: Ways,
    hardware: Hardware,
    route: NDArray[Any],
    size_bytes: NDArray[Any],
) -> NDArray[np.int64]:
    """int64 [messages]: from a message's leaving to its arrival in an empty network.

    Every packet follows the one before over each link as soon as rules 11, 12 and 18 let it, with
    credits for all; buffers that hold fewer packets than a round trip takes make it longer.

    Parameters
    ----------
    network, ways, hardware
        Of the run.
    route, size_bytes
        int [messages].
    """
    used, which = np.unique(route, return_inverse=True)
    topology = network.topology
    offset, links = first_ways(
        topology, ways.tables, ways.kind, ways.routes[used], len(topology.rows) + 3
    )
    took: NDArray[np.int64] = zero_load(
        topology, offset, links, which.astype(np.int64), np.asarray(size_bytes, dtype=np.int64),
        hardware.mtu_bytes, hardware.header_bytes, int(picoseconds(hardware.adapter_latency_ns)),
    )  # fmt: skip
    return took


LINK_COLUMNS: Mapping[str, Column] = {
    "link": Column(pl.Int32, "", "Directed link, in the order of `Fabric.links`; then in hosts."),
    "name": Column(pl.String, "", "Port that it leaves by and port that it goes to."),
    "kind": Column(
        pl.String, "", "switch-switch, host-switch, switch-host, host-host, auxiliary or in-host"
    ),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate."),
    "packets": Column(pl.Int64, "", "Packets that left by it."),
    "wire_bytes": Column(pl.Int64, "B", "Their bytes, headers included."),
    "utilisation": Column(
        pl.Float64, "", "Part of the time, from 0 to the end, that packets left; null if 0 ns."
    ),
    "mean_wait_ns": Column(
        pl.Float64,
        "ns",
        "Mean time from when a packet could have left with nothing in its way until it left; null "
        "without packets.",
    ),
}

QUEUE_COLUMNS: Mapping[str, Column] = {
    "link": LINK_COLUMNS["link"],
    "name": LINK_COLUMNS["name"],
    "vl": Column(pl.Int32, "", "Virtual lane."),
    "packets": Column(pl.Int64, "", "Packets that left by this link on this lane."),
    "wire_bytes": LINK_COLUMNS["wire_bytes"],
    "mean_wait_ns": LINK_COLUMNS["mean_wait_ns"],
}

HOP_COLUMNS: Mapping[str, Column] = {
    "message": Column(pl.Int64, "", "Operation that sends the message."),
    "packet": Column(pl.Int64, "", "Number of the packet in its connection; -1 for notifications."),
    "link": Column(pl.Int32, "", "Directed link that it left by."),
    "name": LINK_COLUMNS["name"],
    "vl": Column(pl.Int32, "", "Virtual lane on it."),
    "ready_ns": Column(pl.Float64, "ns", "When it could have left with nothing in its way."),
    "left_ns": Column(pl.Float64, "ns", "When its first byte left."),
    "gone_ns": Column(pl.Float64, "ns", "When its last byte had left."),
    "wait_ns": Column(pl.Float64, "ns", "From ready to left."),
    "behind_ns": Column(
        pl.Float64,
        "ns",
        "The part of it in which other packets of its queue were in front of it; 0 in adapters.",
    ),
}

REORDER_COLUMNS: Mapping[str, Column] = {
    "connection": Column(pl.Int32, "", "Connection: one direction of a queue pair."),
    "source_rank": Column(pl.Int32, "", "Rank that sends."),
    "destination_rank": Column(pl.Int32, "", "Rank that receives."),
    "messages": Column(pl.Int64, "", "Messages sent over it."),
    "packets": Column(pl.Int64, "", "Packets that these have."),
    "overtook_packets": Column(
        pl.Int64, "", "Packets that came before one sent earlier, answers of rendez-vous included."
    ),
    "most_held_bytes": Column(
        pl.Int64, "B", "Most bytes, with headers, that the receiver kept of such packets at a time."
    ),
    "kept_ns": Column(
        pl.Float64,
        "ns",
        "From when such packets had arrived to when all sent before them had, added up.",
    ),
    "most_kept_ns": Column(pl.Float64, "ns", "The longest of these times."),
}


@dataclass(frozen=True, eq=False, repr=False)
class PacketResult(Replay):
    """What happened, packet by packet: times in whole ps, counters of every link and lane.

    Parameters
    ----------
    fabric, engine, workload, hardware, policy, options
        What ran, and how; `engine` made the routes.
    host
        int32 [ranks].
    network, connections
        Links, and which route, connection and queue pair each message used.
    posted_ps, ended_ps
        int64 [ops]: begin and end of every operation, -1 where it did not happen.
    left_ps, arrived_ps
        int64 [ops]: of every message, when its first byte left and all of it had arrived.
    end_ps
        Simulated time at the end.
    complete
        False when the run was stopped before all had ended.
    deadlock
        Of a run that was stopped: full buffers that wait for each other in a circle and will
        for good, while packets moved elsewhere; empty where none do. Looked for with
        ``queues="input"``.
    num_vls
        Virtual lanes.
    packets, wire_bytes, wait_ps
        int64 [links, lanes]: packets that left by each link and lane, their bytes, and how long
        they waited after they could have left with nothing in the way.
    busy_ps
        int64 [links]: how long packets took to leave by it.
    held_bytes, overtook
        int64 [connections]: most bytes that a receiver kept because packets sent before were not
        there, and packets that it kept.
    kept_ps, most_kept_ps
        int64 [connections]: from when these had arrived to when all before them had, added up and
        the longest; of those that are still kept at the end of a run that was stopped, nothing.
    conservation
        Packets and bytes injected, delivered and in flight.
    snapshots
        Of all buffers, when they were asked for.
    congestion
        What congestion control did, when there was one.
    hop
        `weft.kernels.packet.records.HOP` of each hop of traced messages.
    num_hops, num_events, run_s
        Packets times links, events of the loop, and the time that the simulation took.
    """

    fabric: Fabric
    engine: str
    workload: Workload
    host: NDArray[np.int32]
    hardware: Hardware
    policy: str
    options: Mapping[str, Any]
    network: PacketNetwork
    connections: Connections
    posted_ps: NDArray[np.int64]
    ended_ps: NDArray[np.int64]
    left_ps: NDArray[np.int64]
    arrived_ps: NDArray[np.int64]
    end_ps: int
    complete: bool
    deadlock: str
    num_vls: int
    packets: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]
    wait_ps: NDArray[np.int64]
    busy_ps: NDArray[np.int64]
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
    run_s: float

    @property
    def posted_ns(self) -> NDArray[np.float64]:
        """`posted_ps` in ns, -1 where it did not happen."""
        return _ns(self.posted_ps)

    @property
    def ended_ns(self) -> NDArray[np.float64]:
        """`ended_ps` in ns."""
        return _ns(self.ended_ps)

    @property
    def left_ns(self) -> NDArray[np.float64]:
        """`left_ps` in ns."""
        return _ns(self.left_ps)

    @property
    def arrived_ns(self) -> NDArray[np.float64]:
        """`arrived_ps` in ns."""
        return _ns(self.arrived_ps)

    @property
    def reorders(self) -> bool:
        """Whether packets of a connection may overtake each other."""
        entry, given = policies.parse(self.policy)
        made = entry.function(**policies.bind(entry, given))
        return made.reorders or self.connections.several_ways

    def link_name(self, link: int) -> str:
        """A directed link, those inside hosts included."""
        return self.network.link_name(self.fabric, link)

    def links(self) -> pl.DataFrame:
        """One row a directed link; see `LINK_COLUMNS`."""
        links = self.network.num_links
        kinds = link_kinds(self.fabric).tolist() + ["in-host"] * (links - self.fabric.num_links)
        packets = self.packets.sum(1)
        return frame(
            LINK_COLUMNS,
            {
                "link": np.arange(links, dtype=np.int32),
                "name": [self.link_name(link) for link in range(links)],
                "kind": kinds,
                "rate_gbps": self.network.rate_gbps,
                "packets": packets,
                "wire_bytes": self.wire_bytes.sum(1),
                "utilisation": ratio(self.busy_ps, np.full(links, self.end_ps)),
                "mean_wait_ns": ratio(self.wait_ps.sum(1) / 1000, packets),
            },
        )

    def queues(self) -> pl.DataFrame:
        """One row a link and lane that packets left by; see `QUEUE_COLUMNS`."""
        link, lane = np.nonzero(self.packets)
        return frame(
            QUEUE_COLUMNS,
            {
                "link": link.astype(np.int32),
                "name": [self.link_name(int(each)) for each in link],
                "vl": lane.astype(np.int32),
                "packets": self.packets[link, lane],
                "wire_bytes": self.wire_bytes[link, lane],
                "mean_wait_ns": self.wait_ps[link, lane] / 1000 / self.packets[link, lane],
            },
        )

    def reordering(self) -> pl.DataFrame:
        """One row a connection that messages went over; see `REORDER_COLUMNS`.

        Rows of policies that keep packets in order say 0, where messages of a connection go by
        one route.
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
                "overtook_packets": self.overtook[line],
                "most_held_bytes": self.held_bytes[line],
                "kept_ns": self.kept_ps[line] / 1000,
                "most_kept_ns": self.most_kept_ps[line] / 1000,
            },
        )

    def throttling(self) -> pl.DataFrame:
        """One row a queue pair that congestion control may slow down; see `THROTTLING_COLUMNS`.

        Raises
        ------
        NotApplicable
            When the hardware has no congestion control.
        """
        if self.congestion is None:
            raise NotApplicable("the hardware of this run has no congestion control")
        return throttling(self.congestion, self.connections, self.workload, self.host)

    def hops(self) -> pl.DataFrame:
        """One row a packet and link of the traced messages, by time; see `HOP_COLUMNS`."""
        hop = self.hop
        return frame(
            HOP_COLUMNS,
            {
                "message": hop["op"],
                "packet": hop["sequence"],
                "link": hop["link"].astype(np.int32),
                "name": [self.link_name(int(link)) for link in hop["link"]],
                "vl": hop["lane"].astype(np.int32),
                "ready_ns": hop["ready_ps"] / 1000,
                "left_ns": hop["left_ps"] / 1000,
                "gone_ns": hop["gone_ps"] / 1000,
                "wait_ns": (hop["left_ps"] - hop["ready_ps"]) / 1000,
                "behind_ns": (hop["front_ps"] - hop["ready_ps"]) / 1000,
            },
        )

    def alone_ns(self) -> NDArray[np.float64]:
        """float64 [messages]: time from leaving to arrival if nothing else were there.

        Of a message whose route leaves a choice, over the first candidate at each node.
        """
        from weft.sim.packet.result import alone_ps

        ops = self.workload.messages
        route = self.connections.route[ops]
        took = np.zeros(len(ops))
        local = route == program.LOCAL
        size = self.workload.size_bytes[ops]
        took[local] = size[local] * 8 / float(self.options["local_gbps"]) + float(
            self.options["local_latency_ns"]
        )
        away = ~local
        took[away] = (
            alone_ps(self.network, self.connections.ways, self.hardware, route[away], size[away])
            / 1000
        )
        return took


def _ns(times_ps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Times in ns, -1 where there is none."""
    return np.where(times_ps < 0, -1.0, times_ps / 1000)
