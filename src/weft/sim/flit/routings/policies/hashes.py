"""Oblivious policies: a hash of the pair of endpoints, or a random draw for each packet."""

from __future__ import annotations

from weft.kernels.flit.routing.candidates import by_hash, drawn
from weft.sim.flit import policy
from weft.sim.flit.routings.policies.policy_registry import FlitPolicy


@policy("ecmp")
def ecmp() -> FlitPolicy:
    """Each router sends all packets of a pair of endpoints to one candidate, chosen by a hash."""
    return FlitPolicy(by_hash)


@policy("spray")
def spray() -> FlitPolicy:
    """Each packet takes a candidate drawn at random."""
    return FlitPolicy(drawn)
