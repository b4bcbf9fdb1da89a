import itertools

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from tests.random_fabrics import random_fabric

from weft.core.words import natural_rank
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build
from weft.report.layout import layout
from weft.report.layout.by_level import _crossings, _inversions, spaced
from weft.report.layout.wiring import Wiring
from weft.routing.tree_levels import found_levels


def switch_positions(fabric: Fabric) -> np.ndarray:
    return layout(fabric).position[: fabric.num_switches]


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    "spec",
    [
        "xgft:2;4,4;1,2;1,2",
        "xgft:3;2,3,4;1,2,3",
        "torus:5x4",
        "torus:3x3x3",
        "mesh:4x1x2",
        "ring:7",
        "hypercube:5",
        "kns:k=4,n=2",
        "kns:k=3,n=3",
        "kns:k=16,n=2,s=2,d=8",
        "kns:k=4,n=2,router=adapter",
        "bcube:n=3,k=2",
        "dragonfly:p=2,a=4,h=2",
        "megafly:p=2,leaves=4,spines=4,h=2",
        "slim-fly:q=5",
        "multi-ring:n=16,ratio=2,rings=4",
        "rdt:size=6,n=2,R=1,m=1,hosts=2,cables=2",
    ],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_node_has_its_own_place(spec, shuffled):
    fabric = build(spec)
    if shuffled:
        fabric = fabric.shuffled(3)
    drawing = layout(fabric)
    assert drawing.position.shape == (fabric.num_nodes, 2)
    assert np.all(np.isfinite(drawing.position))
    assert np.all(np.isfinite(drawing.bend))
    assert pdist(drawing.position).min() > 0.01


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(12))
def test_any_fabric_can_be_drawn(seed):
    fabric = random_fabric(seed)
    drawing = layout(fabric)
    assert np.all(np.isfinite(drawing.position))
    assert np.all(np.isfinite(drawing.bend))
    again = layout(random_fabric(seed))
    assert np.array_equal(drawing.position, again.position)
    assert np.array_equal(drawing.bend, again.bend)


def test_tiny_fabrics_can_be_drawn():
    lone = FabricBuilder("lone")
    lone.hosts(["h0", "h1"])
    assert np.all(np.isfinite(layout(lone.fabric()).position))
    back_to_back = FabricBuilder("back to back")
    pair = back_to_back.hosts(["h0", "h1"])
    back_to_back.connect(pair[:1], pair[1:])
    assert pdist(layout(back_to_back.fabric()).position).min() > 0
    star = FabricBuilder("star")
    star.connect(star.switches(["s"]).repeat(3), star.hosts(["a", "b", "c"]))
    assert pdist(layout(star.fabric()).position).min() > 0
    assert layout(FabricBuilder("empty").fabric()).position.shape == (0, 2)


def test_a_labelled_tree_is_drawn_by_level():
    fabric = build("xgft:3;2,3,4;1,2,3")
    drawing = layout(fabric)
    assert drawing.kind == "levels"
    y = drawing.position[:, 1]
    heights = [y[fabric.level == level] for level in range(4)]
    for below, above in itertools.pairwise(heights):
        assert below.max() < above.min()


def test_hosts_stand_under_their_leaf():
    fabric = build("xgft:2;4,6;1,3")
    drawing = layout(fabric)
    leaves = np.flatnonzero(fabric.level == 1)
    hosts = fabric.host_nodes
    leaf_of = fabric.link_to[fabric.port_link[fabric.port_offset[hosts]]]
    nearest = leaves[
        np.argmin(np.abs(drawing.position[hosts, 0, None] - drawing.position[leaves, 0]), axis=1)
    ]
    assert np.array_equal(nearest, leaf_of)


def test_levels_are_found_again_in_a_shuffled_tree():
    fabric = build("xgft:3;4,4,4;1,4,4").shuffled(5)
    levels = found_levels(fabric)
    assert levels is not None
    assert np.bincount(levels.level).tolist() == [0, 16, 16, 16]


def test_a_torus_without_labels_is_no_tree():
    fabric = build("torus:5x5").shuffled(2)
    assert layout(fabric).kind == "distances"


def test_pods_of_a_shuffled_tree_stand_side_by_side():
    fabric = build("xgft:3;4,4,4;1,4,4").shuffled(7)
    drawing = layout(fabric)
    # Without the top level the fabric falls apart into the pods.
    tops = np.flatnonzero(drawing.level == 3)
    parts = Wiring.of(fabric.without(switches=tops.tolist()))
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(parts.matrix(), directed=False)
    assert count == 4
    lower = np.setdiff1d(np.arange(fabric.num_switches), tops)
    spans = sorted(
        (
            drawing.position[lower[label == pod], 0].min(),
            drawing.position[lower[label == pod], 0].max(),
        )
        for pod in range(count)
    )
    for (_, right), (left, _) in itertools.pairwise(spans):
        assert right < left


def test_barycentre_sweeps_remove_crossings():
    # Two leaf-spine fabrics whose names interleave.
    build_two = FabricBuilder("interleaved")
    spines = build_two.switches([f"spine{i}" for i in range(8)])
    leaves = build_two.switches([f"leaf{i}" for i in range(8)])
    hosts = build_two.hosts([f"h{i}" for i in range(8)])
    build_two.connect(leaves, hosts)
    for leaf in range(8):
        for spine in range(8):
            if (leaf - spine) % 2 == 0:
                build_two.connect(leaves[leaf : leaf + 1], spines[spine : spine + 1])
    fabric = build_two.fabric()
    drawing = layout(fabric)
    wiring = Wiring.of(fabric)
    level = drawing.level[wiring.core]
    drawn = _crossings(wiring, drawing.position[wiring.core, 0], level)
    named = _crossings(wiring, natural_rank(fabric.node_names)[wiring.core].astype(float), level)
    assert drawn == 2 * (4 * 3 // 2) ** 2  # each half is a complete bipartite graph on 4 + 4
    assert drawn < named


def test_inversions_against_brute_force():
    random = np.random.default_rng(0)
    for size in (0, 1, 2, 7, 40):
        values = random.integers(0, 10, size).astype(float)
        brute = sum(values[i] > values[j] for i in range(size) for j in range(i + 1, size))
        assert _inversions(values) == brute


def test_spaced_keeps_gaps_and_moves_little():
    wanted = np.array([0.0, 0.0, 0.0, 10.0])
    placed = spaced(wanted, np.ones(3))
    assert placed.tolist() == [-1.0, 0.0, 1.0, 10.0]
    random = np.random.default_rng(1)
    for _ in range(20):
        wanted, gap = np.sort(random.random(9) * 5), random.random(8)
        placed = spaced(wanted, gap)
        assert np.all(np.diff(placed) >= gap - 1e-9)
        # Positions are optimal if no block of touching ones improves by moving as a whole.
        touching = np.flatnonzero(np.diff(placed) > gap + 1e-9) + 1
        for block in np.split(np.arange(9), touching):
            assert abs((placed - wanted)[block].sum()) < 1e-9


def test_grid_follows_coordinates():
    fabric = build("mesh:4x3")
    position = switch_positions(fabric)
    where = fabric.coordinates[: fabric.num_switches]
    assert layout(fabric).kind == "coordinates"
    assert np.array_equal(position, where * [1, -1])


def test_a_line_switch_stands_within_its_line():
    fabric = build("kns:k=6,n=2")
    position = switch_positions(fabric)
    where = fabric.coordinates[: fabric.num_switches]
    rows = np.flatnonzero(where[:, 0] < 0)
    assert len(rows) == 6
    for switch in rows:
        members = np.flatnonzero((where[:, 0] >= 0) & (where[:, 1] == where[switch, 1]))
        x, y = position[switch]
        assert position[members, 0].min() < x < position[members, 0].max()
        assert abs(y - position[members, 1].mean()) < 0.5


def test_groups_stand_apart_with_their_hosts_outside():
    fabric = build("megafly:p=2,leaves=4,spines=4,h=2")
    drawing = layout(fabric)
    group = fabric.coordinates[:, 0]
    switches = np.arange(fabric.num_switches)
    middle = np.array(
        [drawing.position[switches][group[switches] == g].mean(axis=0) for g in range(9)]
    )
    nearest = np.argmin(np.linalg.norm(drawing.position[:, None] - middle[None], axis=2), axis=1)
    assert np.array_equal(nearest, group)
    # Leaves, which have the hosts, are on the outer side of a group; spines on the inner.
    out = np.linalg.norm(drawing.position[switches], axis=1)
    leaf = np.array([name.startswith("leaf") for name in fabric.node_names[: fabric.num_switches]])
    for g in range(9):
        mine = group[switches] == g
        assert out[mine & leaf].mean() > out[mine & ~leaf].mean()


def test_mean_distances_in_the_drawing_grow_with_hops():
    fabric = build("torus:6x6").shuffled(4)
    wiring = Wiring.of(fabric)
    from scipy.sparse.csgraph import shortest_path

    hops = shortest_path(wiring.matrix(), unweighted=True)[np.triu_indices(36, 1)]
    apart = pdist(switch_positions(fabric))
    means = [apart[hops == hop].mean() for hop in range(1, 7)]
    assert all(near < far for near, far in itertools.pairwise(means))


def test_parts_that_are_not_joined_do_not_overlap():
    fabric = build("torus:4x4").shuffled(1)
    pair = FabricBuilder("two")
    for copy in range(2):
        nodes = pair.switches([f"t{copy}-{i}" for i in range(16)])
        inner = fabric.link_kind[0::2] == 0
        pair.connect(nodes[fabric.link_from[0::2][inner]], nodes[fabric.link_to[0::2][inner]])
    position = layout(pair.fabric()).position
    first, second = position[:16], position[16:]
    assert first[:, 0].max() < second[:, 0].min() or first[:, 1].min() > second[:, 1].max()


def test_parallel_and_wraparound_cables_are_bent():
    fabric = build("xgft:2;2,2;1,2;1,3")
    drawing = layout(fabric)
    pairs: dict[tuple[int, int], list[float]] = {}
    for cable in range(fabric.num_cables):
        ends = sorted((int(fabric.link_from[2 * cable]), int(fabric.link_to[2 * cable])))
        pairs.setdefault((ends[0], ends[1]), []).append(float(drawing.bend[cable]))
    threes = [bends for bends in pairs.values() if len(bends) == 3]
    assert len(threes) == 4
    assert all(sorted(bends) == [-0.05, 0.0, 0.05] for bends in threes)
    assert all(bends == [0.0] for bends in pairs.values() if len(bends) == 1)

    torus = build("torus:5x5")
    bend = layout(torus).bend
    at = layout(torus).position
    length = np.hypot(*(at[torus.link_from[0::2]] - at[torus.link_to[0::2]]).T)
    assert np.all(bend[length > 1.5] > 0)  # wraparound cables pass beside the others
    assert np.all(bend[length < 1.5] == 0)


def test_natural_order_of_names():
    names = ("n10", "n2", "n1a", "n1", "a", "10", "9")
    order = [names[i] for i in np.argsort(natural_rank(names))]
    assert order == ["9", "10", "a", "n1", "n1a", "n2", "n10"]


@pytest.mark.parametrize(
    ("spec", "switches", "pods"),
    [
        ("xgft:3;6,6,8;1,6,6", 36 + 8 + 8, 8),  # 8 pods of 6 + 6 switches, 36 top switches
        ("leaf-spine:leaves=96,spines=8,hosts=2", 8 + 32, None),
        ("torus:60x60", 20 * 20, None),
    ],
)
def test_groups_are_few_and_hosts_go_with_their_switch(spec, switches, pods):
    fabric = build(spec)
    if not spec.startswith("torus"):
        fabric = fabric.shuffled(1)  # without labels a torus has no coordinates
    group = layout(fabric).group
    core, hosts = group[: fabric.num_switches], group[fabric.num_switches :]
    assert len(np.unique(core)) == switches
    assert set(np.unique(group)) == set(range(group.max() + 1))
    # Hosts are together if and only if their switches are.
    parent = core[fabric.link_to[fabric.port_link[fabric.port_offset[fabric.host_nodes]]]]
    together = hosts[:, None] == hosts[None, :]
    assert np.array_equal(together, parent[:, None] == parent[None, :])
    assert not set(core) & set(hosts)
    if pods:
        assert len(np.unique(hosts)) == pods
