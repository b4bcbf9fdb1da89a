"""What an open-loop run shows: load offered and accepted, latency, saturation, steadiness.

Nothing here knows of a level of detail: measures are functions of when each message was born, when
it arrived, and its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.sim.sweep.statistics import (
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
    student_t,
)

#: Percentiles of latency, by the name of their column.
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}
#: Batches of the test for saturation: enough for its degrees of freedom, long enough to average.
_SATURATION_BATCHES = BATCHES[1]
#: Observations of each source in one of MSER-5's means, and how many means there should be.
_MSER_GROUP, _MSER_GROUPS = 5, 20


@dataclass(frozen=True)
class OpenLoopMeasures:
    """Measures of one run, of the window from `begin_ns` to before `end_ns`.

    Parameters
    ----------
    begin_ns, end_ns
        The measurement window; what comes before is the warm-up.
    offered_load
        Bytes born in the window, per source, over what a source's cable carries in it.
    accepted_load
        The same of bytes of messages that arrive in it, whenever they were born.
    growth
        offered_load - accepted_load.
    growth_ci95
        Half of its 95 % interval, from the differences of the batches; NaN where nothing was born.
    latency
        Mean latency of messages born in the window, and its interval. It is a lower bound where
        some never arrived.
    percentiles_ns
        Name -> latency that so many percent of the messages born in the window do not exceed: the
        one of that rank, so one that occurred. Messages that never arrived rank last; NaN where
        the rank is one of theirs.
    min_ns, max_ns
        Shortest and longest latency; NaN alike.
    messages
        Born in the window.
    censored
        Of these, those that never arrived, because the run ended. In the mean they count with
        their age at that time.
    after_sources
        Of these, those that arrived after the sources had stopped, so saw less than the full load
        in the end.
    latency_trend
        Slope of the mean latency of messages that *arrive* in a batch, in ns per ns: those on the
        way at the end do not blur it.
    saturated
        See `measure`.
    behind
        What falls behind though not everything does: "what rank 5 sends", or receives; else empty.
    transient_ns
        When the transient at the start ends, by MSER-5; NaN when that cannot be told.
    steady
        It ends within the warm-up, the run is not saturated, growth and the latency trend are not
        significantly above 0, and no rank is behind.
    """

    begin_ns: float
    end_ns: float
    offered_load: float
    accepted_load: float
    growth: float
    growth_ci95: float
    latency: Interval
    percentiles_ns: dict[str, float]
    min_ns: float
    max_ns: float
    messages: int
    censored: int
    after_sources: int
    latency_trend: Trend
    saturated: bool
    behind: str
    transient_ns: float
    steady: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers should know."""
        said = ["saturated"] if self.saturated else []
        if self.behind:
            said.append(f"{self.behind} falls behind")
        elif self.latency_trend.beyond and not self.saturated:
            said.append("latency grows")
        elif self.growth > self.growth_ci95 and not self.saturated:
            said.append("less arrives than is offered")
        if not self.saturated:
            if np.isnan(self.transient_ns):
                said.append("no end of the transient seen")
            elif self.transient_ns > self.begin_ns:
                said.append(f"transient until {self.transient_ns:,.0f} ns, after the warm-up")
        if self.censored:
            said.append(f"{self.censored:,} messages had not arrived at the end")
        if self.latency.few:
            said.append("too few messages for an interval")
        elif self.latency.correlated and not self.saturated:
            said.append("batches are correlated")
        return tuple(said)


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

    It is saturated when two things hold, over 16 equally long batches of the window:

    1. Less is accepted than offered: the mean of (bytes born - bytes arrived) of the batches is
       above 0 with 95 % confidence on one side (Student's t, 15 degrees of freedom).
    2. Latency grows: so is the slope of the mean latency of the messages that arrive in a batch. Or
       some starve, which those that arrive cannot show: of the bytes born in the first half of the
       window more than 1 % have not arrived at its end, at more than twice the median latency.

    In a steady state the first sum is the change of what is under way, which stays bounded while
    the window grows; its batches are negatively correlated, so the test errs on the side of
    calling a run steady.

    Or when one source or one destination falls behind, which the sum over all can hide: of the rank
    with the largest backlog in the middle of the window, at least four messages,

    1. the backlog does not fall below half of that in the second half of the window, and less
       arrives there than is offered on average, with 95 % confidence on one side (7 degrees of
       freedom), and
    2. latency grows, or some starve, as above.

    Parameters
    ----------
    born_ns, arrived_ns
        float [messages]: when a message was offered, and when it had arrived; negative or NaN where
        it never did.
    size_bytes
        int [messages].
    warmup_ns, measure_ns
        The window begins after the first and takes the second.
    sources
        Ranks that send.
    rate_gbps
        Rate that a load of 1 stands for.
    sources_stop_ns
        When the sources stopped; the end of the window when left out.
    stopped_ns
        When the run ended; the last arrival when left out.
    load
        Mean rate of every source over `rate_gbps`; that of what was born when left out.
    source, destination
        int [messages]: ranks; not looked at when left out.

    Returns
    -------
    OpenLoopMeasures

    Raises
    ------
    InputError
        On arrays of different lengths, an empty window, or no source or rate.
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
        raise InputError(f"no window: warm-up {warmup_ns} ns, measurement {measure_ns} ns")
    if sources < 1 or not rate_gbps > 0:
        raise InputError(f"{sources} sources at {rate_gbps} Gb/s offer nothing")
    begin, end = float(warmup_ns), float(warmup_ns + measure_ns)
    never = ~(arrived >= 0)
    last = float(arrived[~never].max(initial=end))
    at_end = last if stopped_ns is None else stopped_ns
    latency = np.where(never, np.maximum(at_end - born, 0.0), arrived - born)
    inside = (born >= begin) & (born < end)
    there = np.where(never, np.inf, arrived)

    capacity = sources * rate_gbps / 8 * measure_ns
    in_size, _ = batch_sums(born, size, begin, end, _SATURATION_BATCHES)
    out_size, _ = batch_sums(there, size, begin, end, _SATURATION_BATCHES)
    growth = (in_size - out_size) * _SATURATION_BATCHES / capacity
    error = float(growth.std(ddof=1)) / np.sqrt(_SATURATION_BATCHES)
    slope = batch_trend(there, latency, begin, end, _SATURATION_BATCHES)
    degrees = _SATURATION_BATCHES - 1
    grows = bool(growth.mean() > student_t(degrees, sides=1) * error)
    messages = Messages(born, there, size)
    stop = end if sources_stop_ns is None else sources_stop_ns
    offered = None if load is None else load * rate_gbps / 8
    backlogs = {
        doing: found
        for doing, rank in ends.items()
        if (found := largest_backlog(
            messages, rank, begin, end, stop, offered if doing == "sends" else None
        )) is not None and found.stays
    }  # fmt: skip
    short = bool(growth.mean() > student_t(degrees) * error)
    overall = grows and (slope.grows or messages.starve(begin, end))
    behind = "" if overall else _worst(backlogs)
    saturated = overall or any(found.grows for found in backlogs.values())

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
    """The first of those that grow, or else of those that stay, in words."""
    order = sorted(backlogs, key=lambda doing: not backlogs[doing].grows)
    return f"what rank {backlogs[order[0]].rank} {order[0]}" if order else ""


def _ranked(ascending: NDArray[np.float64], percent: float) -> float:
    """The value of that rank: the least that so many percent do not exceed; NaN if infinite."""
    if not len(ascending):
        return np.nan
    rank = max(int(np.ceil(round(percent / 100 * len(ascending), 9))) - 1, 0)
    return float(ascending[rank]) if np.isfinite(ascending[rank]) else np.nan


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
