"""Results of the static level: loads of links and contention of flows, as tables."""

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
from weft.routing.routes.flows import EndpointFlows
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
)

_CONTENTION = "flows"

#: Columns of `StaticResult.links`, one row per directed link in the order of `Fabric.links`.
LINK_COLUMNS = {
    "link": Column(pl.Int32, "", "Directed link (link ^ 1 is its other direction)"),
    "from_node": Column(pl.String, "", "Name of the sending node"),
    "from_port": Column(pl.UInt16, "", "Port of the sending node"),
    "to_node": Column(pl.String, "", "Name of the receiving node"),
    "to_port": Column(pl.UInt16, "", "Port of the receiving node"),
    "kind": Column(
        pl.String, "", "switch-switch, host-switch, switch-host, host-host or auxiliary"
    ),
    "tier": Column(
        pl.String, "", "Direction and tree levels, as up 1-2 (null: not between two levels)"
    ),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate"),
    "flows": Column(pl.Float64, _CONTENTION, "Total weight of the flows on the link"),
    "load": Column(
        pl.Float64,
        _CONTENTION,
        "`flows` / relative rate of the link (fastest host cable: 1)",
    ),
}

#: Columns of `StaticResult.flows`, one row per flow in the order given.
FLOW_COLUMNS = {
    "source": Column(pl.Int32, "", "Sending host"),
    "destination": Column(pl.Int32, "", "Receiving host"),
    "routed": Column(
        pl.Boolean, "", "Whether the flow has a path (null: unknown, as a policy chooses paths)"
    ),
    "contention": Column(
        pl.Float64, _CONTENTION, "Largest load on the path (null: no path, or no fixed path)"
    ),
    "busiest_link": Column(
        pl.Int32, "", "Link with the largest load (null: no path, no fixed path, or no link)"
    ),
    "hops": Column(pl.Int32, "links", "Hops of the path (null: no path, or no fixed path)"),
}

#: Columns of `StaticResult.summary`, which has one row.
SUMMARY_COLUMNS = {
    "flows": Column(pl.Int64, "", "Number of flows"),
    "unrouted": Column(pl.Int64, "", "Number of flows without a path"),
    "unrouted_share": Column(pl.Float64, "share", "Share of flows without a path (null: no flows)"),
    "contention_mean": Column(
        pl.Float64, _CONTENTION, "Mean contention of flows with a path (null: no fixed paths)"
    ),
    "contention_cv": Column(
        pl.Float64, "ratio", "Population standard deviation of contention over its mean"
    ),
    "contention_p50": Column(pl.Float64, _CONTENTION, "Median contention"),
    "contention_p90": Column(pl.Float64, _CONTENTION, "90th percentile of contention"),
    "contention_p99": Column(pl.Float64, _CONTENTION, "99th percentile of contention"),
    "contention_max": Column(pl.Float64, _CONTENTION, "Largest contention"),
    "hops_mean": Column(pl.Float64, "links", "Mean length of paths (null: no fixed paths)"),
    "hops_max": Column(pl.Int64, "links", "Length of the longest path"),
}


@dataclass(frozen=True, eq=False, repr=False)
class StaticResult:
    """Loads and contention of one set of flows with one set of routes.

    A load of 1 means one flow on a link as fast as the fastest host cable. So a flow whose most
    loaded link has load 4 gets at most a quarter of the injection rate.

    Parameters
    ----------
    fabric
        The fabric.
    engine
        Name of the routes' engine.
    host_rate_gbps
        Rate of a link on which one flow is a load of 1.
    links
        Columns of `LINK_COLUMNS`.
    flows
        Columns of `FLOW_COLUMNS`; no rows if single flows were not analysed.
    summary
        Columns of `SUMMARY_COLUMNS`, one row.
    metrics
        Columns of `weft.sim.common.metrics.METRIC_COLUMNS` for the column `load` of `links`.
    """

    fabric: Fabric
    engine: str
    host_rate_gbps: float
    links: pl.DataFrame
    flows: pl.DataFrame
    summary: pl.DataFrame
    metrics: pl.DataFrame

    def cdf(self, scope: str = "all") -> pl.DataFrame:
        """Return the empirical CDF of the load over the links of a scope of `metrics`.

        Raises
        ------
        InputError
            If the fabric has no links of that scope.
        """
        masks = {name: mask for _, name, mask in scopes(self.fabric)}
        if scope not in masks:
            raise InputError(f"no scope {scope!r}; there are {', '.join(masks)}")
        return ecdf(self.links["load"].to_numpy()[masks[scope]])

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
    """Load the links with concurrent flows, and compute the contention of each flow.

    Parameters
    ----------
    fabric, routes
        The fabric and its routes.
    sources, destinations
        Host numbers of equal length, such as ``*traffic(fabric.num_hosts, "shift")``.
    weights
        Load of each flow, by default 1.
    ports
        Port used by hosts with several ports: ``first`` or ``spread``; see `host_flows`.
    lid_offset
        LID offset of each flow's destination, 0 to 2^LMC - 1.
    per_flow
        Analyse the path of each flow. If False, `flows` has no rows, and contention and hops are
        null in `summary`. They are also null if routes leave a choice of paths.

    Returns
    -------
    StaticResult
        Frames of documented columns. Flows without a path add no load; their number is in
        `summary`.

    Raises
    ------
    InputError
        If a host number or offset does not exist, or the routes belong to another fabric.
    NotApplicable
        If the routes do not define the links of a flow.
    """
    flows = host_flows(
        fabric, sources, destinations, weights=weights, ports=ports, lid_offset=lid_offset,
        lmc=routes.lmc,
    )  # fmt: skip
    loads = flow_loads(fabric, routes, flows)
    of_flows = None
    if per_flow and routes.settled:
        of_flows = contention(fabric, routes, flows, loads.per_link)
    table = pl.DataFrame(schema={name: column.dtype for name, column in FLOW_COLUMNS.items()})
    if per_flow:
        hosts = (np.asarray(sources, np.int32), np.asarray(destinations, np.int32))
        table = _flow_frame(hosts, flows, loads, of_flows)
    return _result(fabric, routes, loads, table, of_flows)


def analyse_all_to_all(fabric: Fabric, routes: Routes) -> StaticResult:
    """Analyse one flow from every host to every other host, without listing the flows.

    Flows are counted per switch, so that fabrics of 46,656 hosts can be analysed. In the result,
    `flows` has no rows, and contention and hops are null in `summary`.
    """
    loads = all_to_all_loads(fabric, routes)
    table = pl.DataFrame(schema={name: column.dtype for name, column in FLOW_COLUMNS.items()})
    return _result(fabric, routes, loads, table, None)


def _flow_frame(
    hosts: tuple[NDArray[np.int32], NDArray[np.int32]],
    flows: EndpointFlows,
    loads: Loads,
    of_flows: Contention | None,
) -> pl.DataFrame:
    count = len(flows.sources)
    data: dict[str, Any] = {"source": hosts[0], "destination": hosts[1]}
    if of_flows is None:
        nulls = pl.Series([None] * count, dtype=pl.Null)
        routed = nulls if loads.unrouted else np.ones(count, dtype=bool)
        return frame(
            FLOW_COLUMNS,
            {**data, "routed": routed, "contention": nulls, "busiest_link": nulls, "hops": nulls},
        )
    arrived = of_flows.hops >= 0
    return frame(
        FLOW_COLUMNS,
        {
            **data,
            "routed": arrived,
            "contention": of_flows.worst,
            "busiest_link": _masked(of_flows.link, of_flows.link >= 0),
            "hops": _masked(of_flows.hops, arrived),
        },
    )


def _masked(values: NDArray[np.int32], known: NDArray[np.bool_]) -> pl.Series:
    """Return the values, null where `known` is false."""
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def _result(
    fabric: Fabric, routes: Routes, loads: Loads, flows: pl.DataFrame, of_flows: Contention | None
) -> StaticResult:
    rate = fabric.host_rate_gbps
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
        summary=_summary(loads, of_flows),
        metrics=metrics_by_scope(fabric, load),
    )


def _summary(loads: Loads, of_flows: Contention | None) -> pl.DataFrame:
    row: dict[str, Any] = dict.fromkeys(SUMMARY_COLUMNS)
    row["flows"], row["unrouted"] = loads.flows, loads.unrouted
    row["unrouted_share"] = loads.unrouted / loads.flows if loads.flows else None
    if of_flows is not None and np.any(arrived := of_flows.hops >= 0):
        numbers = load_metrics(of_flows.worst[arrived]).row(0, named=True)
        wanted = [name for name in LOAD_COLUMNS if f"contention_{name}" in SUMMARY_COLUMNS]
        row |= {f"contention_{name}": numbers[name] for name in wanted}
        row["hops_mean"] = float(of_flows.hops[arrived].mean())
        row["hops_max"] = int(of_flows.hops.max())
    return frame(SUMMARY_COLUMNS, {name: [value] for name, value in row.items()})
