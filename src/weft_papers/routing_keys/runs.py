"""Runs of the Routing Keys study: their list, and one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.engines.sar import sar_routes
from weft.routing.routes import Routes
from weft.sim.packet.hardware import Hardware
from weft.sim.simulate import simulate
from weft.study.runs.typed import typed_run
from weft.workload.apps import application_workload
from weft.workload.apps.cartesian import MIXED
from weft.workload.isolation import isolated_routes
from weft.workload.jobs import Job, JobMix, combine

SMALL, LARGE = "xgft:3;6,6,6;1,6,6;rate=4xFDR10", "xgft:3;12,12,12;1,12,12;rate=4xFDR10"
#: Data rate of 4xFDR10, the paper's 40 Gb/s.
RATE_GBPS = 40.0
KIB = 1024
APPLICATIONS = (2, 8, 32)
ONE_SIZE = 32 * KIB
SIZES = (16 * KIB, 64 * KIB, 256 * KIB)
#: Utilizations of figure 6, and of figures 7 and 8.
FINE, COARSE = tuple(n / 10 for n in range(1, 10)), (0.1, 0.3, 0.5, 0.7, 0.9)
#: Utilization of figure 9, which the paper does not give.
DUTY = 0.5

#: Policy -> engine and policy of the simulation; with no engine, the run's base routes are used.
POLICIES: dict[str, tuple[str, str]] = {
    "dmodk": ("", "deterministic"),
    "conga": ("ecmp", "conga"),
    "ark": ("", "ark"),
    "nrk": ("", "nrk"),
    "nrk-variance": ("", "nrk:criterion=variance"),
    "nrk-optimum": ("", "nrk:choice=optimum"),
    "nrk-optimum-variance": ("", "nrk:choice=optimum,criterion=variance"),
    "ecmp": ("ecmp", "ecmp"),
    "adaptive": ("ecmp", "adaptive"),
    "spray": ("ecmp", "spray"),
    "dfsssp": ("dfsssp", "deterministic"),
    "sar": ("sar", "deterministic"),
    "hedera": ("", "nrk:choice=first-fit"),
    "ark-lowest": ("", "ark:first=lowest"),
    "ark-all": ("", "ark:colours=all"),
    "nrk-all": ("", "nrk:colours=all"),
}
PAPERS = ("dmodk", "conga", "ark", "nrk")
RIVALS = tuple(list(POLICIES)[4:13])
#: Base routes of trees with missing cables, where ``dmodk`` does not apply.
FAULTY_BASES = ("updn", "dfsssp")


@dataclass(frozen=True)
class RoutingKeysChoice:
    """Settings that the paper leaves open."""

    #: Sizes of mixed messages in bytes, drawn with equal probability.
    sizes: tuple[int, ...] = MIXED
    #: Hosts of an application: ``random``, ``contiguous``, or ``isolated``, which gives it links
    #: between switches that no other application uses.
    placement: str = "random"
    #: Whether all applications start at once, instead of at random times within a phase.
    together: bool = False
    #: Half width of the distribution of calculation times, relative to the mean.
    calc_spread: float = 0.0
    #: Largest message that is sent without a rendezvous.
    eager_bytes: int = 16 * KIB
    #: Buffer of each incoming link of a switch.
    buffer_bytes: int = 16 * KIB
    #: Policy of the paper -> policy that is simulated instead.
    policies: Mapping[str, str] = field(default_factory=dict)


PAPER = "as the paper"
#: Name -> choice. Each differs from the first in one setting.
CHOICES: dict[str, RoutingKeysChoice] = {
    PAPER: RoutingKeysChoice(),
    "mostly small": RoutingKeysChoice(
        sizes=(4 * KIB,) * 4 + (8 * KIB,) * 2 + (16 * KIB, 64 * KIB, 256 * KIB)
    ),
    "contiguous": RoutingKeysChoice(placement="contiguous"),
    "start together": RoutingKeysChoice(together=True),
    "uneven calculation": RoutingKeysChoice(calc_spread=0.1),
    "eager": RoutingKeysChoice(eager_bytes=KIB * KIB),
    "64 KiB buffers": RoutingKeysChoice(buffer_bytes=64 * KIB),
    "conga in µs": RoutingKeysChoice(policies={"conga": "conga:gap=5us,t_dre=1us"}),
    "ark from lowest": RoutingKeysChoice(policies={"ark": "ark:first=lowest"}),
}


@dataclass(frozen=True)
class RoutingKeysRun:
    """One packet-level run."""

    #: Figure of the paper, or part of the study beyond it.
    figure: str
    #: The fabric.
    tree: str
    #: Number of applications, which share the hosts evenly.
    applications: int
    #: Global utilization, as the paper defines it.
    utilization: float
    #: Bytes of each message; 0 for mixed sizes.
    size: int
    #: Repetitions of the six phases.
    iterations: int
    #: Key of `POLICIES`, or a policy over the base routes.
    policy: str
    #: Seed of placement, sizes, orders, start times and policies.
    seed: int
    #: Key of `CHOICES`.
    choice: str = PAPER
    #: Number of missing cables between switches, which are chosen at random.
    missing: int = 0
    #: Engine of the base routes.
    base: str = "dmodk"
    #: As for `RoutingKeysChoice`; empty for that of the choice.
    placement: str = ""


@dataclass(frozen=True)
class RoutingKeysRunResult:
    """Result of one run."""

    run: RoutingKeysRun
    #: Total communication time: the largest of all applications (the paper's measure), and the mean
    #: over them.
    worst_us: float
    mean_us: float
    #: Number of hops of all packets.
    packet_hops: int


def study_runs(
    figures: Sequence[str], seeds: Sequence[int], *, choices: bool, quick: bool
) -> tuple[RoutingKeysRun, ...]:
    """Return every run of the study, in the order of its tables.

    Figure 9 has the first 5 seeds, or the first half if that is more. A quick study has the small
    tree for all figures, and fewer points.
    """
    points = [run for figure in figures if figure in POINTS for run in POINTS[figure](quick)]
    if choices:
        points += [replace(run, choice=each) for run, each in _varied(points)]
    points = list(dict.fromkeys(points))
    # Figure 9 has by far the longest runs, because they repeat their phases up to 16 times.
    half = seeds[: max(5, len(seeds) // 2)]
    return tuple(
        replace(run, seed=seed) for run in points for seed in (half if run.figure == "9" else seeds)
    )


def _repeats(quick: bool) -> int:
    return 1 if quick else 2


def _figure_6(quick: bool) -> list[RoutingKeysRun]:
    few = (0.1, 0.5, 0.9)
    return [
        RoutingKeysRun("6", SMALL, 6, util, 0, _repeats(quick), policy, 0)
        for util in (few if quick else FINE)
        for policy in (*PAPERS, *(RIVALS if util in (few[:1] if quick else few) else ()))
    ]


def _on_large(figure: str, size: int, quick: bool) -> list[RoutingKeysRun]:
    tree, utils = (SMALL, (0.1, 0.9)) if quick else (LARGE, COARSE)
    ends = () if size or quick else (utils[0], utils[-1])
    return [
        RoutingKeysRun(figure, tree, count, util, size, 1, policy, 0)
        for count, util in product(APPLICATIONS[:: 2 if quick else 1], utils)
        for policy in (*PAPERS, *(RIVALS if util in ends else ()))
    ]


#: Figure or part of the study -> function that returns its points, fewer for a quick study.
POINTS: dict[str, Callable[[bool], list[RoutingKeysRun]]] = {
    "6": _figure_6,
    "7": lambda quick: _on_large("7", 0, quick),
    "8": lambda quick: _on_large("8", ONE_SIZE, quick),
    "9": lambda quick: [
        RoutingKeysRun(
            "9", SMALL if quick else LARGE, count, DUTY, size, SIZES[-1] // size, policy, 0
        )
        for count in APPLICATIONS[:: 2 if quick else 1]
        for size, policy in product(SIZES[1:] if quick else SIZES, PAPERS)
    ],
    "latency": lambda quick: [
        RoutingKeysRun("latency", SMALL, 6, util, 0, _repeats(quick), policy, 0)
        for util in ((0.1,) if quick else (0.1, 0.5))
        for policy in (
            *PAPERS[:3],
            *(
                f"nrk:latency={latency},before={before}"
                for latency in ("0us", "1us", "3us", "10us", "100us", "1000us")
                for before in ("wait", "base")
            ),
        )
    ],
    "keys": lambda quick: [
        RoutingKeysRun("keys", SMALL if quick else LARGE, count, 0.1, 0, 1, policy, 0)
        for count in APPLICATIONS[:: 2 if quick else 1]
        for policy in ("dmodk", "ark", "ark-lowest", "ark-all", "nrk", "nrk-all", *RIVALS[:3])
    ],
    # LID offset 0 has the base routes, so an LMC of 3 leaves 7 offsets for the keys of 6 phases.
    "lmc": lambda quick: [
        RoutingKeysRun("lmc", SMALL, 6, util, 0, _repeats(quick), policy, 0)
        for util in ((0.1,) if quick else (0.1, 0.5))
        for policy in ("dmodk", *(f"ark:lmc={lmc}" for lmc in (1, 2, 3)), "ark")
    ],
    "placement": lambda quick: [
        RoutingKeysRun(
            "placement", *((SMALL, 6) if quick else (LARGE, APPLICATIONS[-1])), 0.1, 0, 1, policy,
            0, placement=placement,
        )
        for placement in ("", "contiguous", "isolated")
        for policy in (("dmodk",) if placement == "isolated" else ("dmodk", "ark", "nrk"))
    ],
    "faults": lambda quick: [
        RoutingKeysRun(
            "faults", SMALL, 6, 0.1, 0, _repeats(quick), policy, 0, missing=missing, base=base
        )
        for missing in ((22,) if quick else (0, 4, 22, 43))
        for base in FAULTY_BASES[: 1 if quick else 2]
        for policy in ("dmodk", "ark", "nrk", "nrk-optimum")
    ],
}  # fmt: skip


def _varied(points: Sequence[RoutingKeysRun]) -> Iterator[tuple[RoutingKeysRun, str]]:
    """Yield each run that is repeated with another choice, and this choice."""
    for choice, run in product(list(CHOICES)[1:], points):
        if run.policy not in PAPERS or run.figure not in ("6", "7", "8"):
            continue
        ends = run.utilization == 0.1 or (run.figure == "6" and run.utilization == 0.9)
        few = run.figure != "8" or run.applications == APPLICATIONS[0]
        changed = CHOICES[choice].policies
        concerns = run.policy in changed if changed else not run.size or choice != "mostly small"
        if ends and few and concerns and run.applications != APPLICATIONS[1]:
            yield run, choice


@lru_cache(maxsize=4)
def _network(tree: str, missing: int, seed: int) -> Fabric:
    fabric = build(tree)
    return fabric.with_faults(cables=missing, seed=seed) if missing else fabric


@lru_cache(maxsize=8)
def _routes(tree: str, missing: int, seed: int, engine: str) -> Routes:
    return route(_network(tree, missing, seed), engine)


def jobs_of(run: RoutingKeysRun, hosts: int) -> list[Job]:
    """Return the applications of a run, with their hosts and start times."""
    choice = CHOICES[run.choice]
    placement = run.placement or choice.placement
    random = np.random.default_rng(run.seed)
    place = random.permutation(hosts) if placement == "random" else np.arange(hosts)
    sizes = (run.size,) if run.size else choice.sizes
    # Duration of a phase with its calculation, on a network without contention.
    phase_ns = float(np.mean(sizes)) * 8 / RATE_GBPS / run.utilization
    ranks = hosts // run.applications
    starts = random.uniform(0, phase_ns, run.applications) * (not choice.together)
    return [
        Job(
            application_workload(
                "cartesian", ranks, keys=True, sizes=sizes, iterations=run.iterations,
                utilization=run.utilization, rate_gbps=RATE_GBPS, calc_spread=choice.calc_spread,
                seed=int(np.random.SeedSequence([run.seed, number]).generate_state(1)[0]),
            ),
            name=f"job{number}",
            placement="isolated" if placement == "isolated"
            else place[number * ranks : (number + 1) * ranks],
            start_ns=float(starts[number]),
        )
        for number in range(run.applications)
    ]  # fmt: skip


@lru_cache(maxsize=2)
def _mix(run: RoutingKeysRun) -> JobMix:
    """Return the applications of a run, which depend on neither policy nor base routes."""
    fabric = _network(run.tree, run.missing, run.seed + 1 if run.missing else 0)
    return combine(jobs_of(run, fabric.num_hosts), fabric)


def _routes_of(run: RoutingKeysRun, fabric: Fabric, mix: JobMix, engine: str, seed: int) -> Routes:
    if run.placement == "isolated":
        return isolated_routes(fabric, np.split(mix.hosts, mix.first_rank[1:-1]))
    if engine == "sar":
        ops = mix.workload.messages[mix.workload.size_bytes[mix.workload.messages] > 0]
        ends = (mix.hosts[of[ops]] for of in (mix.workload.rank, mix.workload.peer))
        return sar_routes(fabric, *ends)
    return _routes(run.tree, run.missing, seed, engine)


@typed_run
def measure(
    _: None, run: RoutingKeysRun, watch: Callable[[Any], None] = lambda _: None
) -> RoutingKeysRunResult:
    """Simulate one run.

    The communication time of an application is the time from its start to its end minus the longest
    calculation of each phase. It includes barriers and the wait for keys.
    """
    choice = CHOICES[run.choice]
    fault_seed = run.seed + 1 if run.missing else 0
    fabric = _network(run.tree, run.missing, fault_seed)
    mix = _mix(replace(run, figure="", policy="", base=""))
    work = mix.workload
    engine, policy = POLICIES.get(run.policy, ("", run.policy))
    result = simulate(
        fabric, _routes_of(run, fabric, mix, engine or run.base, fault_seed), work, mix.hosts,
        level="packet", policy=choice.policies.get(run.policy, policy), seed=run.seed,
        eager_bytes=choice.eager_bytes, progress=watch,
        hardware=Hardware(queues="voq", buffer_bytes=choice.buffer_bytes),
    )  # fmt: skip
    if not result.complete:
        raise KeyboardInterrupt  # only an interrupt ends a run early
    end = np.zeros(run.applications)
    np.maximum.at(end, mix.job[work.rank], result.ended_ps / 1e3)
    longest = np.zeros(len(work.phase_names))
    np.maximum.at(longest, work.phase, work.duration_ns)
    calculation = np.add.reduceat(longest, mix.first_phase[:-1])
    spent = (end - mix.start_ns - calculation) / 1e3
    return RoutingKeysRunResult(
        run, float(spent.max()), float(spent.mean()), int(result.packets.sum())
    )
