"""Reference implementations of the kernels that route, follow, load and check tables."""

from __future__ import annotations

from collections import Counter, deque

import networkx as nx
import numpy as np

from weft.fabrics import Fabric
from weft.routing.engine_registry import empty_table
from weft.routing.routes import CandidateRoutes, TableRoutes


def switch_graph(fabric: Fabric) -> nx.MultiDiGraph:
    """Return the rows and the directed links between them, keyed by link number."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(int(node) for node in np.flatnonzero(fabric.forwards))
    for link, (tail, _, head, _, _) in enumerate(fabric.links.tolist()):
        if fabric.forwards[tail] and fabric.forwards[head]:
            graph.add_edge(tail, head, key=link)
    return graph


def destinations(fabric: Fabric) -> list[tuple[int, int]]:
    """Return (node, port) of every destination; port 0 for a destination that is a whole node."""
    result = []
    for node in range(fabric.num_switches, fabric.num_nodes):
        ports = [
            port
            for port in range(1, int(fabric.num_ports[node]) + 1)
            if fabric.port_link[fabric.port_offset[node] + port - 1] >= 0
        ]
        if fabric.forwards[node]:
            result += [(node, 0)] if ports else []
        else:
            result += [(node, port) for port in ports]
    return result + [(switch, 0) for switch in range(fabric.num_switches)]


def random_entries(fabric: Fabric, lmc: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return twice present tables with random ports, some of no cable, and some entries missing."""
    table = empty_table(fabric, lmc)
    ports = np.random.default_rng(seed).integers(0, 20, table.shape).astype(table.dtype)
    attached = np.repeat(fabric.graph.destination_row >= 0, 1 << lmc)[:, None]
    table[:] = np.where(attached & (ports < 12), ports, table)
    return table, table.copy()


def out_link(fabric: Fabric, node: int, port: int) -> int:
    if not 1 <= port <= fabric.num_ports[node]:
        return -1
    return int(fabric.port_link[fabric.port_offset[node] + port - 1])


def follow(
    fabric: Fabric, routes: TableRoutes, source: tuple[int, int], target: tuple[int, int], lid: int
) -> list[int] | None:
    """Return the links from one destination's (node, port) to another's, or None if unrouted."""
    row_of = {int(node): row for row, node in enumerate(np.flatnonzero(fabric.forwards))}
    links = []
    node = source[0]
    if not fabric.forwards[node]:
        links.append(out_link(fabric, *source))
        node = int(fabric.link_to[links[0]])
        if not fabric.forwards[node]:
            return None
    for _ in range(len(row_of) + 1):
        port = int(routes.table[lid, row_of[node]])
        if node == target[0] and target[1] == 0 and port == 0:
            return links
        link = out_link(fabric, node, port)
        if port == routes.no_path or link < 0:
            return None
        links.append(link)
        node = int(fabric.link_to[link])
        if not fabric.forwards[node]:
            arrived = (node, int(fabric.link_to_port[link])) == target
            return links if arrived else None
    return None


def host_paths(
    fabric: Fabric, routes: TableRoutes, offset: int = 0
) -> dict[tuple[int, int], list[int] | None]:
    """Return the path of every ordered pair of different hosts, to one LID of the destination."""
    node_ports = destinations(fabric)
    first: dict[int, int] = {}
    for number, (node, _) in enumerate(node_ports):
        first.setdefault(node, number)
    paths = {}
    for a in range(fabric.num_hosts):
        for b in range(fabric.num_hosts):
            if a == b:
                continue
            s = first.get(fabric.num_switches + a)
            d = first.get(fabric.num_switches + b)
            paths[a, b] = (
                None
                if s is None or d is None
                else follow(
                    fabric, routes, node_ports[s], node_ports[d], (d << routes.lmc) + offset
                )
            )
    return paths


def loads(fabric: Fabric, paths: dict[tuple[int, int], list[int] | None]) -> np.ndarray:
    count = Counter(link for path in paths.values() if path for link in path)
    return np.array([count[link] for link in range(fabric.num_links)])


def split_pair(
    fabric: Fabric, routes: CandidateRoutes, source: tuple[int, int], target: tuple[int, int]
) -> dict[int, float] | None:
    """Return one flow's share on each link, split equally over candidates at each hop."""
    graph = fabric.graph
    rows = [int(node) for node in np.flatnonzero(fabric.forwards)]
    share: dict[int, float] = {}

    def end(place: tuple[int, int]) -> int:
        if fabric.forwards[place[0]]:
            return rows.index(place[0])
        link = out_link(fabric, *place)
        head = int(fabric.link_to[link])
        return rows.index(head) if fabric.forwards[head] else -1

    at, goal = end(source), end(target)
    if at < 0 or goal < 0 or (at != goal and routes.set_id[goal, at] < 0):
        return None
    todo = deque([(at, 1.0)])
    while todo:
        row, amount = todo.popleft()
        if row == goal:
            continue
        choice = routes.set_id[goal, row]
        edges = routes.set_edge[routes.set_offset[choice] : routes.set_offset[choice + 1]]
        for edge in edges.tolist():
            link = int(graph.edge_link[edge])
            share[link] = share.get(link, 0.0) + amount / len(edges)
            todo.append((rows.index(int(fabric.link_to[link])), amount / len(edges)))
    if not fabric.forwards[source[0]]:
        share[out_link(fabric, *source)] = 1.0
    if not fabric.forwards[target[0]]:
        share[out_link(fabric, *target) ^ 1] = 1.0
    return share


def balanced_lines(fabric: Fabric, passes: int) -> dict[int, dict[int, int]]:
    """Return the output port of each row to each destination, chosen by loads, pass by pass."""
    graph = fabric.graph
    ends = list(zip(graph.edge_tail.tolist(), graph.edge_row.tolist(), strict=True))
    out: dict[int, list[int]] = {row: [] for row in range(graph.num_rows)}
    for edge, (tail, _) in enumerate(ends):
        out[tail].append(edge)
    rows = nx.Graph(ends)
    rows.add_nodes_from(out)
    hosts = fabric.host_endpoint[fabric.host_endpoint >= 0]
    sources = Counter(graph.destination_row[hosts].tolist())
    rates = fabric.link_rate_gbps[graph.edge_link]
    load = [0] * len(ends)
    trees: dict[int, dict[int, int]] = {}
    by_row = np.argsort(graph.destination_row, kind="stable").tolist()
    for number in range(passes):
        for target in by_row:
            goal = int(graph.destination_row[target])
            flows = target < fabric.num_endpoints
            if goal < 0 or (number and not flows):
                continue
            near = nx.single_source_shortest_path_length(rows, goal)
            order = list(near)
            if number:
                _send(order, trees[target], ends, sources, load, -1)
            cost, tree = {goal: 0.0}, dict[int, int]()
            for row in order[1:]:
                nearer = [e for e in out[row] if near[ends[e][1]] == near[row] - 1]
                prices = [cost[ends[e][1]] + load[e] * (1.0 / rates[e]) for e in nearer]
                cost[row], tree[row] = min(prices), nearer[prices.index(min(prices))]
            trees[target] = tree
            if flows:
                _send(order, tree, ends, sources, load, 1)
    return {
        target: {row: int(graph.edge_port[edge]) for row, edge in tree.items()}
        for target, tree in trees.items()
    }


def _send(
    order: list[int],
    tree: dict[int, int],
    ends: list[tuple[int, int]],
    sources: Counter[int],
    load: list[int],
    sign: int,
) -> None:
    flow = Counter({row: sources[row] for row in order})
    for row in reversed(order[1:]):
        load[tree[row]] += sign * flow[row]
        flow[ends[tree[row]][1]] += flow[row]
