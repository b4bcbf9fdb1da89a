"""Policies, one file each: rules that choose among the candidates of a packet."""

from weft.sim.packet.policies.policy_registry import Policy, bind, policy

__all__ = ["Policy", "bind", "policy"]
