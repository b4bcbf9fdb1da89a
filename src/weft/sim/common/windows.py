"""Windows of a rolled workload, of which only the operations near those under way exist.

The event loop is that of any workload. It runs on a *window* of the program: operations that have
started or may start soon, in the order of the whole program. The loop returns when the first
operation of the window's last part starts, which a *gate* waits for as well. Then operations that
nothing refers to any more are dropped, further ones are appended, and the run goes on at the same
instant from the same state. So all times are those of the unrolled workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import need_memory
from weft.kernels.program import operations
from weft.kernels.program.dag import depths
from weft.kernels.program.events import FREE_NOW, OPERATION
from weft.kernels.program.state import Heap, Ranks
from weft.sim.common.rolled_result import DroppedOperations
from weft.workload import Kind, Workload
from weft.workload.rolled import CommonProgram, RolledWorkload, joined

Ints = NDArray[np.int64]

#: Operations of all cells by which a window grows, and least number for each cell.
GROWTH, LEAST_GROWTH = 2**16, 32
#: Memory of an operation of a window while it is laid, and the most that the window of a program of
#: one chain grew beyond its first size; by measurement, as in docs/scaling.md.
OP_BYTES, _WINDOWS = 600, 1.5


class Window(NamedTuple):
    """Operations of a window, by cell, then program order; gates are behind those of their cell.

    int64 [ops]: cell; index in its program; row of the joined programs, the last one
    for gates; and the row whose waits the operation has.
    """

    cell: Ints
    place: Ints
    row: Ints
    waits: Ints

    def at(self, which: Any) -> Window:
        """Return some of the operations."""
        return Window(*(each[which] for each in self))


class Windows:
    """The windows of a run, one after the other; each level adds its own state.

    `first`: int64 [cells], a rank of each cell. `peer`: int64 [maps, cells], cell of the peers.
    `skipped`: how far the clock is behind.
    """

    skipped = 0

    def __init__(self, work: RolledWorkload, first: Ints, peer: Ints, tally: DroppedOperations):
        self.work, self.peer, self.tally = work, peer, tally
        self.program_of = work.program_of[first].astype(np.int64)
        gate = {
            name: np.zeros(1, dtype=column.dtype)
            for name, column in work.programs[0]._asdict().items()
        }
        gate["kind"][:] = Kind.KEY_REQUEST
        gate["peers"], gate["match"] = gate["peers"] - 1, gate["match"] - 1
        gate["dep"], gate["dep_on_start"] = gate["dep"][:0], gate["dep_on_start"][:0]
        gate["dep_offset"] = np.zeros(2, dtype=np.int64)
        self.table = joined([*work.programs, CommonProgram(**gate)])
        self.length = np.array([len(program.kind) for program in work.programs], dtype=np.int64)
        self.start = np.cumsum(self.length) - self.length
        self.latest = [_latest_wait(program) for program in work.programs]
        self.reach = [_reach(latest) for latest in self.latest]
        self.needs = self._needs()
        # First operation of the last part, and end, of each program's window.
        self.low, self.high = self.length * 0, self.length * 0
        self.growth = max(GROWTH // max(len(self.program_of), 1), LEAST_GROWTH)
        self.most_ops = 0
        for number in range(len(self.length)):
            self._grow(number, min(self.growth, int(self.length[number])))
        nothing = np.zeros(0, dtype=np.int64)
        self._lay_window(Window(*[nothing] * 4), np.zeros((2, 0)), self.high * 0)

    def most(self, ops: int) -> int:
        """Return how many of all operations are expected to exist at a time, at most."""
        if max(map(_lead, self.work.programs), default=0) > LEAST_GROWTH:
            return ops  # chains of different speeds
        return min(ops, int(_WINDOWS * len(self.window.cell)))

    def begun(self, ranks: Ranks) -> Ranks:
        """Return the state of the first window at time 0."""
        unit, processors = ranks.busy_until.dtype, int(self.table.cpu.max(initial=0)) + 1
        ranks = ranks._replace(
            busy_until=np.zeros((len(self.program_of), processors), dtype=unit),
            first_waiting=np.zeros((len(self.program_of), processors), dtype=np.int32),
            copied_until=np.zeros(self.peer.size, dtype=unit),
        )
        return self._gated(ranks)

    def _gated(self, ranks: Ranks) -> Ranks:
        """Return the state with gates, and with new operations without waits ready."""
        ready = np.flatnonzero(self.fresh & (ranks.pending == 0))
        ranks.ready[: len(ready)] = ready
        ranks.count.ready_tail = len(ready)
        ranks.sends[self.gates] = operations.REQUEST
        ranks.rules.scheduled = True
        self.most_ops = max(self.most_ops, self.piece.num_ops)
        return ranks._replace(copy_pair=self.spot.astype(np.int32))

    def renewed(
        self, ranks: Ranks, done: NDArray[np.bool_], asked: NDArray[np.int32],
        lay: Callable[[], Ranks],
    ) -> tuple[Ranks, NDArray[np.int32], Ints]:  # fmt: skip
        """Drop operations that are done, append others, and take the state over, but for events.

        `asked`: gates that have started. `lay` returns the programs of a new window at time 0.

        Returns the state; the new number of each operation, counted from 1, behind a 0 for none,
        and 0 for those that are no more; and the old numbers of those in `moved`.
        """
        window = self.window
        self.drop(ranks, done)
        keep = np.flatnonzero(~done & ~self.gates)
        begin = self.high.copy()
        for number in np.unique(self.program_of[window.cell[asked]]).tolist():
            self._grow(number, int(begin[number]))
        self._lay_window(window.at(keep), np.stack((ranks.posted, ranks.ended))[:, keep], begin)
        fresh = lay()
        number = np.zeros(len(done) + 1, dtype=np.int32)
        number[keep + 1] = self.moved + 1
        for name in ("posted", "ended", "left", "arrived", "sends"):
            getattr(fresh, name)[self.moved] = getattr(ranks, name)[keep]
        for name in ("left_below", "right_below"):
            getattr(fresh, name)[self.moved] = number[getattr(ranks, name)[keep]]
        fresh = fresh._replace(
            busy_until=ranks.busy_until, copied_until=ranks.copied_until,
            first_waiting=number[ranks.first_waiting],
        )  # fmt: skip
        return self._gated(fresh), number, keep

    def drop(self, ranks: Ranks, which: Any = True, tally: DroppedOperations | None = None) -> None:
        """Add operations to the statistics, or to others."""
        ops = np.flatnonzero(which & ~self.gates)
        times = np.stack((ranks.posted, ranks.ended, ranks.left, ranks.arrived))[:, ops]
        times = np.where(times < 0, times, times + self.skipped)
        some = self.window.at(ops)
        alone = self.alone_ns(ops[ranks.arrived[ops] >= 0])
        (tally or self.tally).add(self.table, some.row, some.cell, times, alone)

    def alone_ns(self, ops: Ints) -> NDArray[np.float64]:
        """Return the zero-load times of messages of the window."""
        raise NotImplementedError

    def named(self) -> tuple[Workload, Ints]:
        """Return the window as operations of a rank of each cell, and their places in programs.

        It has tags and communicators, for messages of errors.
        """
        work, row = self.work, self.window.row
        rank = np.unique(self.tally.of_rank, return_index=True)[1][self.window.cell]
        peers, tag, comm = (getattr(self.table, name)[row] for name in ("peers", "tag", "comm"))
        whole = replace(
            self.piece, op_offset=np.searchsorted(rank, np.arange(work.num_ranks + 1)),
            peer=np.where(peers < 0, peers, work.peers[peers, rank]), tag=tag, comm=comm,
            comm_names=work.comm_names,
        )  # fmt: skip
        return whole, self.window.place

    # -- the window --------------------------------------------------------------------------------

    def _needs(self) -> list[tuple[int, int, Ints]]:
        """Return (program, that of peers, how much of theirs each part of ours needs)."""
        found = []
        for number, program in enumerate(self.work.programs):
            rank = int(np.argmax(self.work.program_of == number))
            pairs = np.flatnonzero(program.match >= 0)
            of = self.work.program_of[self.work.peers[program.peers[pairs], rank]]
            for other in np.unique(of).tolist():
                need = np.zeros(len(program.kind) + 1, dtype=np.int64)
                need[pairs[of == other] + 1] = program.match[pairs[of == other]] + 1
                found.append((number, other, np.maximum.accumulate(need)))
        return found

    def _grow(self, number: int, low: int) -> None:
        """Let the last part of a window begin at `low`.

        The window has both ends of all messages, and all that may start in one instant with the
        last part, so that ranks of a host take turns as they do without windows.
        """
        self.low[number] = low
        end = max(self.high[number], self.part_end(number, low), self.reach[number][low])
        self.high[number] = min(end, self.length[number])
        before = self.high * 0
        while not np.array_equal(before, self.high):
            before = self.high.copy()
            for mine, other, need in self.needs:
                self.high[other] = max(self.high[other], need[self.high[mine]])

    def part_end(self, number: int, low: int) -> int:
        """Return where the last part of a window is to end that begins at `low`."""
        return low + self.growth

    def _lay_window(self, kept: Window, times: NDArray[np.float64], begin: Ints) -> None:
        """Lay the window of the kept operations and those from `begin` to `high` of each program.

        `times`: start and end of each kept operation, float64 [2, kept].
        """
        while True:
            count = (self.high - begin)[self.program_of]
            cell = np.repeat(np.arange(len(count)), count)
            place = np.arange(len(cell)) - np.repeat(np.cumsum(count) - count, count)
            place += begin[self.program_of[cell]]
            row = self.start[self.program_of[cell]] + place
            parts = np.stack(kept), np.stack((cell, place, row, row)), self._gates()
            joint = Window(*np.concatenate(parts, axis=1))
            need_memory(
                OP_BYTES * len(joint.cell),
                f"{len(joint.cell):,} operations of {len(self.program_of):,} ranks at a time",
                "use fewer ranks, or a placement in order that makes more of them alike",
            )
            order = np.argsort(joint.cell * (2 * self.length.max()) + joint.place, kind="stable")
            self.window = joint.at(order)
            more = np.full(len(order) - len(kept.cell), -1.0)
            self.posted, self.ended = (np.append(each, more)[order] for each in times)
            may_start = self._lower()
            number = self.program_of[self.window.cell[may_start]]
            place = self.window.waits[may_start] - self.start[number]
            for each in np.unique(number).tolist():
                self._grow(each, int(place[number == each].max()) + 1)
            if not len(number):
                break
        # New numbers of kept operations, and which operations are new.
        self.moved = np.argsort(order, kind="stable")[: len(kept.cell)]
        self.fresh = order >= len(kept.cell)

    def _number(self) -> tuple[Ints, NDArray[np.int32]]:
        """Return a table of numbers of operations, and where that of each cell's program begins."""
        window, first = self.window, self.length.copy()
        ops = np.flatnonzero(window.row == window.waits)
        np.minimum.at(first, self.program_of[window.cell[ops]], window.place[ops])
        width = (self.high - first + 1)[self.program_of]
        base = np.cumsum(width) - width - first[self.program_of] + 1
        table = np.full(int(width.sum()) + 1, -1, dtype=np.int32)
        table[base[window.cell[ops]] + window.place[ops]] = ops
        self.first = first
        return base, table

    def _find(self, base: Ints, table: NDArray[np.int32], cell: Ints, place: Ints) -> Ints:
        """Return the operation of a cell with an index in its program, -1 if it was dropped."""
        there = place >= self.first[self.program_of[cell]]
        return np.where(there, table[np.where(there, base[cell] + place, 0)], -1)

    def _gates(self) -> Ints:
        """Return gates of the first operations of the last part of each program's window."""
        parts = [np.zeros((4, 0), dtype=np.int64)]
        for number, latest in enumerate(self.latest):
            mine, low = np.flatnonzero(self.program_of == number), int(self.low[number])
            first = np.flatnonzero(latest[low:] < low) + low
            cell, gate = np.repeat(mine, len(first)), np.tile(np.arange(len(first)), len(mine))
            row = np.full(len(cell), len(self.table.kind) - 1)
            waits = self.start[number] + first[gate]
            parts.append(np.stack((cell, int(self.length.max()) + gate, row, waits)))
        return np.concatenate(parts, axis=1)

    def _lower(self) -> Ints:
        """Write the window as a workload, with the waits that are still open.

        Return the gates without any, of operations that may start now.
        """
        window, table = self.window, self.table
        by_place = self._number()
        waits = np.flatnonzero(self.posted < 0)
        begin = table.dep_offset[window.waits[waits]]
        length = table.dep_offset[window.waits[waits] + 1] - begin
        op = np.repeat(waits, length)
        at = np.arange(len(op)) + np.repeat(begin - np.cumsum(length) + length, length)
        on = self._find(*by_place, window.cell[op], table.dep[at])
        at_start = table.dep_on_start[at]
        open_ = (on >= 0) & (np.where(at_start, self.posted[on], self.ended[on]) < 0)
        counts = np.bincount(op[open_], minlength=len(window.cell))
        self.gates = window.row != window.waits
        peer, self.spot = self.peers_of(window.cell, window.row)
        match = np.full(len(peer), -1, dtype=np.int32)
        matched = np.flatnonzero(table.match[window.row] >= 0)
        match[matched] = self._find(
            *by_place, peer[matched], table.match[window.row[matched]].astype(np.int64)
        )
        on_start = at_start[open_] if table.dep_on_start.any() else at_start[:0]
        self.piece = self.workload(window.cell, window.row, match, counts, on[open_], on_start)
        may_start: Ints = np.flatnonzero(self.gates & (counts == 0))
        return may_start

    def peers_of(self, cell: Ints, row: Ints) -> tuple[Ints, Ints]:
        """Return the peers of operations, -1 for none, and the places of these in maps, or 0."""
        peers = self.table.peers[row]
        spot = np.where(peers < 0, 0, peers * len(self.program_of) + cell)
        return np.where(peers < 0, -1, self.peer.ravel()[spot]), spot

    def workload(
        self, cell: Ints, row: Ints, match: NDArray[Any], counts: Ints, dep: Ints, on_start: Any
    ) -> Workload:
        """Return operations, in the order of cells, as a workload without phases and tags.

        `counts`: number of waits of each operation.
        """
        table, count = self.table, len(self.program_of)
        none, zeros = np.zeros(0), np.broadcast_to(np.int32(0), len(row))
        return Workload(
            name=self.work.name, kind=table.kind[row].astype(np.uint8),
            peer=self.peers_of(cell, row)[0].astype(np.int32), size_bytes=table.size_bytes[row],
            op_offset=np.searchsorted(cell, np.arange(count + 1)), tag=zeros, comm=zeros,
            duration_ns=table.duration_ns[row], phase=zeros, phase_names=("",),
            dep_offset=np.append(0, np.cumsum(counts)), dep=dep.astype(np.int32),
            dep_on_start=on_start, match=match.astype(np.int32), release_ns=none,
            cpu=table.cpu[row] if table.cpu.any() else none.astype(np.uint8),
        )  # fmt: skip


def carry_events(
    old: Heap, new: Heap, number: NDArray[np.int32], more_times: Any = (), more_items: Any = ()
) -> None:
    """Fill a heap with the events of another one and more, by the new `number`s of operations."""
    events = slice(old.size.events)
    time, item = (
        np.concatenate((kept[events], more), dtype=kept.dtype, casting="unsafe")
        for kept, more in ((old.time, more_times), (old.item, more_items))
    )
    op = item & OPERATION
    kind = item ^ op
    op[kind != FREE_NOW] = number[op[kind != FREE_NOW] + 1] - 1
    order = np.lexsort((kind | op, time))
    new.size.events = len(item)
    new.time[: len(item)], new.item[: len(item)] = time[order], (kind | op)[order]


def _latest_wait(program: CommonProgram) -> Ints:
    """Return the latest operation that each operation waits for, -1 for none."""
    latest = np.full(len(program.kind), -1, dtype=np.int64)
    waits = np.repeat(np.arange(len(program.kind)), np.diff(program.dep_offset))
    np.maximum.at(latest, waits, program.dep)
    return latest


def _reach(latest: Ints) -> Ints:
    """Return for each place the end of the operations that wait only for others before it."""
    end = np.zeros(len(latest) + 1, dtype=np.int64)
    np.maximum.at(end, latest + 1, np.arange(1, len(latest) + 1))
    return np.maximum.accumulate(end)


def _lead(program: CommonProgram) -> int:
    """Return how far apart operations may be that have equal numbers of others before them."""
    depth = depths(program.dep_offset, program.dep)
    first, last = np.full((2, int(depth.max(initial=0)) + 1), [[len(depth)], [-1]])
    np.minimum.at(first, depth, np.arange(len(depth)))
    np.maximum.at(last, depth, np.arange(len(depth)))
    ahead = np.maximum.accumulate(last) - np.minimum.accumulate(first[::-1])[::-1]
    return int(ahead.max())
