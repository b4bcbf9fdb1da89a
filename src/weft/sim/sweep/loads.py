"""Load sweeps: latency and accepted load against offered load, one independent run per point."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from weft.core.errors import InputError, WeftError
from weft.core.pool import check_processes, cores, run_all
from weft.core.settings import document
from weft.fabrics import Fabric
from weft.sim.options import Level, RunSettings
from weft.sim.sweep.one_load import measure_load
from weft.sim.sweep.settings import OWN, Engines, LoadStudy, TrafficSettings, load_value
from weft.sim.sweep.window_measures import SWEEP_COLUMNS, measured, table

#: Default offered loads of a sweep.
LOADS = tuple(round(0.1 * step, 1) for step in range(1, 10))
#: Number of packets of a sweep (a few seconds) from which several processes save time.
_WORTH_PROCESSES = 1_000_000


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
    study = LoadStudy.of(fabric, routes, level, policy, routing, seed, options)
    points = [
        (number, load)
        for load in (wanted[index] for index in ends_first(len(wanted)))
        for number, each in enumerate(study.configurations)
        if each.network is not None
    ]
    number = processes_for(processes, study, sum(load for _, load in points))
    outcomes, complete = run_all(run_load, study, points, number, progress)
    results = dict(zip(points, outcomes, strict=True))
    rows = [
        row | {"load": load, "seed": study.seed_of(load)} | (results.get((number, load)) or {})
        for number, row in enumerate(study.rows("sweep"))
        for load in wanted
    ]
    if complete:
        refuse_all_failed(rows)
    return table(SWEEP_COLUMNS, rows)


def ends_first(number: int) -> list[int]:
    """Return the indices of a list in an order such that each prefix is spread over the list.

    Returns
    -------
    list of int
        The first index, the last, the middle, and then the middles of ever smaller gaps, from the
        left.
    """
    order = [0, number - 1] if number > 1 else list(range(number))
    gaps = deque([(0, number - 1)])
    while gaps:
        low, high = gaps.popleft()
        middle = (low + high) // 2
        if low < middle:
            order.append(middle)
            gaps += (low, middle), (middle, high)
    return order


def processes_for(asked: int | None, study: LoadStudy, load: float) -> int:
    """Return the number of processes for runs whose loads add up to `load`."""
    check_processes(asked)
    if asked is not None:
        return asked
    return cores() if study.packets(load) > _WORTH_PROCESSES else 1


def refuse_all_failed(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise an error if all runs failed."""
    tried = [row for row in rows if row["status"] != "does not fit"]
    if tried and all(row["status"] == "failed" for row in tried):
        raise InputError(str(tried[0]["reason"]))


def run_load(
    study: LoadStudy, point: tuple[int, float], watch: Callable[[Any], None]
) -> dict[str, Any]:
    """Run a configuration, known by its index, at a load; return the columns that are measured."""
    number, load = point
    network = study.configurations[number].network
    assert network is not None
    try:
        measures = measure_load(network, study.traffic, load, study.seed_of(load), watch)
    except WeftError as error:
        return {"status": "failed", "reason": str(error)}
    return {**measured(measures), "reason": None}


document(sweep, TrafficSettings, RunSettings, without=OWN)
