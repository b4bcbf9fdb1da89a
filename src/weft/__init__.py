"""weft: build, route, check and compare interconnects.

>>> import weft
>>> fabric = weft.fabric("xgft:2;4,4;1,4")
>>> routes = weft.route(fabric, "dmodk")
>>> weft.validate(fabric, routes).ok
True
"""

from weft.errors import InputError, NotApplicable, UnroutedWarning, WeftError
from weft.fabrics import Fabric, FabricBuilder, LinkKind, NodeKind
from weft.load import fabric
from weft.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.routing import route
from weft.routing.lower import lower
from weft.routing.source import source_routes
from weft.routing.validate import Validation, validate
from weft.sim.analysis import StaticResult, analyse
from weft.sim.bisection import Bisection, bisection
from weft.sim.contention import PenaltyModel, penalties, predict
from weft.sim.flow import FlowResult, simulate
from weft.sim.packet import (
    CongestionControl,
    Hardware,
    PacketResult,
    VlArbitration,
    simulate_packets,
)
from weft.sim.static import link_loads
from weft.subnet.live import live
from weft.workload import Workload, WorkloadBuilder, load_workload, traffic

__version__ = "0.1.0"

__all__ = [
    "Bisection",
    "CandidateRoutes",
    "CongestionControl",
    "Fabric",
    "FabricBuilder",
    "FlowResult",
    "Hardware",
    "InputError",
    "LinkKind",
    "NodeKind",
    "NotApplicable",
    "PacketResult",
    "PathRoutes",
    "PenaltyModel",
    "Routes",
    "StaticResult",
    "TableRoutes",
    "UnroutedWarning",
    "Validation",
    "VlArbitration",
    "WeftError",
    "Workload",
    "WorkloadBuilder",
    "analyse",
    "bisection",
    "fabric",
    "link_loads",
    "live",
    "load_workload",
    "lower",
    "penalties",
    "predict",
    "route",
    "simulate",
    "simulate_packets",
    "source_routes",
    "traffic",
    "validate",
]
