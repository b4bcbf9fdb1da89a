"""Placements that keep few hosts, such as I/O nodes, away from each other."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.workload.placement.leaves import leaf_nodes
from weft.workload.placement.placement_registry import PlacementRequest, placement

Among = Literal["all", "fastest", "central"]
Positions = Literal["different", "same"]


@placement("spread", explicit=False)
def spread(
    request: PlacementRequest, *, positions: Positions = "different", among: Among = "all"
) -> NDArray[np.int32]:
    """Hosts on evenly spaced leaf switches, at different positions or at the same one.

    Engines that choose the spine by the destination's position on its leaf (d-mod-k) send to hosts
    at different positions via different spines, and to hosts at the same position via one.

    Parameters
    ----------
    positions
        Position among the allowed hosts of a leaf: one further on each next leaf (``different``),
        or the first that is free (``same``).
    among
        Hosts to use first: ``all`` alike, those with the ``fastest`` cable, or ``central`` ones,
        with the fewest hops on average to the allowed hosts (in a tree, the hosts nearest the top).
    """
    hosts = request.hosts
    used = request.hosts_needed
    request.need(len(hosts))
    rank: NDArray[Any] = np.zeros(len(hosts))
    if among == "fastest":
        fabric = request.fabric
        link = fabric.graph.destination_link[fabric.host_endpoint[hosts]]
        rank = -np.where(link >= 0, fabric.link_rate_gbps[link], 0.0)
    elif among == "central":
        rank = _mean_hops(request.fabric, hosts)
    order: list[int] = []
    for value in np.unique(rank):
        group = hosts[rank == value]
        count = min(used - len(order), len(group))
        order += _over_leaves(request.fabric, group, count, step=positions == "different")
    return request.fill(np.array(order, dtype=np.int32))


def _over_leaves(fabric: Fabric, hosts: NDArray[np.int32], count: int, *, step: bool) -> list[int]:
    """Return `count` of the hosts, on as many leaf switches as possible."""
    leaf = leaf_nodes(fabric, hosts)
    groups = [hosts[leaf == node] for node in dict.fromkeys(leaf.tolist())]
    left = [list(range(len(group))) for group in groups]  # free positions on each leaf
    chosen: list[int] = []
    while len(chosen) < count:
        some = [at for at, free in enumerate(left) if free]
        number = min(count - len(chosen), len(some))
        for turn in range(number):
            at = some[turn * len(some) // number]
            size, wanted = len(groups[at]), len(chosen) * step
            place = min(left[at], key=lambda free: (free - wanted) % size)
            left[at].remove(place)
            chosen.append(int(groups[at][place]))
    return chosen


@placement("apart", explicit=False)
def apart(request: PlacementRequest) -> NDArray[np.int32]:
    """Hosts far from each other: the next one has the most hops to the nearest chosen host.

    Of several, the one with the most hops to all chosen hosts together is next, then the first
    allowed (farthest-first traversal, Gonzalez 1985).
    """
    hosts = request.hosts
    used = request.hosts_needed
    request.need(len(hosts))
    rows = _rows(request.fabric, hosts)
    chosen = np.zeros(used, dtype=np.int64)  # indices in hosts; the first is the first host
    nearest = np.full(len(hosts), np.iinfo(np.int64).max)
    total = np.zeros(len(hosts), dtype=np.int64)
    for step in range(used - 1):
        hops = request.fabric.graph.hops(rows[chosen[step], None])[0, rows].astype(np.int64)
        nearest = np.minimum(nearest, hops)
        nearest[chosen[step]] = -1
        total += hops
        best = np.flatnonzero(nearest == nearest.max())
        chosen[step + 1] = best[np.argmax(total[best])]
    return request.fill(hosts[chosen])


def _mean_hops(fabric: Fabric, hosts: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the mean hops from the leaf switch of each host to those of all, float64 [hosts]."""
    rows, which, count = np.unique(_rows(fabric, hosts), return_inverse=True, return_counts=True)
    hops = fabric.graph.hops(rows)[:, rows].astype(np.int64)
    mean: NDArray[np.float64] = count @ hops / len(hosts)
    return mean[which]


def _rows(fabric: Fabric, hosts: NDArray[np.int32]) -> NDArray[np.int32]:
    rows: NDArray[np.int32] = fabric.graph.destination_row[fabric.host_endpoint[hosts]]
    return rows
