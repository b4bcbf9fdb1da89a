"""Adaptive policy: choose the least loaded candidate."""

from __future__ import annotations

from weft.kernels.flit.routing.candidates import least_loaded
from weft.sim.flit import policy
from weft.sim.flit.routings.policies.policy_registry import FlitPolicy


@policy("adaptive")
def adaptive() -> FlitPolicy:
    """Each packet takes the least loaded candidate, chosen anew in each cycle while it waits."""
    return FlitPolicy(least_loaded, adaptive=True)
