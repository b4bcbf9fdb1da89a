"""Reference implementations of balanced forwarding tables and of bisection samples."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np

from tests.reference.routing import destinations, follow, out_link, split_pair, switch_graph
from weft.fabrics import Fabric
from weft.routing.routes import CandidateRoutes, TableRoutes

MASK = (1 << 64) - 1


def cheapest_tables(
    fabric: Fabric, passes: int, pairs: Counter[tuple[int, int]] | None = None
) -> np.ndarray:
    """Return minhop's table: for each destination, the shortest-path tree of least total load.

    With pairs of (source row, destination), each is one flow, and pairs of hosts break ties.
    """
    rows = [int(node) for node in np.flatnonzero(fabric.forwards)]
    row_of = {node: row for row, node in enumerate(rows)}
    graph = switch_graph(fabric)
    node_ports = destinations(fabric)
    endpoints = sum(node >= fabric.num_switches for node, _ in node_ports)
    goal_row = []
    for node, port in node_ports:
        head = node if port == 0 else int(fabric.link_to[out_link(fabric, node, port)])
        goal_row.append(row_of.get(head, -1))
    first: dict[int, int] = {}
    for number, (node, _) in enumerate(node_ports[:endpoints]):
        if node < fabric.num_switches + fabric.num_hosts:
            first.setdefault(node, number)
    sources = np.bincount(
        [goal_row[d] for d in first.values() if goal_row[d] >= 0], minlength=len(rows)
    )

    load = dict.fromkeys(range(fabric.num_links), 0)
    table = np.full((len(node_ports), len(rows)), 255, dtype=np.uint8)
    order = sorted(
        (d for d in range(len(node_ports)) if goal_row[d] >= 0), key=lambda d: (goal_row[d], d)
    )
    taken: dict[int, list[tuple[int, int]]] = {}
    for iteration in range(passes):
        for d in order:
            node, port = node_ports[d]
            goal = rows[goal_row[d]]
            if iteration and d >= endpoints:
                continue
            for link, flow in taken.pop(d, []):
                load[link] -= flow
            distance = nx.single_source_shortest_path_length(graph, goal)
            nearest = sorted(distance, key=lambda n: distance[n])
            cost = {goal: 0.0}
            next_link = {}
            for here in nearest[1:]:
                options = []
                for _, head, link in graph.out_edges(here, keys=True):
                    if distance[head] == distance[here] - 1:
                        price = cost[head] + load[link] * (1.0 / fabric.link_rate_gbps[link])
                        options.append((price, int(fabric.link_from_port[link]), link))
                best = min(options)
                cost[here], next_link[here] = best[0], best[2]
                table[d, row_of[here]] = best[1]
            final = 0 if port == 0 else fabric.link_to_port[out_link(fabric, node, port)]
            table[d, goal_row[d]] = final
            if d < endpoints:
                flow = {here: int(sources[row_of[here]]) for here in nearest}
                for here in nearest if pairs else ():
                    flow[here] += fabric.num_hosts**2 * pairs[row_of[here], d]
                taken[d] = []
                for here in nearest[:0:-1]:
                    link = next_link[here]
                    load[link] += flow[here]
                    taken[d].append((link, flow[here]))
                    flow[int(fabric.link_to[link])] += flow[here]
    return table


def mix(value: int) -> int:
    z = (value + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def matching(seed: int, sample: int, count: int) -> list[int]:
    order = list(range(count))
    state = mix(mix(seed) ^ sample)
    for i in range(count - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        j = mix(state) % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def bisection_pairs(fabric: Fabric, seed: int, sample: int, two_way: bool) -> list[tuple[int, int]]:
    """Return the endpoints of the flows of one random bisection, -1 for hosts without a cable."""
    endpoint = fabric.host_endpoint.tolist()
    half = fabric.num_hosts // 2
    order = matching(seed, sample, fabric.num_hosts)
    pairs = [(endpoint[order[i]], endpoint[order[half + i]]) for i in range(half)]
    return pairs + [(b, a) for a, b in pairs] if two_way else pairs


def injection_rate(fabric: Fabric) -> float:
    rate = fabric.link_rate_gbps
    host_links = [
        out_link(fabric, node, port)
        for node, port in destinations(fabric)
        if fabric.num_switches <= node < fabric.num_switches + fabric.num_hosts
        and port
        and fabric.forwards[fabric.link_to[out_link(fabric, node, port)]]
    ]
    return max((rate[link] for link in host_links), default=rate.max(initial=1.0))


def bisection_sample(
    fabric: Fabric, routes: TableRoutes, seed: int, sample: int, two_way: bool
) -> tuple[float, int]:
    """Return one random bisection's mean share of the injection rate and its unrouted flows."""
    node_ports = destinations(fabric)
    paths = []
    for number, (s, d) in enumerate(bisection_pairs(fabric, seed, sample, two_way)):
        lid = (d << routes.lmc) + number % (1 << routes.lmc)
        paths.append(
            None if s < 0 or d < 0 else follow(fabric, routes, node_ports[s], node_ports[d], lid)
        )
    return _mean_share(fabric, [path and dict.fromkeys(path, 1.0) for path in paths])


def split_bisection_sample(
    fabric: Fabric, routes: CandidateRoutes, seed: int, sample: int, two_way: bool
) -> tuple[float, int]:
    """Return the same as `bisection_sample` if every flow is split equally over all candidates."""
    ports = destinations(fabric)
    pairs = bisection_pairs(fabric, seed, sample, two_way)
    return _mean_share(
        fabric,
        [
            None if s < 0 or d < 0 else split_pair(fabric, routes, ports[s], ports[d])
            for s, d in pairs
        ],
    )


def _mean_share(fabric: Fabric, flows: list[dict[int, float] | None]) -> tuple[float, int]:
    load: Counter[int] = Counter()
    for parts in flows:
        load.update(parts or {})
    rate, injection = fabric.link_rate_gbps, injection_rate(fabric)
    shares = [
        min(rate[link] / load[link] for link in parts) / injection if parts else 0.0
        for parts in flows
    ]
    return float(np.mean(shares)), sum(not parts for parts in flows)
