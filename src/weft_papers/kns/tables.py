"""Tables of the KNS study: their columns and their text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple

import numpy as np
import polars as pl
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from weft.core.columns import Column, frame_of_rows
from weft.sim.static.loads import link_loads
from weft_papers.claim_report import titled_table, verdict_text
from weft_papers.claims import ClaimResult, headline, reason, spread_over, vote
from weft_papers.kns import machine
from weft_papers.kns.benchmarks import BENCHMARKS, METRICS
from weft_papers.kns.evidence import AXES, shown
from weft_papers.kns.machine import PAPER_ENGINES, Engines
from weft_papers.kns.plots import BEYOND, by_placement
from weft_papers.kns.runs import PLACEMENTS, KnsRun, KnsRunResult

_RUN = {
    "network": Column(
        pl.String, "",
        "Network (KNS, or tree for the slimmed tree: nodes, addresses and ports in random order; "
        "shuffled again: another random order; in order: that of the topology; KNS-adapters: "
        "adapters route without latency; KNS-adapters-100ns: in 100 ns; dragonfly)",
    ),
    "engine": Column(
        pl.String, "",
        "Routing engine (updn and updn-other: one root on the tree; updn-3: three roots; hdor-N: "
        "hdor on N lanes; dfsssp-few: dfsssp on the lanes that it needs)",
    ),
    "placement": Column(pl.String, "", "Placement of ranks (linear or random)"),
    "ranks_per_node": Column(pl.Int64, "", "Ranks on each of the 36 nodes"),
    "benchmark": Column(pl.String, "", "Benchmark"),
    "variant": Column(pl.String, "", "Variant of the benchmark (empty: none)"),
    "seed": Column(pl.Int64, "", "Seed of the random placement (0: linear placement)"),
}  # fmt: skip
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
        pl.Float64, "", "Share of the time without calculation at the rank that calculates most",
    ),
    "at_once": Column(pl.Int64, "", "Largest number of measured messages in flight at a time"),
    "every_pair": Column(
        pl.Boolean, "", "Equal number of measured messages between all pairs of ranks",
    ),
}  # fmt: skip
LANE_COLUMNS = {
    "network": _RUN["network"],
    "spec": Column(pl.String, "", "Topology spec"),
    "hosts": Column(pl.Int64, "", "Number of hosts"),
    "switches": Column(pl.Int64, "", "Number of switches"),
    "cables": Column(pl.Int64, "", "Number of cables (those to hosts included)"),
    "engine": _RUN["engine"],
    "lanes": Column(
        pl.Int64, "", "Number of virtual lanes that the routes use (table 2 of the paper)",
    ),
    "mean_links": Column(pl.Float64, "", "Mean number of links of the paths between two hosts"),
    "busiest_cable": Column(
        pl.Int64, "",
        "Largest number of paths over a link between forwarding nodes (all pairs of hosts)",
    ),
    "notes": Column(pl.String, "", "Notes of the engine"),
}  # fmt: skip
CLAIM_COLUMNS = {
    "id": Column(pl.String, "", "Short name of the claim"),
    "section": Column(pl.String, "", "Section or figure of the paper"),
    "claim": Column(pl.String, "", "Statement of the paper (paraphrased)"),
    "test": Column(pl.String, "", "Test of the claim"),
    "ranks_per_node": Column(pl.Int64, "", "Ranks on each node"),
    "verdict": Column(
        pl.String, "",
        "Verdict of most choices (holds, does not hold, cannot tell, undecided or not measured)",
    ),
    "votes": Column(pl.Int64, "", "Number of choices that give this verdict"),
    "choices": Column(pl.Int64, "", "Number of choices that change the values used by the claim"),
    "measured": Column(pl.String, "", "Measured values (headline choice)"),
    "deciding": Column(pl.String, "", "Deciding condition (headline choice)"),
    "low": Column(pl.Float64, "", "Smallest value of the deciding condition (over all choices)"),
    "high": Column(pl.Float64, "", "Largest value of the deciding condition (over all choices)"),
    "because": Column(
        pl.String, "", "Reason why no other value is possible, or why the value does not suffice",
    ),
    "comment": Column(pl.String, "", "Explanation of the result"),
}  # fmt: skip
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


def lanes_table(lanes: pl.DataFrame) -> Table:
    """Return table 2 of the paper with the lengths and loads of the paths."""
    table = titled_table(
        "Table 2: virtual lanes of each routing, and its paths between all hosts",
        ("network", "routing"), ("lanes", "mean links", "paths on the busiest cable"), ("notes",),
    )  # fmt: skip
    last = ""
    for row in lanes.iter_rows(named=True):
        table.add_row(
            row["network"] if row["network"] != last else "", row["engine"], str(row["lanes"]),
            f"{row['mean_links']:.2f}", str(row["busiest_cable"]), row["notes"],
        )  # fmt: skip
        last = row["network"]
    return table


def result_tables(results: pl.DataFrame) -> Iterator[Table]:
    """Yield tables of all metrics of the paper's routings, one per number of ranks per node."""
    paper = [(network, engine) for network, them in PAPER_ENGINES.items() for engine in them]
    for (ranks,), here in results.group_by("ranks_per_node", maintain_order=True):
        table = titled_table(
            f"{ranks} rank(s) on each node", ("metric", "placement"), map("\n".join, paper),
            collapse_padding=True,
        )  # fmt: skip
        values = by_placement(here)
        for metric in here["metric"].unique(maintain_order=True):
            unit = METRICS[metric].unit
            for placement in PLACEMENTS:
                cells = [values.get((*routing, placement, metric)) for routing in paper]
                if any(cell is not None for cell in cells):
                    table.add_row(
                        f"{metric}{', ' if unit else ''}{unit}" if placement == "linear" else "",
                        placement,
                        *("–" if cell is None else shown(cell, 4) for cell in cells),
                    )
            table.add_section()
        yield table


def beyond_table(results: pl.DataFrame, ranks: int) -> Table | None:
    """Return a table of what is not in the paper: other cable orders, networks, hdor with lanes."""
    paper = {(network, engine) for network, them in PAPER_ENGINES.items() for engine in them}
    values = by_placement(results.filter(pl.col("ranks_per_node") == ranks))
    rows = [pair for pair in dict.fromkeys(key[:2] for key in values) if pair not in paper]
    metrics = [name for name, _ in BEYOND if any(key[3] == name for key in values)]
    if not rows or not metrics:
        return None
    table = titled_table(
        "Beyond the paper (linear / random)", ("network", "routing"),
        [f"{metric},\n{METRICS[metric].unit}" for metric in metrics],
    )  # fmt: skip
    last = ""
    for network, engine in rows:
        cells = []
        for metric in metrics:
            pair = [values.get((network, engine, each, metric)) for each in PLACEMENTS]
            cells.append(" / ".join("–" if each is None else shown(each) for each in pair))
        table.add_row(network if network != last else "", engine, *cells)
        last = network
    return table


def _cell(result: ClaimResult | None) -> Text:
    """Return verdict, majority, range of the deciding values, and claimed range."""
    if result is None:
        return Text("–")
    voted = vote(result.findings)
    text = Text.assemble(verdict_text(voted.verdict), f"\n{voted}")
    low, high = spread_over(result)
    if low is not None and high is not None:
        first = headline(result).deciding
        text.append(f"\n{low:.3g}" + f" to {high:.3g}" * (f"{low:.3g}" != f"{high:.3g}"))
        bounds = [f"{bound:.3g}" for bound in first.wanted if math.isfinite(bound)]
        text.append(f" ({'≤ ' if first.wanted[0] == -math.inf else '≥ ' * (len(bounds) == 1)}")
        text.append(f"{' to '.join(bounds)})")
    return text


def claim_rows(
    claims: Mapping[int, Sequence[ClaimResult]],
) -> Iterator[tuple[RenderableType, ...]]:
    """Yield section, statement, measured values, and a cell per number of ranks."""
    by_id = {ranks: {each.id: each for each in results} for ranks, results in claims.items()}
    for name in dict.fromkeys(each for known in by_id.values() for each in known):
        results = [known.get(name) for known in by_id.values()]
        first = next(each for each in results if each is not None)
        measured = Text(headline(first).measured)
        if reason(first):
            measured.append(f"\n{reason(first)}", style="italic")
        yield first.section, first.says, measured, *map(_cell, results)


def by_verdict(result: ClaimResult) -> Iterator[Text]:
    """Yield each verdict, with its deciding condition and the number of choices that give it."""
    every = result.findings
    for verdict in vote(every).counts:
        chosen = [choice for choice in every if every[choice].verdict is verdict]
        line = Text.assemble(f"  {len(chosen)} of {len(every)} ", verdict_text(verdict))
        if every[chosen[0]].conditions:
            line.append(f" ({every[chosen[0]].deciding})")
        yield line
        for axis in AXES if len(chosen) < len(every) else ():
            have, all_of = (
                Counter(getattr(choice, axis) for choice in those) for those in (chosen, every)
            )
            if len(all_of) > 1:
                counts = (f"{option} {have[option]} of {all_of[option]}" for option in all_of)
                yield Text(f"    {axis}: {', '.join(counts)}")
