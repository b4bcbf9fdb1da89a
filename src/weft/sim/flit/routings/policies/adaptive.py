"""Adaptive policy: choose the least loaded candidate."""

from __future__ import annotations

from weft.kernels.flit.routing.candidates import least_loaded
from weft.sim.flit.routings.policies.policy_registry import Policy, policy


@policy("adaptive")
def adaptive() -> Policy:
    """Each packet takes the least loaded candidate, chosen anew in each cycle while it waits."""
    return Policy(least_loaded, adaptive=True)
