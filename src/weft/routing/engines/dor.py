"""dor: dimension-order routing, with dimensions by port numbers as in OpenSM, or by cables."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.distances import bfs_many
from weft.kernels.routing.dor import dimension_tables, product_classes
from weft.routing.engine_registry import destination_ports, empty_table, engine, row_adapters
from weft.routing.opensm.guids import listed_nodes
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import Routes, TableRoutes


@engine("dor", deadlock_free=False, lmc=True, as_opensm="dor")
def dor(
    fabric: Fabric,
    *,
    dimensions: Literal["ports", "wiring"] = "ports",
    order: tuple[str, ...] = (),
    lmc: int = 0,
) -> Routes:
    """Route in dimension order: packets finish one dimension before the next.

    Of the links on minimal paths, a switch uses those of the earliest dimension; of parallel
    cables, it uses the one with the fewest destinations. On a mesh, hypercube or HyperX the routes
    are deadlock-free on one lane if the order of dimensions is the same at all switches. On a torus
    they can deadlock, since each ring is a cycle of dependencies.

    Parameters
    ----------
    fabric
        ``ports`` accepts any fabric. ``wiring`` requires a Cartesian product of lines, rings, full
        meshes or other small graphs, one for each dimension: a mesh, torus, hypercube or HyperX.
    dimensions
        ``ports``: a lower port number means an earlier dimension. This gives exactly the tables of
        OpenSM's dor, and requires that the ports of all switches have the same order of dimensions.
        ``wiring``: dimensions are the factors of the graph of the switches, independent of ports,
        names and labels.
    order
        Destinations for which parallel cables are chosen first: names or GUIDs of nodes, or
        ``@FILE`` with GUIDs of ports (OpenSM's ``-X``).
    lmc
        LMC: each endpoint gets 2^lmc LIDs, which use parallel cables in rotation.

    Raises
    ------
    NotApplicable
        If `dimensions` is ``wiring`` and the switches do not form a product, for example because a
        cable of a torus is missing.
    InputError
        If a name in `order` is unknown.

    Notes
    -----
    Factors are found by the relation whose classes are the prime factors of a connected graph
    under the Cartesian product (Feder 1992; Imrich and Klavžar, Product Graphs, 2000). A ring of
    four is the product of two lines of two, so a 4x4x4 torus is routed as a hypercube, without
    deadlock. In a ring of even length, the destinations at the opposite switch are divided between
    the two directions.
    """
    check_lmc(lmc)
    return dor_in_place(fabric, empty_table(fabric, lmc), dimensions, order, lmc)


def dor_in_place(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    dimensions: str,
    order: tuple[str, ...],
    lmc: int,
) -> TableRoutes:
    """Return the routes of `dor`.

    `table`: the present tables, of which entries on shortest paths stay; changed in place.
    """
    notes: tuple[str, ...] = ()
    if dimensions == "ports":
        key = _first_edges(fabric)
    else:
        key, factors = _factors(fabric)
        notes = (f"found dimensions: {factors}",)
    graph = fabric.graph
    dimension_tables(
        graph.parts, key, _in_order(fabric, order), destination_ports(fabric), fabric.num_endpoints,
        lmc, int(np.iinfo(table.dtype).max), table,
    )  # fmt: skip
    return TableRoutes("dor", fabric.digest, notes=notes, table=table, lmc=lmc)


def _in_order(fabric: Fabric, named: tuple[str, ...]) -> NDArray[np.int32]:
    """Return all destinations that are attached to a row, in OpenSM's order, int32.

    Named destinations are first, then endpoints, then switches. Endpoints are ordered by row, then
    by port. Rows are ordered by number of adapters, the largest first, then by GUID in network byte
    order.
    """
    graph = fabric.graph
    first = np.zeros(0, dtype=np.int32)
    if named:
        first = listed_nodes(fabric, named, kind="order", what="dor: option order")
    rank = np.full(fabric.num_destinations, len(first))
    rank[first[::-1]] = np.arange(len(first))[::-1]
    row = graph.destination_row
    attached = np.flatnonzero(row >= 0)
    row = row[attached]
    guid = fabric.node_guid[graph.row_node].byteswap()
    keys = (
        destination_ports(fabric)[attached],
        guid[row],
        -row_adapters(fabric)[row],
        attached >= fabric.num_endpoints,
        rank[attached],
    )
    return attached[np.lexsort(keys)].astype(np.int32)


def _first_edges(fabric: Fabric) -> NDArray[np.int32]:
    """Return, for each edge, the first edge with the same tail and head, int32 [edges]."""
    graph = fabric.graph
    pair = graph.edge_tail.astype(np.int64) * graph.num_rows + graph.edge_row
    _, first, which = np.unique(pair, return_index=True, return_inverse=True)
    firsts: NDArray[np.int32] = first[which].astype(np.int32)
    return firsts


def _factors(fabric: Fabric) -> tuple[NDArray[np.int32], str]:
    """Return the dimension of each edge, int32 [edges], and text that names the dimensions.

    Dimensions are ordered by size, the largest first; equally large ones by their first edge.
    """
    graph = fabric.graph
    rows = graph.num_rows
    if fabric.graph.components.max(initial=0) > 0:
        raise NotApplicable(
            "the switches are not all connected, so they do not form a product of dimensions"
        )
    tail, head = graph.edge_tail, graph.edge_row
    first = _first_edges(fabric)
    # One edge for each pair of neighbours: parallel cables do not change the factors.
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
            "the switches do not form a product of dimensions such as a mesh, torus or HyperX"
        )
    order = np.lexsort((classes, np.array([-size for size, _ in layers])))
    dimension = np.empty(len(layers), dtype=np.int32)
    dimension[order] = np.arange(len(layers))
    key = np.zeros(len(first), dtype=np.int32)
    key[kept] = dimension[of_edge]
    key = key[first]
    return key, " x ".join(_name(*layers[number]) for number in order) or "none"


def _layer(
    edges: NDArray[np.intp], tail: NDArray[np.int32], head: NDArray[np.int32]
) -> tuple[int, NDArray[np.int64]]:
    """Return the number of rows of one copy of a factor, and their sorted degrees in that copy."""
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
    """Name a factor, which is connected and not a product, by its size and degrees."""
    if np.all(degree == size - 1):
        return (
            f"full mesh of {size}" if size > 3 else f"{'line' if size == 2 else 'ring'} of {size}"
        )
    if np.all(degree == 2):
        return f"ring of {size}"
    if np.array_equal(degree, [1, 1, *[2] * (size - 2)]):
        return f"line of {size}"
    return f"graph of {size}"
