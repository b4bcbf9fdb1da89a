"""Results of rolled workloads: statistics in place of times of operations."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import frame
from weft.core.errors import NotApplicable
from weft.sim.common.replay import (
    RANK_COLUMNS,
    TimedResult,
    described,
    phase_table,
    ratio,
    summarised,
)
from weft.workload.rolled import CommonProgram, RolledWorkload

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Bins of message times: 64 for each power of two (1.1 % of a time) from 2^-10 to 2^54 ns.
_EACH, _LOW, _BINS = 64, -10, 64 * 64


class DroppedOperations:
    """Statistics of operations that are dropped; each stands for the ranks of its cell.

    Arrays by phase: `begin_ns`, `until_ns`: first start and last end. `longest_ns`: longest time of
    a message. `size_bytes`: int64, of messages. `sums`: times, slowdowns, and messages with a
    slowdown. `times`: int64 [phases, bins], histogram of message times.
    `end_ns` [cells]: end of the last operation. `of_rank` [ranks]: cell of each rank; `size`
    [cells]: ranks of each cell. `per_ns`: units of time in a ns.
    """

    _SUMS = ("sums", "times", "size_bytes", "num_ops", "num_messages")
    _ENDS = ("until_ns", "end_ns")

    def __init__(self, work: RolledWorkload, of_rank: Ints, size: Ints, per_ns: int = 1):
        phases = len(work.phase_names)
        self.of_rank, self._size, self.per_ns = of_rank, size, per_ns
        self.begin_ns, self.until_ns = np.full(phases, np.inf), np.full(phases, -np.inf)
        self.longest_ns, self.sums = np.zeros(phases), np.zeros((3, phases))
        self.times = np.zeros((phases, _BINS), dtype=np.int64)
        self.size_bytes = np.zeros(phases, dtype=np.int64)
        self.end_ns = np.zeros(len(size))
        self.num_ops = self.num_messages = self.computed = 0

    def add(
        self, table: CommonProgram, row: Ints, cell: Ints, times: Floats, alone: Floats
    ) -> None:
        """Add operations: row in a table of programs, and cell.

        `times`: posted, ended, left and arrived, [4, ops] units of time. `alone`: zero-load times
        of those that sent a message, float64 [sent] ns.
        """
        posted, ended, left, arrived = times
        took = (arrived - left) / self.per_ns
        posted, ended, arrived = (each / self.per_ns for each in (posted, ended, arrived))
        phase, count = table.phase[row], self._size[cell]
        np.minimum.at(self.begin_ns, phase, posted)
        np.maximum.at(self.until_ns, phase, np.maximum(ended, arrived))
        np.maximum.at(self.end_ns, cell, ended)
        self.num_ops += int(count.sum())
        sent = np.flatnonzero(arrived >= 0)
        phase, count, took = phase[sent], count[sent], took[sent]
        self.computed += len(sent)
        self.num_messages += int(count.sum())
        size = table.size_bytes[row[sent]]
        slowdown = np.divide(took, alone, out=np.zeros(len(took)), where=alone > 0)
        for at, values in enumerate((took, slowdown, alone > 0)):
            weights = values * count
            self.sums[at] += np.bincount(phase, weights=weights, minlength=len(self.begin_ns))
        np.maximum.at(self.longest_ns, phase, took)
        np.add.at(self.size_bytes, phase, size * count)
        place = (np.log2(np.maximum(took, 2.0**_LOW)) - _LOW) * _EACH
        place = np.minimum(place, _BINS - 1).astype(np.int64)
        np.add.at(self.times, (phase, place), count)

    def copy(self) -> DroppedOperations:
        """Return the statistics up to now; first starts and longest times stay those of this one.

        Periods that are repeated do not change these.
        """
        other = copy(self)
        for name in (*self._SUMS, *self._ENDS):
            setattr(other, name, np.copy(getattr(self, name)))
        return other

    def repeat(
        self, before: DroppedOperations, after: DroppedOperations, times: int, lasts: int
    ) -> None:
        """Add so many times what was added between two states, each time `lasts` units later."""
        for name in self._SUMS:
            gain = getattr(after, name) - getattr(before, name)
            setattr(self, name, getattr(self, name) + times * gain)
        for name in self._ENDS:
            end = getattr(after, name)
            later = (np.round(end * self.per_ns) + times * lasts) / self.per_ns
            later = np.where(end > getattr(before, name), later, -np.inf)
            setattr(self, name, np.maximum(getattr(self, name), later))

    def percentile_ns(self, share: float) -> float:
        """Return a percentile of the times of all messages, too long by up to 1.1 %."""
        counts = np.cumsum(self.times.sum(axis=0))
        at = int(np.searchsorted(counts, share * counts[-1]))
        return float(min(2.0 ** ((at + 1) / _EACH + _LOW), self.longest_ns.max()))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RolledReplay(TimedResult):
    """Tables of a rolled workload, without times of single operations.

    The subclass of each simulation level defines `links`. `tally`: statistics of the operations.
    `most_ops`: largest number of operations that existed at a time.
    """

    workload: RolledWorkload
    tally: DroppedOperations
    most_ops: int

    @property
    def makespan_ns(self) -> float:
        """End of the last operation or arrival of the last message."""
        return max(float(self.tally.until_ns.max(initial=0.0)), 0.0)

    @property
    def recalled_for(self) -> str:
        """Why messages were not computed."""
        return "of rounds that began from an earlier state were"

    @property
    def recalled(self) -> str:
        """How much was computed, and at a time, and what is known of times, in words."""
        computed = int(self.tally.computed)
        return (
            f"rounds computed once: {computed:,} messages were computed, "
            f"{self.tally.num_messages - computed:,} {self.recalled_for} recalled; "
            f"rounds laid as they begin: at most {self.most_ops:,} of {self.workload.num_ops:,} "
            "operations existed at a time; 99 % of messages took at most "
            f"{self.tally.percentile_ns(0.99):.4g} ns (within 1.1 %); there are no times of single "
            "messages"
        )

    def __repr__(self) -> str:
        return described(self, self.tally.num_messages)

    def messages(self) -> pl.DataFrame:
        """Raise `NotApplicable`: single messages are not kept."""
        raise NotApplicable("a rolled workload keeps no times of single messages")

    def figures(self) -> dict[str, Any]:
        """Return the figures of all messages."""
        tally, (times, slowdown, timed) = self.tally, self.tally.sums.sum(axis=1)
        return {
            "messages": tally.num_messages,
            "size_bytes": int(tally.size_bytes.sum()),
            "mean_message_ns": float(times / tally.num_messages) if tally.num_messages else None,
            "max_message_ns": float(tally.longest_ns.max()) if tally.num_messages else None,
            "mean_slowdown": float(slowdown / timed) if timed else None,
        }

    def summary(self) -> dict[str, Any]:
        """Return the makespan, times and slowdown of all messages, and the busiest link."""
        return summarised(self, self.figures())

    def ranks(self) -> pl.DataFrame:
        """Return one row for each rank; see `RANK_COLUMNS`."""
        which, work = self.workload.program_of, self.workload
        # Times are added one by one, as in `Replay`, for the same sum to the last bit.
        calc = [
            np.bincount(each.kind * 0, weights=each.duration_ns, minlength=1)[0]
            for each in work.programs
        ]
        sent = [each.size_bytes[each.sends].sum() for each in work.programs]
        received = np.zeros(len(which), dtype=np.int64)
        for to, ranks, size in self.sent():
            received[work.peers[to, ranks]] += size.sum()
        columns = (
            np.arange(len(which), dtype=np.int32), self.host,
            self.tally.end_ns[self.tally.of_rank], np.array(calc)[which], np.array(sent)[which],
            received, np.array([len(each.sends) for each in work.programs])[which],
        )  # fmt: skip
        return frame(RANK_COLUMNS, dict(zip(RANK_COLUMNS, columns, strict=True)))

    def phases(self) -> pl.DataFrame:
        """Return one row for each phase, as in `PHASE_COLUMNS`; what needs single times is null."""
        tally = self.tally
        messages, unknown = tally.times.sum(axis=1), np.full(len(tally.begin_ns), np.nan)
        return phase_table(
            self.workload.phase_names, tally.begin_ns, tally.until_ns, messages, tally.size_bytes,
            ratio(tally.sums[0], messages), np.where(messages > 0, tally.longest_ns, np.nan),
            ratio(tally.sums[1], tally.sums[2]), unknown, unknown,
        )  # fmt: skip

    def sent(self) -> Iterator[tuple[int, Ints, Ints]]:
        """Yield each map of peers, ranks of a program, and the sizes of messages to these peers."""
        for number, each in enumerate(self.workload.programs):
            peers = each.peers[each.sends]
            ranks = np.flatnonzero(self.workload.program_of == number)
            for to in np.unique(peers).tolist():
                yield to, ranks, each.size_bytes[each.sends][peers == to]
