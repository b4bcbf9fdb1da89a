"""Routing on fat trees: up to a nearest common ancestor, then down to the destination."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.flit.routing.common import choose, draw, lanes_of, load_of
from weft.kernels.lean import part_njit
from weft.kernels.records import record_type

#: Switch of a tree.
TREE = record_type(
    low="i4",  # position of the first leaf switch below it
    high="i4",  # position after the last one
    span="i4",  # leaf switches below a child
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
    #: int32 [endpoints]: position of the leaf switch of each endpoint.
    leaf: Any


@part_njit()
def _down(net, tree, destination, packet):
    """Return the output towards a destination below, or -1 if it is not below."""
    leaf = np.int64(net.routes.leaf[destination])
    if leaf < tree.low or leaf >= tree.high:
        return np.int64(-1)
    if tree.span == 0:
        return np.int64(net.inputs[destination].tail)
    first = tree.down + (leaf - tree.low) // tree.span * tree.parallel
    if tree.parallel > 1:
        first += draw(net, packet, np.int64(tree.parallel))
    return np.int64(net.routes.output[first])


@part_njit()
def route_random(net, now, row, lane, packet, attempt):
    """Take a random output upwards, on any lane of the packet's class."""
    if attempt:
        return False
    tree, destination = net.routes.rows[row], np.int64(net.packets[packet].destination)
    behind = np.int64(net.routes.leaf[destination]) - tree.low
    is_below = 0 <= behind < tree.high - tree.low
    if tree.span == 0 and is_below:
        output = np.int64(net.inputs[destination].tail)
    else:
        # Up and down without a branch, which would often be mispredicted.
        child = (behind if is_below else 0) // max(tree.span, 1)
        first = tree.down + child * tree.parallel if is_below else np.int64(tree.up)
        cables = np.int64(tree.parallel if is_below else tree.width)
        output = np.int64(net.routes.output[first + draw(net, packet, cables)])
    choose(net, lane, output, lanes_of(net, packet, 0, net.rules.class_lanes))
    return True


@part_njit()
def route_adaptive(net, now, row, lane, packet, attempt):
    """Take the least loaded output upwards among those with a free lane, on any lane."""
    if attempt:
        return False
    tree = net.routes.rows[row]
    allowed = lanes_of(net, packet, 0, net.rules.class_lanes)
    output = _down(net, tree, np.int64(net.packets[packet].destination), packet)
    if output < 0:
        start = draw(net, packet, np.int64(tree.width))
        best = np.int64(MOST)
        for step in range(tree.width):
            column = start + step if start + step < tree.width else start + step - tree.width
            number = np.int64(net.routes.output[tree.up + column])
            load = load_of(net, number) + (0 if net.outputs[number].free & allowed else MOST >> 1)
            if load < best:
                output, best = number, load
    choose(net, lane, output, allowed)
    return True
