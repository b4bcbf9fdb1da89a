"""Measures of an open-loop run: offered and accepted load, latency, saturation, steady state.

Measures do not depend on the level of detail: they are functions of the time at which each message
was generated, the time at which it arrived, and its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weft.core.columns import Column
from weft.core.errors import InputError
from weft.core.student import student_t
from weft.sim.common.statistics import (
    BATCHES,
    Backlog,
    Interval,
    Messages,
    Trend,
    batch_means,
    batch_sums,
    batch_trend,
    largest_backlog,
    mser,
)

#: Percentiles of latency by column name.
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}
#: Number of batches of the test for saturation: enough degrees of freedom, yet long batches.
_SATURATION_BATCHES = BATCHES[1]
#: Number of observations per source in one mean of MSER-5, and smallest number of means.
_MSER_GROUP, _MSER_GROUPS = 5, 20


@dataclass(frozen=True)
class OpenLoopMeasures:
    """Measures of one run in the window from `begin_ns` (inclusive) to `end_ns` (exclusive)."""

    #: The measurement window, after the warm-up.
    begin_ns: float
    end_ns: float
    #: Bytes generated in the window, divided by the bytes that all sources send there at load 1.
    offered_load: float
    #: The same ratio for the bytes of messages that arrive in the window, whenever they were
    #: generated.
    accepted_load: float
    #: offered_load - accepted_load.
    growth: float
    #: Half of the 95 % interval of `growth`, from the differences of the batches; NaN if nothing
    #: was generated.
    growth_ci95: float
    #: Mean latency of messages generated in the window, and its interval. It is a lower bound if
    #: some of these messages never arrived.
    latency: Interval
    #: Percentiles, by name, of the latency of messages generated in the window: order statistics,
    #: without interpolation. Messages that never arrived are last in this order; NaN if the
    #: percentile is one of them.
    percentiles_ns: dict[str, float]
    #: Shortest and longest latency of messages generated in the window; NaN if that message never
    #: arrived.
    min_ns: float
    max_ns: float
    #: Number of messages generated in the window.
    messages: int
    #: Number of messages generated in the window that had not arrived when the run ended. In the
    #: mean latency they count with their age at that time.
    censored: int
    #: Number of messages generated in the window that arrived after the sources had stopped, and so
    #: at less than the full load.
    after_sources: int
    #: Slope, in ns per ns, of the mean latency of messages that *arrive* in a batch; messages under
    #: way at the end therefore do not bias it.
    latency_trend: Trend
    #: As defined in `measure`.
    saturated: bool
    #: Rank that falls behind while the sum of all ranks does not, as text: "what rank 5 sends" or
    #: "what rank 5 receives"; otherwise empty.
    behind: str
    #: End of the transient at the start, by MSER-5; NaN if unknown.
    transient_ns: float
    #: The transient ends within the warm-up, the run is not saturated, growth and the latency trend
    #: are not significantly above 0, and no rank is behind.
    steady: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the numbers."""
        notes = ["saturated"] if self.saturated else []
        if self.behind:
            notes.append(f"{self.behind} falls behind")
        elif self.latency_trend.beyond and not self.saturated:
            notes.append("latency grows")
        elif self.growth > self.growth_ci95 and not self.saturated:
            notes.append("less arrives than is offered")
        if not self.saturated:
            if np.isnan(self.transient_ns):
                notes.append("no end of the transient seen")
            elif self.transient_ns > self.begin_ns:
                notes.append(f"transient until {self.transient_ns:,.0f} ns, after the warm-up")
        if self.censored:
            notes.append(f"{self.censored:,} messages had not arrived at the end")
        if self.latency.few:
            notes.append("too few messages for an interval")
        elif self.latency.correlated and not self.saturated:
            notes.append("batches are correlated")
        return tuple(notes)


def measure(
    born_ns: ArrayLike,
    arrived_ns: ArrayLike,
    size_bytes: ArrayLike,
    *,
    warmup_ns: float,
    measure_ns: float,
    sources: int,
    rate_gbps: float,
    sources_stop_ns: float | None = None,
    stopped_ns: float | None = None,
    load: float | None = None,
    source: ArrayLike | None = None,
    destination: ArrayLike | None = None,
) -> OpenLoopMeasures:
    """Measure a run.

    A run is saturated if two conditions hold over 16 equally long batches of the window:

    1. Less is accepted than offered: the mean of (bytes generated - bytes arrived) of the batches
       is above 0 with one-sided 95 % confidence (Student's t, 15 degrees of freedom).
    2. Latency grows: the slope of the mean latency of messages that arrive in a batch is above 0
       with the same confidence. Or messages starve: more than 1 % of the bytes generated in the
       first half of the window have not arrived at the end of the window and are older than twice
       the median latency.

    The sum of the differences of condition 1 is the change of the bytes under way; in a steady
    state it stays bounded as the window grows. The differences of the batches are then negatively
    correlated, so the test tends to call a run steady.

    A run is also saturated if a single source or destination falls behind, which the sum of all
    ranks can hide. The rank with the largest backlog in the middle of the window is tested if this
    backlog has at least four messages. The run is saturated if

    1. in the second half of the window, the backlog stays at half or more of its size in the
       middle, and less arrives than is offered on average, with one-sided 95 % confidence (7
       degrees of freedom), and
    2. latency grows or messages starve, as above.

    - `born_ns`, `arrived_ns`, float [messages]: times at which messages were generated and arrived;
      a negative or NaN arrival means that a message never arrived.
    - `size_bytes`, int [messages].
    - `warmup_ns`, `measure_ns`: time before the window, and length of the window.
    - `rate_gbps`: rate of a source at load 1.
    - `sources_stop_ns`: time at which sources stopped; by default the end of the window.
    - `stopped_ns`: end of the run; by default the last arrival.
    - `load`: mean rate of every source, divided by `rate_gbps`; by default estimated from the
      messages.
    - `source`, `destination`, int [messages]: ranks; if left out, single ranks are not tested.
    """
    born, arrived = np.asarray(born_ns, np.float64), np.asarray(arrived_ns, np.float64)
    size = np.asarray(size_bytes, np.float64)
    ends = {
        name: np.asarray(given, np.int64)
        for name, given in (("sends", source), ("receives", destination))
        if given is not None
    }
    if not born.shape == arrived.shape == size.shape or born.ndim != 1:
        raise InputError(
            f"times and sizes of messages differ in length: {born.shape}, {arrived.shape}, "
            f"{size.shape}"
        )
    if any(rank.shape != born.shape for rank in ends.values()):
        raise InputError(f"expected a rank for each of {len(born)} messages")
    if not measure_ns > 0 or not warmup_ns >= 0:
        raise InputError(
            f"warmup_ns must be at least 0 and measure_ns above 0, not {warmup_ns} and {measure_ns}"
        )
    if sources < 1 or not rate_gbps > 0:
        raise InputError(
            f"sources must be at least 1 and rate_gbps above 0, not {sources} and {rate_gbps}"
        )
    begin, end = float(warmup_ns), float(warmup_ns + measure_ns)
    never = ~(arrived >= 0)
    last = float(arrived[~never].max(initial=end))
    at_end = last if stopped_ns is None else stopped_ns
    latency = np.where(never, np.maximum(at_end - born, 0.0), arrived - born)
    inside = (born >= begin) & (born < end)
    arrival = np.where(never, np.inf, arrived)

    capacity = sources * rate_gbps / 8 * measure_ns
    in_size, _ = batch_sums(born, size, begin, end, _SATURATION_BATCHES)
    out_size, _ = batch_sums(arrival, size, begin, end, _SATURATION_BATCHES)
    growth = (in_size - out_size) * _SATURATION_BATCHES / capacity
    error = float(growth.std(ddof=1)) / np.sqrt(_SATURATION_BATCHES)
    slope = batch_trend(arrival, latency, begin, end, _SATURATION_BATCHES)
    degrees = _SATURATION_BATCHES - 1
    grows = bool(growth.mean() > student_t(degrees, sides=1) * error)
    messages = Messages(born, arrival, size)
    stop = end if sources_stop_ns is None else sources_stop_ns
    offered = None if load is None else load * rate_gbps / 8
    backlogs = {
        verb: backlog
        for verb, rank in ends.items()
        if (backlog := largest_backlog(
            messages, rank, begin, end, stop, offered if verb == "sends" else None
        )) is not None and backlog.stays
    }  # fmt: skip
    short = bool(growth.mean() > student_t(degrees) * error)
    overall = grows and (slope.grows or messages.starve(begin, end))
    behind = "" if overall else _worst(backlogs)
    saturated = overall or any(backlog.grows for backlog in backlogs.values())

    order = np.argsort(born, kind="stable")
    order = order[born[order] < end]
    group = min(_MSER_GROUP * sources, max(len(order) // _MSER_GROUPS, _MSER_GROUP))
    transient = mser(born[order], latency[order], group)
    ranked = np.sort(np.where(never, np.inf, latency)[inside])
    return OpenLoopMeasures(
        begin_ns=begin,
        end_ns=end,
        offered_load=float(in_size.sum()) / capacity,
        accepted_load=float(out_size.sum()) / capacity,
        growth=float(growth.mean()),
        growth_ci95=student_t(degrees) * error if inside.any() else np.nan,
        latency=batch_means(born, latency, begin, end),
        percentiles_ns={name: _ranked(ranked, part) for name, part in PERCENTILES.items()},
        min_ns=_ranked(ranked, 0.0),
        max_ns=_ranked(ranked, 100.0),
        messages=int(inside.sum()),
        censored=int((inside & never).sum()),
        after_sources=int((inside & ~never & (arrived > stop)).sum()),
        latency_trend=slope,
        saturated=saturated,
        behind=behind,
        transient_ns=transient,
        steady=bool(transient <= begin) and not (saturated or short or slope.beyond or behind),
    )


def _worst(backlogs: Mapping[str, Backlog]) -> str:
    """Return text for the first backlog that grows; if none grows, for the first one."""
    order = sorted(backlogs, key=lambda verb: not backlogs[verb].grows)
    return f"what rank {backlogs[order[0]].rank} {order[0]}" if order else ""


def _ranked(ascending: NDArray[np.float64], percent: float) -> float:
    """Return a percentile of sorted values by the nearest-rank method; NaN if it is infinite."""
    if not len(ascending):
        return np.nan
    rank = max(int(np.ceil(round(percent / 100 * len(ascending), 9))) - 1, 0)
    return float(ascending[rank]) if np.isfinite(ascending[rank]) else np.nan


#: Columns of the settings of a run.
_SETTINGS: Mapping[str, Column] = {
    "fabric": Column(pl.String, "", "Name of the fabric"),
    "engine": Column(pl.String, "", "Routing engine, with options (null: a routing)"),
    "policy": Column(pl.String, "", "Policy (null: flow level, or a routing)"),
    "routing": Column(pl.String, "", "Routing by coordinates, with options (flit level)"),
    "hardware": Column(
        pl.String,
        "",
        "Settings of hardware that are not defaults (`usual`: none; null: flow level)",
    ),
    "router": Column(
        pl.String,
        "",
        "Settings of routers and adapters and size of a flit that are not defaults (`usual`: none; "
        "null: other levels)",
    ),
    "level": Column(pl.String, "", "Level of detail: packet, flow or flit"),
    "pattern": Column(pl.String, "", "Traffic pattern (with options)"),
    "size_bytes": Column(pl.Int64, "B", "Mean size of messages"),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Rate of a source at load 1"),
}

SWEEP_COLUMNS: Mapping[str, Column] = {
    **_SETTINGS,
    "load": Column(pl.Float64, "", "Requested load"),
    "seed": Column(pl.Int64, "", "Seed of the run"),
    "status": Column(
        pl.String,
        "",
        "complete; partial (messages had not arrived when the run was cut off), interrupted, does "
        "not fit or failed",
    ),
    "reason": Column(pl.String, "", "Reason of a missing result (null: there is a result)"),
    "offered_load": Column(
        pl.Float64,
        "",
        "Offered load (bytes generated in the window / bytes generated at load 1)",
    ),
    "accepted_load": Column(
        pl.Float64,
        "",
        "Accepted load (bytes that arrived in the window / bytes generated at load 1)",
    ),
    "growth": Column(pl.Float64, "", "offered_load - accepted_load"),
    "growth_ci95": Column(pl.Float64, "", "Half of the 95 % interval of growth"),
    "latency_trend": Column(pl.Float64, "ns/ns", "Slope of the mean latency of arriving messages"),
    "latency_trend_ci95": Column(
        pl.Float64, "ns/ns", "Half of the 95 % interval of the slope (widened for correlation)"
    ),
    "saturated": Column(
        pl.Boolean,
        "",
        "Growth and trend significantly above 0 (all ranks together or one rank)",
    ),
    "steady": Column(
        pl.Boolean,
        "",
        "Steady state (not saturated, transient within the warm-up, neither growth nor trend "
        "significantly above 0)",
    ),
    "transient_ns": Column(
        pl.Float64, "ns", "End of the transient at the start (MSER-5; null: not seen)"
    ),
    "messages": Column(pl.Int64, "", "Messages generated in the window"),
    "censored": Column(pl.Int64, "", "Messages generated in the window that had not arrived"),
    "after_sources": Column(
        pl.Int64, "", "Messages generated in the window that arrived after the sources had stopped"
    ),
    "latency_mean_ns": Column(
        pl.Float64,
        "ns",
        "Mean time from generation to arrival (a lower bound if messages are censored)",
    ),
    "latency_ci95_ns": Column(
        pl.Float64,
        "ns",
        "Half of the 95 % interval of the mean (widened for correlation; null: too few messages)",
    ),
    "latency_plain_ci95_ns": Column(pl.Float64, "ns", "`latency_ci95_ns` without widening"),
    "batches": Column(pl.Int64, "", "Batches of the interval (0: too few messages)"),
    "lag1": Column(pl.Float64, "", "Correlation of neighbouring batches"),
    "latency_p50_ns": Column(pl.Float64, "ns", "Median latency (null: not arrived)"),
    "latency_p95_ns": Column(pl.Float64, "ns", "95th percentile of latency (null: not arrived)"),
    "latency_p99_ns": Column(pl.Float64, "ns", "99th percentile of latency (null: not arrived)"),
    "latency_p99_9_ns": Column(
        pl.Float64, "ns", "99.9th percentile of latency (of fewer than 1,000 messages, the longest)"
    ),
    "latency_min_ns": Column(pl.Float64, "ns", "Shortest latency"),
    "latency_max_ns": Column(pl.Float64, "ns", "Longest latency (null: a message had not arrived)"),
    "notes": Column(pl.String, "", "Warnings about the row (empty: none)"),
}

SATURATION_COLUMNS: Mapping[str, Column] = {
    **_SETTINGS,
    "status": Column(pl.String, "", "complete, interrupted, does not fit or failed"),
    "reason": Column(pl.String, "", "Reason of a missing result (null: there is a result)"),
    "sustained_load": Column(pl.Float64, "", "Highest load without saturation"),
    "saturated_load": Column(pl.Float64, "", "Lowest load with saturation (null: none)"),
    "saturation_load": Column(
        pl.Float64,
        "",
        "Mean of `sustained_load` and `saturated_load` (null: no saturation or no result)",
    ),
    "accepted_load": Column(pl.Float64, "", "Accepted load at the lowest load with saturation"),
    "runs": Column(pl.Int64, "", "Runs of the search"),
}


def measured(measures: OpenLoopMeasures) -> dict[str, Any]:
    """Return the measures of one run by column of `SWEEP_COLUMNS`."""
    return {
        "status": "partial" if measures.censored else "complete",
        "offered_load": measures.offered_load,
        "accepted_load": measures.accepted_load,
        "growth": measures.growth,
        "growth_ci95": measures.growth_ci95,
        "latency_trend": measures.latency_trend.slope,
        "latency_trend_ci95": measures.latency_trend.half_width,
        "saturated": measures.saturated,
        "steady": measures.steady,
        "transient_ns": measures.transient_ns,
        "messages": measures.messages,
        "censored": measures.censored,
        "after_sources": measures.after_sources,
        "latency_mean_ns": measures.latency.mean,
        "latency_ci95_ns": measures.latency.half_width,
        "latency_plain_ci95_ns": measures.latency.plain_half_width,
        "batches": measures.latency.batches,
        "lag1": measures.latency.lag1,
        **{f"latency_{name}_ns": value for name, value in measures.percentiles_ns.items()},
        "latency_min_ns": measures.min_ns,
        "latency_max_ns": measures.max_ns,
        "notes": "; ".join(measures.notes),
    }
