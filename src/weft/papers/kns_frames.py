"""The KNS study's tables: what their columns hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from weft.columns import Column, frame
from weft.papers import kns_machine as machine
from weft.papers.kns_benchmarks import BENCHMARKS, METRICS
from weft.papers.kns_machine import Engines
from weft.papers.kns_runs import Measured, Run
from weft.sim.static import link_loads

_RUN = {
    "network": Column(
        pl.String,
        "",
        "KNS, tree (the slimmed one), both also shuffled: nodes, addresses and ports in random "
        "order; beyond the paper: KNS-adapters (adapters route, without latency), "
        "KNS-adapters-100ns, dragonfly",
    ),
    "engine": Column(
        pl.String,
        "",
        "routing; hdor-N: hdor spread over N lanes; dfsssp-few: dfsssp in the lanes that it needs",
    ),
    "placement": Column(pl.String, "", "of ranks: linear or random"),
    "ranks_per_node": Column(pl.Int64, "", "ranks of each of the 36 nodes"),
    "benchmark": Column(pl.String, "", "what ran"),
}
RESULT_COLUMNS = {
    **_RUN,
    "metric": Column(pl.String, "", "what the benchmark reports of it"),
    "value": Column(pl.Float64, "as unit says", "the number"),
    "unit": Column(pl.String, "", "its unit; empty for shares"),
    "better": Column(pl.String, "", "which values are: more or less"),
    "figure": Column(pl.String, "", "of the paper that shows it for the KNS; empty for none"),
}
RUN_COLUMNS = {
    **_RUN,
    "application": Column(pl.String, "", "the workload with its sizes"),
    "makespan_ns": Column(pl.Float64, "ns", "simulated time"),
    "messages": Column(pl.Int64, "", "messages sent, those within nodes included"),
    "packet_hops": Column(pl.Int64, "", "packets times links that they crossed; 0 at flow level"),
    "wait_ns": Column(
        pl.Float64, "ns", "mean time that a packet waits for a link; null at the flow level"
    ),
    "busiest": Column(
        pl.Float64, "", "largest share of the time that a link between switches was in use"
    ),
}
LANE_COLUMNS = {
    "network": _RUN["network"],
    "spec": Column(pl.String, "", "how to build it"),
    "hosts": Column(pl.Int64, "", "hosts"),
    "switches": Column(pl.Int64, "", "switches"),
    "cables": Column(pl.Int64, "", "cables, those to hosts included"),
    "engine": _RUN["engine"],
    "lanes": Column(pl.Int64, "", "virtual lanes that its routes use (table 2 of the paper)"),
    "mean_links": Column(pl.Float64, "", "links of a way between two hosts, on average"),
    "busiest_cable": Column(
        pl.Int64, "", "ways over the most used directed link between switches, all pairs of hosts"
    ),
    "notes": Column(pl.String, "", "what the engine says"),
}
CLAIM_COLUMNS = {
    "id": Column(pl.String, "", "short name of the claim"),
    "section": Column(pl.String, "", "where the paper says it"),
    "claim": Column(pl.String, "", "what the paper says, in our words"),
    "test": Column(pl.String, "", "what was asked of the data"),
    "ranks_per_node": Column(pl.Int64, "", "ranks of each node"),
    "shuffled": Column(pl.Boolean, "", "cabled in random order, or as the topology counts"),
    "verdict": Column(pl.String, "", "holds, does not hold, cannot tell, or not measured"),
    "measured": Column(pl.String, "", "our figures"),
    "conditions": Column(pl.Int64, "", "comparisons that have to come out as claimed"),
    "against": Column(pl.Int64, "", "those that do not"),
    "worst": Column(pl.String, "", "the one that is furthest from the claim"),
    "comment": Column(pl.String, "", "why it comes out so"),
}


def _keys(runs: Sequence[Run]) -> dict[str, list[str | int]]:
    return {name: [getattr(run, name) for run in runs] for name in _RUN}


def results_frame(measured: Sequence[Measured]) -> pl.DataFrame:
    """One row a run and metric, of `RESULT_COLUMNS`."""
    rows = [(each.run, name, value) for each in measured for name, value in each.values.items()]
    return frame(
        RESULT_COLUMNS,
        {
            **_keys([run for run, _, _ in rows]),
            "metric": [name for _, name, _ in rows],
            "value": [value for _, _, value in rows],
            "unit": [METRICS[name].unit for _, name, _ in rows],
            "better": [METRICS[name].better for _, name, _ in rows],
            "figure": [METRICS[name].figure for _, name, _ in rows],
        },
    )


def runs_frame(measured: Sequence[Measured], full: bool) -> pl.DataFrame:
    """One row a run, of `RUN_COLUMNS`."""
    return frame(
        RUN_COLUMNS,
        {
            **_keys([each.run for each in measured]),
            "application": [
                BENCHMARKS[each.run.benchmark].application(each.run.ranks_per_node, full)
                for each in measured
            ],
            **{
                name: [getattr(each, name) for each in measured]
                for name in ("makespan_ns", "messages", "packet_hops", "wait_ns", "busiest")
            },
        },
    )


def lanes_frame(engines: Engines) -> pl.DataFrame:
    """Every routing of the study with its lanes, of `LANE_COLUMNS`."""
    columns: dict[str, list[object]] = {name: [] for name in LANE_COLUMNS}
    for network in machine.NETWORKS.values():
        fabric = machine.fabric(network.name)
        hosts = np.arange(fabric.num_hosts)
        source, destination = np.repeat(hosts, len(hosts)), np.tile(hosts, len(hosts))
        apart = source != destination
        for engine in network.engines:
            routes = machine.routes(network.name, engine, engines)
            loads = link_loads(fabric, routes, source[apart], destination[apart])
            row = (
                network.name, network.spec, fabric.num_hosts, fabric.num_switches,
                fabric.num_cables, engine, routes.num_vls, loads.sum() / apart.sum(),
                int(loads[fabric.graph.edge_link].max()), "; ".join(routes.notes),
            )  # fmt: skip
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return frame(LANE_COLUMNS, columns)
