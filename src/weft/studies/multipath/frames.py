"""The multipath study's tables: what their columns hold, and how runs are summed up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame_of_rows
from weft.sim.static.multipath import Scheme
from weft.studies.claims import interval
from weft.studies.multipath.evidence import EQUAL

SCHEMES = (*(scheme.value for scheme in Scheme), EQUAL)

METRICS = ("mean", "p50", "p90", "p99", "max", "cv", "used")

#: Basis -> which loads it looks at.
BASES = {
    "cable": "the paper's: every cable, both directions added, cables to hosts included",
    "host-cable": "cables to hosts, both directions added",
    "directed": "directed links between switches, all tiers",
    "edge-agg-up": "directed links from edge to aggregation switches",
    "agg-core-up": "directed links from aggregation to core switches",
    "core-agg-down": "directed links from core to aggregation switches",
    "agg-edge-down": "directed links from aggregation to edge switches",
}
POINT_COLUMNS = {
    "sweep": Column(
        pl.String,
        "",
        "which sweep: qps (at 20 epochs), qps-30 (QPs at 30 epochs), epochs, k, or cdf (figure 7)",
    ),
    "k": Column(pl.Int64, "ports", "ports of a switch of the fat tree"),
    "qps": Column(pl.Int64, "", "queue pairs of each flow that there are at this point"),
    "epochs": Column(pl.Int64, "", "flowlet epochs of each queue pair that there are"),
    "scheme": Column(
        pl.String,
        "",
        "ecmp (1 QP, 1 epoch), flowlet (1 QP), e-ecmp (1 epoch), flowlet-e-ecmp, or equal-split: "
        "each flow in equal parts over all its paths",
    ),
    "basis": Column(pl.String, "", "; ".join(f"{name}: {text}" for name, text in BASES.items())),
}
RUN_COLUMNS = {
    **POINT_COLUMNS,
    "seed": Column(pl.Int64, "", "seed of the traffic, and of the hash if it has one"),
    "links": Column(pl.Int64, "", "links or cables of the basis, unused ones included"),
    "mean": Column(pl.Float64, "flows", "mean load; 1 is the whole of one flow"),
    "p50": Column(pl.Float64, "flows", "median load, interpolated linearly"),
    "p90": Column(pl.Float64, "flows", "90th percentile of the loads"),
    "p99": Column(pl.Float64, "flows", "99th percentile of the loads"),
    "max": Column(pl.Float64, "flows", "largest load"),
    "cv": Column(pl.Float64, "", "population standard deviation over mean of the loads"),
    "used": Column(pl.Float64, "", "share of the links with a load above 0"),
}
SUMMARY_COLUMNS = {
    **POINT_COLUMNS,
    "metric": Column(pl.String, "", f"one of {', '.join(METRICS)}, as in the runs"),
    "mean": Column(pl.Float64, "as the metric", "mean over the seeds"),
    "ci95": Column(pl.Float64, "as the metric", "half width of the mean's 95 % interval"),
    "seeds": Column(pl.Int64, "", "how many seeds"),
}
CDF_COLUMNS = {
    "scheme": POINT_COLUMNS["scheme"],
    "basis": POINT_COLUMNS["basis"],
    "load": Column(pl.Float64, "flows", "a load"),
    "share": Column(pl.Float64, "", "share of the links with at most this load, mean over seeds"),
    "ci95": Column(pl.Float64, "", "half width of the share's 95 % interval"),
}
CLAIM_COLUMNS = {
    "id": Column(pl.String, "", "of the claim"),
    "section": Column(pl.String, "", "of the paper"),
    "claim": Column(pl.String, "", "what the paper says"),
    "test": Column(pl.String, "", "how it is tested"),
    "basis": POINT_COLUMNS["basis"],
    "verdict": Column(pl.String, "", "holds, does not hold, or undecided"),
    "measured": Column(pl.String, "", "the numbers that it is about, mean ± 95 % half width"),
    "deciding": Column(pl.String, "", "the comparison that fails, or comes closest to it"),
    "difference": Column(pl.Float64, "as the metric", "mean of the deciding comparison"),
    "ci95": Column(pl.Float64, "as the metric", "half width of its 95 % interval"),
    "comparisons": Column(pl.Int64, "", "how many comparisons the test consists of"),
    "against": Column(pl.Int64, "", "how many of them do not hold or are undecided"),
    "comment": Column(pl.String, "", "why it comes out so"),
}


def summarise(runs: pl.DataFrame) -> pl.DataFrame:
    """Mean and interval over the seeds of every metric at every point, of `SUMMARY_COLUMNS`."""
    rows = []
    for key, group in runs.group_by(list(POINT_COLUMNS), maintain_order=True):
        mean, half = interval(group.select(METRICS).to_numpy())
        for i, metric in enumerate(METRICS):
            rows.append((*key, metric, float(mean[i]), float(half[i]), len(group)))
    return frame_of_rows(SUMMARY_COLUMNS, rows)


def distributions(loads: Mapping[str, NDArray[np.float64]]) -> pl.DataFrame:
    """Empirical distributions on a grid of at most about 400 loads, a power of two apart."""
    rows: list[tuple[Any, ...]] = []
    for basis, found in loads.items():
        highest = float(found.max())
        step = 2.0 ** np.ceil(np.log2(max(highest, 1.0) / 400))
        grid = np.arange(0.0, highest + 2 * step, step)
        ordered = np.sort(found, axis=2)
        for scheme, name in enumerate(SCHEMES):
            share = (
                np.stack(
                    # A sum of parts such as 1/160 may come out a rounding above the grid's load.
                    [np.searchsorted(seed, grid + 1e-9, side="right") for seed in ordered[scheme]]
                )
                / found.shape[2]
            )
            mean, half = interval(share)
            points = zip(grid.tolist(), mean.tolist(), half.tolist(), strict=True)
            rows += [(name, basis, *each) for each in points]
    return frame_of_rows(CDF_COLUMNS, rows)
