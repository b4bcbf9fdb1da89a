"""`Measurements`: times and bandwidths that benchmarks measured, from any number of logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from weft.core.columns import Column

#: Operations between two processes: half of a round trip, messages one way, and in both directions
#: at once, of which rates are the sum.
POINT_TO_POINT = ("latency", "bandwidth", "bibandwidth")
#: Those, and collectives; in sendrecv every rank sends to the next one.
OPERATIONS = (
    *POINT_TO_POINT, "allreduce", "allgather", "alltoall", "barrier", "bcast", "gather", "reduce",
    "reduce-scatter", "scatter", "sendrecv",
)  # fmt: skip

#: Columns of `Measurements.frame`.
MEASUREMENT_COLUMNS: Mapping[str, Column] = {
    "source": Column(pl.String, "", "File"),
    "line": Column(pl.Int64, "", "Line of the file"),
    "benchmark": Column(pl.String, "", "Suite: nccl-tests, osu or perftest"),
    "program": Column(pl.String, "", "Program of the suite, such as osu_bw; empty: not known"),
    "operation": Column(pl.String, "", f"One of {', '.join(OPERATIONS)}"),
    "size_bytes": Column(pl.Int64, "B", "Size, as the benchmark counts it"),
    "time_ns": Column(pl.Float64, "ns", "Time (null: a bandwidth was measured)"),
    "gbps": Column(pl.Float64, "Gb/s", "Bandwidth (null: a time was measured)"),
    "least": Column(
        pl.Float64, "", "Least of the samples, in the unit of the value (null: one sample)"
    ),
    "most": Column(
        pl.Float64, "", "Largest of the samples, in the unit of the value (null: one sample)"
    ),
    "samples": Column(
        pl.Int64, "", "Runs that `least` and `most` are of (null: the ranks or iterations of one)"
    ),
    "ranks": Column(pl.Int64, "", "Number of ranks (null: the log does not say)"),
    "nodes": Column(pl.Int64, "", "Number of machines (null: the log does not say)"),
    "pairs": Column(pl.Int64, "", "Number of pairs that send at once (point-to-point; else 1)"),
    "window": Column(pl.Int64, "", "Messages under way at once (null: the log does not say)"),
    "in_place": Column(pl.Boolean, "", "Whether sent and received data are in one buffer"),
    "from_machine": Column(pl.String, "", "First machine of a run of two machines; else empty"),
    "to_machine": Column(pl.String, "", "Second machine of such a run; else empty"),
    "round": Column(pl.String, "", "Name that runs at the same time have in common; else empty"),
    "system": Column(pl.String, "", "What the file says of the machine; else empty"),
}


@dataclass(frozen=True, eq=False)
class Measurements:
    """What benchmarks measured.

    Parameters
    ----------
    frame
        Rows of `MEASUREMENT_COLUMNS`, one per measured value, in the order of files and lines.
    """

    frame: pl.DataFrame
