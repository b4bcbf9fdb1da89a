"""Decorators that register engines, topologies, policies and other entries, and their types.

See docs/architecture.md. Other distributions import only from this module and from `weft`.
"""

from weft.core.columns import Column, Measure
from weft.core.registry import Entry, Registry
from weft.core.units import Bytes, Nanoseconds
from weft.counters.formats.counter_format_registry import PortReading, counter_reader
from weft.fabrics.formats import reader, writer
from weft.fabrics.topology import ClosedForm, topology
from weft.kernels.lean import part_njit
from weft.measured.formats.measurement_format_registry import MeasuredValue, measurement_reader
from weft.routing import engine
from weft.sim.flit.routings import Routing, routing
from weft.sim.flit.routings.policies import FlitPolicy
from weft.sim.flit.routings.policies import policy as flit_policy
from weft.sim.packet.policies import Policy, policy
from weft.study.checks import Files, WrongKey, check_fabric
from weft.study.command_registry import Point, study_command
from weft.study.experiment.spec import FabricKeys
from weft.study.experiment.spec import Part as StudyKeys
from weft.study.runs.task import RunResult
from weft.workload.apps import application
from weft.workload.collectives import Group, algorithm
from weft.workload.collectives.libraries import AlgorithmChoice, LibraryCall, library
from weft.workload.formats import workload_reader, workload_writer
from weft.workload.patterns.pattern_registry import Pairs, pattern
from weft.workload.placement import PlacementRequest, placement

__all__ = [
    "AlgorithmChoice",
    "Bytes",
    "ClosedForm",
    "Column",
    "Entry",
    "FabricKeys",
    "Files",
    "FlitPolicy",
    "Group",
    "LibraryCall",
    "Measure",
    "MeasuredValue",
    "Nanoseconds",
    "Pairs",
    "PlacementRequest",
    "Point",
    "Policy",
    "PortReading",
    "Registry",
    "Routing",
    "RunResult",
    "StudyKeys",
    "WrongKey",
    "algorithm",
    "application",
    "check_fabric",
    "counter_reader",
    "engine",
    "flit_policy",
    "library",
    "measurement_reader",
    "part_njit",
    "pattern",
    "placement",
    "policy",
    "reader",
    "routing",
    "study_command",
    "topology",
    "workload_reader",
    "workload_writer",
    "writer",
]
