"""A network for other simulators: messages go in, the times of their arrival come out.

The network answers at the flow level, one message after the other: messages that are sent later
change the rates of those under way. So a simulator of applications, such as ASTRA-sim or ATLAHS,
needs no model of its own of topology, routing and contention.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.signals import raise_deferred
from weft.core.units import MAX_BYTES
from weft.fabrics import Fabric, check_fabric
from weft.kernels.flow import engine as kernel
from weft.kernels.parts import renewed
from weft.kernels.program.events import FREE_NOW, KIND_SHIFT, OPERATION
from weft.kernels.program.operations import LOCAL
from weft.routing.routes import Routes
from weft.sim.flow.engine import NO_LIMIT, FlowState
from weft.sim.flow.network import Network, lay_routes
from weft.sim.options import RunSettings
from weft.workload.workload import Kind, Workload

__all__ = ["Completion", "FlowNetwork"]

#: Least number of operations for which there is room; the room for links is larger.
_ROOM = 4096
#: Instants after which Python handles signals.
_INSTANTS = 2**20
#: Mark in `Ranks.arrived` of an operation whose completion is known.
_KNOWN = -2.0
#: Arrays of `Ranks` with a value for each operation, and of `Flows` with one for each slot.
_OF_MESSAGE = ("posted", "ended", "left", "arrived", "pending", "sends", "copy_pair")
_OF_SLOT = ("left_bytes", "since_ns", "rate", "shared_rate", "end_ns", "block_end_ns", "free")


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
    Completion(message=0, time_ns=161000.0)
    """

    def __init__(self, fabric: Fabric, routes: Routes, **options: Any):
        check_fabric(fabric)
        settings = RunSettings.at("flow", options)
        self._options = {**settings.flow, "max_time_ns": None}
        routes.check(fabric)
        for refused, why in (
            (settings.sharing != "maxmin", f"sharing {settings.sharing!r}; expected maxmin"),
            (settings.keys is not None, f"policy {settings.policy!r}, whose keys need a workload"),
            (
                settings.multipath == "hash" and not routes.settled,
                "multipath 'hash', which numbers all messages; expected split",
            ),
            (
                bool(routes.num_intermediates) and settings.minimal_share is None,
                "no minimal_share, which otherwise depends on all messages",
            ),
            (settings.max_time_ns is not None, "max_time_ns; advance takes a time"),
        ):
            if refused:
                raise InputError(f"a network has {why}")
        self._fabric, self._routes = fabric, routes
        self._now = 0.0
        self._sent = 0
        self._done: deque[Completion] = deque()
        #: Messages that the kernel does not know yet: time, pair of hosts, and size.
        self._fresh: list[tuple[float, int, int]] = []
        #: Number of each pair of hosts that has sent, and of its route, by source x number of hosts
        #: + destination. The first `_pairs` routes are laid, with `_links` links.
        self._pair_of: dict[int, int] = {}
        self._new_pairs: list[int] = []
        self._pairs = self._links = 0
        #: Host that sends, and whether the messages stay in its machine: [pairs].
        self._source = np.zeros(_ROOM, dtype=np.int32)
        self._local = np.zeros(_ROOM, dtype=np.bool_)
        weighted = not routes.settled
        self._laid = Network(
            capacity_bytes_per_ns=fabric.link_rate_gbps / 8.0,
            route_offset=np.zeros(_ROOM + 1, dtype=np.int64),
            route_link=np.zeros(8 * _ROOM, dtype=np.int32),
            route_share=np.ones(8 * _ROOM * weighted),
            route_latency_ns=np.zeros(_ROOM),
            route_rate_bytes_per_ns=np.zeros(_ROOM),
            route_source=np.zeros(_ROOM, dtype=np.int32),
            route_destination=np.zeros(_ROOM, dtype=np.int32),
        )
        self._parts: list[Any] = [None] * 4
        #: Operations of the kernel: their number, and message, time and size of each [room].
        self._count = 0
        self._make_room(_ROOM)
        self._state = self._new_state()

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
        self._fresh.append((time_ns, pair, size_bytes))
        self._sent += 1
        return self._sent - 1

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
        arrived = self._state.ranks.arrived[: self._count]
        found = np.flatnonzero(arrived >= 0)
        if len(found):
            times = arrived[found]
            order = np.lexsort((found, times))
            numbers = self._message[found[order]].tolist()
            self._done.extend(map(Completion, numbers, times[order].tolist()))
            arrived[found] = _KNOWN
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
        begin, end = self._pairs, self._pairs + len(keys)
        source, target = np.divmod(keys, self._fabric.num_hosts)
        apart = np.flatnonzero(self._fabric.apart(source, target))
        laying = ("multipath", "minimal_share", "seed", "ports", "switch_latency_ns", "latency_ns")
        fresh = lay_routes(
            self._fabric, self._routes, source[apart], target[apart],
            **{key: self._options[key] for key in laying},
        )  # fmt: skip
        hops = np.zeros(len(keys), dtype=np.int64)
        hops[apart] = np.diff(fresh.route_offset)
        links = self._links + len(fresh.route_link)
        old, (maxmin, _) = self._laid, self._state.sharing
        # A link behind the last one belongs to the routes that are not laid yet.
        full = end > len(self._local) or links >= len(old.route_link)
        if full:
            pairs, room = max(2 * end, len(self._local)), max(2 * links, len(old.route_link))
            self._source, self._local = _longer(self._source, pairs), _longer(self._local, pairs)
            self._laid = Network(
                old.capacity_bytes_per_ns,
                _longer(old.route_offset, pairs + 1),
                _longer(old.route_link, room),
                _longer(old.route_share, room, 1) if len(old.route_share) else old.route_share,
                _longer(old.route_latency_ns, pairs),
                _longer(old.route_rate_bytes_per_ns, pairs),
                _longer(old.route_source, pairs),
                _longer(old.route_destination, pairs),
            )
        laid, to = self._laid, begin + apart
        laid.route_offset[begin : end + 1] = self._links + np.cumsum([0, *hops])
        laid.route_link[self._links : links] = fresh.route_link
        if len(fresh.route_share):
            laid.route_share[self._links : links] = fresh.route_share
        laid.route_latency_ns[to] = fresh.route_latency_ns
        laid.route_rate_bytes_per_ns[to] = fresh.route_rate_bytes_per_ns
        laid.route_source[to], laid.route_destination[to] = (
            fresh.route_source, fresh.route_destination,
        )  # fmt: skip
        self._source[begin:end], self._local[begin:end] = source, True
        self._local[to] = False
        self._pairs, self._links = end, links
        self._new_pairs.clear()
        if full or hops.max() > 1 << maxmin.count.shift:
            self._reserve(0)
        else:
            paths = self._state.level.paths
            paths.source_rate_bytes_per_ns[to] = fresh.source_rate_bytes_per_ns

    def _post(self) -> None:
        """Pass the messages that have been sent to the kernel."""
        fresh = self._fresh
        if not fresh:
            return
        if self._count + len(fresh) > len(self._message):
            self._reserve(len(fresh))
        begin, end = self._count, self._count + len(fresh)
        time, pair, size = (np.array(each) for each in zip(*fresh, strict=True))
        ranks = self._state.ranks
        self._release[begin:end], self._size[begin:end] = time, size
        ranks.program.rank[begin:end] = self._source[pair]
        ranks.program.route[begin:end] = np.where(self._local[pair], LOCAL, pair)
        ranks.copy_pair[begin:end] = self._state.level.pairs.pair_of[begin:end] = pair
        self._message[begin:end] = np.arange(self._sent - len(fresh), self._sent)
        self._count = end
        fresh.clear()
        kernel.post(self._kernels()[0], begin, end)

    def _reserve(self, more: int) -> None:
        """Make a state with room for further messages and for all pairs; move what is under way.

        Operations keep their order, by which the kernel orders events of equal times.
        """
        old, count = self._state, self._count
        live = np.flatnonzero(old.ranks.arrived[:count] != _KNOWN)
        before = (self._message, self._release, self._size)
        self._make_room(max(_ROOM, 2 * (len(live) + more)))
        self._state = state = self._new_state()
        self._count = len(live)
        new = slice(len(live))
        number = np.zeros(count + 2, dtype=np.int32)  # of operations, all counted from 1
        number[live + 1] = np.arange(1, len(live) + 1)
        ours, theirs = state.ranks, old.ranks
        for to, of in (
            *zip((self._message, self._release, self._size), before, strict=True),
            *((getattr(ours, name), getattr(theirs, name)) for name in _OF_MESSAGE),
            (ours.program.rank, theirs.program.rank),
            (ours.program.route, theirs.program.route),
            (state.level.pairs.pair_of, old.level.pairs.pair_of),
        ):
            to[new] = of[live]
        for to, of in (
            (ours.left_below[new], theirs.left_below[live]),
            (ours.right_below[new], theirs.right_below[live]),
            (ours.first_waiting, theirs.first_waiting),
            (state.level.pairs.last, old.level.pairs.last),
        ):
            to[: len(of)] = number[of]
        events = int(theirs.heap.size.events)
        item = theirs.heap.item[:events]
        moved = item - (item & OPERATION) + number[(item & OPERATION) + 1] - 1
        ours.heap.item[:events] = np.where(item >> KIND_SHIFT == FREE_NOW, item, moved)
        ours.heap.time[:events] = theirs.heap.time[:events]
        flows, left = state.level.flows, old.level.flows
        flows.op[: len(left.op)] = np.maximum(number[left.op + 1] - 1, 0)
        for to, of in (
            *((getattr(flows, name), getattr(left, name)) for name in _OF_SLOT),
            (ours.busy_until, theirs.busy_until),
            (ours.copied_until, theirs.copied_until),
            (state.level.pairs.latest_ns, old.level.pairs.latest_ns),
            (state.level.pairs.adapter_free_ns, old.level.pairs.adapter_free_ns),
        ):
            to[: len(of)] = of
        for to, of in (
            (ours.count, theirs.count),
            (ours.heap.size, theirs.heap.size),
            (state.level.count, old.level.count),
        ):
            for name in of.dtype.names:
                to[name] = of[name]
        ranks, level, maxmin, _ = self._kernels()
        kernel.share_again(ranks, level, maxmin)

    def _make_room(self, room: int) -> None:
        self._message, self._size = np.zeros((2, room), dtype=np.int64)
        self._release = np.zeros(room)

    def _new_state(self) -> FlowState:
        """Return a state at time 0 with room for messages, which are puts of the hosts."""
        hosts, pairs, room = self._fabric.num_hosts, len(self._local), len(self._message)
        none = np.zeros(0, dtype=np.int32)
        zero = np.broadcast_to(np.int32(0), room)
        workload = Workload(
            name="network", op_offset=np.repeat(np.array([0, room]), [hosts, 1]),
            kind=np.full(room, Kind.PUT, dtype=np.uint8), peer=zero, size_bytes=self._size[:],
            tag=zero, comm=zero, duration_ns=np.zeros(room), phase=zero, phase_names=("",),
            dep_offset=np.zeros(room + 1, dtype=np.int64), dep=none,
            dep_on_start=none.astype(np.bool_), match=np.full(room, -1, dtype=np.int32),
            release_ns=self._release[:], cpu=none.astype(np.uint8),
        )  # fmt: skip
        free = np.zeros(self._fabric.num_endpoints)
        self._laid.route_offset[self._pairs + 1 :] = self._links  # routes of later pairs are empty
        route, pair = np.full(room, LOCAL, dtype=np.int32), np.zeros(room, dtype=np.int32)
        state = FlowState.of(workload, self._laid, route, pair, pairs, 1, self._options)
        state.ranks.count.ready_tail = 0
        return replace(
            state,
            ranks=state.ranks._replace(copied_until=np.zeros(pairs)),
            level=state.level._replace(pairs=state.level.pairs._replace(adapter_free_ns=free)),
        )


def _longer(array: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """Return an array with values behind it."""
    return np.concatenate([array, np.full(size - len(array), fill, dtype=array.dtype)])
