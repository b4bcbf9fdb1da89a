"""Traffic between hosts in Gb/s: what jobs with a given exchange would send, and its loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.routing.routes.flows import endpoint_out
from weft.sim.static.loads import Loads, flow_loads, host_flows
from weft.workload import load_workload, traffic


@dataclass(frozen=True, eq=False)
class PairTraffic:
    """Rates between hosts."""

    #: int64 [pairs]: sending and receiving host of each pair.
    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    #: float64 [pairs]: rate of each pair, in Gb/s.
    gbps: NDArray[np.float64]

    def loads(self, fabric: Fabric, routes: Routes) -> Loads:
        """Return the rate of each link, float64 [links] in Gb/s, and the pairs without a path."""
        flows = host_flows(
            fabric, self.sources, self.destinations, weights=self.gbps, lmc=routes.lmc
        )
        return flow_loads(fabric, routes, flows)

    def moved(self, to: Mapping[int, int]) -> PairTraffic:
        """Return the traffic after hosts have taken the places of others."""
        last = max(self.sources.max(initial=0), self.destinations.max(initial=0), *to)
        place = np.arange(last + 1)
        place[list(to)] = list(to.values())
        return PairTraffic(place[self.sources], place[self.destinations], self.gbps)


def injection(fabric: Fabric, link_gbps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what each host sends over its first port, float64 [hosts] in Gb/s, NaN if unknown.

    `link_gbps`, float64 [links]: rates of the links, NaN where unknown.
    """
    endpoint = fabric.host_endpoint
    link = np.where(endpoint >= 0, endpoint_out(fabric)[np.maximum(endpoint, 0)], -1)
    return np.where(link >= 0, link_gbps[np.maximum(link, 0)], np.nan)


def expected_traffic(
    fabric: Fabric,
    groups: Mapping[str, NDArray[np.int64]],
    sent_gbps: NDArray[np.float64],
    *,
    pattern: str = "all-to-all",
    workload: str = "",
) -> tuple[PairTraffic, list[str]]:
    """Return what groups of hosts exchange if each runs a pattern or workload.

    Each host sends what was measured, divided among its destinations in proportion to the flows of
    the pattern, or to the bytes of the workload.

    Parameters
    ----------
    fabric
        The fabric.
    groups
        Name of each group, such as a job, and its hosts. Rank ``r`` is on the ``r``-th of them.
    sent_gbps
        float64 [hosts]: what each host sends, from `injection`; NaN hosts are left out.
    pattern
        Spec of a traffic pattern.
    workload
        File or spec of a workload with a rank for each host, instead of the pattern.

    Returns
    -------
    The traffic and, in words, the groups that were left out because the pattern does not fit them.
    """
    ends: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    left: list[str] = []
    for name, hosts in groups.items():
        if len(np.unique(fabric.machine_of_host[hosts])) < 2:
            continue
        try:
            source, target, weight = _exchanged(len(hosts), pattern, workload)
        except NotApplicable as reason:
            left.append(f"{name}: {reason}")
            continue
        source, target = hosts[source], hosts[target]
        sends = fabric.apart(source, target) & (sent_gbps[source] > 0)
        ends.append((source[sends], target[sends], weight[sends]))
    if not ends:
        none = np.zeros(0, dtype=np.int64)
        return PairTraffic(none, none, np.zeros(0)), left
    source, target, weight = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    total = np.bincount(source, weight, minlength=fabric.num_hosts)
    gbps = weight * sent_gbps[source] / total[source]
    return PairTraffic(source, target, gbps), left


def _exchanged(
    count: int, pattern: str, workload: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the pairs of ranks that exchange data, and how much, in any unit."""
    if not workload:
        pairs = traffic(count, pattern)
        return pairs.sources, pairs.destinations, np.ones(len(pairs))
    made = load_workload(workload, count)
    if made.num_ranks != count:
        raise InputError(f"{workload} has {made.num_ranks:,} ranks; expected {count:,}, one a host")
    sends = made.messages
    size = made.size_bytes[sends].astype(np.float64)
    if not size.any():
        raise NotApplicable(f"{workload} sends no data between {count:,} ranks")
    keys = made.rank[sends].astype(np.int64) * count + made.peer[sends]
    pair, number = np.unique(keys, return_inverse=True)
    weight = np.bincount(number, size).astype(np.float64)
    return pair // count, pair % count, weight
