"""Search for the load at which a network saturates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from weft.core.errors import InputError, WeftError
from weft.core.registry import convert
from weft.core.settings import document
from weft.fabrics import Fabric
from weft.sim.options import Level, RunSettings
from weft.sim.sweep.series import table
from weft.sim.sweep.settings import LOAD_STEP, OWN, Engines, LoadSeries, TrafficSettings, load_value
from weft.sim.sweep.window_measures import SATURATION_COLUMNS, OpenLoopMeasures

#: Approximate sum of the loads of a search's runs, divided by the highest load.
_RUNS = 4


def saturation_load(
    fabric: Fabric,
    routes: Engines | None = None,
    *,
    resolution: float = 0.01,
    highest: float = 1.0,
    level: Level = "packet",
    policy: str | Sequence[str] | None = None,
    routing: str | Sequence[str] | None = None,
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> pl.DataFrame:
    """Find the load at which a network saturates, by bisection.

    The interval between a load that does not saturate the network, initially 0, and a load that
    does, initially `highest`, is halved until it is not wider than `resolution`. Saturation is
    defined in `weft.sim.sweep.measure`. Near saturation, the result of a run depends on the length
    of the window: a longer window separates loads that are closer together.

    Parameters
    ----------
    fabric, routes, level, policy, routing, seed, processes, progress
        As in `weft.sweep`; there is one search for each combination of engine and policy,
        and for each routing.
    resolution
        Width of the interval at the end.
    highest
        Load of the first run; the search ends there if this load does not saturate the network.

    Returns
    -------
    polars.DataFrame
        Columns of `SATURATION_COLUMNS`, one row for each combination of engine and policy.

    Raises
    ------
    InputError, NotApplicable
        As in `weft.sweep`.
    """
    resolution = convert(resolution, float, "resolution")
    if not LOAD_STEP <= resolution < np.inf:
        raise InputError(f"a resolution must be at least {LOAD_STEP:g}, not {resolution}")
    highest = load_value(highest)
    series = LoadSeries.of(fabric, routes, level, policy, routing, seed, options)
    points: dict[Any, dict[str, Any]] = {(highest, resolution): {}}
    share = series.share(_RUNS * highest)
    return table(
        SATURATION_COLUMNS, series.rows(search, points, processes, progress, share, "search")
    )


def bisect(
    run: Callable[[float], OpenLoopMeasures], highest: float, resolution: float
) -> tuple[float, float | None, OpenLoopMeasures | None, int]:
    """Find the interval in which saturation begins.

    `run`: function that returns the measures at a load. `resolution`: width of the interval at the
    end.

    Returns the highest load without saturation, 0 if all loads saturate; the lowest load with
    saturation and the measures there, None if `highest` does not saturate; and the number of runs.
    """
    at_high = run(highest)
    if not at_high.saturated:
        return highest, None, None, 1
    low, high, runs = 0.0, highest, 1
    while high - low > resolution * (1 + 1e-9):
        middle = (low + high) / 2
        measures = run(middle)
        runs += 1
        if measures.saturated:
            high, at_high = middle, measures
        else:
            low = middle
    return low, high, at_high, runs


def search(
    series: LoadSeries, task: tuple[int, tuple[float, float]], watch: Callable[[Any], None]
) -> dict[str, Any]:
    """Search with a configuration, from a highest load, to a resolution; return the columns."""
    number, limits = task
    try:
        low, high, at_high, runs = bisect(lambda load: series.measure(number, load, watch), *limits)
    except WeftError as error:
        return {"status": "failed", "reason": str(error)}
    return {
        "status": "complete",
        "reason": None,
        "sustained_load": low,
        "saturated_load": high,
        "saturation_load": None if high is None else (low + high) / 2,
        "accepted_load": None if at_high is None else at_high.accepted_load,
        "runs": runs,
    }


document(saturation_load, TrafficSettings, RunSettings, without=OWN)
