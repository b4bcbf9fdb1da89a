"""The KNS study's tables: what their columns hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple

import numpy as np
import polars as pl

from weft.core.columns import Column, frame_of_rows
from weft.sim.static.loads import link_loads
from weft.studies.claims import ClaimResult, headline, reason, spread_over, vote
from weft.studies.kns import machine
from weft.studies.kns.benchmarks import BENCHMARKS, METRICS
from weft.studies.kns.machine import Engines
from weft.studies.kns.runs import Measured, Run

_RUN = {
    "network": Column(
        pl.String,
        "",
        "KNS, tree (the slimmed one): nodes, addresses and ports in random order; both also "
        "shuffled again and in order; beyond the paper: KNS-adapters (adapters route, without "
        "latency), KNS-adapters-100ns, dragonfly",
    ),
    "engine": Column(
        pl.String,
        "",
        "routing; updn and updn-other on the tree have one root, updn-3 three; hdor-N: hdor spread "
        "over N lanes; dfsssp-few: dfsssp in the lanes that it needs",
    ),
    "placement": Column(pl.String, "", "of ranks: linear or random"),
    "ranks_per_node": Column(pl.Int64, "", "ranks of each of the 36 nodes"),
    "benchmark": Column(pl.String, "", "what ran"),
    "variant": Column(pl.String, "", "of the benchmark; empty where it has none"),
    "seed": Column(pl.Int64, "", "of the random placement; 0 for the linear one"),
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
    "network_share": Column(
        pl.Float64, "", "share of the time in which the rank that calculates most does not"
    ),
    "at_once": Column(pl.Int64, "", "most measured messages under way at one moment"),
    "every_pair": Column(
        pl.Boolean, "", "whether each rank measures as many messages to each other one"
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
    "mean_links": Column(pl.Float64, "", "links of a path between two hosts, on average"),
    "busiest_cable": Column(
        pl.Int64, "", "paths over the most used directed link between switches, all pairs of hosts"
    ),
    "notes": Column(pl.String, "", "what the engine says"),
}
CLAIM_COLUMNS = {
    "id": Column(pl.String, "", "short name of the claim"),
    "section": Column(pl.String, "", "where the paper says it"),
    "claim": Column(pl.String, "", "what the paper says, in our words"),
    "test": Column(pl.String, "", "what was asked of the data"),
    "ranks_per_node": Column(pl.Int64, "", "ranks of each node"),
    "verdict": Column(
        pl.String, "", "of most choices: holds, does not hold, cannot tell, undecided, not measured"
    ),
    "votes": Column(pl.Int64, "", "choices that give this verdict"),
    "choices": Column(pl.Int64, "", "choices that change what the claim reads"),
    "measured": Column(pl.String, "", "our figures for the headline choice"),
    "deciding": Column(pl.String, "", "the condition that decides for the headline choice"),
    "low": Column(
        pl.Float64, "", "least value, over all choices, of the condition that decides there"
    ),
    "high": Column(
        pl.Float64, "", "largest value, over all choices, of the condition that decides there"
    ),
    "because": Column(pl.String, "", "why no other value is possible, or none would settle it"),
    "comment": Column(pl.String, "", "why it comes out so"),
}
CHOICE_COLUMNS = {
    "id": Column(pl.String, "", "short name of the claim"),
    "ranks_per_node": Column(pl.Int64, "", "ranks of each node"),
    "cables": Column(pl.String, "", "order of cables, ports and addresses"),
    "roots": Column(pl.String, "", "of updn on the tree"),
    "grid": Column(pl.String, "", "of PTRANS; empty: nearly square"),
    "pace": Column(pl.String, "", "part of the paper's time in which Graph500 calculates"),
    "better": Column(pl.String, "", "what one value has to be more than another"),
    "verdict": Column(pl.String, "", "for this choice"),
    "measured": Column(pl.String, "", "our figures"),
    "conditions": Column(pl.Int64, "", "comparisons that have to come out as claimed"),
    "against": Column(pl.Int64, "", "those that do not"),
    "deciding": Column(pl.String, "", "the one that is furthest from the claim"),
    "mean": Column(pl.Float64, "", "its value, mean over placements"),
    "ci95": Column(pl.Float64, "", "half width of its 95 % interval"),
}


def _key(run: Run) -> tuple[str | int, ...]:
    return tuple(getattr(run, name) for name in _RUN)


def results_frame(measured: Sequence[Measured]) -> pl.DataFrame:
    """One row a run and metric, of `RESULT_COLUMNS`."""
    rows = []
    for each in measured:
        for name, value in each.values.items():
            about = METRICS[name]
            told = (about.unit, about.better, about.figure)
            rows.append((*_key(each.run), name, value, *told))
    return frame_of_rows(RESULT_COLUMNS, rows)


def runs_frame(measured: Sequence[Measured], full: bool) -> pl.DataFrame:
    """One row a run, of `RUN_COLUMNS`."""
    more = list(RUN_COLUMNS)[len(_RUN) + 1 :]
    rows = []
    for each in measured:
        key, run = _key(each.run), each.run
        ran = BENCHMARKS[run.benchmark].application(run.ranks_per_node, full, run.variant)
        rows.append((*key, ran, *(getattr(each, name) for name in more)))
    return frame_of_rows(RUN_COLUMNS, rows)


def claims_frame(claims: Mapping[int, Sequence[ClaimResult]]) -> pl.DataFrame:
    """One row a number of ranks and claim, of `CLAIM_COLUMNS`."""
    rows: list[tuple[object, ...]] = []
    for ranks, results in claims.items():
        for each in results:
            voted, first = vote(each.findings), headline(each)
            low, high = spread_over(each)
            rows.append((
                each.id, each.section, each.says, each.test, ranks, str(voted.verdict),
                voted.counts.get(voted.verdict, 0), len(each.findings), first.measured,
                first.deciding.label if first.conditions else "", low, high, reason(each),
                each.comment,
            ))  # fmt: skip
    return frame_of_rows(CLAIM_COLUMNS, rows)


def choices_frame(claims: Mapping[int, Sequence[ClaimResult]]) -> pl.DataFrame:
    """One row a claim and choice, of `CHOICE_COLUMNS`."""
    rows: list[tuple[object, ...]] = []
    for results in claims.values():
        for each in results:
            for choice, found in each.findings.items():
                worst = found.deciding if found.conditions else None
                rows.append((
                    each.id, *astuple(choice), str(found.verdict), found.measured,
                    found.comparisons, len(found.against), str(worst or ""),
                    worst.mean if worst else None, worst.half if worst else None,
                ))  # fmt: skip
    return frame_of_rows(CHOICE_COLUMNS, rows)


def lanes_frame(engines: Engines) -> pl.DataFrame:
    """Every routing of the study with its lanes, of `LANE_COLUMNS`."""
    rows: list[tuple[object, ...]] = []
    for network in machine.NETWORKS.values():
        fabric = machine.fabric(network.name)
        hosts = np.arange(fabric.num_hosts)
        source, destination = np.repeat(hosts, len(hosts)), np.tile(hosts, len(hosts))
        apart = source != destination
        for engine in network.engines:
            routes = machine.routes(network.name, engine, engines)
            loads = link_loads(fabric, routes, source[apart], destination[apart])
            rows.append((
                network.name, network.spec, fabric.num_hosts, fabric.num_switches,
                fabric.num_cables, engine, routes.num_vls, loads.sum() / apart.sum(),
                int(loads[fabric.graph.edge_link].max()), "; ".join(routes.notes),
            ))  # fmt: skip
    return frame_of_rows(LANE_COLUMNS, rows)
