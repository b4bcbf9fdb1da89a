"""Comparison of long flows at the flow level (max-min fairness) and at the packet level.

Sizes are proportional to the max-min rates, so that at the flow level all flows end at the same
time and rates never change. The deviation of a flow is its completion time at the packet level
divided by its completion time at the flow level, minus 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

import weft
from weft import Hardware
from weft.fabrics import Fabric
from weft.kernels.flow.maxmin import maxmin_add, maxmin_solve
from weft.routing.routes import Routes, TableRoutes, VirtualLanes
from weft.sim.flow.network import lay_routes
from weft.sim.flow.sharing import maxmin_state
from weft.workload import WorkloadBuilder

#: Fabrics and engines whose routes have no credit loop on one lane, which all flows share.
FABRICS = {
    "xgft:1;12;1,rate=32": "minhop",
    "xgft:2;6,6;1,6,rate=32": "dmodk",
    "xgft:2;6,6;1,3,rate=32": "dmodk",
    "xgft:2;8,4;1,2,rate=32": "updn",
    "xgft:3;3,3,3;1,2,2,rate=32": "updn",
    "mesh:4,4,rate=32": "dor",
    "hyperx:4,4,rate=32": "dor",
    "dragonfly:p=2,a=4,h=1,rate=32": "updn:roots=center",
    "jellyfish:12,degree=4,hosts=2,rate=32": "updn:roots=center",
    "kns:k=4,n=2,rate=32": "hdor",
}
PATTERNS = ("permutation", "shift", "two permutations", "uniform", "incast", "a few")
#: Size of the fastest flow.
SIZE_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Flows:
    """Flows between hosts, by ascending source, with their paths and max-min rates.

    Parameters
    ----------
    fabric, routes
        Fabric and routes of the flows.
    source, destination
        Hosts, int64 [flows].
    paths
        Path of each flow: its directed links.
    rate
        float64 [flows]: max-min rate in bytes/ns.
    """

    fabric: Fabric
    routes: Routes
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    paths: list[list[int]]
    rate: NDArray[np.float64]

    @classmethod
    def of(
        cls, fabric: Fabric, routes: Routes, source: NDArray[np.int64],
        destination: NDArray[np.int64],
    ) -> Flows:  # fmt: skip
        """Return the flows between pairs of hosts, with their paths and rates."""
        network = lay_routes(fabric, routes, source, destination)
        links = (
            network.capacity_bytes_per_ns,
            network.route_offset,
            network.route_link,
            network.route_share,
        )
        count = network.num_routes
        state = maxmin_state(*links, count)
        for flow in range(count):
            maxmin_add(state, flow, flow)
        rate = np.zeros(count)
        maxmin_solve(state, rate, np.zeros(count, dtype=np.int32), 0.0)
        offset = network.route_offset.tolist()
        link = network.route_link.tolist()
        paths = [link[begin:end] for begin, end in pairwise(offset)]
        return cls(fabric, routes, source, destination, paths, rate)

    def inputs(self) -> dict[int, dict[int, list[int]]]:
        """Return link -> previous link -> flows; a flow's first link follows -1 - flow."""
        by_link: dict[int, dict[int, list[int]]] = {}
        for flow, path in enumerate(self.paths):
            for before, link in pairwise([-1 - flow, *path]):
                by_link.setdefault(link, {}).setdefault(before, []).append(flow)
        return by_link

    def has_equal_inputs(self) -> bool:
        """Check that every link has the same number of flows from each of its inputs."""
        return all(len({len(each) for each in by.values()}) == 1 for by in self.inputs().values())

    def has_equal_rates(self) -> bool:
        """Check that all flows of a link have the same max-min rate."""
        for by in self.inputs().values():
            rates = self.rate[[flow for each in by.values() for flow in each]]
            if np.ptp(rates) > 1e-9 * rates.max():
                return False
        return True

    def most_at_a_link(self) -> int:
        """Return the largest number of flows of a link."""
        return max(sum(len(each) for each in by.values()) for by in self.inputs().values())

    def with_equal_inputs(self, random: np.random.Generator) -> Flows:
        """Remove random flows until every link has equal inputs; return the rest."""
        flows = self
        while True:
            unequal = [
                by for by in flows.inputs().values() if len({len(each) for each in by.values()}) > 1
            ]
            if not unequal:
                return flows
            removed = int(random.choice(max(unequal[0].values(), key=len)))
            keep = np.arange(len(flows.source)) != removed
            flows = Flows.of(self.fabric, self.routes, flows.source[keep], flows.destination[keep])


def draw_pairs(
    pattern: str, hosts: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw distinct pairs of different hosts, by ascending source."""
    every = np.arange(hosts)
    source, destination = every, random.permutation(hosts)
    if pattern == "shift":
        destination = (every + random.integers(1, hosts)) % hosts
    elif pattern == "two permutations":
        source = np.tile(every, 2)
        destination = np.concatenate([destination, random.permutation(hosts)])
    elif pattern == "uniform":
        source, destination = random.integers(hosts, size=(2, hosts))
    elif pattern == "incast":
        roots = random.choice(hosts, size=max(hosts // 5, 1), replace=False)
        destination = random.choice(roots, size=hosts)
    elif pattern == "a few":
        source = random.permutation(hosts)[: max(hosts // 3, 2)]
        destination = destination[: len(source)]
    pairs = np.unique(np.stack([source, destination], 1), axis=0).astype(np.int64)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return pairs[:, 0], pairs[:, 1]


def draw_flows(spec: str, pattern: str, seed: int) -> Flows:
    """Draw the flows of a pattern over one of `FABRICS`."""
    fabric = weft.fabric(spec)
    random = np.random.default_rng([seed, PATTERNS.index(pattern), fabric.num_hosts])
    return Flows.of(
        fabric, weft.route(fabric, FABRICS[spec]), *draw_pairs(pattern, fabric.num_hosts, random)
    )


def on_own_lanes(flows: Flows, most: int = 15) -> Flows:
    """Return up to `most` of the flows, each on a lane of its own.

    A service level belongs to a first switch and a destination, so only one flow per pair is kept.
    """
    routes, fabric = flows.routes, flows.fabric
    assert isinstance(routes, TableRoutes)
    row = [int(fabric.graph.node_row[fabric.link_to[path[0]]]) for path in flows.paths]
    ends = zip(row, flows.destination.tolist(), strict=True)
    first = {each: flow for flow, each in reversed(list(enumerate(ends)))}
    keep = np.array(sorted(first.values())[:most])
    levels = np.zeros((fabric.graph.num_rows, fabric.num_destinations), dtype=np.uint8)
    for lane, flow in enumerate(keep):
        levels[row[flow], flows.destination[flow]] = lane
    separated = replace(routes, sl=levels, lanes=VirtualLanes.uniform(range(len(keep))))
    return Flows.of(fabric, separated, flows.source[keep], flows.destination[keep])


def deviations(
    flows: Flows, hardware: Hardware, size_bytes: int = SIZE_BYTES
) -> NDArray[np.float64]:
    """Return the time of each flow at the packet level divided by the flow level's, minus 1.

    Sizes at the flow level include headers. The result is float64 [flows].
    """
    payload = hardware.mtu_bytes
    packets = np.maximum(np.rint(flows.rate / flows.rate.max() * size_bytes / payload), 1)
    builder = WorkloadBuilder(flows.fabric.num_hosts)
    for source, target, count in zip(flows.source, flows.destination, packets, strict=True):
        builder.put(int(source), int(target), int(count) * payload)
    result = weft.simulate(
        flows.fabric, flows.routes, builder.build(), hardware=hardware, level="packet"
    )
    expected = packets * (payload + hardware.header_bytes) / flows.rate
    arrived = result.arrived_ns[result.workload.messages]
    deviation: NDArray[np.float64] = arrived / expected - 1
    return deviation
