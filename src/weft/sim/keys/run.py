"""Routing keys of a workload while it runs: paths of messages, and answers to requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.program.operations import REQUEST
from weft.routing.routes import Routes
from weft.sim.keys.alternatives import alternatives
from weft.sim.keys.choice import Choice, Criterion
from weft.sim.keys.key_set import KeySet, workload_keys
from weft.sim.keys.make import Colours, First, Method
from weft.sim.keys.network import key_network
from weft.sim.keys.routes import KeyedRoutes
from weft.sim.keys.scheduler import Done, Event, Place, Request, Scheduler, Tick
from weft.sim.keys.tables import key_tables
from weft.workload.workload import Kind, Workload

Before = Literal["wait", "base"]
#: For each answer the requests that it ends, int32 [ranks], and the time at which they end.
Answers = list[tuple[NDArray[np.int32], float]]


@dataclass(frozen=True)
class KeyRules:
    """How a run uses routing keys."""

    #: Whether a scheduler answers requests (NRK). Otherwise each key keeps its paths (ARK), and
    #: requests take no time.
    scheduled: bool
    #: As for `weft.keys`.
    method: Method = "exact"
    colours: Colours = "fewest"
    first: First = "random"
    #: As for `weft.sim.keys.scheduler.Scheduler`.
    choice: Choice = "shift"
    criterion: Criterion = "max"
    latency_ns: float = 0.0
    service_ns: float = 0.0
    #: What a phase does before its key is granted: ``wait``, or use the ``base`` routes.
    before: Before = "wait"
    #: LMC of the subnet, for keys without a scheduler. A flow for whose path no LID is left uses
    #: the base routes. 0 for no limit.
    lmc: int = 0
    #: For the choice ``installed``: number of alternatives of each key.
    alternatives: int = 4


@dataclass(frozen=True, eq=False)
class NewPaths:
    """New paths of routes of a running simulation."""

    #: int32 [routes]: numbers of the routes in the simulation.
    route: NDArray[np.int32]
    #: int64 [routes]: number of links of each path, without the links at the hosts.
    length: NDArray[np.int64]
    #: int32: these links, path after path.
    link: NDArray[np.int32]
    #: int32 [messages]: messages that take other routes unless they have begun, and the numbers of
    #: these routes.
    ops: NDArray[np.int32]
    op_route: NDArray[np.int32]

    def write(self, first: NDArray[np.integer[Any]], links: NDArray[np.int32]) -> None:
        """Write the links into an array of the links of all routes.

        `first`: index of the first link between switches, for all routes of the simulation.
        `links`: changed.
        """
        starts = np.cumsum(self.length) - self.length
        index = np.repeat(first[self.route] - starts, self.length) + np.arange(len(self.link))
        links[index] = self.link


class KeyRun:
    """Routing keys of a workload while it runs.

    `fabric`, `routes`, `workload`, `hosts`: as for `weft.simulate`; messages outside keys use the
    routes.
    """

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        workload: Workload,
        hosts: NDArray[np.int32],
        rules: KeyRules,
        seed: int = 0,
    ) -> None:
        self.rules = rules
        self.plan: KeySet = workload_keys(
            fabric, workload, hosts, method=rules.method, colours=rules.colours,
            first=rules.first, seed=seed,
        )  # fmt: skip
        if rules.scheduled and not self.plan.requested:
            raise NotApplicable(
                f"{workload.name or 'the workload'} requests no routing keys; use policy ark, "
                "RODREQUEST and RODDONE in a trace, or an application with keys=true"
            )
        # A key has two sets of paths, which its requests use in turn, because messages of one phase
        # may still be under way when the next begins.
        self.copies = 2 if rules.scheduled else 1
        keys = tuple(key for key in self.plan.keys for _ in range(self.copies))
        self.routes = KeyedRoutes.of(fabric, routes, keys)
        is_message = (workload.kind == Kind.SEND) | (workload.kind == Kind.PUT)
        #: int32 [ops]: offset of the LID to which each message is sent, as in `KeyedRoutes`.
        self.lid_offset = np.zeros(workload.num_ops, dtype=np.int32)
        #: int32 [later]: messages of keys that take the base routes until their key is granted.
        self._later = np.zeros(0, dtype=np.int32)
        offset = 1 + self.plan.of_op * self.copies + self.plan.instance % self.copies
        covered = np.flatnonzero((self.plan.of_op >= 0) & is_message)
        if rules.before == "base":
            self._later = covered.astype(np.int32)
        else:
            self.lid_offset[covered] = offset[covered]
        if rules.lmc:
            tables = key_tables(fabric, routes, self.plan.keys, rules.lmc)
            pair = hosts[workload.rank] * np.int64(fabric.num_hosts) + hosts[workload.peer]
            for number, (key, given) in enumerate(zip(self.plan.keys, tables.offset, strict=True)):
                lost = np.flatnonzero(given < 0)
                lost_pairs = key.sources[lost] * np.int64(fabric.num_hosts) + key.destinations[lost]
                mine = covered[self.plan.of_op[covered] == number]
                self.lid_offset[mine[np.isin(pair[mine], lost_pairs)]] = 0
        pair = hosts[workload.rank[self._later]].astype(np.int64) * fabric.num_hosts
        pair += hosts[workload.peer[self._later]]
        #: int64: routes that the simulation needs besides those of `lid_offset`; see `bind`.
        self.further_pairs = (pair << self.routes.lmc) + offset[self._later]
        self._later_route = np.zeros(0, dtype=np.int32)
        self._changes: list[tuple[float, NewPaths]] = []
        self._workload = workload
        self._scheduler = Scheduler(
            key_network(fabric), choice=rules.choice, criterion=rules.criterion,
            latency_ns=rules.latency_ns, service_ns=rules.service_ns,
        )  # fmt: skip
        for key in self.plan.keys if rules.scheduled else ():
            columns: tuple[NDArray[np.int32], ...] = ()
            if rules.choice == "installed":
                columns = tuple(alternatives(key, rules.alternatives, seed))
            self._scheduler.handle(Place(0.0, key, columns))
        #: int32 operations, by number and instance of a key: its requests, and its messages.
        self._requests = self._grouped(workload.kind == Kind.KEY_REQUEST)
        self._messages = self._grouped(is_message & (self.plan.of_op >= 0))
        #: Number and present instance of each key, by name.
        self._requested: dict[str, tuple[int, int]] = {}
        self._routes: dict[tuple[int, int], NDArray[np.int32]] = {}

    def _grouped(self, chosen: NDArray[np.bool_]) -> dict[tuple[int, int], NDArray[np.int32]]:
        """Return the chosen operations of each key and instance, in ascending order."""
        ops = np.flatnonzero(chosen).astype(np.int32)
        if not len(ops):
            return {}
        pairs = np.stack((self.plan.of_op[ops], self.plan.instance[ops]))
        order = np.lexsort((ops, pairs[1], pairs[0]))
        names, first = np.unique(pairs[:, order], axis=1, return_index=True)
        parts = zip(names.T.tolist(), np.split(ops[order], first[1:]), strict=True)
        return {(number, instance): part for (number, instance), part in parts}

    def mark(self, sends: NDArray[np.uint8], left: NDArray[Any]) -> None:
        """Mark requests and returns for the scheduler, and requests that wait for no answer.

        `sends`, `left`: as in `weft.kernels.program.state.Ranks`; changed.
        """
        if not self.rules.scheduled:
            return
        keyed = np.flatnonzero(self._workload.kind >= Kind.KEY_REQUEST)
        manager = self.plan.manager[self.plan.of_op[keyed]]
        sends[keyed[self._workload.rank[keyed] == manager]] = REQUEST
        if self.rules.before == "base":
            left[self._workload.kind == Kind.KEY_REQUEST] = 0

    @property
    def next_change_ns(self) -> float:
        """Time of the next change of paths or decision; infinite if none is known."""
        return min([time for time, _ in self._changes] + [self._scheduler.next_decision_ns])

    def due(self, now_ns: float) -> tuple[list[NewPaths], Answers]:
        """Return the changes of paths up to the present time, and the answers as in `answer`."""
        ends: Answers = []
        while (decision_ns := self._scheduler.next_decision_ns) <= now_ns:
            ends += self._handle(Tick(decision_ns))
        changes = [paths for time, paths in self._changes if time <= now_ns]
        self._changes = [each for each in self._changes if each[0] > now_ns]
        return changes, ends

    def answer(self, ops: list[int], now_ns: float, arrived: NDArray[Any]) -> Answers:
        """Handle requests and returns of keys that have just started; see `mark`.

        `ops`: operations, in the order in which they started. `arrived` [ops]: time at which each
        message arrived, below 0 if it has not.

        Returns requests, int32 [ranks], and the time at which they end.
        """
        ends: Answers = []
        plan, workload = self.plan, self._workload
        # The simulators round times to their units.
        now_ns = max(now_ns, self._scheduler.now_ns)
        none = np.zeros(0, dtype=np.int32)
        for op in ops:
            number, instance = int(plan.of_op[op]), int(plan.instance[op])
            name = plan.keys[number].name
            if workload.kind[op] == Kind.KEY_DONE:
                ends += self._handle(Done(now_ns, name))
                continue
            before = self._messages.get((number, instance - self.copies), none)
            if np.any(arrived[before] < 0):
                raise InputError(
                    f"{workload.describe(op)}: messages of this key, sent {self.copies} requests "
                    "earlier, are under way; end each phase with a barrier before the key's return"
                )
            self._requested[name] = (number, instance)
            ends += self._handle(Request(now_ns, name))
        return ends

    def _handle(self, event: Event) -> Answers:
        """Pass an event to the scheduler, and record the changes of paths that it decides."""
        ends: Answers = []
        for grant in self._scheduler.handle(event):
            number, instance = self._requested[grant.name]
            assert grant.column is not None  # keys of a workload have columns
            paths = self._paths(number, instance, grant.column)
            # If no message is sent until the answer arrives, paths may change before that.
            waits = self.rules.before == "wait"
            self._changes.append((event.time_ns if waits else grant.time_ns, paths))
            if waits:
                ends.append((self._requests[number, instance], grant.time_ns))
        return ends

    def bind(self, pairs: NDArray[np.int64], num_hosts: int) -> None:
        """Record the numbers that the simulation gives to the routes of the keys.

        `pairs` [routes], ascending: source host x number of hosts + destination host, shifted by
        the LMC of `routes`, plus the LID offset.
        """
        self._later_route = np.searchsorted(pairs, self.further_pairs).astype(np.int32)
        for number, key in enumerate(self.plan.keys):
            hosts = key.sources.astype(np.int64) * num_hosts + key.destinations
            for copy in range(self.copies):
                wanted = (hosts << self.routes.lmc) + 1 + number * self.copies + copy
                at = np.searchsorted(pairs, wanted)
                known = at < len(pairs)
                known[known] = pairs[at[known]] == wanted[known]
                self._routes[number, copy] = np.where(known, at, -1).astype(np.int32)

    def _paths(self, number: int, instance: int, column: NDArray[np.int32]) -> NewPaths:
        key = self.plan.keys[number]
        begin, edges = key.paths_on(column)
        route = self._routes[number, instance % self.copies]
        used = np.flatnonzero((route >= 0) & (np.diff(begin) > 0))
        length = np.diff(begin)[used]
        starts = np.cumsum(length) - length
        index = np.repeat(begin[used] - starts, length) + np.arange(int(length.sum()))
        later = np.zeros(0, dtype=np.int64)
        if len(self._later) and (number, instance) in self._messages:
            later = np.searchsorted(self._later, self._messages[number, instance])
        return NewPaths(
            route[used], length, key.fabric.graph.edge_link[edges[index]],
            self._later[later], self._later_route[later],
        )  # fmt: skip
