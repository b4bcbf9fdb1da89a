"""The columns of load sweeps and of searches for the saturation load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from weft.core.columns import Column, frame
from weft.sim.sweep.window_measures import OpenLoopMeasures

#: What was asked for.
_ASKED: Mapping[str, Column] = {
    "fabric": Column(pl.String, "", "Name of the fabric."),
    "engine": Column(pl.String, "", "Routing engine, with its options where they were given."),
    "policy": Column(pl.String, "", "Policy; null at the flow level."),
    "hardware": Column(
        pl.String,
        "",
        "Settings of switches and adapters other than the usual ones; usual without any, null at "
        "the flow level.",
    ),
    "level": Column(pl.String, "", "Level of detail: packet or flow."),
    "pattern": Column(pl.String, "", "Traffic pattern, with its options where they were given."),
    "size_bytes": Column(pl.Int64, "B", "Mean size of a message."),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Rate that a load of 1 stands for."),
}

SWEEP_COLUMNS: Mapping[str, Column] = {
    **_ASKED,
    "load": Column(pl.Float64, "", "Load that was asked for."),
    "seed": Column(pl.Int64, "", "Seed of this run."),
    "status": Column(
        pl.String,
        "",
        "complete; partial (messages had not arrived when the run was cut off), interrupted, does "
        "not fit or failed",
    ),
    "reason": Column(pl.String, "", "Why there is no result; null where there is one."),
    "offered_load": Column(
        pl.Float64, "", "Bytes born in the window, per source, over what a load of 1 offers in it."
    ),
    "accepted_load": Column(
        pl.Float64, "", "The same of bytes of messages that arrived in the window."
    ),
    "growth": Column(pl.Float64, "", "offered_load - accepted_load."),
    "growth_ci95": Column(pl.Float64, "", "Half of its 95 % interval."),
    "latency_trend": Column(
        pl.Float64, "ns/ns", "Slope of the mean latency of the messages that arrive."
    ),
    "latency_trend_ci95": Column(
        pl.Float64, "ns/ns", "Half of its 95 % interval, widened for correlation."
    ),
    "saturated": Column(
        pl.Boolean, "", "Both growth and trend are significantly above 0, of all ranks or of one."
    ),
    "steady": Column(
        pl.Boolean,
        "",
        "Not saturated, the transient ended within the warm-up, and neither growth nor trend is "
        "significantly above 0.",
    ),
    "transient_ns": Column(
        pl.Float64, "ns", "When the transient at the start ended (MSER-5); null if not seen."
    ),
    "messages": Column(pl.Int64, "", "Messages born in the window: those that are measured."),
    "censored": Column(pl.Int64, "", "Of these, those that had not arrived at the end."),
    "after_sources": Column(
        pl.Int64, "", "Of these, those that arrived after the sources had stopped."
    ),
    "latency_mean_ns": Column(
        pl.Float64,
        "ns",
        "Mean time from birth to arrival; at least that where some are censored.",
    ),
    "latency_ci95_ns": Column(
        pl.Float64, "ns", "Half of its 95 % interval, widened for correlation; null if too few."
    ),
    "latency_plain_ci95_ns": Column(pl.Float64, "ns", "The same had batches been independent."),
    "batches": Column(pl.Int64, "", "Batches of the interval; 0 if too few."),
    "lag1": Column(pl.Float64, "", "Correlation of neighbouring batches."),
    "latency_p50_ns": Column(pl.Float64, "ns", "Median; null where that one had not arrived."),
    "latency_p95_ns": Column(pl.Float64, "ns", "95th percentile."),
    "latency_p99_ns": Column(pl.Float64, "ns", "99th percentile."),
    "latency_p99_9_ns": Column(
        pl.Float64, "ns", "99.9th percentile; the longest below 1,000 messages."
    ),
    "latency_min_ns": Column(pl.Float64, "ns", "Shortest."),
    "latency_max_ns": Column(pl.Float64, "ns", "Longest; null where one had not arrived."),
    "notes": Column(pl.String, "", "What to know of this row; empty where there is nothing."),
}

SATURATION_COLUMNS: Mapping[str, Column] = {
    **_ASKED,
    "status": Column(pl.String, "", "complete, interrupted, does not fit or failed"),
    "reason": Column(pl.String, "", "Why there is no result; null where there is one."),
    "sustained_load": Column(pl.Float64, "", "Highest load that was found not to saturate."),
    "saturated_load": Column(
        pl.Float64, "", "Lowest load that was found to saturate; null where none did."
    ),
    "saturation_load": Column(
        pl.Float64, "", "The middle of both; null where none saturated or with no result."
    ),
    "accepted_load": Column(pl.Float64, "", "What was accepted at the lowest load that saturated."),
    "runs": Column(pl.Int64, "", "Runs that the search took."),
}


def measured(found: OpenLoopMeasures) -> dict[str, Any]:
    """Measures of one run, by column of `SWEEP_COLUMNS`."""
    return {
        "status": "partial" if found.censored else "complete",
        "offered_load": found.offered_load,
        "accepted_load": found.accepted_load,
        "growth": found.growth,
        "growth_ci95": found.growth_ci95,
        "latency_trend": found.latency_trend.slope,
        "latency_trend_ci95": found.latency_trend.half_width,
        "saturated": found.saturated,
        "steady": found.steady,
        "transient_ns": found.transient_ns,
        "messages": found.messages,
        "censored": found.censored,
        "after_sources": found.after_sources,
        "latency_mean_ns": found.latency.mean,
        "latency_ci95_ns": found.latency.half_width,
        "latency_plain_ci95_ns": found.latency.plain_half_width,
        "batches": found.latency.batches,
        "lag1": found.latency.lag1,
        **{f"latency_{name}_ns": value for name, value in found.percentiles_ns.items()},
        "latency_min_ns": found.min_ns,
        "latency_max_ns": found.max_ns,
        "notes": "; ".join(found.notes),
    }


def table(columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A frame of rows; what a row does not have is null."""
    return frame(columns, {name: [row.get(name) for row in rows] for name in columns})
