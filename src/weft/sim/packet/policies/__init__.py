"""Policies: which candidate a packet takes where its routes leave a choice; one file for each."""

from weft.sim.packet.policies.policy_registry import Policy, bind, choice_of, loop, policy

__all__ = ["Policy", "bind", "choice_of", "loop", "policy"]
