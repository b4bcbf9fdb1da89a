"""What a run of the flow level found, by message, rank, phase and link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.columns import Column, frame
from weft.fabrics import Fabric
from weft.sim.flow.network import Network, carried_bytes
from weft.sim.metrics import link_kinds
from weft.workload import Workload

MESSAGE_COLUMNS: Mapping[str, Column] = {
    "source_rank": Column(pl.Int32, "", "Rank that sends."),
    "destination_rank": Column(pl.Int32, "", "Rank that receives."),
    "source_host": Column(pl.Int32, "", "Host of the sender."),
    "destination_host": Column(pl.Int32, "", "Host of the receiver."),
    "tag": Column(pl.Int32, "", "Tag of the message."),
    "phase": Column(pl.String, "", "Phase that the message belongs to; empty outside phases."),
    "size_bytes": Column(pl.Int64, "B", "Size."),
    "posted_ns": Column(pl.Float64, "ns", "When the sender posted it."),
    "left_ns": Column(pl.Float64, "ns", "When its first byte left."),
    "arrived_ns": Column(pl.Float64, "ns", "When its last byte arrived."),
    "alone_ns": Column(
        pl.Float64, "ns", "Time from leaving to arrival if nothing else had been there."
    ),
    "slowdown": Column(
        pl.Float64, "", "Time from leaving to arrival over `alone_ns`; null where that is 0."
    ),
}

LINK_COLUMNS: Mapping[str, Column] = {
    "link": Column(pl.Int32, "", "Directed link, in the order of `Fabric.links`."),
    "name": Column(pl.String, "", "Port that it leaves by and port that it goes to."),
    "kind": Column(
        pl.String, "", "switch-switch, host-switch, switch-host, host-host or auxiliary"
    ),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate."),
    "carried_bytes": Column(pl.Float64, "B", "Bytes that crossed it."),
    "messages": Column(pl.Int64, "", "Messages that crossed it, wholly or in part."),
    "utilisation": Column(
        pl.Float64, "", "Carried bytes over what it could carry from start to end; null if 0 ns."
    ),
}

RANK_COLUMNS: Mapping[str, Column] = {
    "rank": Column(pl.Int32, "", "Rank."),
    "host": Column(pl.Int32, "", "Host it runs on."),
    "end_ns": Column(pl.Float64, "ns", "End of its last operation; 0 when it has none."),
    "calc_ns": Column(pl.Float64, "ns", "Time in calculations, all of them added up."),
    "sent_bytes": Column(pl.Int64, "B", "Sum of the messages that it sent."),
    "received_bytes": Column(pl.Int64, "B", "Sum of the messages that it got."),
    "messages": Column(pl.Int64, "", "Messages that it sent."),
}

PHASE_COLUMNS: Mapping[str, Column] = {
    "phase": Column(pl.String, "", "Name; empty for what is outside phases."),
    "begin_ns": Column(pl.Float64, "ns", "Start of its first operation."),
    "end_ns": Column(pl.Float64, "ns", "End of its last operation or arrival."),
    "span_ns": Column(pl.Float64, "ns", "From begin to end."),
    "messages": Column(pl.Int64, "", "Messages sent in it."),
    "size_bytes": Column(pl.Int64, "B", "Their sum."),
    "mean_message_ns": Column(
        pl.Float64, "ns", "Mean time from leaving to arrival; null without messages."
    ),
    "max_message_ns": Column(
        pl.Float64, "ns", "Longest time from leaving to arrival; null without messages."
    ),
    "mean_slowdown": Column(
        pl.Float64, "", "Mean slowdown of the messages that take time; null without any."
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class FlowResult:
    """What happened: times of operations and messages, and what the links carried.

    Parameters
    ----------
    fabric, engine, workload, options
        What ran, and how; `engine` made the routes.
    host
        int32 [ranks].
    network, route
        Routes, and int32 [ops], which one each message took (-1 within a host).
    posted_ns, ended_ns
        float64 [ops]: begin and end of every operation.
    left_ns, arrived_ns
        float64 [ops]: of every message, when its first byte left and its last arrived; -1 for
        other operations.
    num_shares, num_rate_changes, most_concurrent
        How often rates were shared anew, how many rates that changed, and most messages at once.
    run_s
        Time that the simulation took.
    """

    fabric: Fabric
    engine: str
    workload: Workload
    host: NDArray[np.int32]
    network: Network
    route: NDArray[np.int32]
    options: Mapping[str, Any]
    posted_ns: NDArray[np.float64]
    ended_ns: NDArray[np.float64]
    left_ns: NDArray[np.float64]
    arrived_ns: NDArray[np.float64]
    num_shares: int
    num_rate_changes: int
    most_concurrent: int
    run_s: float

    @property
    def makespan_ns(self) -> float:
        """End of the last operation or arrival of the last message."""
        return float(max(self.ended_ns.max(initial=0.0), self.arrived_ns.max(initial=0.0)))

    def alone_ns(self) -> NDArray[np.float64]:
        """float64 [messages]: time that each would take if it were alone."""
        ops = self.workload.messages
        route, size = self.route[ops], self.workload.size_bytes[ops]
        away = route >= 0
        alone = size / (float(self.options["local_gbps"]) / 8) + float(
            self.options["local_latency_ns"]
        )
        alone[away] = (
            size[away] / self.network.route_rate_bytes_per_ns[route[away]]
            + self.network.route_latency_ns[route[away]]
        )
        return alone

    def messages(self) -> pl.DataFrame:
        """One row a message, in the order of ranks and their programs; see `MESSAGE_COLUMNS`."""
        work, ops = self.workload, self.workload.messages
        alone = self.alone_ns()
        took = self.arrived_ns[ops] - self.left_ns[ops]
        return frame(
            MESSAGE_COLUMNS,
            {
                "source_rank": work.rank[ops],
                "destination_rank": work.peer[ops],
                "source_host": self.host[work.rank[ops]],
                "destination_host": self.host[work.peer[ops]],
                "tag": work.tag[ops],
                "phase": np.array(work.phase_names, dtype=object)[work.phase[ops]],
                "size_bytes": work.size_bytes[ops],
                "posted_ns": self.posted_ns[ops],
                "left_ns": self.left_ns[ops],
                "arrived_ns": self.arrived_ns[ops],
                "alone_ns": alone,
                "slowdown": _ratio(took, alone),
            },
        )

    def links(self) -> pl.DataFrame:
        """One row a directed link; see `LINK_COLUMNS`."""
        ops = self.workload.messages
        ops = ops[self.route[ops] >= 0]
        route = self.route[ops]
        carried = carried_bytes(self.network, route, self.workload.size_bytes[ops])
        per_route = np.bincount(route, minlength=self.network.num_routes)
        count = np.bincount(
            self.network.route_link,
            weights=np.repeat(per_route, np.diff(self.network.route_offset)),
            minlength=self.fabric.num_links,
        )
        could = self.network.capacity_bytes_per_ns * self.makespan_ns
        return frame(
            LINK_COLUMNS,
            {
                "link": np.arange(self.fabric.num_links, dtype=np.int32),
                "name": [self.fabric.link_name(link) for link in range(self.fabric.num_links)],
                "kind": link_kinds(self.fabric).tolist(),
                "rate_gbps": self.fabric.link_rate_gbps,
                "carried_bytes": carried,
                "messages": count.astype(np.int64),
                "utilisation": _ratio(carried, could),
            },
        )

    def ranks(self) -> pl.DataFrame:
        """One row a rank; see `RANK_COLUMNS`."""
        work, ranks = self.workload, self.workload.num_ranks
        ops = work.messages
        end = np.zeros(ranks)
        np.maximum.at(end, work.rank, self.ended_ns)
        size = work.size_bytes[ops]

        return frame(
            RANK_COLUMNS,
            {
                "rank": np.arange(ranks, dtype=np.int32),
                "host": self.host,
                "end_ns": end,
                "calc_ns": np.bincount(work.rank, weights=work.duration_ns, minlength=ranks),
                "sent_bytes": _totals(work.rank[ops], size, ranks),
                "received_bytes": _totals(work.peer[ops], size, ranks),
                "messages": np.bincount(work.rank[ops], minlength=ranks),
            },
        )

    def phases(self) -> pl.DataFrame:
        """One row a phase, in the order of their first mention; see `PHASE_COLUMNS`."""
        work, ops = self.workload, self.workload.messages
        names = work.phase_names
        begin, end = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        np.minimum.at(begin, work.phase, self.posted_ns)
        np.maximum.at(end, work.phase, self.ended_ns)
        np.maximum.at(end, work.phase[ops], self.arrived_ns[ops])
        there = np.flatnonzero(np.isfinite(begin))
        phase, took = work.phase[ops], self.arrived_ns[ops] - self.left_ns[ops]
        slow = _ratio(took, self.alone_ns())
        count = np.bincount(phase, minlength=len(names))
        longest = np.full(len(names), -np.inf)
        np.maximum.at(longest, phase, took)
        timed = ~np.isnan(slow)
        slowdown = _ratio(
            np.bincount(phase[timed], weights=slow[timed], minlength=len(names)),
            np.bincount(phase[timed], minlength=len(names)),
        )
        mean = _ratio(np.bincount(phase, weights=took, minlength=len(names)), count)
        size = _totals(phase, work.size_bytes[ops], len(names))
        return frame(
            PHASE_COLUMNS,
            {
                "phase": [names[at] for at in there],
                "begin_ns": begin[there],
                "end_ns": end[there],
                "span_ns": (end - begin)[there],
                "messages": count[there],
                "size_bytes": size[there],
                "mean_message_ns": mean[there],
                "max_message_ns": np.where(count > 0, longest, np.nan)[there],
                "mean_slowdown": slowdown[there],
            },
        )

    def __repr__(self) -> str:
        return (
            f"FlowResult({self.workload.name!r} on {self.fabric.name}, {self.engine}: "
            f"{len(self.workload.messages)} messages in {self.makespan_ns:g} ns)"
        )


def _totals(by: NDArray[Any], values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Sums of whole numbers by group, exact where doubles are not."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, by, values)
    return sums


def _ratio(values: NDArray[Any], by: NDArray[Any]) -> NDArray[np.float64]:
    """Quotients, NaN where the divisor is 0."""
    out = np.full(len(values), np.nan)
    np.divide(values, by, out=out, where=np.asarray(by) > 0)
    return out
