"""The static level's answer: what a set of flows does to links, and links to the flows."""

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
from weft.routes.flows import Flows
from weft.sim.common.metrics import (
    LOAD_COLUMNS,
    ecdf,
    link_kinds,
    link_tiers,
    load_metrics,
    metrics_by_scope,
    scopes,
)
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.loads import (
    Contention,
    Loads,
    Ports,
    contention,
    flow_loads,
    host_flows,
    host_rate_gbps,
)

_CONTENTION = "flows"

#: Columns of `StaticResult.links`, one row per directed link in the order of `Fabric.links`.
LINK_COLUMNS = {
    "link": Column(pl.Int32, "", "number of the directed link; link ^ 1 is its other direction"),
    "from_node": Column(pl.String, "", "label of the node that sends over it"),
    "from_port": Column(pl.UInt16, "", "its port there"),
    "to_node": Column(pl.String, "", "label of the node that receives"),
    "to_port": Column(pl.UInt16, "", "its port there"),
    "kind": Column(
        pl.String, "", "switch-switch, host-switch, switch-host, host-host or auxiliary"
    ),
    "tier": Column(pl.String, "", "up 1-2 or down 2-1; null where it joins no two tree levels"),
    "rate_gbps": Column(pl.Float64, "Gb/s", "data rate of this direction"),
    "flows": Column(pl.Float64, _CONTENTION, "weight of the flows over it, 1 each by default"),
    "load": Column(
        pl.Float64, _CONTENTION, "flows times the fastest host cable's rate over this link's rate"
    ),
}

#: Columns of `StaticResult.flows`, one row per flow in the order given.
FLOW_COLUMNS = {
    "source": Column(pl.Int32, "", "host number of the sender"),
    "destination": Column(pl.Int32, "", "host number of the receiver"),
    "routed": Column(
        pl.Boolean, "", "it has a path; null where a policy chooses the path and some have none"
    ),
    "contention": Column(
        pl.Float64, _CONTENTION, "largest load on its path; null without a path or a fixed one"
    ),
    "hottest_link": Column(
        pl.Int32, "", "link with that load; null without a path, a fixed one, or any link"
    ),
    "hops": Column(
        pl.Int32, "links", "links on its path, host links included; null without a fixed path"
    ),
}

#: Columns of `StaticResult.summary`, which has one row.
SUMMARY_COLUMNS = {
    "flows": Column(pl.Int64, "", "number of flows"),
    "unrouted": Column(pl.Int64, "", "how many of them have no path"),
    "unrouted_share": Column(pl.Float64, "share", "unrouted over flows; null without flows"),
    "contention_mean": Column(
        pl.Float64, _CONTENTION, "mean over the flows with a path; null where no path is fixed"
    ),
    "contention_cv": Column(pl.Float64, "ratio", "its population standard deviation over its mean"),
    "contention_p50": Column(pl.Float64, _CONTENTION, "its median"),
    "contention_p90": Column(pl.Float64, _CONTENTION, "its 90th percentile"),
    "contention_p99": Column(pl.Float64, _CONTENTION, "its 99th percentile"),
    "contention_max": Column(pl.Float64, _CONTENTION, "its largest value"),
    "hops_mean": Column(pl.Float64, "links", "mean length of the paths; null where none is fixed"),
    "hops_max": Column(pl.Int64, "links", "longest path"),
}


@dataclass(frozen=True, eq=False, repr=False)
class StaticResult:
    """Loads and contention of one set of flows under one routing.

    A load of 1 is one flow on a link as fast as the fastest host cable, so that a flow whose
    worst link has load 4 gets at most a quarter of the injection rate.

    Parameters
    ----------
    fabric
        What the flows run over.
    engine
        Of the routes.
    host_rate_gbps
        Rate that loads are measured against.
    links
        Columns of `LINK_COLUMNS`.
    flows
        Columns of `FLOW_COLUMNS`; no rows when flows were not looked at one by one.
    summary
        Columns of `SUMMARY_COLUMNS`, one row.
    metrics
        Columns of `weft.sim.common.metrics.METRIC_COLUMNS`, of the column `load` of `links`.
    """

    fabric: Fabric
    engine: str
    host_rate_gbps: float
    links: pl.DataFrame
    flows: pl.DataFrame
    summary: pl.DataFrame
    metrics: pl.DataFrame

    def cdf(self, scope: str = "all") -> pl.DataFrame:
        """Empirical CDF of the load over the links of a scope of `metrics`.

        Raises
        ------
        InputError
            When the fabric has no links of that scope.
        """
        found = {name: here for _, name, here in scopes(self.fabric)}
        if scope not in found:
            raise InputError(f"no scope {scope!r}; there are {', '.join(found)}")
        return ecdf(self.links["load"].to_numpy()[found[scope]])

    def _repr_html_(self) -> str:
        return facts_table(f"{self.engine} on {self.fabric.name}", self.summary.row(0, named=True))

    def __repr__(self) -> str:
        row = self.summary.row(0, named=True)
        worst = self.metrics.row(0, named=True)["max"]
        load = "no links" if worst is None else f"largest load {worst:g}"
        return (
            f"StaticResult({self.engine!r} on {self.fabric.name!r}: {row['flows']} flows, "
            f"{row['unrouted']} unrouted, {load})"
        )


def analyse(
    fabric: Fabric,
    routes: Routes,
    sources: ArrayLike,
    destinations: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    ports: Ports = "first",
    lid_offset: ArrayLike = 0,
    per_flow: bool = True,
) -> StaticResult:
    """Load the links with flows that are there at once, and see what each flow meets.

    Parameters
    ----------
    fabric, routes
        Where the flows go, and by which way.
    sources, destinations
        Host numbers of equal length, such as ``*traffic(fabric.num_hosts, "shift")``.
    weights
        Load of each flow, 1 where left out.
    ports
        Which port of a host with several: ``first`` or ``spread``; see `weft.sim.static.loads`.
    lid_offset
        Which of the 2^LMC LIDs of the destination each flow uses.
    per_flow
        Look at each flow's path. Left out, and for routes that leave the path to a policy, the
        columns that need it are null.

    Returns
    -------
    StaticResult
        With frames of documented columns. Flows without a path load nothing and are counted.

    Raises
    ------
    InputError
        On host numbers or offsets that do not exist, or routes of another fabric.
    NotApplicable
        When the routes are of a kind that gives no link loads.
    """
    flows = host_flows(
        fabric,
        sources,
        destinations,
        weights=weights,
        ports=ports,
        lid_offset=lid_offset,
        lmc=routes.lmc,
    )
    loads = flow_loads(fabric, routes, flows)
    found = None
    if per_flow and routes.settled:
        found = contention(fabric, routes, flows, loads.per_link)
    table = pl.DataFrame(schema={name: column.dtype for name, column in FLOW_COLUMNS.items()})
    if per_flow:
        hosts = (np.asarray(sources, np.int32), np.asarray(destinations, np.int32))
        table = _flow_frame(hosts, flows, loads, found)
    return _result(fabric, routes, loads, table, found)


def analyse_all_to_all(fabric: Fabric, routes: Routes) -> StaticResult:
    """As `analyse` for one flow from every host to every other, however many there are.

    Flows are counted by switch and not looked at one by one, so that 46,656 hosts pose no
    problem; `flows` has no rows, and `summary` gives no contention and no hops.

    Parameters
    ----------
    fabric, routes
        Where the flows go, and by which way.
    """
    loads = all_to_all_loads(fabric, routes)
    table = pl.DataFrame(schema={name: column.dtype for name, column in FLOW_COLUMNS.items()})
    return _result(fabric, routes, loads, table, None)


def _flow_frame(
    hosts: tuple[NDArray[np.int32], NDArray[np.int32]],
    flows: Flows,
    loads: Loads,
    found: Contention | None,
) -> pl.DataFrame:
    count = len(flows.sources)
    data: dict[str, Any] = {"source": hosts[0], "destination": hosts[1]}
    if found is None:
        nulls = pl.Series([None] * count, dtype=pl.Null)
        routed = nulls if loads.unrouted else np.ones(count, dtype=bool)
        return frame(
            FLOW_COLUMNS,
            {**data, "routed": routed, "contention": nulls, "hottest_link": nulls, "hops": nulls},
        )
    arrived = found.hops >= 0
    return frame(
        FLOW_COLUMNS,
        {
            **data,
            "routed": arrived,
            "contention": found.worst,
            "hottest_link": _masked(found.link, found.link >= 0),
            "hops": _masked(found.hops, arrived),
        },
    )


def _masked(values: NDArray[np.int32], known: NDArray[np.bool_]) -> pl.Series:
    """The values, null where not known."""
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def _result(
    fabric: Fabric, routes: Routes, loads: Loads, flows: pl.DataFrame, found: Contention | None
) -> StaticResult:
    rate = host_rate_gbps(fabric)
    per_link = loads.per_link.astype(np.float64)
    load = per_link * (rate / fabric.link_rate_gbps)
    names = pl.Series(fabric.node_names, dtype=pl.String)
    links = frame(
        LINK_COLUMNS,
        {
            "link": np.arange(fabric.num_links, dtype=np.int32),
            "from_node": names.gather(fabric.link_from),
            "from_port": fabric.link_from_port,
            "to_node": names.gather(fabric.link_to),
            "to_port": fabric.link_to_port,
            "kind": link_kinds(fabric),
            "tier": link_tiers(fabric),
            "rate_gbps": fabric.link_rate_gbps,
            "flows": per_link,
            "load": load,
        },
    )
    return StaticResult(
        fabric=fabric,
        engine=routes.engine,
        host_rate_gbps=rate,
        links=links,
        flows=flows,
        summary=_summary(loads, found),
        metrics=metrics_by_scope(fabric, load),
    )


def _summary(loads: Loads, found: Contention | None) -> pl.DataFrame:
    row: dict[str, Any] = dict.fromkeys(SUMMARY_COLUMNS)
    row["flows"], row["unrouted"] = loads.flows, loads.unrouted
    row["unrouted_share"] = loads.unrouted / loads.flows if loads.flows else None
    if found is not None and np.any(arrived := found.hops >= 0):
        numbers = load_metrics(found.worst[arrived]).row(0, named=True)
        wanted = [name for name in LOAD_COLUMNS if f"contention_{name}" in SUMMARY_COLUMNS]
        row |= {f"contention_{name}": numbers[name] for name in wanted}
        row["hops_mean"] = float(found.hops[arrived].mean())
        row["hops_max"] = int(found.hops.max())
    return frame(SUMMARY_COLUMNS, {name: [value] for name, value in row.items()})
