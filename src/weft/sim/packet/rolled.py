"""The windows of a rolled workload at the packet level.

A window is in the order of the whole program, so that what coincides is handled in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
from weft.sim.common.programs import lay_ranks
from weft.sim.common.rolled_result import DroppedOperations
from weft.sim.common.times import PS_PER_NS
from weft.sim.common.windows import Windows, carry_events
from weft.sim.packet.connections import Connections
from weft.sim.packet.partition import Partition, split_programs
from weft.workload import Kind
from weft.workload.rolled import RolledWorkload, refined

Ints = NDArray[np.int64]


class PacketWindows(Windows):
    """The windows of a run.

    `brief`: a workload with one operation of each rank for all that are alike but for their tags
    and waits; `times`: int64 [messages], how many there are; `place`:
    int64 [ops], their places in programs. Before the run, these are to be set:
    its `options`; `lines`, the connections of `brief`; and `alone`, float64 [ops], the zero-load
    times of its messages.
    """

    per_ns = PS_PER_NS
    options: Mapping[str, Any]
    lines: Connections
    alone: NDArray[np.float64]

    def __init__(self, work: RolledWorkload):
        ranks = np.arange(work.num_ranks)
        tally = DroppedOperations(work, ranks, np.ones_like(ranks))
        super().__init__(work, ranks, work.peers.astype(np.int64), tally)
        table, of_row = self.table, np.repeat(np.arange(len(self.length)), self.length)
        rows, first = slice(len(of_row)), np.unique(self.program_of, return_index=True)[1]
        match = table.match[rows].astype(np.int64)
        match += self.start[self.program_of[work.peers[table.peers[rows], first[of_row]]]]
        label = of_row
        for column in (table.kind, table.peers, table.size_bytes, table.duration_ns):
            label = refined(label, column[rows])
        _, index, inverse = np.unique(label, return_index=True, return_inverse=True)
        like = index[inverse]
        receives = np.flatnonzero(table.kind[rows] == Kind.RECV)
        like[receives] = match[like[match[receives]]]
        chosen, place, count = np.unique(like, return_inverse=True, return_counts=True)
        each = np.bincount(of_row[chosen], minlength=len(self.length))
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

    def go_on(
        self, nets: list[Net], programs: list[Ranks], cut: Partition
    ) -> tuple[list[Net], list[Ranks]]:
        """Drop what nothing refers to, append operations, and return the state of all parts."""
        ranks, piece, old = programs[0], self.piece, nets[0].adapters
        part = cut.rank[self.window.cell]
        now = np.array([int(net.count["now_ps"]) for net in nets])[part]
        # Ends that were recorded in advance, as nothing in the window waited for them.
        early = np.flatnonzero(ranks.ended > now)
        ends, of_early = ranks.ended[early], part[early]
        ranks.ended[early] = -1
        done = ranks.ended >= 0
        done[piece.messages] &= ranks.arrived[piece.messages] >= 0
        for each in (net.calendar for net in nets if net.rules["has_control"]):
            # Notifications of congestion outlive their messages.
            used = np.delete(each.packets, each.free[: each.state["free"]])
            for packets in (used, nets[0].mail.letters):
                done[packets["op"][packets["lane"] != DELAY_ENDS]] = False
        done &= (piece.match < 0) | done[piece.match]
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
        laid = split_programs(fresh, cut, self.piece.rank)
        for at, (new, before) in enumerate(zip(laid, programs, strict=True)):
            mine = of_early == at
            carry_events(before.heap, new.heap, number, ends[mine], END | early[mine])
            new.count.ended = before.count.ended - np.count_nonzero(mine)
            new.count.arrived = before.count.arrived
        return [net._replace(adapters=adapters) for net in nets], laid
