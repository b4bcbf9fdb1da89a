"""Ledgers with made keys, and their whole state as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.serve_services import SETTINGS, the_fabric
from weft.sim.keys.network import key_network
from weft.subnet.service import makers
from weft.subnet.service.ledger import Announced, Decision, Event, Ledger, Made, WhileMissing
from weft.subnet.service.log import answer_json, pack_key

#: Ranks of the flows of each phase of four hosts.
PHASES = {"p": ((0, 1), (2, 3)), "q": ((2, 3), (0, 1))}
HOSTS = {"a": (0, 1, 4, 5), "b": (2, 3, 6, 7)}


def new_ledger(while_missing: WhileMissing = "wait") -> Ledger:
    """Return an empty ledger."""
    return Ledger(key_network(the_fabric()), while_missing=while_missing)


def replay(ledger: Ledger, log: Iterable[tuple[Event, str]]) -> tuple[int, int]:
    """Handle the events of a log; return their number, and that of other decisions than its."""
    decisions = [(answer_json(ledger.handle(event)), decision) for event, decision in log]
    return len(decisions), sum(made != recorded for made, recorded in decisions)


def made(time_ns: int, application: str, phase: str) -> Made:
    """Return the event that the key of a phase is installed."""
    makers.initialise(the_fabric(), SETTINGS)
    hosts = np.array(HOSTS[application], dtype=np.int32)
    sources, destinations = (hosts[list(ends)] for ends in PHASES[phase])
    (key,) = makers.make({phase: (sources, destinations)}, (), 0)
    assert isinstance(key, makers.MadeKey)
    return Made(time_ns, application, phase, key.key, key.base)


def placed(application: str, time_ns: int = 1) -> list[Event]:
    """Return the events that place an application and make its keys."""
    announced = Announced(time_ns, application, HOSTS[application], PHASES)
    return [announced, *(made(time_ns, application, phase) for phase in PHASES)]


def handled(ledger: Ledger, *events: Event) -> list[tuple[Event, Decision]]:
    """Handle events; return them with the answers, as a store records them."""
    return [(event, ledger.handle(event)) for event in events]


def state_of(ledger: Ledger) -> dict[str, Any]:
    """Return all that a ledger knows, as values that compare."""
    return {
        "grants": list(ledger.grants.items()),
        "loads": ledger.loads.tolist(),
        "base": ledger.base_loads.tolist(),
        "taken": dict(ledger._taken),
        "scheduled": {name: each.alternative for name, each in ledger._scheduler.granted.items()},
        "known": sorted(ledger._scheduler.keys),
        "applications": [
            (
                each.name, each.hosts.tolist(), each.since_ns,
                [
                    (
                        phase.name, phase.sources.tolist(), phase.destinations.tolist(),
                        phase.state, phase.generation, phase.reason,
                        phase.key and pack_key(phase.key), phase.base and pack_key(phase.base),
                    )
                    for phase in each.phases.values()
                ],
            )
            for each in ledger.applications.values()
        ],
    }  # fmt: skip
