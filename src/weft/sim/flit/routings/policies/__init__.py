"""Policies of the flit level, one file for each idea: rules that choose among candidates.

A file with a function adds a policy, with kernels as in `weft.kernels.flit.routing.candidates`::

    @policy("first")
    def first_of_all() -> FlitPolicy:
        return FlitPolicy(pick=lowest)
"""

from weft.sim.flit import policy
from weft.sim.flit.routings.policies.policy_registry import FlitPolicy, bind

__all__ = ["FlitPolicy", "bind", "policy"]
