"""Load sweeps: latency and accepted load against offered load, one independent run per point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl

from weft.core.errors import InputError, WeftError
from weft.core.settings import document
from weft.fabrics import Fabric
from weft.sim.options import Level, RunSettings
from weft.sim.sweep.series import table
from weft.sim.sweep.settings import OWN, Engines, LoadSeries, TrafficSettings, load_value
from weft.sim.sweep.window_measures import SWEEP_COLUMNS, measured

#: Default offered loads of a sweep.
LOADS = tuple(round(0.1 * step, 1) for step in range(1, 10))


def sweep(
    fabric: Fabric,
    routes: Engines | None = None,
    *,
    loads: Iterable[float] = LOADS,
    level: Level = "packet",
    policy: str | Sequence[str] | None = None,
    routing: str | Sequence[str] | None = None,
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> pl.DataFrame:
    """Measure latency and accepted load against offered load, one independent run per point.

    Every combination of engine, policy and load, and of routing and load, is a run of
    `weft.workload.sources.open_loop`, measured by `weft.sim.sweep.measure`. Runs at the same load
    have the same messages, so that differences are not due to chance. The result does not depend on
    the number of processes.

    Parameters
    ----------
    fabric
        The fabric.
    routes
        An engine by name and options, or routes, or a list of engines and routes; by default
        minhop, or none if a routing is given.
    loads
        Offered loads: mean rates of a source divided by `rate_gbps`, each above 0.
    level
        Level of detail: ``packet``, ``flow`` or ``flit``.
    policy
        One or several policies of the packet or the flit level. Default for routes without a
        choice: deterministic; for others: the policy with the name of the engine, or else ecmp.
    routing
        One or several routings by coordinates of the flit level, by name and options.
    seed
        Seed from which the seed of each load is derived.
    processes
        Worker processes; by default the number of cores if the sweep is long. A script that uses
        them must be guarded by ``if __name__ == "__main__":``.
    progress
        Function that is called with the number of ended runs and the number of all runs.

    Returns
    -------
    polars.DataFrame
        Columns of `SWEEP_COLUMNS`, by engine or routing, policy and load. After a
        KeyboardInterrupt, runs that had not ended have the status ``interrupted``. The lowest load
        runs first, then the highest, the middle and so on, so that an interrupted sweep is a coarse
        curve. If there are several combinations, rows of those that do not fit state the reason.

    Raises
    ------
    InputError
        If a value is invalid, or all runs fail, for example because of a missing path.
    NotApplicable
        If no combination fits, or the pattern does not exist for this number of hosts.
    """
    if not isinstance(loads, Iterable):
        raise InputError(f"loads must be a list of numbers, not {loads!r}")
    wanted = sorted({load_value(load) for load in loads})
    if not wanted:
        raise InputError("loads must not be empty")
    series = LoadSeries.of(fabric, routes, level, policy, routing, seed, options)
    points = {load: {"load": load, "seed": series.seed_of(load)} for load in wanted}
    rows = series.rows(run_load, points, processes, progress, series.share(sum(wanted)))
    return table(SWEEP_COLUMNS, rows)


def run_load(
    series: LoadSeries, point: tuple[int, float], watch: Callable[[Any], None]
) -> dict[str, Any]:
    """Run a configuration, known by its number, at a load; return the columns that are measured."""
    try:
        return {**measured(series.measure(*point, watch)), "reason": None}
    except WeftError as error:
        return {"status": "failed", "reason": str(error)}


document(sweep, TrafficSettings, RunSettings, without=OWN)
