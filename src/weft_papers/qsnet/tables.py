"""Tables of the QsNET study: their columns, summaries over the seeds, and their text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl
from rich.table import Table

from weft.core.columns import Column, frame_of_rows
from weft.sim.common.congestion_matrix import CONGESTION_MATRIX_COLUMNS, congestion_matrix
from weft_papers.claim_report import CHOICE_COLUMNS, titled_table
from weft_papers.claims import NotMeasured, OutOfScope, interval, plus_minus
from weft_papers.qsnet.claims import PRINTED, QsNetEvidence
from weft_papers.qsnet.runs import PAPER, QsNetRun, QsNetRunResult, fabric_of
from weft_papers.reported_study import results_by_point

POINT_COLUMNS = {
    "figure": Column(pl.String, "", "Figure of the paper"),
    "choice": Column(pl.String, "", "Setting that the paper leaves open, or changed mechanism"),
    "traffic": Column(
        pl.String, "",
        "ping, both (ping in both directions), uniform, a permutation, hot, io or combined",
    ),
    "nodes": Column(pl.Int64, "", "Number of nodes"),
    "size_bytes": Column(pl.Int64, "B", "Mean size of messages"),
    "offered_mb_s": Column(
        pl.Float64, "MB/s", "Offered load of a source (null: more than the network takes)",
    ),
    "sizes": Column(pl.String, "", "Distribution of sizes"),
    "times": Column(pl.String, "", "Distribution of times between messages"),
    "memory": Column(pl.String, "", "Memory of the buffers"),
    "library": Column(pl.String, "", "Library"),
    "mapping": Column(pl.String, "", "Mapping of I/O nodes and jobs"),
    "server": Column(pl.String, "", "random, or block (deterministic)"),
    "dedicated": Column(pl.Boolean, "", "Whether I/O nodes run nothing else"),
    "write_share": Column(pl.Float64, "", "Part of the transfers that are writes"),
    "io_load": Column(pl.Float64, "", "Load of the I/O job beside a compute job"),
}  # fmt: skip
_BANDWIDTH = (
    "Accepted bandwidth: of each source, of the hot node, of each I/O node, or of each rank of the "
    "compute job"
)
RUN_COLUMNS = {
    **POINT_COLUMNS,
    "seed": Column(pl.Int64, "", "Seed"),
    "mb_s": Column(pl.Float64, "MB/s", _BANDWIDTH),
}
SUMMARY_COLUMNS = {
    **POINT_COLUMNS,
    "seeds": Column(pl.Int64, "", "Number of seeds"),
    "mb_s": Column(pl.Float64, "MB/s", f"{_BANDWIDTH}; mean over the seeds"),
    "ci95": Column(pl.Float64, "MB/s", "Half width of its 95 % interval"),
    "time_us": Column(pl.Float64, "us", "Time of a message of a ping (null: no ping)"),
}
PRINTED_COLUMNS = {
    "section": Column(pl.String, "", "Section or figure of the paper"),
    "quantity": Column(pl.String, "", "Quantity, with its unit"),
    "printed_low": Column(pl.Float64, "", "Printed number, or the lower end of a range"),
    "printed_high": Column(pl.Float64, "", "Printed number, or the upper end of a range"),
    "given": Column(pl.Boolean, "", "Whether the model takes the number from the paper"),
    "choice": POINT_COLUMNS["choice"],
    "measured": Column(pl.Float64, "", "Measured number, mean over the seeds"),
    "ci95": Column(pl.Float64, "", "Half width of its 95 % interval"),
}
NODE_COLUMNS = {
    "choice": POINT_COLUMNS["choice"],
    "node": Column(pl.Int64, "", "Source node; the hot node is node 0"),
    "mb_s": Column(pl.Float64, "MB/s", "Bandwidth of its messages to the hot node"),
}
MATRIX_COLUMNS = {
    "traffic": Column(pl.String, "", "Permutation"),
    **CONGESTION_MATRIX_COLUMNS,
}
TABLES = {
    "runs": RUN_COLUMNS,
    "summary": SUMMARY_COLUMNS,
    "printed": PRINTED_COLUMNS,
    "nodes": NODE_COLUMNS,
    "matrices": MATRIX_COLUMNS,
    "claims": CHOICE_COLUMNS,
}


def _point(run: QsNetRun) -> tuple[Any, ...]:
    return (
        run.figure, run.choice, run.traffic, run.nodes, run.size, run.offered or None, run.sizes,
        run.times, run.memory, run.library, run.mapping, run.server, run.dedicated,
        run.write_share, run.io_load,
    )  # fmt: skip


def runs_frame(measured: Sequence[QsNetRunResult]) -> pl.DataFrame:
    """Return one row per run, with `RUN_COLUMNS`."""
    rows = [(*_point(each.run), each.run.seed, each.mb_s) for each in measured]
    return frame_of_rows(RUN_COLUMNS, rows)


def summary_frame(measured: Sequence[QsNetRunResult]) -> pl.DataFrame:
    """Return one row per point, with `SUMMARY_COLUMNS`."""
    rows = []
    for point, here in results_by_point((each.run for each in measured), measured).items():
        mean, half = interval(np.array([each.mb_s for each in here]))
        is_ping = point.traffic in ("ping", "both")
        time = float(np.mean([each.parts[0] for each in here])) if is_ping else None
        rows.append((*_point(point), len(here), float(mean), float(half), time))
    return frame_of_rows(SUMMARY_COLUMNS, rows)


def printed_frame(evidence: QsNetEvidence, choices: Sequence[str]) -> pl.DataFrame:
    """Return one row per printed number and choice with which it was measured."""
    rows = []
    for each in PRINTED:
        for choice in choices:
            with suppress(OutOfScope, NotMeasured):
                mean, half = interval(each.values(evidence, choice))
                rows.append(
                    (each.section, each.what, each.low, each.high, each.given, choice,
                     float(mean), float(half))
                )  # fmt: skip
    return frame_of_rows(PRINTED_COLUMNS, rows)


def nodes_frame(evidence: QsNetEvidence, choices: Sequence[str]) -> pl.DataFrame:
    """Return the bandwidth of each node to a hot spot on 64 nodes, mean over the seeds."""
    rows = []
    for choice in choices:
        with suppress(OutOfScope, NotMeasured):
            parts = evidence.parts[evidence.point(choice, "16", "hot", size=1024 * 1024)]
            rows += [(choice, node, float(each)) for node, each in enumerate(parts.mean(axis=0))]
    return frame_of_rows(NODE_COLUMNS, [row for row in rows if row[1]])


def matrices_frame(evidence: QsNetEvidence) -> pl.DataFrame:
    """Return the congestion matrices of figure 15, of waits summed over the seeds."""
    frames = []
    for traffic in ("complement", "bit-reversal"):
        with suppress(OutOfScope, NotMeasured):
            waits = evidence.parts[evidence.point(PAPER, "15", traffic)].sum(axis=0)
            here = congestion_matrix(fabric_of(64), waits)
            frames.append(here.select(pl.lit(traffic).alias("traffic"), pl.all()))
    return pl.concat(frames) if frames else frame_of_rows(MATRIX_COLUMNS, [])


def _printed_text(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def printed_table(printed: pl.DataFrame) -> Table:
    """Return printed and measured numbers side by side."""
    table = titled_table(
        "Printed and measured; *: taken from the paper", ("section", "quantity"),
        ("printed", "measured"),
    )  # fmt: skip
    for row in printed.filter(choice=PAPER).iter_rows(named=True):
        text = _printed_text(row["printed_low"], row["printed_high"])
        table.add_row(
            row["section"], row["quantity"], text + "*" * row["given"],
            plus_minus(row["measured"], row["ci95"]),
        )  # fmt: skip
    return table


def variants_table(printed: pl.DataFrame, names: tuple[str, ...], title: str) -> Table:
    """Return printed numbers with the measured ones of several choices."""
    table = titled_table(title, ("quantity",), ("printed", *names), collapse_padding=True)
    varied = printed.filter(pl.col("choice").is_in(names) & (pl.col("choice") != PAPER))
    here = printed.filter(pl.col("quantity").is_in(varied["quantity"].implode()))
    for (quantity,), rows in here.group_by("quantity", maintain_order=True):
        values = {row["choice"]: row for row in rows.iter_rows(named=True)}
        table.add_row(
            str(quantity), _printed_text(rows["printed_low"][0], rows["printed_high"][0]),
            *(
                plus_minus(values[name]["measured"], values[name]["ci95"]) if name in values
                else "–"
                for name in names
            ),
        )  # fmt: skip
    return table
