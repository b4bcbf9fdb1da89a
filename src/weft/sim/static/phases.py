"""Static level of a workload: link loads caused by the messages of each phase.

All messages of a phase count as concurrent; there are no calculations and no dependencies. The
results are the loads of links and a lower bound: a phase takes at least as long as its busiest link
needs to carry the bytes of the phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.html import facts_table
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.common.metrics import NAMED_LINKS, named_links
from weft.sim.common.replay import SENT_COLUMNS, sent_messages
from weft.sim.static.loads import (
    Ports,
    contention,
    flow_loads,
    host_flows,
    relative_loads,
)
from weft.workload.workload import Workload

#: Bits per byte; a rate of 1 Gb/s is 1 bit/ns.
_BITS = 8.0

#: Name of the row for the messages of all phases, and of all jobs, together.
TOGETHER = "all together"

#: Columns of `StaticWorkload.phases()`, one row for each phase with messages; if there are several,
#: one more row for all messages.
PHASE_COLUMNS = {
    "phase": Column(pl.String, "", f"Name of the phase (empty: outside phases), or `{TOGETHER}`"),
    "messages": Column(pl.Int64, "", "Messages between ranks"),
    "size_bytes": Column(pl.Int64, "B", "Total size of messages"),
    "local_bytes": Column(pl.Int64, "B", "Total size of messages within machines"),
    "mean_contention": Column(
        pl.Float64,
        "flows",
        "Mean contention of messages between hosts (largest number of messages of the phase on a "
        "link of the path, over the link's relative rate; null: no fixed paths, or no message)",
    ),
    "max_contention": Column(pl.Float64, "flows", "Largest contention of a link"),
    "busiest_link": Column(
        pl.Int32, "", "Link that needs longest for its bytes (null: no link is used)"
    ),
    "busiest_bytes": Column(pl.Float64, "B", "Bytes on the busiest link"),
    "bound_ns": Column(
        pl.Float64,
        "ns",
        "Time of `busiest_bytes` at the link's rate (lower bound of the phase)",
    ),
}

#: Columns of `StaticWorkload.messages()`, one row per message in the order of the workload.
MESSAGE_COLUMNS = {
    **SENT_COLUMNS,
    "contention": Column(
        pl.Float64,
        "flows",
        "Contention of the message in its phase (0: within a machine; null: no fixed path)",
    ),
    "hops": Column(
        pl.Int32, "links", "Hops of the path (0: within a machine; null: no fixed path)"
    ),
}

#: Columns of `StaticWorkload.links()`, one row per directed link.
LINK_COLUMNS = {
    **NAMED_LINKS,
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate"),
    "carried_bytes": Column(pl.Float64, "B", "Bytes on the link (all phases)"),
    "messages": Column(
        pl.Float64, "", "Messages on the link (all phases; split messages count in part)"
    ),
    "max_load": Column(
        pl.Float64, "flows", "Largest number of messages of one phase over the link's relative rate"
    ),
    "busy_ns": Column(pl.Float64, "ns", "Time of the carried bytes at the data rate"),
}


@dataclass(frozen=True, eq=False, repr=False)
class StaticWorkload:
    """Loads of a workload's phases with one set of routes and one placement.

    Parameters
    ----------
    fabric
        The fabric.
    engine
        Name of the routes' engine.
    workload
        The workload.
    host
        int32 [ranks]: host of each rank.
    phase_table, link_table
        Columns of `PHASE_COLUMNS` and `LINK_COLUMNS`.
    contention, hops
        float64 and int32 [messages]: contention and hops of each message; empty if the routes do
        not fix the paths.
    """

    fabric: Fabric
    engine: str
    workload: Workload
    host: NDArray[np.int32]
    phase_table: pl.DataFrame
    link_table: pl.DataFrame
    contention: NDArray[np.float64]
    hops: NDArray[np.int32]

    @property
    def makespan_ns(self) -> None:
        """None: this level has no time; see `bound_ns` of `PHASE_COLUMNS`."""
        return None

    def phases(self) -> pl.DataFrame:
        """Return one row for each phase; see `PHASE_COLUMNS`."""
        return self.phase_table

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `LINK_COLUMNS`."""
        return self.link_table

    def summary(self) -> dict[str, Any]:
        """Return the figures of all phases together: messages, bytes, contention and bound."""
        all_phases = self.phase_table.tail(1)
        busiest = self.link_table.sort("busy_ns", descending=True, maintain_order=True).head(1)
        row = all_phases.row(0, named=True) if len(all_phases) else {}
        return {
            "engine": self.engine,
            "messages": len(self.workload.messages),
            "size_bytes": int(self.workload.size_bytes[self.workload.messages].sum()),
            "mean_contention": row.get("mean_contention"),
            "max_contention": row.get("max_contention"),
            "bound_ns": row.get("bound_ns"),
            "busiest_link": busiest["name"][0] if len(busiest) else None,
        }

    def messages(self) -> pl.DataFrame:
        """Return one row for each message; see `MESSAGE_COLUMNS`."""
        nulls = pl.Series([None] * len(self.workload.messages), dtype=pl.Null)
        return frame(
            MESSAGE_COLUMNS,
            {
                **sent_messages(self.workload, self.host),
                "contention": self.contention if len(self.contention) else nulls,
                "hops": self.hops if len(self.hops) else nulls,
            },
        )

    def _repr_html_(self) -> str:
        return facts_table(f"{self.workload.name} on {self.fabric.name}", self.summary())

    def __repr__(self) -> str:
        return (
            f"StaticWorkload({self.workload.name!r} by {self.engine!r} on {self.fabric.name!r}: "
            f"{len(self.workload.messages)} messages in {len(self.phase_table)} phases)"
        )


def analyse_workload(
    fabric: Fabric,
    routes: Routes,
    workload: Workload,
    hosts: ArrayLike,
    *,
    ports: Ports = "first",
) -> StaticWorkload:
    """Load the links with the messages of each phase.

    `ports`: port used by hosts with several ports: ``first`` or ``spread``; see
    `weft.sim.static.loads`.
    """
    routes.check(fabric)
    where = fabric.host_numbers(hosts, "hosts of the ranks", count=workload.num_ranks)
    loader = _Loader(fabric, routes, workload, where, ports)
    phase = workload.phase[workload.messages]
    order = np.argsort(phase, kind="stable")
    starts = np.searchsorted(phase[order], np.arange(len(workload.phase_names) + 1))
    fixed = routes.settled
    worst = np.zeros(len(phase) if fixed else 0)
    hops = np.zeros(len(worst), dtype=np.int32)
    links = {name: np.zeros(fabric.num_links) for name in ("carried_bytes", "messages", "max_load")}
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(workload.phase_names):
        mine = order[starts[number] : starts[number + 1]]
        if not len(mine):
            continue
        loaded = loader.load(mine)
        rows.append({"phase": name, **loaded.row})
        links["carried_bytes"] += loaded.per_link_bytes
        links["messages"] += loaded.per_link_messages
        np.maximum(links["max_load"], loaded.load, out=links["max_load"])
        if fixed:
            worst[mine], hops[mine] = loaded.contention, loaded.hops
    if len(rows) > 1:
        rows.append({"phase": TOGETHER, **loader.load(order).row})
    return StaticWorkload(
        fabric=fabric,
        engine=routes.engine,
        workload=workload,
        host=where.astype(np.int32),
        phase_table=frame(
            PHASE_COLUMNS, {name: [row[name] for row in rows] for name in PHASE_COLUMNS}
        ),
        link_table=_links(fabric, links),
        contention=worst,
        hops=hops,
    )


@dataclass(frozen=True, eq=False)
class _Loaded:
    """Loads of links and contention of messages for one set of messages."""

    row: dict[str, Any]
    per_link_bytes: NDArray[np.float64]
    per_link_messages: NDArray[np.float64]
    load: NDArray[np.float64]
    contention: NDArray[np.float64]
    hops: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class _Loader:
    fabric: Fabric
    routes: Routes
    workload: Workload
    hosts: NDArray[np.int64]
    ports: Ports

    def load(self, mine: NDArray[np.integer[Any]]) -> _Loaded:
        """Return the loads of the messages with these indices."""
        fabric, routes = self.fabric, self.routes
        sends = self.workload.messages[mine]
        source = self.hosts[self.workload.rank[sends]]
        destination = self.hosts[self.workload.peer[sends]]
        size = self.workload.size_bytes[sends]
        moves = fabric.apart(source, destination)
        # Messages between the same hosts have the same path, so each pair of hosts is one flow.
        key, pair = np.unique(
            source[moves] * fabric.num_hosts + destination[moves], return_inverse=True
        )
        ends = (key // fabric.num_hosts, key % fabric.num_hosts)
        count, amount = (
            host_flows(
                fabric,
                *ends,
                weights=np.bincount(pair, weights=weights, minlength=len(key)),
                ports=self.ports,
                lmc=routes.lmc,
            )
            for weights in (None, size[moves])
        )
        loads = flow_loads(fabric, routes, count)
        link_bytes = flow_loads(fabric, routes, amount).per_link
        worst = np.zeros(len(mine))
        hops = np.zeros(len(mine), dtype=np.int32)
        if routes.settled:
            flows = contention(fabric, routes, count, loads.per_link)
            _need_paths(fabric, routes, ends, flows.hops)
            worst[moves], hops[moves] = flows.worst[pair], flows.hops[pair]
        elif loads.unrouted:
            raise InputError(
                f"{loads.unrouted:,} pairs of hosts that exchange messages have no path in the "
                f"{routes.engine} routes of {fabric.name}"
            )
        load = relative_loads(fabric, loads.per_link)
        needs = link_bytes * _BITS / fabric.link_rate_gbps
        busiest = int(needs.argmax()) if needs.any() else None
        known = routes.settled and bool(moves.any())
        row = {
            "messages": len(mine),
            "size_bytes": int(size.sum()),
            "local_bytes": int(size[~moves].sum()),
            "mean_contention": float(worst[moves].mean()) if known else None,
            "max_contention": float(load.max(initial=0.0)),
            "busiest_link": busiest,
            "busiest_bytes": 0.0 if busiest is None else float(link_bytes[busiest]),
            "bound_ns": float(needs.max(initial=0.0)),
        }
        return _Loaded(row, link_bytes, loads.per_link, load, worst, hops)


def _need_paths(
    fabric: Fabric,
    routes: Routes,
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
    hops: NDArray[np.int32],
) -> None:
    unrouted = np.flatnonzero(hops < 0)
    if len(unrouted):
        ends = [fabric.host_names[int(hosts[unrouted[0]])] for hosts in pairs]
        more = f", and none for {len(unrouted) - 1:,} more pairs" if len(unrouted) > 1 else ""
        raise InputError(
            f"there is no path from {ends[0]} to {ends[1]} in the {routes.engine} routes of "
            f"{fabric.name}{more}"
        )


def _links(fabric: Fabric, sums: dict[str, NDArray[np.float64]]) -> pl.DataFrame:
    return frame(
        LINK_COLUMNS,
        {
            **named_links(fabric),
            "rate_gbps": fabric.link_rate_gbps,
            **sums,
            "busy_ns": sums["carried_bytes"] * _BITS / fabric.link_rate_gbps,
        },
    )
