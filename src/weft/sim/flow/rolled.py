"""Flow level: run a rolled workload, of which only the operations near those under way exist.

The event loop is that of any workload. It runs on a *window* of the program: operations that have
started or may start soon, in the order of the whole program. Gates, which are operations that only
tell the loop to return, start with the first operation of the window's last part. Then operations
that nothing refers to any more are dropped, further ones are appended, and the run goes on at the
same instant from the same state, so that all times are those of the unrolled workload.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.flow import engine as kernel
from weft.kernels.program import operations
from weft.kernels.program.events import FREE_NOW, KIND_SHIFT, OPERATION
from weft.kernels.program.state import Ranks
from weft.routing.routes import Routes
from weft.sim.common.programs import numbered, queues_of
from weft.sim.common.progress import IncompleteRun, Progress
from weft.sim.flow.cells import Cells, cells_of
from weft.sim.flow.engine import LAYING, FlowState, rank_state
from weft.sim.flow.network import Network, lay_routes
from weft.sim.flow.rolled_result import RolledResult, Tally
from weft.workload import Kind, Workload
from weft.workload.rolled import Program, RolledWorkload, joined

Ints = NDArray[np.int64]

#: Operations of all cells by which a window grows, and least number for each cell.
_GROWTH, _LEAST_GROWTH = 2**18, 64


def run_rolled(
    fabric: Fabric,
    routes: Routes,
    work: RolledWorkload,
    hosts: NDArray[np.int32],
    options: Mapping[str, Any],
    progress: Callable[[Progress], None] | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
) -> RolledResult:
    """Run a rolled workload at the flow level, for `weft.simulate`; see `run_flows`.

    `watch`: called with the times of operations before they are dropped: arrays `cell`, `index`
    (in the program of the role), `posted`, `ended`, `left` and `arrived`.
    """
    if options["sharing"] == "penalty":
        raise NotApplicable("the sharing model penalty has no rolled workloads; unroll it")
    if routes.num_intermediates or (options["multipath"] == "hash" and not routes.settled):
        raise NotApplicable("rolled workloads need one route for all messages of a pair of hosts")
    began = time.perf_counter()
    network, route = _lay(fabric, routes, work, hosts, options)
    cells = cells_of(work, network, route)
    tally = Tally.of(work, cells, options, watch)
    run = _Run(work, cells, options, tally)
    run.go(progress)
    return RolledResult(
        fabric=fabric, engine=routes.engine, workload=work, host=hosts, network=network,
        route=route, options=options, cells=cells, tally=tally, most_ops=run.most_ops,
        shared=run.state.sharing[0] is not None, run_s=time.perf_counter() - began,
    )  # fmt: skip


def _lay(
    fabric: Fabric,
    routes: Routes,
    work: RolledWorkload,
    hosts: NDArray[np.int32],
    options: Mapping[str, Any],
) -> tuple[Network, NDArray[np.int32]]:
    """Return the routes of messages and answers, and the route of each map and rank."""
    used = np.zeros((len(work.programs), len(work.peers)), dtype=np.bool_)
    for number, program in enumerate(work.programs):
        used[number, program.peers[program.sends]] = True
        if options["handshake"]:
            large = program.kind == Kind.SEND
            large &= program.size_bytes > options["eager_bytes"]
            rank = int(np.argmax(work.role == number))
            to = work.peers[program.peers[large], rank]
            for other in np.unique(work.role[to]).tolist():
                answers = program.match[large][work.role[to] == other]
                used[other, work.programs[other].peers[answers]] = True
    route = np.full(work.peers.shape, operations.LOCAL, dtype=np.int32)
    places = np.nonzero(used[work.role].T & (work.peers >= 0))
    source, target = hosts[places[1]], hosts[work.peers[places]]
    apart = fabric.apart(source, target)
    source, target = source[apart], target[apart]
    key, number = numbered(source.astype(np.int64) * fabric.num_hosts + target, fabric.num_hosts**2)
    laying = {name: options[name] for name in LAYING}
    network = lay_routes(fabric, routes, *np.divmod(key, fabric.num_hosts), **laying)
    route[places[0][apart], places[1][apart]] = number
    return network, route


class _Window(NamedTuple):
    """Operations of a window by cell, then program order; gates follow those of their cell."""

    #: int64 [ops]: cell; index in the program of its role; row of the joined programs, the last
    #: one for gates; and row of which a gate has the waits.
    cell: Ints
    index: Ints
    row: Ints
    waits: Ints

    @property
    def gates(self) -> NDArray[np.bool_]:
        """Which operations are gates."""
        return self.row != self.waits


class _Run:
    """A run in progress."""

    def __init__(
        self, work: RolledWorkload, cells: Cells, options: Mapping[str, Any], tally: Tally
    ):
        self.work, self.cells, self.options, self.tally = work, cells, options, tally
        self.role = work.role[cells.first].astype(np.int64)
        gate = Program(
            *(np.zeros(1 + (name == "dep_offset"), dtype=np.int64) for name in Program._fields)
        )._replace(
            kind=np.array([Kind.KEY_REQUEST], dtype=np.uint8), dep=np.zeros(0, dtype=np.int32),
            dep_on_start=np.zeros(0, dtype=np.bool_), peers=np.array([-1]), match=np.array([-1]),
        )  # fmt: skip
        self.table = joined([*work.programs, gate])
        lengths = [len(program.kind) for program in work.programs]
        self.length = np.array(lengths, dtype=np.int64)
        self.start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        self.span = int(self.length.max(initial=0)) + 1
        self.needs = self._needs()
        self.latest = [_latest_wait(program) for program in work.programs]
        self.low = np.zeros(len(lengths), dtype=np.int64)
        self.high = np.zeros(len(lengths), dtype=np.int64)
        self.growth = max(_GROWTH // max(len(self.role), 1), _LEAST_GROWTH)
        away = cells.route >= 0
        self.pair_of = np.where(away, np.cumsum(away.ravel()).reshape(away.shape) - 1, 0)
        self.most_ops = 0
        none = np.zeros(0, dtype=np.int64)
        self.window = _Window(none, none, none, none)
        self.state = self._begin()

    def go(self, progress: Callable[[Progress], None] | None) -> None:
        """Run to the end."""
        limit = self.options["max_time_ns"]
        while True:
            why = self.state.run(self.piece, self._report(progress))
            if why == kernel.ASKED:
                self._go_on()
                continue
            now = f"{self.state.level.count.now_ns:g} ns"
            if why == kernel.TIME_OUT and limit is not None:
                raise IncompleteRun(f"stopped at {now} of simulated time; there is no result")
            if why != kernel.DONE:
                raise InputError(f"{self.work.name or 'the workload'} deadlocks after {now}")
            self._drop(np.ones(len(self.window.cell), dtype=np.bool_))
            return

    def _report(
        self, progress: Callable[[Progress], None] | None
    ) -> Callable[[Progress], None] | None:
        if progress is None:
            return None
        before, ended = self.tally.num_messages, self.tally.num_ops

        def report(now: Progress) -> None:
            arrived = min(before, self.work.num_messages)
            progress(
                Progress(ended, self.work.num_ops, arrived, self.work.num_messages, now.now_ns)
            )

        return report

    # -- the window --------------------------------------------------------------------------------

    def _needs(self) -> list[tuple[int, int, Ints]]:
        """Return (role, role of a peer, how much of its program belongs to each part of ours)."""
        found = []
        roles = self.work.role
        for number, program in enumerate(self.work.programs):
            rank = int(np.argmax(roles == number))
            pairs = np.flatnonzero(program.match >= 0)
            of = roles[self.work.peers[program.peers[pairs], rank]]
            for other in np.unique(of).tolist():
                need = np.zeros(len(program.kind) + 1, dtype=np.int64)
                mine = pairs[of == other]
                need[mine + 1] = program.match[mine] + 1
                found.append((number, other, np.maximum.accumulate(need)))
        return found

    def _grow(self, role: int, low: int) -> None:
        """Let the last part of a role's window begin at `low`, with the peers of all messages."""
        self.low[role] = low
        self.high[role] = min(max(self.high[role], low + self.growth), self.length[role])
        while True:
            before = self.high.copy()
            for mine, other, need in self.needs:
                self.high[other] = max(self.high[other], need[self.high[mine]])
            if np.array_equal(before, self.high):
                return

    def _begin(self) -> FlowState:
        for role in range(len(self.length)):
            self._grow(role, min(self.growth, int(self.length[role])))
        self._lay_until(self.window, np.zeros((2, 0)), self.high * 0)
        network, options = self.cells.network, self.options
        pairs, meets = int(np.count_nonzero(self.cells.route >= 0)), self._meets()
        queues = 1 + max(queues_of(options["rendezvous"]).values()) if meets else 1
        state = FlowState.of(self.piece, network, self.route, self.pair, pairs, queues, options)
        if self._alone():
            state = replace(state, sharing=(None, None))
        processors = len(self.role), int(self.table.cpu.max(initial=0)) + 1
        ranks = state.ranks._replace(
            busy_until=np.zeros(processors),
            first_waiting=np.zeros(processors, dtype=np.int32),
            copied_until=np.zeros(self.cells.peer.size),
        )
        return replace(state, ranks=self._gated(ranks))

    def _gated(self, ranks: Ranks) -> Ranks:
        """Return the state with gates, of which only new operations are ready."""
        ready = np.flatnonzero(self.fresh & (ranks.pending == 0))
        ranks.ready[: len(ready)] = ready
        ranks.count.ready_tail = len(ready)
        ranks.sends[self.window.gates] = operations.REQUEST
        ranks.rules.scheduled = True
        self.most_ops = max(self.most_ops, self.piece.num_ops)
        return ranks._replace(copy_pair=self.copy_pair)

    def _meets(self) -> bool:
        """Return whether some messages between machines have a request and an answer."""
        some = self.table.size_bytes > self.options["eager_bytes"]
        large = np.flatnonzero(some & (self.table.kind == Kind.SEND))
        routes = self.cells.route[self.table.peers[large]]
        return bool(self.options["handshake"] and np.any(routes >= 0))

    def _alone(self) -> bool:
        """Return whether no two messages are ever on one link, as they are of one queue."""
        network = self.cells.network
        moves = np.zeros(network.num_routes, dtype=np.bool_)
        for role, program in enumerate(self.work.programs):
            sends = program.sends
            large = (program.kind == Kind.SEND) & (
                program.size_bytes > self.options["eager_bytes"]
            )
            by_queue = [program.peers[sends[large[sends] == each]] for each in (True, False)]
            if self.options["handshake"] and len(np.intersect1d(*by_queue)):
                return False
            some = self.cells.route[np.unique(program.peers[sends])][:, self.role == role]
            moves[some[some >= 0]] = True
        entries = np.repeat(moves, np.diff(network.route_offset))
        return bool(np.bincount(network.route_link[entries], minlength=1).max() <= 1)

    def _go_on(self) -> None:
        """Drop what nothing refers to, and append further operations."""
        window, ranks, level = self.window, self.state.ranks, self.state.level
        flows, count = level.flows, level.count
        done = ranks.ended >= 0
        done[self.piece.messages] &= ranks.arrived[self.piece.messages] >= 0
        done[flows.op[flows.leaving[: count.leaving]]] = False
        match = self.piece.match
        done &= (match < 0) | done[match]
        self._drop(done)
        keep = np.flatnonzero(~(done | window.gates))
        asked = window.cell[ranks.asked[: ranks.count.asked]]
        begin = self.high.copy()
        for role in np.unique(self.role[asked]).tolist():
            self._grow(role, int(begin[role]))
        kept = _Window(*(each[keep] for each in window))
        times = np.stack((ranks.posted[keep], ranks.ended[keep]))
        self._lay_until(kept, times, begin)
        fresh = rank_state(self.piece, self.route, self.options)
        number = np.zeros(len(window.cell) + 1, dtype=np.int32)  # counted from 1, as links are
        number[keep + 1] = self.moved + 1
        for name in ("posted", "ended", "left", "arrived", "sends"):
            getattr(fresh, name)[self.moved] = getattr(ranks, name)[keep]
        for name in ("left_below", "right_below"):
            getattr(fresh, name)[self.moved] = number[getattr(ranks, name)[keep]]
        events = ranks.heap.size.events
        item = ranks.heap.item[:events]
        kind, op = item >> KIND_SHIFT, item & OPERATION
        of_op = kind != FREE_NOW
        op[of_op] = number[op[of_op] + 1] - 1
        fresh.heap.time[:events], fresh.heap.item[:events] = (
            ranks.heap.time[:events], kind << KIND_SHIFT | op
        )  # fmt: skip
        fresh.heap.size.events = events
        fresh.count.ended = np.count_nonzero(fresh.ended >= 0)
        fresh.count.arrived = ranks.count.arrived
        fresh = fresh._replace(
            busy_until=ranks.busy_until, copied_until=ranks.copied_until,
            first_waiting=number[ranks.first_waiting],
        )  # fmt: skip
        flows.op[:] = np.maximum(number[np.minimum(flows.op, len(window.cell) - 1) + 1] - 1, 0)
        level.pairs.last[:] = number[level.pairs.last]
        level = level._replace(pairs=level.pairs._replace(pair_of=self.pair))
        self.state = replace(self.state, ranks=self._gated(fresh), level=level)

    def _drop(self, which: NDArray[np.bool_]) -> None:
        """Add operations to the statistics."""
        ops = np.flatnonzero(which & ~self.window.gates)
        ranks, window = self.state.ranks, self.window
        times = (each[ops] for each in (ranks.posted, ranks.ended, ranks.left, ranks.arrived))
        self.tally.add(window.cell[ops], window.index[ops], window.row[ops], self.route[ops], *times)

    def _lay_until(self, kept: _Window, times: NDArray[np.float64], begin: Ints) -> None:
        """Call `_lay`, and again with later last parts until no operation of these may start."""
        while True:
            try:
                self._lay(kept, times, begin)
                return
            except _TooSoon as soon:
                self._grow(soon.role, soon.index + 1)

    def _lay(self, kept: _Window, times: NDArray[np.float64], begin: Ints) -> None:
        """Lay the window of the kept operations and those from `begin` to `high` of each role.

        `times`: start and end of each kept operation, float64 [2, kept].
        """
        cells = np.arange(len(self.role))
        count = (self.high - begin)[self.role]
        cell = np.repeat(cells, count)
        index = np.arange(len(cell)) - np.repeat(np.cumsum(count) - count, count)
        index += begin[self.role[cell]]
        row = self.start[self.role[cell]] + index
        fresh = _Window(cell, index, row, row)
        posted, ended = (np.concatenate((each, np.full(len(cell), -1.0))) for each in times)
        joint = _Window(*(np.concatenate(both) for both in zip(kept, fresh, strict=True)))
        gates = self._gates(joint, posted, ended)
        joint = _Window(*(np.concatenate(both) for both in zip(joint, gates, strict=True)))
        posted, ended = (
            np.concatenate((each, np.full(len(gates.cell), -1.0))) for each in (posted, ended)
        )
        order = np.argsort(joint.cell * (2 * self.span) + joint.index, kind="stable")
        self.window = _Window(*(each[order] for each in joint))
        self.posted, self.ended = posted[order], ended[order]
        # Place of each kept operation in the new window.
        self.moved = np.argsort(order)[: len(kept.cell)]
        self.fresh = order >= len(kept.cell)
        self._lower()

    def _lower(self) -> None:
        """Write the window as a workload, with the waits that are still open."""
        window, table, cells = self.window, self.table, len(self.role)
        key = window.cell * (2 * self.span) + window.index
        waits = np.flatnonzero(self.posted < 0)
        length = np.diff(table.dep_offset)[window.waits[waits]]
        first = table.dep_offset[window.waits[waits]]
        ends = np.cumsum(length)
        at = np.repeat(first - ends + length, length) + np.arange(ends[-1] if len(ends) else 0)
        op = np.repeat(waits, length)
        wanted = window.cell[op] * (2 * self.span) + table.dep[at]
        on = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
        starts = len(table.dep_on_start) > 0
        if starts:
            on_start = table.dep_on_start[at]
            open_ = np.where(on_start, self.posted[on], self.ended[on]) < 0
        else:
            open_ = self.ended[on] < 0
        open_ &= key[on] == wanted
        dep_offset = np.concatenate(
            ([0], np.cumsum(np.bincount(op[open_], minlength=len(key))))
        ).astype(np.int64)
        peers, row = table.peers[window.row], window.row
        has_peer = peers >= 0
        self.copy_pair = np.where(has_peer, peers * cells + window.cell, 0).astype(np.int32)
        self.pair = self.pair_of.ravel()[self.copy_pair].astype(np.int32)
        self.route = np.full(len(key), operations.LOCAL, dtype=np.int32)
        self.route[has_peer] = self.cells.route[peers[has_peer], window.cell[has_peer]]
        peer = np.full(len(key), -1, dtype=np.int32)
        peer[has_peer] = self.cells.peer[peers[has_peer], window.cell[has_peer]]
        match = np.full(len(key), -1, dtype=np.int32)
        matched = table.match[row] >= 0
        wanted = peer[matched].astype(np.int64) * (2 * self.span) + table.match[row[matched]]
        match[matched] = np.searchsorted(key, wanted)
        none = np.zeros(0)
        self.piece = Workload(
            name=self.work.name, kind=table.kind[row].astype(np.uint8), peer=peer,
            op_offset=np.searchsorted(window.cell, np.arange(cells + 1)),
            size_bytes=table.size_bytes[row], tag=peer, comm=peer,
            duration_ns=table.duration_ns[row], phase=table.phase[row],
            phase_names=self.work.phase_names, dep_offset=dep_offset,
            dep=on[open_].astype(np.int32),
            dep_on_start=on_start[open_] if starts else np.zeros(0, dtype=np.bool_),
            match=match, release_ns=none,
            cpu=table.cpu[row].astype(np.uint8) if table.cpu.any() else none.astype(np.uint8),
        )  # fmt: skip

    def _gates(
        self, joint: _Window, posted: NDArray[np.float64], ended: NDArray[np.float64]
    ) -> _Window:
        """Return gates of the first operations of the last part of each role's window.

        The last part begins later if some cell may start one of them now.
        """
        order = np.argsort(joint.cell * self.span + joint.index)
        key = (joint.cell * self.span + joint.index)[order]
        posted, ended = posted[order], ended[order]
        cells, indices, waits = [], [], []
        for role in range(len(self.length)):
            mine = np.flatnonzero(self.role == role)
            first = np.flatnonzero(self.latest[role][self.low[role] :] < self.low[role])
            for number, index in enumerate((first + self.low[role]).tolist()):
                row = int(self.start[role]) + index
                at = np.arange(self.table.dep_offset[row], self.table.dep_offset[row + 1])
                open_ = np.zeros(len(mine), dtype=np.bool_)
                for one in at.tolist():
                    wanted = mine * self.span + int(self.table.dep[one])
                    found = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
                    there = key[found] == wanted
                    done = posted if self._on_start(one) else ended
                    open_ |= there & (done[found] < 0)
                cells.append(mine[open_])
                indices.append(np.full(int(open_.sum()), self.span + number))
                waits.append(np.full(int(open_.sum()), row))
                if not open_.all():
                    raise _TooSoon(role, index)
        if not cells:
            none = np.zeros(0, dtype=np.int64)
            return _Window(none, none, none, none)
        cell = np.concatenate(cells)
        gate_row = np.full(len(cell), len(self.table.kind) - 1)
        return _Window(cell, np.concatenate(indices), gate_row, np.concatenate(waits))

    def _on_start(self, at: int) -> bool:
        return bool(len(self.table.dep_on_start) and self.table.dep_on_start[at])


class _TooSoon(Exception):
    """An operation of the last part of a window may start now."""

    def __init__(self, role: int, index: int):
        super().__init__()
        self.role, self.index = role, index


def _latest_wait(program: Program) -> Ints:
    """Return the latest operation that each operation waits for, -1 for none."""
    latest = np.full(len(program.kind), -1, dtype=np.int64)
    waits = np.repeat(np.arange(len(program.kind)), np.diff(program.dep_offset))
    np.maximum.at(latest, waits, program.dep)
    return latest
