"""Placements by leaf switch: the switch that a host is cabled to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.workload.patterns.pattern_registry import generator
from weft.workload.placement.placement_registry import PlacementRequest, placement

Order = Literal["hosts", "number", "most", "random"]


def leaf_nodes(fabric: Fabric, hosts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the node that each host's first port is cabled to; the host itself if it forwards."""
    rows = fabric.graph.destination_row[fabric.host_endpoint[hosts]]
    without = hosts[rows < 0]
    if len(without):
        raise NotApplicable(f"host {fabric.host_names[without[0]]} is not cabled to a switch")
    nodes: NDArray[np.int32] = fabric.graph.row_node[rows]
    return nodes


def _draws(options: Mapping[str, Any]) -> bool:
    return bool(options["order"] == "random")


@placement("block", explicit=False, draws=_draws)
def block(
    request: PlacementRequest, *, size: int | None = None, order: Order = "hosts", seed: int = 0
) -> NDArray[np.int32]:
    """Hosts leaf switch by leaf switch: all hosts of a leaf, or a block, before the next leaf.

    Parameters
    ----------
    size
        Number of hosts in a block; the second block of the first leaf follows the first block of
        the last leaf. If left out, all hosts of a leaf are one block.
    order
        Order of the leaves: by the position of their first allowed host (``hosts``), by switch
        number (``number``), by descending number of allowed hosts, which uses the fewest leaves
        (``most``), or random (``random``).
    seed
        Seed of the random order.

    Raises
    ------
    InputError
        When the size is below 1 or the seed is negative.
    NotApplicable
        When a host forwards packets itself and so has no leaf switch.
    """
    return _dealt(request, size, order, seed)


@placement("cyclic", explicit=False, draws=_draws)
def cyclic(
    request: PlacementRequest, *, size: int = 1, order: Order = "hosts", seed: int = 0
) -> NDArray[np.int32]:
    """Hosts round robin over the leaf switches: one host of each, then the next host of each.

    Parameters
    ----------
    size
        Number of hosts of each leaf per round.
    order
        Order of the leaves: by the position of their first allowed host (``hosts``), by switch
        number (``number``), by descending number of allowed hosts (``most``), or random
        (``random``).
    seed
        Seed of the random order.

    Raises
    ------
    InputError
        When the size is below 1 or the seed is negative.
    NotApplicable
        When a host forwards packets itself and so has no leaf switch.
    """
    return _dealt(request, size, order, seed)


def _dealt(
    request: PlacementRequest, size: int | None, order: Order, seed: int
) -> NDArray[np.int32]:
    """Place ranks on hosts sorted by round, leaf and index within the leaf."""
    if size is not None and size < 1:
        raise InputError(f"size must be at least 1 host, not {size}")
    draw = generator(seed)
    leaf = leaf_nodes(request.fabric, request.hosts)
    forwarding = request.hosts[leaf == request.fabric.num_switches + request.hosts]
    if len(forwarding):
        raise NotApplicable(
            f"host {request.fabric.host_names[forwarding[0]]} forwards packets itself and has no "
            "leaf switch"
        )
    nodes, first, which, count = np.unique(
        leaf, return_index=True, return_inverse=True, return_counts=True
    )
    keys: dict[str, NDArray[np.integer[Any]]] = {
        "hosts": first,
        "number": nodes,
        "most": np.lexsort((first, -count)).argsort(),
        "random": draw.permutation(len(nodes)),
    }
    leaf_key = keys[order]
    # Index of each host among the hosts of its leaf, in the order of the allowed hosts.
    grouped = np.argsort(which, kind="stable")
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    index = np.empty(len(which), dtype=np.int64)
    index[grouped] = np.arange(len(which)) - np.repeat(start, count)
    block_round = np.zeros_like(index) if size is None else index // size
    return request.fill(request.hosts[np.lexsort((index, leaf_key[which], block_round))])
