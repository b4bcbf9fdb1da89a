"""Levels of trees with idle leaf switches, added hosts and switches, and missing cables."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from weft.advice.faults import faults
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.levels import hosts_of_rows, tree_levels
from weft.fabrics.topology import build
from weft.routing.engines.updn import chosen_roots
from weft.routing.structure.fat_tree import find_levels
from weft.sim.keys.network import key_network

#: Trees with at least three subtrees below each top switch. With two, half of the tree is like one
#: missing cable.
TREES = (
    "xgft:2;8,8;1,4", "xgft:2;12,24;1,12", "leaf-spine:leaves=6,spines=3,hosts=6,cables=2",
    "leaf-spine:leaves=10,spines=2,hosts=16", "xgft:3;4,4,4;1,4,4", "xgft:3;6,6,6;1,3,3",
    "fat-tree:8", "slimmed-fat-tree:k=6,up=3,n=3", "xgft:3;4,4,3;1,2,4;1,1,2",
    "xgft:4;3,3,3,3;1,3,3,3", "xgft:3;8,4,8;1,2,2", "xgft:3;4,4,4;1,1,1", "kary-n-tree:k=3,n=3",
)  # fmt: skip


def damaged(seed: int, *, pod: bool = False) -> tuple[str, Fabric, NDArray[np.int64]]:
    """Return a tree with random damages, and the levels of its switches, in random order.

    Up to a tenth of the hosts are off, first those of whole leaf switches; up to a fiftieth of the
    cables between switches is missing; one or two hosts are attached to upper switches; one or two
    switches with one or two hosts hang on any switch. With `pod`, the hosts that are off are those
    of a whole subtree below the top switches.
    """
    random = np.random.default_rng(seed)
    tree = build(TREES[seed % len(TREES)])
    count, level = tree.num_switches, tree.level[: tree.num_switches].astype(np.int64)
    ends = np.stack((tree.link_from[0::2], tree.link_to[0::2])).astype(np.int64)
    to_host = (ends >= count).any(axis=0)
    ends[:, to_host] = np.sort(ends[:, to_host], axis=0)
    kept = np.ones(tree.num_cables, dtype=bool)
    kinds = random.permutation(4)[: random.integers(1, 5)]
    if pod:
        idle = hosts_below(tree, int(level.max()))
        kept[np.flatnonzero(to_host)[np.isin(ends[1][to_host] - count, idle)]] = False
    elif 0 in kinds:
        leaves = np.flatnonzero(level == 1)
        each, most = tree.num_hosts // len(leaves), tree.num_hosts // 10
        idle = random.choice(leaves, random.integers(1, max(1, min(3, most // each)) + 1), False)
        kept &= ~(to_host & np.isin(ends[0], idle))
        off = random.integers(0, max(0, most - each * len(idle)) + 1)
        kept[random.choice(np.flatnonzero(to_host), off, False)] = False
    if 1 in kinds:
        between = np.flatnonzero(~to_host)
        missing = random.integers(1, max(1, len(between) // 50) + 1)
        kept[random.choice(between, missing, False)] = False
    added = []
    if 2 in kinds:
        added += random.choice(np.flatnonzero(level > 1), random.integers(1, 3)).tolist()
    hanging = random.choice(count, random.integers(1, 3)).tolist() if 3 in kinds else []
    for stub in range(len(hanging)):
        added += [count + stub] * int(random.integers(1, 3))
    order = random.permutation(count + len(hanging))
    maker = FabricBuilder("damaged")
    switches = maker.switches([f"s{i}" for i in range(len(order))])[order]
    hosts = maker.hosts([f"h{i}" for i in range(tree.num_hosts + len(added))])
    plain = ends[:, kept & ~to_host]
    maker.connect(switches[plain[0]], switches[plain[1]])
    low, high = ends[:, kept & to_host]
    maker.connect(switches[low], hosts[high - count])
    maker.connect(switches[hanging], switches[count:])
    maker.connect(switches[added], hosts[tree.num_hosts :])
    truth = np.empty(len(order), dtype=np.int64)
    truth[order] = np.concatenate((level, level[hanging] - 1))
    return tree.name, maker.fabric(), truth


def hosts_below(fabric: Fabric, top: int) -> NDArray[np.intp]:
    """Return the hosts of the subtree of the first host below level `top`."""
    graph, level = fabric.graph, fabric.level[: fabric.num_switches]
    inside = (level[graph.edge_tail] < top) & (level[graph.edge_row] < top)
    part = connected_components(graph.matrix(inside), directed=False)[1]
    of_host = part[graph.destination_row[: fabric.num_hosts]]
    return np.flatnonzero(of_host == of_host[0])


def wrong(seed: int, *, pod: bool = False) -> str:
    """Return the tree of a seed if the levels of its largest part are wrong, or else nothing."""
    name, fabric, truth = damaged(seed, pod=pod)
    part = fabric.graph.components
    main = part == np.bincount(part, weights=hosts_of_rows(fabric)).argmax()
    try:
        right = np.array_equal(tree_levels(fabric)[main], truth[main])
    except NotApplicable:
        right = False
    return "" if right else f"{name} with seed {seed}"


def test_damaged_trees_have_the_levels_of_the_whole_trees() -> None:
    assert [found for seed in range(60) if (found := wrong(seed))] == []


def test_trees_of_which_a_whole_pod_is_off_have_the_levels_of_the_whole_trees() -> None:
    seeds = [8, 50, 82, 90, *range(20)]  # in seed 50, the idle subtree is cut off
    assert [found for seed in seeds if (found := wrong(seed, pod=True))] == []


@pytest.mark.slow
def test_a_thousand_damaged_trees_have_the_levels_of_the_whole_trees() -> None:
    assert [found for seed in range(60, 1000) if (found := wrong(seed))] == []
    assert [found for seed in range(20, 400) if (found := wrong(seed, pod=True))] == []


@pytest.mark.parametrize("spec", TREES)
def test_whole_trees_have_the_levels_of_their_labels(spec: str) -> None:
    fabric = build(spec)
    assert tree_levels(fabric).tolist() == fabric.level[: fabric.num_switches].tolist()
    again = find_levels(fabric.shuffled(3))
    assert np.bincount(again).tolist() == np.bincount(tree_levels(fabric)).tolist()


@pytest.mark.parametrize(
    "spec",
    ["torus:5x5", "torus:3x3", "mesh:4x4", "dragonfly:p=2,a=4,h=2", "slim-fly:q=5", "hypercube:4",
     "jellyfish:switches=20,degree=4,hosts=2", "hyperx:4x4", "ring:8",
     "megafly:p=2,leaves=4,spines=4,h=2"],
)  # fmt: skip
def test_other_networks_are_no_trees(spec: str) -> None:
    fabric = build(spec)
    with pytest.raises(NotApplicable, match="this is not a fat tree"):
        tree_levels(fabric)
    idle = fabric.without(cables=[f"{fabric.host_names[0]}[1]"])
    with pytest.raises(NotApplicable, match="this is not a fat tree"):
        tree_levels(idle)


def test_many_leaves_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = build("leaf-spine:leaves=40,spines=6,hosts=4").without(
        cables=["leaf3[5]", "leaf7[6]", *(f"h2.{host}[1]" for host in range(4))]
    )
    expected = tree_levels(fabric).tolist()
    assert expected == [1] * 40 + [2] * 6
    monkeypatch.setattr("weft.fabrics.levels.MAX_SOURCES", 10)
    assert tree_levels(fabric).tolist() == expected


@pytest.mark.parametrize("spec", [spec for spec in TREES if build(spec).level.max() > 2])
def test_a_subtree_without_hosts_is_not_upside_down(spec: str) -> None:
    fabric = build(spec)
    level = fabric.level[: fabric.num_switches]
    for top in range(2, int(level.max()) + 1):
        idle = [f"{fabric.host_names[host]}[1]" for host in hosts_below(fabric, top)]
        assert tree_levels(fabric.without(cables=idle)).tolist() == level.tolist()


@pytest.mark.parametrize("leaves", [(6, 6), (6, 4), (5, 6, 5)])
def test_trees_that_a_cable_joins_are_trees(leaves: tuple[int, ...]) -> None:
    """Each tree has its levels, its missing cable is found, and the largest one has keys."""
    builder = FabricBuilder("trees that a cable joins")
    expected: list[int] = []
    tops = []
    for at, count in enumerate(leaves):
        low = builder.switches([f"t{at}.leaf{leaf}" for leaf in range(count)])
        tops.append(builder.switches([f"t{at}.spine{spine}" for spine in range(4)]))
        kept = np.arange(4 * count) != (9 if at == 0 else -1)
        builder.connect(low.repeat(4)[kept], np.tile(tops[-1], count)[kept])
        builder.connect(low.repeat(4), builder.hosts([f"t{at}.h{h}" for h in range(4 * count)]))
        expected += [1] * count + [2] * 4
    for one, other in pairwise(tops):
        builder.connect(one[:1], other[:1])
    fabric = builder.fabric()
    assert tree_levels(fabric).tolist() == expected
    assert [fault.text for fault in faults(fabric)] == ["t0.leaf2 -- t0.spine1: 0 of 1"]
    largest = int(np.argmax(leaves))
    names = {fabric.host_names[host][:2] for host in key_network(fabric).hosts}
    assert names == {f"t{largest}"}


def test_roots_are_neither_idle_leaves_nor_stubs() -> None:
    tree = build("xgft:3;4,4,4;1,4,4")
    idle = tree.without(cables=[f"h{host}[1]" for host in range(8)])
    roots, rule = chosen_roots(idle)
    assert rule == "top level of the tree"
    assert roots.tolist() == np.flatnonzero(tree.level == 3).tolist()
