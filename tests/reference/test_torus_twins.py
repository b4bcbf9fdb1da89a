from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import torus as plain
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.kernels.routing.torus import adjacent_edges, unite_squares
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.structure.torus import NeighbourGraph, Torus, find_tori, links_of
from weft.routing.structure.torus_seed import three_dimensions


def simple_graph(links: NeighbourGraph) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(links.rows)))
    graph.add_edges_from(zip(links.low.tolist(), links.high.tolist(), strict=True))
    return graph


def fabrics() -> list[Fabric]:
    collected = [random_fabric(seed, switches=9, hosts=4) for seed in range(12)]
    for seed, spec in enumerate(["torus:4x3x2", "torus:5x4", "mesh:3x4", "xgft:2;4,4;1,4"]):
        fabric = load(spec).shuffled(seed)
        collected += [fabric, fabric.with_faults(cables=2, switches=1, seed=seed)]
    return collected


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", range(20))
def test_squares_and_meeting_edges(number: int) -> None:
    fabric = fabrics()[number]
    links = links_of(fabric, np.arange(fabric.graph.num_rows, dtype=np.int32))
    graph = simple_graph(links)
    parent = np.arange(len(links.low), dtype=np.int32)
    flip = np.zeros(len(parent), dtype=np.uint8)
    conflicts = unite_squares(links.offset, links.other, links.edge, parent, flip)
    classes = plain.parallel_sides(graph)
    assert bool(conflicts) == any((b, a) in part for part in classes for a, b in part)
    ends = np.stack((links.low, links.high), axis=1).tolist()
    if conflicts:  # then a class has both directions of its edges
        expected = {frozenset(frozenset(side) for side in part) for part in classes}
        result: dict[int, set[frozenset[int]]] = {}
        for edge, root in enumerate(parent.tolist()):
            result.setdefault(root, set()).add(frozenset(ends[edge]))
        assert {frozenset(part) for part in result.values()} == expected
    else:
        directed: dict[int, set[tuple[int, int]]] = {}
        for edge, (root, turned) in enumerate(zip(parent.tolist(), flip.tolist(), strict=True)):
            side = ends[edge][::-1] if turned else ends[edge]
            directed.setdefault(root, set()).add((side[0], side[1]))
        assert all(part in classes for part in directed.values())
        assert sum(map(len, directed.values())) == len(parent)

    degree = np.diff(links.offset)
    num_meetings = int((degree * (degree - 1) // 2).sum())
    one, two = np.empty(num_meetings, dtype=np.int32), np.empty(num_meetings, dtype=np.int32)
    square, strong = np.empty(num_meetings, dtype=np.uint8), np.empty(num_meetings, dtype=np.uint8)
    joined = np.empty((fabric.graph.num_rows,) * 2, dtype=np.bool_)
    pairs = adjacent_edges(links.offset, links.other, one, two, square, strong, joined)
    assert pairs == num_meetings
    tail = np.repeat(np.arange(len(degree)), degree)
    seen = set()
    for i, j, is_square, is_strong in zip(one, two, square, strong, strict=True):
        v, a, b = int(tail[i]), int(links.other[i]), int(links.other[j])
        assert tail[j] == v
        seen.add((v, frozenset((a, b))))
        assert bool(is_square) == plain.in_square(graph, v, a, b)
        assert bool(is_strong) == plain.straight_for_sure(graph, v, a, b)
    assert seen == {(v, frozenset(pair)) for v in graph for pair in combinations(graph[v], 2)}


def grid_of(fabric: Fabric, torus: Torus, wraps: tuple[bool, ...]) -> plain.Grid:
    coordinates = dict(zip(torus.rows.tolist(), map(tuple, torus.coordinate.tolist()), strict=True))
    graph = fabric.graph
    cables = {
        frozenset((coordinates[a], coordinates[b]))
        for a, b in zip(graph.edge_tail.tolist(), graph.edge_row.tolist(), strict=True)
    }
    return plain.Grid(torus.radix, wraps, cables, set(coordinates.values()))


CASES = ["torus:5x4x3", "torus:6x5", "mesh:4x5", "torus:3x3", "torus:4x4x2", "mesh:3x3x3", "ring:7"]


def check(fabric: Fabric, torus: Torus, routes: TableRoutes, as_opensm: bool) -> int:
    """Compare every table entry and SL; return the number of paths that the definition omits."""
    wraps = tuple(True for _ in torus.radix) if as_opensm else torus.wraps
    grid = grid_of(fabric, torus, wraps)
    graph = fabric.graph
    coordinates = dict(zip(torus.rows.tolist(), map(tuple, torus.coordinate.tolist()), strict=True))
    ties = not as_opensm and any(
        wrap and size > 2 and size % 2 == 0
        for size, wrap in zip(torus.radix, torus.wraps, strict=True)
    )

    def dated(d: int) -> bool:
        return torus.radix[d] > 2 if as_opensm else torus.wraps[d] and torus.radix[d] > 3

    unknown = 0
    attached: dict[int, list[int]] = {}
    for destination in range(fabric.num_endpoints):
        link = graph.destination_link[destination]
        by_port = attached.setdefault(int(graph.destination_row[destination]), [])
        by_port.append(int(fabric.link_from_port[link]) * 10**6 + destination)
    for destination, row in enumerate(graph.destination_row.tolist()):
        of_row = [entry % 10**6 for entry in sorted(attached[row])]
        number = of_row.index(destination) if destination in of_row else 0
        target = coordinates[row]
        tie_up = (sum(target) + number) % 2 == 0 if ties else None
        for at in torus.rows.tolist():
            if at == row:
                continue
            assert routes.sl[at, destination] == grid.sl(coordinates[at], target, tie_up, dated)
            port = int(routes.table[destination, at])
            near = coordinates[int(graph.link_row[graph.row_link[graph.row_base[at] + port]])]
            if grid.arrives(coordinates[at], target, tie_up):
                assert near == grid.next(coordinates[at], target, tie_up)
            else:
                unknown += 1
    return unknown


@pytest.mark.parametrize("spec", [*CASES, "torus:dims=6x4,hosts=3"])
def test_complete_tori(spec: str) -> None:
    fabric = load(spec).shuffled(3)
    (torus,) = find_tori(fabric)
    opensm = route(fabric, "torus-2QoS:balance=opensm")
    assert isinstance(opensm, TableRoutes)
    assert check(fabric, three_dimensions(torus.folded()), opensm, True) == 0
    flows = route(fabric, "torus-2QoS")
    assert isinstance(flows, TableRoutes)
    assert check(fabric, torus if not any(torus.wraps) else torus.folded(), flows, False) == 0


@pytest.mark.parametrize(
    ("spec", "cables", "switches", "undefined_paths"),
    [
        ("torus:5x4x3", 1, 0, 0),
        ("torus:5x4x3", 0, 1, 0),
        ("torus:5x4x3", 2, 2, 0),
        ("torus:6x5", 1, 0, 0),
        ("torus:6x5", 0, 1, 0),
        ("torus:5x5", 2, 0, 0),
        ("torus:5x5", 0, 1, 0),
        ("mesh:3x3x3", 1, 0, None),
        ("mesh:3x3x3", 0, 1, None),
    ],
)
def test_tori_with_parts_missing(
    spec: str, cables: int, switches: int, undefined_paths: int | None
) -> None:
    fabric = load(spec).with_faults(cables=cables, switches=switches, seed=1)
    (torus,) = find_tori(fabric)
    routes = route(fabric, "torus-2QoS:balance=opensm")
    assert isinstance(routes, TableRoutes)
    result = check(fabric, three_dimensions(torus.folded()), routes, True)
    assert result > 0 if undefined_paths is None else result == undefined_paths
