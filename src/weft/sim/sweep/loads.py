"""Load sweeps: latency and accepted load over offered load, an independent run for each point."""

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
from weft.sim.sweep.settings import OWN, Engines, Study, TrafficSettings, load_value
from weft.sim.sweep.window_measures import SWEEP_COLUMNS, measured, table

#: Loads of a sweep for which nobody asked.
LOADS = tuple(round(0.1 * step, 1) for step in range(1, 10))
#: Below so many packets, some seconds, more processes cost more than they bring.
_WORTH_PROCESSES = 1_000_000


def sweep(
    fabric: Fabric,
    routes: Engines = "minhop",
    *,
    loads: Iterable[float] = LOADS,
    level: Level = "packet",
    policy: str | Sequence[str] | None = None,
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> pl.DataFrame:
    """Latency and accepted load over offered load, by an independent run for each point.

    Every combination of engine, policy and load is a run of `weft.workload.sources.open_loop`,
    measured as `weft.sim.sweep.measure` says. Runs at one load meet the same messages
    whatever the engine and the policy, so differences between those are not chance. The result
    does not depend on the number of processes.

    Parameters
    ----------
    fabric
        Where.
    routes
        An engine by name, with options or not, routes, or several of both.
    loads
        Mean rates of a source over `rate_gbps`, each above 0.
    level
        Level of detail: ``packet`` or ``flow``.
    policy
        Of the packet level, one or several. Left out, deterministic; where routes leave a choice
        the one called as the engine, or ecmp.
    seed
        From which each load's is made.
    processes
        Worker processes; left out, as many as there are cores when the sweep is long. A script
        that uses them keeps its work under ``if __name__ == "__main__":``.
    progress
        Called with how many runs are done, of how many.

    Returns
    -------
    polars.DataFrame
        Of `SWEEP_COLUMNS`, by engine, policy and load. After a KeyboardInterrupt, too: runs that
        were not over then have the status ``interrupted``. The lowest load runs first, then the
        highest, the middle and so on, so that what is known by then is a curve. Where there are
        several combinations of engine and policy, those that do not fit have rows that say so.

    Raises
    ------
    InputError
        On a value that cannot be; on what is wrong in all runs, such as a missing path.
    NotApplicable
        When no combination fits, or the pattern does not exist for so many hosts.
    """
    if not isinstance(loads, Iterable):
        raise InputError(f"loads must be a list of numbers, not {loads!r}")
    wanted = sorted({load_value(load) for load in loads})
    if not wanted:
        raise InputError("no load to run at was given")
    study = Study.of(fabric, routes, level, policy, seed, options)
    points = [
        (number, load)
        for load in (wanted[place] for place in ends_first(len(wanted)))
        for number, each in enumerate(study.configurations)
        if each.network is not None
    ]
    number = processes_for(processes, study, sum(load for _, load in points))
    found, whole = run_all(_point, study, points, number, progress)
    results = dict(zip(points, found, strict=True))
    rows = [
        asked | {"load": load, "seed": study.seed_of(load)} | (results.get((number, load)) or {})
        for number, asked in enumerate(study.rows("sweep"))
        for load in wanted
    ]
    if whole:
        refuse_all_failed(rows)
    return table(SWEEP_COLUMNS, rows)


def ends_first(number: int) -> list[int]:
    """Places of a list in an order of which each part is spread over the list.

    Parameters
    ----------
    number
        Length of the list.

    Returns
    -------
    list of int
        The first place, the last, the middle, and so on into ever smaller gaps from the left.
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


def processes_for(asked: int | None, study: Study, load: float) -> int:
    """How many processes to use, where the loads of all runs add up to this.

    Raises
    ------
    InputError
        When fewer than 1 are asked for.
    """
    check_processes(asked)
    if asked is not None:
        return asked
    return cores() if study.packets(load) > _WORTH_PROCESSES else 1


def refuse_all_failed(rows: Sequence[Mapping[str, Any]]) -> None:
    """Say what is wrong when no run succeeded.

    Raises
    ------
    InputError
        With the first reason.
    """
    tried = [row for row in rows if row["status"] != "does not fit"]
    if tried and all(row["status"] == "failed" for row in tried):
        raise InputError(str(tried[0]["reason"]))


def _point(study: Study, point: tuple[int, float], watch: Callable[[Any], None]) -> dict[str, Any]:
    """One run, as columns."""
    number, load = point
    network = study.configurations[number].network
    assert network is not None
    try:
        found = measure_load(network, study.traffic, load, study.seed_of(load), watch)
    except WeftError as error:
        return {"status": "failed", "reason": str(error)}
    return {**measured(found), "reason": None}


document(sweep, TrafficSettings, RunSettings, without=OWN)
