"""The static level of a workload: the messages of each phase as if all were there at once.

It leaves out time: what computes, what waits for what, and which messages of a phase are really
under way together. What it gives is where load gathers, and a bound: no phase can be over before
its busiest link has carried all of its bytes.
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
from weft.routes import Routes
from weft.sim.common.metrics import link_kinds
from weft.sim.static.loads import (
    Ports,
    contention,
    flow_loads,
    host_flows,
    host_rate_gbps,
)
from weft.workload.workload import Workload

#: Gb/s are bits in a nanosecond.
_BITS = 8.0

#: Name of the row that takes the messages of all phases, and so of all jobs, together.
TOGETHER = "all together"

#: Columns of `StaticWorkload.phases()`, one row per phase that has messages; where there are
#: several, then one for the messages of all.
PHASE_COLUMNS = {
    "phase": Column(pl.String, "", f"its name, empty outside phases, or `{TOGETHER}`"),
    "messages": Column(pl.Int64, "", "messages between ranks"),
    "size_bytes": Column(pl.Int64, "B", "their sum"),
    "local_bytes": Column(pl.Int64, "B", "part of it that stays in a host and loads no link"),
    "mean_contention": Column(
        pl.Float64,
        "flows",
        "mean over messages between hosts of the largest load on the way, counting messages of the "
        "phase over the link's relative rate; null where no path is fixed or none leaves a host",
    ),
    "max_contention": Column(pl.Float64, "flows", "largest load of any link"),
    "busiest_link": Column(pl.Int32, "", "link that needs longest for its bytes; null without any"),
    "busiest_bytes": Column(pl.Float64, "B", "what it carries"),
    "bound_ns": Column(
        pl.Float64, "ns", "how long it needs at its data rate: the phase cannot be shorter"
    ),
}

#: Columns of `StaticWorkload.messages()`, one row per message in the order of the workload.
MESSAGE_COLUMNS = {
    "source_rank": Column(pl.Int32, "", "rank that sends"),
    "destination_rank": Column(pl.Int32, "", "rank that receives"),
    "source_host": Column(pl.Int32, "", "its host"),
    "destination_host": Column(pl.Int32, "", "the receiver's host"),
    "tag": Column(pl.Int32, "", "tag of the message"),
    "phase": Column(pl.String, "", "phase that it belongs to; empty outside phases"),
    "size_bytes": Column(pl.Int64, "B", "of the message"),
    "contention": Column(
        pl.Float64,
        "flows",
        "largest load on its way among the messages of its phase; 0 inside a host, null where no "
        "path is fixed",
    ),
    "hops": Column(
        pl.Int32, "links", "on its way, host links included; 0 inside a host, null where not fixed"
    ),
}

#: Columns of `StaticWorkload.links()`, one row per directed link.
LINK_COLUMNS = {
    "link": Column(pl.Int32, "", "number of the directed link; link ^ 1 is its other direction"),
    "name": Column(pl.String, "", "port that it leaves by and port that it goes to"),
    "kind": Column(
        pl.String, "", "switch-switch, host-switch, switch-host, host-host or auxiliary"
    ),
    "rate_gbps": Column(pl.Float64, "Gb/s", "data rate of this direction"),
    "carried_bytes": Column(pl.Float64, "B", "bytes that cross it in all phases"),
    "messages": Column(
        pl.Float64, "", "messages that cross it in all phases; of one that is split, its part"
    ),
    "max_load": Column(
        pl.Float64, "flows", "most messages of one phase over the link's relative rate"
    ),
    "busy_ns": Column(pl.Float64, "ns", "how long it needs for its bytes at its data rate"),
}


@dataclass(frozen=True, eq=False, repr=False)
class StaticWorkload:
    """Loads of a workload's phases under one routing and placement.

    Parameters
    ----------
    fabric
        What it runs over.
    engine
        Of the routes.
    workload
        What ran.
    host
        int32 [ranks].
    phase_table, link_table
        Columns of `PHASE_COLUMNS` and `LINK_COLUMNS`.
    contention, hops
        float64 and int32 [messages]; empty where no path is fixed.
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
        """None: this level knows no time; `PHASE_COLUMNS` have bounds."""
        return None

    def phases(self) -> pl.DataFrame:
        """One row a phase; see `PHASE_COLUMNS`."""
        return self.phase_table

    def links(self) -> pl.DataFrame:
        """One row a directed link; see `LINK_COLUMNS`."""
        return self.link_table

    def summary(self) -> dict[str, Any]:
        """Figures of all phases: messages, bytes, contention and the largest bound."""
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
        """One row a message; see `MESSAGE_COLUMNS`."""
        work, sends = self.workload, self.workload.messages
        nulls = pl.Series([None] * len(sends), dtype=pl.Null)
        return frame(
            MESSAGE_COLUMNS,
            {
                "source_rank": work.rank[sends],
                "destination_rank": work.peer[sends],
                "source_host": self.host[work.rank[sends]],
                "destination_host": self.host[work.peer[sends]],
                "tag": work.tag[sends],
                "phase": np.array(work.phase_names, dtype=object)[work.phase[sends]],
                "size_bytes": work.size_bytes[sends],
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

    Parameters
    ----------
    fabric, routes
        Where messages go, and by which way.
    workload
        What sends them.
    hosts
        Host of each rank.
    ports
        Which port of a host with several: ``first`` or ``spread``; see `weft.sim.static.loads`.

    Raises
    ------
    InputError
        When a host does not exist, there are not as many as ranks, or two that exchange a message
        have no path.
    NotApplicable
        When the routes are of a kind that gives no link loads.
    """
    routes.check(fabric)
    where = fabric.host_numbers(hosts, "hosts of the ranks", count=workload.num_ranks)
    loader = _Loader(fabric, routes, workload, where, ports)
    phase = workload.phase[workload.messages]
    order = np.argsort(phase, kind="stable")
    starts = np.searchsorted(phase[order], np.arange(len(workload.phase_names) + 1))
    ways = routes.settled
    meets = np.zeros(len(phase) if ways else 0)
    hops = np.zeros(len(meets), dtype=np.int32)
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
        if ways:
            meets[mine], hops[mine] = loaded.contention, loaded.hops
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
        contention=meets,
        hops=hops,
    )


@dataclass(frozen=True, eq=False)
class _Loaded:
    """What some messages do to the links, and the links to them."""

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
        """Take these messages together, given by their number."""
        fabric, routes = self.fabric, self.routes
        sends = self.workload.messages[mine]
        source = self.hosts[self.workload.rank[sends]]
        destination = self.hosts[self.workload.peer[sends]]
        size = self.workload.size_bytes[sends]
        moves = source != destination
        # Messages between the same hosts share their way, so each pair of hosts is one flow.
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
        carried = flow_loads(fabric, routes, amount).per_link
        meets = np.zeros(len(mine))
        hops = np.zeros(len(mine), dtype=np.int32)
        if routes.settled:
            found = contention(fabric, routes, count, loads.per_link)
            _need_paths(fabric, routes, ends, found.hops)
            meets[moves], hops[moves] = found.worst[pair], found.hops[pair]
        elif loads.unrouted:
            raise InputError(
                f"{loads.unrouted:,} pairs of hosts that exchange messages have no path in the "
                f"{routes.engine} routes of {fabric.name}"
            )
        load = loads.per_link * (host_rate_gbps(fabric) / fabric.link_rate_gbps)
        needs = carried * _BITS / fabric.link_rate_gbps
        busiest = int(needs.argmax()) if needs.any() else None
        known = routes.settled and bool(moves.any())
        row = {
            "messages": len(mine),
            "size_bytes": int(size.sum()),
            "local_bytes": int(size[~moves].sum()),
            "mean_contention": float(meets[moves].mean()) if known else None,
            "max_contention": float(load.max(initial=0.0)),
            "busiest_link": busiest,
            "busiest_bytes": 0.0 if busiest is None else float(carried[busiest]),
            "bound_ns": float(needs.max(initial=0.0)),
        }
        return _Loaded(row, carried, loads.per_link, load, meets, hops)


def _need_paths(
    fabric: Fabric,
    routes: Routes,
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
    hops: NDArray[np.int32],
) -> None:
    lost = np.flatnonzero(hops < 0)
    if len(lost):
        ends = [fabric.host_names[int(hosts[lost[0]])] for hosts in pairs]
        more = f", and none for {len(lost) - 1:,} more pairs" if len(lost) > 1 else ""
        raise InputError(
            f"there is no path from {ends[0]} to {ends[1]} in the {routes.engine} routes of "
            f"{fabric.name}{more}"
        )


def _links(fabric: Fabric, sums: dict[str, NDArray[np.float64]]) -> pl.DataFrame:
    return frame(
        LINK_COLUMNS,
        {
            "link": np.arange(fabric.num_links, dtype=np.int32),
            "name": [fabric.link_name(link) for link in range(fabric.num_links)],
            "kind": link_kinds(fabric),
            "rate_gbps": fabric.link_rate_gbps,
            **sums,
            "busy_ns": sums["carried_bytes"] * _BITS / fabric.link_rate_gbps,
        },
    )
