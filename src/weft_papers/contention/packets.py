"""Comparison of the contention-graph model with the packet level, as figure 5 does with a cluster.

Graphs run on one switch. As in the paper's benchmark, every communication has a sending and a
receiving process of its own. The model predicts the times from the time of one communication alone
on the same hardware. `VARIANTS` are adapters and switches that differ from the defaults in one or
two parameters. The measured times that the paper prints are compared too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft import routing
from weft.core.columns import Column, frame_of_rows
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routing.routes import Routes, TableRoutes, VirtualLanes
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.model import predict
from weft.sim.packet import Hardware
from weft.sim.simulate import simulate
from weft.study.runs.typed import Results, typed_run
from weft.workload import Workload, WorkloadBuilder
from weft_calibration.fit import (
    COEFFICIENTS,
    ERROR_COLUMNS,
    errors_by_edge,
    errors_by_size,
    fit,
)
from weft_calibration.measurements import Measurement
from weft_calibration.shapes import all_shapes

#: Called at intervals during a run; an exception that it raises ends the run.
Watch = Callable[[Any], None]
#: Sources and destinations of a graph.
Graph = tuple[list[int], list[int]]

#: Data rate of the paper's cables, 4xDDR with 20 Gb/s signalled.
RATE_GBPS = 16.0
#: Message size; for the variants "default" and "credits 0.94 us late" the mean errors differ by
#: less than 0.1 % from those at 20 MiB.
SIZE_BYTES = 1 << 21
#: Times in s that the paper measured for figure 4 and for one communication alone; 20 MiB each.
MEASURED_4: Mapping[str, tuple[float, ...]] = {
    "A": (0.036328, 0.036326, 0.027653, 0.027651, 0.013413),
    "B": (0.045236, 0.045228, 0.040073, 0.040072, 0.040071),
}
MEASURED_ALONE, MEASURED_BYTES = 0.010706, 20 << 20
#: Coefficients are fitted to all graphs of up to this number of communications.
FIT_EDGES = 4


@dataclass(frozen=True)
class Variant:
    """Hardware and protocol of a run."""

    #: Name in tables.
    name: str
    #: Switch and adapters.
    hardware: Hardware = field(default_factory=Hardware)
    #: Number of virtual lanes; consecutive destinations use them cyclically.
    lanes: int = 1
    #: Whether messages are eager; rendezvous otherwise.
    eager: bool = False
    #: Each communication starts at a random time between 0 and this time.
    start_ns: float = 0.0


_PACKET = 2112


def _late(nanoseconds: float, **more: float) -> Hardware:
    """Return hardware with buffers of two packets and the given latency of credit returns."""
    return Hardware(buffer_bytes=2 * _PACKET, credit_latency_ns=nanoseconds, **more)  # type: ignore[arg-type]


#: Variants for which errors by number of edges and fitted coefficients are reported.
TOLD = (
    Variant("default"),
    Variant("credits 0.94 us late", _late(940.0)),
    Variant("quantum 64 KiB", Hardware(quantum_bytes=1 << 16)),
)
VARIANTS = (
    *TOLD,
    Variant("quantum 8 KiB", Hardware(quantum_bytes=1 << 13)),
    Variant("quantum 32 KiB", Hardware(quantum_bytes=1 << 15)),
    Variant("quantum 32 KiB, speed-up 1", Hardware(speedup=1, quantum_bytes=1 << 15)),
    Variant("one queue pair, in order", Hardware(queue_pairs="host")),
    Variant("speed-up 1", Hardware(speedup=1)),
    Variant("virtual output queues", Hardware(queues="voq")),
    Variant("virtual output queues, 256 KiB", Hardware(queues="voq", buffer_bytes=1 << 18)),
    Variant("buffers of 64 KiB", Hardware(buffer_bytes=1 << 16)),
    Variant("2 packets", Hardware(buffer_bytes=2 * _PACKET)),
    Variant("1 packet", Hardware(buffer_bytes=_PACKET)),
    Variant("2 packets, 1 us, 15.7 Gb/s", _late(1000.0, adapter_gbps=15.7)),
    Variant("1 packet, 4 us", Hardware(buffer_bytes=_PACKET, credit_latency_ns=4000.0)),
    Variant("adapters 15.3 Gb/s", Hardware(adapter_gbps=15.3)),
    Variant("packets of 256 B", Hardware(mtu_bytes=256)),
    Variant("packets of 4 KiB", Hardware(mtu_bytes=4096)),
    Variant("eager messages", eager=True),
    Variant("starts within 3 us", start_ns=3000.0),
    Variant("2 lanes", lanes=2),
    Variant("8 lanes", lanes=8),
)

VARIANT_COLUMNS: Mapping[str, Column] = {
    "variant": Column(pl.String, "", "Hardware and protocol"),
    "alone_gbps": Column(pl.Float64, "Gb/s", "Payload rate of one communication alone"),
    "mean_error": Column(pl.Float64, "%", "Mean absolute error of the predicted times"),
    "p95_error": Column(pl.Float64, "%", "95th percentile of the absolute errors"),
    "max_error": Column(pl.Float64, "%", "Largest absolute error"),
    "bias": Column(pl.Float64, "%", "Mean signed error (above 0: predicted too late)"),
    "maxmin_mean": Column(pl.Float64, "%", "Mean absolute error of max-min fairness"),
    "maxmin_max": Column(pl.Float64, "%", "Largest absolute error of max-min fairness"),
}
PACKET_ERROR_COLUMNS: Mapping[str, Column] = {
    "variant": VARIANT_COLUMNS["variant"],
    **ERROR_COLUMNS,
}
PACKET_MEASURED_COLUMNS: Mapping[str, Column] = {
    "figure": Column(pl.String, "", "Figure of the paper"),
    "edge": Column(pl.String, "", "Communication"),
    "measured": Column(pl.Float64, "T_ref", "Time measured by the paper on its cluster"),
    "model": Column(pl.Float64, "T_ref", "Time predicted by the paper's model"),
    "variant": VARIANT_COLUMNS["variant"],
    "packets": Column(pl.Float64, "T_ref", "Time at the packet level"),
    "error": Column(pl.Float64, "%", "Error of the packet level relative to the measured time"),
}
PACKET_FIT_COLUMNS: Mapping[str, Column] = {
    "variant": VARIANT_COLUMNS["variant"],
    "coefficient": Column(pl.String, "", "Coefficient of the model"),
    "value": Column(
        pl.Float64, "", f"Fitted value (all graphs of up to {FIT_EDGES} communications)"
    ),
    "deviation": Column(pl.Float64, "", "Standard error of the fitted value"),
    "infiniband": Column(pl.Float64, "", "Value in the paper"),
}
PACKET_FITTED_COLUMNS: Mapping[str, Column] = {
    "variant": VARIANT_COLUMNS["variant"],
    "graphs": Column(pl.String, "", "Set of graphs (the fitted or the random ones)"),
    "paper_mean": Column(pl.Float64, "%", "Mean absolute error (the paper's coefficients)"),
    "paper_max": Column(pl.Float64, "%", "Largest absolute error (the paper's coefficients)"),
    "fitted_mean": Column(pl.Float64, "%", "Mean absolute error (fitted coefficients)"),
    "fitted_max": Column(pl.Float64, "%", "Largest absolute error (fitted coefficients)"),
}


@dataclass(frozen=True, eq=False)
class PacketComparison:
    """Errors of the model relative to the packet level."""

    #: Number of random graphs.
    graphs: int
    #: One row per variant; see `VARIANT_COLUMNS`.
    variants: pl.DataFrame
    #: Errors by number of edges for `TOLD`; see `PACKET_ERROR_COLUMNS`.
    errors: pl.DataFrame
    #: The paper's measured times and those of `TOLD`; see `PACKET_MEASURED_COLUMNS`.
    measured: pl.DataFrame
    #: Fitted coefficients and the errors that remain; see `PACKET_FIT_COLUMNS` and
    #: `PACKET_FITTED_COLUMNS`.
    coefficients: pl.DataFrame
    fitted: pl.DataFrame

    def tables(self) -> dict[str, tuple[pl.DataFrame, Mapping[str, Column]]]:
        """Return the tables and their columns by file name."""
        return {
            "packet_variants": (self.variants, VARIANT_COLUMNS),
            "packet_errors": (self.errors, PACKET_ERROR_COLUMNS),
            "packet_measured": (self.measured, PACKET_MEASURED_COLUMNS),
            "packet_coefficients": (self.coefficients, PACKET_FIT_COLUMNS),
            "packet_fitted": (self.fitted, PACKET_FITTED_COLUMNS),
        }


@lru_cache(maxsize=8)
def one_switch(nodes: int, lanes: int = 1) -> tuple[Fabric, Routes]:
    """Return one switch with hosts, and routes that assign lanes to destinations cyclically."""
    fabric = build(f"xgft:1;{nodes};1,rate={RATE_GBPS:g}")
    routes = routing.route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    levels = np.arange(fabric.num_destinations) % lanes
    return fabric, replace(
        routes, sl=levels.astype(np.uint8), lanes=VirtualLanes.uniform(range(lanes))
    )


def processes(edges: int, size_bytes: int, start_ns: NDArray[np.float64]) -> Workload:
    """Return a workload with two ranks per communication: even ranks send, odd ranks receive."""
    builder = WorkloadBuilder(2 * edges)
    for edge in range(edges):
        if start_ns[edge]:
            builder.calc(2 * edge, float(start_ns[edge]))
        builder.send(2 * edge, 2 * edge + 1, size_bytes)
        builder.recv(2 * edge + 1, 2 * edge, size_bytes)
    return builder.build()


@dataclass(frozen=True)
class GraphRun:
    """One run: a graph on a switch."""

    #: Hardware and protocol.
    variant: Variant
    #: Nodes of each communication.
    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    #: Number of hosts of the switch.
    nodes: int
    #: Size of every message.
    size_bytes: int


@dataclass(frozen=True, eq=False)
class EdgeTimes:
    """Result of a run: s from each communication's start to its arrival, float64 [edges]."""

    time_s: NDArray[np.float64]


@typed_run
def packet_times(_: None, case: GraphRun, watch: Watch = lambda _: None) -> EdgeTimes:
    """Return the times of a graph.

    Random start times depend only on the graph and on `start_ns` of the variant.
    """
    variant, edges = case.variant, len(case.sources)
    fabric, routes = one_switch(case.nodes, variant.lanes)
    random = np.random.default_rng([edges, *case.sources, *case.destinations])
    start_ns = np.round(random.random(edges) * variant.start_ns, 3)
    placement = np.ravel(np.stack((case.sources, case.destinations), 1))
    result = simulate(
        fabric, routes, processes(edges, case.size_bytes, start_ns), placement,
        hardware=variant.hardware, eager_bytes=case.size_bytes if variant.eager else 0,
        rendezvous="put",  # Open MPI 1.2 writes, and has a queue pair for control messages
        progress=watch, level="packet",
    )  # fmt: skip
    if not result.complete:
        raise KeyboardInterrupt  # only an interrupt ends a run early
    arrived: NDArray[np.float64] = result.arrived_ns[result.workload.messages]
    return EdgeTimes((arrived - start_ns) * 1e-9)


def cases(
    graphs: Sequence[Graph], variant: Variant, nodes: int, size_bytes: int = SIZE_BYTES
) -> list[GraphRun]:
    """Return the runs of graphs, and last that of one communication alone."""
    return [
        GraphRun(variant, tuple(sources), tuple(destinations), nodes, size_bytes)
        for sources, destinations in (*graphs, ([0], [1]))
    ]


def measure(
    graphs: Sequence[Graph],
    variant: Variant,
    nodes: int,
    size_bytes: int = SIZE_BYTES,
    times: Callable[[GraphRun], EdgeTimes] = lambda case: packet_times(None, case),
) -> tuple[list[Measurement], float]:
    """Return the times of graphs, and the time per byte of one communication alone, in s.

    `times` returns the result of a run; by default it is computed.
    """
    *runs, alone = cases(graphs, variant, nodes, size_bytes)
    measured = [
        Measurement(
            " ".join(f"{a}->{b}" for a, b in zip(*graph, strict=True)) + f" ({number})",
            np.array(graph[0]), np.array(graph[1]),
            np.full(len(graph[0]), size_bytes), times(run).time_s,
        )
        for number, (graph, run) in enumerate(zip(graphs, runs, strict=True))
    ]  # fmt: skip
    return measured, float(times(alone).time_s[0]) / size_bytes


def maxmin_times(graphs: Sequence[Graph], nodes: int) -> NDArray[np.float64]:
    """Return times under max-min fairness, divided by the time of one communication alone.

    The array is float64 [edges of all graphs].
    """
    fabric, routes = one_switch(nodes)
    times = []
    for graph in graphs:
        placement = np.ravel(np.stack(graph, 1))
        work = processes(len(graph[0]), SIZE_BYTES, np.zeros(len(graph[0])))
        result = simulate(
            fabric, routes, work, placement, latency_ns=0.0, switch_latency_ns=0.0, eager_bytes=0
        )
        times.append(result.arrived_ns[work.messages] / (8 * SIZE_BYTES / RATE_GBPS))
    return np.concatenate(times)


def _variant_row(
    variant: Variant, measured: list[Measurement], alpha: float, maxmin: NDArray[np.float64]
) -> list[object]:
    table = errors_by_edge(measured, INFINIBAND, alpha)
    error = table["error"].to_numpy()
    maxmin_error = 100 * (maxmin * alpha * SIZE_BYTES / table["measured_s"].to_numpy() - 1)
    size = np.abs(error)
    return [
        variant.name, 8e-9 / alpha, size.mean(), np.percentile(size, 95), size.max(), error.mean(),
        np.abs(maxmin_error).mean(), np.abs(maxmin_error).max(),
    ]  # fmt: skip


@cache
def _fitted_graphs() -> list[Graph]:
    """Return all graphs of up to `FIT_EDGES` communications."""
    return [([a for a, _ in shape], [b for _, b in shape]) for shape in all_shapes(FIT_EDGES)]


def _mean_and_max(
    measured: list[Measurement], model: PenaltyModel, alpha: float
) -> tuple[float, float]:
    error = np.abs(errors_by_edge(measured, model, alpha)["error"].to_numpy())
    return float(error.mean()), float(error.max())


def _nodes_of(graph: Graph) -> int:
    return max(max(each) for each in graph) + 1


def _measured_rows(
    figure_4: Mapping[str, Graph], variant: Variant, times: Callable[[GraphRun], EdgeTimes]
) -> list[list[object]]:
    """Return rows with the paper's measured times and those of the packet level."""
    rows: list[list[object]] = []
    for name, graph in figure_4.items():
        (result,), alpha = measure([graph], variant, _nodes_of(graph), MEASURED_BYTES, times)
        ours = result.time_s / (alpha * MEASURED_BYTES)
        model = predict(*graph, 1.0, 0.0, 1.0)
        for edge, seconds in enumerate(MEASURED_4[name]):
            measured, packets = seconds / MEASURED_ALONE, float(ours[edge])
            rows.append([
                f"4 {name}", "abcde"[edge], measured, float(model[edge]), variant.name, packets,
                100 * (packets / measured - 1),
            ])  # fmt: skip
    return rows


def compare(
    graphs: Sequence[Graph], nodes: int, figure_4: Mapping[str, Graph], results: Results
) -> PacketComparison:
    """Compute the model's errors on random graphs for `VARIANTS`, and fit coefficients for `TOLD`.

    After an interrupt the result contains the variants completed so far. The switch has `nodes`
    hosts, but at least `FIT_EDGES` + 1. The times of `figure_4` are in `MEASURED_4`.
    """
    nodes = max(nodes, FIT_EDGES + 1)
    needed = {variant: cases(graphs, variant, nodes) for variant in VARIANTS}
    for variant in TOLD:
        needed[variant] += cases(_fitted_graphs(), variant, nodes)
        for graph in figure_4.values():
            needed[variant] += cases([graph], variant, _nodes_of(graph), MEASURED_BYTES)
    runs = [case for each in needed.values() for case in each]
    known = results.of("contention-model", packet_times, None, runs, processes=1)
    times = known.__getitem__
    maxmin = maxmin_times(graphs, nodes)
    variants: list[list[object]] = []
    errors = [frame_of_rows(PACKET_ERROR_COLUMNS, [])]
    measured: list[list[object]] = []
    coefficients: list[list[object]] = []
    fitted: list[list[object]] = []
    for variant in VARIANTS:
        if not all(case in known for case in needed[variant]):
            continue
        name = variant.name
        random, alpha = measure(graphs, variant, nodes, times=times)
        variants.append(_variant_row(variant, random, alpha, maxmin))
        if variant not in TOLD:
            continue
        by_size = errors_by_size(random, INFINIBAND, alpha)
        errors.append(by_size.select(pl.lit(name).alias("variant"), pl.all()))
        measured += _measured_rows(figure_4, variant, times)
        small, small_alpha = measure(_fitted_graphs(), variant, nodes, times=times)
        # The time per byte is that of one communication alone and is not fitted.
        calibration = fit(small, fit_bandwidth=False)
        model, uncertainty = calibration.model, calibration.uncertainty
        coefficients += [
            [name, each, getattr(model, each), uncertainty[each], getattr(INFINIBAND, each)]
            for each in COEFFICIENTS
        ]
        fitted += [
            [
                name, which, *_mean_and_max(tested, INFINIBAND, per_byte),
                *_mean_and_max(tested, model, per_byte),
            ]
            for which, tested, per_byte in (
                (f"all of up to {FIT_EDGES}", small, small_alpha),
                ("random", random, alpha),
            )
        ]  # fmt: skip
    return PacketComparison(
        len(graphs),
        frame_of_rows(VARIANT_COLUMNS, variants),
        pl.concat(errors),
        frame_of_rows(PACKET_MEASURED_COLUMNS, measured),
        frame_of_rows(PACKET_FIT_COLUMNS, coefficients),
        frame_of_rows(PACKET_FITTED_COLUMNS, fitted),
    )
