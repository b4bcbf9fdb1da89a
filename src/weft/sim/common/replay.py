"""Tables of messages, ranks and phases, common to results of the flow, packet and flit levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.html import facts_table
from weft.fabrics import Fabric
from weft.kernels.program.waits import spent
from weft.workload import Kind, Workload

#: Columns of messages at every level.
SENT_COLUMNS: Mapping[str, Column] = {
    "source_rank": Column(pl.Int32, "", "Sending rank"),
    "destination_rank": Column(pl.Int32, "", "Receiving rank"),
    "source_host": Column(pl.Int32, "", "Host of the sending rank"),
    "destination_host": Column(pl.Int32, "", "Host of the receiving rank"),
    "tag": Column(pl.Int32, "", "Tag of the message"),
    "phase": Column(pl.String, "", "Phase of the message (empty: outside phases)"),
    "size_bytes": Column(pl.Int64, "B", "Size of the message"),
}

MESSAGE_COLUMNS: Mapping[str, Column] = {
    **SENT_COLUMNS,
    "posted_ns": Column(pl.Float64, "ns", "Start of the send (null: not posted)"),
    "left_ns": Column(pl.Float64, "ns", "Departure of the first byte (null: not sent)"),
    "arrived_ns": Column(pl.Float64, "ns", "Arrival of the last byte (null: not arrived)"),
    "alone_ns": Column(
        pl.Float64, "ns", "Time from departure to arrival on an otherwise idle fabric"
    ),
    "slowdown": Column(
        pl.Float64, "", "Time from departure to arrival / `alone_ns` (null: `alone_ns` is 0)"
    ),
}

RANK_COLUMNS: Mapping[str, Column] = {
    "rank": Column(pl.Int32, "", "Rank"),
    "host": Column(pl.Int32, "", "Host of the rank"),
    "end_ns": Column(pl.Float64, "ns", "End of the last operation (0: no operations)"),
    "calc_ns": Column(pl.Float64, "ns", "Total time of calculations"),
    "sent_bytes": Column(pl.Int64, "B", "Total size of sent messages"),
    "received_bytes": Column(pl.Int64, "B", "Total size of received messages"),
    "messages": Column(pl.Int64, "", "Number of sent messages"),
}

PHASE_COLUMNS: Mapping[str, Column] = {
    "phase": Column(pl.String, "", "Name of the phase (empty: outside phases)"),
    "begin_ns": Column(pl.Float64, "ns", "Start of the first operation"),
    "end_ns": Column(
        pl.Float64, "ns", "End of the last operation or arrival (null: nothing has ended)"
    ),
    "span_ns": Column(pl.Float64, "ns", "Time from start to end (null: nothing has ended)"),
    "messages": Column(pl.Int64, "", "Number of messages"),
    "size_bytes": Column(pl.Int64, "B", "Total size of messages"),
    "mean_message_ns": Column(
        pl.Float64, "ns", "Mean time from departure to arrival (null: no messages)"
    ),
    "max_message_ns": Column(
        pl.Float64, "ns", "Longest time from departure to arrival (null: no messages)"
    ),
    "mean_slowdown": Column(
        pl.Float64, "", "Mean slowdown of messages whose zero-load time is not 0 (null: none)"
    ),
    "exposed_ns": Column(
        pl.Float64,
        "ns",
        "Mean over the phase's ranks of the time in which a calculation of the phase runs, or no "
        "calculation runs and the next one, or the end of the rank, waits for the phase",
    ),
    "late_ns": Column(
        pl.Float64, "ns", "Part of `exposed_ns` before the other side of a message was ready"
    ),
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TimedResult:
    """What results of all levels with time have in common, see `FlowResult`."""

    fabric: Fabric
    engine: str
    host: NDArray[np.int32]
    options: Mapping[str, Any]
    run_s: float


class Replay(TimedResult):
    """Times of the operations and messages of a workload, as tables.

    The subclass of each simulation level defines `workload`, the times of operations in ns (-1 for
    events that did not happen) and `alone_ns`.
    """

    workload: Workload
    posted_ns: Any
    ended_ns: Any
    left_ns: Any
    arrived_ns: Any

    @property
    def makespan_ns(self) -> float:
        """End of the last operation or arrival of the last message."""
        return float(max(self.ended_ns.max(initial=0.0), self.arrived_ns.max(initial=0.0)))

    def took_ns(self, ops: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the times of messages from departure to arrival; NaN if they did not arrive."""
        return known(self.arrived_ns[ops]) - known(self.left_ns[ops])

    def alone_ns(self) -> NDArray[np.float64]:
        """Return the zero-load time of each message from its departure, float64 [messages]."""
        raise TypeError(f"{type(self).__name__} does not define alone_ns")

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link."""
        raise TypeError(f"{type(self).__name__} does not define links")

    def messages(self) -> pl.DataFrame:
        """Return one row for each message, by rank in program order; see `MESSAGE_COLUMNS`."""
        ops, alone = self.workload.messages, self.alone_ns()
        return frame(
            MESSAGE_COLUMNS,
            {
                **sent_messages(self.workload, self.host),
                "posted_ns": known(self.posted_ns[ops]),
                "left_ns": known(self.left_ns[ops]),
                "arrived_ns": known(self.arrived_ns[ops]),
                "alone_ns": alone,
                "slowdown": ratio(self.took_ns(ops), alone),
            },
        )

    def ranks(self) -> pl.DataFrame:
        """Return one row for each rank; see `RANK_COLUMNS`."""
        work, ranks = self.workload, self.workload.num_ranks
        ops = work.messages
        end = np.zeros(ranks)
        np.maximum.at(end, work.rank, self.ended_ns)
        size = work.size_bytes[ops]

        return frame(
            RANK_COLUMNS,
            {
                "rank": np.arange(ranks, dtype=np.int32),
                "host": self.host,
                "end_ns": end,
                "calc_ns": np.bincount(work.rank, weights=work.duration_ns, minlength=ranks),
                "sent_bytes": totals(work.rank[ops], size, ranks),
                "received_bytes": totals(work.peer[ops], size, ranks),
                "messages": np.bincount(work.rank[ops], minlength=ranks),
            },
        )

    def phases(self) -> pl.DataFrame:
        """Return one row for each phase, in order of first occurrence; see `PHASE_COLUMNS`."""
        work, ops = self.workload, self.workload.messages
        names = work.phase_names
        begin, end = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        posted = self.posted_ns >= 0
        np.minimum.at(begin, work.phase[posted], self.posted_ns[posted])
        np.maximum.at(end, work.phase, self.ended_ns)
        np.maximum.at(end, work.phase[ops], self.arrived_ns[ops])
        end[end < 0] = np.nan  # no operation of the phase has ended
        took = self.took_ns(ops)
        arrived = ~np.isnan(took)
        phase, took = work.phase[ops][arrived], took[arrived]
        slow = ratio(took, self.alone_ns()[arrived])
        longest = np.full(len(names), -np.inf)
        np.maximum.at(longest, phase, took)
        count = np.bincount(phase, minlength=len(names))
        longest[count == 0] = np.nan
        timed = ~np.isnan(slow)
        slowdown = ratio(
            np.bincount(phase[timed], weights=slow[timed], minlength=len(names)),
            np.bincount(phase[timed], minlength=len(names)),
        )
        mean = ratio(np.bincount(phase, weights=took, minlength=len(names)), count)
        sent = np.bincount(work.phase[ops], minlength=len(names))
        size = totals(work.phase[ops], work.size_bytes[ops], len(names))
        return phase_table(
            names, begin, end, sent, size, mean, longest, slowdown, *self._exposed_ns()
        )

    def _exposed_ns(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the columns `exposed_ns` and `late_ns` of all phases."""
        work, count = self.workload, len(self.workload.phase_names)
        posted, ended = (np.ascontiguousarray(times) for times in (self.posted_ns, self.ended_ns))
        calcs = np.flatnonzero((ended > posted) & (work.kind == Kind.CALC))
        calcs = calcs[np.lexsort((posted[calcs], work.rank[calcs]))]
        program = work.op_offset, work.dep_offset, work.dep, work.dep_on_start, work.match
        cpus, cpu = np.unique(work.cpu[calcs] if len(work.cpu) else calcs * 0, return_inverse=True)
        own, late = np.zeros((2, count))
        spent(
            program, np.searchsorted(work.rank[calcs], np.arange(work.num_ranks + 1)), calcs,
            np.ascontiguousarray(work.phase), cpu, posted, ended,
            np.zeros(len(cpus)), np.zeros(len(cpus), dtype=np.int64), own, late,
        )  # fmt: skip
        used = np.unique(work.rank.astype(np.int64) * count + work.phase) % count
        ranks = np.bincount(used, minlength=count)
        return ratio(own, ranks), ratio(late, ranks)

    def summary(self) -> dict[str, Any]:
        """Return the makespan, times and slowdown of all messages, and the busiest link."""
        return summarised(self, self.figures(np.ones(len(self.workload.messages), dtype=bool)))

    def figures(self, mine: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the figures of some messages; times are statistics of the arrived messages.

        Parameters
        ----------
        mine
            bool [messages]: the messages to count.
        """
        ops = self.workload.messages[mine]
        arrived = self.arrived_ns[ops] >= 0
        took = self.took_ns(ops)[arrived]
        alone = self.alone_ns()[mine][arrived]
        timed = alone > 0
        return {
            "messages": len(ops),
            "size_bytes": int(self.workload.size_bytes[ops].sum()),
            "mean_message_ns": float(took.mean()) if len(took) else None,
            "max_message_ns": float(took.max()) if len(took) else None,
            "mean_slowdown": float((took[timed] / alone[timed]).mean()) if timed.any() else None,
        }

    def _repr_html_(self) -> str:
        ended = {"complete": None if getattr(self, "complete", True) else False}
        title = f"{self.workload.name} on {self.fabric.name}"
        return facts_table(title, {**ended, **self.summary()})

    def __repr__(self) -> str:
        return described(self, len(self.workload.messages))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReplayInPicoseconds(Replay):
    """Replay of a level whose clock counts picoseconds.

    The times of operations are int64 [operations] in ps, -1 for events that did not happen.
    """

    workload: Workload
    posted_ps: NDArray[np.int64]
    ended_ps: NDArray[np.int64]
    left_ps: NDArray[np.int64]
    arrived_ps: NDArray[np.int64]

    def took_ns(self, ops: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the times of messages from departure to arrival; NaN if they did not arrive."""
        left, arrived = self.left_ps[ops], self.arrived_ps[ops]
        return np.where((left < 0) | (arrived < 0), np.nan, (arrived - left) / 1000)

    @property
    def posted_ns(self) -> NDArray[np.float64]:
        """Start of every operation, ns; -1 if it did not start."""
        return _in_ns(self.posted_ps)

    @property
    def ended_ns(self) -> NDArray[np.float64]:
        """End of every operation, ns; -1 if it did not end."""
        return _in_ns(self.ended_ps)

    @property
    def left_ns(self) -> NDArray[np.float64]:
        """Departure of the first byte of every message, ns; -1 for others."""
        return _in_ns(self.left_ps)

    @property
    def arrived_ns(self) -> NDArray[np.float64]:
        """Arrival of the last byte of every message, ns; -1 for others."""
        return _in_ns(self.arrived_ps)


def sent_messages(work: Workload, host: NDArray[np.int32]) -> dict[str, Any]:
    """Return the values of `SENT_COLUMNS`; `host` [ranks]: host of each rank."""
    ops = work.messages
    rank, peer = work.rank[ops], work.peer[ops]
    names = np.array(work.phase_names, dtype=object)[work.phase[ops]]
    columns = rank, peer, host[rank], host[peer], work.tag[ops], names, work.size_bytes[ops]
    return dict(zip(SENT_COLUMNS, columns, strict=True))


def phase_table(
    names: Sequence[str], begin: NDArray[np.float64], end: Any, *rest: Any
) -> pl.DataFrame:
    """Return the rows of phases that have begun; `rest`: the columns behind `span_ns`, in order."""
    there = np.flatnonzero(np.isfinite(begin))
    columns = np.array(names, dtype=object), begin, end, end - begin, *rest
    return frame(
        PHASE_COLUMNS, dict(zip(PHASE_COLUMNS, (each[there] for each in columns), strict=True))
    )


def described(result: Any, messages: int) -> str:
    """Return a result with so many messages in a line."""
    return (
        f"{type(result).__name__}({result.workload.name!r} on {result.fabric.name}, "
        f"{result.engine}: {messages} messages in {result.makespan_ns:g} ns)"
    )


def summarised(result: Any, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a result at a level with time; `figures` are those of all messages."""
    links = result.links().sort("utilisation", descending=True, nulls_last=True).head(1)
    return {
        "engine": result.engine,
        "makespan_ns": result.makespan_ns,
        **figures,
        "busiest_link": links["name"][0] if len(links) else None,
        "busiest_share": links["utilisation"][0] if len(links) else None,
    }


def _in_ns(times_ps: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(times_ps < 0, -1.0, times_ps / 1000)


def known(times_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return times, NaN for events that did not happen."""
    return np.where(times_ns < 0, np.nan, times_ns)


def totals(by: NDArray[Any], values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the exact sum of the values of each group, int64 [count]."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, by, values)
    return sums


def ratio(values: NDArray[Any], by: NDArray[Any]) -> NDArray[np.float64]:
    """Return quotients, NaN if the divisor is 0."""
    out = np.full(len(values), np.nan)
    np.divide(values, by, out=out, where=np.asarray(by) > 0)
    return out
