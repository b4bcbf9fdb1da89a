"""The contention-graph model beside the packet level: what figure 5 measured on a cluster.

Graphs run on one switch, every communication between two processes of its own, as in the paper's
benchmark, and the model predicts their times from that of one communication alone on the same
hardware. `VARIANTS` are adapters and switches that differ in one or two parameters each. The few
times that the paper prints as measured are compared with too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft import routing
from weft.contention import INFINIBAND, PenaltyModel, predict
from weft.contention.calibration import (
    COEFFICIENTS,
    ERROR_COLUMNS,
    Calibration,
    errors_by_edge,
    errors_by_size,
    fit,
)
from weft.contention.measurements import Measurement
from weft.contention.shapes import all_shapes
from weft.core.columns import Column, frame
from weft.core.pool import run_all
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.routes import Routes, TableRoutes, VirtualLanes
from weft.sim.packet import Hardware
from weft.sim.simulate import simulate
from weft.workload import Workload, WorkloadBuilder

#: Called now and then; what it raises ends a run.
Watch = Callable[[Any], None]
#: Sources and destinations of a graph.
Graph = tuple[list[int], list[int]]

#: Of the paper's cables, 4xDDR: 20 Gb/s signalled.
RATE_GBPS = 16.0
#: Mean errors of the default and of late credits differ by less than 0.1 % from those at 20 MiB.
SIZE_BYTES = 1 << 21
#: Times that the paper measured of figure 4, s, and of one communication alone; of 20 MiB.
MEASURED_4: Mapping[str, tuple[float, ...]] = {
    "A": (0.036328, 0.036326, 0.027653, 0.027651, 0.013413),
    "B": (0.045236, 0.045228, 0.040073, 0.040072, 0.040071),
}
MEASURED_ALONE, MEASURED_BYTES = 0.010706, 20 << 20
#: All graphs of up to so many communications are what coefficients are fitted to.
FIT_EDGES = 4


@dataclass(frozen=True)
class Variant:
    """Hardware and protocol of a run.

    Parameters
    ----------
    name
        What tables call it.
    hardware
        Switch and adapters.
    lanes
        Virtual lanes; destinations have them by turns.
    eager
        Messages leave without asking; a rendez-vous otherwise.
    start_ns
        Communications begin at random within this time.
    """

    name: str
    hardware: Hardware = field(default_factory=Hardware)
    lanes: int = 1
    eager: bool = False
    start_ns: float = 0.0


_PACKET = 2112


def _late(nanoseconds: float, **more: float) -> Hardware:
    """Buffers of two packets, whose credits come back just too late for the full rate."""
    return Hardware(buffer_bytes=2 * _PACKET, credit_latency_ns=nanoseconds, **more)  # type: ignore[arg-type]


#: Whose errors are told by number of edges, and that coefficients are fitted to.
TOLD = (
    Variant("default"),
    Variant("credits 0.94 us late", _late(940.0)),
    Variant("turns of 64 KiB", Hardware(quantum_bytes=1 << 16)),
)
VARIANTS = (
    *TOLD,
    Variant("turns of 8 KiB", Hardware(quantum_bytes=1 << 13)),
    Variant("turns of 32 KiB", Hardware(quantum_bytes=1 << 15)),
    Variant("the same, speed-up 1", Hardware(speedup=1, quantum_bytes=1 << 15)),
    Variant("one queue pair, in order", Hardware(queue_pairs="host")),
    Variant("speed-up 1", Hardware(speedup=1)),
    Variant("virtual output queues", Hardware(queues="voq")),
    Variant("the same, 256 KiB buffers", Hardware(queues="voq", buffer_bytes=1 << 18)),
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
    "variant": Column(pl.String, "", "hardware and protocol"),
    "alone_gbps": Column(pl.Float64, "Gb/s", "payload of one communication alone over its time"),
    "mean_error": Column(pl.Float64, "%", "mean of the absolute errors of all predicted times"),
    "p95_error": Column(pl.Float64, "%", "95 % of them are smaller"),
    "max_error": Column(pl.Float64, "%", "the largest"),
    "bias": Column(pl.Float64, "%", "mean of the errors with their signs; above 0: predicted late"),
    "maxmin_mean": Column(pl.Float64, "%", "mean absolute error of max-min fairness instead"),
    "maxmin_max": Column(pl.Float64, "%", "largest absolute error of that"),
}
PACKET_ERROR_COLUMNS: Mapping[str, Column] = {
    "variant": VARIANT_COLUMNS["variant"],
    **ERROR_COLUMNS,
}
PACKET_MEASURED_COLUMNS: Mapping[str, Column] = {
    "figure": Column(pl.String, "", "figure of the paper"),
    "edge": Column(pl.String, "", "communication"),
    "measured": Column(pl.Float64, "T_ref", "time that the paper measured on its cluster"),
    "model": Column(pl.Float64, "T_ref", "time that its model predicts"),
    "variant": VARIANT_COLUMNS["variant"],
    "packets": Column(pl.Float64, "T_ref", "time at the packet level"),
    "error": Column(pl.Float64, "%", "of that, against the measured time"),
}
PACKET_FIT_COLUMNS: Mapping[str, Column] = {
    "variant": VARIANT_COLUMNS["variant"],
    "coefficient": Column(pl.String, "", "coefficient of the model"),
    "value": Column(pl.Float64, "", "fitted to all graphs of few communications"),
    "deviation": Column(pl.Float64, "", "its standard error"),
    "infiniband": Column(pl.Float64, "", "the paper's"),
}
PACKET_FITTED_COLUMNS: Mapping[str, Column] = {
    "variant": VARIANT_COLUMNS["variant"],
    "graphs": Column(pl.String, "", "which: those fitted to, or the random ones"),
    "paper_mean": Column(pl.Float64, "%", "mean absolute error with the paper's coefficients"),
    "paper_max": Column(pl.Float64, "%", "the largest"),
    "fitted_mean": Column(pl.Float64, "%", "mean absolute error with the fitted ones"),
    "fitted_max": Column(pl.Float64, "%", "the largest"),
}


@dataclass(frozen=True, eq=False)
class PacketComparison:
    """The model's errors against the packet level.

    Parameters
    ----------
    graphs
        How many random graphs.
    variants
        One row a variant; see `VARIANT_COLUMNS`.
    errors
        Of `TOLD`, by number of edges; see `PACKET_ERROR_COLUMNS`.
    measured
        The paper's measured times beside those of `TOLD`; see `PACKET_MEASURED_COLUMNS`.
    coefficients, fitted
        What was fitted, and the errors that remain; see `PACKET_FIT_COLUMNS` and
        `PACKET_FITTED_COLUMNS`.
    """

    graphs: int
    variants: pl.DataFrame
    errors: pl.DataFrame
    measured: pl.DataFrame
    coefficients: pl.DataFrame
    fitted: pl.DataFrame

    @property
    def partial(self) -> str:
        """How many variants there are of how many, where an interrupt came; else empty."""
        made = self.variants.height
        return f"{made} of {len(VARIANTS)} variants" if made < len(VARIANTS) else ""

    def tables(self) -> dict[str, tuple[pl.DataFrame, Mapping[str, Column]]]:
        """The tables by the names of their files, with what their columns mean."""
        return {
            "packet_variants": (self.variants, VARIANT_COLUMNS),
            "packet_errors": (self.errors, PACKET_ERROR_COLUMNS),
            "packet_measured": (self.measured, PACKET_MEASURED_COLUMNS),
            "packet_coefficients": (self.coefficients, PACKET_FIT_COLUMNS),
            "packet_fitted": (self.fitted, PACKET_FITTED_COLUMNS),
        }


def one_switch(nodes: int, lanes: int = 1) -> tuple[Fabric, Routes]:
    """Hosts at one switch; destinations have the lanes by turns."""
    fabric = build(f"xgft:1;{nodes};1,rate={RATE_GBPS:g}")
    routes = routing.route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    levels = np.arange(fabric.num_destinations) % lanes
    return fabric, replace(
        routes, sl=levels.astype(np.uint8), lanes=VirtualLanes.uniform(range(lanes))
    )


def processes(graph: Graph, size_bytes: int, start_ns: NDArray[np.float64]) -> Workload:
    """Every communication from a process of its own to another, the sender's the even ranks."""
    edges = len(graph[0])
    builder = WorkloadBuilder(2 * edges)
    for edge in range(edges):
        if start_ns[edge]:
            builder.calc(2 * edge, float(start_ns[edge]))
        builder.send(2 * edge, 2 * edge + 1, size_bytes)
        builder.recv(2 * edge + 1, 2 * edge, size_bytes)
    return builder.build()


def packet_times(
    graph: Graph,
    size_bytes: int,
    variant: Variant,
    fabric: Fabric,
    routes: Routes,
    watch: Watch = lambda _: None,
) -> NDArray[np.float64]:
    """float64 [edges]: seconds from each communication's start to its arrival.

    Starts depend on the graph and not on the rest of the variant. What `watch` raises, which is
    called now and then, ends the run.
    """
    edges = len(graph[0])
    random = np.random.default_rng([edges, *graph[0], *graph[1]])
    start_ns = np.round(random.random(edges) * variant.start_ns, 3)
    placement = np.ravel(np.stack(graph, 1))
    result = simulate(
        fabric, routes, processes(graph, size_bytes, start_ns), placement,
        hardware=variant.hardware, eager_bytes=size_bytes if variant.eager else 0, progress=watch,
        level="packet",
    )  # fmt: skip
    if not result.complete:
        raise KeyboardInterrupt  # nothing else ends a run early
    arrived: NDArray[np.float64] = result.arrived_ns[result.workload.messages]
    return (arrived - start_ns) * 1e-9


def measure(
    graphs: Sequence[Graph],
    variant: Variant,
    nodes: int,
    size_bytes: int = SIZE_BYTES,
    watch: Watch = lambda _: None,
) -> tuple[list[Measurement], float]:
    """Times of graphs, and of a byte of one communication alone, s.

    Parameters
    ----------
    graphs
        Between nodes 0 to `nodes` - 1.
    variant
        On what.
    nodes
        Hosts of the switch.
    size_bytes
        Of every message.
    watch
        As of `packet_times`.
    """
    fabric, routes = one_switch(nodes, variant.lanes)

    def times(graph: Graph) -> NDArray[np.float64]:
        return packet_times(graph, size_bytes, variant, fabric, routes, watch)

    measured = [
        Measurement(
            " ".join(f"{a}->{b}" for a, b in zip(*graph, strict=True)) + f" ({number})",
            np.array(graph[0]), np.array(graph[1]),
            np.full(len(graph[0]), size_bytes), times(graph),
        )
        for number, graph in enumerate(graphs)
    ]  # fmt: skip
    return measured, float(times(([0], [1]))[0]) / size_bytes


def maxmin_times(graphs: Sequence[Graph], nodes: int) -> NDArray[np.float64]:
    """float64 [edges of all graphs]: times by max-min fairness over that of one alone."""
    fabric, routes = one_switch(nodes)
    found = []
    for graph in graphs:
        placement = np.ravel(np.stack(graph, 1))
        work = processes(graph, SIZE_BYTES, np.zeros(len(graph[0])))
        result = simulate(
            fabric, routes, work, placement, latency_ns=0.0, switch_latency_ns=0.0, eager_bytes=0
        )
        found.append(result.arrived_ns[work.messages] / (8 * SIZE_BYTES / RATE_GBPS))
    return np.concatenate(found)


def _variant_row(
    variant: Variant, measured: list[Measurement], alpha: float, maxmin: NDArray[np.float64]
) -> list[object]:
    table = errors_by_edge(measured, INFINIBAND, alpha)
    error = table["error"].to_numpy()
    beside = 100 * (maxmin * alpha * SIZE_BYTES / table["measured_s"].to_numpy() - 1)
    size = np.abs(error)
    return [
        variant.name, 8e-9 / alpha, size.mean(), np.percentile(size, 95), size.max(), error.mean(),
        np.abs(beside).mean(), np.abs(beside).max(),
    ]  # fmt: skip


def calibrated(
    variant: Variant, nodes: int, watch: Watch = lambda _: None
) -> tuple[Calibration, list[Measurement], float]:
    """The coefficients that fit all graphs of up to `FIT_EDGES` edges best.

    The time of a byte stays that of one communication alone.
    """
    shapes: list[Graph] = [
        ([a for a, _ in shape], [b for _, b in shape]) for shape in all_shapes(FIT_EDGES)
    ]
    measured, alpha = measure(shapes, variant, nodes, watch=watch)
    return fit(measured, fit_bandwidth=False), measured, alpha


def _mean_and_max(
    measured: list[Measurement], model: PenaltyModel, alpha: float
) -> tuple[float, float]:
    error = np.abs(errors_by_edge(measured, model, alpha)["error"].to_numpy())
    return float(error.mean()), float(error.max())


def _measured_rows(
    figure_4: Mapping[str, Graph], variant: Variant, watch: Watch
) -> list[list[object]]:
    """The paper's measured times beside the packet level's."""
    rows: list[list[object]] = []
    for name, graph in figure_4.items():
        nodes = max(max(each) for each in graph) + 1
        (found,), alpha = measure([graph], variant, nodes, MEASURED_BYTES, watch)
        ours = found.time_s / (alpha * MEASURED_BYTES)
        model = predict(*graph, 1.0, 0.0, 1.0)
        for edge, seconds in enumerate(MEASURED_4[name]):
            measured, packets = seconds / MEASURED_ALONE, float(ours[edge])
            rows.append(
                [
                    f"4 {name}", "abcde"[edge], measured, float(model[edge]), variant.name,
                    packets, 100 * (packets / measured - 1),
                ]
            )  # fmt: skip
    return rows


def compare(
    graphs: Sequence[Graph],
    nodes: int,
    figure_4: Mapping[str, Graph],
) -> PacketComparison:
    """The model's errors on random graphs over all `VARIANTS`, and fits to those `TOLD`.

    A KeyboardInterrupt ends it with the variants that were done by then.

    Parameters
    ----------
    graphs
        Between nodes 0 to `nodes` - 1.
    nodes
        Hosts of the switch, and what the graphs to fit to need.
    figure_4
        The paper's graphs of which `MEASURED_4` has the times.
    """
    nodes = max(nodes, FIT_EDGES + 1)
    shared = _Shared(graphs, nodes, figure_4, maxmin_times(graphs, nodes))
    found = [each for each in run_all(_compared, shared, VARIANTS, 1)[0] if each is not None]
    told = [more for _, more in found if more is not None]
    return PacketComparison(
        len(graphs),
        _table(VARIANT_COLUMNS, [row for row, _ in found]),
        pl.concat([_table(PACKET_ERROR_COLUMNS, []), *(each.errors for each in told)]),
        _table(PACKET_MEASURED_COLUMNS, [row for each in told for row in each.beside]),
        _table(PACKET_FIT_COLUMNS, [row for each in told for row in each.coefficients]),
        _table(PACKET_FITTED_COLUMNS, [row for each in told for row in each.fitted]),
    )


class _Shared(NamedTuple):
    """What `compare` is given, and the times by max-min fairness."""

    graphs: Sequence[Graph]
    nodes: int
    figure_4: Mapping[str, Graph]
    maxmin: NDArray[np.float64]


class _Told(NamedTuple):
    """What is told of a variant in `TOLD`: rows of each table but the first."""

    errors: pl.DataFrame
    beside: list[list[object]]
    coefficients: list[list[object]]
    fitted: list[list[object]]


def _compared(shared: _Shared, variant: Variant, watch: Watch) -> tuple[list[object], _Told | None]:
    """Row of a variant, and what else is told of it."""
    measured, alpha = measure(shared.graphs, variant, shared.nodes, watch=watch)
    row = _variant_row(variant, measured, alpha, shared.maxmin)
    if variant not in TOLD:
        return row, None
    by_size = errors_by_size(measured, INFINIBAND, alpha)
    found, small, small_alpha = calibrated(variant, shared.nodes, watch)
    coefficients: list[list[object]] = [
        [
            variant.name, name, getattr(found.model, name), found.uncertainty[name],
            getattr(INFINIBAND, name),
        ]
        for name in COEFFICIENTS
    ]  # fmt: skip
    fitted: list[list[object]] = [
        [
            variant.name, which, *_mean_and_max(cases, INFINIBAND, per_byte),
            *_mean_and_max(cases, found.model, per_byte),
        ]
        for which, cases, per_byte in (
            (f"all of up to {FIT_EDGES}", small, small_alpha),
            ("random", measured, alpha),
        )
    ]  # fmt: skip
    return row, _Told(
        by_size.select(pl.lit(variant.name).alias("variant"), pl.all()),
        _measured_rows(shared.figure_4, variant, watch),
        coefficients,
        fitted,
    )


def _table(columns: Mapping[str, Column], rows: list[list[object]]) -> pl.DataFrame:
    return frame(columns, {name: [row[at] for row in rows] for at, name in enumerate(columns)})
