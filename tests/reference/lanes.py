"""Plain twins: lanes by first fit, a new search for cycles each time, and the trees of sssp."""

from __future__ import annotations

import heapq
from itertools import pairwise

import networkx as nx
import numpy as np

from tests.reference.routing import out_link, switch_graph
from weft.fabrics import Fabric
from weft.routes import TableRoutes


def counted_ways(
    fabric: Fabric, routes: TableRoutes, management: bool
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """(row, LID) -> the dependencies of that way, as pairs of links between forwarding nodes."""
    nodes = [int(node) for node in np.flatnonzero(fabric.forwards)]
    row_of = {node: row for row, node in enumerate(nodes)}
    goals = fabric.graph.destination_row
    sources = set(goals[: fabric.num_host_endpoints].tolist()) - {-1}
    last = fabric.num_host_endpoints
    if management:
        sources, last = set(range(len(nodes))), fabric.num_destinations
    ways = {}
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
                ways[source, lid] = list(pairwise(links))
    return ways


def are_acyclic(ways: dict[tuple[int, int], list[tuple[int, int]]], sl: np.ndarray) -> bool:
    """The dependencies of the ways of each lane have no cycle."""
    lanes: dict[int, nx.DiGraph] = {}
    for (row, lid), waits in ways.items():
        lanes.setdefault(int(sl[row, lid]), nx.DiGraph()).add_edges_from(waits)
    return all(nx.is_directed_acyclic_graph(graph) for graph in lanes.values())


def first_fit(ways: dict[tuple[int, int], list[tuple[int, int]]]) -> int:
    """Lanes when every way goes to the first that takes it, in the order of the LIDs."""
    lanes: list[nx.DiGraph] = [nx.DiGraph()]
    for _, waits in sorted(ways.items(), key=lambda item: (item[0][1], item[0][0])):
        for number in range(len(lanes) + 1):
            if number == len(lanes):
                lanes.append(nx.DiGraph())
            fresh = [wait for wait in waits if not lanes[number].has_edge(*wait)]
            lanes[number].add_edges_from(fresh)
            if not fresh or nx.is_directed_acyclic_graph(lanes[number]):
                break
            lanes[number].remove_edges_from(fresh)
    return len(lanes)


def heaviest_tree(weights: dict[int, int], fabric: Fabric, goal: int) -> dict[int, int]:
    """Least weight from the goal outwards to every node, of links named in that direction."""
    graph = switch_graph(fabric)
    best = {goal: 0}
    queue = [(0, goal)]
    while queue:
        here, node = heapq.heappop(queue)
        if here > best[node]:
            continue
        for _, head, link in graph.out_edges(node, keys=True):
            there = here + weights[link]
            if there < best.get(head, there + 1):
                best[head] = there
                heapq.heappush(queue, (there, head))
    return best


def sssp_is_cheapest(fabric: Fabric, routes: TableRoutes) -> None:
    """Replay OpenSM's sssp: every way must weigh least when it was chosen.

    Which of several ways of least weight was taken is not looked at, only that it is one.
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

    def turn(destination: int) -> tuple[bool, int, int, int]:
        row = int(graph.destination_row[destination])
        link = int(graph.destination_link[destination])
        port = 0 if link < 0 else int(fabric.link_from_port[link])
        guid = int(fabric.node_guid[nodes[row]].byteswap())
        return destination >= fabric.num_endpoints, -weight_of[row], guid, port

    known = [d for d in range(fabric.num_destinations) if graph.destination_row[d] >= 0]
    for destination in sorted(known, key=turn):
        for lid in range(destination << routes.lmc, (destination + 1) << routes.lmc):
            goal = nodes[graph.destination_row[destination]]
            best = heaviest_tree(weights, fabric, goal)
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
