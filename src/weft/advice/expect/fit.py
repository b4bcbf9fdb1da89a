"""Parameters of hosts from latencies and bandwidths between two of them: LogGP by parts of size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares

from weft.core.errors import InputError
from weft.core.student import student_t
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.common.host_parameters import HostParameters, Overhead
from weft.sim.flow.network import lay_routes
from weft.sim.options import RunSettings

Floats = NDArray[np.float64]
#: Messages under way at once where a log does not say it (osu_bw).
_WINDOW = 64
#: Relative error below which a figure is explained. Protocols have more steps than the model.
_CLOSE = 0.05
#: Decrease of the cost, in squares of `_CLOSE`, for which a further part of sizes is added.
_WORTH = 8.0
_MOST_PARTS = 6
#: Place of the latency that the first part of sizes adds to that of adapters: none.
_FIRST_LATENCY = 4
#: A threshold is determined if any other one costs more by this.
_SURE = 2.0


@dataclass(frozen=True, eq=False)
class Fit:
    """Estimated parameters, and how well they explain the figures."""

    parameters: HostParameters
    #: float64 [figures]: time of the model by that measured, in the order of `rows`.
    ratio: Floats
    rows: pl.DataFrame
    #: What the figures do not determine, in words.
    missing: tuple[str, ...]

    def text(self) -> list[str]:
        """Return what was estimated from what, how well, and what is not determined."""
        said = ["Parameters of hosts, estimated by weft expect --fit; intervals are of 95 %."]
        for operation in self.rows["operation"].unique(maintain_order=True):
            error = np.abs(self.ratio[(self.rows["operation"] == operation).to_numpy()] - 1)
            said.append(
                f"{operation}: {len(error)} figures; the model is within {np.median(error):.1%} of "
                f"half of them and within {np.quantile(error, 0.9):.1%} of 90 %."
            )
        return [*said, *(f"Not determined: {each}." for each in self.missing)]


class _Model:
    """Times of a ping-pong and of a window of messages, as at the flow level."""

    def __init__(self, rows: pl.DataFrame, path_ns: float, gbps: float, packet: Sequence[int]):
        self.size = rows["size_bytes"].to_numpy().astype(np.float64)
        self.is_latency = (rows["operation"] == "latency").to_numpy()
        self.window = rows["window"].fill_null(_WINDOW).to_numpy().astype(np.float64)
        self.answers = ~rows["program"].str.starts_with("ib_").to_numpy()
        time_ns = rows["time_ns"].cast(pl.Float64).to_numpy()
        rate = rows["gbps"].cast(pl.Float64).to_numpy()
        #: Time of a message: of the ping, or of each message of the window.
        self.measured = np.where(self.is_latency, time_ns, 8 * self.size / rate)
        self.path_ns, self.gbps = path_ns, gbps
        self.mtu, self.header = packet
        self.sizes = np.unique(self.size).astype(np.int64)

    def times(self, at: Floats, begins: Sequence[int], eager: float) -> Floats:
        """Return the time of each figure.

        `at`: latency of an adapter, its ns per byte, and of each part of the sizes, which begin at
        `begins`, the overhead, the overhead per byte, and the latency that it adds. `eager`:
        largest eager message.
        """
        latency, per_byte = at[0], max(at[1], 8 / self.gbps)
        ns, ns_per_byte, more = at[2:].reshape(-1, 3).T
        part = np.searchsorted(begins, self.size, side="right") - 1
        overhead = ns[part] + ns_per_byte[part] * self.size
        header = np.where(self.size <= self.mtu, self.header, 0)
        wire = per_byte * (self.size + header)
        way = self.path_ns + 2 * latency
        first = 2 * overhead + wire + np.where(self.size > eager, 3, 1) * way + more[part]
        answer = 2 * ns[0] + way + per_byte * self.header
        stream = np.maximum(overhead, wire)
        window = (self.window - 1) * stream + first + answer
        stream = np.where(self.answers, window / self.window, stream)
        times: Floats = np.where(self.is_latency, first, stream)
        return times

    def fitted(self, begins: Sequence[int], eager: float, start: Floats) -> OptimizeResult:
        """Return the best parameters of these parts by robust least squares of logarithms."""
        most = np.full(len(start), np.inf)
        most[_FIRST_LATENCY] = 1e-6
        return least_squares(
            lambda at: np.log(self.times(at, begins, eager) / self.measured) / _CLOSE,
            np.minimum(start, most / 2), bounds=(0.0, most), loss="soft_l1",
            x_scale=np.maximum(start, 1e-4),
        )  # fmt: skip


def fit(fabric: Fabric, routes: Routes, runs: pl.DataFrame, **options: Any) -> Fit:
    """Estimate parameters of hosts from latencies and bandwidths between pairs of machines.

    The model is LogGP (Alexandrov et al. 1995) with an overhead per byte (LogGOPS: Hoefler et al.
    2010) and, as in SMPI, an overhead by parts of sizes, since protocols change with the size.
    Parts are added while they explain more than the noise of protocols.

    Parameters
    ----------
    fabric, routes
        The fabric of the measurement and its routes: latency and rate of paths are theirs.
    runs
        Rows of `weft.measured.measurements.MEASUREMENT_COLUMNS`; those of one pair at a time count.
    **options
        Settings of the levels, of which `hardware` counts.

    Raises
    ------
    InputError
        If there are fewer than four latencies between two machines.
    """
    rows = runs.filter(
        pl.col("operation").is_in(["latency", "bandwidth"]) & (pl.col("pairs") == 1)
        & ((pl.col("size_bytes") > 0) | (pl.col("operation") == "latency"))
    )  # fmt: skip
    if len(rows.filter(operation="latency")) < 4:
        raise InputError("parameters of hosts need latencies of four sizes or more (osu_latency)")
    settings = RunSettings.at("flow", options)
    hardware = settings.hardware
    ends = np.arange(fabric.num_hosts)[:: max(fabric.num_hosts // 64, 1)]
    one, other = (each.ravel() for each in np.meshgrid(ends, ends))
    apart = fabric.apart(one, other)
    paths = lay_routes(
        fabric, routes, one[apart], other[apart],
        switch_latency_ns=settings.latency_of_switches_ns,
    )  # fmt: skip
    path_ns = float(np.median(paths.route_latency_ns))
    cable_gbps = 8 * float(np.median(paths.route_rate_bytes_per_ns))
    model = _Model(rows, path_ns, cable_gbps, (hardware.mtu_bytes, hardware.header_bytes))
    return _result(model, rows, *_searched(model), hardware.header_bytes / hardware.mtu_bytes)


def _searched(model: _Model) -> tuple[list[int], tuple[int, ...], OptimizeResult]:
    """Return where parts of sizes begin, the best eager thresholds, and the best parameters."""
    least = model.measured[model.is_latency].min()
    per_byte = max(
        (model.measured / np.maximum(model.size, 1))[~model.is_latency].min(initial=1),
        8 / model.gbps,
    )
    guess = np.array([max(least / 4, 1.0), per_byte, least / 4, 0.01, 0.0])

    def searched(begins: list[int], best: OptimizeResult) -> OptimizeResult:
        """Also search from where large messages take their time on the wire, not of processors."""
        start = best.x.copy()
        start[1], start[-2] = per_byte, 0.0
        return min(best, model.fitted(begins, np.inf, start), key=lambda each: each.cost)

    begins = [0]
    best = searched(begins, model.fitted(begins, np.inf, guess))
    while len(begins) < _MOST_PARTS:
        tried = []
        for size in model.sizes[2:-1].tolist():
            if size in begins:
                continue
            new = sorted([*begins, size])
            at = 2 + 3 * new.index(size)
            start = np.insert(best.x, at, best.x[at - 3 : at])
            tried.append((model.fitted(new, np.inf, start), new))
        further, new = min(tried, key=lambda each: each[0].cost)
        if best.cost - further.cost < _WORTH:
            break
        best, begins = searched(new, further), new
    thresholds = []
    for begin in begins[1:]:
        eager = int(model.sizes[model.sizes < begin].max())
        # What all-eager parts add as latency may be overhead of a rendezvous.
        other = best.x.copy()
        other[2::3] += other[_FIRST_LATENCY::3] / 2
        other[_FIRST_LATENCY::3] = 0.0
        fits = [model.fitted(begins, eager, start) for start in (best.x, other)]
        thresholds.append((min(fits, key=lambda each: each.cost), eager))
    if not thresholds:
        return begins, (), best
    best = min((each for each, _ in thresholds), key=lambda each: each.cost)
    likely = sorted(thresholds, key=lambda each: each[0].cost)
    sure = [eager for each, eager in likely if each.cost <= best.cost + _SURE]
    return begins, tuple(sure), best


def _result(
    model: _Model,
    rows: pl.DataFrame,
    begins: list[int],
    thresholds: tuple[int, ...],
    best: OptimizeResult,
    header_share: float,
) -> Fit:
    """Return the parameters with intervals, and what is not determined."""
    freedom = max(len(rows) - len(best.x), 1)
    # The curvature at the solution; residuals are as large as the model is wrong.
    scale = np.sqrt(2 * best.cost / freedom) * float(student_t(freedom))
    free = np.delete(np.arange(len(best.x)), _FIRST_LATENCY)
    best.x[best.x < 1e-9] = 0.0  # at its bound
    error = np.zeros(len(best.x))
    slope = best.jac[:, free]
    error[free] = np.sqrt(np.diag(np.linalg.pinv(slope.T @ slope))) * scale
    low, high = np.maximum(best.x - error, 0.0), best.x + error
    values: dict[str, Any] = {
        "adapter_latency_ns": best.x[0], "adapter_latency_ns_interval": (low[0], high[0])
    }  # fmt: skip
    missing = ["the injection gap: one pair of processes shows it as part of the overhead"]
    if (rows["operation"] == "latency").all():
        missing.append("overhead apart from latency: no bandwidths (osu_bw)")
    if best.x[1] > 8 / model.gbps:
        wire = 8 * (1 + header_share)  # settings of adapters count headers
        values["adapter_gbps"] = wire / best.x[1]
        values["adapter_gbps_interval"] = wire / high[1], wire / max(low[1], 8 / model.gbps)
    else:
        missing.append("the rate of adapters: it is not below that of their cables")
    if thresholds:
        above = model.sizes[model.sizes > max(thresholds)].min()
        values["eager_bytes"] = thresholds[0]
        values["eager_bytes_interval"] = min(thresholds), int(above) - 1
    else:
        values["eager_bytes"] = int(model.sizes[-1])
        missing.append("the eager threshold: no step, so all sizes are eager")
    tables = []
    for begin, at in zip(begins, range(2, len(best.x), 3), strict=True):
        table: dict[str, Any] = {"from_bytes": begin}
        for name, place in zip(("ns", "ns_per_byte", "latency_ns"), range(at, at + 3), strict=True):
            if place != _FIRST_LATENCY:
                table |= {name: best.x[place], f"{name}_interval": (low[place], high[place])}
        tables.append(Overhead(**table))
    eager = values["eager_bytes"]
    return Fit(
        HostParameters(**values, overhead=tuple(tables)),
        model.times(best.x, begins, eager) / model.measured, rows, tuple(missing),
    )  # fmt: skip
