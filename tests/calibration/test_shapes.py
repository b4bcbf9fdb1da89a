"""Shapes of contention graphs against isomorphism in networkx."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms.isomorphism import numerical_edge_match

from weft.core.errors import InputError
from weft_calibration.shapes import (
    all_shapes,
    components,
    edge_shapes,
    random_graph,
    shape,
    smaller_shapes,
)

SAME = numerical_edge_match(["parallel", "marked"], [0, 0])


def view(edges, marked=None) -> nx.DiGraph:
    graph = nx.DiGraph()
    for number, (source, destination) in enumerate(edges):
        if not graph.has_edge(source, destination):
            graph.add_edge(source, destination, parallel=0, marked=0)
        graph[source][destination]["parallel"] += 1
        graph[source][destination]["marked"] += number == marked
    return graph


def drawn(count: int, most_edges: int, seed: int) -> list[list[tuple[int, int]]]:
    random = np.random.default_rng(seed)
    graphs = []
    for number in range(count):
        edges, nodes = int(random.integers(1, most_edges + 1)), int(random.integers(2, 6))
        ends = random_graph(edges, nodes, (seed, number))
        graphs.append(list(zip(*ends, strict=True)))
    return graphs


def test_two_graphs_have_the_same_shape_exactly_when_networkx_finds_an_isomorphism() -> None:
    graphs = drawn(120, 6, seed=1)
    forms = [shape(*zip(*edges, strict=True)) for edges in graphs]
    same = 0
    for (a, x), (b, y) in itertools.combinations(zip(graphs, forms, strict=True), 2):
        alike = len(a) == len(b) and nx.is_isomorphic(view(a), view(b), edge_match=SAME)
        assert (x == y) == alike, (a, b)
        same += alike
    assert same > 50


def test_a_shape_does_not_depend_on_names_or_order_of_edges() -> None:
    random = np.random.default_rng(2)
    for edges in drawn(100, 9, seed=3):
        names = random.permutation(50)
        other = [(int(names[s]), int(names[d])) for s, d in edges]
        order = random.permutation(len(edges))
        mixed = [other[at] for at in order]
        assert shape(*zip(*mixed, strict=True)) == shape(*zip(*edges, strict=True))
        places = edge_shapes(*zip(*edges, strict=True))
        assert edge_shapes(*zip(*mixed, strict=True)) == [places[at] for at in order]


def test_shapes_are_canonical_where_refinement_does_not_separate_nodes() -> None:
    """A node sends to all nodes of a ring of 3 and one of 4: all ring nodes have equal degrees."""
    rings = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 6), (6, 3)]
    edges = rings + [(7, node) for node in range(7)]
    random = np.random.default_rng(9)
    forms, places = set(), set()
    for _ in range(20):
        names = random.permutation(8)
        mixed = random.permutation(edges)
        other = [(int(names[s]), int(names[d])) for s, d in mixed]
        forms.add(shape(*zip(*other, strict=True)))
        places |= set(edge_shapes(*zip(*other, strict=True)))
    assert len(forms) == 1
    assert len(places) == 4  # edges within each ring and edges to each ring


def test_edges_are_equivalent_exactly_when_an_isomorphism_maps_them() -> None:
    for edges in drawn(60, 6, seed=4):
        if len(components(*zip(*edges, strict=True))) > 1:
            continue
        places = edge_shapes(*zip(*edges, strict=True))
        for a, b in itertools.combinations(range(len(edges)), 2):
            alike = nx.is_isomorphic(view(edges, a), view(edges, b), edge_match=SAME)
            assert (places[a] == places[b]) == alike, (edges, a, b)


def test_all_shapes_are_those_that_networkx_distinguishes() -> None:
    """The reference enumerates all multisets of n edges among n + 1 nodes."""
    shapes = list(all_shapes(3))
    for count in (1, 2, 3):
        pairs = list(itertools.permutations(range(count + 1), 2))
        kinds: list[nx.DiGraph] = []
        for edges in itertools.combinations_with_replacement(pairs, count):
            graph = view(edges)
            if nx.is_weakly_connected(graph) and not any(
                nx.is_isomorphic(graph, kind, edge_match=SAME) for kind in kinds
            ):
                kinds.append(graph)
        here = [form for form in shapes if len(form) == count]
        assert len(here) == len(kinds)
        assert all(
            sum(nx.is_isomorphic(view(form), kind, edge_match=SAME) for form in here) == 1
            for kind in kinds
        )
    assert len(shapes) == len(set(shapes)) == 24


def test_graphs_with_many_automorphisms_are_searched_quickly() -> None:
    """A star of 12 edges and 12 disjoint edges have 12! automorphisms, a cycle 12, K(4,4) 576."""
    star = [(0, leaf) for leaf in range(1, 13)]
    apart = [(2 * edge, 2 * edge + 1) for edge in range(12)]
    cycle = [(node, (node + 1) % 12) for node in range(12)]
    bipartite = [(a, 4 + b) for a in range(4) for b in range(4)]
    for edges in (star, apart, cycle, bipartite):
        assert len(set(edge_shapes(*zip(*edges, strict=True)))) == 1


def test_smaller_shapes_are_the_components_of_all_parts() -> None:
    for edges in drawn(25, 6, seed=5):
        expected = set()
        for size in range(1, len(edges) + 1):
            for part in itertools.combinations(edges, size):
                ends = tuple(zip(*part, strict=True))
                for component in components(*ends):
                    expected.add(shape(*zip(*(part[e] for e in component), strict=True)))
        shapes = smaller_shapes(*zip(*edges, strict=True))
        assert set(shapes) == expected
        assert len(shapes) == len(expected)


def test_random_graphs_have_the_given_size_or_are_refused() -> None:
    sources, destinations = random_graph(500, 4, 7)
    assert random_graph(500, 4, 7) == (sources, destinations)
    assert random_graph(500, 4, 8) != (sources, destinations)
    assert all(a != b for a, b in zip(sources, destinations, strict=True))
    counts = np.zeros((4, 4))
    np.add.at(counts, (sources, destinations), 1)
    assert counts[~np.eye(4, dtype=bool)].min() > 20  # expected: 42
    for edges, nodes, seed in ((0, 4, 0), (3, 1, 0), (3, 4, -1)):
        with pytest.raises(InputError, match="expected at least 1 edge, 2 nodes"):
            random_graph(edges, nodes, seed)
