"""Function `keys`: colour the flows of an application and give each colour a switch."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from weft.core.arguments import one_of, whole_number
from weft.core.errors import InputError
from weft.core.frozen import read_only
from weft.fabrics import Fabric, check_fabric
from weft.kernels.keys.assignment import (
    add_flows,
    best_planes,
    columns_of,
    drop_broken,
    gather_groups,
    improve_paths,
)
from weft.kernels.keys.colouring import colour_groups
from weft.sim.keys.network import KeyNetwork, key_network
from weft.sim.keys.routing_key import RoutingKey, stages_used

Method = Literal["exact", "greedy"]
Colours = Literal["fewest", "all"]
First = Literal["lowest", "random"]

#: Largest number of passes that reroute single flows, and of rounds of negotiation.
_ROUNDS = 50
#: Largest number of colourings that are tried to reach the bound.
_TRIES = 8


def keys(
    fabric: Fabric,
    sources: ArrayLike,
    destinations: ArrayLike,
    *,
    method: Method = "exact",
    colours: Colours = "fewest",
    first: First = "lowest",
    name: str = "A",
    seed: int = 0,
) -> RoutingKey:
    """Make a routing key: paths for concurrent flows that share as few links as possible.

    The flows are the edges of a bipartite multigraph between source and destination leaf switches.
    The edges are coloured so that those at one vertex have different colours, and each colour gets
    a switch of the next level. At higher levels, the flows of each such switch are coloured in the
    same way. On a complete tree whose switches have as many cables upwards as downwards, flows that
    do not contend at their hosts do not contend anywhere.

    Parameters
    ----------
    fabric
        A folded Clos network (leaf-spine, fat tree, XGFT, PGFT), possibly slimmed or with missing
        or slower cables. Its levels are found from its cables, without labels.
    sources, destinations
        Host numbers, one entry per flow. Hosts with several ports use the first. Flows between the
        same two hosts share a path.
    method
        ``exact`` uses the fewest colours that are possible, which is the largest number of flows
        from or to a leaf switch, and then reroutes single flows if the lower bound is not reached.
        ``greedy`` is the paper's method, a sequence of maximum-cardinality matchings, which may
        need more colours.
    colours
        For ``exact`` only. ``fewest`` leaves switches to other keys; ``all`` spreads the flows over
        all cables upwards, with up to as many colours as a leaf switch has such cables. Contention
        within the key is the same.
    first
        Switches of the colours: ``lowest`` gives the first colour the first switch, the second
        colour the second, and so on, as in the paper's example; ``random`` gives them switches in
        random order.
    name
        Name of the key.
    seed
        Seed of the colouring by ``exact``, and of ``random``. The largest load does not depend on
        it where every seed reaches the bound.

    Returns
    -------
    RoutingKey
        The paths, with the largest number of flows on a link and a lower bound on it.

    Raises
    ------
    InputError
        If a host does not exist or has no cable, the numbers of sources and destinations differ,
        two hosts are not connected by a path that goes up and then down, or another argument is
        invalid.
    NotApplicable
        If the fabric is not a folded Clos network; the message gives the reason.

    Notes
    -----
    Where cables are missing or have different rates, the colours get the switches with the least
    sum of squared loads, unless ``random`` switches reach the bound. Flows whose path has a missing
    cable get another path, again by the least sum of squared loads.

    If the bound is not reached, ``exact`` then reroutes single flows (`improve_paths`), and tries
    up to 8 colourings. This is also needed where switches above the leaves have fewer cables
    upwards than downwards, because the colouring at the leaf switches ignores those cables. On such
    trees, the bound cannot be reached for every set of flows.

    Source: Routing Keys, sections II and III.
    """
    check_fabric(fabric)
    one_of(method, get_args(Method), "method")
    one_of(colours, get_args(Colours), "colours")
    one_of(first, get_args(First), "first")
    if method == "greedy" and colours == "all":
        raise InputError("colours=all needs method exact")
    whole_number(seed, "seed", 0, 2**63 - 1)
    source = fabric.host_numbers(sources, "sources")
    destination = fabric.host_numbers(destinations, "destinations", count=len(source))
    network = key_network(fabric)
    if not isinstance(name, str):
        raise InputError(f"the name of a key must be text, not {name!r}")
    endpoints = np.stack((fabric.host_endpoint[source], fabric.host_endpoint[destination]))
    if (endpoints < 0).any():
        at = int(np.argmax((endpoints < 0).any(axis=0)))
        host = (source if endpoints[0, at] < 0 else destination)[at]
        raise InputError(f"host {fabric.host_names[host]} of {fabric.name} has no cable")
    ends = [network.subtrees(each) for each in endpoints]
    depth, earliest = stages_used(network, endpoints)
    bound = network.bound(ends, depth, network.weight)
    least = np.inf
    for number in range(seed, seed + (_TRIES if method == "exact" else 1)):
        parts = _coloured(network, ends, depth, method, colours, number)
        tried = np.full(parts[1].shape, -1, dtype=np.int32)
        rounds = _ROUNDS if method == "exact" else 0
        planes = None if first == "lowest" else number
        lost, load = _assign(network, ends, depth, *parts[1:], tried, bound, planes, rounds)
        if lost >= 0:
            names = [fabric.host_names[int(hosts[lost])] for hosts in (source, destination)]
            raise InputError(
                f"{fabric.name} has no path from {names[0]} to {names[1]} that goes up and then "
                "down"
            )
        if load < least:
            colour, column, least = parts[0], tried, load
        if load <= bound * (1 + 1e-9):
            break
    for array in (colour, column):
        array[:] = array[earliest]
    return RoutingKey(
        network, name, method, source.astype(np.int32), destination.astype(np.int32),
        endpoints.astype(np.int32), depth, colour, column,
    )  # fmt: skip


def _coloured(
    network: KeyNetwork,
    ends: list[NDArray[np.int32]],
    depth: NDArray[np.int32],
    method: Method,
    colours: Colours,
    seed: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return each flow's colour at the leaf switches, and its group and cable at each stage."""
    flows = len(depth)
    stages = network.stages
    count = len(stages.planes)
    group = np.full((flows, count), -1, dtype=np.int32)
    cable = np.full((flows, count), -1, dtype=np.int32)
    colour = np.full(flows, -1, dtype=np.int32)
    parent = np.zeros(flows, dtype=np.int64)
    for stage in range(count):
        mine = np.flatnonzero(depth > stage)
        left = np.ascontiguousarray(ends[0][:, stage])
        right = np.ascontiguousarray(ends[1][:, stage])
        order = mine[np.argsort(parent[mine], kind="stable")]
        start = np.searchsorted(parent[order], np.arange(stages.prefixes[stage] + 1))
        width = int(stages.planes[stage] * stages.parallel[stage])
        part = np.full(flows, -1, dtype=np.int32)
        if method == "greedy":
            _match_groups(order, start, left, right, part)
        else:
            colour_groups(order, start, left, right, width, colours == "all", np.uint64(seed), part)
        if stage == 0:
            colour[:] = part
            most = max(np.bincount(each[mine]).max(initial=0) for each in (left, right))
            if method == "exact" and most > width:
                # The flows of a leaf switch with fewer cables than flows need more colours.
                colour_groups(order, start, left, right, 0, False, np.uint64(seed), colour)
        part[mine] %= width
        planes = int(stages.planes[stage])
        group[mine, stage] = parent[mine] * planes + part[mine] % planes
        cable[mine, stage] = part[mine] // planes
        parent[mine] = group[mine, stage]
    return colour, group, cable


def _match_groups(
    order: NDArray[np.int64],
    start: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    colour: NDArray[np.int32],
) -> None:
    """Colour the flows of each group by repeated maximum-cardinality matching (Hopcroft-Karp)."""
    for first, end in pairwise(start.tolist()):
        rest = order[first:end]
        number = 0
        while len(rest):
            shape = (int(left[rest].max()) + 1, int(right[rest].max()) + 1)
            pair = left[rest].astype(np.int64) * shape[1] + right[rest]
            pairs, flow = np.unique(pair, return_index=True)
            graph = csr_array(
                (np.ones(len(pairs), dtype=np.uint8), (pairs // shape[1], pairs % shape[1])), shape
            )
            matched = maximum_bipartite_matching(graph, perm_type="column")
            heads = np.flatnonzero(matched >= 0)
            chosen = flow[np.searchsorted(pairs, heads * shape[1] + matched[heads])]
            colour[rest[chosen]] = number
            rest = np.delete(rest, chosen)
            number += 1


def _assign(
    network: KeyNetwork,
    ends: list[NDArray[np.int32]],
    depth: NDArray[np.int32],
    group: NDArray[np.int32],
    cable: NDArray[np.int32],
    column: NDArray[np.int32],
    bound: float,
    seed: int | None,
    rounds: int,
) -> tuple[int, float]:
    """Give each group a plane, and reroute single flows where this lowers the largest load.

    The groups get random planes if there is a seed, and otherwise the lowest. In a network that is
    not uniform, they get the planes with the least sum of squared loads instead, unless random
    planes reach the bound. Return the first flow without a path, or -1, and the largest load.
    """
    stages, weight = network.stages, network.weight
    loads = np.zeros(len(weight), dtype=np.int32)
    plane = np.empty(network.num_groups, dtype=np.int32)

    def use_planes() -> tuple[int, float]:
        columns_of(stages, group, cable, plane, column)
        drop_broken(stages, weight, *ends, depth, column)
        loads[:] = 0
        add_flows(stages, *ends, depth, read_only(column.view()), 1, loads)
        load = float((loads * weight).max(initial=0.0))
        if network.complete and load <= bound:
            return -1, load
        lost: int = improve_paths(stages, loads, weight, *ends, depth, column, bound, rounds)
        return lost, float((loads * weight).max(initial=0.0))

    if network.uniform or seed is not None:
        orders = [
            np.tile(np.arange(p), (n, 1))
            for n, p in zip(stages.prefixes[:-1].tolist(), stages.planes.tolist(), strict=True)
        ]
        if seed is not None:
            random = np.random.default_rng(seed)
            orders = [random.permuted(order, axis=1) for order in orders]
        plane[:] = np.concatenate([plane[:0], *(order.reshape(-1) for order in orders)])
        lost, load = use_planes()
        if network.uniform or lost >= 0 or load <= bound:
            return lost, load
        loads[:] = 0
    groups = gather_groups(stages, group, cable, *ends)
    best_planes(stages, groups, loads, weight, np.inf, plane)
    return use_planes()
