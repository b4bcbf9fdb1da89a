"""Flow level: run a rolled workload, window by window, with one rank for all that are alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.flow import engine as kernel
from weft.kernels.program import operations
from weft.routing.routes import Routes
from weft.sim.common.host_parameters import NO_OVERHEAD
from weft.sim.common.programs import deadlock_of_ranks, lay_ranks, numbered, queues_of
from weft.sim.common.progress import Forecast, IncompleteRun, Progress, rolled_note
from weft.sim.common.rolled_result import DroppedOperations
from weft.sim.common.windows import OP_BYTES, Windows, carry_events
from weft.sim.flow.cells import cells_of
from weft.sim.flow.engine import LAYING, FlowState
from weft.sim.flow.network import Network, lay_routes
from weft.sim.flow.result import RolledResult, alone_ns
from weft.workload import Kind
from weft.workload.rolled import CommonProgram, RolledWorkload

Ints = NDArray[np.int64]

#: Time of an operation of a message that is alone on its links, and of one that shares them, and
#: the factor between forecasts and times of nine of ten runs; measured as in docs/scaling.md.
_OP_NS, _SPREAD = (420.0, 1600.0), 2.0


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


class FlowWindows(Windows):
    """A run of a rolled workload at the flow level, for `weft.simulate`; see `run_flows`."""

    def __init__(
        self, fabric: Fabric, routes: Routes, work: RolledWorkload, hosts: NDArray[np.int32],
        options: Mapping[str, Any],
    ):  # fmt: skip
        if routes.num_intermediates or (options["multipath"] == "hash" and not routes.settled):
            raise NotApplicable("rolled workloads need one route for all messages of two hosts")
        self.began = time.perf_counter()
        network, route = _lay(fabric, routes, work, hosts, options)
        self.cells = cells = cells_of(work, network, route)
        self.result = partial(
            RolledResult, fabric=fabric, engine=routes.engine, workload=work, host=hosts,
            options=options, network=network, route=route, cells=cells,
        )  # fmt: skip
        super().__init__(
            work, cells.first, cells.peer, DroppedOperations(work, cells.of_rank, cells.size)
        )
        self.options = options
        away = cells.route >= 0
        self.pair_of = np.where(away, np.cumsum(away).reshape(away.shape) - 1, 0).ravel()
        self.state = self._begin()

    @property
    def shared(self) -> bool:
        """Whether messages share links, by the model of sharing."""
        return self.state.sharing[0] is not None

    def forecast(self) -> Forecast:
        """Return the time and memory that the run is expected to take, the memory at most."""
        table = self.work.programs
        ops = int(self.length[self.program_of].sum())
        window = self.most(ops)
        counts = {
            "messages": self.work.num_messages, "operations": ops, "window": window,
            "computed": sum(len(table[each].sends) for each in self.program_of.tolist()),
        }  # fmt: skip
        seconds = ops * _OP_NS[self.shared] / 1e9
        span = seconds / _SPREAD, seconds * _SPREAD
        note = rolled_note(window, ops)
        return Forecast("flow", counts, OP_BYTES * window, *span, shortage="", note=note)

    def run(self, progress: Callable[[Progress], None] | None) -> RolledResult:
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
            whole, place = self.named()
            ranks = self.state.ranks
            text = deadlock_of_ranks(whole, ranks.posted, ranks.ended, now, place)
            alike = "; further ranks are like these" * (len(self.cells.first) < self.work.num_ranks)
            raise InputError(text + alike)
        self.drop(self.state.ranks)
        certain = not self.shared and self.options["overhead"] == NO_OVERHEAD
        certain &= all(map(_in_turns, self.work.programs))
        certain |= len(self.cells.first) == self.work.num_ranks
        took = time.perf_counter() - self.began
        return self.result(
            tally=self.tally, most_ops=self.most_ops, shared=self.shared, certain=certain,
            run_s=took,
        )  # fmt: skip

    def alone_ns(self, ops: Ints) -> NDArray[np.float64]:
        """Return the zero-load times of messages of the window."""
        sizes = self.piece.size_bytes[ops]
        return alone_ns(self.cells.network, self.options, self._route()[ops], sizes)

    def _route(self) -> NDArray[np.int32]:
        """Return the route of each operation of the window."""
        here = self.piece.peer >= 0
        return np.where(here, self.cells.route.ravel()[self.spot], operations.LOCAL)

    def _begin(self) -> FlowState:
        cells, options = self.cells, self.options
        large = _large(self.table, options) & options["handshake"]
        meets = np.any(cells.route[self.table.peers[large]] >= 0)
        queues = 1 + max(queues_of(options["rendezvous"]).values()) if meets else 1
        pairs = int((cells.route >= 0).sum())
        state = FlowState.of(
            self.piece, cells.network, self._route(), self.pair_of[self.spot].astype(np.int32),
            pairs, queues, options,
        )  # fmt: skip
        alone = (None, None) if self._alone() else state.sharing
        return replace(state, ranks=self.begun(state.ranks), sharing=alone)

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
        ranks, level, piece = self.state.ranks, self.state.level, self.piece
        flows = level.flows
        done = ranks.ended >= 0
        done[piece.messages] &= ranks.arrived[piece.messages] >= 0
        done[flows.op[flows.leaving[: level.count.leaving]]] = False
        done &= (piece.match < 0) | done[piece.match]
        fresh, number, _ = self.renewed(
            ranks, done, ranks.asked[: ranks.count.asked],
            lambda: lay_ranks(self.piece, self._route(), self.options),
        )  # fmt: skip
        fresh.count.ended = np.count_nonzero(fresh.ended >= 0)
        carry_events(ranks.heap, fresh.heap, number)
        under_way = flows.op < len(done)  # others are of slots that are free
        flows.op[:] = np.where(under_way, number[np.where(under_way, flows.op, -1) + 1] - 1, 0)
        level.pairs.last[:] = number[level.pairs.last]
        pair = self.pair_of[self.spot].astype(np.int32)
        level = level._replace(pairs=level.pairs._replace(pair_of=pair))
        self.state = replace(self.state, ranks=fresh, level=level)


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
