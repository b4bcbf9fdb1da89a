"""Reference implementations of the kernels that recognise and route tori."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import networkx as nx


def parallel_sides(graph: nx.Graph) -> list[set[tuple[int, int]]]:
    """Return classes of directed edges related as opposite sides of squares."""
    sides = nx.Graph()
    sides.add_nodes_from((a, b) for edge in graph.edges for a, b in (edge, edge[::-1]))
    for v in graph:
        for a, b in combinations(graph[v], 2):
            for w in set(graph[a]) & set(graph[b]) - {v}:
                sides.add_edge((v, a), (b, w))
                sides.add_edge((v, b), (a, w))
                sides.add_edge((a, v), (w, b))
                sides.add_edge((b, v), (w, a))
    return [set(part) for part in nx.connected_components(sides)]


def in_square(graph: nx.Graph, v: int, a: int, b: int) -> bool:
    return bool(set(graph[a]) & set(graph[b]) - {v})


def straight_for_sure(graph: nx.Graph, v: int, a: int, b: int) -> bool:
    """Return whether v-a and v-b share no square but both share one with some edge v-c."""
    return not in_square(graph, v, a, b) and any(
        in_square(graph, v, a, c) and in_square(graph, v, b, c) for c in graph[v] if c not in (a, b)
    )


Place = tuple[int, ...]


class Grid:
    """Switches with coordinates, and their cables; some of both are missing.

    `tie_up` is whether a path to a target goes up if both directions of an even ring are equally
    long; None selects the direction that does not cross the dateline.
    """

    def __init__(
        self,
        radix: Place,
        wraps: tuple[bool, ...],
        cables: set[frozenset[Place]],
        switches: set[Place],
    ) -> None:
        self.radix, self.wraps, self.cables, self.switches = radix, wraps, cables, switches

    def neighbour(self, at: Place, d: int, step: int) -> Place | None:
        """Return the neighbouring switch in a direction if a cable leads there."""
        near = list(at)
        near[d] = (at[d] + step) % self.radix[d]
        if self.radix[d] == 2 and near[d] - at[d] != step:
            return None
        coordinates = tuple(near)
        return (
            coordinates
            if frozenset((at, coordinates)) in self.cables and coordinates != at
            else None
        )

    def shorter(self, a: int, b: int, d: int, tie_up: bool | None) -> int:
        """Return the direction from a to b on a complete ring or line, 1 or -1."""
        size = self.radix[d]
        direct = 1 if b > a else -1
        around = size - abs(b - a)
        if not self.wraps[d] or abs(b - a) < around or size == 2:
            return direct
        if abs(b - a) > around:
            return -direct
        return direct if tie_up is None else 1 if tie_up else -1

    def leads_to(self, at: Place, d: int, step: int, target: Place) -> bool:
        for _ in range(self.radix[d]):
            near = self.neighbour(at, d, step)
            if near is None:
                return False
            if near == target:
                return True
            at = near
        return False

    def next(self, at: Place, target: Place, tie_up: bool | None) -> Place | None:
        """Return torus-2QoS(8)'s next switch towards the target, or None if it has no route."""
        for d in range(len(self.radix)):
            if at[d] == target[d]:
                continue
            step = self.shorter(at[d], target[d], d, tie_up)
            corner = (*at[:d], target[d], *at[d + 1 :])
            if corner in self.switches:
                for direction in (step, -step):
                    if self.leads_to(at, d, direction, corner):
                        return self.neighbour(at, d, direction)
            elif self.neighbour(at, d, step):
                return self.neighbour(at, d, step)
        return None

    def arrives(self, at: Place, target: Place, tie_up: bool | None) -> bool:
        seen = set()
        while at != target:
            near = None if at in seen else self.next(at, target, tie_up)
            if near is None:
                return False
            seen.add(at)
            at = near
        return True

    def sl(
        self, at: Place, target: Place, tie_up: bool | None, counts: Callable[[int], bool]
    ) -> int:
        """Return the SL; bit d is 1 if the path on a complete torus crosses the dateline of d."""
        level = 0
        for d in range(len(self.radix)):
            if at[d] != target[d] and counts(d):
                step = self.shorter(at[d], target[d], d, tie_up)
                if (step == 1) != (target[d] > at[d]):
                    level |= 1 << d
        return level
