"""Choices by how much each candidate has to send."""

from __future__ import annotations

from weft.kernels import packet_route as kernel
from weft.sim.packet.policies.base import Policy, policy


@policy("adaptive")
def adaptive() -> Policy:
    """Each packet takes the candidate with the least to send: credits taken and packets queued."""
    return Policy(kernel.ADAPTIVE, reorders=True)
