"""Flow level: run a rolled workload, of which only the operations near those under way exist.

The event loop is that of any workload. It runs on a *window* of the program: operations that have
started or may start soon, in the order of the whole program. The loop returns when the first
operation of the window's last part starts, which a *gate* waits for as well. Then operations that
nothing refers to any more are dropped, further ones are appended, and the run goes on at the same
instant from the same state. So all times are those of the unrolled workload.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import need_memory
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.flow import engine as kernel
from weft.kernels.program import operations
from weft.kernels.program.dag import depths
from weft.kernels.program.events import FREE_NOW, OPERATION
from weft.kernels.program.state import Ranks
from weft.routing.routes import Routes
from weft.sim.common.host_parameters import NO_OVERHEAD
from weft.sim.common.programs import numbered, queues_of
from weft.sim.common.progress import Forecast, IncompleteRun, Progress
from weft.sim.flow.cells import Cells, cells_of
from weft.sim.flow.engine import LAYING, FlowState, rank_state
from weft.sim.flow.network import Network, lay_routes
from weft.sim.flow.rolled_result import DroppedOperations, RolledResult
from weft.workload import Kind, Workload
from weft.workload.rolled import CommonProgram, RolledWorkload, joined

Ints = NDArray[np.int64]

#: Operations of all cells by which a window grows, and least number for each cell.
GROWTH, LEAST_GROWTH = 2**16, 32
#: Memory of an operation of a window while it is laid, by measurement.
_OP_BYTES = 600
#: Time of an operation of a message that is alone on its links, and of one that shares them, the
#: factor between forecasts and times of nine of ten runs, and the most that the window of a program
#: of one chain grew beyond its first size; by measurement, as in docs/scaling.md.
_OP_NS, _SPREAD, _WINDOWS = (420.0, 1600.0), 2.0, 4


def run_rolled(
    fabric: Fabric, routes: Routes, work: RolledWorkload, hosts: NDArray[np.int32],
    options: Mapping[str, Any], progress: Callable[[Progress], None] | None = None,
    expected: Callable[[Forecast], None] | None = None, dry: bool = False,
) -> Any:  # fmt: skip
    """Run a rolled workload at the flow level, for `weft.simulate`; see `run_flows`.

    `expected`: called with the forecast when the cells are known. `dry`: whether to return the
    forecast in place of the `RolledResult`.
    """
    if options["sharing"] == "penalty":
        raise NotApplicable("the sharing model penalty cannot run rolled workloads")
    if routes.num_intermediates or (options["multipath"] == "hash" and not routes.settled):
        raise NotApplicable("rolled workloads need one route for all messages of a pair of hosts")
    began = time.perf_counter()
    network, route = _lay(fabric, routes, work, hosts, options)
    cells = cells_of(work, network, route)
    run = _Run(work, cells, options)
    if dry:
        return run.forecast()
    if expected is not None:
        expected(run.forecast())
    run.go(progress)
    certain = not run.shared and options["overhead"] == NO_OVERHEAD
    certain = len(cells.first) == work.num_ranks or (certain and all(map(_in_turns, work.programs)))
    return RolledResult(
        fabric, routes.engine, work, hosts, options, network, route, cells, run.tally,
        run.most_ops, run.shared, certain, time.perf_counter() - began,
    )  # fmt: skip


def _lay(
    fabric: Fabric, routes: Routes, work: RolledWorkload, hosts: NDArray[np.int32],
    options: Mapping[str, Any],
) -> tuple[Network, NDArray[np.int32]]:  # fmt: skip
    """Return the routes of messages and answers, and the route of each map and rank."""
    used = np.zeros((len(work.programs), len(work.peers)), dtype=np.bool_)
    for number, program in enumerate(work.programs):
        used[number, program.peers[program.sends]] = True
    # Receivers answer large messages. Which of them do is not worth finding out.
    used |= options["handshake"] and any(_large(each, options).any() for each in work.programs)
    route = np.full(work.peers.shape, operations.LOCAL, dtype=np.int32)
    places = np.nonzero(used[work.program_of].T & (work.peers >= 0))
    source, target = hosts[places[1]], hosts[work.peers[places]]
    apart = fabric.apart(source, target)
    key = source[apart].astype(np.int64) * fabric.num_hosts + target[apart]
    pairs, index = numbered(key, fabric.num_hosts**2)
    laying = {name: options[name] for name in LAYING}
    network = lay_routes(fabric, routes, *np.divmod(pairs, fabric.num_hosts), **laying)
    route[places[0][apart], places[1][apart]] = index
    return network, route


def _large(program: CommonProgram, options: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which operations send by a rendezvous."""
    large: NDArray[np.bool_] = program.size_bytes > options["eager_bytes"]
    large &= program.kind == Kind.SEND
    return large


class _Window(NamedTuple):
    """Operations of a window, by cell, then program order; gates are behind those of their cell.

    int64 [ops]: cell; index in its program; row of the joined programs, the last one
    for gates; and the row whose waits the operation has.
    """

    cell: Ints
    place: Ints
    row: Ints
    waits: Ints

    def at(self, which: Any) -> _Window:
        """Return some of the operations."""
        return _Window(*(each[which] for each in self))


class _Run:
    """A run in progress."""

    def __init__(self, work: RolledWorkload, cells: Cells, options: Mapping[str, Any]):
        self.work, self.cells, self.options = work, cells, options
        self.tally = DroppedOperations(work, cells, options)
        self.program_of = work.program_of[cells.first].astype(np.int64)
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
        self.needs = self._needs()
        # First operation of the last part, and end, of each program's window.
        self.low, self.high = self.length * 0, self.length * 0
        self.growth = max(GROWTH // max(len(self.program_of), 1), LEAST_GROWTH)
        away = cells.route >= 0
        self.pair_of = np.where(away, np.cumsum(away).reshape(away.shape) - 1, 0).ravel()
        self.most_ops = 0
        self.state = self._begin()

    @property
    def shared(self) -> bool:
        """Whether messages share links, by the model of sharing."""
        return self.state.sharing[0] is not None

    def forecast(self) -> Forecast:
        """Return the time and memory that the run is expected to take, the memory at most."""
        table = self.work.programs
        ops = int(self.length[self.program_of].sum())
        window = min(ops, _WINDOWS * len(self.window.cell))
        if max(map(_lead, table), default=0) > LEAST_GROWTH:  # chains of different speeds
            window = ops
        counts = {
            "messages": self.work.num_messages, "operations": ops, "at_once": window,
            "computed": sum(len(table[each].sends) for each in self.program_of.tolist()),
        }  # fmt: skip
        seconds = ops * _OP_NS[self.shared] / 1e9
        span = seconds / _SPREAD, seconds * _SPREAD
        return Forecast("flow", counts, _OP_BYTES * window, *span, shortage="")

    def go(self, progress: Callable[[Progress], None] | None) -> None:
        """Run to the end."""
        messages, ops = self.work.num_messages, self.work.num_ops

        def report(now: Progress) -> None:
            if progress is not None:
                done = min(self.tally.num_messages, messages)
                progress(Progress(self.tally.num_ops, ops, done, messages, now.now_ns))

        while (why := self.state.run(self.piece, report)) == kernel.ASKED:
            self._go_on()
        now = f"{self.state.level.count.now_ns:g} ns"
        if why == kernel.TIME_OUT:
            raise IncompleteRun(f"stopped at {now} of simulated time; there is no result")
        if why != kernel.DONE:
            raise InputError(f"{self.work.name or 'the workload'} deadlocks after {now}")
        self._drop(np.ones(len(self.window.cell), dtype=np.bool_))

    # -- the state ---------------------------------------------------------------------------------

    def _begin(self) -> FlowState:
        for number in range(len(self.length)):
            self._grow(number, min(self.growth, int(self.length[number])))
        nothing = np.zeros(0, dtype=np.int64)
        self._lay_window(_Window(*[nothing] * 4), np.zeros((2, 0)), self.high * 0)
        cells, options = self.cells, self.options
        large = _large(self.table, options) & options["handshake"]
        meets = np.any(cells.route[self.table.peers[large]] >= 0)
        queues = 1 + max(queues_of(options["rendezvous"]).values()) if meets else 1
        state = FlowState.of(
            self.piece, cells.network, self.route, self.pair, int((cells.route >= 0).sum()), queues,
            options,
        )  # fmt: skip
        processors = len(self.program_of), int(self.table.cpu.max(initial=0)) + 1
        ranks = state.ranks._replace(
            busy_until=np.zeros(processors),
            first_waiting=np.zeros(processors, dtype=np.int32),
            copied_until=np.zeros(cells.peer.size),
        )
        alone = (None, None) if self._alone() else state.sharing
        return replace(state, ranks=self._gated(ranks), sharing=alone)

    def _gated(self, ranks: Ranks) -> Ranks:
        """Return the state with gates, and with new operations without waits ready."""
        ready = np.flatnonzero(self.fresh & (ranks.pending == 0))
        ranks.ready[: len(ready)] = ready
        ranks.count.ready_tail = len(ready)
        ranks.sends[self.window.row != self.window.waits] = operations.REQUEST
        ranks.rules.scheduled = True
        self.most_ops = max(self.most_ops, self.piece.num_ops)
        return ranks._replace(copy_pair=self.copy_pair)

    def _alone(self) -> bool:
        """Return whether a link never has two messages, because all that use it are of one queue.

        Then each message has the rate of its route, without the sharing model.
        """
        network = self.cells.network
        queues = np.zeros(network.num_routes, dtype=np.int64)
        for number, program in enumerate(self.work.programs):
            sends, large = program.sends, _large(program, self.options)[program.sends]
            both = np.intersect1d(program.peers[sends[large]], program.peers[sends[~large]])
            if len(both) and self.options["handshake"]:
                return False
            some = self.cells.route[np.unique(program.peers[sends])][:, self.program_of == number]
            # Ranks that share a host may have one route.
            queues += np.bincount(some[some >= 0], minlength=len(queues))
        crossing = np.repeat(queues, np.diff(network.route_offset))
        return bool(np.bincount(network.route_link, crossing, 1).max() <= 1)

    def _go_on(self) -> None:
        """Drop what nothing refers to, append operations, and take the state over."""
        window, ranks, level, piece = self.window, self.state.ranks, self.state.level, self.piece
        flows = level.flows
        done = ranks.ended >= 0
        done[piece.messages] &= ranks.arrived[piece.messages] >= 0
        done[flows.op[flows.leaving[: level.count.leaving]]] = False
        done &= (piece.match < 0) | done[piece.match]
        self._drop(done)
        keep = np.flatnonzero(~done & (window.row == window.waits))
        begin = self.high.copy()
        asking = window.cell[ranks.asked[: ranks.count.asked]]
        for number in np.unique(self.program_of[asking]).tolist():
            self._grow(number, int(begin[number]))
        self._lay_window(window.at(keep), np.stack((ranks.posted, ranks.ended))[:, keep], begin)
        fresh = rank_state(self.piece, self.route, self.options)
        number = np.zeros(len(done) + 1, dtype=np.int32)  # new numbers, counted from 1; 0 for none
        number[keep + 1] = self.moved + 1
        for name in ("posted", "ended", "left", "arrived", "sends"):
            getattr(fresh, name)[self.moved] = getattr(ranks, name)[keep]
        for name in ("left_below", "right_below"):
            getattr(fresh, name)[self.moved] = number[getattr(ranks, name)[keep]]
        events = fresh.heap.size.events = ranks.heap.size.events
        op = ranks.heap.item[:events] & OPERATION
        kind = ranks.heap.item[:events] ^ op
        op[kind != FREE_NOW] = number[op[kind != FREE_NOW] + 1] - 1
        fresh.heap.time[:events] = ranks.heap.time[:events]
        fresh.heap.item[:events] = kind | op
        fresh.count.ended = np.count_nonzero(fresh.ended >= 0)
        fresh = fresh._replace(
            busy_until=ranks.busy_until, copied_until=ranks.copied_until,
            first_waiting=number[ranks.first_waiting],
        )  # fmt: skip
        under_way = flows.op < len(done)  # others are of slots that are free
        flows.op[:] = np.where(under_way, number[np.where(under_way, flows.op, -1) + 1] - 1, 0)
        level.pairs.last[:] = number[level.pairs.last]
        level = level._replace(pairs=level.pairs._replace(pair_of=self.pair))
        self.state = replace(self.state, ranks=self._gated(fresh), level=level)

    def _drop(self, which: NDArray[np.bool_]) -> None:
        """Add operations to the statistics."""
        ranks, window = self.state.ranks, self.window
        ops = np.flatnonzero(which & (window.row == window.waits))
        times = np.stack((ranks.posted, ranks.ended, ranks.left, ranks.arrived))[:, ops]
        some = window.at(ops)
        self.tally.add(self.table, some.row, some.cell, self.route[ops], times)

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
        """Let the last part of a window begin at `low`; it has both ends of all messages."""
        self.low[number] = low
        self.high[number] = min(max(self.high[number], low + self.growth), self.length[number])
        before = self.high * 0
        while not np.array_equal(before, self.high):
            before = self.high.copy()
            for mine, other, need in self.needs:
                self.high[other] = max(self.high[other], need[self.high[mine]])

    def _lay_window(self, kept: _Window, times: NDArray[np.float64], begin: Ints) -> None:
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
            joint = _Window(*np.concatenate(parts, axis=1))
            need_memory(
                _OP_BYTES * len(joint.cell),
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
        cells, count = self.cells, len(self.program_of)
        peers = table.peers[window.row]
        spot = peers * count + window.cell
        self.route = np.where(peers < 0, operations.LOCAL, cells.route.ravel()[spot])
        peer = np.where(peers < 0, -1, cells.peer.ravel()[spot])
        self.copy_pair = np.where(peers < 0, 0, spot).astype(np.int32)
        self.pair = self.pair_of[self.copy_pair].astype(np.int32)
        match = np.full(len(peer), -1, dtype=np.int32)
        matched = np.flatnonzero(table.match[window.row] >= 0)
        match[matched] = self._find(
            *by_place, peer[matched], table.match[window.row[matched]].astype(np.int64)
        )
        none, zeros = np.zeros(0), np.broadcast_to(np.int32(0), len(peer))
        self.piece = Workload(
            name=self.work.name, kind=table.kind[window.row].astype(np.uint8),
            peer=peer.astype(np.int32), size_bytes=table.size_bytes[window.row], tag=zeros,
            op_offset=np.searchsorted(window.cell, np.arange(count + 1)), comm=zeros,
            duration_ns=table.duration_ns[window.row], phase=zeros, phase_names=("",),
            dep_offset=np.append(0, np.cumsum(counts)), dep=on[open_].astype(np.int32),
            dep_on_start=at_start[open_] if table.dep_on_start.any() else at_start[:0],
            match=match, release_ns=none,
            cpu=table.cpu[window.row] if table.cpu.any() else none.astype(np.uint8),
        )  # fmt: skip
        may_start: Ints = np.flatnonzero((window.row != window.waits) & (counts == 0))
        return may_start


def _latest_wait(program: CommonProgram) -> Ints:
    """Return the latest operation that each operation waits for, -1 for none."""
    latest = np.full(len(program.kind), -1, dtype=np.int64)
    waits = np.repeat(np.arange(len(program.kind)), np.diff(program.dep_offset))
    np.maximum.at(latest, waits, program.dep)
    return latest


def _lead(program: CommonProgram) -> int:
    """Return how far apart operations may be that have equal numbers of others before them."""
    depth = depths(program.dep_offset, program.dep)
    first, last = np.full((2, int(depth.max(initial=0)) + 1), [[len(depth)], [-1]])
    np.minimum.at(first, depth, np.arange(len(depth)))
    np.maximum.at(last, depth, np.arange(len(depth)))
    ahead = np.maximum.accumulate(last) - np.minimum.accumulate(first[::-1])[::-1]
    return int(ahead.max())


def _in_turns(program: CommonProgram) -> bool:
    """Return whether operations come in groups, each of which waits for all of the group before.

    Then operations of a rank that coincide start in program order, whatever other ranks do first.
    """
    before = begin = 0
    for op, row in enumerate(np.split(program.dep, program.dep_offset[1:-1])):
        waits = np.sort(row)
        if not np.array_equal(waits, np.arange(before, begin)):
            before, begin = begin, op
            if not np.array_equal(waits, np.arange(before, begin)):
                return False
    return not program.dep_on_start.any()
