"""Proof of deadlock freedom: the channel dependency graph over (directed link, VL) is acyclic.

Source: Dally and Seitz 1987. One graph holds all lanes, and so also covers routes that change the
lane along a path.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from weft.fabrics import Fabric
from weft.kernels.parts import parts
from weft.kernels.routes.dependencies import WaitGraph, list_dependencies, strip_acyclic
from weft.routing.routes import Routes


class CreditLoop(list[tuple[int, int]]):
    """A cycle of channels (directed link, VL), each of which depends on the next."""

    def text(self, fabric: Fabric) -> str:
        """Return the cycle link by link: ``a[1] -> b[2] (VL 0) waits for …``."""
        steps = [f"{fabric.link_name(link)} (VL {lane})" for link, lane in self]
        return " waits for ".join([*steps, steps[0]])


def credit_loops(
    fabric: Fabric, routes: Routes, *, management: bool = False
) -> tuple[list[CreditLoop], int]:
    """Return the cycles of the channel dependency graph, and the number of lanes in use.

    `fabric`, `routes`: the fabric and its routes; paths between all ports of hosts are checked.
    `management`: also check paths from and to switches.

    Returns a shortest cycle through one channel of each strongly connected component (without any,
    the routes cannot deadlock), and the number of virtual lanes that carry traffic between rows, at
    least 1.
    """
    if not len(fabric.graph.edge_row):
        return [], 1
    channels = dependencies(fabric, routes, management=management)
    in_use = max(int(channels.used.reshape(-1, routes.num_vls).any(axis=0).sum()), 1)
    return cycles(fabric, channels), in_use


def cycles(fabric: Fabric, channels: WaitGraph) -> list[CreditLoop]:
    """Return a shortest cycle through one channel of each strongly connected component."""
    graph, vls = fabric.graph, channels.vls
    arguments = graph.parts, parts(channels)
    remaining = strip_acyclic(*arguments)
    if not remaining.any():
        return []
    none = np.zeros(0, dtype=np.int32)
    count = list_dependencies(*arguments, remaining, none, none)
    tails, heads = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    list_dependencies(*arguments, remaining, tails, heads)
    numbers = np.unique(np.concatenate((tails, heads)))
    waits = csr_array(
        (
            np.ones(count, dtype=np.uint8),
            (np.searchsorted(numbers, tails), np.searchsorted(numbers, heads)),
        ),
        shape=(len(numbers), len(numbers)),
    )
    return [
        CreditLoop((int(graph.edge_link[c // vls]), int(c % vls)) for c in numbers[cycle])
        for cycle in _one_cycle_each(waits)
    ]


def dependencies(fabric: Fabric, routes: Routes, *, management: bool = False) -> WaitGraph:
    """Return the channel dependency graph; the arguments are those of `credit_loops`."""
    graph, vls = fabric.graph, routes.num_vls
    degree = np.diff(graph.edge_offset)[graph.edge_row].astype(np.int64)
    first_bit = np.zeros(len(degree) + 1, dtype=np.int64)
    np.cumsum(degree * vls * vls, out=first_bit[1:])
    bits = np.zeros(int(first_bit[-1] >> 3) + 1, dtype=np.uint8)
    used = np.zeros(len(degree) * vls, dtype=np.uint8)
    channels = WaitGraph(vls, first_bit, bits, used)
    routes.add_dependencies(fabric, management, channels)
    return channels


def _one_cycle_each(waits: csr_array) -> list[NDArray[np.intp]]:
    """Return a shortest cycle through the first node of each strongly connected component.

    A component of one node counts if the node depends on itself, which occurs if a cable connects
    two ports of one switch.
    """
    _, label = connected_components(waits, directed=True, connection="strong")
    cyclic = np.bincount(label) > 1
    cyclic[label[waits.diagonal() > 0]] = True
    cycles = []
    for component in np.flatnonzero(cyclic):
        members = np.flatnonzero(label == component)
        inside = waits[members][:, members]
        order, before = breadth_first_order(inside, 0, return_predecessors=True)
        back = set(inside[:, [0]].nonzero()[0].tolist())
        closing = next(node for node in order if int(node) in back)
        path = [int(closing)]
        while path[-1] != 0:
            path.append(int(before[path[-1]]))
        cycles.append(members[np.array(path[::-1])])
    return cycles
