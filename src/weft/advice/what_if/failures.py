"""The N−1 table: what the failure of each switch or cable does to the traffic of a fabric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.comparison import ENGINE_COLUMNS
from weft.advice.watch.traffic import PairTraffic
from weft.advice.what_if.figures import FailureTraffic, Remains, Whole, fast, figures
from weft.advice.what_if.sweep import NextSweep
from weft.core.arguments import finite_numbers
from weft.core.columns import Column, frame
from weft.core.errors import InputError, NotApplicable
from weft.core.pool import check_processes, cores, run_all
from weft.fabrics import Fabric, LinkKind, check_fabric
from weft.routing import engine, route
from weft.routing.opensm.ports import refuse_forwarding_hosts
from weft.routing.reroute import opensm_reroute
from weft.routing.routes import Routes, TableRoutes

#: Columns of `failure_table`. The figures are those of `weft.advice.comparison.ENGINE_COLUMNS` on
#: the fabric without what failed.
FAILURE_COLUMNS = {
    "failed": Column(pl.String, "", "What fails: switches by name, cables by their ports"),
    "switches": Column(pl.Int64, "", "Number of switches that fail"),
    "cables": Column(pl.Int64, "", "Number of cables that fail, those of failed switches left out"),
    "machines_cut": Column(
        pl.Int64, "", "Machines whose adapters all lost the cables to most other hosts"
    ),
    "hosts_cut": Column(
        pl.Int64, "", "Hosts (adapters) that no cables connect to the largest group of hosts"
    ),
    **{name: ENGINE_COLUMNS[name] for name in ("unrouted", "deadlock", "max_load")},
    "p99_load": Column(pl.Float64, "flows", "99th percentile of the contention of these links"),
    "ebb": Column(
        pl.Float64,
        "share",
        "Effective bisection bandwidth: mean share of the injection rate (null: not asked for)",
    ),
    "demand_load": Column(
        pl.Float64,
        "share",
        "Largest share of its rate that a link between forwarding nodes needs for the given demand "
        "(null: no demand)",
    ),
    "demand_lost_gbps": Column(
        pl.Float64, "Gb/s", "Given demand without a path (null: no demand, or paths are not fixed)"
    ),
    "routed_by": Column(pl.String, "", "Engine of the routes after the failure"),
    "refusal": Column(pl.String, "", "Why no routes were computed (null: they were)"),
}

_OF_DEMAND = ("demand_load", "demand_lost_gbps")
_FIGURES = tuple(FAILURE_COLUMNS)[5:]


@dataclass(frozen=True, order=True)
class Failure:
    """Switches and cables that fail at the same time, as their numbers."""

    switches: tuple[int, ...] = ()
    cables: tuple[int, ...] = ()

    def of(self, fabric: Fabric) -> Fabric:
        """Return the fabric without what failed; hosts of a failed switch stay without a cable."""
        return fabric.without(cables=self.cables, switches=self.switches)

    def options(self, fabric: Fabric) -> tuple[str, ...]:
        """Return what fails as GUIDs, and GUIDs with ports, which are unique in any fabric."""
        guid = [f"{int(number):#x}" for number in fabric.node_guid]
        links = [2 * cable for cable in self.cables]
        ports = [f"{guid[fabric.link_from[at]]}[{fabric.link_from_port[at]}]" for at in links]
        return (*(guid[switch] for switch in self.switches), *ports)

    def text(self, fabric: Fabric) -> str:
        """Return the names of what fails."""
        names = [fabric.node_names[switch] for switch in self.switches]
        return ", ".join([*names, *(fabric.cable_name(cable) for cable in self.cables)])


def each_switch(fabric: Fabric) -> list[Failure]:
    """Return the failure of each single switch."""
    return [Failure((switch,)) for switch in range(fabric.num_switches)]


def each_cable(fabric: Fabric) -> list[Failure]:
    """Return the failure of each single cable between switches."""
    between = np.flatnonzero(fabric.link_kind[0::2] == LinkKind.SWITCH_SWITCH)
    return [Failure((), (cable,)) for cable in between.tolist()]


def failure_table(
    fabric: Fabric,
    failures: Sequence[Failure],
    routes: TableRoutes | str,
    *,
    reroute: str = "",
    samples: int = 100,
    seed: int = 0,
    demand: PairTraffic | None = None,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pl.DataFrame:
    """Judge the traffic of a fabric after each of some failures.

    Parameters
    ----------
    fabric
        The fabric before.
    failures
        Failures, such as `each_switch` and `each_cable` return.
    routes
        The present forwarding tables. They stay as they are, so that packets for a part that failed
        are lost, unless `reroute` is given. Or an engine with its options that routes what is left
        as if nothing had been there, such as ``ftree``.
    reroute
        The engine by which OpenSM, which keeps some entries, replaces the present tables at its
        next sweep; see `weft.routing.reroute.opensm_reroute`.
    samples, seed
        Number and seed of the random bisections; with 0 samples, `ebb` is null.
    demand
        Flows between hosts at given rates, such as those of the jobs that run.
    processes
        Number of processes, by default one for each core. The result is the same for any number.
    progress
        Function to call with the number of failures that are judged and of all.

    Returns
    -------
    polars.DataFrame
        Columns of `FAILURE_COLUMNS`, one row for each failure, in the order given. Without
        failures of hosts, the hosts of the fabric stay the same: those of a failed switch count as
        hosts without a path.

    Raises
    ------
    InputError
        If the fabric has fewer than two hosts, the routes belong to another fabric, or an engine
        or option is unknown.
    NotApplicable
        If present routes are not forwarding tables, or OpenSM cannot route a fabric whose hosts
        forward.
    KeyboardInterrupt
        If an interrupt ended the work.
    """
    check_fabric(fabric)
    check_processes(processes)
    if fabric.num_hosts < 2:
        raise InputError(f"{fabric.name} has {fabric.num_hosts} hosts; expected at least two")
    if isinstance(routes, str):
        engine.bind(*engine.parse(routes))
    elif not isinstance(routes, TableRoutes):
        raise NotApplicable(
            f"the routes of {routes.engine} are no forwarding tables, so that what a failure "
            "leaves of them is not known"
        )
    else:
        routes.check(fabric)
    if reroute:
        engine.bind(*engine.parse(reroute))
        refuse_forwarding_hosts(fabric)
    if demand is not None:
        ends = fabric.host_numbers(demand.sources, "sources")
        others = fabric.host_numbers(demand.destinations, "destinations", count=len(ends))
        rates = finite_numbers(demand.gbps, "rates of the demand", shape=ends.shape)
        demand = PairTraffic(ends, others, rates)
    known = _Known(fabric, routes, reroute, samples, seed, demand)
    tasks = [tuple(failures[at : at + _AT_ONCE]) for at in range(0, len(failures), _AT_ONCE)]
    results, complete = run_all(_judge, known, tasks, processes or cores(), progress)
    if not complete:
        raise KeyboardInterrupt
    rows = [row for part in results for row in part or ()]
    return frame(FAILURE_COLUMNS, {name: [row[name] for row in rows] for name in FAILURE_COLUMNS})


#: Failures that a process judges at a time.
_AT_ONCE = 8


@dataclass(frozen=True)
class _Known:
    """What the rows of all failures have in common."""

    fabric: Fabric
    routes: TableRoutes | str
    reroute: str
    samples: int
    seed: int
    demand: PairTraffic | None

    @cached_property
    def traffic(self) -> FailureTraffic:
        """The traffic by which failures are judged."""
        return FailureTraffic.of(self.fabric, self.samples, self.seed, self.demand)

    def routes_on(self, failed: Fabric) -> Routes:
        """Return the routes after a failure."""
        if isinstance(self.routes, str):
            return route(failed, self.routes)
        if self.reroute:
            return opensm_reroute(self.fabric, self.routes, failed, self.reroute)
        return self.routes.on(self.fabric, failed)

    @cached_property
    def sweep(self) -> NextSweep | None:
        """The next sweep if nothing fails; None if no other can be computed from it."""
        if not (self.reroute and isinstance(self.routes, TableRoutes) and fast(self.routes)):
            return None
        return NextSweep.of(self.fabric, self.routes, self.reroute)

    @cached_property
    def part(self) -> NDArray[np.int64]:
        """Connected part of each host before, int64 [hosts]."""
        return Remains(self.fabric).part

    @cached_property
    def whole(self) -> Whole | None:
        """The present tables on the fabric before; None if there are none for `Whole`."""
        if not (isinstance(self.routes, TableRoutes) and fast(self.routes)):
            return None
        return Whole(Remains(self.fabric), self.routes.table, self.traffic)


def _judge(
    known: _Known, failures: Sequence[Failure], watch: Callable[[Any], None]
) -> list[dict[str, Any]]:
    rows = []
    for failure in failures:
        watch(None)
        rows.append(_row(known, failure))
    return rows


def _row(known: _Known, failure: Failure) -> dict[str, Any]:
    fabric, routes = known.fabric, known.routes
    remains = Remains(fabric, np.array(failure.switches, int), np.array(failure.cables, int))
    cut = remains.cut(known.part)
    machine = fabric.machine_of_host
    row: dict[str, Any] = {
        "failed": failure.text(fabric),
        "switches": len(failure.switches),
        "cables": len(failure.cables),
        "machines_cut": len(np.unique(machine)) - len(np.unique(machine[~cut])),
        "hosts_cut": int(cut.sum()),
        **dict.fromkeys(_FIGURES),
    }
    whole = known.whole
    if whole and isinstance(routes, TableRoutes) and not known.reroute:
        return row | whole.figures_after(remains, routes.table) | {"routed_by": routes.engine}
    if cut.all():
        return row | {"refusal": "no host is left"}
    try:
        if whole and known.sweep and not failure.switches:
            swept = known.sweep.after(remains)
            if swept is not None:
                name = engine.parse(known.reroute)[0].name
                return row | whole.figures_after(remains, swept) | {"routed_by": name}
        failed = failure.of(fabric)
        after = known.routes_on(failed)
    except (InputError, NotApplicable) as reason:  # such as a list that names a failed switch
        return row | {"refusal": str(reason)}
    row["routed_by"] = after.engine
    if not (isinstance(after, TableRoutes) and fast(after)):
        return row | figures(failed, after, known.traffic)
    if whole and failed.num_destinations == fabric.num_destinations:
        return row | whole.figures_after(remains, after.table)
    return row | Whole(Remains(failed), after.table, known.traffic).figures()
