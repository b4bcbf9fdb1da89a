"""Recognition of a fat tree in a fabric without labels.

Names, GUIDs and the order of ports are not used, since real fabrics come from discovery.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.levels import hosts_of_rows, tree_levels


@dataclass(frozen=True, eq=False)
class FatTree:
    """A parallel-ports generalised fat tree, PGFT(h; m; w; p)."""

    #: Number of children, of parents and of parallel cables at each level, from level 1 (hosts to
    #: leaf switches) upwards.
    m: tuple[int, ...]
    w: tuple[int, ...]
    p: tuple[int, ...]
    #: int16 [rows]: level, 1 for leaf switches.
    level: NDArray[np.int16]
    #: int32 [endpoints]: position of a host's endpoint in an order in which the hosts of every
    #: subtree are consecutive; -1 for endpoints that are not a host's.
    rank: NDArray[np.int32]
    #: int32 [rows]: position (see `rank`) of the first host below each row, and the position after
    #: the last host.
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    #: Upward edges of each row, ordered by parallel cable, then parent; and downward edges, ordered
    #: by child, then parallel cable.
    up_edges: tuple[NDArray[np.int32], ...]
    down_edges: tuple[NDArray[np.int32], ...]


def find_levels(fabric: Fabric) -> NDArray[np.int16]:
    """Return the level of each row of a tree without exceptions, 1 for leaf switches.

    Leaf switches may be idle, and cables may be missing.
    """
    graph = fabric.graph
    if graph.num_rows == 0 or fabric.num_hosts == 0:
        raise NotApplicable("a fat tree needs switches and hosts")
    if graph.num_rows != fabric.num_switches:
        raise NotApplicable("hosts of a fat tree do not forward")
    level, hosts = tree_levels(fabric), hosts_of_rows(fabric)
    names = fabric.node_names
    for row in np.flatnonzero(~np.isin(graph.components, graph.components[hosts > 0]))[:1]:
        raise NotApplicable(f"switch {names[row]} is not connected to any host")
    step = np.abs(level[graph.edge_row] - level[graph.edge_tail])
    for edge in np.flatnonzero(step != 1)[:1]:
        ends = np.sort(level[[graph.edge_tail[edge], graph.edge_row[edge]]]).tolist()
        levels = f"level {ends[0]}" if step[edge] == 0 else f"levels {ends[0]} and {ends[1]}"
        raise NotApplicable(
            f"this is not a fat tree: {fabric.cable_name(int(graph.edge_link[edge]) >> 1)} "
            f"connects two switches of {levels}"
        )
    for row in np.flatnonzero((hosts > 0) & (level != 1))[:1]:
        raise NotApplicable(
            f"this is not a fat tree: hosts are attached to switch {names[row]} of level "
            f"{level[row]}, but most hosts to switches of level 1"
        )
    return level.astype(np.int16)


def find_fat_tree(fabric: Fabric) -> FatTree:
    """Find the parameters and the order of a complete fat tree.

    Returns the parameters, and an order of hosts, children and parents that makes the routes of a
    complete PGFT independent of its labels.

    Raises `NotApplicable` if the fabric is not a complete PGFT: a missing cable or host, uneven
    levels, or cables between subtrees. The message names the first difference.

    The subtrees of level l are the connected components of the fabric without the switches above
    level l. Sources: Zahavi 2010 (PGFT), Öhring et al. 1995 (XGFT).
    """
    level = find_levels(fabric)
    height = int(level.max())
    hosts, leaf = _single_port_hosts(fabric)
    subtree = _subtrees(fabric, level, height)
    rank = np.full(fabric.num_endpoints, -1, dtype=np.int32)
    rank[hosts[_host_order(subtree, leaf)]] = np.arange(len(hosts), dtype=np.int32)
    start, end = _runs(level, subtree, leaf, rank[hosts])

    graph = fabric.graph
    rows_of = [np.flatnonzero(level == at) for at in range(height + 1)]
    per_leaf = np.bincount(leaf, minlength=graph.num_rows)[rows_of[1]]
    m, w, p = [_one_value(per_leaf, "hosts on a leaf switch", 1)], [1], [1]
    plane = np.arange(graph.num_rows)
    up: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)] * graph.num_rows
    down: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)] * graph.num_rows
    shape: list[tuple[int, int, int]] = []
    for above in range(height, 1, -1):
        downs = [_neighbours(fabric, level, row, above - 1, start) for row in rows_of[above]]
        ups = [_neighbours(fabric, level, row, above, plane) for row in rows_of[above - 1]]
        copies = np.concatenate([counts for _, counts in (*downs, *ups)])
        parallel = _one_value(copies, "parallel cables between two switches", above)
        children = _one_value(np.array([len(c) for _, c in downs]), "children", above)
        parents = _one_value(np.array([len(c) for _, c in ups]), "parents", above - 1)
        for row, (edges, _) in zip(rows_of[above], downs, strict=True):
            down[row] = edges
        for row, (edges, _) in zip(rows_of[above - 1], ups, strict=True):
            # Order by parallel cable, then parent: every parent is used before second cables are.
            up[row] = edges.reshape(parents, parallel).T.reshape(-1)
            # Switches with the same parents are in one plane, siblings in different planes.
            plane[row] = plane[graph.edge_row[edges]].min()
        shape.append((children, parents, parallel))
    for children, parents, parallel in reversed(shape):
        m.append(children)
        w.append(parents)
        p.append(parallel)
    tree = FatTree(tuple(m), tuple(w), tuple(p), level, rank, start, end, tuple(up), tuple(down))
    _check_complete(fabric, tree)
    return tree


def _single_port_hosts(fabric: Fabric) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Return the endpoints of the hosts and the rows that they are attached to."""
    row = fabric.graph.destination_row[: fabric.num_endpoints]
    of_host = fabric.endpoint_node < fabric.num_switches + fabric.num_hosts
    hosts = np.flatnonzero(of_host & (row >= 0))
    if len(np.unique(fabric.endpoint_node[hosts])) != fabric.num_hosts:
        raise NotApplicable("a host has no cable to a switch")
    if len(hosts) != fabric.num_hosts:
        raise NotApplicable("a host of a fat tree has one cabled port; some hosts have several")
    return hosts, row[hosts]


def _subtrees(fabric: Fabric, level: NDArray[np.int16], height: int) -> NDArray[np.int64]:
    """Return each row's component without the switches above each level, [levels + 1, rows]."""
    graph = fabric.graph
    subtree = np.zeros((height + 1, graph.num_rows), dtype=np.int64)
    for top in range(1, height + 1):
        inside = (level[graph.edge_tail] <= top) & (level[graph.edge_row] <= top)
        ends = (graph.edge_tail[inside], graph.edge_row[inside])
        matrix = coo_array(
            (np.ones(len(ends[0]), dtype=np.uint8), ends), shape=(graph.num_rows,) * 2
        )
        subtree[top] = connected_components(matrix, directed=False)[1]
    return subtree


def _host_order(subtree: NDArray[np.int64], leaf: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the hosts by index, except that the hosts of each subtree are consecutive."""
    count = len(leaf)
    keys = [np.arange(count)]
    for component in subtree[1:]:
        first = np.full(int(component.max()) + 1, count, dtype=np.int64)
        np.minimum.at(first, component[leaf], np.arange(count))
        keys.append(first[component[leaf]])
    return np.lexsort(keys)


def _runs(
    level: NDArray[np.int16],
    subtree: NDArray[np.int64],
    leaf: NDArray[np.int32],
    rank: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the position of the first host below each row, and the position after the last."""
    start = np.zeros(len(level), dtype=np.int32)
    end = np.zeros(len(level), dtype=np.int32)
    for top, component in enumerate(subtree):
        low = np.full(int(component.max()) + 1, len(rank), dtype=np.int32)
        high = np.zeros(int(component.max()) + 1, dtype=np.int32)
        np.minimum.at(low, component[leaf], rank)
        np.maximum.at(high, component[leaf], rank + 1)
        here = level == top
        start[here], end[here] = low[component[here]], high[component[here]]
    return start, end


def _neighbours(
    fabric: Fabric, level: NDArray[np.int16], row: Any, at: int, key: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return a row's edges to one level and the number of parallel cables to each neighbour.

    The edges are ordered by the neighbour's key, neighbour and port.
    """
    graph = fabric.graph
    edges = np.arange(graph.edge_offset[row], graph.edge_offset[row + 1], dtype=np.int32)
    edges = edges[level[graph.edge_row[edges]] == at]
    heads = graph.edge_row[edges]
    edges = edges[np.lexsort((graph.edge_port[edges], heads, key[heads]))]
    return edges, np.unique(heads, return_counts=True)[1].astype(np.int64)


def _one_value(values: NDArray[np.integer[Any]], what: str, level: int) -> int:
    low, high = int(values.min(initial=2**31)), int(values.max(initial=0))
    if low != high:
        raise _incomplete(f"level {level} has from {low} to {high} {what}")
    return low


def _incomplete(reason: str) -> NotApplicable:
    return NotApplicable(f"this is not a complete fat tree: {reason}", reason)


def _check_complete(fabric: Fabric, tree: FatTree) -> None:
    """Refuse a fabric whose counts or subtrees contradict the parameters of the tree."""
    height = len(tree.m)
    if prod(tree.m) != fabric.num_hosts:
        raise _incomplete(f"children {tree.m} make {prod(tree.m)} hosts, not {fabric.num_hosts}")
    for at in range(1, height + 1):
        expected = prod(tree.m[at:]) * prod(tree.w[:at])
        count = int((tree.level == at).sum())
        size = prod(tree.m[:at])
        runs = (tree.end - tree.start)[tree.level == at]
        if count != expected or np.any(runs != size):
            raise _incomplete(
                f"level {at} has {count} switches over {runs.min()} to {runs.max()} hosts each, "
                f"not {expected} over {size}"
            )
    for row in np.flatnonzero(tree.level > 1):
        heads = fabric.graph.edge_row[tree.down_edges[row][:: tree.p[tree.level[row] - 1]]]
        if np.any(tree.start[heads][1:] != tree.end[heads][:-1]):
            name = fabric.node_names[fabric.graph.row_node[row]]
            raise NotApplicable(f"switch {name} does not have exactly one child in each subtree")
