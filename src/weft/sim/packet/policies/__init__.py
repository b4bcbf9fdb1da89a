"""Policies: which candidate a packet takes where its routes leave a choice; one file for each."""

from weft.sim.packet.policies.base import Policy, bind, policy, state_of

__all__ = ["Policy", "bind", "policy", "state_of"]
