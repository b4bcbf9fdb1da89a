"""The runs of the KNS study: which there are, how one is made, and all of them over all cores."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from weft.core.pool import cores, run_all
from weft.sim.simulate import simulate
from weft.studies.kns import machine
from weft.studies.kns.benchmarks import (
    BENCHMARKS,
    Times,
    every_pair_alike,
    geometric_mean,
    most_at_once,
)
from weft.studies.kns.machine import Engines, Placement
from weft.workload import Workload

Level = Literal["packet", "flow"]
PLACEMENTS: tuple[Placement, ...] = ("linear", "random")
#: Benchmarks that take longest, which are begun first.
_SLOW_FIRST = ("pingpong-bandwidth", "random-ring-bandwidth", "ebb", "hpcg", "random-access")
#: Benchmarks whose placement cannot matter, or that hardly wait for the network: one random
#: placement is enough (`kns_evidence.Evidence` says why, and checks it).
_ONE_PLACEMENT = frozenset({
    "hpcg", "pingpong-latency", "pingpong-bandwidth", "random-ring-latency",
    "random-ring-bandwidth", "random-access", "random-access-paced",
})  # fmt: skip
#: Benchmarks that are run with the paper's routings alone.
_PAPER_ONLY = frozenset({"pingpong-bandwidth", "graph500-paced"})
#: Seconds between two lines about progress.
_SAY_EVERY_S = 10.0


@dataclass(frozen=True)
class Run:
    """One benchmark with one routing and one placement.

    Parameters
    ----------
    network, engine
        Labels of `kns_machine.NETWORKS`.
    placement
        ``linear`` or ``random``.
    ranks_per_node
        Ranks of each node.
    benchmark
        Name.
    variant
        Of the benchmark; empty where it has none.
    seed
        Of the random placement; 0 for the linear one.
    """

    network: str
    engine: str
    placement: Placement
    ranks_per_node: int
    benchmark: str
    variant: str = ""
    seed: int = 0


@dataclass(frozen=True)
class Setting:
    """What all runs of a study share.

    Parameters
    ----------
    level
        ``packet``, or ``flow`` as a quick look.
    engines
        Whose tables: see `kns_machine.routes`.
    full
        Larger sizes.
    """

    level: Level
    engines: Engines
    full: bool


@dataclass(frozen=True)
class Measured:
    """What one run gave.

    Parameters
    ----------
    run
        Which.
    values
        Metric -> value.
    makespan_ns, messages, packet_hops
        Simulated time, messages, and packets times links; hops are 0 at the flow level.
    wait_ns
        Mean wait of a packet for a link, per hop; NaN at the flow level.
    busiest
        Largest share of the time that a link between switches, or hosts that forward, is busy.
    network_share
        Share of the time in which the rank that calculates most does not: what the network, and
        waiting for others, can take at most.
    at_once
        Most measured messages under way at one moment.
    every_pair
        Whether each rank measures as many messages to each other one.
    """

    run: Run
    values: Mapping[str, float]
    makespan_ns: float
    messages: int
    packet_hops: int
    wait_ns: float
    busiest: float
    network_share: float
    at_once: int
    every_pair: bool


@dataclass
class Watch:
    """Tells on stderr how far runs have come, a line each ten seconds or one that is rewritten."""

    _began: float = field(default_factory=time.monotonic)
    _said: float = -_SAY_EVERY_S

    def __call__(self, done: int, runs: int) -> None:
        """So many are done."""
        live = sys.stderr is not None and sys.stderr.isatty()
        now = time.monotonic()
        due = live or now - self._said > _SAY_EVERY_S or done == runs
        if sys.stderr is None or not done or not due:
            return
        self._said = now
        text = f"weft: {done} of {runs} runs, {now - self._began:.0f} s"
        end = "\n" if not live or done == runs else ""
        print(f"\r{text}" if live else text, end=end, file=sys.stderr, flush=True)


def study_runs(
    ranks_per_node: Sequence[int],
    benchmarks: Sequence[str],
    *,
    seeds: Sequence[int],
    beyond: bool,
    choices: bool,
    full: bool = False,
) -> tuple[Run, ...]:
    """Every run of the study, in the order of its tables.

    Parameters
    ----------
    ranks_per_node, benchmarks
        Which.
    seeds
        Of random placements. One is enough where the placement cannot matter, and for what the
        paper did not measure.
    beyond
        Whether to run what the paper only wishes for, too, with the first number of ranks and the
        headline's cables; but for ping-pong bandwidth, which takes long and says the same of all.
    choices
        Whether to vary what the paper leaves open; else the headline alone. Only the first number
        of ranks has all orders of the cables, unless `full`.
    """
    found: list[Run] = []
    for ranks in ranks_per_node:
        first = ranks == ranks_per_node[0]
        for network in machine.NETWORKS.values():
            base, _, cables = network.name.partition(" ")
            if cables and not (choices and (first or full)):
                continue
            paper = machine.PAPER_ENGINES.get(base, ())
            varied = machine.ROOTS.values() if base == machine.TREE and choices else ()
            wished = network.engines if beyond and first and not cables else ()
            for engine in dict.fromkeys((*paper, *varied, *wished)):
                measured = engine in paper or engine in varied
                if base == machine.TREE and engine in machine.ROOTS.values() and not measured:
                    continue
                for name in benchmarks:
                    if not measured and name in _PAPER_ONLY:
                        continue
                    benchmark = BENCHMARKS[name]
                    variants = list(benchmark.variants_at(ranks))
                    many = measured and name not in _ONE_PLACEMENT
                    placed: list[tuple[Placement, int]] = [("linear", 0)]
                    placed += [("random", seed) for seed in (seeds if many else seeds[:1])]
                    found += [
                        Run(network.name, engine, placement, ranks, name, variant, seed)
                        for variant in (variants if choices else variants[:1])
                        for placement, seed in placed
                    ]
    return tuple(found)


@lru_cache(maxsize=4)
def _workload(benchmark: str, variant: str, ranks_per_node: int, full: bool) -> Workload:
    ranks = machine.HOSTS * ranks_per_node
    return BENCHMARKS[benchmark].workload(ranks, ranks_per_node, full, variant)


def measure(setting: Setting, run: Run, watch: Callable[[Any], None] = lambda _: None) -> Measured:
    """Make one run.

    Parameters
    ----------
    setting, run
        Which.
    watch
        Called now and then; what it raises ends the run.
    """
    work = _workload(run.benchmark, run.variant, run.ranks_per_node, setting.full)
    fabric = machine.fabric(run.network)
    routes = machine.routes(run.network, run.engine, setting.engines)
    hosts = machine.hosts_of(run.network, run.placement, run.ranks_per_node, run.seed)
    shared: dict[str, Any] = {
        "eager_bytes": machine.EAGER_BYTES,
        "overhead_ns": machine.OVERHEAD_NS,
        "local_gbps": machine.LOCAL_GBPS,
        "local_latency_ns": machine.LOCAL_LATENCY_NS,
    }
    inner = np.isin(np.arange(fabric.num_links) >> 1, fabric.graph.edge_link >> 1)
    orders = BENCHMARKS[run.benchmark].rank_orders(work.num_ranks, run.ranks_per_node)
    parts = []
    for order in orders:
        if setting.level == "flow":
            flow = simulate(
                fabric, routes, work, hosts[order], switch_latency_ns=machine.SWITCH_LATENCY_NS,
                progress=watch, **shared,
            )  # fmt: skip
            times = Times(flow.posted_ns, flow.ended_ns, flow.left_ns, flow.arrived_ns)
            busy = flow.links()["utilisation"].fill_null(0.0).to_numpy()
            parts.append((times, flow.makespan_ns, busy[inner].max(initial=0.0), 0, float("nan")))
        else:
            packet = simulate(
                fabric, routes, work, hosts[order], hardware=machine.hardware(run.network),
                progress=watch, **shared, level="packet",
            )  # fmt: skip
            if not packet.complete:
                raise KeyboardInterrupt  # nothing else ends a run early
            both = packet.posted_ps, packet.ended_ps, packet.left_ps, packet.arrived_ps
            times = Times(*(np.where(of < 0, -1.0, of / 1e3) for of in both))
            busy = packet.busy_ps[: fabric.num_links] / max(packet.end_ps, 1)
            parts.append((
                times, packet.makespan_ns, busy[inner].max(initial=0.0),
                int(packet.packets.sum()), float(packet.wait_ps.sum()) / 1e3,
            ))  # fmt: skip
    found = [BENCHMARKS[run.benchmark].measure(work, times) for times, *_ in parts]
    hops = sum(part[3] for part in parts)
    makespan_ns = float(sum(part[1] for part in parts))
    busy_ns = len(parts) * float(np.bincount(work.rank, work.duration_ns).max())
    return Measured(
        run,
        {name: geometric_mean([each[name] for each in found]) for name in found[0]},
        makespan_ns,
        len(parts) * len(work.messages),
        hops,
        sum(part[4] for part in parts) / max(hops, 1),
        float(max(part[2] for part in parts)),
        1.0 - busy_ns / makespan_ns,
        max(most_at_once(work, part[0]) for part in parts),
        every_pair_alike(work),
    )


def measure_all(
    runs: Sequence[Run], setting: Setting, processes: int | None = None
) -> list[Measured]:
    """Make all runs; the result does not depend on the number of processes.

    After a KeyboardInterrupt, those that were made by then, in the order of `runs`.

    Parameters
    ----------
    runs, setting
        What to run.
    processes
        Worker processes; as many as there are cores when left out.

    Raises
    ------
    InputError
        When the workers did not survive.
    """
    # Runs of one workload follow each other: a process writes it once.
    slow = {name: place for place, name in enumerate(_SLOW_FIRST)}
    tasks = sorted(
        runs,
        key=lambda run: (
            -run.ranks_per_node, slow.get(run.benchmark, len(slow)), run.benchmark
        ),
    )  # fmt: skip
    found, _ = run_all(measure, setting, tasks, processes or cores(), Watch())
    results = {each.run: each for each in found if each is not None}
    return [results[run] for run in runs if run in results]
