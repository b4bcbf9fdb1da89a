"""The flit level: routers cycle by cycle."""

from weft.core.registry import Registry

#: Entries are functions of the links of a fabric and of the lanes of a class of traffic that return
#: a `weft.sim.flit.routings.Routing`. The fact `lanes` is the least number of lanes of a class.
routing = Registry(
    "routing", "weft.sim.flit.routings", "weft.flit_routings", pipeline=("links", "lanes"),
    facts=("lanes",),
)  # fmt: skip
#: Entries are functions of options that return a `weft.sim.flit.routings.policies.FlitPolicy`.
policy = Registry("policy", "weft.sim.flit.routings.policies", "weft.flit_policies")
