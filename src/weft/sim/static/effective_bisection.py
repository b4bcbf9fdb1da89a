"""Effective bisection bandwidth, as Netgauge's ebb measures it and ORCS computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # Student's t; scipy.stats takes long to import

from weft.core.arguments import flag, need_memory, whole_number
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routes.effective_bisection import (
    drawn_ways,
    least_loaded_ways,
    mean_shares,
    random_pairs,
)
from weft.kernels.routes.route_links import table_routes
from weft.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.sim.static.loads import endpoint_out, host_rate_gbps, source_links, walk_arrays

#: Flows whose links are listed at once.
_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class Bisection:
    """Effective bisection bandwidth over random bisections.

    Parameters
    ----------
    per_sample
        float64 [samples]: mean share of the injection rate over the flows of each bisection.
    injection_rate_gbps
        What a share of 1 stands for: the data rate of the fastest host cable.
    unrouted_share
        Share of the flows without a path; they count with rate 0.
    two_way
        Both halves sent.
    """

    per_sample: NDArray[np.float64]
    injection_rate_gbps: float
    unrouted_share: float
    two_way: bool

    @property
    def samples(self) -> int:
        """Random bisections drawn."""
        return len(self.per_sample)

    @property
    def mean(self) -> float:
        """Mean share of the injection rate that a host gets."""
        return float(self.per_sample.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean (Student's t over samples)."""
        if self.samples < 2:
            return (float("nan"), float("nan"))
        error = float(self.per_sample.std(ddof=1)) / np.sqrt(self.samples)
        half = float(stdtrit(self.samples - 1, 0.975)) * error
        return (self.mean - half, self.mean + half)

    @property
    def mean_gbps(self) -> float:
        """Mean rate of a flow in Gb/s."""
        return self.mean * self.injection_rate_gbps

    def __float__(self) -> float:
        return self.mean

    def __repr__(self) -> str:
        low, high = self.interval
        found = f"{self.mean:.4f} of {self.injection_rate_gbps:g} Gb/s"
        if self.samples == 1:  # which has no interval
            return f"Bisection({found}, 1 sample)"
        return f"Bisection({found}, 95 % interval {low:.4f} to {high:.4f}, {self.samples} samples)"


def bisection(
    fabric: Fabric,
    routes: Routes,
    samples: int = 1000,
    seed: int = 0,
    *,
    two_way: bool = False,
) -> Bisection:
    """Effective bisection bandwidth.

    A random half of the hosts sends to the other half, one flow to a partner each; an odd host
    idles. A flow gets the least, over the links of its path, of the link's rate divided by the
    flows on it. Candidates are taken at random at every hop, as an ideal hash would, and so is an
    intermediate. A flow that may go straight as well takes the way whose most loaded link would
    carry less: one flow after the other, and once more when all are there.

    Parameters
    ----------
    fabric, routes
        What to measure.
    samples
        Random bisections.
    seed
        Equal seeds give equal bisections, for every engine.
    two_way
        The other half sends back at the same time.

    Returns
    -------
    Bisection
        Mean, interval and every sample.

    Raises
    ------
    InputError
        With fewer than two hosts, or samples below 1.

    Notes
    -----
    Hoefler, Schneider, Lumsdaine: Multistage switches are not crossbars, 2008 (ORCS, Netgauge).
    """
    routes.check(fabric)
    samples = whole_number(samples, "samples", 1)
    seed = whole_number(seed, "seed")
    two_way = flag(two_way, "two_way")
    if fabric.num_hosts < 2:
        raise InputError(f"a bisection needs two hosts; {fabric.name} has {fabric.num_hosts}")
    rate = host_rate_gbps(fabric)
    cost = rate / fabric.link_rate_gbps
    need_memory(16 * samples, f"the results of {samples:,} samples", "ask for fewer")
    means = np.empty(samples)
    lost = 0
    loads = np.zeros(fabric.num_links, dtype=np.int32)
    flows = (fabric.num_hosts // 2) * (2 if two_way else 1)
    at_once = 1 if isinstance(routes, CandidateRoutes) else -(-_AT_ONCE // flows)
    order = np.empty(fabric.num_hosts, dtype=np.int64)
    for first in range(0, samples, at_once):
        part = means[first : first + at_once]
        ends = np.empty((2, len(part), flows), dtype=np.int32)
        random_pairs(seed, first, fabric.host_endpoint, order, *ends)
        offset, links = _links(
            fabric, routes, ends[0].ravel(), ends[1].ravel(), flows, cost, loads, seed, first
        )
        mean_shares(offset, links, cost, loads, part)
        lost += int(np.count_nonzero(offset[1:] == offset[:-1]))
    return Bisection(means, rate, lost / (samples * flows), two_way)


def _links(
    fabric: Fabric,
    routes: Routes,
    sources: NDArray[np.int32],
    destinations: NDArray[np.int32],
    flows: int,
    cost: NDArray[np.float64],
    loads: NDArray[np.int32],
    seed: int,
    sample: int,
) -> Any:
    """Offsets of flows, so many a sample, and the links of each; with candidates of one sample."""
    graph = fabric.graph
    if isinstance(routes, TableRoutes):
        lids = np.zeros(0, dtype=np.int32)
        if routes.lmc:
            turn = np.arange(len(sources)) % flows % (1 << routes.lmc)
            lids = ((destinations << routes.lmc) + turn).astype(np.int32)
        return table_routes(*walk_arrays(fabric, routes), sources, destinations, lids)
    if isinstance(routes, PathRoutes):
        return source_links(fabric, routes, sources, destinations)
    if not isinstance(routes, CandidateRoutes):
        raise NotApplicable(f"{routes.engine} gives no ways to load links by")
    offset, links, other_offset, others = drawn_ways(
        routes.set_id, routes.set_offset, routes.set_edge, routes.via, routes.via_set,
        routes.direct, graph.edge_row, graph.edge_link, graph.destination_row,
        graph.destination_link, endpoint_out(fabric), seed, sample, sources, destinations,
    )  # fmt: skip
    if not routes.num_intermediates:
        return offset, links
    return least_loaded_ways(offset, links, other_offset, others, cost, loads)
