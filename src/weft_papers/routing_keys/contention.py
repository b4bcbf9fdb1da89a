"""Figure 4: flows on the most loaded link of a folded Clos network, against its size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.kernels.keys.assignment import add_flows
from weft.sim.keys import RoutingKey, keys
from weft.sim.keys.choice import chosen_columns
from weft.sim.keys.network import KeyNetwork, key_network
from weft.sim.keys.routing_key import stages_used
from weft.study.runs.typed import typed_run

#: Share of hosts that send, and that receive; and mean number of flows of an application.
UTILIZATION, FLOWS = 0.6, 10
#: Number of leaf switches, of hosts per leaf switch and of middle switches, for each network.
RADIXES = (10, 20, 30, 50, 70, 100, 150, 200, 300, 400, 500)
#: Method -> choice and criterion of NRK; none for the others.
METHODS: dict[str, tuple[Any, Any] | None] = {
    "dmodk": None,
    "ark-lowest": None,
    "ark": None,
    "nrk": ("shift", "max"),
    "nrk-greedy": ("shift", "max"),
    "nrk-variance": ("shift", "variance"),
    "nrk-optimum": ("optimum", "max"),
    "nrk-optimum-variance": ("optimum", "variance"),
}


@dataclass(frozen=True)
class Size:
    """One fabric and seed of figure 4."""

    #: Number of leaf switches, of hosts per leaf switch and of middle switches.
    radix: int
    #: Seed of the flows, their applications and the keys.
    seed: int


@lru_cache(maxsize=2)
def _fabric(radix: int) -> Fabric:
    return build(f"xgft:2;{radix},{radix};1,{radix}")


def traffic(hosts: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.intp]]:
    """Draw random flows and divide them into applications.

    `hosts`: number of hosts, of which `UTILIZATION` send to as many random ones, one flow each.

    Returns int64 [flows] twice; and int64 [applications + 1], the first flow of each application in
    the order of their arrival. Each flow begins a new application with probability 1 / `FLOWS`.
    """
    random = np.random.default_rng([seed, hosts])
    count = round(UTILIZATION * hosts)
    ends = np.stack([random.permutation(hosts)[:count] for _ in range(2)])
    sources, destinations = ends[:, ends[0] != ends[1]]
    begins = random.random(len(sources)) < 1 / FLOWS
    begins[0] = True
    return sources, destinations, np.append(np.flatnonzero(begins), len(sources))


@typed_run
def measure(_: None, size: Size, watch: Callable[[Any], None]) -> dict[str, int]:
    """Return the largest number of flows on a link between switches, by method.

    Applications arrive one after the other and stay. D-mod-K sends flows to host ``d`` via middle
    switch ``d`` modulo the number of middle switches.
    """
    fabric = _fabric(size.radix)
    network = key_network(fabric)
    sources, destinations, start = traffic(fabric.num_hosts, size.seed)
    loads = {method: np.zeros(len(network.edge), dtype=np.int32) for method in METHODS}
    endpoints = fabric.host_endpoint[np.stack((sources, destinations))].astype(np.int32)
    column = (destinations % size.radix).astype(np.int32)[:, None]
    depth, _unused = stages_used(network, endpoints)
    ends = [network.subtrees(each) for each in endpoints]
    add_flows(network.stages, *ends, depth, column, 1, loads["dmodk"])
    for number, (first, last) in enumerate(pairwise(start)):
        watch(None)
        flows = (fabric, sources[first:last], destinations[first:last])
        lowest = keys(*flows, seed=number)
        greedy = keys(*flows, method="greedy", seed=number)
        _add(network, lowest, lowest.column, loads["ark-lowest"])
        _add(network, lowest, keys(*flows, first="random", seed=number).column, loads["ark"])
        for method, rules in METHODS.items():
            if rules is not None:
                key = greedy if method == "nrk-greedy" else lowest
                _add(network, key, chosen_columns(key, loads[method], *rules), loads[method])
    return {method: int(each.max()) for method, each in loads.items()}


def _add(
    network: KeyNetwork, key: RoutingKey, column: NDArray[np.int32], loads: NDArray[np.int32]
) -> None:
    add_flows(network.stages, *key.subtrees, key.depth, column, 1, loads)
