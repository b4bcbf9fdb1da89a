"""The scheduler of routing keys: a state machine without clock or network.

It takes events and returns decisions. The simulators call it while they run. Its log of events can
be replayed, even by a scheduler with other rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import one_of
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.kernels.keys.assignment import add_flows
from weft.sim.keys.alternatives import Alternatives, InstalledKey
from weft.sim.keys.choice import Choice, Criterion, chosen_columns
from weft.sim.keys.network import KeyNetwork
from weft.sim.keys.routing_key import RoutingKey


@dataclass(frozen=True, eq=False)
class Place:
    """A key is made for a phase of an application that has been placed."""

    #: Time of the event.
    time_ns: float
    #: The key; an `InstalledKey` only with ``choice="installed"``.
    key: RoutingKey | InstalledKey
    #: Columns of each alternative of a `RoutingKey` that is installed, for ``choice="installed"``;
    #: by default only the key's own.
    columns: tuple[NDArray[np.int32], ...] = ()
    #: Name of the key in the scheduler; by default its own.
    name: str = ""


@dataclass(frozen=True)
class Request:
    """A phase begins and asks for its key (RODRequest)."""

    time_ns: float
    name: str


@dataclass(frozen=True)
class Done:
    """A phase has ended and returns its key (RODDone)."""

    time_ns: float
    name: str


@dataclass(frozen=True)
class Leave:
    """An application has ended; one of its keys is removed."""

    time_ns: float
    name: str


@dataclass(frozen=True)
class Tick:
    """Time has passed; requests that are due by now are decided."""

    time_ns: float


Event = Place | Request | Done | Leave | Tick


@dataclass(frozen=True, eq=False)
class SchedulerGrant:
    """Answer to a request."""

    #: When the answer reaches the application.
    time_ns: float
    #: Name of the key.
    name: str
    #: int32 [flows, stages]: the paths, as `RoutingKey.column`; None for an `InstalledKey`.
    column: NDArray[np.int32] | None
    #: Number of the alternative with these paths; -1 unless the choice is ``installed``.
    alternative: int = -1


class Scheduler:
    """Grants routing keys, each on switches that are chosen with regard to the keys in use.

    The time of an event is that at which an application sends it; all arrive after one latency.
    A request is decided when the scheduler begins to handle it, with the keys that are in use then.

    `choice`, `criterion`: as for `weft.sim.keys.choice.chosen_columns`; or the choice
    ``installed``, the best alternative of those that forwarding tables hold, the first of equals.
    `latency_ns`: latency of a message between an application and the scheduler, in each direction.
    `service_ns`: time that the scheduler takes for one request; requests wait in order of arrival.
    `keep_log`: whether to keep the events for `replay`.
    """

    def __init__(
        self,
        network: KeyNetwork,
        *,
        choice: Choice = "shift",
        criterion: Criterion = "max",
        latency_ns: float = 0.0,
        service_ns: float = 0.0,
        keep_log: bool = True,
    ) -> None:
        one_of(choice, get_args(Choice), "choice")
        one_of(criterion, get_args(Criterion), "criterion")
        for what, time_ns in (("latency", latency_ns), ("service time", service_ns)):
            if not 0 <= time_ns < np.inf:
                raise InputError(f"the {what} of a scheduler must be at least 0 ns, not {time_ns}")
        self.network = network
        self.choice: Choice = choice
        self.criterion: Criterion = criterion
        self.latency_ns = latency_ns
        self.service_ns = service_ns
        #: Number of flows on each link, as `RoutingKey.loads`.
        self.loads = np.zeros(len(network.edge), dtype=np.int32)
        #: Sum of their demands (`RoutingKey.demand`) on each link; 0 except with ``first-fit``.
        self.reserved = np.zeros(len(network.edge), dtype=np.int64)
        #: Events handled so far, in order, for `replay`.
        self.log: list[Event] = []
        self._keep_log = keep_log
        self.keys: dict[str, RoutingKey | InstalledKey] = {}
        #: Grants of the keys that are in use.
        self.granted: dict[str, SchedulerGrant] = {}
        self._alternatives: dict[str, Alternatives] = {}
        #: Time of the last event.
        self.now_ns = 0.0
        self._free_ns = 0.0
        self._waiting: deque[Request] = deque()
        self._decided: list[SchedulerGrant] = []

    @property
    def next_decision_ns(self) -> float:
        """Time at which the next waiting request is decided; infinite if none waits."""
        if not self._waiting:
            return np.inf
        return max(self._waiting[0].time_ns, self._free_ns - self.latency_ns)

    def handle(self, event: Event) -> list[SchedulerGrant]:
        """Handle an event, after making the decisions that are due before it.

        A `Done` or `Leave` before the decision withdraws the request.

        Returns the answers to the requests that have been decided, in order.
        """
        if not self.now_ns <= event.time_ns < np.inf:
            raise InputError(
                f"the event at {event.time_ns:g} ns must be finite and not earlier than the one "
                f"before, at {self.now_ns:g} ns"
            )
        self._decide(event.time_ns)
        match event:
            case Place():
                self._place(event)
            case Request():
                self._request(event)
            case Done():
                self._release(event.name)
            case Leave():
                self._known(event.name)
                if self._uses(event.name):
                    self._release(event.name)
                del self.keys[event.name]
                self._alternatives.pop(event.name, None)
        self.now_ns = event.time_ns
        if self._keep_log:
            self.log.append(event)
        self._decide(event.time_ns)
        decided, self._decided = self._decided, []
        return decided

    def replay(self, log: Iterable[Event]) -> list[SchedulerGrant]:
        """Handle recorded events, for example those of a scheduler with another `choice`.

        Returns the answers to the requests, in order.
        """
        return [grant for event in log for grant in self.handle(event)]

    def _place(self, event: Place) -> None:
        key, name = event.key, event.name or event.key.name
        if isinstance(key, InstalledKey):
            if self.choice != "installed":
                raise InputError(
                    f"key {key.name} has alternatives only; expected the choice installed, not "
                    f"{self.choice}"
                )
        elif key.fabric.digest != self.network.fabric.digest:
            raise InputError(
                f"key {key.name} is for another fabric than {self.network.fabric.name}"
            )
        if name in self.keys:
            raise InputError(f"there is already a key {name}; expected a new name")
        if self.choice == "installed":
            self._alternatives[name] = Alternatives.of(self.network, key, event.columns)
        self.keys[name] = key

    def alternatives(self, name: str) -> Alternatives:
        """Return what each alternative of a key adds to the loads; for the choice ``installed``."""
        return self._alternatives[name]

    def restore(self, name: str, alternative: int) -> None:
        """Put a key into use with an alternative that was granted before, without a decision."""
        self._known(name)
        known = self._alternatives.get(name)
        if known is None or not 0 <= alternative < known.count or self._uses(name):
            raise InputError(f"key {name} cannot be granted with alternative {alternative} again")
        self._grant(name, self.now_ns, alternative)

    def _uses(self, name: str) -> bool:
        return name in self.granted or any(request.name == name for request in self._waiting)

    def _grant(self, name: str, time_ns: float, alternative: int) -> SchedulerGrant:
        """Add the loads of an alternative, and record it as granted."""
        known = self._alternatives[name]
        known.add(alternative, 1, self.loads)
        column = known.columns[alternative] if known.columns else None
        grant = self.granted[name] = SchedulerGrant(time_ns, name, column, alternative)
        return grant

    def _request(self, event: Request) -> None:
        self._known(event.name)
        if self._uses(event.name):
            raise InputError(f"key {event.name} is in use or requested; return it first")
        self._waiting.append(event)

    def _decide(self, now_ns: float) -> None:
        while self.next_decision_ns <= now_ns:
            request = self._waiting.popleft()
            begin_ns = max(request.time_ns + self.latency_ns, self._free_ns)
            self._free_ns = begin_ns + self.service_ns
            answer_ns = self._free_ns + self.latency_ns
            if self.choice == "installed":
                known = self._alternatives[request.name]
                best = known.best(self.loads, self.network.weight, self.criterion == "max")
                self._decided.append(self._grant(request.name, answer_ns, best))
                continue
            key = self.keys[request.name]
            assert isinstance(key, RoutingKey)  # as checked when it was placed
            loads = self.reserved if self.choice == "first-fit" else self.loads
            column = chosen_columns(key, loads, self.choice, self.criterion)
            self._add(key, column, 1)
            grant = self.granted[request.name] = SchedulerGrant(answer_ns, request.name, column)
            self._decided.append(grant)

    def _release(self, name: str) -> None:
        key = self._known(name)
        if not self._uses(name):
            raise InputError(f"key {name} is returned, but it is not in use")
        if name in self.granted:
            grant = self.granted.pop(name)
            if name in self._alternatives:
                self._alternatives[name].add(grant.alternative, -1, self.loads)
            else:
                assert isinstance(key, RoutingKey)
                assert grant.column is not None
                self._add(key, grant.column, -1)
        else:
            self._waiting = deque(each for each in self._waiting if each.name != name)

    def _known(self, name: str) -> RoutingKey | InstalledKey:
        if name not in self.keys:
            raise InputError(f"there is no key {name}{did_you_mean(name, list(self.keys))}")
        return self.keys[name]

    def _add(self, key: RoutingKey, column: NDArray[np.int32], sign: int) -> None:
        common = (self.network.stages, *key.subtrees)
        add_flows(*common, key.depth, column, sign, self.loads)
        if self.choice == "first-fit":
            for demand in np.unique(key.demand).tolist():
                depth = np.where(key.demand == demand, key.depth, np.int32(0))
                add_flows(*common, depth, column, sign * demand, self.reserved)
