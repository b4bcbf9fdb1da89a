"""K. Kenzi 2026, "A routing-level comparison of ECMP, e-ECMP and flowlet-based e-ECMP".

The study repeats all sweeps of the paper, with the paper's parameters, over several seeds. Loads
have two kinds of basis: the paper's own (both directions of a cable added, cables to hosts and
unused cables included) and each tier of directed links between switches. `docs/multipath.md`
describes the interpretation of the paper and the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.text import Text

from weft.core.arguments import whole_number
from weft.core.columns import frame_of_rows
from weft.core.errors import InputError
from weft.core.files import make_folder
from weft.core.pool import check_processes
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.common.metrics import link_tiers
from weft.sim.static.loads import link_loads
from weft.sim.static.multipath import HashName, Scheme, multipath_loads
from weft.study.runs.typed import IN_MEMORY, Results, typed_run
from weft_papers.claim_report import (
    claim_parts,
    claims_table,
    explained,
    findings_frame,
    verdict_counts,
    verdict_text,
)
from weft_papers.claims import ClaimResult, hold
from weft_papers.multipath import tables as table
from weft_papers.multipath.claims import CLAIM_BASES, CLAIMS, EQUAL, PAPER, MultipathEvidence
from weft_papers.multipath.plots import figures as drawn
from weft_papers.multipath.tables import BASES, SCHEMES
from weft_papers.paper_registry import paper
from weft_papers.reported_study import ReportedStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The paper's parameters.
QPS = (1, 2, 4, 8, 16, 30)
QPS_AT_30_EPOCHS = (1, 2, 4, 8, 16)
EPOCHS = (1, 2, 5, 10, 20, 40)
SIZES = (4, 8, 16, 32)
SIZE, SIZE_QPS, SIZE_EPOCHS = 8, 8, 20

Sweep = Literal["qps", "qps-30", "epochs", "k", "cdf"]

_TIER_OF_BASIS = {
    "edge-agg-up": "up 1-2", "agg-core-up": "up 2-3", "core-agg-down": "down 3-2",
    "agg-edge-down": "down 2-1",
}  # fmt: skip

#: Below this number of path walks (about 10 s) one process is faster than several.
_WALKS_WORTH_PROCESSES = 400_000_000


@dataclass(frozen=True)
class SweepPoint:
    """One point of a sweep.

    `before` has the smaller sizes whose traffic is drawn first, from the same generator.
    """

    sweep: Sweep
    k: int
    qps: int
    epochs: int
    before: tuple[int, ...] = ()

    @property
    def x(self) -> int:
        """Value of the parameter that the sweep varies."""
        return {"k": self.k, "epochs": self.epochs}.get(self.sweep, self.qps)


def study_points(k: Sequence[int]) -> tuple[SweepPoint, ...]:
    """Return all points of all sweeps, and the point of figure 7, which is on the k sweep."""
    sizes = tuple(
        SweepPoint("k", size, SIZE_QPS, SIZE_EPOCHS, tuple(k[:index]))
        for index, size in enumerate(k)
    )
    figure_7 = next(
        (point for point in sizes if point.k == SIZE), SweepPoint("k", SIZE, SIZE_QPS, SIZE_EPOCHS)
    )
    return (
        *(SweepPoint("qps", SIZE, qps, SIZE_EPOCHS) for qps in QPS),
        *(SweepPoint("qps-30", SIZE, qps, 30) for qps in QPS_AT_30_EPOCHS),
        *(SweepPoint("epochs", SIZE, SIZE_QPS, epochs) for epochs in EPOCHS),
        *sizes,
        replace(figure_7, sweep="cdf"),
    )


_LEGEND = (
    "cables: the paper's basis, both directions added, cables to hosts included; directions: links "
    "between switches, each direction separately. CV: standard deviation over mean; p90 in flows; "
    "used: share of links with load. Equal split: every flow is split equally over all its paths."
)


@dataclass(frozen=True, eq=False, repr=False)
class StudyResult(ReportedStudy):
    """Result of the study."""

    counted = "seeds"
    title = "Multipath routing on fat trees (Kenzi 2026)"
    columns = table.TABLES

    #: Frames of the tables.
    runs: pl.DataFrame
    summary: pl.DataFrame
    cdf: pl.DataFrame
    #: The paper's claims with the findings on them.
    claims: tuple[ClaimResult, ...]

    @property
    def claims_frame(self) -> pl.DataFrame:
        """Table with one row per claim and basis."""
        return findings_frame(self.columns["claims"], self.claims, "basis", "difference")

    def how(self) -> str:
        """Return one line with the parameters of the study."""
        options = self.parameters
        seeds = f"{options['seeds']} seeds"
        if self.partial:
            seeds = f"partial, interrupted: {self.partial}"
        return (
            f"{options['flows']} flows, {options['hash']} hash, {seeds} from "
            f"{options['first_seed']}; mean and 95 % interval (Student t)"
        )

    def result_parts(self) -> Iterator[RenderableType]:
        """Yield tables of the sweeps."""
        yield _LEGEND + "\n"
        yield from table.sweep_tables(self.summary)

    def claim_parts(self) -> Iterator[RenderableType]:
        """Yield the claims on the paper's basis, with the verdicts by tier."""
        headings = {
            "section": 7, "the paper says": 22, "measured, on the paper's basis": 40,
            "verdict": 10, "per direction, by tier": 17,
        }  # fmt: skip
        each_finding = [(claim, claim.findings[PAPER]) for claim in self.claims]
        rows = [
            (claim.section, claim.says, Text(finding.measured), verdict_text(finding.verdict),
             table.tier_verdict(claim))
            for claim, finding in each_finding
        ]  # fmt: skip
        comments = (
            explained(claim, [Text(f"  deciding: {finding.deciding}")], verdict=finding.verdict)
            for claim, finding in each_finding
        )
        yield from claim_parts(claims_table(headings, rows), comments)

    def figures(self) -> Iterable[tuple[str, Figure]]:
        """Draw the paper's figures from the measured values."""
        return drawn(self.summary, self.cdf, self.how())

    def __repr__(self) -> str:
        counts = verdict_counts(self.claims_frame.filter(pl.col("basis") == PAPER)["verdict"])
        return f"StudyResult(multipath-ecmp, {self.parameters['hash']} hash: {counts})"


@paper("multipath-ecmp", aliases=("multipath",))
def multipath_ecmp(
    *,
    seeds: int = 30,
    flows: int = 2000,
    k: tuple[int, ...] = SIZES,
    hash: HashName = "md5",
    first_seed: int = 0,
    processes: int | None = None,
    results: Results = IN_MEMORY,
    out: Path | None = None,
) -> StudyResult:
    """ECMP, flowlets, e-ECMP and flowlet-based e-ECMP on fat trees (Kenzi 2026).

    After Ctrl-C the result contains the seeds completed at all sizes, if there are at least two.

    Parameters
    ----------
    seeds
        Number of repetitions, each with its own traffic and hash seed (if the hash has a seed).
    flows
        Number of flows, between uniformly random pairs of different hosts, with weight 1.
    k
        Sizes k of the fat trees in the sweep over k; the other sweeps are at k = 8.
    hash
        Hash that chooses paths: md5 as in the published program, ideal, linear (that program's
        older form), crc, crc-polarised or crc-offset.
    first_seed
        First seed; the other seeds are the next numbers.
    processes
        Number of worker processes; by default one per core if the study is large, else one. The
        result does not depend on it.

    Raises
    ------
    InputError
        If a parameter is out of range, or the folder cannot be written to.
    KeyboardInterrupt
        If an interrupt arrives before two seeds are complete; intervals need two.
    """
    _check(seeds, flows, k, first_seed, processes)
    if out is not None:
        make_folder(out)  # fails before the computation
    sizes = tuple(sorted(set(k)))
    points = study_points(sizes)
    traffics = sorted({(point.k, point.before) for point in points}, reverse=True)
    tasks = [
        _Task(size, before, seed, flows, hash, _splits(points, size, before))
        for seed in range(first_seed, first_seed + seeds)
        for size, before in traffics
    ]
    walks = sum(task.flows * max(q * e for q, e in task.splits) for task in tasks)
    if processes is None and walks < _WALKS_WORTH_PROCESSES:
        processes = 1
    known = results.of("multipath-ecmp", _measure, None, tasks, processes)
    incomplete = {task.seed for task in tasks if task not in known}
    samples = {task: each for task, each in known.items() if task.seed not in incomplete}
    done = tuple(dict.fromkeys(task.seed for task in samples))
    if len(done) < 2:
        raise KeyboardInterrupt
    runs = _runs(points, samples)
    loads = {
        basis: np.stack(
            [sample.cdf_loads[basis] for task, sample in samples.items() if task.at(points[-1])],
            axis=1,
        )
        for basis in BASES
    }
    evidence = MultipathEvidence.of(runs, SCHEMES, loads, hash)
    return StudyResult(
        parameters={
            "seeds": seeds, "first_seed": first_seed, "flows": flows, "k": sizes, "hash": hash,
        },
        runs=runs,
        summary=table.summarise(runs),
        cdf=table.distributions(loads),
        claims=hold(CLAIMS, evidence, CLAIM_BASES),
        asked=seeds,
        done=len(done),
    ).written(out)  # fmt: skip


#: Largest size: 65,536 hosts on 5,120 switches, whose candidate sets take 0.1 GB.
LARGEST_K = 64


def _check(
    seeds: int, flows: int, k: Sequence[int], first_seed: int, processes: int | None
) -> None:
    if seeds < 2:
        raise InputError(f"an interval needs at least 2 seeds, not {seeds}")
    if flows < 1:
        raise InputError(f"expected at least 1 flow, not {flows}")
    whole_number(first_seed, "the first seed")
    if len(set(k)) < 2:
        raise InputError("the sweep over k needs at least two sizes")
    for size in k:
        if size < 4 or size % 2:
            raise InputError(f"k must be even and at least 4, not {size}")
        if size > LARGEST_K:
            raise InputError(
                f"k must be at most {LARGEST_K}, not {size}: the size of the candidate sets grows "
                "with the square of the 5/4 k^2 switches"
            )
    check_processes(processes)


# -- measuring ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """One fat tree, traffic and seed, with all splits that the points need."""

    k: int
    before: tuple[int, ...]
    seed: int
    flows: int
    hash: HashName
    splits: tuple[tuple[int, int], ...]

    def at(self, point: SweepPoint) -> bool:
        """Return whether the point has this fat tree and traffic."""
        return (self.k, self.before) == (point.k, point.before)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Result of one task.

    `metrics` is basis -> float64 [splits + 1, METRICS], with the equal split last; `links` is basis
    -> number of links; `cdf_loads` is basis -> float64 [SCHEMES, links] at figure 7's point, and
    empty for other sizes.
    """

    metrics: dict[str, NDArray[np.float64]]
    links: dict[str, int]
    cdf_loads: dict[str, NDArray[np.float64]]


def _splits(
    points: Sequence[SweepPoint], k: int, before: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({
        scheme.parts(point.qps, point.epochs)
        for point in points
        if (point.k, point.before) == (k, before)
        for scheme in Scheme
    }))  # fmt: skip


def host_names(k: int) -> list[str]:
    """Return the published program's names of the hosts of a k-ary fat tree, in weft's order."""
    half = range(k // 2)
    positions = product(range(k), half, half)
    return [f"pod_{pod}_edge_{edge}_host_{host}" for pod, edge, host in positions]


@lru_cache(maxsize=8)
def network(k: int) -> tuple[Fabric, Routes, dict[str, NDArray[Any]]]:
    """Return a fat tree, its equal-cost paths and the links of each directed basis.

    Hosts have the published program's names, because its hash depends on them.
    """
    fabric = build(f"fat-tree:k={k}")
    names = list(fabric.node_names)
    names[fabric.num_switches : fabric.num_switches + fabric.num_hosts] = host_names(k)
    fabric = replace(fabric, node_names=tuple(names))
    tier = link_tiers(fabric)
    links: dict[str, NDArray[Any]] = {
        basis: np.flatnonzero(tier == name) for basis, name in _TIER_OF_BASIS.items()
    }
    return fabric, route(fabric, "ecmp"), {"directed": fabric.graph.edge_link, **links}


def traffic(
    k: int, flows: int, seed: int, before: tuple[int, ...] = ()
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Draw sources and destinations, uniform over pairs of different hosts, and a hash seed.

    The pairs are those that the published program draws from Python's generator.

    `k`, `flows`: size of the fat tree, and number of flows. `before`: sizes whose traffic is drawn
    first, as in a sweep over k.
    """
    hosts = _hosts_by_name(k)
    pairs, _ = _drawn((*before, k), flows, seed)
    source, destination = hosts[pairs].T
    hashing = np.random.SeedSequence([seed, len(hosts)]).generate_state(1, np.uint64)
    return source, destination, int(hashing[0])


@lru_cache(maxsize=8)
def _hosts_by_name(k: int) -> NDArray[np.int64]:
    return np.argsort(host_names(k))


@lru_cache(maxsize=16)
def _drawn(sizes: tuple[int, ...], flows: int, seed: int) -> tuple[NDArray[np.int64], Any]:
    """Return the pairs of hosts at the last size, numbered by name, and the generator's state."""
    random = Random(seed)
    if len(sizes) > 1:
        random.setstate(_drawn(sizes[:-1], flows, seed)[1])
    hosts = range(sizes[-1] ** 3 // 4)
    return np.array([random.sample(hosts, 2) for _ in range(flows)]), random.getstate()


def distribution(loads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the `METRICS` of loads [splits, links], float64 [splits, METRICS]."""
    mean = loads.mean(axis=1)
    p50, p90, p99 = np.percentile(loads, [50, 90, 99], axis=1)
    cv = np.divide(loads.std(axis=1), mean, out=np.zeros(len(loads)), where=mean > 0)
    return np.stack([mean, p50, p90, p99, loads.max(axis=1), cv, (loads > 0).mean(axis=1)], axis=1)


def basis_loads(
    fabric: Fabric, directed: Mapping[str, NDArray[Any]], per_link: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return the loads by basis, float64 [splits, links], from those of all directed links."""
    cable = per_link[:, 0::2] + per_link[:, 1::2]
    between = np.zeros(fabric.num_cables, dtype=bool)
    between[fabric.graph.edge_link >> 1] = True
    by_tier = {name: per_link[:, links] for name, links in directed.items()}
    return {"cable": cable, "host-cable": cable[:, ~between], **by_tier}


@typed_run
def _measure(_: None, task: _Task, watch: Callable[[Any], None]) -> _Sample:
    fabric, routes, directed = network(task.k)
    watch(None)
    source, destination, seed = traffic(task.k, task.flows, task.seed, task.before)
    hashed = multipath_loads(
        fabric, routes, source, destination, task.splits, hash=task.hash, seed=seed
    )
    watch(None)
    equal = link_loads(fabric, routes, source, destination)
    loads = basis_loads(fabric, directed, np.vstack([hashed.per_link, equal]))
    rows = []
    if task.k == SIZE:
        parts = [scheme.parts(SIZE_QPS, SIZE_EPOCHS) for scheme in Scheme]
        rows = [*(task.splits.index(each) for each in parts), len(task.splits)]
    return _Sample(
        {basis: distribution(loads[basis]) for basis in BASES},
        {basis: loads[basis].shape[1] for basis in BASES},
        {basis: loads[basis][rows] for basis in BASES},
    )


# -- frames ------------------------------------------------------------------------------------


def _runs(points: Sequence[SweepPoint], samples: Mapping[_Task, _Sample]) -> pl.DataFrame:
    rows = []
    for point in points:
        for task, sample in samples.items():
            if not task.at(point):
                continue
            for scheme in SCHEMES:
                row = len(task.splits)
                if scheme != EQUAL:
                    row = task.splits.index(Scheme(scheme).parts(point.qps, point.epochs))
                for basis in BASES:
                    where = (point.sweep, point.k, point.qps, point.epochs, scheme, basis)
                    measured = sample.metrics[basis][row].tolist()
                    rows.append((*where, task.seed, sample.links[basis], *measured))
    return frame_of_rows(table.RUN_COLUMNS, rows)
