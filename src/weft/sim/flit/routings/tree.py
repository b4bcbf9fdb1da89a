"""Routings of fat trees: to a nearest common ancestor, and down to the destination."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.kernels.flit.routing import tree
from weft.routing.structure.folded_clos import FoldedClos, find_folded_clos
from weft.sim.flit import routing
from weft.sim.flit.network import Links
from weft.sim.flit.routings.routing_registry import Routing


@routing("nca-random", lanes=1)
def nca_random(links: Links, lanes: int) -> Routing:
    """Up a fat tree by random cables to a nearest common ancestor, then down."""
    return Routing("nca-random", tree.route_random, coordinates(links))


@routing("nca-adaptive", lanes=1)
def nca_adaptive(links: Links, lanes: int) -> Routing:
    """Up a fat tree by the least loaded cables to a nearest common ancestor, then down."""
    return Routing("nca-adaptive", tree.route_adaptive, coordinates(links), adaptive=True)


def coordinates(links: Links) -> tree.Tree:
    """Return the coordinates of the switches of a complete fat tree."""
    fabric, graph = links.fabric, links.fabric.graph
    clos = find_folded_clos(fabric)
    if not clos.complete:
        raise NotApplicable(
            "nearest common ancestors need a fat tree without missing cables; use an engine's "
            "tables"
        )
    position = _positions(clos)
    rows = np.zeros(graph.num_rows, dtype=tree.TREE)
    rows["low"], rows["high"] = np.iinfo(np.int32).max, -1
    rows["low"][clos.leaf_row], rows["high"][clos.leaf_row] = position, position + 1
    up = clos.level[graph.edge_tail] < clos.level[graph.edge_row]
    for level in range(1, int(clos.level.max())):
        edges = np.flatnonzero(up & (clos.level[graph.edge_tail] == level))
        child, parent = graph.edge_tail[edges], graph.edge_row[edges]
        np.minimum.at(rows["low"], parent, rows["low"][child])
        np.maximum.at(rows["high"], parent, rows["high"][child])
    tail, head = graph.edge_tail, graph.edge_row
    # Outputs of a row: downwards in the order of the leaf switches below, then upwards.
    key = np.where(up, np.int64(2**40), rows["low"][head].astype(np.int64))
    order = np.lexsort((np.arange(len(up)), key, tail))
    output = links.output_of[graph.edge_link[order]]
    downs = np.bincount(tail[~up], minlength=graph.num_rows)
    rows["width"] = np.bincount(tail[up], minlength=graph.num_rows)
    rows["down"] = graph.edge_offset[:-1]
    rows["up"] = rows["down"] + downs
    inner = np.flatnonzero(downs)
    first = head[order][rows["down"][inner]]
    rows["span"][inner] = rows["high"][first] - rows["low"][first]
    spans = rows["high"][inner] - rows["low"][inner]
    rows["parallel"][inner] = downs[inner] * rows["span"][inner] // spans
    _check_regular(
        rows, inner, downs, np.where(up, 0, rows["high"][head] - rows["low"][head]), tail
    )
    # Hosts are the children of leaf switches, with as many places as the largest one needs.
    leaf = position[clos.leaf_of_row[graph.destination_row[: links.ends]]].astype(np.int64)
    most, order = int(np.bincount(leaf).max()), np.argsort(leaf, kind="stable")
    place = leaf * most
    place[order] += np.arange(len(leaf)) - np.searchsorted(leaf, leaf[order], sorter=order)
    for name in ("low", "high"):
        rows[name] *= most
    rows["span"] = np.maximum(rows["span"] * most, 1)
    rows["parallel"][clos.leaf_row] = 1
    rows["down"][clos.leaf_row] = len(output) + rows["low"][clos.leaf_row]
    ejection = np.full(len(position) * most, -1)
    ejection[place] = links.inputs["tail"][: len(leaf)]
    return tree.Tree(rows, np.append(output, ejection).astype(np.int32), place.astype(np.int32))


def _positions(clos: FoldedClos) -> NDArray[np.int32]:
    """Return the position of each leaf switch, such that those of every subtree are consecutive."""
    keys = np.vstack([np.arange(len(clos.leaf_row)), *(stage.subtree for stage in clos.stages)])
    position = np.empty(len(clos.leaf_row), dtype=np.int32)
    position[np.lexsort(keys)] = np.arange(len(clos.leaf_row))
    return position


def _check_regular(
    rows: NDArray[Any],
    inner: NDArray[np.int64],
    downs: NDArray[np.int64],
    span: NDArray[np.int64],
    tail: NDArray[np.int32],
) -> None:
    """Refuse a switch whose children differ in size or in cables.

    `rows`: `TREE` of each row. `inner`, `downs`: rows with children, and the number of edges
    downwards of each row. `span`, `tail` [edges]: leaf switches below the child that an edge leads
    to, 0 for edges upwards; and the row at its tail.
    """
    different = span[span > 0] != rows["span"][tail[span > 0]]
    uneven = rows["parallel"][inner] * (rows["high"] - rows["low"])[inner] != (
        downs[inner] * rows["span"][inner]
    )
    if different.any() or uneven.any():
        raise NotApplicable(
            "nearest common ancestors need a fat tree whose subtrees of a level are equal"
        )
