"""Routings of meshes, tori and HyperX by coordinates."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.flit.routing import grid
from weft.routing.structure.groups import find_grid
from weft.routing.structure.torus import find_tori
from weft.sim.flit import routing
from weft.sim.flit.network import Links
from weft.sim.flit.routings.routing_registry import Routing

Ties = Literal["random", "forward"]

#: Largest number of dimensions: `PACKET.state` and `PACKET.key` have bits for each.
MOST_DIMENSIONS = 16


@routing("dor", lanes=1)
def dor(links: Links, lanes: int, *, ties: Ties = "random") -> Routing:
    """Dimension order on a mesh, torus or HyperX; on rings, with two classes of lanes by datelines.

    Parameters
    ----------
    ties
        Direction of packets with equally long ways around a ring.
    """
    arrays = coordinates(links, ties=ties)
    _need(lanes, 2 if _has_rings(arrays) else 1, "dor", arrays)
    return Routing("dor", grid.route_dor, arrays)


@routing("valiant", lanes=2)
def valiant(links: Links, lanes: int, *, ties: Ties = "random") -> Routing:
    """Dimension order to a random router, and from there to the destination on other lanes.

    Parameters
    ----------
    ties
        As of `dor`.
    """
    arrays = coordinates(links, ties=ties)
    _need(lanes, 4 if _has_rings(arrays) else 2, "valiant", arrays)
    return Routing("valiant", grid.route_valiant, arrays, grid.enter_valiant)


@routing("adaptive", lanes=2)
def adaptive(links: Links, lanes: int) -> Routing:
    """The least loaded step of a shortest path; lanes of their own in dimension order as escape.

    A packet that has taken an escape lane stays on escape lanes.

    Notes
    -----
    Source: Duato 1993. Wormhole routers are made atomic, or ``cut-through`` for packets of one
    flit: otherwise a packet in a buffer behind another one, or one that waits for a place in the
    lane that it got, cannot reach its escape lane, and packets can wait for each other in a cycle.
    """
    arrays = _with_escape(coordinates(links))
    _need(lanes, 3 if _has_rings(arrays) else 2, "adaptive", arrays)
    return Routing("adaptive", grid.route_adaptive, arrays, adaptive=True, escapes=True)


@routing("dal", lanes=2)
def dal(links: Links, lanes: int) -> Routing:
    """Dimensionally adaptive on a HyperX: at most one step off the shortest path per dimension.

    A packet takes the output with the least load times hops, or else the escape lane in dimension
    order, on which it stays (Ahn et al. 2009). Deadlocks are prevented as in `adaptive`.
    """
    arrays = coordinates(links)
    if (arrays.kind != grid.FULL)[arrays.size > 2].any():
        raise NotApplicable("dal needs a HyperX: cables between all switches of each line")
    arrays = _with_escape(arrays)
    return Routing("dal", grid.route_dal, arrays, adaptive=True, escapes=True)


def _has_rings(arrays: grid.Grid) -> bool:
    return bool((arrays.kind == grid.RING).any())


def _need(lanes: int, least: int, name: str, arrays: grid.Grid) -> None:
    """Refuse too few lanes."""
    if lanes < least:
        where = "rings" if _has_rings(arrays) else "lines"
        raise InputError(
            f"routing {name} needs {least} virtual channels for each class of traffic on {where}, "
            f"not {lanes}"
        )


def _with_escape(arrays: grid.Grid) -> grid.Grid:
    """Return the grid with lanes for escape paths: two on rings."""
    rules = arrays.rules.copy()
    rules[1] = 2 if _has_rings(arrays) else 1
    return arrays._replace(rules=rules)


def coordinates(links: Links, *, ties: Ties = "random") -> grid.Grid:
    """Return the coordinates of the switches of a complete grid."""
    fabric, graph = links.fabric, links.fabric.graph
    where = _labels(fabric)
    size = where.max(axis=0) + 1
    if np.prod(size.astype(object)) != graph.num_rows:
        raise NotApplicable(f"a grid of {_text(size)} has not {graph.num_rows} switches")
    if len(size) > MOST_DIMENSIONS:
        raise NotApplicable(f"the flit level takes grids of at most {MOST_DIMENSIONS} dimensions")
    x, y = where[graph.edge_tail], where[graph.edge_row]
    d = np.argmax(x != y, axis=1)
    edges = np.arange(len(d))
    x, y = x[edges, d], y[edges, d]
    kind = np.array(
        [_kind(x[d == each], y[d == each], int(size[each])) for each in range(len(size))]
    )
    width = np.where(kind == grid.FULL, size, 2)
    first = np.cumsum(width) - width
    ahead = (y - x) % np.where(kind == grid.RING, size, 2**30)[d] == 1
    column = first[d] + np.where(kind[d] == grid.FULL, y, np.where(ahead, 0, 1))
    key = graph.edge_tail.astype(np.int64) * width.sum() + column
    order = np.argsort(key, kind="stable")
    count = np.bincount(key, minlength=graph.num_rows * int(width.sum()))
    cables = int(count.max(initial=1))
    expected = _expected(where, size, kind, width)
    short = np.flatnonzero(expected & (count.reshape(expected.shape) != cables))
    if len(short):
        name = fabric.node_names[int(graph.row_node[short[0] // expected.shape[1]])]
        raise NotApplicable(
            f"{name} lacks cables to neighbours in the grid; use an engine's tables"
        )
    output = np.full((graph.num_rows * int(width.sum()), cables), -1, dtype=np.int32)
    start = np.cumsum(count) - count
    copy = np.arange(len(order)) - np.repeat(start, count)
    output[key[order], copy] = links.output_of[graph.edge_link[order]]
    dimension = np.full(len(links.in_link), grid.NO_DIMENSION, dtype=np.uint8)
    dimension[links.input_of[graph.edge_link]] = d
    return grid.Grid(
        where.astype(np.int16, order="C"), size.astype(np.int32), kind.astype(np.int32),
        first.astype(np.int32), output.reshape(graph.num_rows, -1, cables), dimension,
        graph.destination_row[: links.ends], np.array([ties == "random", 0], dtype=np.int32),
    )  # fmt: skip


def _labels(fabric: Fabric) -> NDArray[np.int32]:
    """Return the coordinates of rows: the fabric's labels if they fit, or else from its cables."""
    graph = fabric.graph
    labels = fabric.coordinates[graph.row_node]
    if labels.shape[1] and (labels >= 0).all():
        labels = labels[:, labels.max(axis=0) > 0]
        apart = (labels[graph.edge_tail] != labels[graph.edge_row]).sum(axis=1)
        if labels.shape[1] and (apart == 1).all() and len(np.unique(labels, axis=0)) == len(labels):
            return labels
    try:
        return find_grid(fabric)
    except NotApplicable:
        pass
    tori = find_tori(fabric)
    if len(tori) != 1 or not tori[0].radix:
        raise NotApplicable("the switches do not form one mesh, torus or HyperX")
    coordinate = np.empty_like(tori[0].coordinate)
    coordinate[tori[0].rows] = tori[0].coordinate
    return coordinate


def _kind(x: NDArray[np.int32], y: NDArray[np.int32], size: int) -> int:
    """Return the kind of a dimension from the coordinates at both ends of its cables."""
    apart = np.abs(x - y)
    if size <= 3:
        return grid.FULL if size == 3 and (apart == 2).any() else grid.LINE
    if ((apart == 1) | (apart == size - 1)).all():
        return grid.RING if (apart == size - 1).any() else grid.LINE
    return grid.FULL


def _expected(
    where: NDArray[np.int32], size: NDArray[np.int32], kind: NDArray[np.int64], width: NDArray[Any]
) -> NDArray[np.bool_]:
    """Return whether each row has a neighbour by each column, [rows, columns]."""
    parts = []
    for d, each in enumerate(kind):
        own = where[:, d, None]
        if each == grid.FULL:
            parts.append(own != np.arange(size[d]))
        elif each == grid.RING:
            parts.append(np.ones((len(where), 2), dtype=bool))
        else:
            parts.append(np.hstack([own < size[d] - 1, own > 0]))
    return np.hstack(parts)


def _text(size: NDArray[np.int32]) -> str:
    return "x".join(map(str, size))
