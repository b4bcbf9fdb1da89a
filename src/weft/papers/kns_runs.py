"""The runs of the KNS study: which there are, how one is made, and all of them over all cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from weft.errors import InputError
from weft.papers import kns_machine as machine
from weft.papers.kns_benchmarks import BENCHMARKS, Times, geometric_mean
from weft.papers.kns_machine import Engines, Placement
from weft.sim.flow import simulate
from weft.sim.packet import simulate_packets
from weft.workload import Workload

Level = Literal["packet", "flow"]
PLACEMENTS: tuple[Placement, ...] = ("linear", "random")
#: Runs of one workload that a worker takes at a time: writing the workload takes time, too.
_AT_ONCE = 4


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
    """Tells on stderr how far the runs have come, a line each ten seconds or one that is rewritten.

    Parameters
    ----------
    runs
        How many there are.
    """

    runs: int
    done: int = 0
    _began: float = field(default_factory=time.monotonic)
    _said: float = 0.0

    def add(self, runs: int) -> None:
        """So many more are done."""
        self.done += runs
        live = sys.stderr is not None and sys.stderr.isatty()
        now = time.monotonic()
        if sys.stderr is None or not (live or now - self._said > 10 or self.done == self.runs):
            return
        self._said = now
        text = f"weft: {self.done} of {self.runs} runs, {now - self._began:.0f} s"
        end = "\n" if not live or self.done == self.runs else ""
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


def measure(run: Run, setting: Setting) -> Measured:
    """Make one run."""
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
                **shared,
            )  # fmt: skip
            times = Times(flow.posted_ns, flow.ended_ns, flow.left_ns, flow.arrived_ns)
            busy = flow.links()["utilisation"].fill_null(0.0).to_numpy()
            parts.append((times, flow.makespan_ns, busy[inner].max(initial=0.0), 0, float("nan")))
        else:
            packet = simulate_packets(
                fabric, routes, work, hosts[order], hardware=machine.hardware(run.network), **shared
            )
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


def _measure_some(runs: Sequence[Run], setting: Setting) -> list[Measured]:
    return [measure(run, setting) for run in runs]


def measure_all(
    runs: Sequence[Run], setting: Setting, processes: int | None = None
) -> list[Measured]:
    """Make all runs; the result does not depend on the number of processes.

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
    KeyboardInterrupt
        On Ctrl-C, once the workers have ended.
    """
    watch = Watch(len(runs))
    tasks = list(_tasks(runs))
    if processes is None:
        affinity = getattr(os, "sched_getaffinity", None)
        processes = len(affinity(0)) if affinity else os.cpu_count() or 1
    found: dict[Run, Measured] = {}

    def keep(some: Sequence[Measured]) -> None:
        found.update({each.run: each for each in some})
        watch.add(len(some))

    if processes == 1 or len(tasks) == 1:
        for task in tasks:
            keep(_measure_some(task, setting))
    else:
        _in_pool(tasks, setting, processes, keep)
    return [found[run] for run in runs]


def _tasks(runs: Sequence[Run]) -> Iterator[tuple[Run, ...]]:
    """Runs of one workload, a few at a time, those that take long first."""
    by_workload: dict[tuple[int, str], list[Run]] = {}
    for run in runs:
        by_workload.setdefault((run.ranks_per_node, run.benchmark), []).append(run)
    slow = {name: place for place, name in enumerate(_SLOW_FIRST)}
    order = sorted(by_workload, key=lambda key: (-key[0], slow.get(key[1], len(slow)), key[1]))
    for key in order:
        some = by_workload[key]
        for first in range(0, len(some), _AT_ONCE):
            yield tuple(some[first : first + _AT_ONCE])


_SLOW_FIRST = ("pingpong-bandwidth", "random-ring-bandwidth", "ebb", "hpcg", "random-access")


def _in_pool(
    tasks: Sequence[Sequence[Run]],
    setting: Setting,
    processes: int,
    keep: Callable[[Sequence[Measured]], None],
) -> None:
    # Spawned, not forked: polars and numba keep threads that a fork would leave locked.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(processes, len(tasks)), mp_context=context, initializer=_leave_interrupts
    )
    try:
        waiting: set[Future[list[Measured]]] = {
            pool.submit(_measure_some, task, setting) for task in tasks
        }
        while waiting:
            done, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in done:
                keep(future.result())
        pool.shutdown()
    except BrokenProcessPool:
        raise InputError(
            "the worker processes did not survive; a script that asks for them must keep its own "
            "work under `if __name__ == '__main__':`, and processes=1 does without them"
        ) from None
    except BaseException:
        # Compiled code cannot be asked to stop.
        workers = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        raise


def _leave_interrupts() -> None:
    """Ctrl-C goes to all processes of a terminal; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
