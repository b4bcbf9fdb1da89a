"""Open-loop measurement: load offered and accepted, latency, saturation, and sweeps over loads."""

from weft.sim.open_loop.frames import SATURATION_COLUMNS, SWEEP_COLUMNS
from weft.sim.open_loop.measures import OpenLoopMeasures, measure
from weft.sim.open_loop.saturation import saturation_load
from weft.sim.open_loop.study import SweepSettings
from weft.sim.open_loop.sweep import load_sweep

__all__ = [
    "SATURATION_COLUMNS",
    "SWEEP_COLUMNS",
    "OpenLoopMeasures",
    "SweepSettings",
    "load_sweep",
    "measure",
    "saturation_load",
]
