"""One run of a comparison of machines: a machine, and a workload or a search for saturation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import polars as pl

from weft.core.columns import Column
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.topology.family_registry import build, topology
from weft.fabrics.topology.measures import (
    average_distance,
    bisection_upper_bound,
    diameter,
)
from weft.machine_room import Prices, cost
from weft.routes import Routes
from weft.routing import engine as engines
from weft.routing.engine_registry import route
from weft.routing.validation.validate import Validation, validate
from weft.sim.simulate import simulate
from weft.sim.static.analysis import analyse_all_to_all
from weft.sim.static.effective_bisection import bisection
from weft.sim.sweep import saturation_load
from weft.workload import load_workload

#: Levels with time, for workloads and for saturation.
TimedLevel = Literal["flow", "packet", "flit"]

#: Workloads unless others are given. Both have few messages: log2(n) or 2 log2(n) per host.
WORKLOADS = ("allreduce:size=4MiB", "alltoall:size=1KiB,algorithm=bruck")
#: Engines for machines whose family names none, or whose own engines do not fit.
ENGINES = ("dfsssp", "nue")
#: Largest number of hosts with engines that give several paths: the flow level divides each
#: message over all of them, which takes too long on larger machines.
MOST_ADAPTIVE = 2048
#: Random bisections of the effective bisection bandwidth.
SAMPLES = 100
#: Width of the interval in which saturation is found.
RESOLUTION = 0.05

#: Columns of a run, by name.
MACHINE_COLUMNS: Mapping[str, Column] = {
    "engine": Column(pl.String, "", "Routing engine: the first that fits the machine and is valid"),
    "lanes": Column(pl.Int64, "", "Number of virtual lanes that the routes use"),
    "hosts": Column(pl.Int64, "", "Number of attached hosts"),
    "switches": Column(pl.Int64, "", "Number of switches"),
    "ports": Column(pl.Int64, "", "Largest number of ports of a switch that the topology needs"),
    "cables": Column(pl.Int64, "", "Number of cables, those to hosts included"),
    "copper_cables": Column(pl.Int64, "", "Number of copper cables, from their lengths in racks"),
    "optical_cables": Column(pl.Int64, "", "Number of optical cables, from their lengths in racks"),
    "cable_m": Column(pl.Float64, "m", "Total length of the cables"),
    "cost": Column(pl.Float64, "currency", "Cost of all parts with a price (null: no prices)"),
    "cost_per_host": Column(pl.Float64, "currency", "Cost divided by the number of hosts"),
    "power_w": Column(pl.Float64, "W", "Power of the parts with a power in the price file"),
    "diameter": Column(pl.Int64, "links", "Most hops of a minimal path between two hosts"),
    "mean_hops": Column(pl.Float64, "links", "Mean hops of minimal paths between two hosts"),
    "bisection": Column(
        pl.Float64, "share",
        "Cables of the smallest cut found between two halves of the hosts, per host of a half "
        "(an upper bound)",
    ),
    "uniform": Column(
        pl.Float64, "share",
        "Largest uniform load that no link exceeds with these routes: 1 over the largest load of "
        "a link, at most 1",
    ),
    "ebb": Column(
        pl.Float64, "share", "Effective bisection bandwidth: mean share of the injection rate"
    ),
    "makespan_ns": Column(pl.Float64, "ns", "Time of the workload (null: no workload)"),
    "throughput_gbps": Column(
        pl.Float64, "Gb/s", "Data that a host sends per time, mean of all hosts (null: no workload)"
    ),
    "saturation": Column(
        pl.Float64, "share",
        "Offered uniform load at which the network saturates; 1 if full load does not saturate it "
        "(null: not searched for)",
    ),
}  # fmt: skip

#: Columns of which lower, and of which higher values are better; the first are the main ones.
LOWER = (
    "makespan_ns", "switches", "cables", "copper_cables", "optical_cables", "cable_m", "cost",
    "cost_per_host", "power_w", "diameter", "mean_hops", "lanes",
)  # fmt: skip
HIGHER = ("throughput_gbps", "saturation", "uniform", "ebb", "bisection")


@dataclass(frozen=True)
class MachineRun:
    """Parameters of a run.

    Parameters
    ----------
    spec
        Spec of the fabric.
    workload
        Workload, with one rank per host; None for no workload.
    placement
        Placement of the ranks.
    level
        Level of detail of the workload.
    saturation
        Level of detail at which the saturation is searched for; None for no search.
    engine
        Routing engine; None for the one that suits the family.
    prices
        Prices, or None.
    seed
        Seed of the workload, of the traffic and of random bisections.
    """

    spec: str
    workload: str | None = None
    placement: str = "linear"
    level: TimedLevel = "flow"
    saturation: TimedLevel | None = None
    engine: str | None = None
    prices: Prices | None = None
    seed: int = 0


def describe_machine(run: MachineRun) -> dict[str, Any]:
    """Measure one machine under one workload.

    Parameters
    ----------
    run
        The machine and what to do with it.

    Returns
    -------
    dict
        Values of `MACHINE_COLUMNS`; None for what was not asked for. They depend on `run` only.

    Raises
    ------
    InputError
        If the spec, the workload or a price is wrong.
    NotApplicable
        If no engine gives valid routes, or the workload does not exist for this number of hosts.
    """
    fabric, routes, checked = routed(run.spec, run.engine)
    measured = dict.fromkeys(MACHINE_COLUMNS) | _static(run.spec, run.engine, run.prices, run.seed)
    measured |= {"engine": routes.engine, "lanes": checked.lanes}
    if run.workload is not None:
        workload = load_workload(run.workload, fabric.num_hosts)
        result = simulate(fabric, routes, workload, run.placement, level=run.level, seed=run.seed)
        time_ns = result.makespan_ns
        sent = int(workload.size_bytes[workload.messages].sum())
        measured["makespan_ns"] = time_ns
        measured["throughput_gbps"] = 8 * sent / (fabric.num_hosts * time_ns) if time_ns else None
    if run.saturation is not None:
        found = saturation_load(
            fabric, routes, level=run.saturation, resolution=RESOLUTION, seed=run.seed, processes=1
        ).row(0, named=True)
        at = found["saturation_load"]
        measured["saturation"] = found["sustained_load"] if at is None else at
    return measured


@lru_cache(maxsize=1)
def routed(spec: str, engine: str | None) -> tuple[Fabric, Routes, Validation]:
    """Return a fabric with valid routes; the last one is kept for further runs.

    Raises
    ------
    NotApplicable
        If no engine that suits the family gives valid routes; the message has the reason of each.
    """
    fabric = build(spec)
    own = topology[fabric.family].facts.get("engines", ()) if fabric.family else ()
    reasons = []
    if fabric.num_hosts > MOST_ADAPTIVE:
        own = tuple(name for name in own if not engines[name].facts.get("candidates"))
    for name in (engine,) if engine is not None else (*own, *ENGINES):
        try:
            routes = route(fabric, name)
        except NotApplicable as error:
            reasons.append(str(error))
            continue
        checked = validate(fabric, routes)
        if checked.ok:
            return fabric, routes, checked
        reasons.append(f"{name}: its routes are not valid")
    raise NotApplicable("; ".join(reasons))


@lru_cache(maxsize=1)
def _static(spec: str, engine: str | None, prices: Prices | None, seed: int) -> dict[str, Any]:
    """Return the columns that need no workload."""
    fabric, routes, _ = routed(spec, engine)
    plan = cost(fabric, prices=prices)
    kinds = dict(plan.cables.group_by("kind").len().iter_rows())
    half = fabric.num_hosts // 2
    load = analyse_all_to_all(fabric, routes).links["load"].max()
    assert isinstance(load, float)
    return {
        "hosts": fabric.num_hosts,
        "switches": fabric.num_switches,
        "ports": int(fabric.num_ports[: fabric.num_switches].max()),
        "cables": fabric.num_cables,
        "copper_cables": kinds.get("copper", 0),
        "optical_cables": kinds.get("optical", 0),
        "cable_m": plan.cable_m,
        "cost": plan.total_cost,
        "cost_per_host": plan.cost_per_host,
        "power_w": plan.power_w,
        "diameter": diameter(fabric),
        "mean_hops": average_distance(fabric),
        "bisection": bisection_upper_bound(fabric, seed) / half,
        "uniform": min(1.0, (fabric.num_hosts - 1) / load),
        "ebb": bisection(fabric, routes, samples=SAMPLES, seed=seed).mean,
    }
