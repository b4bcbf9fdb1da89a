"""Results of the flow level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.fabrics import Fabric
from weft.sim.common.metrics import NAMED_LINKS, named_links
from weft.sim.common.replay import Replay, ratio
from weft.sim.common.rolled_result import RolledReplay
from weft.sim.flow.network import Network, carried_bytes
from weft.workload import Workload

if TYPE_CHECKING:
    from weft.sim.flow.cells import Cells

LINK_COLUMNS: Mapping[str, Column] = {
    **NAMED_LINKS,
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate"),
    "carried_bytes": Column(
        pl.Float64, "B", "Bytes sent on the link (including headers of single-packet messages)"
    ),
    "messages": Column(pl.Int64, "", "Messages sent on the link (split messages included)"),
    "utilisation": Column(
        pl.Float64, "", "Part of the link's capacity in the run that was used (null: run of 0 ns)"
    ),
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FlowResult(Replay):
    """Result of a flow-level run: times of operations and messages, and traffic of links.

    Parameters
    ----------
    fabric, engine, workload, options
        The arguments of the run; `engine` is the name of the routes' engine.
    host
        int32 [ranks]: host of each rank.
    network, route
        The routes; and int32 [ops], the route of each message, -1 within a machine.
    posted_ns, ended_ns
        float64 [ops]: start and end of every operation.
    left_ns, arrived_ns
        float64 [ops]: departure of the first byte and arrival of the last byte of every message;
        -1 for other operations.
    num_shares, num_rate_changes, most_concurrent
        Number of updates of the rates, number of changed rates, and largest number of concurrent
        messages.
    run_s
        Wall-clock time of the simulation.
    """

    workload: Workload
    network: Network
    route: NDArray[np.int32]
    posted_ns: NDArray[np.float64]
    ended_ns: NDArray[np.float64]
    left_ns: NDArray[np.float64]
    arrived_ns: NDArray[np.float64]
    num_shares: int
    num_rate_changes: int
    most_concurrent: int

    def alone_ns(self) -> NDArray[np.float64]:
        """Return the zero-load time of each message from its departure, float64 [messages]."""
        ops = self.workload.messages
        return alone_ns(self.network, self.options, self.route[ops], self.workload.size_bytes[ops])

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `LINK_COLUMNS`."""
        ops = self.workload.messages[self.route[self.workload.messages] >= 0]
        size = on_wire(self.options, self.workload.size_bytes[ops])
        return link_table(self.fabric, self.network, self.makespan_ns, self.route[ops], size)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RolledResult(RolledReplay):
    """Result of a rolled workload at the flow level; it has no times of single operations.

    Parameters
    ----------
    fabric, engine, workload, host, options, run_s
        As in `FlowResult`.
    tally, most_ops
        As in `RolledReplay`.
    network, route
        The routes; and int32 [maps, ranks], the route from each rank to its peer.
    cells
        Ranks that are alike.
    shared
        Whether messages shared links; else each was shown to be alone on its own.
    certain
        Whether times are surely those of the unrolled workload. Else operations that coincide may
        have started in the order of another rank of the cell, and sums be rounded differently.
    """

    network: Network
    route: NDArray[np.int32]
    cells: Cells
    shared: bool
    certain: bool

    @property
    def recalled_for(self) -> str:
        """Why messages were not computed."""
        return f"of ranks like one of these {len(self.cells.first):,} were"

    @property
    def recalled(self) -> str:
        """How much was computed, and at a time, and what is known of times, in words."""
        but = "; ranks that are alike may differ by rounding, and by the order of what coincides"
        return super().recalled + but * (not self.certain)

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `LINK_COLUMNS`."""
        routes, sizes, counts = [], [], []
        for to, ranks, size in self.sent():
            route = self.route[to, ranks]
            routes.append(route[route >= 0])
            sizes.append(np.full(len(routes[-1]), on_wire(self.options, size).sum()))
            counts.append(np.full(len(routes[-1]), len(size)))
        columns = (
            np.concatenate([*each, np.zeros(0, dtype=np.int64)]) for each in (routes, sizes, counts)
        )
        return link_table(self.fabric, self.network, self.makespan_ns, *columns)


def on_wire(options: Mapping[str, Any], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes of messages between hosts, with the header of those of one packet."""
    header = int(options["header_bytes"]) if options["sharing"] != "none" else 0
    one_packet = (size <= int(options["mtu_bytes"])) & (int(options["mtu_bytes"]) > 0)
    return size + header * one_packet


def alone_ns(
    network: Network, options: Mapping[str, Any], route: NDArray[Any], size: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the zero-load time of messages by their routes, -1 within a machine."""
    away = route >= 0
    alone = size / (float(options["local_gbps"]) / 8) + float(options["local_latency_ns"])
    alone[away] = (
        on_wire(options, size[away]) / network.route_rate_bytes_per_ns[route[away]]
        + network.route_latency_ns[route[away]]
    )
    return alone


def link_table(
    fabric: Fabric, network: Network, makespan_ns: float, route: NDArray[Any],
    size_bytes: NDArray[Any], count: NDArray[np.int64] | None = None,
) -> pl.DataFrame:  # fmt: skip
    """Return one row for each directed link; see `LINK_COLUMNS`.

    `route`, `size_bytes`: route and bytes of messages; `count`: how many messages each of them
    stands for, by default one.
    """
    carried = carried_bytes(network, route, size_bytes)
    per_route = np.bincount(route, weights=count, minlength=network.num_routes)
    crossing = np.bincount(
        network.route_link,
        weights=np.repeat(per_route, np.diff(network.route_offset)),
        minlength=fabric.num_links,
    )
    return frame(
        LINK_COLUMNS,
        {
            **named_links(fabric),
            "rate_gbps": fabric.link_rate_gbps,
            "carried_bytes": carried,
            "messages": crossing.astype(np.int64),
            "utilisation": ratio(carried, network.capacity_bytes_per_ns * makespan_ns),
        },
    )
