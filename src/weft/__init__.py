"""weft: build, route, check and compare interconnects.

>>> import weft
>>> fabric = weft.fabric("xgft:2;4,4;1,4")
>>> routes = weft.route(fabric, "dmodk")
>>> weft.validate(fabric, routes).ok
True
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true; `typing` is longer to import than this file
if TYPE_CHECKING:
    from weft.contention import PenaltyModel, penalties, predict
    from weft.core.errors import InputError, NotApplicable, UnroutedWarning, WeftError
    from weft.fabrics import Fabric, FabricBuilder, LinkKind, NodeKind
    from weft.fabrics.load import fabric
    from weft.opensm.live.subnet import live
    from weft.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
    from weft.routing import route
    from weft.routing.engines.source import source_routes
    from weft.routing.lower import lower
    from weft.routing.validation.validate import Validation, validate
    from weft.sim.flow import FlowResult, simulate
    from weft.sim.packet import (
        CongestionControl,
        Hardware,
        PacketResult,
        VlArbitration,
        simulate_packets,
    )
    from weft.sim.static.analysis import StaticResult, analyse
    from weft.sim.static.effective_bisection import Bisection, bisection
    from weft.sim.static.loads import link_loads
    from weft.workload import Workload, WorkloadBuilder, load_workload, traffic

__version__ = "0.1.0"

#: Where each public name lives: all together take a second to import, so each waits for its use.
_HOMES = {
    "weft.core.errors": ("InputError", "NotApplicable", "UnroutedWarning", "WeftError"),
    "weft.fabrics": ("Fabric", "FabricBuilder", "LinkKind", "NodeKind"),
    "weft.fabrics.load": ("fabric",),
    "weft.routes": ("CandidateRoutes", "PathRoutes", "Routes", "TableRoutes"),
    "weft.routing": ("route",),
    "weft.routing.lower": ("lower",),
    "weft.routing.engines.source": ("source_routes",),
    "weft.routing.validation.validate": ("Validation", "validate"),
    "weft.sim.static.analysis": ("StaticResult", "analyse"),
    "weft.sim.static.effective_bisection": ("Bisection", "bisection"),
    "weft.contention": ("PenaltyModel", "penalties", "predict"),
    "weft.sim.flow": ("FlowResult", "simulate"),
    "weft.sim.packet": (
        "CongestionControl", "Hardware", "PacketResult", "VlArbitration", "simulate_packets",
    ),
    "weft.sim.static.loads": ("link_loads",),
    "weft.opensm.live.subnet": ("live",),
    "weft.workload": ("Workload", "WorkloadBuilder", "load_workload", "traffic"),
}  # fmt: skip

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

_HOME = {name: module for module, names in _HOMES.items() for name in names}

# Type checkers take the imports above; this would have them believe in any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A public name, or a module of weft, imported when it is first used."""
        if name in _HOME:
            globals()[name] = found = getattr(import_module(_HOME[name]), name)
            return found
        if not name.startswith("_"):
            module = f"{__name__}.{name}"
            try:
                return import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
