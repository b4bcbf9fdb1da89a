"""`Measurements`: times and bandwidths that benchmarks measured, from any number of logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from weft.core.columns import Column

#: Operations that are measured, and what each is. Those of the first group have a bandwidth or a
#: latency between two processes, those of the second are collectives.
POINT_TO_POINT = {
    "latency": "half of a round trip of a message",
    "bandwidth": "messages from one process to another",
    "bibandwidth": "messages in both directions at once; rates are the sum of both",
}
COLLECTIVES = {
    "allreduce": "reduction whose result all ranks get",
    "allgather": "data of every rank to all ranks",
    "alltoall": "data of every rank for every other rank",
    "barrier": "ranks wait for each other",
    "bcast": "data of one rank to all ranks",
    "gather": "data of all ranks to one rank",
    "reduce": "reduction whose result one rank gets",
    "reduce-scatter": "reduction of which every rank gets a part",
    "scatter": "data of one rank for every other rank",
    "sendrecv": "every rank sends to the next rank and receives from the one before",
}
OPERATIONS = POINT_TO_POINT | COLLECTIVES

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
