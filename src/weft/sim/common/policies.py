"""What chooses the path of a packet where nothing else is said."""

from __future__ import annotations

from collections.abc import Container

#: Policy of routes without a choice.
NO_CHOICE = "deterministic"


def usual_of(engine: str, policies: Container[str]) -> str:
    """Return the default policy of candidates: that with the name of their engine, else ecmp."""
    name = engine.partition(":")[0]
    return name if name in policies else "ecmp"
