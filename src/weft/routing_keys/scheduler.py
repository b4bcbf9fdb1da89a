"""The scheduler of routing keys: a state machine without clock or network.

Events go in, decisions come out. The simulators call it while they run. Its log can be replayed,
also by a scheduler with other rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.kernels.keys.assignment import add_flows
from weft.routing_keys.choice import Choice, Criterion, chosen_columns
from weft.routing_keys.network import KeyNetwork
from weft.routing_keys.routing_key import RoutingKey


@dataclass(frozen=True, eq=False)
class Place:
    """A key is made for a phase of an application that has been placed."""

    time_ns: float
    key: RoutingKey


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
    """An application has ended: its key is dropped."""

    time_ns: float
    name: str


Event = Place | Request | Done | Leave


@dataclass(frozen=True, eq=False)
class Grant:
    """Answer to a request.

    Parameters
    ----------
    time_ns
        When the answer reaches the application.
    name
        Name of the key.
    column
        int32 [flows, stages]: the paths, as `RoutingKey.column`.
    """

    time_ns: float
    name: str
    column: NDArray[np.int32]


class Scheduler:
    """Grants routing keys, each on the switches that suit the keys in use at that time.

    Parameters
    ----------
    network
        The network of all keys.
    choice, criterion
        As for `weft.routing_keys.choice.chosen_columns`.
    latency_ns
        Time of a message between an application and the scheduler, in each direction.
    service_ns
        Time in which the scheduler handles one request; requests wait in order of arrival.
    """

    def __init__(
        self,
        network: KeyNetwork,
        *,
        choice: Choice = "shift",
        criterion: Criterion = "max",
        latency_ns: float = 0.0,
        service_ns: float = 0.0,
    ) -> None:
        self.network = network
        self.choice: Choice = choice
        self.criterion: Criterion = criterion
        self.latency_ns = latency_ns
        self.service_ns = service_ns
        #: Flows on each cable direction, as `RoutingKey.loads`.
        self.loads = np.zeros(len(network.edge), dtype=np.int32)
        #: Demands of these flows, as `RoutingKey.demand`; zeros unless the choice is ``first-fit``.
        self.reserved = np.zeros(len(network.edge), dtype=np.int64)
        #: Events handled so far, in order; `replay` gives the decisions again.
        self.log: list[Event] = []
        self.keys: dict[str, RoutingKey] = {}
        #: Columns of the keys that are in use.
        self.granted: dict[str, NDArray[np.int32]] = {}
        self._now_ns = 0.0
        self._free_ns = 0.0

    def handle(self, event: Event) -> Grant | None:
        """Handle an event.

        Returns
        -------
        Grant or None
            The answer to a request.

        Raises
        ------
        InputError
            If the event is earlier than the one before, a name is unknown or not unique, a request
            names a key in use, or a key is returned that is not in use. The state stays as it was.
        """
        if event.time_ns < self._now_ns:
            raise InputError(
                f"the event at {event.time_ns:g} ns is earlier than the one before, at "
                f"{self._now_ns:g} ns"
            )
        grant = None
        match event:
            case Place():
                self._place(event.key)
            case Request():
                grant = self._grant(event)
            case Done():
                self._release(event.name)
            case Leave():
                self._known(event.name)
                if event.name in self.granted:
                    self._release(event.name)
                del self.keys[event.name]
        self._now_ns = event.time_ns
        self.log.append(event)
        return grant

    def replay(self, log: Iterable[Event]) -> list[Grant]:
        """Handle recorded events, for example those of a scheduler with another `choice`.

        Returns
        -------
        list of Grant
            The answers to the requests, in order.

        Raises
        ------
        InputError
            As `handle`.
        """
        return [grant for event in log if (grant := self.handle(event)) is not None]

    def _place(self, key: RoutingKey) -> None:
        if key.fabric.digest != self.network.fabric.digest:
            raise InputError(
                f"key {key.name} is for another fabric than {self.network.fabric.name}"
            )
        if key.name in self.keys:
            raise InputError(f"there is already a key {key.name}; expected a new name")
        self.keys[key.name] = key

    def _grant(self, event: Request) -> Grant:
        key = self._known(event.name)
        if event.name in self.granted:
            raise InputError(f"key {event.name} is in use; it must be returned before a request")
        loads = self.reserved if self.choice == "first-fit" else self.loads
        column = chosen_columns(key, loads, self.choice, self.criterion)
        self._add(key, column, 1)
        self.granted[event.name] = column
        begin = max(event.time_ns + self.latency_ns, self._free_ns)
        self._free_ns = begin + self.service_ns
        return Grant(self._free_ns + self.latency_ns, event.name, column)

    def _release(self, name: str) -> None:
        key = self._known(name)
        if name not in self.granted:
            raise InputError(f"key {name} is returned, but it is not in use")
        self._add(key, self.granted.pop(name), -1)

    def _known(self, name: str) -> RoutingKey:
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
