"""Reference implementations of dimension-order routing and of the factorisation of a graph."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import networkx as nx
import numpy as np

from tests.reference.routing import destinations, switch_graph
from weft.fabrics import Fabric


def factors(graph: nx.Graph) -> list[set[frozenset[int]]]:
    """Return the edges of each Cartesian factor, by Winkler's relation and missing squares."""
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    related = nx.Graph()
    edges = [tuple(edge) for edge in graph.edges]
    related.add_nodes_from(frozenset(edge) for edge in edges)
    for (x, y), (u, v) in combinations(edges, 2):
        if distance[x][u] + distance[y][v] != distance[x][v] + distance[y][u]:
            related.add_edge(frozenset((x, y)), frozenset((u, v)))
    for x in graph:
        for y, z in combinations(graph[x], 2):
            if set(graph[y]) & set(graph[z]) == {x}:
                related.add_edge(frozenset((x, y)), frozenset((x, z)))
    return list(nx.connected_components(related))


def tables(
    fabric: Fabric,
    lmc: int,
    dimension: dict[frozenset[int], int] | None,
    present: np.ndarray | None = None,
) -> np.ndarray:
    """Return the port of each LID and row; without dimensions, lower ports come first.

    Ports of `present` tables on shortest paths are kept.
    """
    graph = switch_graph(fabric)
    plain = nx.Graph(graph)
    rows = [int(node) for node in np.flatnonzero(fabric.forwards)]
    node_ports = destinations(fabric)
    attached: list[tuple[int, int] | None] = []
    for node, port in node_ports:
        if fabric.forwards[node]:
            attached.append((node, 0))
            continue
        link = int(fabric.port_link[fabric.port_offset[node] + port - 1])
        head = int(fabric.link_to[link])
        on = (head, int(fabric.link_to_port[link]))
        attached.append(on if fabric.forwards[head] else None)
    adapters = Counter(place[0] for place in attached[: fabric.num_endpoints] if place)

    def service_order(row: int) -> tuple[int, bytes]:
        return -adapters[row], int(fabric.node_guid[row]).to_bytes(8, "little")

    order = [
        number
        for row in sorted(rows, key=service_order)
        for number in sorted(
            (n for n, place in enumerate(attached) if place and place[0] == row),
            key=lambda n: (attached[n] or (0, 0))[1],
        )
    ]
    hosts = [n for n in order if n < fabric.num_endpoints]
    switches = [n for n in order if n >= fabric.num_endpoints]
    table = np.full((len(node_ports) << lmc, len(rows)), 255)
    distance = dict(nx.all_pairs_shortest_path_length(plain))
    ports: dict[int, list[tuple[int, int]]] = {row: [] for row in rows}
    for row, head, link in graph.edges(keys=True):
        ports[row].append((int(fabric.link_from_port[link]), head))
    ports = {row: sorted(pairs) for row, pairs in ports.items()}
    behind: Counter[tuple[int, int]] = Counter()
    for offset, numbers in [(0, hosts), (0, switches), *((o, hosts) for o in range(1, 1 << lmc))]:
        for number in numbers:
            target, last = attached[number] or (-1, -1)
            lids = [(number << lmc) + offset]
            if numbers is switches:
                lids = list(range(number << lmc, (number + 1) << lmc))
            for column, row in enumerate(rows):
                if row == target:
                    table[lids, column] = last
                    continue
                if target not in distance[row]:
                    continue
                near = [
                    (port, head)
                    for port, head in ports[row]
                    if head != row and distance[head][target] < distance[row][target]
                ]
                if dimension is None:
                    best = [port for port, head in near if head == near[0][1]]
                else:
                    dimensions = {port: dimension[frozenset((row, head))] for port, head in near}
                    best = [
                        port for port in dimensions if dimensions[port] == min(dimensions.values())
                    ]
                least = min(behind[row, port] for port in best)
                taken = Counter(table[number << lmc : (number << lmc) + offset, column].tolist())
                port = _choose(best, {p: behind[row, p] for p in best}, taken)
                assert behind[row, port] == least
                kept = 255 if present is None else present[lids[0], column]
                port = kept if kept in dict(near) else port
                table[lids, column] = port
                if numbers is hosts:
                    behind[row, port] += 1
    return table


def _choose(ports: list[int], behind: dict[int, int], taken: Counter[int]) -> int:
    """Return the port with fewest adapters behind it.

    Of equal ports, a later one is chosen if it has fewer LIDs of this adapter than all before it.
    """
    chosen, fewest = ports[0], taken[ports[0]]
    for port in ports[1:]:
        if behind[port] < behind[chosen]:
            chosen = port
        elif behind[port] > behind[chosen] or taken[port] >= fewest:
            continue
        else:
            chosen = port
        fewest = min(fewest, taken[port])
    return chosen
