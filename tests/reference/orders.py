"""Reference implementations of up*/down* search, OpenSM's port counting and D-mod-K."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import prod

import networkx as nx
import numpy as np

from tests.reference.routing import destinations, out_link, switch_graph
from weft.fabrics import Fabric


def legal_distances(fabric: Fabric, up: dict[int, bool], goal: int) -> dict[int, tuple[int, bool]]:
    """Return node -> (hops, whether all go down) of the path that tables use to the goal.

    In rounds of growing distance a node takes the first legal path available, a downward one
    before one that climbs. If that leaves a node of the component without a path, nodes with a
    downward path take it instead and the others climb to the nearest of them.
    """
    graph = switch_graph(fabric)
    best = {goal: (0, True)}
    frontier = [goal]
    distance = 0
    while frontier:
        distance += 1
        fresh: dict[int, bool] = {}
        for climbing in (False, True):
            for node, _, link in graph.in_edges(frontier, keys=True):
                head = int(fabric.link_to[link])
                if node in best or node in fresh or up[link] != climbing:
                    continue
                if climbing or best[head][1]:
                    fresh[node] = not climbing
        best |= {node: (distance, down) for node, down in fresh.items()}
        frontier = list(fresh)
    component = nx.node_connected_component(graph.to_undirected(), goal)
    if len(best) == len(component):
        return best
    descending = nx.DiGraph()
    descending.add_nodes_from(graph)
    descending.add_edges_from((a, b) for a, b, link in graph.edges(keys=True) if not up[link])
    below = nx.single_source_shortest_path_length(descending.reverse(), goal)
    best = {node: (length, True) for node, length in below.items()}
    climbing_graph = nx.DiGraph()
    climbing_graph.add_nodes_from(graph)
    climbing_graph.add_edges_from((a, b) for a, b, link in graph.edges(keys=True) if up[link])
    changed = True
    while changed:
        changed = False
        for node in climbing_graph:
            if node in below:
                continue
            hops = [best[head][0] + 1 for head in climbing_graph[node] if head in best]
            if hops and best.get(node, (10**9, False))[0] > min(hops):
                best[node] = (min(hops), False)
                changed = True
    return best


def _service(fabric: Fabric) -> tuple[list[tuple[int, int]], list[int], int]:
    """Return each destination's node and port of attachment, OpenSM's order, and endpoint count."""
    forwards = set(np.flatnonzero(fabric.forwards).tolist())
    node_ports = destinations(fabric)
    endpoints = sum(node >= fabric.num_switches for node, _ in node_ports)

    def leaf(place: tuple[int, int]) -> tuple[int, int]:
        node, port = place
        if port == 0:
            return node, 0
        link = out_link(fabric, node, port)
        return int(fabric.link_to[link]), int(fabric.link_to_port[link])

    ends = [leaf(place) for place in node_ports]
    adapters = dict.fromkeys(forwards, 0)
    for node, _ in ends[:endpoints]:
        if node in adapters:
            adapters[node] += 1
    order = sorted(
        (d for d in range(len(node_ports)) if ends[d][0] in forwards),
        key=lambda d: (
            d >= endpoints,
            -adapters[ends[d][0]],
            int(fabric.node_guid[ends[d][0]]).to_bytes(8, "little"),
            ends[d][1],
        ),
    )
    return ends, order, endpoints


def _counted(
    fabric: Fabric,
    links_to: Callable[[int], dict[int, list[int]]],
    lmc: int,
    present: np.ndarray | None,
) -> np.ndarray:
    """Choose as OpenSM does: the port with fewest LIDs routed through it, then the next one.

    With an LMC, ports to systems and nodes that an adapter's other LIDs do not use come first. A
    port of `present` tables that is allowed is kept.
    """
    rows = {int(node): row for row, node in enumerate(np.flatnonzero(fabric.forwards))}
    ends, order, endpoints = _service(fabric)
    table = np.full((len(ends) << lmc, len(rows)), 255, dtype=np.uint8)
    behind = dict.fromkeys(range(fabric.num_links), 0)
    used: dict[tuple[int, int], list[int]] = {}

    def system(link: int) -> int:
        node = fabric.link_to[link]
        return int(fabric.system_guid[node] or fabric.node_guid[node])

    def choose(links: list[int], before: list[int]) -> int:
        last = fabric.link_from_port[before[-1]] if before else 0
        links = sorted(
            links,
            key=lambda link: (fabric.link_from_port[link] <= last, fabric.link_from_port[link]),
        )
        heads = [fabric.link_to[link] for link in before]
        for seen, of in (
            ({system(link) for link in before}, system),
            (set(heads), fabric.link_to.__getitem__),
        ):
            if new := [link for link in links if of(link) not in seen]:
                return min(new, key=behind.__getitem__)
        best, fewest = links[0], heads.count(fabric.link_to[links[0]])
        for link in links[1:]:
            times = heads.count(fabric.link_to[link])
            if behind[link] < behind[best]:
                best, fewest = link, min(fewest, times)
            elif behind[link] == behind[best] and times < fewest:
                best, fewest = link, times
        return best

    for offset in range(1 << lmc):
        for d in order[: None if offset == 0 else sum(each < endpoints for each in order)]:
            goal, port = ends[d]
            lids = [(d << lmc) + offset]
            if d >= endpoints:
                lids = list(range(d << lmc, (d + 1) << lmc))
            table[lids, rows[goal]] = port
            for node, links in links_to(goal).items():
                if node == goal or not links:
                    continue
                best = choose(links, used.setdefault((d, node), []))
                for link in links if present is not None else ():
                    if fabric.link_from_port[link] == present[lids[0], rows[node]]:
                        best = link
                used[d, node].append(best)
                table[lids, rows[node]] = fabric.link_from_port[best]
                behind[best] += d < endpoints
    return table


def counted_tables(fabric: Fabric, lmc: int = 0, present: np.ndarray | None = None) -> np.ndarray:
    """Return OpenSM's minhop tables: ports of minimal paths, present or balanced by counting."""
    graph = switch_graph(fabric)

    def links_to(goal: int) -> dict[int, list[int]]:
        distance = nx.single_source_shortest_path_length(graph, goal)
        return {
            node: [
                link
                for _, head, link in graph.out_edges(node, keys=True)
                if distance[head] == distance[node] - 1
            ]
            for node in distance
        }

    return _counted(fabric, links_to, lmc, present)


def ranked_tables(
    fabric: Fabric, step: dict[int, str], lmc: int = 0, present: np.ndarray | None = None
) -> np.ndarray:
    """Return OpenSM's updn or dnup tables: shortest paths of its search, balanced by counting.

    `step` classifies each link in the direction away from the goal: an "early" step may not follow
    a "late" one; a "level" step is unrestricted.
    """
    graph = switch_graph(fabric)

    def links_to(goal: int) -> dict[int, list[int]]:
        by_port: dict[int, int] = {}
        least = {goal: 0}
        came = {goal: "early"}
        waiting = deque([goal])
        while waiting:
            node = waiting.popleft()
            leaving = sorted(graph.out_edges(node, keys=True), key=port_of)
            for _, head, link in leaving:
                if came[node] == "late" and step[link] == "early":
                    continue
                back = link ^ 1
                if least[node] + 1 < by_port.get(back, 255):
                    by_port[back] = least[node] + 1
                    least[head] = min(least.get(head, 255), by_port[back])
                    if head not in waiting:
                        came[head] = step[link]
                        waiting.append(head)
        return {
            node: [
                link for _, _, link in graph.out_edges(node, keys=True) if by_port.get(link) == hops
            ]
            for node, hops in least.items()
        }

    def port_of(edge: tuple[int, int, int]) -> int:
        return int(fabric.link_from_port[edge[2]])

    return _counted(fabric, links_to, lmc, present)


def dmodk_next(fabric: Fabric, switch: int, host: int) -> tuple[int, int | None]:
    """Return (level, index) of D-mod-K's next hop on a generated XGFT, by its coordinates.

    Upwards the index is that of the parent; downwards it is None, as there is only one path.
    """
    w = fabric.parameters["w"]
    level = int(fabric.level[switch])
    target = fabric.coordinates[fabric.num_switches + host]
    if all(fabric.coordinates[switch][level:] == target[level:]):
        return level - 1, None
    return level + 1, (host // prod(w[:level])) % w[level]
