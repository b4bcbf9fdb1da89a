"""Tables of the Routing Keys study: their columns, summaries over the seeds, and their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from rich.table import Table

from weft.core.columns import Column, frame_of_rows
from weft_papers.claim_report import CHOICE_COLUMNS, titled_table
from weft_papers.claims import interval, plus_minus, show
from weft_papers.routing_keys.contention import METHODS, Size
from weft_papers.routing_keys.plots import STYLES
from weft_papers.routing_keys.runs import CHOICES, KIB, PAPER, RoutingKeysRun, RoutingKeysRunResult

POINT_COLUMNS = {
    "figure": Column(
        pl.String, "",
        "Figure of the paper, or latency (scheduler), keys (kinds of keys), lmc, placement, "
        "faults (missing cables)",
    ),
    "choice": Column(pl.String, "", "Setting that the paper leaves open (default: as the paper)"),
    "tree": Column(pl.String, "", "Fabric"),
    "applications": Column(pl.Int64, "", "Number of applications"),
    "utilization": Column(pl.Float64, "", "Utilization (communication time over total time)"),
    "size_kib": Column(pl.Int64, "KiB", "Size of all messages (null: mixed, 4 to 256 KiB)"),
    "iterations": Column(pl.Int64, "", "Repetitions of the six phases"),
    "missing": Column(pl.Int64, "", "Missing cables between switches"),
    "base": Column(pl.String, "", "Engine of the base routes"),
    "placement": Column(pl.String, "", "Hosts of the applications"),
    "policy": Column(pl.String, "", "Policy"),
}  # fmt: skip
RUN_COLUMNS = {
    **POINT_COLUMNS,
    "seed": Column(pl.Int64, "", "Seed"),
    "worst_us": Column(pl.Float64, "us", "Total communication time (largest of all applications)"),
    "mean_us": Column(pl.Float64, "us", "Total communication time (mean over applications)"),
    "packet_hops": Column(pl.Int64, "", "Number of hops of all packets"),
}
SUMMARY_COLUMNS = {
    **POINT_COLUMNS,
    "seeds": Column(pl.Int64, "", "Number of seeds"),
    "worst_us": Column(pl.Float64, "us", "Mean over the seeds of the largest communication time"),
    "worst_ci95": Column(pl.Float64, "us", "Half width of its 95 % interval"),
    "ratio": Column(
        pl.Float64, "", "Mean over the seeds of dmodk's time over this time (null without dmodk)",
    ),
    "ratio_ci95": Column(pl.Float64, "", "Half width of its 95 % interval"),
}  # fmt: skip
CONTENTION_COLUMNS = {
    "hosts": Column(pl.Int64, "", "Number of hosts"),
    "method": Column(pl.String, "", "Routing"),
    "seed": Column(pl.Int64, "", "Seed"),
    "flows": Column(pl.Int64, "flows", "Largest number of flows on a link between switches"),
}
TABLES = {
    "runs": RUN_COLUMNS,
    "summary": SUMMARY_COLUMNS,
    "contention": CONTENTION_COLUMNS,
    "claims": CHOICE_COLUMNS,
}


def _point(run: RoutingKeysRun) -> tuple[Any, ...]:
    return (
        run.figure, run.choice, run.tree, run.applications, run.utilization,
        run.size // KIB or None, run.iterations, run.missing, run.base,
        run.placement or CHOICES[run.choice].placement, run.policy,
    )  # fmt: skip


def runs_frame(measured: Sequence[RoutingKeysRunResult]) -> pl.DataFrame:
    """Return one row per run, with `RUN_COLUMNS`."""
    return frame_of_rows(RUN_COLUMNS, [
        (*_point(each.run), each.run.seed, each.worst_us, each.mean_us, each.packet_hops)
        for each in measured
    ])  # fmt: skip


def summary_frame(measured: Sequence[RoutingKeysRunResult]) -> pl.DataFrame:
    """Return one row per point and policy, with `SUMMARY_COLUMNS`."""
    times = {each.run: each.worst_us for each in measured}
    points: dict[RoutingKeysRun, list[RoutingKeysRun]] = {}
    for run in times:
        points.setdefault(replace(run, seed=0), []).append(run)
    rows = []
    for point, runs in points.items():
        mean, half = interval(np.array([times[run] for run in runs]))
        # A choice that changes only other policies has no runs of dmodk; take those of the default.
        rivals = [replace(run, policy="dmodk") for run in runs]
        rivals = [each if each in times else replace(each, choice=PAPER) for each in rivals]
        gain: tuple[Any, Any] = (None, None)
        if all(each in times for each in rivals):
            both = zip(rivals, runs, strict=True)
            gain = interval(np.array([times[rival] / times[run] for rival, run in both]))
        rows.append((*_point(point), len(runs), float(mean), float(half), *gain))
    return frame_of_rows(SUMMARY_COLUMNS, rows)


def contention_frame(measured: Mapping[Size, Mapping[str, int]]) -> pl.DataFrame:
    """Return one row per size, seed and method of figure 4, with `CONTENTION_COLUMNS`."""
    return frame_of_rows(CONTENTION_COLUMNS, [
        (size.radix**2, method, size.seed, flows[method])
        for size, flows in measured.items()
        for method in METHODS
    ])  # fmt: skip


_TITLES = {
    "6": "Figure 6: 216 hosts, 6 applications, mixed sizes",
    "7": "Figure 7: mixed sizes",
    "8": "Figure 8: messages of 32 KiB",
    "9": "Figure 9: equal amounts of data, by message size",
    "latency": "Latency of the scheduler; until a key is granted, NRK waits or has the base routes",
    "keys": "Kinds of keys",
    "lmc": "LMC: with ARK, a flow for which no LID is left takes the base routes",
    "placement": "Placement; isolated: as Jigsaw, with D-mod-K on the links of each application",
    "faults": "Missing cables, with base routes that allow them",
}
#: Columns that tell the points of a figure apart, and their headings.
_POINTS = {
    "applications": "applications", "utilization": "utilization", "size_kib": "KiB",
    "missing": "missing cables", "base": "base routes", "placement": "placement",
}  # fmt: skip


def contention_table(contention: pl.DataFrame) -> Table:
    """Return figure 4 as a table."""
    methods = contention["method"].unique(maintain_order=True).to_list()
    labels = [STYLES[method][0] for method in methods]
    table = titled_table("Figure 4: flows on the most loaded link", (), ("hosts", *labels))
    for (hosts,), here in contention.group_by("hosts", maintain_order=True):
        values = (here.filter(pl.col("method") == each)["flows"].to_numpy() for each in methods)
        table.add_row(f"{hosts:,}", *(show(each.astype(float)) for each in values))
    return table


def time_tables(summary: pl.DataFrame) -> Iterator[Table]:
    """Yield a table for each figure, with a row for each point and policy, and times in us."""
    usual = summary.filter(pl.col("choice") == PAPER)
    for (figure,), here in usual.group_by("figure", maintain_order=True):
        several = [name for name in _POINTS if here[name].n_unique() > 1]
        points = here.select(several).unique(maintain_order=True).rows() if several else [()]
        rival = "the base routes" if figure == "faults" else "D-mod-K"
        table = titled_table(
            f"{_TITLES[str(figure)]}; gain: time of {rival} over that of the policy",
            (), [_POINTS[name] for name in several], ("policy",), ("time, us", "gain"),
            collapse_padding=True,
        )  # fmt: skip
        for point in points:
            at = here
            for name, value in zip(several, point, strict=True):
                at = at.filter(pl.col(name).eq_missing(value))
            head = [f"{value:.0%}" if isinstance(value, float) else str(value) for value in point]
            for row in at.iter_rows(named=True):
                label = STYLES[row["policy"]][0] if row["policy"] in STYLES else row["policy"]
                label = rival if row["policy"] == "dmodk" else label
                gain = row["ratio"]
                table.add_row(
                    *head, label, plus_minus(row["worst_us"], row["worst_ci95"]),
                    "–" if gain is None else plus_minus(gain, row["ratio_ci95"]),
                )  # fmt: skip
                head = [""] * len(head)
        yield table
