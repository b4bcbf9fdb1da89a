"""Oblivious policies: no choice, a hash of the queue pair, or a random draw for each packet."""

from __future__ import annotations

import numpy as np

from weft.core.errors import InputError
from weft.kernels.lean import part_njit
from weft.kernels.packet.choice import draw
from weft.sim.packet.policies.policy_registry import Policy, policy


@part_njit()
def by_hash(net, kept, slot, row, flow, first, several, now):
    """Return one candidate for all packets of a connection."""
    return draw(net.rules.seed, flow, row, several)


@part_njit()
def drawn(net, kept, slot, row, flow, first, several, now):
    """Return a candidate drawn for this packet."""
    return draw(net.rules.seed, np.int64(net.calendar.packets[slot].serial), row, several)


@policy("deterministic")
def deterministic() -> Policy:
    """No choice: each packet follows the one path of its routes."""
    return Policy()


@policy("ecmp", choose=by_hash, fixed=True)
def ecmp() -> Policy:
    """Each node sends all packets of a queue pair to one candidate, chosen by a hash."""
    return Policy()


@policy("e-ecmp", choose=by_hash, fixed=True)
def e_ecmp(*, qps: int = 4) -> Policy:
    """ECMP with several queue pairs for each pair of ranks, which messages use round robin.

    Parameters
    ----------
    qps
        Number of queue pairs of each pair of ranks.
    """
    if not 1 <= qps <= 1024:
        raise InputError(f"qps must be 1 to 1024, not {qps}")
    return Policy(queue_pairs=qps)


@policy("spray", choose=drawn)
def spray() -> Policy:
    """Each packet takes a candidate drawn at random."""
    return Policy(reorders=True)
