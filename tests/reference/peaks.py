"""Reference implementation of rerouting to lower peak loads, with sets and dictionaries."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np

from tests.reference.routing import destinations, out_link, switch_graph
from weft.fabrics import Fabric

ROUNDS, DEPTH, SHARED, SAME = 64, 6, 8, 1e-9


class Trees:
    """Tables of minimal paths as one dictionary of links per destination."""

    def __init__(
        self, fabric: Fabric, table: np.ndarray, pairs: Counter[tuple[int, int]] | None = None
    ) -> None:
        self.pairs = pairs
        self.fabric, self.table = fabric, table
        self.graph = switch_graph(fabric)
        self.rows = [int(node) for node in np.flatnonzero(fabric.forwards)]
        self.row_of = {node: row for row, node in enumerate(self.rows)}
        self.price = 1.0 / fabric.link_rate_gbps
        self.node_ports = destinations(fabric)
        goals: dict[int, int] = {}
        for d, (node, port) in enumerate(self.node_ports[: fabric.num_endpoints]):
            head = node if port == 0 else int(fabric.link_to[out_link(fabric, node, port)])
            if head in self.row_of:
                goals[d] = head
        self.goals = dict(sorted(goals.items(), key=lambda item: (self.row_of[item[1]], item[0])))
        hosts = fabric.host_endpoint[fabric.host_endpoint >= 0].tolist()
        self.senders = dict.fromkeys(self.rows, 0)
        for d in hosts:
            if d in goals:
                self.senders[goals[d]] += 1
        self.load = dict.fromkeys((key for _, _, key in self.graph.edges(keys=True)), 0)
        self.far = {
            goal: nx.single_source_shortest_path_length(self.graph, goal)
            for goal in set(self.goals.values())
        }
        self.tree = {d: self.read(d) for d in self.goals}
        for d in self.goals:
            self.put(d, 1)

    def read(self, d: int) -> dict[int, int]:
        goal = self.goals[d]
        return {
            here: out_link(self.fabric, here, int(self.table[d, self.row_of[here]]))
            for here in self.far[goal]
            if here != goal
        }

    def flows(self, d: int) -> dict[int, int]:
        """Return the flow that each row of a tree forwards, including the flow of rows below it."""
        goal = self.goals[d]
        flow = {
            here: self.senders[here] if self.pairs is None else self.pairs[self.row_of[here], d]
            for here in self.far[goal]
        }
        for here in sorted(self.far[goal], key=self.far[goal].__getitem__, reverse=True):
            if here != goal:
                flow[int(self.fabric.link_to[self.tree[d][here]])] += flow[here]
        return flow

    def put(self, d: int, sign: int) -> None:
        for here, flow in self.flows(d).items():
            if here != self.goals[d]:
                self.load[self.tree[d][here]] += sign * flow

    def over(self, d: int, limit: float) -> set[int]:
        flow = self.flows(d)
        return {
            link
            for here, link in self.tree[d].items()
            if flow[here] and self.load[link] * self.price[link] >= limit
        }

    def around(self, d: int, limit: float, flow: dict[int, int]) -> dict[int, int]:
        goal = self.goals[d]
        best: dict[int, tuple[int, float]] = {goal: (0, 0.0)}
        tree = {}
        for here in sorted(self.far[goal], key=self.far[goal].__getitem__):
            if here == goal:
                continue
            options = []
            for _, head, link in self.graph.out_edges(here, keys=True):
                if self.far[goal][head] == self.far[goal][here] - 1:
                    crossed, cost = best[head]
                    full = (self.load[link] + flow[here]) * self.price[link] >= limit
                    options.append(
                        (
                            crossed + bool(flow[here] and full),
                            cost + self.load[link] * self.price[link],
                            int(self.fabric.link_from_port[link]),
                            link,
                        )
                    )
            *value, _, tree[here] = min(options)
            best[here] = (value[0], value[1])
        return tree


def lowered(
    fabric: Fabric, table: np.ndarray, pairs: Counter[tuple[int, int]] | None = None
) -> np.ndarray:
    """Return tables of minimal paths with trees rerouted around the links of peak load."""
    trees = Trees(fabric, table, pairs)
    depth, below = 0, float("inf")
    for _ in range(ROUNDS):
        loads = {link: load * trees.price[link] for link, load in trees.load.items()}
        peak = max((load for load in loads.values() if load < below), default=0.0)
        limit = peak * (1.0 - SAME)
        hot = [link for link, load in loads.items() if load >= limit]
        if len(hot) > len(loads) // SHARED or peak == 0:
            break
        moved = False
        for d in trees.goals:
            old = trees.tree[d]
            if not any(old.get(int(fabric.link_from[link])) == link for link in hot):
                continue
            used = trees.over(d, limit)
            flow = trees.flows(d)
            trees.put(d, -1)
            trees.tree[d] = trees.around(d, limit, flow)
            trees.put(d, 1)
            if used and not trees.over(d, limit):
                moved = True
            else:
                trees.put(d, -1)
                trees.tree[d] = old
                trees.put(d, 1)
        if moved:
            depth, below = 0, float("inf")
        elif depth < DEPTH:
            depth, below = depth + 1, limit
        else:
            break
    result = table.copy()
    for d, tree in trees.tree.items():
        for here, link in tree.items():
            result[d, trees.row_of[here]] = fabric.link_from_port[link]
    return result
