"""Choices that know nothing of the network: none, by a hash of the queue pair, or by a draw."""

from __future__ import annotations

from weft.core.errors import InputError
from weft.kernels.packet import choice as kernel
from weft.sim.packet.policies.policy_registry import Policy, policy


@policy("deterministic")
def deterministic() -> Policy:
    """Routes leave no choice."""
    return Policy()


@policy("ecmp")
def ecmp() -> Policy:
    """Each node sends all packets of a queue pair by one candidate, chosen by a hash."""
    return Policy(kernel.ECMP)


@policy("e-ecmp")
def e_ecmp(*, qps: int = 4) -> Policy:
    """ECMP over several queue pairs for each pair of ranks, which take its messages in turn.

    Parameters
    ----------
    qps
        Queue pairs.
    """
    if not 1 <= qps <= 1024:
        raise InputError(f"qps must be 1 to 1024, not {qps}")
    return Policy(kernel.ECMP, queue_pairs=qps)


@policy("spray")
def spray() -> Policy:
    """Each packet takes a candidate drawn for itself."""
    return Policy(kernel.SPRAY, reorders=True)
