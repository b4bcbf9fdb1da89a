"""Routing on fat trees: up to a nearest common ancestor, then down to the destination."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.flit.routing.common import choose, draw, lanes_of, load_of
from weft.kernels.lean import part_njit
from weft.kernels.records import record_type

#: Switch of a tree.
TREE = record_type(
    low="i4",  # position of the first endpoint below it
    high="i4",  # position after the last one
    span="i4",  # positions below a child, which is an endpoint for a leaf switch
    down="i4",  # first of its outputs downwards in `Tree.output`, child by child
    parallel="i4",  # cables to each child
    up="i4",  # first of its outputs upwards in `Tree.output`
    width="i4",  # cables upwards
)

#: A load larger than all.
MOST = 2**62


class Tree(NamedTuple):
    """Coordinates of a complete fat tree."""

    #: `TREE` of each row.
    rows: Any
    #: int32: outputs of the rows, as `TREE` says.
    output: Any
    #: int32 [endpoints]: position of each endpoint; those below a switch are consecutive.
    position: Any


@part_njit()
def _cables(net, row, packet):
    """Return the first output, as a place in `Tree.output`, and the number of outputs.

    Also returns whether they lead down, to the destination. Without branches, which would often be
    mispredicted.
    """
    tree = net.routes.rows[row]
    behind = np.int64(net.routes.position[net.packets[packet].destination]) - tree.low
    # Unsigned numbers: one comparison also finds that it is not before the first position.
    is_below = np.uint64(behind) < np.uint64(tree.high - tree.low)
    child = np.uint64(behind if is_below else 0) // np.uint64(tree.span)
    first = tree.down + np.int64(child) * tree.parallel if is_below else np.int64(tree.up)
    return first, np.int64(tree.parallel if is_below else tree.width), is_below


@part_njit()
def route_random(net, now, row, lane, packet, attempt):
    """Take a random output upwards, on any lane of the packet's class."""
    if attempt:
        return False
    first, count, _ = _cables(net, row, packet)
    output = np.int64(net.routes.output[first + draw(net, packet, count)])
    choose(net, lane, output, lanes_of(net, packet, 0, net.rules.class_lanes))
    return True


@part_njit()
def route_adaptive(net, now, row, lane, packet, attempt):
    """Take the least loaded output upwards among those with a free lane, on any lane."""
    if attempt:
        return False
    allowed = lanes_of(net, packet, 0, net.rules.class_lanes)
    first, count, is_below = _cables(net, row, packet)
    start = draw(net, packet, count)
    output = np.int64(net.routes.output[first + start])
    if not is_below:
        best = np.int64(MOST)
        for step in range(count):
            column = start + step if start + step < count else start + step - count
            number = np.int64(net.routes.output[first + column])
            load = load_of(net, number) + (0 if net.outputs[number].free & allowed else MOST >> 1)
            if load < best:
                output, best = number, load
    choose(net, lane, output, allowed)
    return True
