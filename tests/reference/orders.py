"""Plain twins of up*/down* search, OpenSM's counting and D-mod-K, from their definitions."""

from __future__ import annotations

from math import prod

import networkx as nx
import numpy as np

from tests.reference.routing import destinations, out_link, switch_graph
from weft.fabrics import Fabric


def legal_distances(fabric: Fabric, up: dict[int, bool], goal: int) -> dict[int, tuple[int, bool]]:
    """Node -> (links to the goal, only downwards) of the path that a table can hold for it.

    By rounds of growing distance a node takes the first legal way there is, a downward one before
    one that climbs; when that strands a node that the order connects, nodes with a downward way
    take that and the others climb to the nearest.
    """
    graph = switch_graph(fabric)
    found = {goal: (0, True)}
    frontier = [goal]
    distance = 0
    while frontier:
        distance += 1
        fresh: dict[int, bool] = {}
        for climbing in (False, True):
            for node, _, link in graph.in_edges(frontier, keys=True):
                head = int(fabric.link_to[link])
                if node in found or node in fresh or up[link] != climbing:
                    continue
                if climbing or found[head][1]:
                    fresh[node] = not climbing
        found |= {node: (distance, down) for node, down in fresh.items()}
        frontier = list(fresh)
    component = nx.node_connected_component(graph.to_undirected(), goal)
    if len(found) == len(component):
        return found
    descending = nx.DiGraph()
    descending.add_nodes_from(graph)
    descending.add_edges_from((a, b) for a, b, link in graph.edges(keys=True) if not up[link])
    below = nx.single_source_shortest_path_length(descending.reverse(), goal)
    found = {node: (length, True) for node, length in below.items()}
    climbing_graph = nx.DiGraph()
    climbing_graph.add_nodes_from(graph)
    climbing_graph.add_edges_from((a, b) for a, b, link in graph.edges(keys=True) if up[link])
    changed = True
    while changed:
        changed = False
        for node in climbing_graph:
            if node in below:
                continue
            ways = [found[head][0] + 1 for head in climbing_graph[node] if head in found]
            if ways and found.get(node, (10**9, False))[0] > min(ways):
                found[node] = (min(ways), False)
                changed = True
    return found


def next_links(
    fabric: Fabric, up: dict[int, bool] | None, goal: int
) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Links that a shortest (legal) path to the goal may leave each node by, and distances."""
    graph = switch_graph(fabric)
    if up is None:
        distance = nx.single_source_shortest_path_length(graph, goal)
        ways = {
            node: [k for _, head, k in graph.out_edges(node, keys=True)
                   if distance[head] == distance[node] - 1]
            for node in distance
        }  # fmt: skip
        return ways, distance
    found = legal_distances(fabric, up, goal)
    ways = {}
    for node, (length, down) in found.items():
        ways[node] = [
            link
            for _, head, link in graph.out_edges(node, keys=True)
            if head in found
            and found[head][0] == length - 1
            and up[link] == (not down)
            and (up[link] or found[head][1])
        ]
    return ways, {node: length for node, (length, _) in found.items()}


def counted_tables(fabric: Fabric, up: dict[int, bool] | None) -> np.ndarray:
    """OpenSM's choice: by port, the fewest adapters already sent that way, then the lowest port."""
    rows = {int(node): row for row, node in enumerate(np.flatnonzero(fabric.forwards))}
    places = destinations(fabric)
    endpoints = sum(node >= fabric.num_switches for node, _ in places)

    def leaf(place: tuple[int, int]) -> tuple[int, int]:
        node, port = place
        if port == 0:
            return node, 0
        link = out_link(fabric, node, port)
        return int(fabric.link_to[link]), int(fabric.link_to_port[link])

    ends = [leaf(place) for place in places]
    adapters = dict.fromkeys(rows, 0)
    for node, _ in ends[:endpoints]:
        if node in adapters:
            adapters[node] += 1
    order = sorted(
        (d for d in range(len(places)) if ends[d][0] in rows),
        key=lambda d: (
            d >= endpoints,
            -adapters[ends[d][0]],
            int(fabric.node_guid[ends[d][0]]).to_bytes(8, "little"),
            ends[d][1],
        ),
    )
    table = np.full((len(places), len(rows)), 255, dtype=np.uint8)
    behind = dict.fromkeys(range(fabric.num_links), 0)
    for d in order:
        goal, port = ends[d]
        ways, _ = next_links(fabric, up, goal)
        table[d, rows[goal]] = port
        for node, links in ways.items():
            if node == goal or not links:
                continue
            best = min(links, key=lambda link: (behind[link], fabric.link_from_port[link]))
            table[d, rows[node]] = fabric.link_from_port[best]
            behind[best] += d < endpoints
    return table


def dmodk_next(fabric: Fabric, switch: int, host: int) -> tuple[int, int | None]:
    """(level, index) of D-mod-K's next hop on a generated XGFT, by its coordinates.

    Going up, the index of the parent; going down, None, for there is one way only.
    """
    w = fabric.parameters["w"]
    level = int(fabric.level[switch])
    target = fabric.coordinates[fabric.num_switches + host]
    if all(fabric.coordinates[switch][level:] == target[level:]):
        return level - 1, None
    return level + 1, (host // prod(w[:level])) % w[level]
