"""What the KNS study runs, and what each benchmark reports, by the benchmark's own rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.workload import Kind, Workload, load_workload

Floats = NDArray[np.float64]
#: Message sizes of HPC Challenge's bench_lat_bw.
LATENCY_BYTES, BANDWIDTH_BYTES = 8, 2_000_000
#: Repetitions of a ring of which the first is not timed, as there.
RING_REPETITIONS = 9
#: Elements of a rank's table are 8 bytes, and four updates are made for each.
UPDATES_PER_BYTE = 4 / 8
PTRANS_ORDER = 10_000
GRAPH_SCALE, EDGE_FACTOR = 20, 16
EBB_BYTES = 2**20
#: 30 GFLOPS of 36 nodes (section 4.3.2, fig. 15): what one of their cores does, as HPCG counts.
CORE_GFLOPS = 0.85
#: 0.05 GUPS of 36 nodes (section 4.3.1, fig. 11): so long an update takes there, network and all.
PAPER_UPDATE_NS = 720.0
#: 2.5 GTEPS of 36 nodes (section 4.3.3, fig. 16): so long an edge takes there, network and all; a
#: search follows it from both ends.
PAPER_EDGE_NS = 36 / 2.5 / 2
#: Part of that time which processors take, which the paper does not tell.
_PACES = {"half": 0.5, "a quarter": 0.25, "three quarters": 0.75}


@dataclass(frozen=True)
class Times:
    """When each operation of a run began and ended, whatever the level.

    Parameters
    ----------
    posted_ns, ended_ns
        float64 [ops]: begin and end of every operation.
    left_ns, arrived_ns
        float64 [ops]: of messages, when the first byte left and the last arrived; -1 elsewhere.
    """

    posted_ns: Floats
    ended_ns: Floats
    left_ns: Floats
    arrived_ns: Floats


@dataclass(frozen=True)
class Metric:
    """A number that a benchmark reports.

    Parameters
    ----------
    unit
        Its unit.
    meaning
        What it says.
    figure
        Of the paper that shows it; empty for none.
    better
        Which values are: ``"more"`` or ``"less"``.
    """

    unit: str
    meaning: str
    figure: str
    better: str = "more"


@dataclass(frozen=True)
class Benchmark:
    """A benchmark with its sizes.

    Parameters
    ----------
    name
        Short.
    spec
        Ranks of a node -> application; 1 and 8 have their own, any other number has that of 8.
    full
        The same with the sizes of ``full``.
    measure
        Workload and times -> metric -> value.
    metrics
        What `measure` gives.
    orders
        Ranks of a node, 1 or 8 -> random orders of the ranks that the workload is run in, one
        after the other and each from a standstill; values are geometric means over them. None for
        once, in their own order.
    draws
        Whether the benchmark draws at random which ranks exchange, all alike: what it reports then
        has the same distribution under any placement.
    axis
        Name of the choice that its variants differ by (`kns_evidence.Choice`).
    variants
        Ranks of a node, 1 or 8 -> name of a variant -> further options of the application.
    """

    name: str
    spec: Mapping[int, str]
    full: Mapping[int, str]
    measure: Callable[[Workload, Times], Mapping[str, float]]
    metrics: Mapping[str, Metric]
    orders: Mapping[int, int] | None = None
    draws: bool = False
    axis: str = ""
    variants: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def variants_at(self, ranks_per_node: int) -> Mapping[str, str]:
        """Variants for so many ranks of a node, the headline first; without any, one unnamed."""
        return self.variants.get(1 if ranks_per_node == 1 else 8, {"": ""})

    def rank_orders(self, ranks: int, ranks_per_node: int) -> list[NDArray[np.int64]]:
        """Orders of the ranks to run the workload in."""
        if self.orders is None:
            return [np.arange(ranks)]
        random = np.random.default_rng(0)
        count = self.orders[1 if ranks_per_node == 1 else 8]
        return [random.permutation(ranks) for _ in range(count)]

    def application(self, ranks_per_node: int, full: bool, variant: str | None = None) -> str:
        """Spec of the application, of the headline variant where none is named."""
        spec = (self.full if full else self.spec)[1 if ranks_per_node == 1 else 8]
        variants = self.variants_at(ranks_per_node)
        more = variants[next(iter(variants)) if variant is None else variant]
        return f"{spec},{more}" if more else spec

    def workload(
        self, ranks: int, ranks_per_node: int, full: bool, variant: str | None = None
    ) -> Workload:
        """The application, written out."""
        return load_workload(self.application(ranks_per_node, full, variant), ranks)


def _phase_ops(work: Workload, phase: int) -> NDArray[np.int64]:
    return np.flatnonzero(work.phase == phase)


def _measured_phases(work: Workload) -> list[int]:
    """Phases that measure something; what lies outside them only keeps ranks in step."""
    there = np.unique(work.phase)
    return [int(number) for number in there if work.phase_names[number]]


def every_pair_alike(work: Workload) -> bool:
    """Whether each rank measures as many messages with content to each other one."""
    sends = np.isin(work.phase, _measured_phases(work)) & (work.kind == Kind.SEND)
    sends &= work.size_bytes > 0
    counts = np.zeros((work.num_ranks, work.num_ranks), dtype=np.int64)
    np.add.at(counts, (work.rank[sends], work.peer[sends]), 1)
    apart = counts[~np.eye(work.num_ranks, dtype=bool)]
    return bool(apart[0] > 0 and (apart == apart[0]).all())


def most_at_once(work: Workload, times: Times) -> int:
    """Most measured messages that are under way at one moment."""
    sent = (times.left_ns >= 0) & np.isin(work.phase, _measured_phases(work))
    moments = np.concatenate([times.arrived_ns[sent], times.left_ns[sent]])
    change = np.repeat([-1, 1], int(sent.sum()))
    # Of equal moments arrivals come first: what follows on an arrival does not meet it.
    return int(np.cumsum(change[np.argsort(moments, kind="stable")]).max(initial=0))


def _round_trips(work: Workload, times: Times) -> Floats:
    """Time from each ping's begin to the end of its pong, in ns.

    Ping and pong of a client stand side by side in its program.
    """
    ping = np.flatnonzero((work.kind == Kind.SEND) & (work.tag == 0) & (work.phase > 0))
    client = np.isin(work.kind[np.minimum(ping + 1, work.num_ops - 1)], [Kind.RECV])
    begins = ping[client & (work.peer[ping] == work.peer[np.minimum(ping + 1, work.num_ops - 1)])]
    trips: Floats = times.ended_ns[begins + 1] - times.posted_ns[begins]
    return trips


def _ping_pong_latency(work: Workload, times: Times) -> Mapping[str, float]:
    one_way = _round_trips(work, times) / 2e3
    return {
        "pingpong-latency-min": float(one_way.min()),
        "pingpong-latency-avg": float(one_way.mean()),
        "pingpong-latency-max": float(one_way.max()),
    }


def _ping_pong_bandwidth(work: Workload, times: Times) -> Mapping[str, float]:
    rate = BANDWIDTH_BYTES / (_round_trips(work, times) / 2)
    return {
        "pingpong-bandwidth-min": float(rate.min()),
        "pingpong-bandwidth-avg": float(rate.mean()),
        "pingpong-bandwidth-max": float(rate.max()),
    }


def _ring_times(work: Workload, times: Times) -> Floats:
    """Time of a message of each ring in ns: that of the slowest rank, over two messages each."""
    found = []
    for phase in _measured_phases(work):
        ops = _phase_ops(work, phase)
        ends = times.ended_ns[ops].reshape(work.num_ranks, -1)
        begins = times.posted_ns[ops].reshape(work.num_ranks, -1)
        turns = _option(work.name, "repetitions")
        ended = ends.reshape(work.num_ranks, turns, -1).max(axis=2)
        # As in the benchmark the first turn is not timed, where there are more.
        start = begins[:, 0] if turns == 1 else ended[:, 0]
        found.append((ended[:, -1] - start).max() / (2 * max(turns - 1, 1)))
    return np.array(found)


def geometric_mean(values: Sequence[float] | Floats) -> float:
    """Mean of ratios; a single value is itself, to the last digit."""
    return float(values[0]) if len(values) == 1 else float(np.exp(np.log(values).mean()))


def _natural_latency(work: Workload, times: Times) -> Mapping[str, float]:
    return {"natural-ring-latency": geometric_mean(_ring_times(work, times)) / 1e3}


def _natural_bandwidth(work: Workload, times: Times) -> Mapping[str, float]:
    return {"natural-ring-bandwidth": BANDWIDTH_BYTES / geometric_mean(_ring_times(work, times))}


def _random_latency(work: Workload, times: Times) -> Mapping[str, float]:
    return {"random-ring-latency": geometric_mean(_ring_times(work, times)) / 1e3}


def _random_bandwidth(work: Workload, times: Times) -> Mapping[str, float]:
    return {"random-ring-bandwidth": BANDWIDTH_BYTES / geometric_mean(_ring_times(work, times))}


def _span_ns(work: Workload, times: Times) -> float:
    """From the first begin to the last end or arrival of what is measured."""
    measured = np.isin(work.phase, _measured_phases(work))
    end = max(times.ended_ns[measured].max(), times.arrived_ns[measured].max())
    return float(end - times.posted_ns[measured].min())


def _random_access(name: str) -> Callable[[Workload, Times], Mapping[str, float]]:
    def measure(work: Workload, times: Times) -> Mapping[str, float]:
        table = _option(work.name, "table")
        return {name: work.num_ranks * table * UPDATES_PER_BYTE / _span_ns(work, times)}

    return measure


def _option(spec: str, name: str) -> int:
    """A whole number among the options that a workload's name holds."""
    for part in spec.partition(":")[2].split(","):
        key, _, value = part.partition("=")
        if key == name:
            return int(value)
    raise KeyError(f"{spec} has no {name}")


def _ptrans(work: Workload, times: Times) -> Mapping[str, float]:
    order = _option(work.name, "order")
    return {"ptrans": order * order * 8 / _span_ns(work, times)}


def _hpcg(work: Workload, times: Times) -> Mapping[str, float]:
    operations = work.duration_ns.sum() * CORE_GFLOPS
    span = _span_ns(work, times)
    slowest = np.bincount(work.rank, weights=work.duration_ns).max()
    return {"hpcg": float(operations / span), "hpcg-waiting": float(100 * (1 - slowest / span))}


def _graph500(name: str) -> Callable[[Workload, Times], Mapping[str, float]]:
    def measure(work: Workload, times: Times) -> Mapping[str, float]:
        scale = _option(work.name, "scale")
        return {name: EDGE_FACTOR * 2.0**scale / _span_ns(work, times)}

    return measure


def _ebb(work: Workload, times: Times) -> Mapping[str, float]:
    rates = []
    for phase in _measured_phases(work):
        ops = _phase_ops(work, phase)
        begin = times.posted_ns[ops].reshape(work.num_ranks, -1).min(axis=1)
        end = times.ended_ns[ops].reshape(work.num_ranks, -1).max(axis=1)
        rates.append(EBB_BYTES / (end - begin))
    return {"ebb": float(np.mean(rates)), "ebb-worst": float(np.min(rates))}


def _bandwidth(meaning: str, figure: str) -> Metric:
    return Metric("GB/s", meaning, figure)


def _latency(meaning: str, figure: str) -> Metric:
    return Metric("us", meaning, figure, "less")


_PAIRS = "over pairs of ranks, one pair at a time"
BENCHMARKS: Mapping[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "pingpong-latency",
            {1: "pingpong:sizes=8", 8: "pingpong:sizes=8"},
            {1: "pingpong:sizes=8", 8: "pingpong:sizes=8"},
            _ping_pong_latency,
            {
                "pingpong-latency-min": _latency(f"HPCC: least ping-pong latency {_PAIRS}", "10c"),
                "pingpong-latency-avg": _latency(f"HPCC: mean ping-pong latency {_PAIRS}", "10e"),
                "pingpong-latency-max": _latency(f"HPCC: most ping-pong latency {_PAIRS}", "10a"),
            },
        ),
        Benchmark(
            "pingpong-bandwidth",
            {1: "pingpong:sizes=2000000", 8: "pingpong:sizes=2000000,max_pairs=1300"},
            {1: "pingpong:sizes=2000000", 8: "pingpong:sizes=2000000"},
            _ping_pong_bandwidth,
            {
                "pingpong-bandwidth-min": _bandwidth(f"HPCC: least bandwidth {_PAIRS}", "9c"),
                "pingpong-bandwidth-avg": _bandwidth(f"HPCC: mean bandwidth {_PAIRS}", "9e"),
                "pingpong-bandwidth-max": _bandwidth(f"HPCC: most bandwidth {_PAIRS}", "9a"),
            },
        ),
        Benchmark(
            "natural-ring-latency",
            dict.fromkeys((1, 8), f"natural-ring:sizes=8,repetitions={RING_REPETITIONS}"),
            dict.fromkeys((1, 8), f"natural-ring:sizes=8,repetitions={RING_REPETITIONS}"),
            _natural_latency,
            {"natural-ring-latency": _latency("HPCC: latency of the naturally ordered ring", "12")},
        ),
        Benchmark(
            "random-ring-latency",
            dict.fromkeys((1, 8), f"natural-ring:sizes=8,repetitions={RING_REPETITIONS}"),
            dict.fromkeys((1, 8), f"natural-ring:sizes=8,repetitions={RING_REPETITIONS}"),
            _random_latency,
            {
                "random-ring-latency": _latency(
                    "HPCC: latency of randomly ordered rings, geometric mean", "13"
                )
            },
            orders={1: 30, 8: 10},
            draws=True,
        ),
        Benchmark(
            "natural-ring-bandwidth",
            dict.fromkeys((1, 8), "natural-ring:sizes=2000000"),
            dict.fromkeys((1, 8), "natural-ring:sizes=2000000"),
            _natural_bandwidth,
            {
                "natural-ring-bandwidth": _bandwidth(
                    "HPCC: bandwidth of each rank in the naturally ordered ring", ""
                )
            },
        ),
        Benchmark(
            "random-ring-bandwidth",
            {1: "random-ring:sizes=2000000,rings=10", 8: "random-ring:sizes=2000000,rings=2"},
            dict.fromkeys((1, 8), "random-ring:sizes=2000000,rings=10"),
            _random_bandwidth,
            {
                "random-ring-bandwidth": _bandwidth(
                    "HPCC: bandwidth of each rank in randomly ordered rings, geometric mean", ""
                )
            },
            draws=True,
        ),
        Benchmark(
            "random-access",
            {1: "random-access:table=128KiB", 8: "random-access:table=16KiB"},
            {1: "random-access:table=1MiB", 8: "random-access:table=128KiB"},
            _random_access("random-access"),
            {
                "random-access": Metric(
                    "GUPS", "HPCC: random updates, processors taking no time for them", ""
                )
            },
            draws=True,
        ),
        Benchmark(
            "random-access-paced",
            {
                1: f"random-access:table=128KiB,update_time={PAPER_UPDATE_NS:g}ns",
                8: f"random-access:table=16KiB,update_time={8 * PAPER_UPDATE_NS:g}ns",
            },
            {
                1: f"random-access:table=1MiB,update_time={PAPER_UPDATE_NS:g}ns",
                8: f"random-access:table=128KiB,update_time={8 * PAPER_UPDATE_NS:g}ns",
            },
            _random_access("random-access-paced"),
            {
                "random-access-paced": Metric(
                    "GUPS", "HPCC: random updates at the pace of the paper's processors", "11"
                )
            },
            draws=True,
        ),
        Benchmark(
            "ptrans",
            dict.fromkeys((1, 8), f"ptrans:order={PTRANS_ORDER}"),
            dict.fromkeys((1, 8), f"ptrans:order={3 * PTRANS_ORDER}"),
            _ptrans,
            {
                "ptrans": _bandwidth(
                    "HPCC: matrix over time of the exchange, processors taking no time", "14"
                )
            },
            axis="grid",
            variants={1: {grid: f"grid={grid}" for grid in ("6x6", "4x9", "3x12")}},
        ),
        Benchmark(
            "hpcg",
            {
                1: f"hpcg:iterations=5,gflops={CORE_GFLOPS:g}",
                8: f"hpcg:iterations=1,gflops={CORE_GFLOPS:g}",
            },
            dict.fromkeys((1, 8), f"hpcg:iterations=50,gflops={CORE_GFLOPS:g}"),
            _hpcg,
            {
                "hpcg": Metric("GFLOPS", "HPCG at 0.85 GFLOPS a rank", "15"),
                "hpcg-waiting": Metric(
                    "%", "share of HPCG's time that the busiest rank does not calculate", "", "less"
                ),
            },
        ),
        Benchmark(
            "graph500",
            dict.fromkeys((1, 8), f"graph500:scale={GRAPH_SCALE}"),
            dict.fromkeys((1, 8), f"graph500:scale={GRAPH_SCALE + 3}"),
            _graph500("graph500"),
            {
                "graph500": Metric(
                    "GTEPS", "Graph500: edges of the graph over the time of a search's messages",
                    "",
                )
            },
        ),
        Benchmark(
            "graph500-paced",
            dict.fromkeys((1, 8), f"graph500:scale={GRAPH_SCALE}"),
            dict.fromkeys((1, 8), f"graph500:scale={GRAPH_SCALE + 3}"),
            _graph500("graph500-paced"),
            {
                "graph500-paced": Metric(
                    "GTEPS", "Graph500: edges of the graph over the time of a search whose "
                    "processors take part of the paper's time", "16",
                )
            },
            axis="pace",
            variants={
                ranks: {
                    pace: f"edge_time={ranks * part * PAPER_EDGE_NS:g}ns"
                    for pace, part in list(_PACES.items())[: 3 if ranks == 1 else 1]
                }
                for ranks in (1, 8)
            },
        ),
        Benchmark(
            "ebb",
            {1: "ebb:rounds=50", 8: "ebb:rounds=3"},
            dict.fromkeys((1, 8), "ebb:rounds=1000"),
            _ebb,
            {
                "ebb": _bandwidth("Netgauge: effective bisection bandwidth of each rank", "17"),
                "ebb-worst": _bandwidth("Netgauge: least bandwidth of a pair in any round", ""),
            },
            draws=True,
        ),
    )
}  # fmt: skip
METRICS: Mapping[str, Metric] = {
    name: metric for benchmark in BENCHMARKS.values() for name, metric in benchmark.metrics.items()
}
