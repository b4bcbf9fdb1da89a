"""Points, errors and what must be reached, as frames and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from weft.core.columns import Column
from weft.measured.measurements import MEASUREMENT_COLUMNS

#: Way of predicting -> what it uses.
WAYS = {
    "flow": "flow level, data sheets",
    "packet": "packet level, data sheets",
    "fitted": "flow level, hosts fitted to point-to-point figures",
    "rule": "rule of thumb",
}
#: A collective is pathological above so many pings of its size for each step of log2(ranks).
PATHOLOGICAL = 10
PLACE = ("system", "operation", "nodes", "each", "library")
_LARGE = "from 128 MiB"
#: Classes of sizes, and where the next one begins; 128 MiB divided into blocks is a little less.
_CLASSES = {"to 1 KiB": 1536, "2 to 64 KiB": 98304, "128 KiB to 64 MiB": 127 * 2**20}

_POINTS: Mapping[str, Column] = {
    **{name: column for name, column in MEASUREMENT_COLUMNS.items() if name != "source"},
    "each": Column(pl.Int64, "", "Ranks on each machine"),
    "sizes": Column(pl.String, "", "Class of sizes"),
    "library": Column(pl.String, "", "MPI library of the prediction"),
    "value": Column(pl.Float64, "", "Measured value: ns, or Gb/s of a bandwidth"),
    "ping_ns": Column(pl.Float64, "ns", "Latency of 8 bytes on the machine"),
    "pathological": Column(pl.Boolean, "", f"Above {PATHOLOGICAL} pings for each step"),
    **{way: Column(pl.Float64, "", f"Predicted value: {uses}") for way, uses in WAYS.items()},
    "choice": Column(pl.String, "", "What the library chose"),
}
COLUMNS = {"points": _POINTS}


def label(system: str) -> str:
    """Return the name of a machine in the names of files."""
    return system.rpartition("/")[-1] or "h100"


def size_class() -> pl.Expr:
    """Return the class of a size."""
    found = pl.lit(_LARGE)
    for name, end in reversed(_CLASSES.items()):
        found = pl.when(pl.col("size_bytes") < end).then(pl.lit(name)).otherwise(found)
    return found


def pathological(own_ping: str) -> pl.Expr:
    """Return whether a collective is far slower than pings of its own size one after the other."""
    bound = PATHOLOGICAL * pl.col("ranks").log(2).ceil() * pl.col(own_ping)
    return ((pl.col("operation") == "allreduce") & (pl.col("time_ns") > bound)).fill_null(False)


def error(way: str) -> pl.Expr:
    """Return the error of predicted times in percent; positive: predicted too long."""
    ratio = pl.col(way) / pl.col("value")
    return 100 * (pl.when(pl.col("gbps").is_null()).then(ratio).otherwise(1 / ratio) - 1)


def errors(points: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return median / 90th percentile of |error| in percent, without pathological points."""
    rows = []
    clean = points.filter(~pl.col("pathological"))
    for place, part in clean.sort("system", maintain_order=True).group_by(*by, maintain_order=True):
        row = {**dict(zip(by, place, strict=True)), "points": len(part)}
        row["system"] = label(str(row["system"]))
        for way in WAYS:
            size = part.select(error(way).abs()).to_series().drop_nulls().to_numpy()
            text = "{:.1f} / {:.1f}".format(*np.quantile(size, (0.5, 0.9))) if len(size) else None
            row[way] = text
        rows.append(row)
    return pl.DataFrame(rows)


def summary(points: pl.DataFrame) -> pl.DataFrame:
    """Return errors of NCCL's large collectives, and of MPI by the number of machines."""
    judged = points.filter((pl.col("system") != "") | (pl.col("sizes") == _LARGE))
    return errors(judged, "system", "operation", "nodes", "library")


def markdown(table: pl.DataFrame) -> str:
    """Return a table as Markdown; floats have one digit after the point."""
    with pl.Config(
        tbl_formatting="MARKDOWN", tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True,
        tbl_rows=-1, tbl_cols=-1, tbl_width_chars=1000, fmt_str_lengths=200, float_precision=1,
    ):  # fmt: skip
        return f"{table}\n".replace("null", "    ")


def points_text(points: pl.DataFrame) -> pl.DataFrame:
    """Return measured values in us or GB/s, and the errors of predictions in percent."""
    scale = pl.when(pl.col("gbps").is_null()).then(1e-3).otherwise(1 / 8)
    shown = [(pl.col(name) * scale).round_sig_figs(4) for name in ("value", "least", "most")]
    mark = pl.when(pl.col("pathological")).then(pl.lit("yes")).otherwise(pl.lit(""))
    errors = [error(way).round(1).alias(f"{way} %") for way in WAYS]
    table = points.select(
        *PLACE, "size_bytes", *(each.cast(pl.String) for each in shown), *errors,
        mark.alias("pathological"),
    )  # fmt: skip
    return table[[each.name for each in table if each.null_count() < len(each)]]
