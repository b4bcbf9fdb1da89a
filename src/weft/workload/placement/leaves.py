"""Placements over leaf switches: the switches that hosts are cabled to."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.workload.patterns.pattern_registry import generator
from weft.workload.placement.placement_registry import Room, placement

Order = Literal["hosts", "number", "most", "random"]


def leaf_nodes(fabric: Fabric, hosts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Node that each host's first port hangs from: the host itself where it forwards.

    Raises
    ------
    NotApplicable
        When one hangs from nothing that forwards.
    """
    rows = fabric.graph.destination_row[fabric.host_endpoint[hosts]]
    lost = hosts[rows < 0]
    if len(lost):
        raise NotApplicable(f"host {fabric.host_names[lost[0]]} is cabled to no switch")
    nodes: NDArray[np.int32] = fabric.graph.row_node[rows]
    return nodes


@placement("block", explicit=False)
def block(
    room: Room, *, size: int | None = None, order: Order = "hosts", seed: int = 0
) -> NDArray[np.int32]:
    """Leaf switch by leaf switch: all hosts of one, or a block of them, then the next one's.

    Parameters
    ----------
    room
        The hosts and how many ranks.
    size
        Hosts of a leaf that are taken before the next leaf has its turn; when all leaves had one
        the first gives its next block. All hosts of a leaf when left out.
    order
        Order of the leaves: of their first ``hosts`` as offered, by ``number`` of the switch, the
        ``most`` hosts offered first (which takes fewest leaves), or ``random``.
    seed
        Of the random order.

    Raises
    ------
    InputError
        When the size is below 1 or the seed negative.
    NotApplicable
        When a host hangs from no switch because it forwards by itself.
    """
    return _dealt(room, size, order, seed)


@placement("cyclic", explicit=False)
def cyclic(
    room: Room, *, size: int = 1, order: Order = "hosts", seed: int = 0
) -> NDArray[np.int32]:
    """Round robin over the leaf switches: one host of each, then the next host of each.

    Parameters
    ----------
    room
        The hosts and how many ranks.
    size
        Hosts that each leaf gives at its turn.
    order
        Order of the leaves: of their first ``hosts`` as offered, by ``number`` of the switch, the
        ``most`` hosts offered first, or ``random``.
    seed
        Of the random order.

    Raises
    ------
    InputError
        When the size is below 1 or the seed negative.
    NotApplicable
        When a host hangs from no switch because it forwards by itself.
    """
    return _dealt(room, size, order, seed)


def _dealt(room: Room, size: int | None, order: Order, seed: int) -> NDArray[np.int32]:
    """Hosts by turn, leaf and place in the leaf."""
    if size is not None and size < 1:
        raise InputError(f"size must be at least 1 host, not {size}")
    draw = generator(seed)
    leaf = leaf_nodes(room.fabric, room.hosts)
    alone = room.hosts[leaf == room.fabric.num_switches + room.hosts]
    if len(alone):
        raise NotApplicable(
            f"host {room.fabric.host_names[alone[0]]} forwards by itself and hangs from no leaf "
            "switch"
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
    turn_of_leaf = keys[order]
    # Place of each host among those of its leaf, in the order in which they are offered.
    grouped = np.argsort(which, kind="stable")
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    place = np.empty(len(which), dtype=np.int64)
    place[grouped] = np.arange(len(which)) - np.repeat(start, count)
    turn = np.zeros_like(place) if size is None else place // size
    return room.fill(room.hosts[np.lexsort((place, turn_of_leaf[which], turn))])
