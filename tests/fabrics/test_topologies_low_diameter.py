"""Dragonflies, Slim Fly and Jellyfish: numbers from papers, port order, graph properties."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from tests.fabric_views import neighbours, switch_graph, switch_links

from weft.fabrics.topology import build
from weft.fabrics.topology.jellyfish import random_regular_graph
from weft.fabrics.topology.measures import diameter
from weft.fabrics.topology.slimfly import finite_field, generator_sets, prime_power

# -- dragonflies ---------------------------------------------------------------------------------


def test_dragonfly_has_the_size_of_the_papers_figure():
    fabric = build("dragonfly:p=2,a=4,h=2")
    assert fabric.num_hosts == 72
    assert fabric.num_switches == 9 * 4
    assert len(np.unique(fabric.coordinates[:, 0])) == 9


@pytest.mark.parametrize("arrangement", ["absolute", "palmtree"])
@pytest.mark.parametrize(
    ("spec", "each"),
    [
        ("dragonfly:p=1,a=4,h=2", 1),
        ("dragonfly:p=1,a=4,h=2,g=5", 2),
        ("dragonfly:p=1,a=4,h=2,g=4", 2),
        ("dragonfly:p=1,a=3,h=3,g=2", 9),
        ("megafly:p=1,leaves=2,spines=4,h=2", 1),
        ("megafly:p=1,leaves=2,spines=4,h=2,g=4", 2),
    ],
)
def test_all_pairs_of_dragonfly_groups_have_equally_many_cables(spec, each, arrangement):
    fabric = build(f"{spec},arrangement={arrangement}")
    group = fabric.coordinates[:, 0]
    pairs = Counter()
    for a, b in switch_graph(fabric).edges():
        if group[a] != group[b]:
            pairs[tuple(sorted((int(group[a]), int(group[b]))))] += 1
    groups = int(group.max()) + 1
    assert set(pairs.values()) == {each}
    assert len(pairs) == groups * (groups - 1) // 2


@pytest.mark.parametrize("arrangement", ["absolute", "palmtree"])
def test_dragonfly_global_ports_lead_where_the_arrangement_says(arrangement):
    p, a, h, groups = 2, 4, 2, 9
    fabric = build(f"dragonfly:p={p},a={a},h={h},arrangement={arrangement}")
    checked = 0
    for link in switch_links(fabric):
        (group, switch) = fabric.coordinates[fabric.link_from[link]]
        there = fabric.coordinates[fabric.link_to[link], 0]
        port = int(fabric.link_from_port[link])
        if there != group:
            j = switch * h + port - (p + a - 1) - 1
            expected = (
                (j if j < group else j + 1)
                if arrangement == "absolute"
                else (group - j - 1) % groups
            )
            assert there == expected
            checked += 1
        else:
            other = fabric.coordinates[fabric.link_to[link], 1]
            assert port == p + 1 + other - (other > switch)
    assert checked == groups * a * h


def test_megafly_has_hosts_on_leaves_and_global_cables_on_spines():
    fabric = build("megafly:p=2,leaves=3,spines=2,h=2")
    assert list(neighbours(fabric, "leaf1.2").values()) == [
        "h1.2.0", "h1.2.1", "spine1.0", "spine1.1",
    ]  # fmt: skip
    spine = list(neighbours(fabric, "spine1.0").values())
    assert spine[:3] == ["leaf1.0", "leaf1.1", "leaf1.2"]
    assert all(name.startswith("spine") for name in spine[3:])
    assert len(spine) == 5


# -- Slim Fly ------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 25, 27])
def test_slim_fly_has_diameter_two_between_switches(q):
    assert diameter(build(f"slim-fly:q={q},hosts=1")) == 2 + 2


def test_slim_fly_of_5_is_the_hoffman_singleton_graph():
    graph = nx.Graph(switch_graph(build("slim-fly:q=5")))
    # The only graph of 50 nodes, degree 7 and diameter 2 (Hoffman and Singleton 1960).
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (50, 175)
    assert nx.diameter(graph) == 2


@pytest.mark.parametrize(("p", "e"), [(2, 2), (2, 3), (3, 2), (2, 4), (5, 2), (3, 3), (7, 1)])
def test_finite_fields_obey_the_axioms(p, e):
    field = finite_field(p, e)
    q = p**e
    a, b, c = (axis.reshape(-1) for axis in np.indices((q, q, q)))
    add, multiply = field.add, field.multiply
    assert np.array_equal(multiply[a, add[b, c]], add[multiply[a, b], multiply[a, c]])
    assert np.array_equal(multiply[a, multiply[b, c]], multiply[multiply[a, b], c])
    assert np.array_equal(add[a, add[b, c]], add[add[a, b], c])
    assert np.array_equal(add[0], np.arange(q))
    assert np.array_equal(multiply[1], np.arange(q))
    assert sorted(field.power.tolist()) == list(range(1, q))
    for first, second in pairwise(field.power):
        assert multiply[first, field.power[1]] == second
    # Adding a to itself p times gives 0.
    total = np.zeros(q, dtype=int)
    for _ in range(p):
        total = add[total, np.arange(q)]
    assert not total.any()


@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9, 11, 27])
def test_generator_sets_are_symmetric_and_cover_the_field(q):
    p, e = prime_power(q)
    field = finite_field(p, e)
    first, second = generator_sets(field.power)
    negative = {int(a): int(np.flatnonzero(field.add[a] == 0)[0]) for a in range(q)}
    for chosen in (first, second):
        assert {negative[int(g)] for g in chosen} == set(chosen.tolist())
    assert set(first.tolist()) | set(second.tolist()) == set(range(1, q))


def test_prime_powers_are_recognised():
    powers = {p**e for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31) for e in range(1, 6)}
    for q in range(33):
        assert (prime_power(q) is not None) == (q in powers)
    assert prime_power(3**5) == (3, 5)


# -- Jellyfish -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "degree"), [(5, 2), (6, 2), (6, 3), (7, 4), (9, 8), (10, 5), (40, 3), (200, 99)]
)
def test_jellyfish_is_simple_connected_and_of_exact_degree(nodes, degree):
    for seed in range(20 if nodes < 50 else 2):
        edges = random_regular_graph(nodes, degree, seed)
        graph = nx.Graph(edges.tolist())
        assert graph.number_of_edges() == len(edges) == nodes * degree // 2
        assert set(dict(graph.degree()).values()) == {degree}
        assert graph.number_of_nodes() == nodes
        assert nx.is_connected(graph)


def test_jellyfish_depends_on_its_seed_alone():
    first, again, other = (
        build(f"jellyfish:switches=30,degree=4,seed={seed}") for seed in (5, 5, 6)
    )
    assert first.digest == again.digest
    assert first.digest != other.digest


def test_jellyfish_draws_every_cable_about_equally_often():
    drawn = Counter()
    draws = 400
    for seed in range(draws):
        drawn.update(map(tuple, random_regular_graph(10, 3, seed).tolist()))
    assert len(drawn) == 45
    # Each of the 45 pairs has a cable with probability 1/3, so in about 133 of 400 draws.
    deviation = (draws * (1 / 3) * (2 / 3)) ** 0.5
    assert all(abs(count - draws / 3) < 6 * deviation for count in drawn.values())
