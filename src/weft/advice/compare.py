"""Comparison of routing engines on a fabric: validity, loads and bisection bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.comparison import (
    ENGINE_COLUMNS,
    RUN_COLUMNS,
    Comparison,
    EngineOutcome,
    PatternFit,
    is_opensms,
    nvidia_setting,
)
from weft.core.columns import frame
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, check_fabric
from weft.report.comparison_data import LinkUsers, PatternRun
from weft.routing import engine, route
from weft.routing.engine_registry import never_deadlocks
from weft.routing.engines.as_opensm import detected_roots
from weft.routing.engines.updn import chosen_roots
from weft.routing.lane_files import opensm_use
from weft.routing.routes import CandidateRoutes, Routes, TableRoutes
from weft.routing.validation.validate import Validation, validate
from weft.sim.common.metrics import load_metrics
from weft.sim.static.all_to_all import (
    MAX_LISTED_FLOWS,
    all_to_all_users,
    loads_between_machines,
)
from weft.sim.static.effective_bisection import bisection
from weft.sim.static.loads import (
    Loads,
    flow_loads,
    host_flows,
    inner_links,
    link_users,
    relative_loads,
)
from weft.workload import Pairs, pattern, traffic

PATTERNS = (
    "all-to-all",
    "random-permutation",
    "ring-random",
    "shift",
    "bit-reversal",
    "transpose",
    "tornado",
    "hot-spot",
)
#: For this number of links of each run, the flows on the link are listed.
BUSIEST = 24
#: Up to this many flows on a link are listed by host; more are listed by switch.
USERS = 32

#: Reasons why the flows on a link cannot be listed: for candidates without and with intermediates.
_NO_USERS = (
    "{engine} does not fix the path of a flow: each switch chooses among several ports for every "
    "packet. The flows on a link cannot be listed."
)
_NO_USERS_BY_WAY_OF = (
    "{engine} does not fix the path of a flow: for every packet, the first switch chooses whether "
    "it takes a detour and via which intermediate, and each switch chooses among several ports. "
    "The flows on a link cannot be listed."
)

#: Before the name of an engine: its static fallback.
_STATIC = "static fallback of "

#: Order of engines with equal figures, from OpenSM's manual.
CLASSIC = ("minhop", "updn", "dnup", "ftree", "lash", "dor", "torus-2QoS", "dfsssp", "sssp")


def compare(
    fabric: Fabric,
    engines: Sequence[str] | None = None,
    patterns: Sequence[str] | None = None,
    *,
    samples: int = 1000,
    seed: int = 0,
    two_way: bool = False,
    others: Sequence[EngineOutcome] = (),
) -> Comparison:
    """Route a fabric with every engine that fits, validate the routes, and compute their loads.

    Parameters
    ----------
    fabric
        The fabric.
    engines
        Engines, with options as in ``"updn:roots=center"``. Default: all engines that need no file,
        OpenSM's engines also with OpenSM's own balancing, and ``updn:roots=center`` if ``updn``
        finds no roots.
    patterns
        Traffic patterns, with options as in ``"shift:offset=3"``. Default: `PATTERNS`.
    samples, seed
        Number of random bisections, and seed of these bisections and of random patterns.
    two_way
        Whether both halves of a bisection send at the same time.
    others
        Outcomes of routes that no engine gives, such as the tables in place; they are listed last.

    Raises
    ------
    InputError
        If an engine, pattern or option is unknown, or the fabric has fewer than two hosts.
    """
    check_fabric(fabric)
    if fabric.num_hosts < 2:
        raise InputError(
            f"a comparison needs at least two hosts; {fabric.name} has {fabric.num_hosts}"
        )
    chosen = default_engines() if engines is None else list(dict.fromkeys(engines))
    wanted = list(PATTERNS) if patterns is None else list(dict.fromkeys(patterns))
    for name in chosen:
        entry, given = engine.parse(name)
        engine.bind(entry, given)
    for spec in wanted:
        entry, given = pattern.parse(spec)
        pattern.bind(entry, given)
    outcomes = [_try(fabric, name, samples, seed, two_way) for name in chosen]
    if engines is None and any(o.name == "updn" and o.refusal for o in outcomes):
        # Without natural roots, Up*/Down* from the centre of the fabric is still deadlock-free.
        outcomes.append(_try(fabric, "updn:roots=center", samples, seed, two_way))
    if engines is None and _other_roots(fabric):
        outcomes.append(_try(fabric, "updn:roots=auto;balance=opensm", samples, seed, two_way))
    outcomes += others
    loads = {o.name: loads_between_machines(fabric, o.routes) for o in outcomes if o.routes}
    loads |= {
        _STATIC + o.name: loads_between_machines(fabric, static)
        for o in outcomes
        if (static := _fallback(o.routes)) is not None
    }
    fits, runs = _run_patterns(fabric, outcomes, wanted, seed, loads)
    rows = {o.name: _row(fabric, o, loads[o.name].per_link) for o in outcomes if o.routes}
    first = outcomes[: len(outcomes) - len(others)]
    first.sort(key=lambda outcome: _rank(outcome, rows.get(outcome.name)))
    outcomes = [*first, *others]
    order = [outcome.name for outcome in outcomes]
    runs.sort(key=lambda run: order.index(run.engine))
    kept = [rows[name] for name in order if name in rows]
    return Comparison(
        fabric=fabric,
        outcomes=tuple(outcomes),
        pattern_fits=fits,
        runs=tuple(runs),
        table=frame(ENGINE_COLUMNS, {k: [row[k] for row in kept] for k in ENGINE_COLUMNS}),
        runs_table=runs_table(fabric, runs),
        notes=(
            f"Effective bisection bandwidth: {samples} random {'two-way ' if two_way else ''}"
            f"bisections, seed {seed}; a share "
            f"of 1 is {fabric.host_rate_gbps:g} Gb/s.",
            "The contention of a link is its number of flows, divided by its rate relative to the "
            "fastest host cable. All flows of a pattern send at once; time, queues and message "
            "sizes are not modelled.",
            "balance=opensm gives the tables that OpenSM itself computes, without files except a "
            "list of roots and torus-2QoS.conf; without it weft balances the flows on links.",
            "For loads, adaptive engines divide flows equally among candidates and intermediates. "
            "For the bisection bandwidth, ecmp, valiant and ugal choose one at random, and engines "
            "with a static fallback divide flows equally. ugal sends on minimal paths the share of "
            "each pattern that minimises the largest contention.",
        ),
    )


def default_engines() -> list[str]:
    """Return every engine that needs no file, and OpenSM's engines with its own balancing."""
    specs = [e.name for e in engine if "needs" not in e.facts]
    theirs = (e.facts["as_opensm"] for e in engine if "as_opensm" in e.facts)
    return list(dict.fromkeys((*specs, *theirs)))


def _other_roots(fabric: Fabric) -> bool:
    """Return whether weft finds roots for updn, but not those that OpenSM detects."""
    try:
        rows, _ = chosen_roots(fabric)
    except NotApplicable:
        return False
    return not np.array_equal(rows, detected_roots(fabric))


def _try(fabric: Fabric, name: str, samples: int, seed: int, two_way: bool) -> EngineOutcome:
    entry = engine.parse(name)[0]
    summary = entry.summary
    if is_opensms(name):
        summary = f"Tables of OpenSM's own {entry.name}."
    start = perf_counter()
    try:
        routes = route(fabric, name)
    except NotApplicable as error:
        return EngineOutcome(name, summary, refusal=error.reason)
    elapsed = perf_counter() - start
    found = judge(
        fabric, name, routes, samples=samples, seed=seed, two_way=two_way, summary=summary
    )
    return replace(found, route_s=elapsed, nvidia_sm=nvidia_setting(name))


def judge(
    fabric: Fabric,
    name: str,
    routes: Routes,
    *,
    samples: int,
    seed: int = 0,
    two_way: bool = False,
    summary: str = "",
    checked: Validation | None = None,
) -> EngineOutcome:
    """Return the outcome of given routes, for `compare`; `checked` if they are validated."""
    static = _fallback(routes)
    share = partial(bisection, fabric, samples=samples, seed=seed, two_way=two_way)
    return EngineOutcome(
        name,
        summary,
        routes=routes,
        validation=validate(fabric, routes) if checked is None else checked,
        bisection=share(routes),
        static_bisection=None if static is None else share(static),
        opensm_use=opensm_use(fabric, routes),
    )


def _rank(outcome: EngineOutcome, row: dict[str, object] | None) -> tuple[object, ...]:
    if row is None or outcome.validation is None or outcome.bisection is None:
        return (2, outcome.name)
    entry = engine.parse(outcome.name)[0]
    return (
        0 if outcome.validation.ok_where_connected else 1,
        -outcome.bisection.mean,
        row["max_load"],
        not never_deadlocks(outcome.name),
        outcome.validation.lanes,
        bool(outcome.routes and outcome.routes.refusals),
        CLASSIC.index(entry.name) if entry.name in CLASSIC else len(CLASSIC),
        outcome.name,
    )


def _row(fabric: Fabric, outcome: EngineOutcome, flows: NDArray[Any]) -> dict[str, object]:
    checked, ebb = outcome.validation, outcome.bisection
    assert checked is not None
    assert ebb is not None
    between = relative_loads(fabric, flows)[inner_links(fabric)]
    metrics = load_metrics(between).row(0, named=True)
    return {
        "engine": outcome.name,
        "routing": "static" if outcome.routes and outcome.routes.settled else "adaptive",
        "nvidia_sm": outcome.nvidia_sm or None,
        "valid": checked.ok_where_connected,
        "unrouted": checked.num_unrouted_pairs,
        "deadlock": len(checked.credit_loops),
        "lanes": checked.lanes,
        "mean_hops": checked.mean_hops,
        "max_hops": checked.max_hops,
        "minimal": checked.minimal_share,
        "ebb": ebb.mean,
        "ebb_low": ebb.interval[0],
        "ebb_high": ebb.interval[1],
        "static_ebb": outcome.static_bisection and outcome.static_bisection.mean,
        "max_load": metrics["max"],
        "p99_load": metrics["p99"],
        "cv": metrics["cv"],
        "used": metrics["used"],
    }


def _run_patterns(
    fabric: Fabric,
    outcomes: Sequence[EngineOutcome],
    wanted: Sequence[str],
    seed: int,
    all_to_all: Mapping[str, Loads],
) -> tuple[dict[str, PatternFit], list[PatternRun]]:
    fits: dict[str, PatternFit] = {}
    runs: list[PatternRun] = []
    for spec in wanted:
        entry, given = pattern.parse(spec)
        fits[spec] = PatternFit(entry.summary)
        options = {"seed": seed} if "seed" in entry.options and "seed" not in given else {}
        # The loads of an all-to-all are known; its flows are only needed to list them by link.
        known = all_to_all if entry.name == "all-to-all" else {}
        pairs: Pairs | None = None
        if not known or fabric.num_hosts * (fabric.num_hosts - 1) <= MAX_LISTED_FLOWS:
            try:
                pairs, taken = _fitting_traffic(fabric.num_hosts, spec, options)
            except NotApplicable as error:
                fits[spec] = PatternFit(entry.summary, refusal=str(error))
                continue
            away = fabric.apart(*pairs)
            if not away.any():
                fits[spec] = PatternFit(entry.summary, refusal="all its flows stay in machines")
                continue
            if not away.all():
                pairs = Pairs(pairs.sources[away], pairs.destinations[away], pairs.spec)
            if taken < fabric.num_hosts:
                some = f"Among the first {taken:,} of {fabric.num_hosts:,} hosts."
                fits[spec] = PatternFit(entry.summary, some_hosts=some)
        runs.extend(
            _run(fabric, outcome, spec, pairs, known)
            for outcome in outcomes
            if outcome.routes is not None
        )
    return fits, runs


def _fitting_traffic(num_hosts: int, spec: str, options: Mapping[str, int]) -> tuple[Pairs, int]:
    """Return the flows of a pattern; one of bits takes the most hosts, from the first on, it fits.

    Raises `NotApplicable` if the pattern fits no such number of hosts.
    """
    try:
        return traffic(num_hosts, spec, **options), num_hosts
    except NotApplicable:
        if not pattern.parse(spec)[0].facts.get("binary") or num_hosts < 2:
            raise
        most = 1 << (num_hosts.bit_length() - 1)
        return _fitting_traffic(most if most < num_hosts else num_hosts // 2, spec, options)


def _fallback(routes: Routes | None) -> TableRoutes | None:
    return routes.fallback if isinstance(routes, CandidateRoutes) else None


def _run(
    fabric: Fabric,
    outcome: EngineOutcome,
    spec: str,
    pairs: Pairs | None,
    known: Mapping[str, Loads],
) -> PatternRun:
    """Return the run of an engine and a pattern, which is given as flows, known loads, or both."""
    routes = outcome.routes
    assert routes is not None
    flows = None if pairs is None else host_flows(fabric, *pairs, lmc=routes.lmc)

    def loads_of(name: str, routes: Routes) -> tuple[Loads, NDArray[np.float64]]:
        loads = known.get(name)
        if loads is None:
            assert pairs is not None
            loads = flow_loads(fabric, routes, host_flows(fabric, *pairs, lmc=routes.lmc))
        return loads, relative_loads(fabric, loads.per_link)

    loads, load = loads_of(outcome.name, routes)
    static = _fallback(routes)
    peak = None
    if static is not None:
        peak = float(loads_of(_STATIC + outcome.name, static)[1].max(initial=0.0))
    users: dict[int, LinkUsers] = {}
    if routes.settled:
        busiest = _busiest(fabric, load)
        if flows is not None and pairs is not None:
            crossing = link_users(fabric, routes, flows, busiest)
            listed = [_users(fabric, pairs.sources[f], pairs.destinations[f]) for f in crossing]
        else:
            groups = all_to_all_users(fabric, routes, busiest)
            listed = [LinkUsers.of(g.source, g.destination, g.flows) for g in groups]
        users = dict(zip(busiest.tolist(), listed, strict=True))
    return PatternRun(
        engine=outcome.name,
        pattern=spec,
        flows=loads.per_link.astype(np.float64),
        load=load,
        users=users,
        unrouted_share=loads.unrouted / loads.flows if loads.flows else 0.0,
        no_users=_no_users(routes).format(engine=outcome.name),
        static_peak=peak,
    )


def _busiest(fabric: Fabric, load: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the most loaded links between rows, and to or from hosts, and their reverse links."""
    chosen = []
    for inter in (True, False):
        links = np.flatnonzero((inner_links(fabric) == inter) & (load > 0))
        chosen.append(links[np.argsort(-load[links], kind="stable")][:BUSIEST])
    links = np.unique(np.concatenate(chosen))
    return np.unique(np.concatenate((links, links ^ 1)))


def _users(
    fabric: Fabric, sources: NDArray[np.int64], destinations: NDArray[np.int64]
) -> LinkUsers:
    """Return the flows on a link by host if they are few, else by the hosts' switches."""
    node = fabric.host_nodes
    if len(sources) > USERS:
        node = fabric.graph.row_node[fabric.graph.destination_row[fabric.host_endpoint]]
    return LinkUsers.of(node[sources], node[destinations], np.ones(len(sources), dtype=np.int64))


def runs_table(fabric: Fabric, runs: Sequence[PatternRun]) -> pl.DataFrame:
    """Return a frame of `RUN_COLUMNS`."""
    between = np.flatnonzero(inner_links(fabric))
    busiest = []
    for run in runs:
        load = run.load[between]
        loaded = len(load) > 0 and load.max() > 0
        busiest.append(fabric.link_name(int(between[np.argmax(load)])) if loaded else None)
    return frame(
        RUN_COLUMNS,
        {
            "engine": [run.engine for run in runs],
            "pattern": [run.pattern for run in runs],
            "contention": [float(run.load.max(initial=0.0)) for run in runs],
            "static_contention": [run.static_peak for run in runs],
            "unrouted": [run.unrouted_share for run in runs],
            "busiest_link": busiest,
        },
    )


def _no_users(routes: Routes) -> str:
    """Return why the flows on a link cannot be listed; empty if they can."""
    if routes.settled:
        return ""
    by_way_of = routes.num_intermediates
    return _NO_USERS_BY_WAY_OF if by_way_of else _NO_USERS
