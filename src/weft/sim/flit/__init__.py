"""The flit level: routers cycle by cycle."""

from weft.sim.flit.router import Router
from weft.sim.flit.run import FlitTraffic, simulate_flits
from weft.sim.flit.traffic import Load

__all__ = ["FlitTraffic", "Load", "Router", "simulate_flits"]
