"""Reference implementation of candidates via intermediates: every pair, intermediate and path."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np

from tests.reference.routing import switch_graph
from weft.fabrics import Fabric
from weft.routing.routes import CandidateRoutes
from weft.routing.routes.candidate_sets import SetCollector

#: A path between rows: (edge, lane) of each link, and its probability.
WeightedPath = tuple[tuple[tuple[int, int], ...], float]


def members(routes: CandidateRoutes, number: int) -> list[tuple[int, int]]:
    """Return the (edge, lane) members of a set of candidates."""
    first, last = routes.set_offset[number], routes.set_offset[number + 1]
    edges = routes.set_edge[first:last].tolist()
    lanes = routes.set_lane[first:last].tolist() if len(routes.set_lane) else [0] * len(edges)
    return list(zip(edges, lanes, strict=True))


def weighted_paths(
    fabric: Fabric, routes: CandidateRoutes, line: np.ndarray, row: int
) -> Iterator[WeightedPath]:
    """Yield each path from a row, with its probability; `line` has the set of each row."""
    if line[row] < 0:
        yield (), 1.0
        return
    choices = members(routes, line[row])
    for edge, lane in choices:
        for rest, chance in weighted_paths(fabric, routes, line, int(fabric.graph.edge_row[edge])):
            yield ((edge, lane), *rest), chance / len(choices)


def end(fabric: Fabric, path: tuple[tuple[int, int], ...], row: int) -> int:
    return int(fabric.graph.edge_row[path[-1][0]]) if path else row


def minimal_paths(
    fabric: Fabric, routes: CandidateRoutes, source: int, target: int
) -> list[WeightedPath] | None:
    """Return paths without an intermediate; None if some path does not arrive."""
    paths = list(weighted_paths(fabric, routes, routes.set_id[target], source))
    return paths if all(end(fabric, path, source) == target for path, _ in paths) else None


def indirect_paths(
    fabric: Fabric, routes: CandidateRoutes, source: int, target: int
) -> list[WeightedPath] | None:
    """Return paths via all intermediates except the ends; None if a path does not arrive."""
    via = routes.via
    others = set(range(routes.num_intermediates)) - {int(via[source]), int(via[target])}
    paths = []
    for v in others:
        for first, chance in weighted_paths(fabric, routes, routes.via_set[v], source):
            intermediate = end(fabric, first, source)
            if via[intermediate] != v:
                return None
            onward = minimal_paths(fabric, routes, intermediate, target)
            if onward is None:
                return None
            paths += [(first + rest, chance * p / len(others)) for rest, p in onward]
    return paths


def uses_intermediate(routes: CandidateRoutes, source: int, target: int) -> bool:
    a, b = routes.via[source], routes.via[target]
    return bool(a >= 0 and b >= 0 and a != b)


def pair_paths(
    fabric: Fabric, routes: CandidateRoutes, source: int, target: int, *, minimal_share: float = 0.0
) -> list[WeightedPath] | None:
    """Return paths of a pair of rows; the share `minimal_share` of two-phase traffic is direct."""
    if not uses_intermediate(routes, source, target):
        return minimal_paths(fabric, routes, source, target)
    indirect = indirect_paths(fabric, routes, source, target)
    direct = minimal_paths(fabric, routes, source, target) if routes.direct else []
    if indirect is None or direct is None:
        return None
    return [(path, chance * (1 - minimal_share)) for path, chance in indirect] + [
        (path, chance * minimal_share) for path, chance in direct
    ]


def by_random_groups(fabric: Fabric, seed: int, *, direct: bool, lanes: int) -> CandidateRoutes:
    """Return minimal paths to random groups of rows, then to the target, on random lanes."""
    random = np.random.default_rng(seed)
    rows = fabric.graph.num_rows
    graph = switch_graph(fabric).reverse()
    nodes = np.flatnonzero(fabric.forwards).tolist()
    via = random.integers(-1, 4, rows).astype(np.int32)
    via[random.choice(rows, 4, replace=False)] = np.arange(4)
    sets = SetCollector(fabric)
    goals = [np.flatnonzero(via == v).tolist() for v in range(4)] + [[row] for row in range(rows)]
    for number, goal in enumerate(goals):
        far = nx.multi_source_dijkstra_path_length(graph, [nodes[row] for row in goal], weight=None)
        hops = np.array([far.get(node, 99) for node in nodes])
        nearer = hops[fabric.graph.edge_row] + 1 == hops[fabric.graph.edge_tail]
        lane = random.integers(0, lanes, len(nearer)) if lanes > 1 else int(number >= 4)
        sets.add(np.where(nearer & (hops[fabric.graph.edge_tail] < 99), lane, -1).astype(np.int8))
    number, offset, edge, lane = sets.collect()
    return CandidateRoutes(
        "twin", fabric.digest, set_id=number[4:].copy(), set_offset=offset, set_edge=edge,
        set_lane=lane, via=via, via_set=number[:4].copy(), direct=direct,
    )  # fmt: skip
