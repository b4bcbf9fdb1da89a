"""Function `sweep_flits`: latency and accepted load of synthetic traffic over offered load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import InputError, NotApplicable
from weft.core.pool import check_processes, cores, run_all
from weft.fabrics import Fabric, check_fabric
from weft.routing.routes import CandidateRoutes, Routes
from weft.sim.flit.network import Links, lanes_of_class
from weft.sim.flit.router import Router
from weft.sim.flit.routings.policies.policy_registry import USUAL
from weft.sim.flit.routings.policies.policy_registry import policy as policies
from weft.sim.flit.routings.routes import NO_CHOICE
from weft.sim.flit.run import FlitTraffic, bound, simulate_flits
from weft.sim.flit.traffic import Load

#: Endpoints times cycles of all runs from which several processes save time.
_WORTH_PROCESSES = 20_000_000
_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0}

#: Columns of `sweep_flits`, one row for each run.
TRAFFIC_COLUMNS: Mapping[str, Column] = {
    "fabric": Column(pl.String, "", "Fabric"),
    "engine": Column(pl.String, "", "Routing engine (null: a routing by coordinates)"),
    "policy": Column(pl.String, "", "Policy of the engine's routes (null: no engine)"),
    "routing": Column(pl.String, "", "Routing by coordinates (null: an engine)"),
    "router": Column(pl.String, "", "Settings of routers that differ from the defaults"),
    "pattern": Column(pl.String, "", "Traffic pattern"),
    "size": Column(pl.String, "", "Flits of a packet; or sizes with their shares"),
    "reply": Column(pl.Int64, "flits", "Size of the reply to each packet (0: none)"),
    "seed": Column(pl.Int64, "", "Seed"),
    "load": Column(
        pl.Float64, "", "Flits that an endpoint generates in a cycle on average, requests only"
    ),
    "status": Column(pl.String, "", "complete, interrupted or does not fit"),
    "reason": Column(pl.String, "", "Reason of a missing result (null: there is a result)"),
    "offered_load": Column(
        pl.Float64, "", "Flits generated per cycle and endpoint on average, replies included"
    ),
    "accepted_load": Column(pl.Float64, "", "Flits that arrived per cycle and endpoint"),
    "accepted_ci95": Column(pl.Float64, "", "Half of the 95 % interval of accepted_load"),
    "settled": Column(pl.Boolean, "", "Whether the run is in a steady state"),
    "why": Column(pl.String, "", "Why the run is not settled (empty: it is)"),
    "deadlock": Column(pl.String, "", "Cycle of buffers that wait for each other (empty: none)"),
    "latency_mean_cycles": Column(pl.Float64, "cycles", "Mean time from birth to arrival"),
    "latency_ci95_cycles": Column(
        pl.Float64, "cycles", "Half of the 95 % interval of the mean (null: too few packets)"
    ),
    **{
        f"latency_{name}_cycles": Column(
            pl.Float64, "cycles", f"{percent:g}th percentile of latency (null: too long)"
        )
        for name, percent in _PERCENTILES.items()
    },
    "network_latency_mean_cycles": Column(
        pl.Float64, "cycles", "Mean time from the departure of the first flit to arrival"
    ),
    "hops": Column(pl.Float64, "", "Mean number of routers of a packet"),
    "packets": Column(pl.Int64, "", "Packets of the measurement that arrived"),
    "missing": Column(pl.Int64, "", "Packets of the measurement that were under way at the end"),
    "cycles": Column(pl.Int64, "cycles", "Length of the run"),
}


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all runs have in common, and the routings."""

    fabric: Fabric
    routings: tuple[tuple[str | Routes, str | None], ...]
    load: Load
    router: Router
    latency: NDArray[Any] | int
    drain: int | None


def sweep_flits(
    fabric: Fabric,
    routing: str | Routes | Sequence[str | Routes],
    *,
    loads: Iterable[float],
    load: Load | None = None,
    router: Router | None = None,
    latency: NDArray[Any] | int = 1,
    policy: str | Sequence[str] | None = None,
    drain: int | None = None,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pl.DataFrame:
    """Run synthetic traffic at several loads, each with `simulate_flits`.

    Parameters
    ----------
    fabric, router, latency, drain
        As for `simulate_flits`.
    routing
        One or several routings by coordinates by name, or routes of engines.
    loads
        Flits that an endpoint generates in a cycle on average, as `Load.rate`.
    load
        The other settings of the traffic; by default `Load()`.
    policy
        One or several policies of routes. Default: that with the name of the engine, or ``ecmp``.
    processes
        Worker processes; by default the number of cores if the sweep is long. A script that uses
        them must be guarded by ``if __name__ == "__main__":``.
    progress
        Function that is called with the number of ended runs and the number of all runs.

    Returns
    -------
    polars.DataFrame
        Columns of `TRAFFIC_COLUMNS`, by routing, policy and load. After a KeyboardInterrupt, runs
        that had not ended have the status ``interrupted``. If there are several combinations, rows
        of those that do not fit state the reason.

    Raises
    ------
    InputError
        If a value is out of range, or there are too few virtual channels.
    NotApplicable
        If no routing, or the pattern, fits the fabric.
    """
    results = run_loads(
        fabric, routing, loads=loads, load=load, router=router, latency=latency, policy=policy,
        drain=drain, processes=processes, progress=progress,
    )  # fmt: skip
    return results[0]


def run_loads(
    fabric: Fabric,
    routing: str | Routes | Sequence[str | Routes],
    *,
    loads: Iterable[float],
    load: Load | None,
    router: Router | None,
    latency: NDArray[Any] | int,
    policy: str | Sequence[str] | None,
    drain: int | None,
    processes: int | None,
    progress: Callable[[int, int], None] | None,
    whole: bool = False,
) -> tuple[pl.DataFrame, FlitTraffic | None]:
    """Return the table of `sweep_flits` and, with `whole`, the result of the only run.

    Raises
    ------
    InputError, NotApplicable
        As `sweep_flits`; or if there is more than one run with `whole`.
    """
    check_fabric(fabric)
    check_processes(processes)
    load, router = load or Load(), router or Router()
    wanted = sorted({replace(load, rate=each).rate for each in loads})
    names = [routing] if isinstance(routing, str | Routes) else list(routing)
    chosen = [None] if policy is None else [policy] if isinstance(policy, str) else list(policy)
    if not wanted or not names or not chosen:
        raise InputError("loads, routings and policies must not be empty")
    if policy is not None and not any(isinstance(each, Routes) for each in names):
        raise InputError("a routing by coordinates takes no policy; routes of an engine do")
    load.targets(fabric.num_host_endpoints)
    shared = _Shared(fabric, tuple(_routings(names, chosen)), load, router, latency, drain)
    several = len(shared.routings) > 1
    reasons = [_reason(shared, at) if several else "" for at in range(len(shared.routings))]
    if all(reasons):
        raise NotApplicable("; ".join(dict.fromkeys(str(reason) for reason in reasons)))
    tasks = [
        (number, rate) for rate in wanted for number, reason in enumerate(reasons) if not reason
    ]
    if whole and len(tasks) != 1:
        raise InputError(f"expected one routing and one load, not {len(tasks)} runs")
    if processes is None:
        cycles = fabric.num_host_endpoints * (load.warmup + load.measure) * len(tasks)
        processes = cores() if cycles > _WORTH_PROCESSES else 1
    outcomes, _ = run_all(_whole if whole else _point, shared, tasks, processes, progress)
    result = outcomes[0] if isinstance(outcomes[0], FlitTraffic) else None
    rows: dict[Any, Any] = dict(zip(tasks, outcomes, strict=True))
    if result is not None:
        rows = {tasks[0]: measured(result, router)}
    interrupted = {"status": "interrupted", "reason": "the sweep was interrupted"}
    listed = [
        _settings(shared, number)
        | {"load": rate}
        | (
            {"status": "does not fit", "reason": reason}
            if reason
            else rows[number, rate] or interrupted
        )
        for number, reason in enumerate(reasons)
        for rate in wanted
    ]
    columns = {name: [row.get(name) for row in listed] for name in TRAFFIC_COLUMNS}
    return frame(TRAFFIC_COLUMNS, columns), result


def _routings(
    routings: Iterable[Any], policies: Sequence[str | None]
) -> Iterable[tuple[str | Routes, str | None]]:
    """Yield every combination; a policy of None is the usual one."""
    for each in routings:
        if isinstance(each, Routes):
            yield from ((each, policy) for policy in policies)
        elif isinstance(each, str):
            yield each, None
        else:
            raise InputError(f"routing must be a name or Routes, not {each!r}")


def _reason(shared: _Shared, number: int) -> str:
    """Return why a routing does not fit; empty if it does."""
    routing, policy = shared.routings[number]
    try:
        links = Links.of(shared.fabric, shared.latency)
        bound(routing, links, lanes_of_class(shared.router, shared.load), policy)
    except NotApplicable as error:
        return str(error)
    return ""


def _point(
    shared: _Shared, task: tuple[int, float], watch: Callable[[Any], None]
) -> dict[str, Any]:
    """Run one load and return its columns."""
    return measured(_whole(shared, task, watch), shared.router)


def _whole(shared: _Shared, task: tuple[int, float], watch: Callable[[Any], None]) -> FlitTraffic:
    """Run one load and return its result."""
    number, rate = task
    routing, policy = shared.routings[number]
    return simulate_flits(
        shared.fabric, routing, load=replace(shared.load, rate=rate), router=shared.router,
        latency=shared.latency, policy=policy, drain=shared.drain,
        progress=lambda now, last: watch(now),
    )  # fmt: skip


def _settings(shared: _Shared, number: int) -> dict[str, Any]:
    """Return the columns that describe a run."""
    routing, policy = shared.routings[number]
    engine = routing.engine if isinstance(routing, Routes) else None
    if engine is not None and policy is None:
        known = engine if engine in policies else USUAL
        policy = known if isinstance(routing, CandidateRoutes) else NO_CHOICE
    return {
        "fabric": shared.fabric.name,
        "engine": engine,
        "policy": policy,
        "routing": routing if isinstance(routing, str) else None,
        "router": unusual(shared.router),
        "pattern": shared.load.pattern,
        "size": shared.load.size_text,
        "reply": shared.load.reply,
        "seed": shared.load.seed,
    }


def unusual(router: Router) -> str:
    """Return the settings of routers that differ from the defaults, as text."""
    usual = Router().table()
    changed = [f"{key}={value}" for key, value in router.table().items() if value != usual[key]]
    return ", ".join(changed) or "usual"


def measured(result: FlitTraffic, router: Router) -> dict[str, Any]:
    """Return the columns that a run with such routers measures."""
    made = result.router  # some routings require other routers than those given

    def known(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    return {
        "status": "complete",
        "router": unusual(replace(router, atomic=made.atomic, switching=made.switching)),
        "offered_load": result.offered,
        "accepted_load": result.accepted,
        "accepted_ci95": known(result.accepted_ci95),
        "settled": result.settled,
        "why": result.why,
        "deadlock": result.deadlock,
        "latency_mean_cycles": known(result.latency.mean),
        "latency_ci95_cycles": known(result.latency.half_width),
        **{
            f"latency_{name}_cycles": known(result.percentile(percent))
            for name, percent in _PERCENTILES.items()
        },
        "network_latency_mean_cycles": known(result.network_latency.mean),
        "hops": known(result.hops),
        "packets": result.packets,
        "missing": result.missing,
        "cycles": result.cycles,
    }
