"""Function `place_io`: where to put I/O nodes, and which hosts to give to the jobs beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.advice.io_nodes.candidates import Candidate, Figures
from weft.advice.io_nodes.result import IoPlacement
from weft.advice.io_nodes.settings import CLUSTERED, SEEDS, IoSettings
from weft.advice.io_nodes.sites import Roles, named_candidates, searched
from weft.advice.io_nodes.traffic import Extent, bandwidths, compute_workload, io_workload
from weft.core.settings import document
from weft.fabrics import Fabric, check_fabric
from weft.routing import route
from weft.routing.routes import Routes
from weft.routing.validation.validate import validate
from weft.sim.options import Level

#: Largest number of candidates that are run at the flow level.
MOST_RUNS = 16
#: Least relative difference of scores, and of bandwidths in the worst case, that counts.
EQUAL = 0.01


def place_io(
    fabric: Fabric,
    io_nodes: Any,
    routes: str | Sequence[str] | Routes | None = None,
    **options: Any,
) -> IoPlacement:
    """Find hosts for I/O nodes, and for a compute job beside them, and say why.

    Every candidate is judged at the static level (bandwidth of a client in the worst case), the
    best of these at the flow level, and the best of those at the packet or flit level. The
    criterion of both runs is the product of the bandwidths of the I/O job and of the compute job,
    which run at the same time: one per cent more for either counts the same.

    Parameters
    ----------
    fabric
        The fabric.
    io_nodes
        Number of I/O nodes to place, or their hosts: then only the jobs are placed.
    routes
        Routes, or an engine by name, or several in order of preference. Default: ``minhop``, or
        ``nue`` if the routes of ``minhop`` can deadlock, which runs of packets or flits would.

    Returns
    -------
    IoPlacement
        The candidates, best first, with figures and reasons.

    Raises
    ------
    InputError
        If a host or option is unknown, hosts are too few, or two of them have no path.
    NotApplicable
        If no engine, no placement fits the fabric, or the pattern does not exist for
        this number of hosts.

    Notes
    -----
    Petrini et al. (2003), sections 4.6, 4.7, 5.6 and 5.7, measure clustered and distributed I/O
    nodes, dedicated and shared, on one machine; this function asks the same of any fabric.
    """
    check_fabric(fabric)
    chosen = IoSettings(io_nodes=io_nodes, **options)
    roles = Roles.of(fabric, chosen)
    laid, notes = _routes(fabric, routes)
    candidates, refused = named_candidates(roles, laid)
    best = candidates[0]
    for each in candidates[1:]:
        best = each if each.loads.better(best.loads) else best
    found = searched(roles, laid, best)
    candidates += [] if found is None else [found]
    for at in (runs := _promising(candidates)):
        figures = _figures(candidates[at], fabric, laid, "flow", chosen)
        candidates[at] = replace(candidates[at], flow=figures)
    if chosen.confirm != "flow":
        runs.sort(key=lambda at: -candidates[at].score)
        most = max(runs, key=lambda at: candidates[at].loads.client_gbps)
        usual = [at for at in runs if CLUSTERED in candidates[at].placements][:1]
        for at in dict.fromkeys((*runs[: chosen.finalists], most, *usual)):
            figures = _figures(candidates[at], fabric, laid, chosen.confirm, chosen)
            candidates[at] = replace(candidates[at], confirmed=figures)
    order, margin = _ordered(candidates)
    return IoPlacement(fabric, laid.engine, chosen, order, margin, refused, notes)


document(place_io, IoSettings)


def _routes(
    fabric: Fabric, given: str | Sequence[str] | Routes | None
) -> tuple[Routes, tuple[str, ...]]:
    """Return the routes, and notes on them."""
    if isinstance(given, Routes):
        return given, ()
    if given is not None:
        return route(fabric, given), ()
    usual = route(fabric, "minhop")
    if validate(fabric, usual).deadlock == "no":
        return usual, ()
    return route(fabric, "nue"), ("minhop's routes can deadlock on this fabric; nue's cannot.",)


def _promising(candidates: Sequence[Candidate]) -> list[int]:
    """Return the indices of candidates to run: the best of each placement, and then the best.

    Best is the largest product of the rates of both jobs that links can carry at the same time.
    """
    value = [
        each.loads.client_gbps * each.loads.compute_gbps * each.loads.kept**2 for each in candidates
    ]
    order = sorted(range(len(candidates)), key=lambda at: (-value[at], at))
    first: dict[str, int] = {}
    for at in order:
        first.setdefault(candidates[at].placements[0], at)
    leaders = sorted(first.values(), key=order.index)
    return list(dict.fromkeys((*leaders, *order)))[: max(MOST_RUNS, len(leaders))]


def _figures(
    candidate: Candidate, fabric: Fabric, routes: Routes, level: Level, chosen: IoSettings
) -> Figures:
    """Return the bandwidths of both jobs, each alone and both together: means over repetitions."""
    site = candidate.loads.site
    extent = Extent.of(site, chosen, fabric.host_rate_gbps)
    rows = []
    for turn in range(chosen.runs(len(site.compute))):
        drawn = replace(chosen, seed=(chosen.seed + turn) % SEEDS)
        first = io_workload(site, drawn, extent), np.concatenate((site.clients, site.io))
        second = compute_workload(len(site.compute), drawn, extent.messages), site.compute
        run = partial(
            bandwidths, fabric, routes, level=level, until_ns=extent.until_ns, seed=drawn.seed
        )
        alone = run({"io": first}) | run({"compute": second})
        together = run({"io": first, "compute": second})
        rows.append([*alone.values(), *together.values()])
    io_alone, compute_alone, io, compute = np.mean(rows, axis=0).tolist()
    scores = tuple(row[2] * row[3] for row in rows)
    return Figures(io_alone, compute_alone, io, compute, scores)


def _ordered(candidates: Sequence[Candidate]) -> tuple[tuple[Candidate, ...], float]:
    """Return the candidates, best first, and the margin within which scores are equal.

    Confirmed candidates are first, then others that were run, then the rest. The first has, of all
    whose scores differ from the highest by less than the margin, the most bandwidth in the worst
    case, and then a placement by a rule rather than a random one, and then the highest score.
    """
    order = sorted(candidates, key=lambda each: (-each.stage, -each.score))
    group = [each for each in order if each.stage == order[0].stage]
    margin = _margin(np.array([each.figures.scores for each in group if each.figures is not None]))
    near = [each for each in group if each.score >= (1 - margin) * group[0].score]
    most = max(each.loads.client_gbps for each in near)
    near = [each for each in near if each.loads.client_gbps >= (1 - EQUAL) * most]
    first = next((each for each in near if each.by_rule), near[0])
    return (first, *(each for each in order if each is not first)), margin


def _margin(scores: NDArray[np.float64]) -> float:
    """Return twice the standard error of a difference of two means, relative to the highest mean.

    `scores`: float64 [candidates, repetitions]. All candidates have the same draws in a repetition,
    so its mean is subtracted from the noise.
    """
    candidates, repeats = scores.shape
    means = scores.mean(axis=1, keepdims=True)
    if candidates < 2 or repeats < 2 or not means.any():
        return EQUAL
    noise = scores - means - scores.mean(axis=0) + scores.mean()
    variance = float((noise**2).sum()) / (candidates - 1) / (repeats - 1)
    return max(EQUAL, 2 * float(np.sqrt(2 * variance / repeats) / means.max()))
