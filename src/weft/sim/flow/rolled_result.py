"""Results of rolled workloads at the flow level: statistics in place of times of operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import frame
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.sim.common.replay import RANK_COLUMNS, phase_table, ratio, summarised
from weft.sim.flow.cells import Cells
from weft.sim.flow.network import Network
from weft.sim.flow.result import alone_ns, link_table, on_wire
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
    `end_ns` [cells]: end of the last operation.
    """

    def __init__(self, work: RolledWorkload, cells: Cells, options: Mapping[str, Any]):
        phases = len(work.phase_names)
        self._cells, self._options = cells, options
        self.begin_ns, self.until_ns = np.full(phases, np.inf), np.full(phases, -np.inf)
        self.longest_ns, self.sums = np.zeros(phases), np.zeros((3, phases))
        self.times = np.zeros((phases, _BINS), dtype=np.int64)
        self.size_bytes = np.zeros(phases, dtype=np.int64)
        self.end_ns = np.zeros(len(cells.first))
        self.num_ops = self.num_messages = self.computed = 0

    def add(self, table: CommonProgram, row: Ints, cell: Ints, route: Any, times: Floats) -> None:
        """Add operations: row in a table of programs, cell, and route.

        `times`: posted, ended, left and arrived, float64 [4, ops] ns.
        """
        posted, ended, left, arrived = times
        phase, count = table.phase[row], self._cells.size[cell]
        np.minimum.at(self.begin_ns, phase, posted)
        np.maximum.at(self.until_ns, phase, np.maximum(ended, arrived))
        np.maximum.at(self.end_ns, cell, ended)
        self.num_ops += int(count.sum())
        sent = np.flatnonzero(arrived >= 0)
        phase, count, took = phase[sent], count[sent], (arrived - left)[sent]
        self.computed += len(sent)
        self.num_messages += int(count.sum())
        size = table.size_bytes[row[sent]]
        alone = alone_ns(self._cells.network, self._options, route[sent], size)
        slowdown = np.divide(took, alone, out=np.zeros(len(took)), where=alone > 0)
        for at, values in enumerate((took, slowdown, alone > 0)):
            weights = values * count
            self.sums[at] += np.bincount(phase, weights=weights, minlength=len(self.begin_ns))
        np.maximum.at(self.longest_ns, phase, took)
        np.add.at(self.size_bytes, phase, size * count)
        place = (np.log2(np.maximum(took, 2.0**_LOW)) - _LOW) * _EACH
        place = np.minimum(place, _BINS - 1).astype(np.int64)
        np.add.at(self.times, (phase, place), count)

    def percentile_ns(self, share: float) -> float:
        """Return a percentile of the times of all messages, too long by up to 1.1 %."""
        counts = np.cumsum(self.times.sum(axis=0))
        at = int(np.searchsorted(counts, share * counts[-1]))
        return float(min(2.0 ** ((at + 1) / _EACH + _LOW), self.longest_ns.max()))


@dataclass(frozen=True, eq=False)
class RolledResult:
    """Result of a rolled workload at the flow level; it has no times of single operations.

    Parameters
    ----------
    fabric, engine, workload, host, options
        As in `FlowResult`.
    network, route
        The routes; and int32 [maps, ranks], the route from each rank to its peer.
    cells, tally
        Ranks that are alike, and the statistics.
    most_ops
        Largest number of operations that existed at a time.
    shared
        Whether messages shared links; else each was shown to be alone on its own.
    certain
        Whether times are surely those of the unrolled workload. Else operations that coincide may
        have started in the order of another rank of the cell, and sums be rounded differently.
    run_s
        Wall-clock time of the simulation.
    """

    fabric: Fabric
    engine: str
    workload: RolledWorkload
    host: NDArray[np.int32]
    options: Mapping[str, Any]
    network: Network
    route: NDArray[np.int32]
    cells: Cells
    tally: DroppedOperations
    most_ops: int
    shared: bool
    certain: bool
    run_s: float

    @property
    def makespan_ns(self) -> float:
        """End of the last operation or arrival of the last message."""
        return max(float(self.tally.until_ns.max(initial=0.0)), 0.0)

    @property
    def recalled(self) -> str:
        """How many messages were computed and recalled, in words."""
        tally, cells = self.tally, len(self.cells.first)
        return (
            f"rounds computed once: {tally.computed:,} messages of {cells:,} ranks were computed, "
            f"{tally.num_messages - tally.computed:,} of ranks that are alike recalled; at most "
            f"{self.most_ops:,} operations existed at a time; 99 % of messages took at most "
            f"{self.tally.percentile_ns(0.99):.4g} ns (within 1.1 %); there are no times of single "
            "messages"
            + "; ranks that are alike may differ by rounding, and by the order of what coincides"
            * (not self.certain)
        )

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
        for to, ranks, size in self._sent():
            received[work.peers[to, ranks]] += size.sum()
        columns = (
            np.arange(len(which), dtype=np.int32), self.host,
            self.tally.end_ns[self.cells.of_rank], np.array(calc)[which], np.array(sent)[which],
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

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `weft.sim.flow.result.LINK_COLUMNS`."""
        routes, sizes, counts = [], [], []
        for to, ranks, size in self._sent():
            route = self.route[to, ranks]
            routes.append(route[route >= 0])
            sizes.append(np.full(len(routes[-1]), on_wire(self.options, size).sum()))
            counts.append(np.full(len(routes[-1]), len(size)))
        columns = (
            np.concatenate([*each, np.zeros(0, dtype=np.int64)]) for each in (routes, sizes, counts)
        )
        return link_table(self.fabric, self.network, self.makespan_ns, *columns)

    def _sent(self) -> Iterator[tuple[int, Ints, Ints]]:
        """Yield each map of peers, ranks of a program, and the sizes of messages to these peers."""
        for number, each in enumerate(self.workload.programs):
            peers = each.peers[each.sends]
            ranks = np.flatnonzero(self.workload.program_of == number)
            for to in np.unique(peers).tolist():
                yield to, ranks, each.size_bytes[each.sends][peers == to]
