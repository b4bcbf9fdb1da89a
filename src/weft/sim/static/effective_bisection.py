"""Effective bisection bandwidth, as measured by Netgauge's ebb and computed by ORCS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import flag, need_memory, whole_number
from weft.core.errors import InputError
from weft.core.html import facts_table
from weft.core.student import student_t
from weft.fabrics import Fabric
from weft.kernels.routes.effective_bisection import draw_bisections, mean_shares
from weft.routing.routes import CandidateRoutes, Routes
from weft.routing.routes.flows import EndpointFlows

#: Number of flows whose links are listed at a time, so that the lists stay in cache.
_AT_ONCE = 2**11


@dataclass(frozen=True, eq=False)
class Bisection:
    """Effective bisection bandwidth over random bisections.

    Parameters
    ----------
    per_sample
        float64 [samples]: mean share of the injection rate over the flows of each bisection.
    injection_rate_gbps
        Rate that corresponds to a share of 1: the data rate of the fastest host cable.
    unrouted_share
        Share of the flows that have no path; their rate counts as 0.
    two_way
        Whether both halves sent.
    """

    per_sample: NDArray[np.float64]
    injection_rate_gbps: float
    unrouted_share: float
    two_way: bool

    @property
    def samples(self) -> int:
        """Number of random bisections."""
        return len(self.per_sample)

    @property
    def mean(self) -> float:
        """Mean share of the injection rate of a host."""
        return float(self.per_sample.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean (Student's t over samples)."""
        if self.samples < 2:
            return (float("nan"), float("nan"))
        error = float(self.per_sample.std(ddof=1)) / np.sqrt(self.samples)
        half = student_t(self.samples - 1) * error
        return (self.mean - half, self.mean + half)

    @property
    def mean_gbps(self) -> float:
        """Mean rate of a flow in Gb/s."""
        return self.mean * self.injection_rate_gbps

    def __float__(self) -> float:
        return self.mean

    def _repr_html_(self) -> str:
        return facts_table("Bisection bandwidth", {"mean": self.mean, "samples": self.samples})

    def __repr__(self) -> str:
        low, high = self.interval
        mean = f"{self.mean:.4f} of {self.injection_rate_gbps:g} Gb/s"
        if self.samples == 1:  # no interval
            return f"Bisection({mean}, 1 sample)"
        return f"Bisection({mean}, 95 % interval {low:.4f} to {high:.4f}, {self.samples} samples)"


def bisection(
    fabric: Fabric,
    routes: Routes,
    samples: int = 1000,
    seed: int = 0,
    *,
    two_way: bool = False,
) -> Bisection:
    """Return the effective bisection bandwidth.

    A random half of the hosts sends to the other half, one flow from each host; if the number of
    hosts is odd, one host is idle. The rate of a flow is the minimum, over the links of its path,
    of the link's rate divided by its number of flows. Candidates and intermediates are drawn at
    random, as by an ideal hash; candidates with a static fallback, among which switches choose for
    each packet, share each flow equally at every hop. If a flow has a choice between the minimal
    path and an intermediate, it takes the path whose most loaded link has the smaller load. Flows
    choose one after the other, and each flow chooses once more after all have chosen.

    Parameters
    ----------
    fabric, routes
        The fabric and its routes.
    samples
        Number of random bisections.
    seed
        Seed of the bisections, which are the same for all engines.
    two_way
        Whether the other half sends back at the same time.

    Returns
    -------
    Bisection
        Mean, interval and every sample.

    Raises
    ------
    InputError
        If there are fewer than two hosts, or fewer than 1 sample.

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
    rate = fabric.host_rate_gbps
    cost = rate / fabric.link_rate_gbps
    need_memory(16 * samples, f"the results of {samples:,} samples", "ask for fewer")
    means = np.empty(samples)
    flows = fabric.num_hosts // 2 * (2 if two_way else 1)
    unrouted = 0
    at_once = max(_AT_ONCE // flows, 1)
    for first in range(0, samples, at_once):
        part = means[first : first + at_once]
        shape = (len(part), flows)
        sources, destinations = np.empty((2, *shape), dtype=np.int32)
        states = np.empty(shape, dtype=np.uint64)
        draw_bisections(fabric.host_endpoint, seed, first, sources, destinations, states)
        lids = np.zeros(0, dtype=np.int32)
        if routes.lmc:
            lid_offset = np.arange(flows, dtype=np.int32) % (1 << routes.lmc)
            lids = ((destinations << routes.lmc) + lid_offset).reshape(-1)
        ends = EndpointFlows(
            sources.reshape(-1), destinations.reshape(-1), lids,
            np.arange(sources.size, dtype=np.int32), np.zeros(0),
        )  # fmt: skip
        if isinstance(routes, CandidateRoutes) and routes.spread:
            for one in range(len(part)):
                flow = np.arange(one * flows, (one + 1) * flows)
                shares, lost = routes.split_shares(fabric, ends.part(flow), cost)
                part[one] = shares.mean()
                unrouted += lost
            continue
        offset, link, about_offset, about = routes.drawn_links(fabric, ends, states.reshape(-1))
        mean_shares(offset, link, about_offset, about, cost, flows, part)
        routed = np.diff(offset) > 0
        unrouted += int((~(routed | (np.diff(about_offset) > 0)) if len(about) else ~routed).sum())
    return Bisection(means, rate, unrouted / (samples * flows), two_way)
