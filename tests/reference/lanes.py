"""Reference implementations of sssp, and of lanes by first fit with a cycle search per path."""

from __future__ import annotations

import heapq
from itertools import pairwise

import networkx as nx
import numpy as np

from tests.reference.routing import out_link, switch_graph
from weft.fabrics import Fabric
from weft.routing.routes import TableRoutes


def counted_paths(
    fabric: Fabric, routes: TableRoutes, management: bool
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return (row, LID) -> dependencies of the path from row to LID, as pairs of links."""
    nodes = [int(node) for node in np.flatnonzero(fabric.forwards)]
    row_of = {node: row for row, node in enumerate(nodes)}
    goals = fabric.graph.destination_row
    sources = set(goals[: fabric.num_host_endpoints].tolist()) - {-1}
    last = fabric.num_host_endpoints
    if management:
        sources, last = set(range(len(nodes))), fabric.num_destinations
    paths = {}
    for destination in range(last):
        if goals[destination] < 0:
            continue
        for lid in range(destination << routes.lmc, (destination + 1) << routes.lmc):
            for source in sources:
                links: list[int] = []
                node = nodes[source]
                while True:
                    link = out_link(fabric, node, int(routes.table[lid, row_of[node]]))
                    if link < 0 or int(fabric.link_to[link]) not in row_of:
                        break
                    links.append(link)
                    node = int(fabric.link_to[link])
                paths[source, lid] = list(pairwise(links))
    return paths


def are_acyclic(paths: dict[tuple[int, int], list[tuple[int, int]]], sl: np.ndarray) -> bool:
    """Return whether the dependencies of the paths on each lane have no cycle."""
    lanes: dict[int, nx.DiGraph] = {}
    for (row, lid), waits in paths.items():
        lanes.setdefault(int(sl[row, lid]), nx.DiGraph()).add_edges_from(waits)
    return all(nx.is_directed_acyclic_graph(graph) for graph in lanes.values())


def first_fit(paths: dict[tuple[int, int], list[tuple[int, int]]]) -> int:
    """Return the number of lanes if each path, in order of LID, takes the first acyclic lane."""
    lanes: list[nx.DiGraph] = [nx.DiGraph()]
    for _, waits in sorted(paths.items(), key=lambda item: (item[0][1], item[0][0])):
        for number in range(len(lanes) + 1):
            if number == len(lanes):
                lanes.append(nx.DiGraph())
            fresh = [wait for wait in waits if not lanes[number].has_edge(*wait)]
            lanes[number].add_edges_from(fresh)
            if not fresh or nx.is_directed_acyclic_graph(lanes[number]):
                break
            lanes[number].remove_edges_from(fresh)
    return len(lanes)


def least_weights(weights: dict[int, int], fabric: Fabric, goal: int) -> dict[int, int]:
    """Return node -> least total weight of links from the goal to the node, if it is reached."""
    graph = switch_graph(fabric)
    best = {goal: 0}
    queue = [(0, goal)]
    while queue:
        here, node = heapq.heappop(queue)
        if here > best[node]:
            continue
        for _, head, link in graph.out_edges(node, keys=True):
            distance = here + weights[link]
            if distance < best.get(head, distance + 1):
                best[head] = distance
                heapq.heappush(queue, (distance, head))
    return best


def sssp_is_cheapest(fabric: Fabric, routes: TableRoutes) -> None:
    """Replay OpenSM's sssp: every path must have least weight when it was chosen.

    Which of several paths of least weight was chosen is not checked.
    """
    graph = fabric.graph
    nodes = [int(node) for node in np.flatnonzero(fabric.forwards)]
    row_of = {node: row for row, node in enumerate(nodes)}
    adapters = [0] * len(nodes)
    for row in graph.destination_row[: fabric.num_endpoints].tolist():
        if row >= 0:
            adapters[row] += 1
    weight_of = [(count << routes.lmc) + 1 for count in adapters]
    weights = dict.fromkeys(range(fabric.num_links), sum(weight_of) ** 2)

    def service_order(destination: int) -> tuple[bool, int, int, int]:
        row = int(graph.destination_row[destination])
        link = int(graph.destination_link[destination])
        port = 0 if link < 0 else int(fabric.link_from_port[link])
        guid = int(fabric.node_guid[nodes[row]].byteswap())
        return destination >= fabric.num_endpoints, -weight_of[row], guid, port

    reachable = [d for d in range(fabric.num_destinations) if graph.destination_row[d] >= 0]
    for destination in sorted(reachable, key=service_order):
        # A row has one LID with any LMC; the lines of its other offsets are copies.
        lines = 1 if graph.destination_link[destination] < 0 else 1 << routes.lmc
        first, end = destination << routes.lmc, (destination + 1) << routes.lmc
        assert (routes.table[first + lines : end] == routes.table[first]).all()
        for lid in range(first, first + lines):
            goal = nodes[graph.destination_row[destination]]
            best = least_weights(weights, fabric, goal)
            gains: dict[int, int] = {}
            for row, start in enumerate(nodes):
                if start not in best:
                    assert routes.table[lid, row] == routes.no_path
                    continue
                node, total = start, 0
                while node != goal:
                    link = out_link(fabric, node, int(routes.table[lid, row_of[node]]))
                    total += weights[link ^ 1]
                    gains[link ^ 1] = gains.get(link ^ 1, 0) + weight_of[row]
                    node = int(fabric.link_to[link])
                assert total == best[start]
            for link, gain in gains.items():
                weights[link] += gain
