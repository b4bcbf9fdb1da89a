"""Decorators that register engines, topologies, policies and other entries, and their types.

See docs/architecture.md. Other distributions import only from this module and from `weft`.
"""

from weft.core.registry import Entry, Registry
from weft.core.units import Bytes, Nanoseconds
from weft.fabrics.formats import reader, writer
from weft.fabrics.topology import topology
from weft.kernels.lean import part_njit
from weft.papers import paper
from weft.routing import engine
from weft.sim.flit.routings import Routing, routing
from weft.sim.flit.routings.policies import Policy as FlitPolicy
from weft.sim.flit.routings.policies import policy as flit_policy
from weft.sim.packet.policies import Policy, policy
from weft.workload.apps import application
from weft.workload.collectives import Group, algorithm
from weft.workload.formats import workload_reader, workload_writer
from weft.workload.patterns.pattern_registry import Pairs, pattern
from weft.workload.placement import PlacementRequest, placement

__all__ = [
    "Bytes",
    "Entry",
    "FlitPolicy",
    "Group",
    "Nanoseconds",
    "Pairs",
    "PlacementRequest",
    "Policy",
    "Registry",
    "Routing",
    "algorithm",
    "application",
    "engine",
    "flit_policy",
    "paper",
    "part_njit",
    "pattern",
    "placement",
    "policy",
    "reader",
    "routing",
    "topology",
    "workload_reader",
    "workload_writer",
    "writer",
]
