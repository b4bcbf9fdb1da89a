"""Plain twin of candidates by way of intermediates: every pair, every intermediate, every way."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np

from weft.fabrics import Fabric
from weft.routes import CandidateRoutes

#: A way between rows: (edge, lane) of each link, and its probability.
Way = tuple[tuple[tuple[int, int], ...], float]


def members(routes: CandidateRoutes, number: int) -> list[tuple[int, int]]:
    """Edges and lanes of a set."""
    first, last = routes.set_offset[number], routes.set_offset[number + 1]
    edges = routes.set_edge[first:last].tolist()
    lanes = routes.set_lane[first:last].tolist() if len(routes.set_lane) else [0] * len(edges)
    return list(zip(edges, lanes, strict=True))


def ways(fabric: Fabric, routes: CandidateRoutes, line: np.ndarray, row: int) -> Iterator[Way]:
    """Every way that a line allows from a row to where it ends."""
    if line[row] < 0:
        yield (), 1.0
        return
    choices = members(routes, line[row])
    for edge, lane in choices:
        for rest, chance in ways(fabric, routes, line, int(fabric.graph.edge_row[edge])):
            yield ((edge, lane), *rest), chance / len(choices)


def end(fabric: Fabric, way: tuple[tuple[int, int], ...], row: int) -> int:
    return int(fabric.graph.edge_row[way[-1][0]]) if way else row


def straight_ways(
    fabric: Fabric, routes: CandidateRoutes, source: int, target: int
) -> list[Way] | None:
    """Ways without an intermediate, None when one does not arrive."""
    found = list(ways(fabric, routes, routes.set_id[target], source))
    return found if all(end(fabric, way, source) == target for way, _ in found) else None


def round_ways(
    fabric: Fabric, routes: CandidateRoutes, source: int, target: int
) -> list[Way] | None:
    """Ways by all intermediates but those of source and target; None when one does not arrive."""
    via = routes.via
    others = set(range(routes.num_intermediates)) - {int(via[source]), int(via[target])}
    found = []
    for v in others:
        for first, chance in ways(fabric, routes, routes.via_set[v], source):
            turn = end(fabric, first, source)
            if via[turn] != v:
                return None
            onward = straight_ways(fabric, routes, turn, target)
            if onward is None:
                return None
            found += [(first + rest, chance * p / len(others)) for rest, p in onward]
    return found


def goes_round(routes: CandidateRoutes, source: int, target: int) -> bool:
    a, b = routes.via[source], routes.via[target]
    return bool(a >= 0 and b >= 0 and a != b)


def pair_ways(
    fabric: Fabric, routes: CandidateRoutes, source: int, target: int, *, straight: float = 0.0
) -> list[Way] | None:
    """Ways of a pair of rows, a share of what may go by intermediates going straight."""
    if not goes_round(routes, source, target):
        return straight_ways(fabric, routes, source, target)
    about = round_ways(fabric, routes, source, target)
    direct = straight_ways(fabric, routes, source, target) if routes.direct else []
    if about is None or direct is None:
        return None
    return [(way, chance * (1 - straight)) for way, chance in about] + [
        (way, chance * straight) for way, chance in direct
    ]


def dependency_graph(fabric: Fabric, routes: CandidateRoutes, rows: list[int]) -> nx.DiGraph:
    """Channels (edge, lane) and what waits on what, way by way."""
    graph = nx.DiGraph()
    for source in rows:
        for target in rows:
            for way, _ in pair_ways(fabric, routes, source, target, straight=0.5) or []:
                graph.add_nodes_from(way)
                nx.add_path(graph, way)
    return graph
