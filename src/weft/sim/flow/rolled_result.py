"""Results of rolled workloads at the flow level: statistics in place of times of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import frame
from weft.fabrics import Fabric
from weft.sim.common.metrics import link_kinds
from weft.sim.common.replay import PHASE_COLUMNS, RANK_COLUMNS, ratio
from weft.sim.flow.cells import Cells
from weft.sim.flow.network import Network, carried_bytes
from weft.sim.flow.result import LINK_COLUMNS
from weft.workload import Kind
from weft.workload.rolled import RolledWorkload, joined

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Bins of message times for each power of two, from 2^-10 to 2^54 ns: 1.1 % of a time.
_BINS, _LOW, _OCTAVES = 64, -10, 64


@dataclass(eq=False)
class Tally:
    """Statistics of operations that have been dropped; each stands for the ranks of its cell.

    Arrays by phase: first start and last end, number of messages, and sum and largest value of
    their times and slowdowns; `times` is a histogram by phase. `end_ns`: by cell.
    """

    work: RolledWorkload
    cells: Cells
    options: Mapping[str, Any]
    watch: Callable[[dict[str, Any]], None] | None
    begin_ns: Floats
    until_ns: Floats
    messages: Ints
    timed: Ints
    total_ns: Floats
    longest_ns: Floats
    slowdown: Floats
    times: Ints
    end_ns: Floats
    num_ops: int = 0
    computed: int = 0
    num_messages: int = 0
    _kind: Any = field(default=None)
    _table: Any = field(default=None)

    @classmethod
    def of(
        cls,
        work: RolledWorkload,
        cells: Cells,
        options: Mapping[str, Any],
        watch: Callable[[dict[str, Any]], None] | None,
    ) -> Tally:
        """Return statistics of nothing."""
        phases = len(work.phase_names)
        zeros, counts = np.zeros((4, phases)), np.zeros((2, phases), dtype=np.int64)
        table = joined(work.programs)
        return cls(
            work, cells, options, watch, np.full(phases, np.inf), np.full(phases, -np.inf),
            counts[0], counts[1], zeros[0], zeros[1], zeros[2],
            np.zeros((phases, _BINS * _OCTAVES), dtype=np.int64), np.zeros(len(cells.first)),
            _kind=np.isin(table.kind, (Kind.SEND, Kind.PUT)), _table=table,
        )  # fmt: skip

    def add(
        self,
        cell: Ints,
        index: Ints,
        row: Ints,
        route: NDArray[np.int32],
        posted: Floats,
        ended: Floats,
        left: Floats,
        arrived: Floats,
    ) -> None:
        """Add operations: row of each in the joined programs, route, and times in ns."""
        table, size = self._table, self.cells.size
        phase = table.phase[row]
        np.minimum.at(self.begin_ns, phase, posted)
        np.maximum.at(self.until_ns, phase, np.maximum(ended, arrived))
        np.maximum.at(self.end_ns, cell, ended)
        self.num_ops += int(size[cell].sum())
        sent = self._kind[row]
        phase, count, took = phase[sent], size[cell[sent]], (arrived - left)[sent]
        self.computed += len(took)
        self.num_messages += int(count.sum())
        alone = self.alone_ns(table.size_bytes[row[sent]], route[sent])
        np.add.at(self.messages, phase, count)
        np.add.at(self.total_ns, phase, took * count)
        np.maximum.at(self.longest_ns, phase, took)
        known = alone > 0
        np.add.at(self.timed, phase[known], count[known])
        np.add.at(self.slowdown, phase[known], (took / np.where(known, alone, 1) * count)[known])
        bins = np.floor((np.log2(np.maximum(took, 2.0**_LOW)) - _LOW) * _BINS).astype(np.int64)
        np.add.at(self.times, (phase, np.minimum(bins, _BINS * _OCTAVES - 1)), count)
        if self.watch is not None:
            self.watch(
                {"cell": cell, "index": index, "posted": posted, "ended": ended, "left": left,
                 "arrived": arrived}
            )  # fmt: skip

    def alone_ns(self, size: Ints, route: NDArray[np.int32]) -> Floats:
        """Return the zero-load times of messages from their departure."""
        options, network = self.options, self.cells.network
        alone = size / (options["local_gbps"] / 8) + options["local_latency_ns"]
        away = route >= 0
        wire = on_wire(options, size[away])
        alone[away] = wire / network.route_rate_bytes_per_ns[route[away]]
        alone[away] += network.route_latency_ns[route[away]]
        return np.asarray(alone, dtype=np.float64)

    def percentile_ns(self, share: float) -> float:
        """Return a percentile of the times of all messages, rounded up by up to 1.1 %."""
        counts = np.cumsum(self.times.sum(axis=0))
        at = int(np.searchsorted(counts, share * counts[-1]))
        return min(2.0 ** ((at + 1) / _BINS + _LOW), float(self.longest_ns.max()))


def on_wire(options: Mapping[str, Any], size: Ints) -> Ints:
    """Return the bytes of messages between hosts, with the header of those of one packet."""
    packet = (size <= options["mtu_bytes"]) & (options["mtu_bytes"] > 0)
    header = options["header_bytes"] if options["sharing"] != "none" else 0
    return size + np.where(packet, header, 0)


@dataclass(frozen=True, eq=False, repr=False)
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
        Whether links were shared by messages, or shown to have one at a time.
    run_s
        Wall-clock time of the simulation.
    """

    fabric: Fabric
    engine: str
    workload: RolledWorkload
    host: NDArray[np.int32]
    network: Network
    route: NDArray[np.int32]
    options: Mapping[str, Any]
    cells: Cells
    tally: Tally
    most_ops: int
    shared: bool
    run_s: float

    @property
    def makespan_ns(self) -> float:
        """End of the last operation or arrival of the last message."""
        return max(float(self.tally.until_ns.max(initial=0.0)), 0.0)

    def recall(self) -> dict[str, int]:
        """Return how many messages were computed and recalled, and how many operations existed."""
        tally = self.tally
        return {
            "cells": len(self.cells.first),
            "computed_messages": tally.computed,
            "recalled_messages": tally.num_messages - tally.computed,
            "most_operations": self.most_ops,
        }

    def figures(self) -> dict[str, Any]:
        """Return the figures of all messages."""
        tally = self.tally
        count = tally.num_messages
        return {
            "messages": count,
            "size_bytes": int(self.ranks()["sent_bytes"].sum()),
            "mean_message_ns": tally.total_ns.sum() / count if count else None,
            "p99_message_ns": tally.percentile_ns(0.99) if count else None,
            "max_message_ns": float(tally.longest_ns.max()) if count else None,
            "mean_slowdown": float(tally.slowdown.sum() / tally.timed.sum())
            if tally.timed.sum() else None,
        }  # fmt: skip

    def ranks(self) -> pl.DataFrame:
        """Return one row for each rank; see `RANK_COLUMNS`."""
        work = self.workload
        return frame(RANK_COLUMNS, {
            "rank": np.arange(work.num_ranks, dtype=np.int32), "host": self.host,
            "end_ns": self.tally.end_ns[self.cells.of_rank],
        } | self._per_rank())  # fmt: skip

    def _per_rank(self) -> dict[str, Any]:
        work = self.workload
        rows = []
        for program in work.programs:
            sends = program.sends
            match = np.flatnonzero(program.kind == Kind.RECV)
            rows.append((
                np.append(np.cumsum(program.duration_ns), 0.0)[-2:].max(), program.size_bytes[sends].sum(),
                program.size_bytes[match].sum(), len(sends),
            ))  # fmt: skip
        names = ("calc_ns", "sent_bytes", "received_bytes", "messages")
        return {
            name: np.array([row[at] for row in rows])[work.role] for at, name in enumerate(names)
        }

    def phases(self) -> pl.DataFrame:
        """Return one row for each phase; see `PHASE_COLUMNS`, of which some need single times."""
        tally, names = self.tally, self.workload.phase_names
        there = np.flatnonzero(np.isfinite(tally.begin_ns))
        size = np.zeros(len(names), dtype=np.int64)
        for number, program in enumerate(self.workload.programs):
            sends, ranks = program.sends, int(np.count_nonzero(self.workload.role == number))
            np.add.at(size, program.phase[sends], program.size_bytes[sends] * ranks)
        longest = np.where(tally.messages > 0, tally.longest_ns, np.nan)
        none = np.full(len(there), np.nan)
        return frame(
            PHASE_COLUMNS,
            {
                "phase": [names[at] for at in there],
                "begin_ns": tally.begin_ns[there],
                "end_ns": tally.until_ns[there],
                "span_ns": (tally.until_ns - tally.begin_ns)[there],
                "messages": tally.messages[there],
                "size_bytes": size[there],
                "mean_message_ns": ratio(tally.total_ns, tally.messages)[there],
                "max_message_ns": longest[there],
                "mean_slowdown": ratio(tally.slowdown, tally.timed)[there],
                "exposed_ns": none,
                "late_ns": none,
            },
        )

    def links(self) -> pl.DataFrame:
        """Return one row for each directed link; see `LINK_COLUMNS`."""
        size = np.zeros(self.network.num_routes)
        count = np.zeros(self.network.num_routes, dtype=np.int64)
        for number, program in enumerate(self.workload.programs):
            sends = program.sends
            peers, wire = program.peers[sends], on_wire(self.options, program.size_bytes[sends])
            for to in np.unique(peers).tolist():
                route = self.route[to][self.workload.role == number]
                route = route[route >= 0]
                np.add.at(size, route, float(wire[peers == to].sum()))
                np.add.at(count, route, np.count_nonzero(peers == to))
        carried = carried_bytes(self.network, np.arange(len(size)), size)
        crossing = np.bincount(
            self.network.route_link, minlength=self.fabric.num_links,
            weights=np.repeat(count, np.diff(self.network.route_offset)),
        )  # fmt: skip
        return frame(
            LINK_COLUMNS,
            {
                "link": np.arange(self.fabric.num_links, dtype=np.int32),
                "name": self.fabric.link_names.tolist(),
                "kind": link_kinds(self.fabric).tolist(),
                "rate_gbps": self.fabric.link_rate_gbps,
                "carried_bytes": carried,
                "messages": crossing.astype(np.int64),
                "utilisation": ratio(
                    carried, self.network.capacity_bytes_per_ns * self.makespan_ns
                ),
            },
        )
