"""Tables of the KNS study and their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple

import numpy as np
import polars as pl

from weft.core.columns import Column, frame_of_rows
from weft.sim.static.loads import link_loads
from weft_papers.claims import ClaimResult, headline, reason, spread_over, vote
from weft_papers.kns import machine
from weft_papers.kns.benchmarks import BENCHMARKS, METRICS
from weft_papers.kns.machine import Engines
from weft_papers.kns.runs import KnsRun, KnsRunResult

_RUN = {
    "network": Column(
        pl.String,
        "",
        "Network (KNS, or tree for the slimmed tree: nodes, addresses and ports in random order; "
        "shuffled again: another random order; in order: that of the topology; KNS-adapters: "
        "adapters route without latency; KNS-adapters-100ns: in 100 ns; dragonfly)",
    ),
    "engine": Column(
        pl.String,
        "",
        "Routing engine (updn and updn-other: one root on the tree; updn-3: three roots; hdor-N: "
        "hdor on N lanes; dfsssp-few: dfsssp on the lanes that it needs)",
    ),
    "placement": Column(pl.String, "", "Placement of ranks (linear or random)"),
    "ranks_per_node": Column(pl.Int64, "", "Ranks on each of the 36 nodes"),
    "benchmark": Column(pl.String, "", "Benchmark"),
    "variant": Column(pl.String, "", "Variant of the benchmark (empty: none)"),
    "seed": Column(pl.Int64, "", "Seed of the random placement (0: linear placement)"),
}
RESULT_COLUMNS = {
    **_RUN,
    "metric": Column(pl.String, "", "Metric that the benchmark reports"),
    "value": Column(pl.Float64, "as unit says", "Value of the metric"),
    "unit": Column(pl.String, "", "Unit of the value (empty: share)"),
    "better": Column(pl.String, "", "Better values (more or less)"),
    "figure": Column(pl.String, "", "Figure of the paper for the KNS (empty: none)"),
}
RUN_COLUMNS = {
    **_RUN,
    "application": Column(pl.String, "", "Workload with its sizes"),
    "makespan_ns": Column(pl.Float64, "ns", "Simulated time"),
    "messages": Column(pl.Int64, "", "Number of messages sent (those within nodes included)"),
    "packet_hops": Column(pl.Int64, "", "Number of hops of all packets (flow level: 0)"),
    "wait_ns": Column(pl.Float64, "ns", "Mean wait of a packet for a link (flow level: null)"),
    "busiest": Column(pl.Float64, "", "Largest utilisation of a link between forwarding nodes"),
    "network_share": Column(
        pl.Float64, "", "Share of the time without calculation at the rank that calculates most"
    ),
    "at_once": Column(pl.Int64, "", "Largest number of measured messages in flight at a time"),
    "every_pair": Column(
        pl.Boolean, "", "Equal number of measured messages between all pairs of ranks"
    ),
}
LANE_COLUMNS = {
    "network": _RUN["network"],
    "spec": Column(pl.String, "", "Topology spec"),
    "hosts": Column(pl.Int64, "", "Number of hosts"),
    "switches": Column(pl.Int64, "", "Number of switches"),
    "cables": Column(pl.Int64, "", "Number of cables (those to hosts included)"),
    "engine": _RUN["engine"],
    "lanes": Column(
        pl.Int64, "", "Number of virtual lanes that the routes use (table 2 of the paper)"
    ),
    "mean_links": Column(pl.Float64, "", "Mean number of links of the paths between two hosts"),
    "busiest_cable": Column(
        pl.Int64,
        "",
        "Largest number of paths over a link between forwarding nodes (all pairs of hosts)",
    ),
    "notes": Column(pl.String, "", "Notes of the engine"),
}
CLAIM_COLUMNS = {
    "id": Column(pl.String, "", "Short name of the claim"),
    "section": Column(pl.String, "", "Section or figure of the paper"),
    "claim": Column(pl.String, "", "Statement of the paper (paraphrased)"),
    "test": Column(pl.String, "", "Test of the claim"),
    "ranks_per_node": Column(pl.Int64, "", "Ranks on each node"),
    "verdict": Column(
        pl.String,
        "",
        "Verdict of most choices (holds, does not hold, cannot tell, undecided or not measured)",
    ),
    "votes": Column(pl.Int64, "", "Number of choices that give this verdict"),
    "choices": Column(pl.Int64, "", "Number of choices that change the values used by the claim"),
    "measured": Column(pl.String, "", "Measured values (headline choice)"),
    "deciding": Column(pl.String, "", "Deciding condition (headline choice)"),
    "low": Column(pl.Float64, "", "Smallest value of the deciding condition (over all choices)"),
    "high": Column(pl.Float64, "", "Largest value of the deciding condition (over all choices)"),
    "because": Column(
        pl.String, "", "Reason why no other value is possible, or why the value does not suffice"
    ),
    "comment": Column(pl.String, "", "Explanation of the result"),
}
CHOICE_COLUMNS = {
    "id": Column(pl.String, "", "Short name of the claim"),
    "ranks_per_node": Column(pl.Int64, "", "Ranks on each node"),
    "cables": Column(pl.String, "", "Order of cables, ports and addresses"),
    "roots": Column(pl.String, "", "Roots of updn on the tree"),
    "grid": Column(pl.String, "", "Grid of PTRANS (empty: nearly square)"),
    "pace": Column(pl.String, "", "Calculation time of Graph500 as a part of the paper's time"),
    "better": Column(pl.String, "", "Smallest difference that counts as better"),
    "verdict": Column(pl.String, "", "Verdict (this choice)"),
    "measured": Column(pl.String, "", "Measured values"),
    "conditions": Column(pl.Int64, "", "Number of comparisons"),
    "against": Column(pl.Int64, "", "Number of comparisons whose verdict is not holds"),
    "deciding": Column(pl.String, "", "Deciding comparison"),
    "mean": Column(pl.Float64, "", "Mean over placements (deciding comparison)"),
    "ci95": Column(pl.Float64, "", "Half width of the 95 % interval (deciding comparison)"),
}
TABLES = {
    "results": RESULT_COLUMNS,
    "runs": RUN_COLUMNS,
    "lanes": LANE_COLUMNS,
    "claims": CLAIM_COLUMNS,
    "choices": CHOICE_COLUMNS,
}


def _key(run: KnsRun) -> tuple[str | int, ...]:
    return tuple(getattr(run, name) for name in _RUN)


def results_frame(measured: Sequence[KnsRunResult]) -> pl.DataFrame:
    """Return one row per run and metric, with `RESULT_COLUMNS`."""
    rows = []
    for each in measured:
        for name, value in each.values.items():
            about = METRICS[name]
            facts = (about.unit, about.better, about.figure)
            rows.append((*_key(each.run), name, value, *facts))
    return frame_of_rows(RESULT_COLUMNS, rows)


def runs_frame(measured: Sequence[KnsRunResult], full: bool) -> pl.DataFrame:
    """Return one row per run, with `RUN_COLUMNS`."""
    more = list(RUN_COLUMNS)[len(_RUN) + 1 :]
    rows = []
    for each in measured:
        key, run = _key(each.run), each.run
        application = BENCHMARKS[run.benchmark].application(run.ranks_per_node, full, run.variant)
        rows.append((*key, application, *(getattr(each, name) for name in more)))
    return frame_of_rows(RUN_COLUMNS, rows)


def claims_frame(claims: Mapping[int, Sequence[ClaimResult]]) -> pl.DataFrame:
    """Return one row per number of ranks and claim, with `CLAIM_COLUMNS`."""
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
    """Return one row per claim and choice, with `CHOICE_COLUMNS`."""
    rows: list[tuple[object, ...]] = []
    for results in claims.values():
        for each in results:
            for choice, finding in each.findings.items():
                worst = finding.deciding if finding.conditions else None
                rows.append((
                    each.id, *astuple(choice), str(finding.verdict), finding.measured,
                    finding.comparisons, len(finding.against), str(worst or ""),
                    worst.mean if worst else None, worst.half if worst else None,
                ))  # fmt: skip
    return frame_of_rows(CHOICE_COLUMNS, rows)


def lanes_frame(engines: Engines) -> pl.DataFrame:
    """Return one row per network and engine, with `LANE_COLUMNS`."""
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
