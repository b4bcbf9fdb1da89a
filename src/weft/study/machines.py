"""One run of a comparison of machines: a machine, and a workload or a search for saturation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from weft.advice.machine_room import CostPlan, Prices, cost
from weft.core.arguments import bytes_text
from weft.core.columns import Column
from weft.core.errors import InputError, NotApplicable, OutOfMemory
from weft.core.pool import common_to_kind, time_left
from weft.core.words import clock_span, clock_text
from weft.fabrics import Fabric
from weft.fabrics.arrays import LinkKind
from weft.fabrics.faults import Faults
from weft.fabrics.topology.family_registry import build, topology
from weft.fabrics.topology.measures import bisection_upper_bound, hops
from weft.routing import engine as engines
from weft.routing.engine_registry import route
from weft.routing.routes import Routes
from weft.routing.validation.validate import Validation, validate
from weft.sim.common.progress import Forecast
from weft.sim.options import TimedLevel
from weft.sim.simulate import simulate
from weft.sim.static.analysis import analyse_all_to_all
from weft.sim.static.effective_bisection import bisection
from weft.sim.sweep import saturation_load
from weft.workload import Workload, load_workload

#: Workloads unless others are given. Both have few messages: log2(n) or 2 log2(n) per host.
WORKLOADS = ("allreduce:size=4MiB", "alltoall:size=1KiB,algorithm=bruck")
#: Class of routing of all machines in a table.
Routing = Literal["static", "adaptive"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)
#: Engines of each class for machines whose family names none, or whose own engines do not fit.
ENGINES: Mapping[Routing, tuple[str, ...]] = {
    "static": ("dfsssp", "nue"), "adaptive": ("ecmp",),
}  # fmt: skip
#: Policy for all minimal paths; routes via intermediates have policies of their own.
ADAPTIVE = "adaptive"
#: What a machine without routes lacks.
OF_ROUTES = "routes, and figures that need them"
#: Random bisections of the effective bisection bandwidth.
SAMPLES = 100
#: Width of the interval in which saturation is found.
RESOLUTION = 0.05

#: Columns of a run, by name.
MACHINE_COLUMNS: Mapping[str, Column] = {
    "not_computed": Column(
        pl.String, "", "Figures that this machine cannot have, and why (null: it has all)"
    ),
    "routing": Column(
        pl.String, "", "Class of routing: static, one path per pair, or adaptive, a choice of paths"
    ),
    "engine": Column(
        pl.String, "", "Routing engine: the first of the class that fits the machine and is valid"
    ),
    "lanes": Column(pl.Int64, "", "Number of virtual lanes that the routes use"),
    "faults": Column(pl.String, "", "Random cables that are missing (null: none)"),
    "hosts": Column(pl.Int64, "", "Number of attached hosts"),
    "switches": Column(pl.Int64, "", "Number of switches"),
    "ports": Column(pl.Int64, "", "Largest number of ports of a switch that the topology needs"),
    "cables": Column(pl.Int64, "", "Number of cables, those to hosts included"),
    "copper_cables": Column(pl.Int64, "", "Number of copper cables, from their lengths in racks"),
    "optical_cables": Column(pl.Int64, "", "Number of optical cables, from their lengths in racks"),
    "cable_m": Column(pl.Float64, "m", "Total length of the cables"),
    "cost": Column(pl.Float64, "currency", "Cost of all parts with a price (null: no prices)"),
    "cost_per_host": Column(pl.Float64, "currency", "Cost divided by the number of hosts"),
    "currency": Column(pl.String, "", "Currency of costs (null: no prices)"),
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
    "contention_free_ns": Column(
        pl.Float64, "ns",
        "Time of the workload at the flow level if each pair of ranks had the network to itself "
        "(null: no workload)",
    ),
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
    "makespan_ns", "cost", "switches", "cables", "optical_cables", "cable_m", "power_w",
    "mean_hops",
)  # fmt: skip
HIGHER = ("saturation", "uniform", "ebb", "bisection")


@dataclass(frozen=True)
class MachineRun:
    """Parameters of a run."""

    #: Spec of the fabric.
    spec: str
    #: Workload, with one rank per host; None for no workload.
    workload: str | None = None
    #: Placement of the ranks.
    placement: str = "linear"
    #: Level of detail of the workload.
    level: TimedLevel = "flow"
    #: Level of detail at which the saturation is searched for; None for no search.
    saturation: TimedLevel | None = None
    #: Class of routing: by the first engine of `engines_of` that fits.
    routing: Routing = "static"
    #: Routing engine, whatever its class; None for one of `routing`.
    engine: str | None = None
    #: Size of the largest eager message; None for the usual one.
    eager_bytes: int | None = None
    #: Prices, or None. Missing cables are paid for, too.
    prices: Prices | None = None
    #: Seed of the workload, of the traffic and of random bisections.
    seed: int = 0
    #: Number or share of random cables between switches that are missing, and their seed.
    random_cables: int | str = 0
    fault_seed: int = 0


def describe_machine(run: MachineRun) -> dict[str, Any]:
    """Measure one machine under one workload.

    Returns values of `MACHINE_COLUMNS`; None for what was not asked for, and for what
    ``not_computed`` names: the rest does not depend on it. They depend on `run` and, where memory
    does not suffice, on the memory that is free.
    """
    names = engines_of(run.spec, run.routing) if run.engine is None else (run.engine,)
    given = run.spec, names, run.random_cables, run.fault_seed
    without: dict[str, str] = {}
    measured: dict[str, Any] = dict.fromkeys(MACHINE_COLUMNS)
    try:
        with common_to_kind():
            measured |= _of_routes(*given, run.seed)
        for figures in _of_run(run, *routed(*given)[:2]):
            measured |= figures
    except (MemoryError, TimeoutError) as error:
        what = "times" if measured["engine"] else OF_ROUTES
        without[what] = str(error) or "not enough memory"
    return measured | of_fabric(run, without)


def of_fabric(run: MachineRun, without: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns that need no routes, with ``not_computed``.

    `without`: what else cannot be computed, with the reason.
    """
    found, lacking = fabric_figures(
        run.spec, run.random_cables, run.fault_seed, run.prices, run.seed
    )
    reasons = "; ".join(f"{what}: {reason}" for what, reason in {**lacking, **without}.items())
    return found | {"not_computed": reasons or None}


def _in_time(outlook: Forecast) -> None:
    """Refuse a simulation that would not end within the time that the run may take."""
    if outlook.least_s > (left := time_left()):
        span = clock_span(outlook.least_s, outlook.most_s)
        raise TimeoutError(f"the simulation would take {span}, {clock_text(max(left, 0))} are left")


def _of_run(run: MachineRun, fabric: Fabric, routes: Routes) -> Iterator[dict[str, Any]]:
    """Yield the columns of a workload, and of the search for saturation, when they are known."""
    minimal = not routes.settled and not routes.num_intermediates
    if run.workload is not None:
        workload = load_workload(run.workload, fabric.num_hosts)
        options: dict[str, Any] = {"seed": run.seed, "expected": _in_time}
        if run.eager_bytes is not None:
            options["eager_bytes"] = run.eager_bytes
        alone = simulate(fabric, routes, workload, run.placement, sharing="none", **options)
        yield {"contention_free_ns": alone.makespan_ns}
        if minimal and run.level != "flow":
            options["policy"] = ADAPTIVE
        result = simulate(fabric, routes, workload, run.placement, level=run.level, **options)
        time_ns = result.makespan_ns
        sent = int(workload.size_bytes[workload.messages].sum())
        rate_gbps = 8 * sent / (fabric.num_hosts * time_ns) if time_ns else None
        yield {"makespan_ns": time_ns, "throughput_gbps": rate_gbps}
    if run.saturation is not None:
        found = saturation_load(
            fabric, routes, level=run.saturation, resolution=RESOLUTION, seed=run.seed, processes=1,
            policy=ADAPTIVE if minimal and run.saturation != "flow" else None,
        ).row(0, named=True)  # fmt: skip
        at = found["saturation_load"]
        yield {"saturation": found["sustained_load"] if at is None else at}


def routes_text(row: Mapping[str, Any]) -> str:
    """Return class, engine and lanes of a row of `MACHINE_COLUMNS`: ``adaptive: ugal, 2 lanes``."""
    if row["engine"] is None:
        return "-"
    lanes = "" if row["lanes"] == 1 else f", {row['lanes']} lanes"
    return f"{row['routing']}: {row['engine']}{lanes}"


def uneven(workloads: Iterable[str], hosts: int) -> Iterator[str]:
    """Yield a sentence for each workload that costs more because of its number of ranks.

    That is the case if a rank sends more data than with the next power of two of ranks.
    """
    full = 1 << (hosts - 1).bit_length()
    for name in workloads:
        try:
            most = [_most_sent(load_workload(name, ranks)) for ranks in (hosts, full)]
        except InputError:
            continue  # a file has its number of ranks
        if most[0] > most[1]:
            yield (
                f"{hosts:,} ranks are not a power of two: in {name} a rank sends up to "
                f"{bytes_text(most[0])}, with {full:,} ranks {bytes_text(most[1])}."
            )


def _most_sent(workload: Workload) -> int:
    """Return the most bytes that a rank sends."""
    ranks = np.searchsorted(workload.op_offset, workload.messages, side="right") - 1
    sent = np.bincount(ranks, weights=workload.size_bytes[workload.messages])
    return int(sent.max(initial=0))


def engines_of(spec: str, routing: Routing) -> tuple[str, ...]:
    """Return the engines of a class of routing for a spec, best first.

    The rule is the same for all families and sizes: the engines that suit the family, as far as
    they are of this class, then `ENGINES`.
    """
    family = topology.parse(spec)[0]
    own = tuple(
        name
        for name in family.facts.get("engines", ())
        if bool(engines[name].facts.get("candidates")) == (routing == "adaptive")
    )
    return (*own, *ENGINES[routing])


@lru_cache(maxsize=1)
def routed(
    spec: str, names: tuple[str, ...], random_cables: int | str = 0, fault_seed: int = 0
) -> tuple[Fabric, Routes, Validation]:
    """Return a fabric with valid routes; the last one is kept for further runs.

    `names`: engines, of which the first is used that fits. `random_cables`, `fault_seed`: random
    faults, as in `MachineRun`.
    """
    fabric = Faults(random_cables=random_cables, seed=fault_seed).of(build(spec))
    reasons = []
    refusal = NotApplicable
    for name in names:
        try:
            routes = route(fabric, name)
        except NotApplicable as error:
            refusal = OutOfMemory if isinstance(error, OutOfMemory) else refusal
            reasons.append(str(error))
            continue
        checked = validate(fabric, routes)
        if checked.ok:
            return fabric, routes, checked
        reasons.append(f"{name}: its routes are not valid: {checked.findings()[0]}")
    raise refusal("; ".join(reasons))


@lru_cache(maxsize=1)
def _of_routes(
    spec: str, names: tuple[str, ...], random_cables: int | str, fault_seed: int, seed: int
) -> dict[str, Any]:
    """Return the columns of the routes, which need no workload."""
    fabric, routes, checked = routed(spec, names, random_cables, fault_seed)
    load = analyse_all_to_all(fabric, routes).links["load"].max()
    assert isinstance(load, float)
    return {
        "routing": "static" if routes.settled else "adaptive",
        "engine": routes.engine,
        "lanes": checked.lanes,
        "uniform": min(1.0, (fabric.num_hosts - 1) / load),
        "ebb": bisection(fabric, routes, samples=SAMPLES, seed=seed).mean,
    }


@lru_cache(maxsize=1)
def fabric_figures(
    spec: str, random_cables: int | str, fault_seed: int, prices: Prices | None, seed: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the columns that need no routes; and what cannot be computed, with the reason."""
    whole = build(spec)
    fabric = Faults(random_cables=random_cables, seed=fault_seed).of(whole)
    between = int((whole.link_kind[0::2] == LinkKind.SWITCH_SWITCH).sum())
    share = f" ({random_cables})" if isinstance(random_cables, str) else ""
    missing = f"{whole.num_cables - fabric.num_cables:,} of {between:,} cables{share}"
    found: dict[str, Any] = {
        "faults": missing if random_cables else None,
        "hosts": fabric.num_hosts,
        "switches": fabric.num_switches,
        "ports": int(fabric.num_ports[: fabric.num_switches].max()),
        "cables": whole.num_cables,
    }
    lacking: dict[str, str] = {}
    for what, figures in (
        ("lengths and costs of cables", lambda: _of_room(cost(whole, prices=prices))),
        ("hops", lambda: dict(zip(("diameter", "mean_hops"), hops(fabric), strict=True))),
        ("bisection", lambda: {
            "bisection": bisection_upper_bound(fabric, seed) / (fabric.num_hosts // 2)
        }),
    ):  # fmt: skip
        try:
            found |= figures()
        except (InputError, OutOfMemory) as error:
            lacking[what] = str(error)
    return found, lacking


def _of_room(plan: CostPlan) -> dict[str, Any]:
    """Return the columns of the machine in a machine room."""
    kinds = dict(plan.cables.group_by("kind").len().iter_rows())
    return {
        "copper_cables": kinds.get("copper", 0),
        "optical_cables": kinds.get("optical", 0),
        "cable_m": plan.cable_m,
        "cost": plan.total_cost,
        "cost_per_host": plan.cost_per_host,
        "currency": plan.currency,
        "power_w": plan.power_w,
    }
