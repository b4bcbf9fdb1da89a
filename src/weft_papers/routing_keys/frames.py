"""Tables of the Routing Keys study: their columns, and summaries over the seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from weft.core.columns import Column, frame_of_rows
from weft_papers.claim_report import CHOICE_COLUMNS
from weft_papers.claims import interval
from weft_papers.routing_keys.contention import METHODS, Size
from weft_papers.routing_keys.runs import CHOICES, KIB, PAPER, RoutingKeysRun, RoutingKeysRunResult

POINT_COLUMNS = {
    "figure": Column(
        pl.String,
        "",
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
}
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
        pl.Float64, "", "Mean over the seeds of dmodk's time over this time (null without dmodk)"
    ),
    "ratio_ci95": Column(pl.Float64, "", "Half width of its 95 % interval"),
}
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
    return frame_of_rows(
        RUN_COLUMNS,
        [
            (*_point(each.run), each.run.seed, each.worst_us, each.mean_us, each.packet_hops)
            for each in measured
        ],
    )


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
    return frame_of_rows(
        CONTENTION_COLUMNS,
        [
            (size.radix**2, method, size.seed, flows[method])
            for size, flows in measured.items()
            for method in METHODS
        ],
    )
