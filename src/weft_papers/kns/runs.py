"""Runs of the KNS study: their list, and one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from weft.sim.simulate import simulate
from weft.study.runs.typed import typed_run
from weft.workload import Workload
from weft_papers.kns import machine
from weft_papers.kns.benchmarks import (
    BENCHMARKS,
    Times,
    every_pair_alike,
    geometric_mean,
    most_at_once,
)
from weft_papers.kns.machine import Engines, Placement

Level = Literal["packet", "flow"]
PLACEMENTS: tuple[Placement, ...] = ("linear", "random")
#: Benchmarks with the longest runs, which are started first.
_SLOW_FIRST = ("pingpong-bandwidth", "random-ring-bandwidth", "ebb", "hpcg", "random-access")
#: Benchmarks that do not depend on the placement, or that hardly wait for the network: one random
#: placement is sufficient (`evidence.KnsEvidence` checks this and gives the reason).
_ONE_PLACEMENT = frozenset({
    "hpcg", "pingpong-latency", "pingpong-bandwidth", "random-ring-latency",
    "random-ring-bandwidth", "random-access", "random-access-paced",
})  # fmt: skip
#: Benchmarks that run with the paper's routings only.
_PAPER_ONLY = frozenset({"pingpong-bandwidth", "graph500-paced"})


@dataclass(frozen=True)
class KnsRun:
    """One benchmark with one routing and one placement."""

    #: Labels in `machine.NETWORKS`.
    network: str
    engine: str
    #: ``linear`` or ``random``.
    placement: Placement
    #: Number of ranks per node.
    ranks_per_node: int
    #: Name of the benchmark.
    benchmark: str
    #: Variant of the benchmark; empty if it has none.
    variant: str = ""
    #: Seed of the random placement; 0 for the linear one.
    seed: int = 0


@dataclass(frozen=True)
class KnsParameters:
    """Parameters of all runs of a study."""

    #: ``packet``, or ``flow``, which is faster.
    level: Level
    #: Source of the forwarding tables; see `machine.routes`.
    engines: Engines
    #: Whether to use larger sizes.
    full: bool


@dataclass(frozen=True)
class KnsRunResult:
    """Result of one run."""

    run: KnsRun
    #: Metric -> value.
    values: Mapping[str, float]
    #: Simulated time, number of messages, and number of hops of all packets (0 at the flow level).
    makespan_ns: float
    messages: int
    packet_hops: int
    #: Mean wait of a packet for a link, per hop; NaN at the flow level.
    wait_ns: float
    #: Largest utilisation of a link between switches or hosts that forward.
    busiest: float
    #: Share of the time in which the rank with the most calculation does not calculate: an upper
    #: bound on the share taken by the network and by waiting for other ranks.
    network_share: float
    #: Largest number of measured messages in flight at a time.
    at_once: int
    #: Whether all pairs of ranks have the same number of measured messages.
    every_pair: bool


def study_runs(
    ranks_per_node: Sequence[int],
    benchmarks: Sequence[str],
    *,
    seeds: Sequence[int],
    beyond: bool,
    choices: bool,
    full: bool = False,
) -> tuple[KnsRun, ...]:
    """Return every run of the study, in the order of its tables.

    - `seeds`: seeds of random placements. Only the first is used if the benchmark does not depend
      on the placement, and for networks and engines that the paper did not measure.
    - `beyond`: whether to add the paper's future work, with the first number of ranks and the
      headline order of cables, but without ping-pong bandwidth, which takes long and is the same on
      all networks.
    - `choices`: whether to vary the parameters that the paper leaves open; otherwise only the
      headline choice is run. Unless `full`, all orders of the cables are run only for the first
      number of ranks.
    """
    runs: list[KnsRun] = []
    for ranks in ranks_per_node:
        first = ranks == ranks_per_node[0]
        for network in machine.NETWORKS.values():
            base, _, cables = network.name.partition(" ")
            if cables and not (choices and (first or full)):
                continue
            paper = machine.PAPER_ENGINES.get(base, ())
            varied = machine.ROOTS.values() if base == machine.TREE and choices else ()
            future = network.engines if beyond and first and not cables else ()
            for engine in dict.fromkeys((*paper, *varied, *future)):
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
                    runs += [
                        KnsRun(network.name, engine, placement, ranks, name, variant, seed)
                        for variant in (variants if choices else variants[:1])
                        for placement, seed in placed
                    ]
    return tuple(runs)


def begin_order(run: KnsRun) -> tuple[int, int, str]:
    """Return the key by which runs are sorted before they begin.

    The longest are first. Runs of one workload are adjacent, so that a process builds it once.
    """
    slow = _SLOW_FIRST.index(run.benchmark) if run.benchmark in _SLOW_FIRST else len(_SLOW_FIRST)
    return -run.ranks_per_node, slow, run.benchmark


@lru_cache(maxsize=4)
def _workload(benchmark: str, variant: str, ranks_per_node: int, full: bool) -> Workload:
    ranks = machine.HOSTS * ranks_per_node
    return BENCHMARKS[benchmark].workload(ranks, ranks_per_node, full, variant)


@typed_run
def measure(
    setting: KnsParameters, run: KnsRun, watch: Callable[[Any], None] = lambda _: None
) -> KnsRunResult:
    """Simulate one run."""
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
                raise KeyboardInterrupt  # only an interrupt ends a run early
            all_ps = packet.posted_ps, packet.ended_ps, packet.left_ps, packet.arrived_ps
            times = Times(*(np.where(ps < 0, -1.0, ps / 1e3) for ps in all_ps))
            busy = packet.busy_ps[: fabric.num_links] / max(packet.end_ps, 1)
            parts.append((
                times, packet.makespan_ns, busy[inner].max(initial=0.0),
                int(packet.packets.sum()), float(packet.wait_ps.sum()) / 1e3,
            ))  # fmt: skip
    values = [BENCHMARKS[run.benchmark].measure(work, times) for times, *_ in parts]
    hops = sum(part[3] for part in parts)
    makespan_ns = float(sum(part[1] for part in parts))
    busy_ns = len(parts) * float(np.bincount(work.rank, work.duration_ns).max())
    return KnsRunResult(
        run,
        {name: geometric_mean([each[name] for each in values]) for name in values[0]},
        makespan_ns,
        len(parts) * len(work.messages),
        hops,
        sum(part[4] for part in parts) / max(hops, 1),
        float(max(part[2] for part in parts)),
        1.0 - busy_ns / makespan_ns,
        max(most_at_once(work, part[0]) for part in parts),
        every_pair_alike(work),
    )
