"""Tables of the multipath study: their columns, the summary of the runs, and their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from weft.core.columns import Column, frame_of_rows
from weft.sim.static.multipath import Scheme
from weft_papers.claim_report import titled_table, verdict_text
from weft_papers.claims import ClaimResult, Verdict, interval, plus_minus
from weft_papers.multipath.claims import EQUAL, TIERS
from weft_papers.multipath.plots import STYLES

SCHEMES = (*(scheme.value for scheme in Scheme), EQUAL)

METRICS = ("mean", "p50", "p90", "p99", "max", "cv", "used")

#: Basis -> the loads that it contains.
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
        pl.String, "",
        "Sweep (qps: QPs at 20 epochs; qps-30: QPs at 30 epochs; epochs; k; cdf: figure 7)",
    ),
    "k": Column(pl.Int64, "ports", "Number of ports of a switch of the fat tree"),
    "qps": Column(pl.Int64, "", "Queue pairs per flow (ecmp and flowlet use 1)"),
    "epochs": Column(pl.Int64, "", "Flowlet epochs per queue pair (ecmp and e-ecmp use 1)"),
    "scheme": Column(
        pl.String, "",
        "Scheme (ecmp: 1 QP, 1 epoch; flowlet: 1 QP; e-ecmp: 1 epoch; flowlet-e-ecmp; "
        "equal-split: each flow is split equally over all its paths)",
    ),
    "basis": Column(pl.String, "", "; ".join(f"{name}: {text}" for name, text in BASES.items())),
}  # fmt: skip
RUN_COLUMNS = {
    **POINT_COLUMNS,
    "seed": Column(pl.Int64, "", "Seed of the traffic, and of the hash if it has one"),
    "links": Column(pl.Int64, "", "Number of links or cables of the basis (unused ones included)"),
    "mean": Column(pl.Float64, "flows", "Mean load (1: one entire flow)"),
    "p50": Column(pl.Float64, "flows", "Median load (interpolated linearly)"),
    "p90": Column(pl.Float64, "flows", "90th percentile of the loads"),
    "p99": Column(pl.Float64, "flows", "99th percentile of the loads"),
    "max": Column(pl.Float64, "flows", "Largest load"),
    "cv": Column(
        pl.Float64, "", "Population standard deviation of the loads, divided by their mean",
    ),
    "used": Column(pl.Float64, "", "Share of the links with a load above 0"),
}  # fmt: skip
SUMMARY_COLUMNS = {
    **POINT_COLUMNS,
    "metric": Column(pl.String, "", f"Metric of the runs ({', '.join(METRICS)})"),
    "mean": Column(pl.Float64, "as the metric", "Mean over the seeds"),
    "ci95": Column(pl.Float64, "as the metric", "Half width of the mean's 95 % interval"),
    "seeds": Column(pl.Int64, "", "Number of seeds"),
}
CDF_COLUMNS = {
    "scheme": POINT_COLUMNS["scheme"],
    "basis": POINT_COLUMNS["basis"],
    "load": Column(pl.Float64, "flows", "Load"),
    "share": Column(pl.Float64, "", "Share of the links with at most this load (mean over seeds)"),
    "ci95": Column(pl.Float64, "", "Half width of the share's 95 % interval"),
}
CLAIM_COLUMNS = {
    "id": Column(pl.String, "", "Id of the claim"),
    "section": Column(pl.String, "", "Section or figure of the paper"),
    "claim": Column(pl.String, "", "Statement of the paper"),
    "test": Column(pl.String, "", "Test of the claim"),
    "basis": POINT_COLUMNS["basis"],
    "verdict": Column(pl.String, "", "Verdict (holds, does not hold or undecided)"),
    "measured": Column(pl.String, "", "Numbers that the claim is about (mean ± 95 % half width)"),
    "deciding": Column(pl.String, "", "Comparison that fails or is closest to failing"),
    "difference": Column(pl.Float64, "as the metric", "Mean of the deciding comparison"),
    "ci95": Column(
        pl.Float64, "as the metric", "Half width of the 95 % interval (deciding comparison)",
    ),
    "comparisons": Column(pl.Int64, "", "Number of comparisons of the test"),
    "against": Column(pl.Int64, "", "Number of comparisons that do not hold or are undecided"),
    "comment": Column(pl.String, "", "Explanation of the result"),
}  # fmt: skip
TABLES = {
    "runs": RUN_COLUMNS,
    "summary": SUMMARY_COLUMNS,
    "cdf": CDF_COLUMNS,
    "claims": CLAIM_COLUMNS,
}


def summarise(runs: pl.DataFrame) -> pl.DataFrame:
    """Return mean and interval over the seeds of every metric at every point."""
    rows = []
    for key, group in runs.group_by(list(POINT_COLUMNS), maintain_order=True):
        mean, half = interval(group.select(METRICS).to_numpy())
        for i, metric in enumerate(METRICS):
            rows.append((*key, metric, float(mean[i]), float(half[i]), len(group)))
    return frame_of_rows(SUMMARY_COLUMNS, rows)


def distributions(loads: Mapping[str, NDArray[np.float64]]) -> pl.DataFrame:
    """Return empirical distributions on a grid of about 400 loads, spaced by a power of two."""
    rows: list[tuple[Any, ...]] = []
    for basis, values in loads.items():
        highest = float(values.max())
        step = 2.0 ** np.ceil(np.log2(max(highest, 1.0) / 400))
        grid = np.arange(0.0, highest + 2 * step, step)
        ordered = np.sort(values, axis=2)
        for scheme, name in enumerate(SCHEMES):
            # A sum of parts such as 1/160 may exceed the grid's load by a rounding error.
            below = [np.searchsorted(seed, grid + 1e-9, side="right") for seed in ordered[scheme]]
            mean, half = interval(np.stack(below) / values.shape[2])
            points = zip(grid.tolist(), mean.tolist(), half.tolist(), strict=True)
            rows += [(name, basis, *each) for each in points]
    return frame_of_rows(CDF_COLUMNS, rows)


#: Sweep -> column of its parameter, title, and metrics.
_SWEEPS = {
    "qps": ("qps", "QPs, at k = 8 and 20 epochs", ("cv", "p90")),
    "qps-30": ("qps", "QPs, at k = 8 and 30 epochs", ("cv", "p90")),
    "epochs": ("epochs", "flowlet epochs, at k = 8 and 8 QPs", ("cv", "p90")),
    "k": ("k", "fat-tree size k, at 8 QPs and 20 epochs", ("cv", "p90", "used")),
}
_BASES = {"cable": "cables", "directed": "directions"}


def tier_verdict(claim: ClaimResult) -> Text:
    """Return the verdict on the tiers of directed links, by tier if the verdicts differ."""
    verdicts = {basis: claim.findings[basis].verdict for basis in TIERS}
    if len(set(verdicts.values())) == 1:
        return verdict_text(next(iter(verdicts.values())))
    parts: list[Text] = []
    for verdict in (Verdict.FAILS, Verdict.UNDECIDED):
        bases = [basis for basis in TIERS if verdicts[basis] is verdict]
        if bases:
            parts.append(Text.assemble(verdict_text(verdict), f" on {', '.join(bases)}"))
    if Verdict.HOLDS in verdicts.values():
        parts.append(Text("otherwise holds"))
    return Text("; ").join(parts)


def sweep_tables(summary: pl.DataFrame) -> Iterator[Table]:
    """Yield tables of CV, p90 and used share along each sweep, on two bases."""
    for sweep, (column, title, metrics) in _SWEEPS.items():
        labels = [label.replace(" over all paths", "") for label, _, _ in STYLES.values()]
        table = titled_table(
            title, ("metric", "loads of"), (column, *labels), collapse_padding=True
        )
        for metric in metrics:
            for basis, of in _BASES.items():
                here = summary.filter(
                    pl.col("sweep") == sweep, pl.col("basis") == basis, pl.col("metric") == metric
                )
                head = (metric.replace("cv", "CV"), of)
                for x, rows in here.group_by(column, maintain_order=True):
                    cells = {row["scheme"]: row for row in rows.iter_rows(named=True)}
                    shown = (
                        plus_minus(cells[each]["mean"], cells[each]["ci95"]) for each in STYLES
                    )
                    table.add_row(*head, str(x[0]), *shown)
                    head = ("", "")
                table.add_section()
        yield table
