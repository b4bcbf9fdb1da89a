"""Open-loop measurement: offered and accepted load, latency, saturation, and load sweeps."""

from weft.sim.sweep.flits import sweep_flits
from weft.sim.sweep.job_measures import measure_jobs
from weft.sim.sweep.loads import sweep
from weft.sim.sweep.saturation import saturation_load
from weft.sim.sweep.settings import TrafficSettings
from weft.sim.sweep.window_measures import (
    SATURATION_COLUMNS,
    SWEEP_COLUMNS,
    OpenLoopMeasures,
    measure,
)

__all__ = [
    "SATURATION_COLUMNS",
    "SWEEP_COLUMNS",
    "OpenLoopMeasures",
    "TrafficSettings",
    "measure",
    "measure_jobs",
    "saturation_load",
    "sweep",
    "sweep_flits",
]
