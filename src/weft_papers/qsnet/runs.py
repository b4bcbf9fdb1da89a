"""Runs of the QsNET study: their list, and one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.sim.common.host_parameters import NO_OVERHEAD
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.router import Arbiter
from weft.sim.flit.workloads import FlitResult, run_flits
from weft.sim.qsnet import Library, Memory, QsNet
from weft.study.runs.typed import typed_run
from weft.workload import Workload, WorkloadBuilder
from weft.workload.apps.io_and_compute import io_and_compute
from weft.workload.sources import open_loop, transfers

KIB = 1024
#: Fat trees of the paper: dimensions 2 and 3, and dimension 3 with half of the nodes.
TREES = {
    4: "kary-n-tree:4;1;rate=3.2", 16: "kary-n-tree:4;2;rate=3.2",
    32: "xgft:3;4,4,2;1,4,4;rate=3.2", 64: "kary-n-tree:4;3;rate=3.2",
}  # fmt: skip
#: Nominal rate and link bound of the payload, MB/s.
NOMINAL, LINK = 400.0, 400.0 * 320 / 378
#: For the maximum bandwidth, sources offer this load at least, MB/s, and a message each 40 us, such
#: that their queues are never empty.
FULL, FULL_US = 8 * NOMINAL, 40.0
#: Permutations: the three that the paper calls optimal, and the others.
OPTIMAL, OTHERS = (
    ("adjacent-pairs", "butterfly", "complement"), ("shuffle", "transpose", "bit-reversal"),
)  # fmt: skip
PING_SIZES = (0, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)
SIZES = (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)
#: Loads of the I/O job, relative to what a node can send.
IO_LOADS = (0.1, 0.3, 0.5)
#: Mappings of two jobs: name -> mapping of the servers, and half of the compute job.
MAPPINGS = {
    "1c": ("clustered", "lower"), "1i": ("clustered", "upper"),
    "distributed": ("distributed", "lower"),
}  # fmt: skip
SERVERS = 8
#: Warm-up and measurement of each kind of traffic, us.
TIMES_US = {
    "uniform": (1000, 2000), "hot": (500, 1500), "io": (1000, 2000), "combined": (1000, 2000),
    "permutation": (400, 800),
}  # fmt: skip
#: Part of these times in a quick study.
QUICK = 0.3


@dataclass(frozen=True)
class QsNetChoice:
    """Settings that the paper leaves open, or a mechanism that it has."""

    #: Description.
    about: str
    #: Parameters of `QsNet`.
    description: Mapping[str, Any] = field(default_factory=dict)
    #: Arbiter of switches.
    arbiter: Arbiter = "age"
    #: Routing.
    routing: str = "nca-adaptive"
    #: Whether all time of adapters is turnaround, instead of service.
    turnaround: bool = False
    #: Whether packets hold circuits.
    circuits: bool = True


PAPER = "as described"
#: Name -> choice that the paper leaves open. Each differs from the first in one setting.
CHOICES: dict[str, QsNetChoice] = {
    PAPER: QsNetChoice("turns of 16 KiB, age of packets, adapter without turnaround"),
    "packet turns": QsNetChoice("messages take turns packet by packet", {"turn_packets": 1}),
    "whole messages": QsNetChoice("one message after the other", {"turn_packets": 2**31 - 1}),
    "round robin": QsNetChoice("switches serve inputs in turn", arbiter="round-robin"),
    "turnaround": QsNetChoice("the adapter's time is turnaround only", turnaround=True),
}
#: Name -> mechanism that is changed, to see what it causes.
MECHANISMS: dict[str, QsNetChoice] = {
    "no circuits": QsNetChoice("packets release lanes as they pass; no adapter", circuits=False),
    "one in flight": QsNetChoice("an adapter has one packet under way", {"window": 1}),
    "one channel": QsNetChoice("one virtual channel", {"window": 1, "channels": 1}),
    "random ascent": QsNetChoice("packets ascend at random", routing="nca-random"),
}


@dataclass(frozen=True)
class QsNetRun:
    """One flit-level run."""

    #: Figure of the paper.
    figure: str
    #: ``ping``, ``both`` (ping in both directions), ``uniform``, a permutation, ``hot``, ``io`` or
    #: ``combined``.
    traffic: str
    #: Number of nodes.
    nodes: int = 64
    #: Size of messages in bytes, on average.
    size: int = 256 * KIB
    #: Offered load of each source, MB/s; 0 for the maximum bandwidth.
    offered: float = 0.0
    #: Distributions of sizes and of the times between messages.
    sizes: str = "exponential"
    times: str = "exponential"
    #: As for `QsNet`.
    memory: Memory = "elan"
    library: Library = "elan3lib"
    #: ``clustered`` or ``distributed`` I/O nodes; with two jobs, a key of `MAPPINGS`.
    mapping: str = ""
    #: Choice of the I/O node: ``random``, or ``block`` (deterministic).
    server: str = ""
    #: Whether I/O nodes run nothing else.
    dedicated: bool = False
    #: Part of the transfers that are writes.
    write_share: float = 1.0
    #: Load of the I/O job beside a compute job.
    io_load: float = 0.0
    #: Whether warm-up and measurement are short.
    short: bool = False
    #: Seed of all draws, and key of `CHOICES` or `MECHANISMS`.
    seed: int = 0
    choice: str = PAPER

    @property
    def is_permutation(self) -> bool:
        """Whether every source has one destination of its own."""
        return self.traffic in OPTIMAL + OTHERS

    @property
    def times_ns(self) -> tuple[float, float]:
        """Warm-up and measurement."""
        warm, measured = TIMES_US["permutation" if self.is_permutation else self.traffic]
        factor = 1e3 * (QUICK if self.short else 1.0)
        return warm * factor, measured * factor


@dataclass(frozen=True, eq=False)
class QsNetRunResult:
    """Result of one run."""

    run: QsNetRun
    #: Accepted bandwidth, MB/s: of each source, of the hot node, of each I/O node, or of each rank
    #: of the compute job.
    mb_s: float
    #: float64: for pings, the time of the message in us; for ``hot``, the bandwidth of each source;
    #: for permutations, the wait at the head of each link, ns; else empty.
    parts: NDArray[np.float64]


def study_runs(
    figures: Sequence[str], seeds: Sequence[int], *, choices: bool, quick: bool
) -> tuple[QsNetRun, ...]:
    """Return every run of the study, in the order of its tables.

    Choices and mechanisms have the first three seeds. A quick study has short runs and few points.
    """
    points = [run for figure in figures for run in FIGURES[figure](quick)]
    points = [replace(run, short=quick and run.figure not in ("9", "10")) for run in points]
    few = [replace(run, choice=each) for run, each in _varied(points)] if choices else []
    return tuple(
        replace(run, seed=seed)
        for runs, numbers in ((points, seeds), (few, seeds[:3]))
        for run in runs
        for seed in numbers
    )


def _io(figure: str, server: str, quick: bool) -> list[QsNetRun]:
    runs = []
    for mapping, dedicated in product(("clustered", "distributed"), (False, True)):
        base = QsNetRun(
            figure, "io", size=KIB * KIB, mapping=mapping, server=server, dedicated=dedicated
        )
        runs.append(base)
        if dedicated and not quick:
            runs.append(replace(base, write_share=0.5))
            # What clients offer, such that I/O nodes could accept 100, 200 and 300 MB/s.
            runs += [
                replace(base, size=16 * KIB, offered=load * SERVERS / 56)
                for load in (100.0, 200.0, 300.0)
            ]
    return runs


_KINDS = ("uniform", "exponential")
#: Figure -> function that returns its points, fewer for a quick study.
FIGURES: dict[str, Callable[[bool], list[QsNetRun]]] = {
    "9": lambda quick: [
        *(QsNetRun("9", "ping", size=size) for size in PING_SIZES),
        *(QsNetRun("9", "ping", size=size, memory="main") for size in PING_SIZES[-3:]),
        *(QsNetRun("9", "ping", size=size, library="mpi") for size in PING_SIZES[:2]),
    ],
    "10": lambda quick: [
        QsNetRun("10", "both", size=size, memory="elan" if elan else "main")
        for elan in (True, False)
        for size in PING_SIZES[-3:]
    ],
    "11": lambda quick: [
        *(
            QsNetRun("11", "uniform", nodes, sizes=sizes, times=times)
            for nodes, sizes, times in product((16, 32, 64), _KINDS, _KINDS)
            if not quick or sizes == times
        ),
        *(
            QsNetRun("11", "uniform", nodes, size=16 * KIB, offered=load)
            for nodes in ((64,) if quick else (16, 32, 64))
            for load in ((100.0,) if quick else (50.0, 100.0, 150.0))
        ),
    ],
    "12": lambda quick: [
        QsNetRun("12", "uniform", size=size) for size in (SIZES[2::2] if quick else SIZES)
    ],
    "13": lambda quick: [
        run
        for name in OPTIMAL + OTHERS
        for run in (
            *(
                QsNetRun("13", name, size=16 * KIB, offered=load)
                for load in (() if quick else (75.0, 150.0, 225.0))
            ),
            QsNetRun("13", name),
        )
    ],
    "14": lambda quick: [
        QsNetRun("14", name, size=size)
        for name, size in product(OPTIMAL + OTHERS, () if quick else (KIB, 16 * KIB, 256 * KIB))
    ],
    "15": lambda quick: [QsNetRun("15", name) for name in ("complement", "bit-reversal")],
    "16": lambda quick: [
        *(QsNetRun("16", "hot", nodes, KIB * KIB) for nodes in TREES),
        *(
            QsNetRun("16", "hot", nodes, KIB * KIB, sizes="uniform", times="uniform")
            for nodes in (() if quick else (32, 64))
        ),
    ],
    "17": lambda quick: _io("17", "random", quick),
    "18": lambda quick: _io("18", "block", quick),
    "19": lambda quick: [
        QsNetRun("19", "combined", mapping=mapping, dedicated=dedicated, io_load=load)
        for mapping, dedicated in product(MAPPINGS, (False, True))
        for load in (0.0, *((IO_LOADS[1],) if quick else IO_LOADS))
    ],
}


def _varied(points: Sequence[QsNetRun]) -> Iterator[tuple[QsNetRun, str]]:
    """Yield each run that is repeated with another choice, and this choice."""
    for choice, run in product([*list(CHOICES)[1:], *MECHANISMS], points):
        usual = run.sizes == run.times == "exponential" and not run.offered
        main = {
            "11": usual, "13": usual, "16": usual and run.nodes >= 32,
            "17": usual and run.dedicated, "18": usual and run.dedicated,
            "12": usual and run.size in (16 * KIB, 256 * KIB),
            "19": not run.dedicated and run.io_load in (0.0, 0.3) and choice in CHOICES,
        }.get(run.figure, False)  # fmt: skip
        if main and (choice in CHOICES or run.nodes == 64):
            yield run, choice


@lru_cache(maxsize=4)
def fabric_of(nodes: int) -> Fabric:
    """Return the fat tree of a number of nodes."""
    return build(TREES[nodes])


def _options(run: QsNetRun) -> tuple[dict[str, Any], str]:
    """Return options of the flit level, and the routing."""
    choice = (CHOICES | MECHANISMS)[run.choice]
    net = QsNet(memory=run.memory, library=run.library, **choice.description)
    adapter = net.adapter
    if choice.turnaround:
        adapter = replace(adapter, service=0, turnaround=adapter.service + adapter.turnaround)
    if not choice.circuits:
        adapter = Adapter(window=net.window, turn_packets=net.turn_packets)
    options = {
        **net.options(), "router": replace(net.router, arbiter=choice.arbiter),
        "adapter": adapter, "eager_bytes": 2**40, "handshake": False, "rendezvous": "get",
        "overhead": NO_OVERHEAD,
        "local_gbps": 100.0, "local_latency_ns": 0.0, "seed": run.seed, "max_time_ns": None,
        "policy": None,
    }  # fmt: skip
    return options, choice.routing


def _simulate(run: QsNetRun, work: Workload, watch: Callable[[Any], None]) -> FlitResult:
    options, routing = _options(run)
    if run.traffic not in ("ping", "both"):
        warm, measured = run.times_ns
        options |= {"from_ns": warm, "max_time_ns": warm + measured}
    hosts = np.arange(work.num_ranks, dtype=np.int32)
    result = run_flits(fabric_of(run.nodes), routing, work, hosts, options, watch)
    limit = options["max_time_ns"]
    if not result.complete and (limit is None or result.end_ps < 1e3 * limit - 1e5):
        raise KeyboardInterrupt  # only an interrupt ends a run early
    return result


def workload_of(run: QsNetRun) -> Workload:
    """Return the messages of a run."""
    if run.traffic in ("ping", "both"):
        builder = WorkloadBuilder(run.nodes)
        ends = [(0, run.nodes - 1), (run.nodes - 1, 0)]
        for source, target in ends[: 1 + (run.traffic == "both")]:
            builder.put(source, target, run.size)
        return builder.build()
    warm, measured = run.times_ns
    offered = run.offered or max(FULL, run.size / FULL_US)
    common: dict[str, Any] = {
        "size": run.size, "size_distribution": run.sizes, "interarrival": run.times,
        "rate_gbps": NOMINAL * 8e-3, "load": offered / NOMINAL, "seed": run.seed,
    }  # fmt: skip
    if run.traffic == "combined":
        mapping, half = MAPPINGS[run.mapping]
        # At a load of 0 the I/O job sends nothing in the time of the run. Its messages are shorter
        # than the paper's, because the run is.
        return io_and_compute(
            run.nodes, servers=SERVERS, mapping=mapping, compute_half=half,  # type: ignore[arg-type]
            dedicated=run.dedicated, io_load=max(run.io_load * LINK / NOMINAL, 1e-12),
            io_size=64 * KIB, io_size_distribution="exponential", write_share=1.0,
            duration=measured, warmup=warm, **common,
        )  # fmt: skip
    spec, options = run.traffic, dict[str, Any]()
    if run.traffic == "uniform":
        options = {"seed": run.seed + 1}
    elif run.traffic == "hot":
        spec, options = "io", {"hosts": (0,), "seed": run.seed}
    elif run.traffic == "io":
        options = {
            "servers": SERVERS, "mapping": run.mapping, "dedicated": run.dedicated,
            "choice": run.server, "seed": run.seed + 1,
        }  # fmt: skip
    return open_loop(
        run.nodes, spec, duration_ns=measured, warmup_ns=warm, write_share=run.write_share,
        options=options, **common,
    )  # fmt: skip


@typed_run
def measure(
    _: None, run: QsNetRun, watch: Callable[[Any], None] = lambda _: None
) -> QsNetRunResult:
    """Simulate one run."""
    work = workload_of(run)
    result = _simulate(run, work, watch)
    if run.traffic in ("ping", "both"):
        time_us = float(result.arrived_ns.max()) / 1e3
        return QsNetRunResult(run, run.size / time_us, np.array([time_us]))
    us = run.times_ns[1] / 1e3
    moved = transfers(work)
    carried = result.carried[moved.ops]
    none = np.zeros(0)
    if run.traffic == "combined":
        mine = moved.job == "compute"
        ranks = len(np.unique(moved.source[mine]))
        return QsNetRunResult(run, float(carried[mine].sum() / us / ranks), none)
    if run.traffic == "io":
        return QsNetRunResult(run, float(carried.sum() / us / SERVERS), none)
    by_source = np.bincount(moved.source, weights=carried, minlength=run.nodes) / us
    if run.traffic == "hot":
        return QsNetRunResult(run, float(by_source.sum()), by_source)
    sources = len(np.unique(moved.source))
    waits = result.wait_ns if run.is_permutation else none
    return QsNetRunResult(run, float(by_source.sum() / sources), waits)
