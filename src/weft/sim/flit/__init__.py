"""The flit level: routers cycle by cycle."""

from weft.sim.flit.router import Router
from weft.sim.flit.run import FlitTraffic, simulate_flits
from weft.sim.flit.traffic import Load
from weft.sim.flit.workloads import FlitResult, run_flits

__all__ = [
    "FlitResult",
    "FlitTraffic",
    "Load",
    "Router",
    "run_flits",
    "simulate_flits",
]
