"""Trees, KNS, grids and rings: numbers from papers, port order and names."""

from __future__ import annotations

from collections import Counter
from itertools import product

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order
from tests.fabric_views import neighbours, switch_graph, switch_links

from weft.fabrics import LinkKind
from weft.fabrics.topology import build, closed_form
from weft.fabrics.topology.measures import diameter

# -- trees ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "h", "m", "w", "p"),
    [
        ("xgft:2;4,3;2,2", 2, (4, 3), (2, 2), (1, 1)),
        ("xgft:3;2,3,2;1,2,3;1,2,1", 3, (2, 3, 2), (1, 2, 3), (1, 2, 1)),
        ("xgft:2;3,2;2,3;2,2", 2, (3, 2), (2, 3), (2, 2)),
    ],
)
def test_xgft_joins_nodes_that_agree_in_all_digits_but_one(spec, h, m, w, p):
    """Compare all cables with Öhring's definition, which uses tuples of digits."""
    expected = Counter()
    for level in range(1, h + 1):
        below = (*w[: level - 1], *m[level - 1 :])
        above = (*w[:level], *m[level:])
        for child in product(*map(range, below)):
            for parent in product(*map(range, above)):
                same = [child[i] == parent[i] for i in range(h) if i != level - 1]
                if all(same):
                    expected[(level - 1, child), (level, parent)] += p[level - 1]
    fabric = build(spec)
    cables = Counter()
    label = [
        (int(level), tuple(map(int, digits)))
        for level, digits in zip(fabric.level, fabric.coordinates, strict=True)
    ]
    for a, b in zip(fabric.link_from[0::2], fabric.link_to[0::2], strict=True):
        cables[tuple(sorted((label[a], label[b])))] += 1
    assert cables == expected


def test_parallel_cables_of_a_tree_have_the_ports_of_zahavi():
    fabric = build("xgft:2;2,3;1,2;1,2")
    leaf = fabric.find_node("s1-1")
    ports = neighbours(fabric, "s1-1")
    assert list(ports) == [1, 2, 3, 4, 5, 6]
    assert [ports[p] for p in (1, 2)] == ["h2", "h3"]
    # Up port q leads to parent q mod w: to both parents, then to both again.
    assert [ports[p] for p in (3, 4, 5, 6)] == ["s2-0", "s2-1", "s2-0", "s2-1"]
    # Down port c m + y of a spine leads to child y, copy c.
    assert list(neighbours(fabric, "s2-1").values()) == ["s1-0", "s1-1", "s1-2"] * 2
    assert fabric.level[leaf] == 1


def test_hosts_of_a_multi_port_tree_have_a_port_per_leaf():
    fabric = build("xgft:2;3,4;2,2;2,1")
    assert set(fabric.num_ports[fabric.host_nodes].tolist()) == {4}
    assert fabric.num_endpoints == 4 * fabric.num_hosts
    assert diameter(fabric) == 4


def test_fat_tree_core_group_j_serves_aggregation_switch_j_of_every_pod():
    fabric = build("fat-tree:k=4")
    assert neighbours(fabric, "core1.0") == {1: "agg0.1", 2: "agg1.1", 3: "agg2.1", 4: "agg3.1"}
    assert neighbours(fabric, "agg2.1") == {1: "edge2.0", 2: "edge2.1", 3: "core1.0", 4: "core1.1"}
    assert neighbours(fabric, "edge2.0") == {1: "h2.0.0", 2: "h2.0.1", 3: "agg2.0", 4: "agg2.1"}


def test_leaf_spine_ports():
    fabric = build("leaf-spine:leaves=3,spines=2,hosts=2,cables=2")
    assert list(neighbours(fabric, "leaf1").values()) == ["h1.0", "h1.1", *["spine0", "spine1"] * 2]
    assert list(neighbours(fabric, "spine1").values()) == ["leaf0", "leaf1", "leaf2"] * 2


@pytest.mark.parametrize("nodes", [45, 36])
def test_cellia_has_21_switches_of_8_ports_in_stages_of_9_9_and_3(nodes):
    fabric = build(f"cellia:nodes={nodes}")
    assert (fabric.num_hosts, fabric.num_switches) == (nodes, 21)
    switches = slice(0, 21)
    assert set(fabric.num_ports[switches].tolist()) == {8}
    assert np.bincount(fabric.level[switches]).tolist() == [0, 9, 9, 3]
    used = np.bincount(fabric.link_from)[switches]
    by_stage = {stage: set(used[fabric.level[switches] == stage].tolist()) for stage in (1, 2, 3)}
    assert by_stage == {1: {nodes // 9 + 3}, 2: {5}, 3: {6}}
    # Only the top stage has parallel cables; every top switch reaches every group.
    graph = switch_graph(fabric)
    for a, b in set(graph.edges()):
        on_top = 3 in (fabric.level[a], fabric.level[b])
        assert graph.number_of_edges(a, b) == (2 if on_top else 1)
    assert set(neighbours(fabric, "top1").values()) == {"mid0.1", "mid1.1", "mid2.1"}
    # Three groups of 3 leaves: without the top stage three parts of 15 or 12 hosts remain.
    split = fabric.without(switches=["top0", "top1", "top2"])
    parts = nx.Graph(zip(split.link_from.tolist(), split.link_to.tolist(), strict=True))
    sizes = [
        sum(node >= split.num_switches for node in part) for part in nx.connected_components(parts)
    ]
    assert sizes == [nodes // 3] * 3
    assert diameter(split) is None


def test_slimmed_fat_tree_halves_the_cables_of_each_level():
    fabric = build("slimmed-fat-tree:k=4,up=2,n=3")
    up = fabric.level[fabric.link_to].astype(int) > fabric.level[fabric.link_from]
    by_level = np.bincount(fabric.level[fabric.link_from[up]])
    assert by_level.tolist() == [64, 32, 16]


# -- KNS and BCube -------------------------------------------------------------------------------


def test_kns_matches_the_example_of_the_paper():
    fabric = build("kns:k=6,n=2")
    assert fabric.num_hosts == 36
    assert fabric.num_switches == 36 + 12
    kinds = Counter(fabric.link_kind[0::2].tolist())
    host_cables = kinds[LinkKind.SWITCH_HOST] + kinds[LinkKind.HOST_SWITCH]
    assert (host_cables, kinds[LinkKind.SWITCH_SWITCH]) == (36, 72)
    # The paper: a router connected to switches [0,4] and [1,2] is router [4,2]; X port first.
    assert neighbours(fabric, "r4.2") == {1: "h4.2", 2: "s0.4", 3: "s1.2"}
    # Switch [0,0] has routers [0,0], [0,1] … on its ports in ascending order.
    assert list(neighbours(fabric, "s0.0").values()) == [f"r0.{i}" for i in range(6)]


def test_kns_3_ary_3_direct_needs_54_switches():
    assert build("kns:k=3,n=3").num_switches == 27 + 27


def test_kns_coordinates_are_digits_and_line_switches_lack_one():
    fabric = build("kns:k=3,n=3")
    assert fabric.coordinates[fabric.find_node("r2.1.0")].tolist() == [0, 1, 2]
    assert fabric.coordinates[fabric.find_node("h2.1.0")].tolist() == [0, 1, 2]
    for link in switch_links(fabric):
        tail, head = fabric.link_from[link], fabric.link_to[link]
        if fabric.node_names[head].startswith("s"):
            line = fabric.coordinates[head]
            (dimension,) = np.flatnonzero(line < 0)
            assert np.delete(line, dimension).tolist() == (
                np.delete(fabric.coordinates[tail], dimension).tolist()
            )
            # A router has one port per dimension, and its number at the line's switch is its digit.
            assert fabric.link_from_port[link] == 2 + dimension
            assert fabric.link_to_port[link] == 1 + fabric.coordinates[tail, dimension]


def test_kns_line_of_two_stages_has_four_leaves_under_two_tops():
    fabric = build("kns:k=16,n=2,s=2,d=8")
    assert fabric.num_switches == 256 + 32 * (4 + 2)
    assert Counter(neighbours(fabric, "s1.5.2.0").values()) == {
        f"s1.5.1.{leaf}": 2 for leaf in range(4)
    }
    leaf = neighbours(fabric, "s0.3.1.1")
    assert list(leaf.values()) == [
        *(f"r3.{i}" for i in range(4, 8)),
        *["s0.3.2.0", "s0.3.2.1"] * 2,
    ]
    # A line of routers is a full fat tree: as many uplinks as there are routers.
    assert closed_form(fabric).cables == fabric.num_cables == 256 + 2 * 2 * 256


@pytest.mark.parametrize(
    ("spec", "leaves", "tops", "parallel"),
    [
        ("kns:k=12,n=1,d=8", 3, 2, 2),  # three blocks: two cables to each of two top switches
        ("kns:k=20,n=1,d=8", 5, 4, 1),  # five blocks leave three ports of each top switch empty
        ("kns:k=32,n=1,d=8", 8, 4, 1),
        ("kns:k=6,n=1,d=4", 3, 2, 1),
        ("kns:k=8,n=1,d=4", 4, 2, 1),
        ("kns:k=12,n=1,d=6", 4, 3, 1),
        ("kns:k=6,n=1,d=8,cables=2", 3, 2, 2),
    ],
)
def test_kns_lines_fill_the_top_stage_as_far_as_possible(spec, leaves, tops, parallel):
    fabric = build(spec)
    names = [name for name in fabric.node_names if name.startswith("s")]
    assert Counter(name.split(".")[2] for name in names) == {"1": leaves, "2": tops}
    assert Counter(neighbours(fabric, "s0.0.2.0").values()) == {
        f"s0.0.1.{leaf}": parallel for leaf in range(leaves)
    }


def test_kns_of_three_stages():
    fabric = build("kns:k=16,n=1,s=3,d=4")
    # A line of 2 (d/2)^s routers is full: 8 + 8 + 4 switches of four ports, all of them used.
    assert fabric.num_switches == 16 + 20
    used = np.bincount(fabric.link_from)[: fabric.num_switches]
    lines = [fabric.find_node(n) for n in fabric.node_names if n.startswith("s")]
    assert set(used[lines].tolist()) == {4}
    assert diameter(fabric) == 2 + 2 * 3


def test_kns_with_adapters_that_route_is_bcube():
    kns, bcube = build("kns:k=4,n=3,router=adapter"), build("bcube:n=4,k=2")
    assert kns.forwards.all()
    assert kns.num_ports[kns.host_nodes].tolist() == [3] * 64
    assert kns.num_endpoints == 64
    assert np.array_equal(kns.link_from, bcube.link_from)
    assert np.array_equal(kns.link_from_port, bcube.link_from_port)


def test_bcube_joins_hosts_that_differ_in_one_digit():
    fabric = build("bcube:n=3,k=2")
    level1 = neighbours(fabric, "s1.5")  # digits a2 = 1, a0 = 2 remain: 5 = 2 + 3·1
    assert list(level1.values()) == ["h1.0.2", "h1.1.2", "h1.2.2"]
    assert list(neighbours(fabric, "h1.0.2")) == [1, 2, 3]
    assert neighbours(fabric, "h1.0.2")[2] == "s1.5"


# -- grids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    ["torus:4x4x4", "torus:dims=5x3,hosts=2,cables=2", "torus:2x3x4", "mesh:3x4x2", "ring:7"],
)
def test_each_port_of_a_grid_has_one_dimension_and_direction(spec):
    fabric = build(spec)
    dims = fabric.parameters.get("dims") or (fabric.parameters["n"],)
    hosts, cables = fabric.parameters["hosts"], fabric.parameters["cables"]
    wrap = fabric.family != "mesh"
    for link in switch_links(fabric):
        port_number, _copy = divmod(int(fabric.link_from_port[link]) - hosts - 1, cables)
        dimension, down = divmod(port_number, 2)
        step = np.zeros(len(dims), dtype=int)
        step[dimension] = -1 if down else 1
        neighbour = fabric.coordinates[fabric.link_from[link]] + step
        if wrap:
            neighbour = neighbour % dims
        assert neighbour.tolist() == fabric.coordinates[fabric.link_to[link]].tolist()


@pytest.mark.parametrize(
    ("spec", "degree"),
    [
        ("torus:4x4x4", 6),
        ("torus:5x3,cables=2", 8),
        ("torus:2x2x2", 3),
        ("torus:2x3x4", 5),
        ("ring:2", 1),
        ("ring:5", 2),
        ("hypercube:5", 5),
        ("hyperx:S=4x3,K=2,1", 8),
        ("flattened-butterfly:k=4,n=3", 6),
        ("dragonfly:p=2,a=4,h=2", 5),
        ("rdt:size=24,n=2,R=2,m=1", 8),
        ("rdt:size=24,n=2,R=2,m=2", 12),
        ("slim-fly:q=5", 7),
        ("slim-fly:q=4", 6),
        ("slim-fly:q=7", 11),
        ("jellyfish:switches=20,degree=5", 5),
        ("multi-ring:n=9,ratio=3,rings=1", 2),
    ],
)
def test_switches_have_equal_degrees(spec, degree):
    graph = switch_graph(build(spec))
    assert set(dict(graph.degree()).values()) == {degree}


def test_a_ring_of_two_is_one_cable():
    for spec in ("ring:2", "torus:2x1", "mesh:2", "hypercube:1"):
        assert build(spec).num_cables == 3


def test_mesh_leaves_ports_off_the_grid_empty():
    fabric = build("mesh:3x2")
    assert set(neighbours(fabric, "s0.0")) == {1, 2, 4}
    assert set(neighbours(fabric, "s1.1")) == {1, 2, 3, 5}
    assert set(fabric.num_ports[: fabric.num_switches].tolist()) == {5}


def test_hypercube_neighbours_differ_in_the_bit_of_the_port():
    fabric = build("hypercube:n=4,hosts=2,cables=2")
    for link in switch_links(fabric):
        tail, head = (
            int(fabric.node_names[end[link]][1:], 2) for end in (fabric.link_from, fabric.link_to)
        )
        assert tail ^ head == 1 << ((int(fabric.link_from_port[link]) - 3) // 2)


def test_hyperx_ports_of_lower_dimensions_come_first():
    fabric = build("hyperx:S=3x4,K=2,1,T=2")
    assert list(neighbours(fabric, "s1.2").values()) == [
        "h1.2.0", "h1.2.1",
        "s0.2", "s2.2", "s0.2", "s2.2",
        "s1.0", "s1.1", "s1.3",
    ]  # fmt: skip


def test_flattened_butterfly_is_a_hyperx():
    flat, hyperx = build("flattened-butterfly:k=4,n=3"), build("hyperx:S=4x4,K=1,T=4")
    assert flat.digest == hyperx.digest


# -- rings upon rings ----------------------------------------------------------------------------


def test_multi_ring_elects_every_nth_switch():
    fabric = build("multi-ring:n=18,ratio=3,rings=3,hosts=1")
    # The innermost ring has two switches and so one cable: up port at s0, down port at s9.
    expected = {1: "h9", 2: "s10", 3: "s8", 4: "s12", 5: "s6", 7: "s0"}
    assert neighbours(fabric, "s9") == expected
    assert neighbours(fabric, "s3") == {1: "h3", 2: "s4", 3: "s2", 4: "s6", 5: "s0"}
    assert neighbours(fabric, "s4") == {1: "h4", 2: "s5", 3: "s3"}
    assert set(fabric.num_ports[: fabric.num_switches].tolist()) == {3, 5, 7}


def test_rdt_ranks_are_alternately_diagonal_and_straight():
    fabric = build("rdt:size=48,n=2,R=3,m=3")
    expected = [
        (1, 0), (-1, 0), (0, 1), (0, -1),
        (2, 2), (-2, -2), (2, -2), (-2, 2),
        (8, 0), (-8, 0), (0, 8), (0, -8),
        (16, 16), (-16, -16), (16, -16), (-16, 16),
    ]  # fmt: skip
    for link in switch_links(fabric):
        step = fabric.coordinates[fabric.link_to[link]] - fabric.coordinates[fabric.link_from[link]]
        assert tuple(step % 48) == tuple(np.mod(expected[fabric.link_from_port[link] - 2], 48))


def test_rdt_gives_every_node_its_share_of_the_ranks():
    fabric = build("rdt:size=48,n=2,R=3,m=1")
    ranks = {(2, 2): 1, (8, 0): 2, (16, 16): 3}
    counts = Counter()
    for link in switch_links(fabric):
        if fabric.link_from_port[link] == 6:
            tail, head = fabric.link_from[link], fabric.link_to[link]
            step = (fabric.coordinates[head] - fabric.coordinates[tail]) % 48
            x, y = fabric.coordinates[tail]
            counts[int(x) % 2 + 2 * (int(y) % 2), ranks[tuple(step.tolist())]] += 1
    quarter = 48 * 48 // 4
    assert counts == {(0, 1): quarter, (1, 2): quarter, (2, 3): quarter, (3, 1): quarter}


def test_rdt_of_two_to_the_sixteen_nodes_has_the_published_diameter():
    """Yang et al. 2001 give 11 for 2^16 nodes with 8 links each."""
    fabric = build("rdt:size=256,n=2,R=4,m=1")
    graph = fabric.graph
    matrix = csr_array(
        (np.ones(len(graph.edge_row), dtype=np.int8), graph.edge_row, graph.edge_offset)
    )
    # The wiring repeats every two nodes in both directions, so four start nodes suffice.
    farthest = 0
    for start in (0, 1, 256, 257):
        order, before = breadth_first_order(matrix, start)
        depth = np.zeros(fabric.num_switches, dtype=int)
        for node in order[1:]:
            depth[node] = depth[before[node]] + 1
        farthest = max(farthest, int(depth.max()))
    assert farthest == 11
