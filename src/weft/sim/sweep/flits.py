"""Function `sweep_flits`: latency and accepted load of synthetic traffic over offered load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, check_fabric
from weft.routing.routes import Routes
from weft.sim.flit.network import Links, lanes_of_class
from weft.sim.flit.router import Router
from weft.sim.flit.run import FlitTraffic, bound, simulate_flits
from weft.sim.flit.traffic import Load
from weft.sim.methods import methods
from weft.sim.options import usual_policy
from weft.sim.sweep.series import Configuration, Series, table

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
class FlitSeries(Series):
    """Runs of synthetic traffic; `what` of a configuration is its routing and policy."""

    fabric: Fabric
    load: Load
    router: Router
    latency: NDArray[Any] | int
    drain: int | None
    #: Threads of each run; None for all processors for a large run.
    threads: int | None = 1

    @classmethod
    def of(
        cls,
        fabric: Fabric,
        routing: str | Routes | Sequence[str | Routes],
        load: Load | None,
        router: Router | None,
        latency: NDArray[Any] | int,
        policy: str | Sequence[str] | None,
        drain: int | None,
        threads: int | None = 1,
    ) -> FlitSeries:
        """Check the settings, and try the routings if there are several."""
        check_fabric(fabric)
        load, router = load or Load(), router or Router()
        names = [routing] if isinstance(routing, str | Routes) else list(routing)
        policies = [policy] if isinstance(policy, str) else policy if policy is None else [*policy]
        if not names or policies == []:
            raise InputError("loads, routings and policies must not be empty")
        for each in names:
            if not isinstance(each, str | Routes):
                raise InputError(f"routing must be a name or Routes, not {each!r}")
        routes = [each for each in names if isinstance(each, Routes)]
        texts = [each for each in names if isinstance(each, str)]
        chosen = [
            (method.engine if method.routing is None else method.routing, method.policy)
            for method in methods(("flit",), routes, texts, policies)
        ]
        chosen.sort(key=lambda pair: names.index(pair[0]))
        load.targets(fabric.num_host_endpoints)
        lanes = lanes_of_class(router, load)
        configurations = tuple(
            _configuration(fabric, latency, lanes, *each, tried=len(chosen) > 1) for each in chosen
        )
        if all(each.what is None for each in configurations):
            reasons = dict.fromkeys(each.reason for each in configurations)
            raise NotApplicable("; ".join(reasons))
        common = {
            "fabric": fabric.name, "router": unusual(router), "pattern": load.pattern,
            "size": load.size_text, "reply": load.reply, "seed": load.seed,
        }  # fmt: skip
        return cls(configurations, common, fabric, load, router, latency, drain, threads)

    def measure(self, number: int, rate: float, watch: Callable[[Any], None]) -> FlitTraffic:
        """Run a configuration at a load."""
        routing, policy = self.configurations[number].what
        return simulate_flits(
            self.fabric, routing, load=replace(self.load, rate=rate), router=self.router,
            latency=self.latency, policy=policy, drain=self.drain, threads=self.threads,
            progress=lambda now, last: watch(now),
        )  # fmt: skip

    def run(
        self,
        loads: Iterable[float],
        processes: int | None,
        progress: Callable[[int, int], None] | None,
        *,
        whole: bool = False,
    ) -> tuple[pl.DataFrame, FlitTraffic | None]:
        """Return the table of all runs and, with `whole`, the result of the first."""
        points = {rate: {"load": rate} for rate in sorted(loads)}
        cycles = self.fabric.num_host_endpoints * (self.load.warmup + self.load.measure)
        share = cycles * len(points) / _WORTH_PROCESSES
        run = _whole if whole else run_traffic
        rows = self.rows(run, points, processes, progress, share)
        return table(TRAFFIC_COLUMNS, rows), rows[0].get("result")


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
    series = FlitSeries.of(fabric, routing, load, router, latency, policy, drain)
    wanted = {replace(series.load, rate=each).rate for each in loads}
    if not wanted:
        raise InputError("loads, routings and policies must not be empty")
    return series.run(wanted, processes, progress)[0]


def _configuration(
    fabric: Fabric,
    latency: NDArray[Any] | int,
    lanes: int,
    routing: str | Routes,
    policy: str | None,
    *,
    tried: bool,
) -> Configuration:
    """Return a routing with a policy; an only one is not tried before it runs."""
    names: dict[str, str | None]
    if isinstance(routing, str):
        names = {"engine": None, "routing": routing}
    else:
        names = {"engine": routing.engine, "policy": policy or usual_policy(routing, "flit")}
    try:
        if tried:
            bound(routing, Links.of(fabric, latency), lanes, policy)
    except NotApplicable as error:
        return Configuration(names, None, str(error))
    return Configuration(names, (routing, policy))


def run_traffic(
    series: FlitSeries, point: tuple[int, float], watch: Callable[[Any], None]
) -> dict[str, Any]:
    """Run a configuration, known by its number, at a load; return the columns that are measured."""
    return measured(series.measure(*point, watch), series.router)


def _whole(
    series: FlitSeries, point: tuple[int, float], watch: Callable[[Any], None]
) -> dict[str, Any]:
    """Run as `run_traffic`, and keep the result."""
    result = series.measure(*point, watch)
    return {**measured(result, series.router), "result": result}


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
        "reason": None,
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
