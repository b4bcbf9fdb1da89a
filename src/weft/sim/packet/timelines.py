"""Timelines of ranks: operations with their times, and spans of time by state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import NotApplicable
from weft.workload import Kind
from weft.workload.rolled import RolledWorkload

if TYPE_CHECKING:
    from weft.sim.packet.result import PacketResult, RolledPacketResult

#: Names of the kinds of operations.
KIND_TEXT = {
    Kind.CALC: "calculation",
    Kind.SEND: "send",
    Kind.RECV: "receive",
    Kind.PUT: "put",
    Kind.KEY_REQUEST: "key request",
    Kind.KEY_DONE: "key return",
}
#: States of `rank_spans`.
STATES = ("computing", "sending", "receiving")

#: Columns of `timelines`, one row per operation.
TIMELINE_COLUMNS: Mapping[str, Column] = {
    "rank": Column(pl.Int32, "", "Rank"),
    "operation": Column(pl.Int64, "", "Index of the operation in the rank's program"),
    "kind": Column(pl.String, "", "calculation, send, receive, put, key request or key return"),
    "peer": Column(pl.Int32, "", "Rank at the other end of the message (null: no message)"),
    "tag": Column(pl.Int32, "", "Tag of the message (null: no message)"),
    "size_bytes": Column(pl.Int64, "B", "Size of the message (null: no message)"),
    "phase": Column(pl.String, "", "Phase of the operation (empty: outside phases)"),
    "posted_ns": Column(pl.Float64, "ns", "Start of the operation (null: not started)"),
    "left_ns": Column(
        pl.Float64, "ns", "Departure of the message's first byte (null: no message, or not sent)"
    ),
    "arrived_ns": Column(
        pl.Float64, "ns", "Arrival of the message's last byte (null: no message, or not arrived)"
    ),
    "ended_ns": Column(pl.Float64, "ns", "End of the operation (null: not ended)"),
    "wait_ns": Column(
        pl.Float64,
        "ns",
        "Wait of the operation (send or put: until its message departs; receive: until its end; "
        "calculation: for its processor; null: the wait is not over)",
    ),
}

#: Columns of `rank_spans`, one row per span.
SPAN_COLUMNS: Mapping[str, Column] = {
    "rank": Column(pl.Int32, "", "Rank"),
    "state": Column(
        pl.String,
        "",
        "computing; sending: a send or put is posted and has not ended, or its message has not "
        "left; receiving: a receive is posted and has not ended",
    ),
    "begin_ns": Column(pl.Float64, "ns", "Start of the span"),
    "end_ns": Column(pl.Float64, "ns", "End of the span (end of the run if still open)"),
}


def timelines(result: PacketResult) -> pl.DataFrame:
    """Return all operations with their times, by rank in program order; see `TIMELINE_COLUMNS`."""
    _check(result)
    work = result.workload
    ops = np.arange(work.num_ops)
    kind = work.kind
    message = (kind == Kind.SEND) | (kind == Kind.PUT) | (kind == Kind.RECV)
    # A receive gets the times of the send that it matches.
    sender = np.where((kind == Kind.RECV) & (work.match >= 0), work.match, ops)
    posted, ended = _ns(result.posted_ps), _ns(result.ended_ps)
    left = np.where(message, _ns(result.left_ps[sender]), np.nan)
    arrived = np.where(message, _ns(result.arrived_ps[sender]), np.nan)
    until = np.where(kind == Kind.RECV, ended, np.where(message, left, ended - work.duration_ns))
    there = pl.Series(message)

    def only(values: pl.Series) -> pl.Series:
        return values.zip_with(there, pl.Series([None], dtype=values.dtype))

    return frame(
        TIMELINE_COLUMNS,
        {
            "rank": work.rank,
            "operation": ops - work.op_offset[work.rank],
            "kind": np.array([KIND_TEXT[Kind(k)] for k in range(len(Kind))], dtype=object)[kind],
            "peer": only(pl.Series(work.peer, dtype=pl.Int32)),
            "tag": only(pl.Series(work.tag, dtype=pl.Int32)),
            "size_bytes": only(pl.Series(work.size_bytes, dtype=pl.Int64)),
            "phase": np.array(work.phase_names, dtype=object)[work.phase],
            "posted_ns": posted,
            "left_ns": left,
            "arrived_ns": arrived,
            "ended_ns": ended,
            # Rounding of durations to ps could make the wait slightly negative.
            "wait_ns": np.maximum(until - posted, 0.0),
        },
    )


def rank_spans(result: PacketResult) -> pl.DataFrame:
    """Return one row for each span of a rank's time; overlapping spans of one state are joined.

    Spans of different states overlap if a rank is in several states at the same time.

    Returns
    -------
    polars.DataFrame
        Columns of `SPAN_COLUMNS`, by rank, state and time.
    """
    _check(result)
    work, end_ps = result.workload, result.end_ps
    kind, posted = work.kind, result.posted_ps
    ended = np.where(result.ended_ps >= 0, result.ended_ps, end_ps)
    message = (kind == Kind.SEND) | (kind == Kind.PUT)
    left = np.where(result.left_ps >= 0, result.left_ps, end_ps)
    computed = np.rint(work.duration_ns * 1e3).astype(np.int64)
    parts = []
    kinds = (
        (kind == Kind.CALC, np.maximum(ended - computed, posted), ended),
        (message, posted, np.maximum(ended, left)),
        (kind == Kind.RECV, posted, ended),
    )
    for number, (mine, begin, end) in enumerate(kinds):
        ops = np.flatnonzero(mine & (posted >= 0) & (end > begin))
        rank, first, last = joined(work.rank[ops].astype(np.int64), begin[ops], end[ops])
        parts.append((rank, np.full(len(rank), number), first, last))
    rank, state, first, last = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.lexsort((first, state, rank))
    return frame(
        SPAN_COLUMNS,
        {
            "rank": rank[order].astype(np.int32),
            "state": np.array(STATES, dtype=object)[state[order]],
            "begin_ns": first[order] / 1e3,
            "end_ns": last[order] / 1e3,
        },
    )


def _check(result: PacketResult | RolledPacketResult) -> None:
    if isinstance(result.workload, RolledWorkload):
        raise NotApplicable("a rolled workload keeps no times of single operations")


def joined(
    group: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Join spans of a group that overlap or touch; return their groups, starts and ends, sorted."""
    if not len(group):
        return group, begin, end
    order = np.lexsort((begin, group))
    group, begin, end = group[order], begin[order], end[order]
    # Groups are placed one after the other on one axis, so that one running maximum is enough.
    room = int(end.max()) + 1 - min(int(begin.min()), 0)
    reach = np.maximum.accumulate(end + group * room) - group * room
    fresh = np.ones(len(group), dtype=bool)
    fresh[1:] = (group[1:] != group[:-1]) | (begin[1:] > reach[:-1])
    starts = np.flatnonzero(fresh)
    return group[starts], begin[starts], np.maximum.reduceat(end, starts)


def _ns(times_ps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return times in ns; negative times (no event) become NaN."""
    return np.where(times_ps >= 0, times_ps / 1e3, np.nan)
