"""Benchmarks of the KNS study, and the metrics that they report, computed as in the originals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.workload import Kind, Workload, load_workload

Floats = NDArray[np.float64]
#: Message sizes of HPC Challenge's bench_lat_bw.
LATENCY_BYTES, BANDWIDTH_BYTES = 8, 2_000_000
#: Repetitions of a ring, of which bench_lat_bw does not time the first.
RING_REPETITIONS = 9
#: An element of a rank's table has 8 bytes and gets four updates.
UPDATES_PER_BYTE = 4 / 8
PTRANS_ORDER = 10_000
GRAPH_SCALE, EDGE_FACTOR = 20, 16
EBB_BYTES = 2**20
#: Rate of one core in HPCG: 30 GFLOPS on 36 nodes (section 4.3.2, fig. 15).
CORE_GFLOPS = 0.85
#: Time of an update, network included: 0.05 GUPS on 36 nodes (section 4.3.1, fig. 11).
PAPER_UPDATE_NS = 720.0
#: Time to follow an edge from one end, network included: 2.5 GTEPS on 36 nodes (section 4.3.3,
#: fig. 16); a search follows each edge from both ends.
PAPER_EDGE_NS = 36 / 2.5 / 2
#: Variant -> share of `PAPER_EDGE_NS` that is processor time; the paper does not give it.
_PACES = {"half": 0.5, "a quarter": 0.25, "three quarters": 0.75}


@dataclass(frozen=True)
class Times:
    """Start and end of each operation of a run, at any level."""

    #: float64 [ops]: start and end of every operation.
    posted_ns: Floats
    ended_ns: Floats
    #: float64 [ops]: departure of the first byte and arrival of the last byte of messages; -1 for
    #: other operations.
    left_ns: Floats
    arrived_ns: Floats


#: Function (workload, times) that returns metric -> value.
Measure = Callable[[Workload, Times], Mapping[str, float]]


@dataclass(frozen=True)
class Metric:
    """A number that a benchmark reports."""

    unit: str
    #: Description.
    meaning: str
    #: Figure of the paper; empty for none.
    figure: str
    #: Better values: ``"more"`` or ``"less"``.
    better: str = "more"


@dataclass(frozen=True)
class Benchmark:
    """A benchmark with its sizes."""

    #: Short name.
    name: str
    #: Ranks per node, 1 or 8 -> spec of the application; the spec for 8 serves all numbers but 1.
    spec: Mapping[int, str]
    #: Function (workload, times) that returns metric -> value.
    measure: Measure
    #: Metrics that `measure` returns.
    metrics: Mapping[str, Metric]
    #: As `spec`, with the larger sizes of the option ``full``; empty for the same sizes.
    full: Mapping[int, str] = field(default_factory=dict)
    #: Ranks per node, 1 or 8 -> number of random orders of the ranks. The workload is run once in
    #: each order, and values are geometric means over the orders. None for one run in rank order.
    orders: Mapping[int, int] | None = None
    #: Whether the benchmark draws at random which ranks exchange, all with the same probability;
    #: its metrics then have the same distribution under any placement.
    draws: bool = False
    #: Field of `evidence.KnsChoice` that selects the variant.
    axis: str = ""
    #: Ranks per node, 1 or 8 -> name of a variant -> further options of the application.
    variants: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def variants_at(self, ranks_per_node: int) -> Mapping[str, str]:
        """Return the variants for a number of ranks per node, the headline variant first."""
        return self.variants.get(1 if ranks_per_node == 1 else 8, {"": ""})

    def rank_orders(self, ranks: int, ranks_per_node: int) -> list[NDArray[np.int64]]:
        """Return the orders of the ranks in which the workload is run."""
        if self.orders is None:
            return [np.arange(ranks)]
        random = np.random.default_rng(0)
        count = self.orders[1 if ranks_per_node == 1 else 8]
        return [random.permutation(ranks) for _ in range(count)]

    def application(self, ranks_per_node: int, full: bool, variant: str | None = None) -> str:
        """Return the spec of the application, by default that of the headline variant."""
        spec = (self.full if full and self.full else self.spec)[1 if ranks_per_node == 1 else 8]
        variants = self.variants_at(ranks_per_node)
        more = variants[next(iter(variants)) if variant is None else variant]
        return f"{spec},{more}" if more else spec

    def workload(
        self, ranks: int, ranks_per_node: int, full: bool, variant: str | None = None
    ) -> Workload:
        """Return the workload of the application."""
        return load_workload(self.application(ranks_per_node, full, variant), ranks)


def _phase_ops(work: Workload, phase: int) -> NDArray[np.int64]:
    return np.flatnonzero(work.phase == phase)


def _measured_phases(work: Workload) -> list[int]:
    """Return the named phases; operations outside them only synchronise the ranks."""
    phases = np.unique(work.phase)
    return [int(number) for number in phases if work.phase_names[number]]


def every_pair_alike(work: Workload) -> bool:
    """Return whether all pairs of ranks have the same number of measured, non-empty messages."""
    sends = np.isin(work.phase, _measured_phases(work)) & (work.kind == Kind.SEND)
    sends &= work.size_bytes > 0
    counts = np.zeros((work.num_ranks, work.num_ranks), dtype=np.int64)
    np.add.at(counts, (work.rank[sends], work.peer[sends]), 1)
    apart = counts[~np.eye(work.num_ranks, dtype=bool)]
    return bool(apart[0] > 0 and (apart == apart[0]).all())


def most_at_once(work: Workload, times: Times) -> int:
    """Return the largest number of measured messages in flight at a time."""
    sent = (times.left_ns >= 0) & np.isin(work.phase, _measured_phases(work))
    moments = np.concatenate([times.arrived_ns[sent], times.left_ns[sent]])
    change = np.repeat([-1, 1], int(sent.sum()))
    # At equal times arrivals are first: a message sent on an arrival does not overlap it.
    return int(np.cumsum(change[np.argsort(moments, kind="stable")]).max(initial=0))


def _round_trips(work: Workload, times: Times) -> Floats:
    """Return the time from the start of each ping to the end of its pong in ns.

    Ping and pong are consecutive operations of the client's program.
    """
    ping = np.flatnonzero((work.kind == Kind.SEND) & (work.tag == 0) & (work.phase > 0))
    client = np.isin(work.kind[np.minimum(ping + 1, work.num_ops - 1)], [Kind.RECV])
    begins = ping[client & (work.peer[ping] == work.peer[np.minimum(ping + 1, work.num_ops - 1)])]
    trips: Floats = times.ended_ns[begins + 1] - times.posted_ns[begins]
    return trips


def _extremes(name: str, values: Floats) -> Mapping[str, float]:
    """Return the minimum, mean and maximum of a metric."""
    return {
        f"{name}-min": float(values.min()),
        f"{name}-avg": float(values.mean()),
        f"{name}-max": float(values.max()),
    }


def _ping_pong_latency(work: Workload, times: Times) -> Mapping[str, float]:
    return _extremes("pingpong-latency", _round_trips(work, times) / 2e3)


def _ping_pong_bandwidth(work: Workload, times: Times) -> Mapping[str, float]:
    rate = BANDWIDTH_BYTES / (_round_trips(work, times) / 2)
    return _extremes("pingpong-bandwidth", rate)


def _ring_times(work: Workload, times: Times) -> Floats:
    """Return the time per message of each ring in ns.

    The time per message is half the time of one repetition on the slowest rank.
    """
    ring_times = []
    for phase in _measured_phases(work):
        ops = _phase_ops(work, phase)
        ends = times.ended_ns[ops].reshape(work.num_ranks, -1)
        begins = times.posted_ns[ops].reshape(work.num_ranks, -1)
        repetitions = _option(work.name, "repetitions")
        ended = ends.reshape(work.num_ranks, repetitions, -1).max(axis=2)
        # As in the benchmark, the first of several repetitions is not timed.
        start = begins[:, 0] if repetitions == 1 else ended[:, 0]
        ring_times.append((ended[:, -1] - start).max() / (2 * max(repetitions - 1, 1)))
    return np.array(ring_times)


def geometric_mean(values: Sequence[float] | Floats) -> float:
    """Return the geometric mean; a single value is returned without rounding."""
    return float(values[0]) if len(values) == 1 else float(np.exp(np.log(values).mean()))


def _ring_latency(name: str) -> Measure:
    return lambda work, times: {name: geometric_mean(_ring_times(work, times)) / 1e3}


def _ring_bandwidth(name: str) -> Measure:
    return lambda work, times: {name: BANDWIDTH_BYTES / geometric_mean(_ring_times(work, times))}


def _span_ns(work: Workload, times: Times) -> float:
    """Return the time from the first start to the last end or arrival of measured operations."""
    measured = np.isin(work.phase, _measured_phases(work))
    end = max(times.ended_ns[measured].max(), times.arrived_ns[measured].max())
    return float(end - times.posted_ns[measured].min())


def _random_access(name: str) -> Measure:
    def measure(work: Workload, times: Times) -> Mapping[str, float]:
        table = _option(work.name, "table")
        return {name: work.num_ranks * table * UPDATES_PER_BYTE / _span_ns(work, times)}

    return measure


def _option(spec: str, name: str) -> int:
    """Return the value of an integer option in a workload's name."""
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


def _graph500(name: str) -> Measure:
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


def _both(spec: str) -> Mapping[int, str]:
    return dict.fromkeys((1, 8), spec)


def _metric(
    name: str, unit: str, meaning: str, figure: str = "", better: str = "more"
) -> dict[str, Metric]:
    return {name: Metric(unit, meaning, figure, better)}


def _ping_pong(quantity: str, unit: str, better: str, figures: str) -> dict[str, Metric]:
    """Return the metrics of ping-pong pairs; `figures` has one letter for each."""
    name, number = f"pingpong-{quantity}", 10 if quantity == "latency" else 9
    words = {"min": "minimum", "avg": "mean", "max": "maximum"}
    return {
        f"{name}-{which}": Metric(
            unit, f"HPCC: {word} {quantity} over ping-pong pairs, one pair at a time",
            f"{number}{letter}", better,
        )
        for (which, word), letter in zip(words.items(), figures, strict=True)
    }  # fmt: skip


_RING = _both(f"natural-ring:sizes=8,repetitions={RING_REPETITIONS}")
_PACED = f"update_time={PAPER_UPDATE_NS:g}ns", f"update_time={8 * PAPER_UPDATE_NS:g}ns"
BENCHMARKS: Mapping[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "pingpong-latency", _both("pingpong:sizes=8"), _ping_pong_latency,
            _ping_pong("latency", "us", "less", "cea"),
        ),
        Benchmark(
            "pingpong-bandwidth",
            {1: "pingpong:sizes=2000000", 8: "pingpong:sizes=2000000,max_pairs=1300"},
            _ping_pong_bandwidth, _ping_pong("bandwidth", "GB/s", "more", "cea"),
            _both("pingpong:sizes=2000000"),
        ),
        Benchmark(
            "natural-ring-latency", _RING, _ring_latency("natural-ring-latency"),
            _metric(
                "natural-ring-latency", "us", "HPCC: latency of the naturally ordered ring", "12",
                "less",
            ),
        ),
        Benchmark(
            "random-ring-latency", _RING, _ring_latency("random-ring-latency"),
            _metric(
                "random-ring-latency", "us",
                "HPCC: latency of randomly ordered rings, geometric mean", "13", "less",
            ),
            orders={1: 30, 8: 10}, draws=True,
        ),
        Benchmark(
            "natural-ring-bandwidth", _both("natural-ring:sizes=2000000"),
            _ring_bandwidth("natural-ring-bandwidth"),
            _metric(
                "natural-ring-bandwidth", "GB/s",
                "HPCC: bandwidth per rank in the naturally ordered ring",
            ),
        ),
        Benchmark(
            "random-ring-bandwidth",
            {1: "random-ring:sizes=2000000,rings=10", 8: "random-ring:sizes=2000000,rings=2"},
            _ring_bandwidth("random-ring-bandwidth"),
            _metric(
                "random-ring-bandwidth", "GB/s",
                "HPCC: bandwidth per rank in randomly ordered rings, geometric mean",
            ),
            _both("random-ring:sizes=2000000,rings=10"), draws=True,
        ),
        Benchmark(
            "random-access", {1: "random-access:table=128KiB", 8: "random-access:table=16KiB"},
            _random_access("random-access"),
            _metric("random-access", "GUPS", "HPCC: random updates, without processor time"),
            {1: "random-access:table=1MiB", 8: "random-access:table=128KiB"}, draws=True,
        ),
        Benchmark(
            "random-access-paced",
            {1: f"random-access:table=128KiB,{_PACED[0]}",
             8: f"random-access:table=16KiB,{_PACED[1]}"},
            _random_access("random-access-paced"),
            _metric(
                "random-access-paced", "GUPS",
                "HPCC: random updates at the pace of the paper's processors", "11",
            ),
            {1: f"random-access:table=1MiB,{_PACED[0]}",
             8: f"random-access:table=128KiB,{_PACED[1]}"},
            draws=True,
        ),
        Benchmark(
            "ptrans", _both(f"ptrans:order={PTRANS_ORDER}"), _ptrans,
            _metric(
                "ptrans", "GB/s",
                "HPCC: matrix size divided by the time of the exchange, without processor time",
                "14",
            ),
            _both(f"ptrans:order={3 * PTRANS_ORDER}"), axis="grid",
            variants={1: {grid: f"grid={grid}" for grid in ("6x6", "4x9", "3x12")}},
        ),
        Benchmark(
            "hpcg",
            {1: f"hpcg:iterations=5,gflops={CORE_GFLOPS:g}",
             8: f"hpcg:iterations=1,gflops={CORE_GFLOPS:g}"},
            _hpcg,
            _metric("hpcg", "GFLOPS", "HPCG at 0.85 GFLOPS per rank", "15")
            | _metric(
                "hpcg-waiting", "%", "HPCG: share of the time for which the busiest rank waits",
                better="less",
            ),
            _both(f"hpcg:iterations=50,gflops={CORE_GFLOPS:g}"),
        ),
        Benchmark(
            "graph500", _both(f"graph500:scale={GRAPH_SCALE}"), _graph500("graph500"),
            _metric(
                "graph500", "GTEPS",
                "Graph500: edges of the graph divided by the time of a search's messages",
            ),
            _both(f"graph500:scale={GRAPH_SCALE + 3}"),
        ),
        Benchmark(
            "graph500-paced", _both(f"graph500:scale={GRAPH_SCALE}"), _graph500("graph500-paced"),
            _metric(
                "graph500-paced", "GTEPS",
                "Graph500: edges of the graph divided by the time of a search, with part of "
                "the paper's time as processor time", "16",
            ),
            _both(f"graph500:scale={GRAPH_SCALE + 3}"), axis="pace",
            variants={
                ranks: {
                    pace: f"edge_time={ranks * part * PAPER_EDGE_NS:g}ns"
                    for pace, part in list(_PACES.items())[: 3 if ranks == 1 else 1]
                }
                for ranks in (1, 8)
            },
        ),
        Benchmark(
            "ebb", {1: "ebb:rounds=50", 8: "ebb:rounds=3"}, _ebb,
            _metric("ebb", "GB/s", "Netgauge: effective bisection bandwidth per rank", "17")
            | _metric(
                "ebb-worst", "GB/s", "Netgauge: minimum bandwidth of a pair in any round"
            ),
            _both("ebb:rounds=1000"), draws=True,
        ),
    )
}  # fmt: skip
METRICS: Mapping[str, Metric] = {
    name: metric for benchmark in BENCHMARKS.values() for name, metric in benchmark.metrics.items()
}
