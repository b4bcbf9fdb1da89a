"""What chooses the path of a packet where nothing else is said."""

from __future__ import annotations

from collections.abc import Container

from weft.routing import engine as engines

#: Policy of routes without a choice.
NO_CHOICE = "deterministic"


def usual_of(engine: str, policies: Container[str]) -> str:
    """Return the default policy of candidates.

    It is the engine's own (fact ``policy``) or that with the name of the engine, else ecmp.
    """
    name = engine.partition(":")[0]
    if name in engines.names():
        name = engines[name].facts.get("policy", name)
    return name if name in policies else "ecmp"
