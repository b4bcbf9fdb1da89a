"""What a run over time found, by message, rank and phase: the part that levels share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.html import facts_table
from weft.fabrics import Fabric
from weft.workload import Workload

MESSAGE_COLUMNS: Mapping[str, Column] = {
    "source_rank": Column(pl.Int32, "", "Rank that sends."),
    "destination_rank": Column(pl.Int32, "", "Rank that receives."),
    "source_host": Column(pl.Int32, "", "Host of the sender."),
    "destination_host": Column(pl.Int32, "", "Host of the receiver."),
    "tag": Column(pl.Int32, "", "Tag of the message."),
    "phase": Column(pl.String, "", "Phase that the message belongs to; empty outside phases."),
    "size_bytes": Column(pl.Int64, "B", "Size."),
    "posted_ns": Column(pl.Float64, "ns", "When the sender posted it; null when it did not."),
    "left_ns": Column(pl.Float64, "ns", "When its first byte left; null when it did not."),
    "arrived_ns": Column(pl.Float64, "ns", "When its last byte arrived; null when it did not."),
    "alone_ns": Column(
        pl.Float64, "ns", "Time from leaving to arrival if nothing else had been there."
    ),
    "slowdown": Column(
        pl.Float64, "", "Time from leaving to arrival over `alone_ns`; null where that is 0."
    ),
}

RANK_COLUMNS: Mapping[str, Column] = {
    "rank": Column(pl.Int32, "", "Rank."),
    "host": Column(pl.Int32, "", "Host it runs on."),
    "end_ns": Column(pl.Float64, "ns", "End of its last operation; 0 when it has none."),
    "calc_ns": Column(pl.Float64, "ns", "Time in calculations, all of them added up."),
    "sent_bytes": Column(pl.Int64, "B", "Sum of the messages that it sent."),
    "received_bytes": Column(pl.Int64, "B", "Sum of the messages that it got."),
    "messages": Column(pl.Int64, "", "Messages that it sent."),
}

PHASE_COLUMNS: Mapping[str, Column] = {
    "phase": Column(pl.String, "", "Name; empty for what is outside phases."),
    "begin_ns": Column(pl.Float64, "ns", "Start of its first operation."),
    "end_ns": Column(
        pl.Float64, "ns", "End of its last operation or arrival; null when nothing has ended."
    ),
    "span_ns": Column(pl.Float64, "ns", "From begin to end; null when nothing has ended."),
    "messages": Column(pl.Int64, "", "Messages sent in it."),
    "size_bytes": Column(pl.Int64, "B", "Their sum."),
    "mean_message_ns": Column(
        pl.Float64, "ns", "Mean time from leaving to arrival; null without messages."
    ),
    "max_message_ns": Column(
        pl.Float64, "ns", "Longest time from leaving to arrival; null without messages."
    ),
    "mean_slowdown": Column(
        pl.Float64, "", "Mean slowdown of the messages that take time; null without any."
    ),
}


class Replay:
    """Times of the operations and messages of a workload, as tables.

    A level's result has these: `fabric`, `engine`, `workload`, `host`, `options`, the times of
    operations in ns (-1 for what did not happen) and `alone_ns`.
    """

    fabric: Fabric
    engine: str
    workload: Workload
    host: NDArray[np.int32]
    options: Mapping[str, Any]
    posted_ns: Any
    ended_ns: Any
    left_ns: Any
    arrived_ns: Any

    @property
    def makespan_ns(self) -> float:
        """End of the last operation or arrival of the last message."""
        return float(max(self.ended_ns.max(initial=0.0), self.arrived_ns.max(initial=0.0)))

    def alone_ns(self) -> NDArray[np.float64]:
        """float64 [messages]: time that each would take if it were alone."""
        raise TypeError(f"{type(self).__name__} says nothing of messages that are alone")

    def links(self) -> pl.DataFrame:
        """One row a directed link."""
        raise TypeError(f"{type(self).__name__} says nothing of links")

    def messages(self) -> pl.DataFrame:
        """One row a message, in the order of ranks and their programs; see `MESSAGE_COLUMNS`."""
        work, ops = self.workload, self.workload.messages
        alone = self.alone_ns()
        left, arrived = known(self.left_ns[ops]), known(self.arrived_ns[ops])
        return frame(
            MESSAGE_COLUMNS,
            {
                "source_rank": work.rank[ops],
                "destination_rank": work.peer[ops],
                "source_host": self.host[work.rank[ops]],
                "destination_host": self.host[work.peer[ops]],
                "tag": work.tag[ops],
                "phase": np.array(work.phase_names, dtype=object)[work.phase[ops]],
                "size_bytes": work.size_bytes[ops],
                "posted_ns": known(self.posted_ns[ops]),
                "left_ns": left,
                "arrived_ns": arrived,
                "alone_ns": alone,
                "slowdown": ratio(arrived - left, alone),
            },
        )

    def ranks(self) -> pl.DataFrame:
        """One row a rank; see `RANK_COLUMNS`."""
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
        """One row a phase, in the order of their first mention; see `PHASE_COLUMNS`."""
        work, ops = self.workload, self.workload.messages
        names = work.phase_names
        begin, end = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        posted = self.posted_ns >= 0
        np.minimum.at(begin, work.phase[posted], self.posted_ns[posted])
        np.maximum.at(end, work.phase, self.ended_ns)
        np.maximum.at(end, work.phase[ops], self.arrived_ns[ops])
        there = np.flatnonzero(np.isfinite(begin))
        end[end < 0] = np.nan  # nothing of it has ended
        took = known(self.arrived_ns[ops]) - known(self.left_ns[ops])
        arrived = ~np.isnan(took)
        phase, took = work.phase[ops][arrived], took[arrived]
        slow = ratio(took, self.alone_ns()[arrived])
        count = np.bincount(phase, minlength=len(names))
        longest = np.full(len(names), -np.inf)
        np.maximum.at(longest, phase, took)
        timed = ~np.isnan(slow)
        slowdown = ratio(
            np.bincount(phase[timed], weights=slow[timed], minlength=len(names)),
            np.bincount(phase[timed], minlength=len(names)),
        )
        mean = ratio(np.bincount(phase, weights=took, minlength=len(names)), count)
        sent = np.bincount(work.phase[ops], minlength=len(names))
        size = totals(work.phase[ops], work.size_bytes[ops], len(names))
        return frame(
            PHASE_COLUMNS,
            {
                "phase": [names[at] for at in there],
                "begin_ns": begin[there],
                "end_ns": end[there],
                "span_ns": (end - begin)[there],
                "messages": sent[there],
                "size_bytes": size[there],
                "mean_message_ns": mean[there],
                "max_message_ns": np.where(count > 0, longest, np.nan)[there],
                "mean_slowdown": slowdown[there],
            },
        )

    def summary(self) -> dict[str, Any]:
        """Figures of all messages: makespan, times, slowdown, and the busiest link."""
        links = self.links().sort("utilisation", descending=True, nulls_last=True).head(1)
        return {
            "engine": self.engine,
            "makespan_ns": self.makespan_ns,
            **self.figures(np.ones(len(self.workload.messages), dtype=bool)),
            "busiest_link": links["name"][0] if len(links) else None,
            "busiest_share": links["utilisation"][0] if len(links) else None,
        }

    def figures(self, mine: NDArray[np.bool_]) -> dict[str, Any]:
        """Figures of some messages; times are of those that arrived.

        Parameters
        ----------
        mine
            bool [messages]: which.
        """
        ops = self.workload.messages[mine]
        arrived = self.arrived_ns[ops] >= 0
        took = (self.arrived_ns[ops] - self.left_ns[ops])[arrived]
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
        return facts_table(f"{self.workload.name} on {self.fabric.name}", self.summary())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.workload.name!r} on {self.fabric.name}, {self.engine}: "
            f"{len(self.workload.messages)} messages in {self.makespan_ns:g} ns)"
        )


def known(times_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times, NaN for what did not happen."""
    return np.where(times_ns < 0, np.nan, times_ns)


def totals(by: NDArray[Any], values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Sums of whole numbers by group, exact where doubles are not."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, by, values)
    return sums


def ratio(values: NDArray[Any], by: NDArray[Any]) -> NDArray[np.float64]:
    """Quotients, NaN where the divisor is 0."""
    out = np.full(len(values), np.nan)
    np.divide(values, by, out=out, where=np.asarray(by) > 0)
    return out
