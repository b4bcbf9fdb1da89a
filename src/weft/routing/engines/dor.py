"""dor: dimension-order routing, by port numbers as OpenSM's or by what the wiring shows."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.distances import bfs_many
from weft.kernels.routing.dor import dimension_tables, product_classes
from weft.opensm.files.guids import listed_nodes
from weft.routes import Routes, TableRoutes
from weft.routing.engine_registry import (
    check_lmc,
    components,
    destination_ports,
    empty_table,
    engine,
    provenance,
    row_adapters,
)


@engine("dor", deadlock_free=False, lmc=True, as_opensm="dor")
def dor(
    fabric: Fabric,
    *,
    dimensions: Literal["ports", "wiring"] = "ports",
    order: tuple[str, ...] = (),
    lmc: int = 0,
) -> Routes:
    """Dimension order: each switch finishes one dimension before the next.

    Of the shortest ways a switch takes those of the first dimension; among parallel cables the
    one with fewest destinations behind it. On a mesh, a hypercube or a HyperX that cannot
    deadlock on one lane if the order is the same everywhere; on tori it can, because each ring
    is a circle.

    Parameters
    ----------
    fabric
        Any fabric with ``ports``; with ``wiring`` one that is a product of lines, rings, full
        meshes or other small graphs, each a dimension: mesh, torus, hypercube, HyperX.
    dimensions
        ``ports``: a lower port is an earlier dimension, which is OpenSM's engine of this name,
        entry by entry, and needs ports that are cabled alike everywhere. ``wiring``: dimensions
        are the factors of the switches' graph, whatever the ports, names and labels.
    order
        What parallel cables are shared out to first: names or GUIDs of nodes, or ``@FILE`` with
        GUIDs of ports (OpenSM's ``-X``).
    lmc
        Each endpoint gets 2^lmc LIDs, which take parallel cables in turn.

    Raises
    ------
    NotApplicable
        With ``wiring``, when the switches form no product, such as a torus with a cable missing.
    InputError
        When `order` names nothing in the fabric.

    Notes
    -----
    Factors are found by the relation whose classes are the prime factors of a connected graph
    under the Cartesian product (Feder 1992; Imrich and Klavžar, Product Graphs, 2000). A ring of
    four is the product of two lines of two, so a 4x4x4 torus is a hypercube and free of deadlock
    here. In a ring of even length both ways to the opposite switch share what goes there.
    """
    check_lmc(fabric, lmc)
    table = empty_table(fabric, lmc)
    notes: tuple[str, ...] = ()
    if dimensions == "ports":
        key = _first_edges(fabric)
    else:
        key, found = _factors(fabric)
        notes = (f"found dimensions: {found}",)
    graph = fabric.graph
    dimension_tables(
        graph.edge_offset, graph.edge_row, graph.edge_port, key, _in_order(fabric, order),
        graph.destination_row, destination_ports(fabric), fabric.num_endpoints, lmc,
        int(np.iinfo(table.dtype).max), table,
    )  # fmt: skip
    return TableRoutes(**provenance(fabric, "dor", notes=notes), table=table, lmc=lmc)


def _in_order(fabric: Fabric, named: tuple[str, ...]) -> NDArray[np.int32]:
    """Destinations that hang from a row as OpenSM takes them, int32.

    First those named, then all endpoints: of rows with most adapters first, of equals by GUID as
    the network orders its bytes, and on each by port; then switches.
    """
    graph = fabric.graph
    first = np.zeros(0, dtype=np.int32)
    if named:
        first = listed_nodes(fabric, named, kind="order", what="dor: option order")
    rank = np.full(fabric.num_destinations, len(first))
    rank[first[::-1]] = np.arange(len(first))[::-1]
    row = graph.destination_row
    hanging = np.flatnonzero(row >= 0)
    row = row[hanging]
    guid = fabric.node_guid[graph.row_node].byteswap()
    keys = (
        destination_ports(fabric)[hanging],
        guid[row],
        -row_adapters(fabric)[row],
        hanging >= fabric.num_endpoints,
        rank[hanging],
    )
    return hanging[np.lexsort(keys)].astype(np.int32)


def _first_edges(fabric: Fabric) -> NDArray[np.int32]:
    """The first edge between the same two rows, int32 [edges]."""
    graph = fabric.graph
    pair = graph.edge_tail.astype(np.int64) * graph.num_rows + graph.edge_row
    _, first, which = np.unique(pair, return_index=True, return_inverse=True)
    firsts: NDArray[np.int32] = first[which].astype(np.int32)
    return firsts


def _factors(fabric: Fabric) -> tuple[NDArray[np.int32], str]:
    """The dimension of each edge, int32 [edges], and what the dimensions are in words.

    Larger dimensions come first, of equals the one of the lowest edge.
    """
    graph = fabric.graph
    rows = graph.num_rows
    if components(fabric).max(initial=0) > 0:
        raise NotApplicable("not all switches are joined, so they form no product of dimensions")
    tail, head = graph.edge_tail, graph.edge_row
    first = _first_edges(fabric)
    # One edge for each pair of neighbours: parallel cables change nothing.
    kept = np.flatnonzero((first == np.arange(len(first))) & (tail != head))
    offset = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(np.bincount(tail[kept], minlength=rows), out=offset[1:])
    graph.need_memory(rows, 2, "distances")
    hops = np.empty((rows, rows), dtype=np.uint16)
    bfs_many(offset, head[kept], np.arange(rows, dtype=np.int32), hops)
    parent = np.empty(len(kept), dtype=np.int32)
    product_classes(offset, head[kept], tail[kept], hops, parent)
    classes, of_edge = np.unique(parent, return_inverse=True)
    layers = [_layer(kept[of_edge == number], tail, head) for number in range(len(classes))]
    if len(layers) == 1 and not _is_dimension(*layers[0]):
        raise NotApplicable(
            "the switches form no product of dimensions, such as a mesh, torus or HyperX does"
        )
    order = np.lexsort((classes, np.array([-size for size, _ in layers])))
    place = np.empty(len(layers), dtype=np.int32)
    place[order] = np.arange(len(layers))
    key = np.zeros(len(first), dtype=np.int32)
    key[kept] = place[of_edge]
    key = key[first]
    return key, " x ".join(_name(*layers[number]) for number in order) or "none"


def _layer(
    edges: NDArray[np.intp], tail: NDArray[np.int32], head: NDArray[np.int32]
) -> tuple[int, NDArray[np.int64]]:
    """Rows of one copy of a factor, and how many of its edges leave each of them."""
    degree = np.bincount(tail[edges])
    members = {int(tail[edges[0]])}
    front = list(members)
    order = np.argsort(tail[edges], kind="stable")
    start = np.concatenate(([0], np.cumsum(degree)))
    heads = head[edges][order]
    while front:
        row = front.pop()
        for other in heads[start[row] : start[row + 1]].tolist():
            if other not in members:
                members.add(other)
                front.append(other)
    return len(members), np.sort(degree[sorted(members)])


def _is_dimension(size: int, degree: NDArray[np.int64]) -> bool:
    return not _name(size, degree).startswith("graph")


def _name(size: int, degree: NDArray[np.int64]) -> str:
    """What a factor is, by its degrees: it is connected, and no product."""
    if np.all(degree == size - 1):
        return (
            f"full mesh of {size}" if size > 3 else f"{'line' if size == 2 else 'ring'} of {size}"
        )
    if np.all(degree == 2):
        return f"ring of {size}"
    if np.array_equal(degree, [1, 1, *[2] * (size - 2)]):
        return f"line of {size}"
    return f"graph of {size}"
