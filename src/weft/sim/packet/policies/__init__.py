"""Policies: which candidate a packet takes where its routes leave a choice; one file for each."""

from weft.sim.packet.policies.base import Policy, bind, choice_of, policy

__all__ = ["Policy", "bind", "choice_of", "policy"]
