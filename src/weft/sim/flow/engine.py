"""Flow level: run a workload over routes, with messages as fluids that share the links."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.signals import raise_deferred
from weft.fabrics import Fabric
from weft.kernels.flow import engine as kernel
from weft.kernels.flow.state import COUNT, RULES, Flows, Level, Paths
from weft.kernels.flow.state import QueuePairs as Queues
from weft.kernels.parts import renewed
from weft.kernels.program import operations
from weft.kernels.program.state import Ranks
from weft.kernels.records import record
from weft.routing.routes import Routes
from weft.sim.common.programs import (
    RankPairs,
    deadlock_of_ranks,
    lay_ranks,
    numbered,
    queue_pairs,
)
from weft.sim.common.progress import REPORT_S, IncompleteRun, Progress
from weft.sim.flow.network import Network, lay_routes
from weft.sim.flow.result import FlowResult
from weft.sim.flow.sharing import sharing_states
from weft.sim.flow.trees import with_trees
from weft.sim.keys.run import KeyRun
from weft.workload import Kind, Workload

#: Options of `lay_routes`.
LAYING = (
    "multipath", "minimal_share", "seed", "ports", "switch_latency_ns", "latency_ns",
    "adapter_gbps", "adapter_latency_ns",
)  # fmt: skip
#: A number of arrivals that no run reaches.
NO_LIMIT = 2**62


def run_flows(
    fabric: Fabric,
    routes: Routes,
    workload: Workload,
    hosts: NDArray[np.int32],
    options: Mapping[str, Any],
    progress: Callable[[Progress], None] | None = None,
    keyed: KeyRun | None = None,
) -> FlowResult:
    """Run a workload at the flow level, for `weft.simulate`, which checks the arguments.

    A message has the same rate on all links of its route. It uses them from the departure of its
    first byte to the departure of its last byte; it arrives one latency after that. Rates change
    only when messages start or end. Messages from one rank to another depart one after the other,
    in the order in which they are posted (docs/flow-level.md).

    `hosts` [ranks]: host of each rank. `options`: options, as returned by
    `weft.sim.options.RunSettings.flow`. `progress`: called several times a second with the progress
    of the run. `keyed`: routing keys of the workload; their paths replace those of the routes.
    """
    queues = queue_pairs(fabric, workload, hosts, options["eager_bytes"], options["handshake"])
    if keyed is not None:
        routes = keyed.routes
    network, route_of_op = lay_messages(fabric, routes, workload, queues, options, keyed)
    route = np.full(workload.num_ops, operations.LOCAL, dtype=np.int32)
    route[queues.ops] = route_of_op
    if len(workload.tree):
        if keyed is not None or options["sharing"] == "penalty":
            raise NotApplicable(
                "reductions in switches have neither routing keys nor the sharing model penalty"
            )
        laying = {key: options[key] for key in LAYING}
        network, tree_route = with_trees(fabric, routes, workload, hosts, network, **laying)
        reduced = workload.tree >= 0
        route[reduced] = tree_route[workload.tree[reduced]]
    pair = np.zeros(workload.num_ops, dtype=np.int32)
    pair[queues.ops] = queues.pair
    num_pairs, num_queues = len(queues.key), queues.queues(options["rendezvous"])
    del queues, route_of_op  # with millions of messages the run needs this memory
    began = time.perf_counter()
    state = FlowState.of(workload, network, route, pair, num_pairs, num_queues, options, keyed)
    why = state.run(workload, progress, keyed)
    if why == kernel.STUCK and state.ranks.heap.size.events:
        raise InputError(
            "simulated time exceeds 1e+308 ns; "
            f"the last event was at {state.level.count.now_ns:g} ns"
        )
    if why == kernel.STUCK:
        now = f"{state.level.count.now_ns:g} ns"
        raise InputError(deadlock_of_ranks(workload, state.ranks.posted, state.ranks.ended, now))
    if why == kernel.TIME_OUT:
        raise IncompleteRun(
            f"stopped at {state.level.count.now_ns:g} ns of simulated time: "
            f"{state.ranks.count.arrived:,} of {len(workload.messages):,} messages had "
            "arrived; there is no result"
        )
    return FlowResult(
        fabric=fabric,
        engine=routes.engine,
        workload=workload,
        host=hosts,
        network=network,
        route=route,
        options=options,
        posted_ns=state.ranks.posted,
        ended_ns=state.ranks.ended,
        left_ns=np.where(workload.kind < Kind.KEY_REQUEST, state.ranks.left, -1.0),
        arrived_ns=state.ranks.arrived,
        num_shares=int(state.level.count.solves),
        num_rate_changes=int(state.level.count.changes),
        most_concurrent=int(state.level.count.peak),
        run_s=time.perf_counter() - began,
    )


def lay_messages(
    fabric: Fabric,
    routes: Routes,
    workload: Workload,
    queues: RankPairs,
    options: Mapping[str, Any],
    keyed: KeyRun | None = None,
) -> tuple[Network, NDArray[np.int32]]:
    """Return the routes between hosts, and the index of each operation's route.

    All messages of a pair of hosts use the same route, unless each message selects its path by a
    hash.

    `queues`: operations that cross the network. `options`: options of `run_flows`. `keyed`: routing
    keys, which select the LID of each message; `routes` must be theirs.

    Returns int32: index of the route of each operation of `queues.ops`.
    """
    laying = {key: options[key] for key in LAYING}
    size = sizes = None
    if routes.num_intermediates:
        # A receive in `queues.ops` sends an answer to a request, without data.
        answers = workload.kind[queues.ops] == Kind.RECV
        size = np.where(answers, 0, workload.size_bytes[queues.ops])
    if options["multipath"] == "hash" and not routes.settled:
        network = lay_routes(fabric, routes, queues.source, queues.target, weights=size, **laying)
        return network, np.arange(len(queues.ops), dtype=np.int32)
    hosts = fabric.num_hosts
    key = queues.source.astype(np.int64) * hosts + queues.target
    if keyed is not None:
        lmc = routes.lmc
        key = np.concatenate(((key << lmc) + keyed.lid_offset[queues.ops], keyed.further_pairs))
        pairs, route = numbered(key, hosts**2 << lmc)
        route = route[: len(queues.ops)]
        keyed.bind(pairs, hosts)
        offset = pairs & (1 << lmc) - 1
        ends = np.divmod(pairs >> lmc, hosts)
        return lay_routes(fabric, routes, *ends, lid_offset=offset, **laying), route
    key, route = numbered(key, hosts**2)
    if size is not None:
        sizes = np.bincount(route, weights=size, minlength=len(key))
    return lay_routes(fabric, routes, key // hosts, key % hosts, weights=sizes, **laying), route


@dataclass(frozen=True, eq=False)
class FlowState:
    """State of the kernel; see `weft.kernels.flow.engine.run`."""

    ranks: Ranks
    level: Level
    sharing: tuple[Any, Any]

    @classmethod
    def of(
        cls,
        workload: Workload,
        network: Network,
        route: NDArray[np.int32],
        pair: NDArray[np.int32],
        num_pairs: int,
        num_queues: int,
        options: Mapping[str, Any],
        keyed: KeyRun | None = None,
    ) -> FlowState:
        """Return the state at time 0."""
        # If nothing is shared, the tolerance is 0 and messages of one packet do not queue.
        alone = options["sharing"] == "none"
        limit = options["max_time_ns"]
        # Each queue sends one message at a time. The slot of a message that has left is released
        # only after the next message has started, so a queue may use two slots.
        block = 1 << kernel.BLOCK_SHIFT
        lines = num_queues * num_pairs
        slots = -(-2 * max(lines, 1) // block) * block
        return cls(
            ranks=lay_ranks(workload, route, options, keyed is not None and keyed.rules.scheduled),
            level=Level(
                paths=Paths(
                    latency_ns=network.route_latency_ns,
                    rate_bytes_per_ns=network.route_rate_bytes_per_ns,
                    source=network.route_source,
                    destination=network.route_destination,
                    source_rate_bytes_per_ns=network.source_rate_bytes_per_ns,
                ),
                pairs=Queues(
                    pair_of=pair,
                    last=np.zeros(lines + 1, dtype=np.int32),
                    latest_ns=np.zeros(lines + 1),
                    adapter_free_ns=np.zeros(int(network.route_source.max(initial=0)) + 1),
                ),
                flows=Flows(
                    op=np.zeros(slots, dtype=np.int32),
                    left_bytes=np.zeros(slots),
                    since_ns=np.zeros(slots),
                    rate=np.zeros(slots),
                    shared_rate=np.zeros(slots),
                    end_ns=np.full(slots, np.inf),
                    block_end_ns=np.full(slots // block, np.inf),
                    free=np.zeros(slots, dtype=np.int32),
                    leaving=np.zeros(slots, dtype=np.int32),
                    changed=np.zeros(slots, dtype=np.int32),
                    coming=np.zeros(slots, dtype=np.int32),
                    touched=np.zeros(slots // block, dtype=np.int32),
                ),
                rules=record(
                    RULES,
                    tolerance=0.0 if alone else options["tolerance"],
                    max_time_ns=np.inf if limit is None else limit,
                    mtu_bytes=0 if alone else options["mtu_bytes"],
                    header_bytes=options["header_bytes"],
                    pairs=num_pairs,
                    most_arrivals=NO_LIMIT,
                ),
                count=record(COUNT),
            ),
            sharing=sharing_states(options["sharing"], network, slots, options["coefficients"]),
        )

    def run(
        self,
        workload: Workload,
        progress: Callable[[Progress], None] | None,
        keyed: KeyRun | None = None,
    ) -> int:
        """Run to the end with reports of progress; return the kernel's reason for stopping."""
        if keyed is not None:
            keyed.mark(self.ranks.sends, self.ranks.left)
        messages, rules = len(workload.messages), self.level.rules
        limit_ns = float(rules.max_time_ns)
        states: Iterable[Any] = repeat(None)
        instants = 1  # adapted to `REPORT_S`: Python handles interrupts between calls only
        while True:
            began = time.perf_counter()
            change_ns = np.inf if keyed is None else keyed.next_change_ns
            rules.max_time_ns = min(limit_ns, change_ns)
            states = [*map(renewed, states, (self.ranks, self.level, *self.sharing))]
            why = kernel.run(*states, instants)
            raise_deferred()
            if keyed is not None and why == kernel.ASKED:
                self._answer(keyed)
                continue
            if keyed is not None and why == kernel.TIME_OUT and change_ns <= limit_ns:
                self._change_paths(keyed, change_ns)
                continue
            if progress:
                done = self.ranks.count
                progress(
                    Progress(
                        int(done.ended), workload.num_ops, int(done.arrived), messages,
                        float(self.level.count.now_ns),
                    )
                )  # fmt: skip
            if why != kernel.MORE:
                return int(why)
            took = max(time.perf_counter() - began, 1e-4)
            instants = int(min(max(instants * REPORT_S / took, 1), 4 * instants, 2**30))

    def _answer(self, keyed: KeyRun) -> None:
        """Pass requests and returns of routing keys to the scheduler."""
        ranks, now_ns = self.ranks, float(self.level.count.now_ns)
        ops = ranks.asked[: ranks.count.asked].tolist()
        ranks.count.asked = 0
        for requests, time_ns in keyed.answer(ops, now_ns, ranks.arrived):
            operations.answer(ranks, requests, time_ns)
        self._change_paths(keyed, now_ns)

    def _change_paths(self, keyed: KeyRun, now_ns: float) -> None:
        """Change the paths of routing keys that have been granted by a time."""
        changes, ends = keyed.due(now_ns)
        for requests, time_ns in ends:
            operations.answer(self.ranks, requests, time_ns)
        for paths in changes:
            for model in self.sharing:
                if model is not None:
                    # The first link of a route leads from the host to its switch.
                    paths.write(model.route_offset[:-1] + 1, model.route_link)
            fresh = self.ranks.posted[paths.ops] < 0
            self.ranks.program.route[paths.ops[fresh]] = paths.op_route[fresh]
