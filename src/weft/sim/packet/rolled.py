"""The windows of a rolled workload at the packet level.

A window is in the order of the whole program, so that what coincides is handled in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.kernels.packet import records
from weft.kernels.packet.congestion_control import DELAY_ENDS
from weft.kernels.packet.net import Net
from weft.kernels.program.events import END
from weft.kernels.program.operations import LOCAL
from weft.kernels.program.state import Ranks
from weft.kernels.records import aligned
from weft.sim.common.programs import lay_ranks, split_programs
from weft.sim.common.rolled_result import DroppedOperations
from weft.sim.common.times import PS_PER_NS
from weft.sim.common.windows import Windows, carry_events
from weft.sim.packet.connections import Connections
from weft.sim.packet.partition import Partition
from weft.workload import Kind
from weft.workload.rolled import RolledWorkload, refined

Ints = NDArray[np.int64]

#: Binary logarithm of the rows of a context, and rows that are compared at once, at first.
_CONTEXT, _ROWS = 6, 4096


class PacketWindows(Windows):
    """The windows of a run.

    `brief`: a workload with one operation of each rank for all that are alike but for their tags
    and waits; `times`: int64 [messages], how many there are; `place`:
    int64 [ops], their places in programs. Before the run, these are to be set:
    its `options`; `lines`, the connections of `brief`; and `alone`, float64 [ops], the zero-load
    times of its messages.
    """

    options: Mapping[str, Any]
    lines: Connections
    alone: NDArray[np.float64]

    def __init__(self, work: RolledWorkload):
        ranks = np.arange(work.num_ranks)
        tally = DroppedOperations(work, ranks, np.ones_like(ranks), PS_PER_NS)
        super().__init__(work, ranks, work.peers.astype(np.int64), tally)
        table, label = self.table, self._label
        rows, first = slice(len(label)), np.unique(self.program_of, return_index=True)[1]
        other = work.peers[table.peers[rows], first[self._of_row]]
        self._peer_program = self.program_of[other]
        match = table.match[rows] + self.start[self._peer_program]
        _, index, inverse = np.unique(label, return_index=True, return_inverse=True)
        like = index[inverse]
        receives = np.flatnonzero(table.kind[rows] == Kind.RECV)
        like[receives] = match[like[match[receives]]]
        chosen, place, count = np.unique(like, return_inverse=True, return_counts=True)
        each = np.bincount(self._of_row[chosen], minlength=len(self.length))
        ops = each[self.program_of]
        begin = (np.cumsum(each) - each)[self.program_of]
        self._offset, self._place = np.cumsum(ops) - ops - begin, place
        rank = np.repeat(ranks, ops)
        at = np.arange(len(rank)) - self._offset[rank]
        row = chosen[at]
        peer, _ = self.peers_of(rank, row)
        to = np.where(table.match[row] < 0, -1, self._offset[peer] + place[match[row]])
        none = np.zeros(0, dtype=np.int64)
        self.brief = self.workload(rank, row, to, np.zeros_like(rank), none, table.dep_on_start[:0])
        self.times = count[at[self.brief.messages]]
        self.place = row - self.start[self.program_of[rank]]

    def connections(self) -> Connections:
        """Return the connections of the operations of the window."""
        every, ops = self.lines, self._brief_of(self.window.cell, self.window.waits)
        connection = every.connection[ops]
        return replace(
            every, route=np.where(self.gates, np.int32(LOCAL), every.route[ops]),
            connection=connection,
            pair=connection if every.pair is every.connection else every.pair[ops],
        )  # fmt: skip

    def _brief_of(self, rank: Ints, row: Ints) -> Ints:
        """Return the operation of `brief` that operations are like."""
        return self._offset[rank] + self._place[row]

    def alone_ns(self, ops: Ints) -> NDArray[np.float64]:
        """Return the zero-load times of messages of the window."""
        some = self.window.at(ops)
        return self.alone[self._brief_of(some.cell, some.row)]

    @cached_property
    def _of_row(self) -> Ints:
        """Return the program of each row."""
        return np.repeat(np.arange(len(self.length)), self.length)

    @cached_property
    def _label(self) -> Ints:
        """Return labels of rows, equal for those of a program that differ in tags and waits."""
        label, table = self._of_row, self.table
        for column in (table.kind, table.peers, table.size_bytes, table.duration_ns):
            label = refined(label, column[: len(label)])
        return label

    @cached_property
    def _context(self) -> Ints:
        """Return labels of rows, equal if those that follow are alike as well."""
        label = self._label
        for ahead in 2 ** np.arange(_CONTEXT):
            label = refined(label, np.append(label[ahead:], np.full(ahead, -1))[: len(label)])
        return label

    @cached_property
    def _is_repeated(self) -> NDArray[np.bool_]:
        """Return which rows have a context that occurs again."""
        return np.asarray(np.bincount(self._context)[self._context] > 1)

    def in_loop(self) -> bool:
        """Return whether the last parts of all programs that are not over may come again."""
        rows = (self.start + self.low)[self.low < self.length]
        return bool(self._is_repeated[rows].all())

    def part_end(self, number: int, low: int) -> int:
        """Return a place that depends on the rows near it, so that it is equal in equal rounds.

        In a loop it is a power of 2 rounds away: states often come again after as many.
        """
        near = self._context[self.start[number] + low : self.start[number] + self.length[number]]
        near = near[: 2 * self.growth]
        if len(near) < 2 * self.growth:
            return int(self.length[number])
        again = int(np.argmax(near[1:] == near[0])) + 1
        if near[again] == near[0]:
            return int(low + again * 2 ** int(np.log2(max(self.growth / again, 1))))
        return low + self.growth // 2 + int(np.argmin(near[self.growth // 2 :][: self.growth]))

    # -- rounds that are recalled ------------------------------------------------------------------

    def repeats(self, low: Ints, before: DroppedOperations, tally: DroppedOperations) -> int:
        """Return how often all that was done since an earlier state will be done once more.

        The last parts of the windows began at `low` then, with `before` as statistics, which are
        `tally` now; else the state was that of the present.
        """
        period, later = self.low - low, tally.until_ns > before.until_ns
        moving = np.flatnonzero(period > 0)
        if (
            not len(moving)
            or not (tally.end_ns > before.end_ns)[np.isin(self.program_of, moving)].all()
        ):
            return 0
        times = np.iinfo(np.int64).max
        for number in moving.tolist():
            rows = slice(*(self.start[number] + (low[number], self.low[number])))
            if not later[self.table.phase[rows]].all():
                return 0  # the last end of the phase may be of an operation before
            end = self._alike_until(number, int(self.first[number]), period)
            times = min(times, (end - int(self.high[number])) // int(period[number]))
            if times < 1:
                return 0
        for number in moving.tolist():
            ahead = np.arange(times + 1) * period[number]
            fits = self.reach[number][self.low[number] + ahead] <= self.high[number] + ahead
            times = min(times, int(np.flatnonzero(fits)[-1]))
        return times

    def _alike_until(self, number: int, begin: int, period: Ints) -> int:
        """Return the end of the rows of a program from `begin` on that are as a period before."""
        table, shift, size, at = self.table, int(period[number]), _ROWS, begin
        while at < self.length[number]:
            now = np.arange(at, min(at + size, self.length[number])) + self.start[number]
            then = now - shift
            equal = self._place[now] == self._place[then]
            for column in (table.phase, table.cpu):
                equal &= column[now] == column[then]
            waits, before = (
                table.dep_offset[rows + 1] - table.dep_offset[rows] for rows in (now, then)
            )
            equal &= waits == before
            apart = table.match[now] - table.match[then]
            equal &= (table.match[now] < 0) | (apart == period[self._peer_program[now]])
            count = len(equal) if equal.all() else int(np.argmin(equal))
            waits, before = (
                slice(table.dep_offset[rows[0]], table.dep_offset[rows[0] + count])
                for rows in (now, then)
            )
            same = table.dep[waits] - shift == table.dep[before]
            same &= table.dep_on_start[waits] == table.dep_on_start[before]
            if not same.all():
                place = waits.start + int(np.argmin(same))
                count = int(np.searchsorted(table.dep_offset, place, "right")) - 1 - int(now[0])
            at += count
            if count < len(now):
                break
            size *= 2
        return at

    def skip(self, low: Ints, times: int, lasts: int) -> None:
        """Leave out what `repeats` found; each time `lasts` so many ps."""
        ahead = (self.low - low) * times
        rows = ahead[self.program_of[self.window.cell]]
        self.window = self.window._replace(
            place=self.window.place + rows, waits=self.window.waits + rows,
            row=self.window.row + np.where(self.gates, 0, rows),
        )  # fmt: skip
        self.low += ahead
        self.high += ahead
        self.skipped += times * lasts

    def done(self, ranks: Ranks, ended: Ints, used: Iterable[Any] = ()) -> NDArray[np.bool_]:
        """Return which operations are done, with their messages, except those that are `used`.

        `ended`: when operations ended, -1 for others.
        """
        messages, match = self.piece.messages, self.piece.match
        done = ended >= 0
        done[messages] &= ranks.arrived[messages] >= 0
        for ops in used:
            done[ops] = False
        return done & ((match < 0) | done[match])

    def go_on(
        self, nets: list[Net], programs: list[Ranks], cut: Partition
    ) -> tuple[list[Net], list[Ranks]]:
        """Drop what nothing refers to, append operations, and return the state of all parts."""
        ranks, old = programs[0], nets[0].adapters
        part = cut.rank[self.window.cell]
        now = np.array([int(net.count["now_ps"]) for net in nets])[part]
        # Ends that were recorded in advance, as nothing in the window waited for them.
        early = np.flatnonzero(ranks.ended > now)
        ends, of_early = ranks.ended[early], part[early]
        ranks.ended[early] = -1
        noticed = []
        for each in (net.calendar for net in nets if net.rules["has_control"]):
            # Notifications of congestion outlive their messages.
            used = np.delete(each.packets, each.free[: each.state["free"]])
            for packets in (used, nets[0].mail.letters):
                noticed.append(packets["op"][packets["lane"] != DELAY_ENDS])
        done = self.done(ranks, ranks.ended, noticed)
        asked = np.concatenate([each.asked[: each.count.asked] for each in programs])
        fresh, number, keep = self.renewed(
            ranks, done, asked,
            lambda: lay_ranks(self.piece, self.connections().route, self.options),
        )  # fmt: skip
        of_ops = self.connections()
        messages = aligned(self.piece.num_ops, records.MESSAGE)
        messages[self.moved] = old.messages[keep]
        for numbers in (messages["next_sent"], old.pairs["first"], old.pairs["last"]):
            numbers[:] = number[numbers + 1] - 1
        for packets in (nets[0].mail.letters, *(net.calendar.packets for net in nets)):
            of_message = packets["lane"] != DELAY_ENDS
            packets["op"][of_message] = number[packets["op"][of_message] + 1] - 1
        adapters = old._replace(
            messages=messages, sends=fresh.sends, route=of_ops.route,
            connection=of_ops.connection, pair=of_ops.pair,
        )  # fmt: skip
        laid = split_programs(fresh, cut.parts, cut.rank, self.piece.rank)
        for at, (new, before) in enumerate(zip(laid, programs, strict=True)):
            mine = of_early == at
            carry_events(before.heap, new.heap, number, ends[mine], END | early[mine])
            new.count.ended = before.count.ended - np.count_nonzero(mine)
            new.count.arrived = before.count.arrived
        return [net._replace(adapters=adapters) for net in nets], laid
