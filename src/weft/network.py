"""A network for other simulators: messages go in, the times of their arrival come out.

The network answers at the flow level, one message after the other: messages that are sent later
change the rates of those under way. So a simulator of applications, such as ASTRA-sim or ATLAHS,
needs no model of its own of topology, routing and contention.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.signals import raise_deferred
from weft.core.units import MAX_BYTES
from weft.fabrics import Fabric, check_fabric
from weft.kernels.flow import engine as kernel
from weft.kernels.parts import renewed
from weft.kernels.program.operations import LOCAL
from weft.routing.routes import Routes
from weft.sim.common.host_parameters import NO_OVERHEAD
from weft.sim.common.programs import overhead_of
from weft.sim.flow.engine import LAYING, NO_LIMIT, FlowState
from weft.sim.flow.network import Network, lay_routes
from weft.sim.options import RunSettings
from weft.workload.workload import Kind, Workload

__all__ = ["Completion", "FlowNetwork"]

#: Number of messages for which there is room at first; the room for links is larger.
_ROOM = 4096
#: Instants after which Python handles signals.
_INSTANTS = 2**20
#: Mark in `Ranks.arrived` of a message whose completion is known.
_KNOWN = -2.0
#: Arrays of `Network` with a value for each route.
_OF_ROUTE = ("route_latency_ns", "route_rate_bytes_per_ns", "route_source", "route_destination")


class Completion(NamedTuple):
    """The arrival of a message: its number, and the time of its last byte in ns."""

    message: int
    time_ns: float


class FlowNetwork:
    """A fabric that carries messages at the flow level, while others simulate what sends them.

    Messages behave like the puts of a workload in `weft.simulate`: those of a pair of hosts depart
    one after the other, in the order of their calls of `send`.

    Parameters
    ----------
    fabric, routes
        The fabric and its routes.
    options
        Settings of the flow level, as of `weft.simulate`. Those that need to know all messages are
        refused: `multipath` ``hash``, a policy with keys, and routes with intermediates without
        `minimal_share`; `sharing` is ``maxmin``.

    Raises
    ------
    InputError
        If an option is unknown or refused, or a value is invalid.

    Examples
    --------
    >>> import weft
    >>> fabric = weft.fabric("xgft:2;4,4;1,4")
    >>> network = FlowNetwork(fabric, weft.route(fabric, "dmodk"), latency_ns=1000)
    >>> network.send(0.0, 0, 15, 1_000_000), network.send(0.0, 1, 15, 1_000_000)
    (0, 1)
    >>> network.next_completion()
    Completion(message=0, time_ns=81000.0)
    """

    def __init__(self, fabric: Fabric, routes: Routes, **options: Any):
        check_fabric(fabric)
        settings = RunSettings.at("flow", options)
        self._options = {**settings.flow, "max_time_ns": None}
        routes.check(fabric)
        if (
            settings.sharing != "maxmin"
            or settings.keys is not None
            or settings.max_time_ns is not None
            or (settings.multipath == "hash" and not routes.settled)
            or (routes.num_intermediates and settings.minimal_share is None)
        ):
            raise InputError(
                "a network does not know later messages: expected sharing maxmin, multipath split, "
                "minimal_share for routes with intermediates, no keys and no max_time_ns"
            )
        self._fabric, self._routes = fabric, routes
        self._now = 0.0
        self._done: deque[Completion] = deque()
        #: Messages that the kernel does not know yet: time, source, pair of hosts, and size.
        self._fresh: list[tuple[float, int, int, int]] = []
        #: Number of each pair of hosts that has sent, and of its route, by source x number of hosts
        #: + destination. The first `_pairs` routes are laid, with `_links` links.
        self._pair_of: dict[int, int] = {}
        self._new_pairs: list[int] = []
        self._pairs = self._links = 0
        weight = np.ones(0 if routes.settled else 8 * _ROOM)
        offset, ones = np.zeros(_ROOM + 1, dtype=np.int64), np.ones((3, _ROOM), dtype=np.int32)
        link, latency = np.zeros(8 * _ROOM, dtype=np.int32), np.ones((2, _ROOM))
        self._laying = {key: self._options[key] for key in LAYING}
        capacity = lay_routes(fabric, routes, [], [], **self._laying).capacity_bytes_per_ns
        self._laid = Network(capacity, offset, link, weight, *latency, *ones[:2])
        #: Messages of the kernel, whose numbers are those of its operations: how many there are,
        #: and how many of the first ones are known to have arrived.
        self._count = self._known = 0
        self._parts: list[Any] = [None] * 4
        self._state = self._new_state(_ROOM)

    @property
    def now_ns(self) -> float:
        """Time to which the network has advanced."""
        return self._now

    def send(self, time_ns: float, source: int, destination: int, size_bytes: int) -> int:
        """Send a message and return its number, counted from 0.

        Parameters
        ----------
        time_ns
            When the message is posted; not before `now_ns`.
        source, destination
            Numbers of hosts.
        size_bytes
            Size of the message.

        Raises
        ------
        InputError
            If the time has passed, a host does not exist, or the size is below 0 or above 2^56.
        """
        hosts = self._fabric.num_hosts
        if not self._now <= time_ns < math.inf:
            raise InputError(f"a message at {time_ns} ns; expected {self._now} ns or later")
        for host in (source, destination):
            if not 0 <= host < hosts:
                raise InputError(f"there is no host {host}; hosts are 0 to {hosts - 1}")
        if not 0 <= size_bytes <= MAX_BYTES:
            raise InputError(f"a message of {size_bytes} bytes; expected 0 to 2^56")
        key = source * hosts + destination
        pair = self._pair_of.get(key)
        if pair is None:
            pair = self._pair_of[key] = len(self._pair_of)
            self._new_pairs.append(key)
        self._fresh.append((time_ns, source, pair, size_bytes))
        return self._count + len(self._fresh) - 1

    def next_completion(self, until_ns: float = math.inf) -> Completion | None:
        """Advance to the next completion and return it; None if there is none by `until_ns`.

        Messages that are sent because of it may have its time. Without a completion, the network
        has advanced to `until_ns`, if that is finite.

        Raises
        ------
        InputError
            If `until_ns` has passed, or a pair of hosts has no path.
        """
        if not self._done:
            self._run(until_ns, int(self._state.ranks.count.arrived) + 1)
        if not self._done or self._done[0].time_ns > until_ns:
            return None
        return self._done.popleft()

    def advance(self, until_ns: float) -> list[Completion]:
        """Advance to a time and return the completions by then, in the order of their times.

        Raises what `next_completion` does.
        """
        self._run(until_ns, NO_LIMIT)
        found = list(self._done)
        self._done.clear()
        return found

    # -- private -----------------------------------------------------------------------------------

    def _run(self, until_ns: float, most_arrivals: int) -> None:
        """Advance to a time, or to the end of the instant that completes a number of arrivals."""
        if not until_ns >= self._now:
            raise InputError(f"time {until_ns} ns has passed; the network is at {self._now} ns")
        self._lay()
        self._post()
        rules, count = self._state.level.rules, self._state.ranks.count
        rules.max_time_ns, rules.most_arrivals = until_ns, most_arrivals
        while kernel.run(*self._kernels(), _INSTANTS) == kernel.MORE:
            raise_deferred()
            if count.arrived >= most_arrivals:
                break
        arrived = self._state.ranks.arrived[self._known : self._count]
        found = np.flatnonzero(arrived >= 0)
        if len(found):
            times = arrived[found]
            order = np.argsort(times, kind="stable")
            numbers = (self._known + found[order]).tolist()
            self._done.extend(map(Completion, numbers, times[order].tolist()))
            arrived[found] = _KNOWN
            self._known += int(np.argmin(np.append(arrived, 0.0) == _KNOWN))
            self._now = max(self._now, self._done[-1].time_ns)
        if until_ns < math.inf and count.arrived < most_arrivals:
            self._now = until_ns

    def _kernels(self) -> list[Any]:
        """Return the state as kernels take it."""
        states = (self._state.ranks, self._state.level, *self._state.sharing)
        self._parts = [*map(renewed, self._parts, states)]
        return self._parts

    def _lay(self) -> None:
        """Lay the routes of the pairs of hosts that have not sent before."""
        if not self._new_pairs:
            return
        keys = np.array(self._new_pairs, dtype=np.int64)
        source, target = np.divmod(keys, self._fabric.num_hosts)
        apart = np.flatnonzero(self._fabric.apart(source, target))
        fresh = lay_routes(self._fabric, self._routes, source[apart], target[apart], **self._laying)
        hops = np.zeros(len(keys), dtype=np.int64)  # none within a machine
        hops[apart] = np.diff(fresh.route_offset)
        begin, end = self._pairs, self._pairs + len(keys)
        links = self._links + len(fresh.route_link)
        laid, state = self._laid, self._state
        room, link_room = len(laid.route_source), len(laid.route_link)
        # A link behind the last one belongs to the routes that are not laid yet.
        full = end > room or links >= link_room
        if full:
            room, link_room = max(2 * end, room), max(2 * links, link_room)
            sizes = {"route_offset": room + 1, "route_link": link_room}
            if len(laid.route_share):
                sizes["route_share"] = link_room
            sizes |= dict.fromkeys(_OF_ROUTE, room)
            arrays: Any = {name: getattr(laid, name) for name in sizes}
            for name, n in sizes.items():
                arrays[name] = np.pad(arrays[name], (0, n - len(arrays[name])), constant_values=1)
            self._laid = laid = replace(laid, **arrays)
        laid.route_offset[begin : end + 1] = self._links + np.cumsum([0, *hops])
        laid.route_link[self._links : links] = fresh.route_link
        if len(laid.route_share):
            laid.route_share[self._links : links] = (
                fresh.route_share if len(fresh.route_share) else 1
            )
        for name in _OF_ROUTE:
            getattr(laid, name)[begin + apart] = getattr(fresh, name)
        self._pairs, self._links = end, links
        self._new_pairs.clear()
        if full or hops.max() > 1 << state.sharing[0].count.shift:
            self._renew(0)
        else:
            rate = state.level.paths.source_rate_bytes_per_ns
            rate[begin + apart] = fresh.source_rate_bytes_per_ns

    def _post(self) -> None:
        """Pass the messages that have been sent to the kernel."""
        more = len(self._fresh)
        if not more:
            return
        if self._count + more > len(self._size):
            self._renew(more)
        new = slice(self._count, self._count + more)
        ranks, offset = self._state.ranks, self._laid.route_offset
        time, source, pair, size = (np.array(each) for each in zip(*self._fresh, strict=True))
        self._release[new], self._size[new], ranks.program.rank[new] = time, size, source
        if self._options["overhead"] != NO_OVERHEAD:
            takes, latency = overhead_of(size, self._options["overhead"])
            ranks.program.duration[new] = takes
            if len(ranks.program.latency):
                ranks.program.latency[new] = latency
        ranks.program.route[new] = np.where(offset[pair] == offset[pair + 1], LOCAL, pair)
        ranks.copy_pair[new] = self._state.level.pairs.pair_of[new] = pair
        self._count += more
        self._fresh.clear()
        kernel.post(self._kernels()[0], new.start, new.stop)

    def _renew(self, more: int) -> None:
        """Make a state with room for further messages and all pairs, and copy what there is."""
        old, room, count = self._state, len(self._size), self._count
        before = self._release, self._size
        self._state = new = self._new_state(2 * room + more if count + more > room else room)
        ours, theirs = (_arrays((s.ranks, s.level.pairs, s.level.flows)) for s in (new, old))
        for to, of in chain(
            zip((self._release, self._size), before, strict=True), zip(ours, theirs, strict=True)
        ):
            if to.flags.writeable:
                to[: len(of)] = of
        for to, of in (
            (new.ranks.count, old.ranks.count),
            (new.ranks.heap.size, old.ranks.heap.size),
            (new.level.count, old.level.count),
        ):
            for name in of.dtype.names:
                to[name] = of[name]
        kernel.share_again(*self._kernels()[:3])

    def _new_state(self, room: int) -> FlowState:
        """Return a state at time 0 with room for messages, which are puts of the hosts."""
        self._release, self._size = np.zeros(room), np.zeros(room, dtype=np.int64)
        none, zero = np.zeros(0, dtype=np.int32), np.zeros(room, dtype=np.int32)
        workload = Workload(
            name="network", op_offset=np.repeat([0, room], [self._fabric.num_hosts, 1]),
            kind=np.full(room, Kind.PUT, dtype=np.uint8), peer=zero, size_bytes=self._size[:],
            tag=zero, comm=zero, duration_ns=np.zeros(room), phase=zero, phase_names=("",),
            dep_offset=np.zeros(room + 1, dtype=np.int64), dep=none,
            dep_on_start=none.astype(np.bool_), match=zero - 1, release_ns=self._release[:],
            cpu=none.astype(np.uint8),
        )  # fmt: skip
        self._laid.route_offset[self._pairs + 1 :] = self._links  # routes of later pairs are empty
        pairs = len(self._laid.route_source)
        state = FlowState.of(workload, self._laid, zero - 1, zero.copy(), pairs, 1, self._options)
        state.ranks.count.ready_tail = 0
        free = np.zeros(self._fabric.num_endpoints)
        return replace(
            state,
            ranks=state.ranks._replace(copied_until=np.zeros(pairs)),
            level=state.level._replace(pairs=state.level.pairs._replace(adapter_free_ns=free)),
        )


def _arrays(state: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays of named tuples, in order."""
    for part in state:
        if isinstance(part, tuple):
            yield from _arrays(part)
        elif isinstance(part, np.ndarray):
            yield part
