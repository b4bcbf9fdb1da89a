from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from tests.kns_grids import grid
from tests.reference import hdor as plain
from tests.reference import routing
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.kernels.routing.hdor import _lightest
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.structure.kns import find_kns


def tables(fabric: Fabric, **options: object) -> TableRoutes:
    routes = route(fabric, "hdor", **options)
    assert isinstance(routes, TableRoutes)
    return routes


def assert_paper(fabric: Fabric, expected: dict[tuple[int, int], int], **options: object) -> None:
    routes = tables(fabric, **options)
    result = {
        (node, host): int(routes.table[host - fabric.num_switches, node]) for node, host in expected
    }
    assert result == expected


@pytest.mark.parametrize("seed", [None, *range(6)])
@pytest.mark.parametrize("spec", ["kns:k=6,n=2", "kns:k=3,n=2,d=8", "kns:k=4,n=2,hosts=3"])
def test_two_dimensions_are_routed_as_in_the_paper(spec: str, seed: int | None) -> None:
    fabric = build(spec) if seed is None else build(spec).shuffled(seed)
    where, line_index = plain.paper_coordinates(fabric)
    dimension = {line: axis for line, (axis, _) in line_index.items()}
    assert_paper(fabric, plain.paper_tables(fabric, where, dimension))


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 3, 4), (4, 2), (2, 2, 2, 3), (5,)])
def test_any_dimensions_are_routed_by_the_two_algorithms(
    sizes: tuple[int, ...], order: str
) -> None:
    fabric = grid(sizes)
    switches = range(fabric.num_switches)
    where = {node: fabric.coordinates[node].tolist() for node in switches}
    lines = {
        node: coordinates.index(-1) for node, coordinates in where.items() if -1 in coordinates
    }
    # The shortest lines come first; lines of equal length are in the order of their switches.
    rank = np.argsort(np.argsort(sizes, kind="stable"))
    if order == "descending":
        rank = len(sizes) - 1 - rank
    turned = {
        node: [coordinates[int(np.flatnonzero(rank == axis)[0])] for axis in range(len(sizes))]
        for node, coordinates in where.items()
    }
    dimension = {node: int(rank[axis]) for node, axis in lines.items()}
    assert_paper(fabric, plain.paper_tables(fabric, turned, dimension), order=order)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_paths_are_minimal_with_as_few_turns_as_tables_allow(seed: int) -> None:
    """Of all neighbours one hop nearer the goal, a row must use one with the fewest turns."""
    spec = ["kns:k=4,n=2", "kns:k=3,n=3", "bcube:n=3,k=2", "kns:k=5,n=2,hosts=2,cables=2"][seed % 4]
    complete = build(spec)
    lost = [node for node in range(complete.num_switches) if node % 11 == seed]
    cables = np.random.default_rng(seed).choice(complete.num_cables, size=8, replace=False)
    kind = complete.link_kind[0::2]
    adapters = not spec.startswith("kns")
    fabric = complete.without(
        switches=lost, cables=[int(c) for c in cables if adapters or kind[c] == 0]
    ).shuffled(seed)
    kns = find_kns(fabric)
    routes = tables(fabric)
    graph = fabric.graph
    row_of = {int(node): row for row, node in enumerate(graph.row_node)}
    adjacency = nx.Graph()
    adjacency.add_nodes_from(range(graph.num_rows))
    for tail, head in zip(graph.edge_tail.tolist(), graph.edge_row.tolist(), strict=True):
        adjacency.add_edge(tail, head)
    node_ports = routing.destinations(fabric)
    for d in range(fabric.num_host_endpoints):
        home = int(graph.destination_row[d])
        hops = nx.single_source_shortest_path_length(adjacency, home) if home >= 0 else {}

        def next_row(row: int, d: int = d) -> int:
            link = routing.out_link(fabric, int(graph.row_node[row]), int(routes.table[d, row]))
            return row_of[int(fabric.link_to[link])]

        turns = {home: 0}
        for row in sorted(hops, key=lambda one: hops[one])[1:]:
            costs = {}
            for other in adjacency[row]:
                if hops[other] != hops[row] - 1:
                    continue
                extra = 0
                if kns.line[row] >= 0 and other != home:
                    after = kns.dimension[kns.line[next_row(other)]]
                    extra = int(after <= kns.dimension[kns.line[row]])
                costs[other] = turns[other] + extra
            assert costs[next_row(row)] == min(costs.values())
            turns[row] = costs[next_row(row)]
            assert node_ports[d] is not None


@pytest.mark.parametrize("spec", ["kns:k=4,n=2", "kns:k=3,n=2,hosts=2", "kns:k=2,n=3"])
def test_more_lanes_reduce_flows_delayed_by_others(spec: str) -> None:
    fabric = build(spec).shuffled(1)
    shared = [plain.bystanders(fabric, tables(fabric, lanes=lanes)) for lanes in (1, 2, 4)]
    assert shared[1] < 0.55 * shared[0]
    assert shared[2] < 0.55 * shared[1]


@pytest.mark.parametrize("seed", range(20))
def test_the_parallel_cable_with_the_lowest_resulting_load_is_chosen(seed: int) -> None:
    """The cables have unequal rates, so that one flow more or less changes the choice."""
    random = np.random.default_rng(seed)
    cables = 12
    back = np.arange(2 * cables, dtype=np.int32) ^ 1
    rates = random.choice([1, 2, 4], 2 * cables)
    load = random.integers(0, 6, 2 * cables) * rates
    first, last = sorted(random.choice(cables + 1, 2, replace=False).tolist())
    edges = 2 * random.permutation(cables).astype(np.int32)
    for backwards in (False, True):
        for more in (1, 3, 12):
            best = _lightest(edges, first, last, back, backwards, more, load, 1.0 / rates)
            leaving = [int(back[edge]) if backwards else int(edge) for edge in edges[first:last]]
            full = [Fraction(int(load[edge]) + more, int(rates[edge])) for edge in leaving]
            assert best == leaving[full.index(min(full))]
