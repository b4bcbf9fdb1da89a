"""Reference implementations of groups of ports: legal minimal paths, and tables of switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx
import numpy as np

from weft.fabrics import Fabric
from weft.routing.routes import TableRoutes

Ports = frozenset[int]


def climbing_order(fabric: Fabric, roots: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return for each row its distance to the nearest root, then its GUID, highest first."""
    graph = row_graph(fabric)
    hops = nx.multi_source_dijkstra_path_length(graph, set(roots), weight=None) if roots else {}
    guid = fabric.node_guid[fabric.graph.row_node].tolist()
    return {row: (hops.get(row, graph.number_of_nodes()), -guid[row]) for row in graph}


def row_graph(fabric: Fabric) -> nx.MultiDiGraph:
    """Return the rows and the cables between them, one edge per direction, keyed by its port."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(fabric.graph.num_rows))
    row_of = {node: row for row, node in enumerate(np.flatnonzero(fabric.forwards).tolist())}
    for tail, port, head, _, _ in fabric.links.tolist():
        if tail in row_of and head in row_of:
            graph.add_edge(row_of[tail], row_of[head], key=port)
    return graph


def legal_groups(fabric: Fabric, roots: Sequence[int], target: int) -> dict[int, Ports]:
    """Return the ports by which each row may send to a target, on paths up and then down.

    Rows are settled by distance; at each distance, rows that need only go down come first. If rows
    that could go up are left over, all rows that can only go down do so, whatever the distance.
    """
    graph, order = row_graph(fabric), climbing_order(fabric, roots)
    up = nx.MultiDiGraph((a, b, key) for a, b, key in graph.edges(keys=True) if order[b] < order[a])
    down = nx.MultiDiGraph((a, b, k) for a, b, k in graph.edges(keys=True) if order[b] >= order[a])
    for part in (up, down):
        part.add_nodes_from(graph)
    far, falls = {target: 0}, {target}
    for distance in range(len(graph)):
        for part in (down, up):
            settled = [row for row, hops in far.items() if hops == distance]
            ends = [row for row in settled if part is up or row in falls]
            reached = {row for end in ends for row in part.predecessors(end)} - far.keys()
            far |= dict.fromkeys(reached, distance + 1)
            falls |= reached if part is down else set()
    if len(far) < len(nx.node_connected_component(graph.to_undirected(), target)):
        far = dict(nx.single_source_shortest_path_length(down.reverse(), target))
        falls = set(far)
        above = up.copy()
        above.remove_edges_from(list(up.out_edges(falls, keys=True)))
        climbs = {
            row: min(hops + far[top] for top, hops in reach.items() if top in falls)
            for row, reach in nx.all_pairs_shortest_path_length(above)
            if row not in falls and falls & reach.keys()
        }
        far |= climbs
    return {
        row: frozenset(
            key
            for _, head, key in (down if row in falls else up).out_edges(row, keys=True)
            if far.get(head) == far[row] - 1 and (row not in falls or head in falls)
        )
        for row in far
        if row != target
    }


def union_of_entries(
    fabric: Fabric,
    static: TableRoutes,
    groups: Sequence[Mapping[int, Sequence[int]]],
    group_of: np.ndarray,
    target: int,
) -> dict[int, Ports]:
    """Return the ports by which each row sends to the LIDs of the adapters of a target row."""
    rows = np.flatnonzero(fabric.forwards).tolist()
    attached = fabric.graph.destination_row.tolist()
    lids = [lid for lid in range(len(group_of)) if attached[lid >> static.lmc] == target]
    adapters = [lid for lid in lids if lid >> static.lmc < fabric.num_endpoints]
    cabled = row_graph(fabric)
    result = {}
    for row in range(len(rows)):
        inner = {key for _, _, key in cabled.out_edges(row, keys=True)}
        taken: set[int] = set()
        for lid in adapters or lids:
            number = int(group_of[lid, row])
            taken |= set(groups[row][number]) if number >= 0 else {int(static.table[lid, row])}
        if row != target and taken & inner:
            result[row] = frozenset(taken & inner)
    return result
