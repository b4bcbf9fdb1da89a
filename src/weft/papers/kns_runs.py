"""The runs of the KNS study: which there are, how one is made, and all of them over all cores."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from weft.papers import kns_machine as machine
from weft.papers.kns_benchmarks import BENCHMARKS, Times, geometric_mean
from weft.papers.kns_machine import Engines, Placement
from weft.pool import cores, run_all
from weft.sim.flow import simulate
from weft.sim.packet import simulate_packets
from weft.workload import Workload

Level = Literal["packet", "flow"]
PLACEMENTS: tuple[Placement, ...] = ("linear", "random")
#: Benchmarks that take longest, which are begun first.
_SLOW_FIRST = ("pingpong-bandwidth", "random-ring-bandwidth", "ebb", "hpcg", "random-access")
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
    """

    network: str
    engine: str
    placement: Placement
    ranks_per_node: int
    benchmark: str


@dataclass(frozen=True)
class Setting:
    """What all runs of a study share.

    Parameters
    ----------
    level
        ``packet``, or ``flow`` as a quick look.
    engines
        Whose tables: see `kns_machine.routes`.
    seed
        Of the random placement.
    full
        Larger sizes.
    """

    level: Level
    engines: Engines
    seed: int
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
    """

    run: Run
    values: Mapping[str, float]
    makespan_ns: float
    messages: int
    packet_hops: int
    wait_ns: float
    busiest: float


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
    ranks_per_node: Sequence[int], benchmarks: Sequence[str], beyond: bool
) -> tuple[Run, ...]:
    """Every run of the study, in the order of its tables.

    Parameters
    ----------
    ranks_per_node, benchmarks
        Which.
    beyond
        Whether to run what the paper only wishes for, too, with the first number of ranks; but for
        ping-pong bandwidth, which takes long and says the same of all.
    """
    found = []
    for ranks in ranks_per_node:
        for network in machine.NETWORKS.values():
            paper = machine.PAPER_ENGINES.get(network.name, ())
            wished = network.engines if beyond and ranks == ranks_per_node[0] else ()
            found += [
                Run(network.name, engine, placement, ranks, benchmark)
                for engine in dict.fromkeys((*paper, *wished))
                for placement in PLACEMENTS
                for benchmark in benchmarks
                if engine in paper or benchmark != "pingpong-bandwidth"
            ]
    return tuple(found)


@lru_cache(maxsize=4)
def _workload(benchmark: str, ranks_per_node: int, full: bool) -> Workload:
    ranks = machine.HOSTS * ranks_per_node
    return BENCHMARKS[benchmark].workload(ranks, ranks_per_node, full)


def measure(setting: Setting, run: Run, watch: Callable[[Any], None] = lambda _: None) -> Measured:
    """Make one run.

    Parameters
    ----------
    setting, run
        Which.
    watch
        Called now and then; what it raises ends the run.
    """
    work = _workload(run.benchmark, run.ranks_per_node, setting.full)
    fabric = machine.fabric(run.network)
    routes = machine.routes(run.network, run.engine, setting.engines)
    hosts = machine.hosts_of(run.network, run.placement, run.ranks_per_node, setting.seed)
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
            packet = simulate_packets(
                fabric, routes, work, hosts[order], hardware=machine.hardware(run.network),
                progress=watch, **shared,
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
    return Measured(
        run,
        {name: geometric_mean([each[name] for each in found]) for name in found[0]},
        float(sum(part[1] for part in parts)),
        len(parts) * len(work.messages),
        hops,
        sum(part[4] for part in parts) / max(hops, 1),
        float(max(part[2] for part in parts)),
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
