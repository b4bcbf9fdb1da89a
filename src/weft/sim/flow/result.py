"""What a run of the flow level found, by message, rank, phase and link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.fabrics import Fabric
from weft.sim.common.metrics import link_kinds
from weft.sim.common.replay import Replay, ratio
from weft.sim.flow.network import Network, carried_bytes
from weft.workload import Workload

LINK_COLUMNS: Mapping[str, Column] = {
    "link": Column(pl.Int32, "", "Directed link, in the order of `Fabric.links`."),
    "name": Column(pl.String, "", "Port that it leaves by and port that it goes to."),
    "kind": Column(
        pl.String, "", "switch-switch, host-switch, switch-host, host-host or auxiliary"
    ),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate."),
    "carried_bytes": Column(
        pl.Float64, "B", "Bytes that crossed it, headers of messages of one packet included."
    ),
    "messages": Column(pl.Int64, "", "Messages that crossed it, wholly or in part."),
    "utilisation": Column(
        pl.Float64, "", "Carried bytes over what it could carry from start to end; null if 0 ns."
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class FlowResult(Replay):
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

    def _wire_bytes(self) -> NDArray[np.int64]:
        """int64 [messages]: bytes with the header of those between hosts that are one packet."""
        ops = self.workload.messages
        size = self.workload.size_bytes[ops]
        if self.options["sharing"] != "none":
            packet = (self.route[ops] >= 0) & (size <= self.options["mtu_bytes"])
            size[packet & (self.options["mtu_bytes"] > 0)] += self.options["header_bytes"]
        return size

    def alone_ns(self) -> NDArray[np.float64]:
        """float64 [messages]: time that each would take if it were alone."""
        ops = self.workload.messages
        route, size = self.route[ops], self._wire_bytes()
        away = route >= 0
        alone = size / (float(self.options["local_gbps"]) / 8) + float(
            self.options["local_latency_ns"]
        )
        alone[away] = (
            size[away] / self.network.route_rate_bytes_per_ns[route[away]]
            + self.network.route_latency_ns[route[away]]
        )
        return alone

    def links(self) -> pl.DataFrame:
        """One row a directed link; see `LINK_COLUMNS`."""
        route = self.route[self.workload.messages]
        away = route >= 0
        route, size = route[away], self._wire_bytes()[away]
        carried = carried_bytes(self.network, route, size)
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
                "utilisation": ratio(carried, could),
            },
        )
