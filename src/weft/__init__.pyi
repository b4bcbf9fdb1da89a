from weft.advice.compare import compare
from weft.advice.comparison import Comparison
from weft.advice.io_nodes.place import place_io
from weft.advice.io_nodes.result import IoPlacement
from weft.advice.machine_room import CostPlan, cost
from weft.core.errors import InputError, NotApplicable, OutOfMemory, UnroutedWarning, WeftError
from weft.counters.counters import Counters
from weft.counters.rates import Rates, rates
from weft.counters.read import read_counters
from weft.fabrics import Fabric, FabricBuilder, LinkKind, NodeKind
from weft.fabrics.faults import Faults
from weft.fabrics.formats import write_fabric
from weft.fabrics.load import fabric
from weft.fabrics.topology import closed_form, format_spec
from weft.fabrics.topology.measures import average_distance, bisection_upper_bound, diameter
from weft.report.comparison_page import write_comparison_page
from weft.report.key_page import write_key_page
from weft.report.plot import plot
from weft.report.simulation_page import write_simulation_page
from weft.routing import route
from weft.routing.engines.sar import sar_routes
from weft.routing.engines.source import source_routes
from weft.routing.lower import lower
from weft.routing.reroute import opensm_reroute
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.routing.validation.validate import Validation, validate
from weft.sim.common.progress import Forecast, IncompleteRun, StopRun
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.booksim import BookSimRun, read_booksim
from weft.sim.flit.router import Router
from weft.sim.flit.run import FlitTraffic, simulate_flits
from weft.sim.flit.traffic import Load
from weft.sim.flit.workloads import FlitResult
from weft.sim.flow.contention import PenaltyModel
from weft.sim.flow.contention.model import penalties, predict
from weft.sim.flow.result import FlowResult, RolledResult
from weft.sim.keys import KeySet, RoutingKey, keys, workload_keys
from weft.sim.packet import CongestionControl, Hardware, VlArbitration
from weft.sim.packet.hot_spots import HotSpots
from weft.sim.packet.port_counters import port_counters
from weft.sim.packet.result import PacketResult, RolledPacketResult
from weft.sim.packet.series import cable_series, link_series, queue_series
from weft.sim.packet.timelines import rank_spans, timelines
from weft.sim.qsnet import qsnet
from weft.sim.simulate import Result, forecast, simulate
from weft.sim.static.analysis import StaticResult, analyse
from weft.sim.static.effective_bisection import Bisection, bisection
from weft.sim.static.loads import link_loads
from weft.sim.static.multipath import Scheme, multipath_loads
from weft.sim.static.phases import StaticWorkload
from weft.sim.sweep import saturation_load, sweep, sweep_flits
from weft.study.experiment import perform, read_experiment
from weft.subnet.live.subnet import live
from weft.workload import Workload, WorkloadBuilder, load_rolled, load_workload, traffic
from weft.workload.apps import application_workload
from weft.workload.collectives import collective_on, collective_workload
from weft.workload.placement import place
from weft.workload.rolled import RolledWorkload

__version__: str

# Names outside this list and `weft.plugins` may change without notice.
__all__ = [
    "Adapter", "Bisection", "BookSimRun", "CandidateRoutes", "Comparison", "CongestionControl",
    "CostPlan", "Counters", "Fabric", "FabricBuilder", "Faults", "FlitResult", "FlitTraffic",
    "FlowResult", "Forecast", "Hardware", "HotSpots", "IncompleteRun", "InputError", "IoPlacement",
    "KeySet", "LinkKind", "Load", "NodeKind", "NotApplicable", "OutOfMemory", "PacketResult",
    "PathRoutes", "PenaltyModel", "Rates", "Result", "RolledPacketResult", "RolledResult",
    "RolledWorkload", "Router", "Routes", "RoutingKey", "Scheme", "StaticResult", "StaticWorkload",
    "StopRun", "TableRoutes", "UnroutedWarning", "Validation", "VlArbitration", "WeftError",
    "Workload", "WorkloadBuilder", "analyse", "application_workload", "average_distance",
    "bisection", "bisection_upper_bound", "cable_series", "closed_form", "collective_on",
    "collective_workload", "compare", "cost", "diameter", "fabric", "forecast", "format_spec",
    "keys", "link_loads", "link_series", "live", "load_rolled", "load_workload", "lower",
    "multipath_loads", "opensm_reroute", "penalties", "perform", "place", "place_io", "plot",
    "port_counters", "predict", "qsnet", "queue_series", "rank_spans", "rates", "read_booksim",
    "read_counters", "read_experiment", "route", "sar_routes", "saturation_load", "simulate",
    "simulate_flits", "source_routes", "sweep", "sweep_flits", "timelines", "traffic", "validate",
    "workload_keys", "write_comparison_page", "write_fabric", "write_key_page",
    "write_simulation_page",
]  # fmt: skip
