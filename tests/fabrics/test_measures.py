"""Distances and bisections, compared with exhaustive searches."""

from __future__ import annotations

import numpy as np
import pytest
from tests.random_fabrics import random_fabric

import weft
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build, closed_form
from weft.fabrics.topology.measures import (
    average_distance,
    bisection_upper_bound,
    diameter,
    distance_counts,
)


def plain_counts(fabric: Fabric) -> list[int]:
    """Return the number of ordered pairs of hosts at each distance, by breadth-first searches."""
    neighbours: dict[int, set[int]] = {}
    for tail, head in zip(fabric.link_from.tolist(), fabric.link_to.tolist(), strict=True):
        neighbours.setdefault(tail, set()).add(head)
    counts = [0]
    hosts = fabric.host_nodes.tolist()
    for start in hosts:
        seen, front, distance = {start}, {start}, 0
        while front:
            counts += [0] * (distance + 1 - len(counts))
            counts[distance] += sum(node in hosts and node != start for node in front)
            passing = (node for node in front if node == start or fabric.forwards[node])
            front = {neighbour for node in passing for neighbour in neighbours.get(node, ())} - seen
            seen |= front
            distance += 1
    while len(counts) > 1 and not counts[-1]:
        counts.pop()
    return counts


def smallest_cut(fabric: Fabric) -> int:
    """Return the smallest cut of all divisions of forwarding nodes, other hosts divided best."""
    forwarding = np.flatnonzero(fabric.forwards)
    bit_of = {int(node): i for i, node in enumerate(forwarding)}
    masks = np.arange(1 << len(forwarding), dtype=np.int64)

    def side(node: int) -> np.ndarray:
        return masks >> bit_of[node] & 1

    cut = np.zeros(len(masks), dtype=np.int32)
    fixed = [int(n) for n in fabric.host_nodes if not fabric.forwards[n]]
    up = {node: [np.zeros_like(cut), np.zeros_like(cut)] for node in fixed}
    for a, b in zip(fabric.link_from[0::2].tolist(), fabric.link_to[0::2].tolist(), strict=True):
        if a in bit_of and b in bit_of:
            cut += (side(a) ^ side(b)).astype(np.int32)
        else:
            host, other = (a, b) if b in bit_of else (b, a)
            up[host][0] += (1 - side(other)).astype(np.int32)
            up[host][1] += side(other).astype(np.int32)
    moving = np.zeros_like(cut)
    for node in fabric.host_nodes.tolist():
        if fabric.forwards[node]:
            moving += side(node).astype(np.int32)
    # If all hosts that do not forward are on side 0, their cables add `base` to the cut. As many of
    # them as balance needs then move to side 1, in the order of the cost of moving.
    base = sum((up[node][1] for node in fixed), start=np.zeros_like(cut))
    change = np.array([up[node][0] - up[node][1] for node in fixed]).reshape(len(fixed), len(masks))
    prefix = np.vstack((np.zeros_like(cut), np.cumsum(np.sort(change, axis=0), axis=0)))
    best = None
    for half in {fabric.num_hosts // 2, -(-fabric.num_hosts // 2)}:
        needed = half - moving
        fits = np.flatnonzero((needed >= 0) & (needed <= len(fixed)))
        if len(fits):
            value = int((cut[fits] + base[fits] + prefix[needed[fits], fits]).min())
            best = value if best is None else min(best, value)
    assert best is not None
    return best


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(60))
def test_distances_on_random_fabrics_equal_plain_counts(seed):
    fabric = random_fabric(seed, switches=7, hosts=9)
    counts = plain_counts(fabric)
    assert distance_counts(fabric).tolist() == counts
    connected = sum(counts) == fabric.num_hosts * (fabric.num_hosts - 1)
    assert diameter(fabric) == (len(counts) - 1 if connected else None)
    if connected:
        mean = sum(d * count for d, count in enumerate(counts)) / sum(counts)
        assert average_distance(fabric) == pytest.approx(mean, rel=1e-12)
    else:
        assert average_distance(fabric) is None


def test_some_random_fabrics_are_connected_and_some_are_not():
    connected = [
        diameter(random_fabric(seed, switches=7, hosts=9)) is not None for seed in range(60)
    ]
    assert 5 < sum(connected) < 55


def test_distances_of_a_search_in_several_parts_are_the_same(monkeypatch):
    fabric = build("torus:dims=9x8,hosts=2").with_faults(cables=9, seed=1)
    expected = distance_counts(fabric).tolist()
    assert expected == plain_counts(fabric)
    monkeypatch.setattr("weft.fabrics.topology.measures.GATHER_BYTES", 1)
    assert distance_counts(fabric).tolist() == expected


def test_distances_with_unequal_hosts_per_switch_equal_plain_counts():
    fabric = build("leaf-spine:leaves=4,spines=2,hosts=3").without(cables=[0, 5, 6])
    assert diameter(fabric) is None  # three hosts are unplugged
    assert distance_counts(fabric).tolist() == plain_counts(fabric)


def test_hosts_cabled_to_each_other():
    make = FabricBuilder("three")
    hosts = make.hosts(["a", "b", "c"], ports=2)
    (switch,) = make.switches(["s"], ports=3)
    make.connect([hosts[0]], [hosts[1]])
    pair = make.fabric()
    assert diameter(pair) is None  # host c is alone
    make.connect(hosts[1:], [switch, switch])
    # Host a reaches b, which does not forward, so that a does not reach c.
    line = make.fabric()
    assert distance_counts(line).tolist() == plain_counts(line) == [0, 2, 2]
    assert diameter(line) is None
    make.connect([hosts[0]], [switch])
    ring = make.fabric()
    assert distance_counts(ring).tolist() == plain_counts(ring) == [0, 2, 4]
    assert diameter(ring) == 2


def test_two_hosts_on_one_cable():
    make = FabricBuilder("pair")
    a, b = make.hosts(["a", "b"])
    make.connect([a], [b])
    fabric = make.fabric()
    assert diameter(fabric) == 1
    assert average_distance(fabric) == 1.0
    assert bisection_upper_bound(fabric) == 1


def test_a_single_host_has_no_distances():
    make = FabricBuilder("one")
    make.connect(make.switches(["s"]), make.hosts(["a"]))
    fabric = make.fabric()
    assert diameter(fabric) == 0
    assert average_distance(fabric) is None
    assert bisection_upper_bound(fabric) == 0


def test_distances_on_a_ring_equal_those_counted_by_hand():
    # From each of 48 hosts: one host of the same switch in 2 links, 4 hosts at each of the next
    # 11 distances, and 2 hosts at the opposite switch.
    counts = distance_counts(build("ring:n=24,hosts=2"))
    assert counts.tolist() == [0, 0, 48, *[48 * 4] * 11, 48 * 2]


SMALL = [
    "xgft:2;4,4;1,2",
    "xgft:2;4,4;1,2;1,2",
    "xgft:2;2,2;2,2;2,1",
    "xgft:3;2,2,2;1,2,1",
    "xgft:2;3,4;2,2;2,1",
    "kary-n-tree:k=2,n=3",
    "kary-n-tree:k=4,n=2,hosts=2,cables=3",
    "fat-tree:k=2",
    "leaf-spine:leaves=4,spines=2,hosts=3",
    "leaf-spine:leaves=6,spines=3,hosts=2,cables=2",
    "slimmed-fat-tree:k=2,up=1,n=4,hosts=3",
    "torus:4x4",
    "torus:3x3",
    "torus:6x2",
    "torus:4x3,hosts=2",
    "torus:2x2x3",
    "torus:8x1,cables=2",
    "mesh:4x4",
    "mesh:4x3",
    "mesh:2x2x2,hosts=3",
    "mesh:6,cables=2",
    "ring:8",
    "ring:3",
    "ring:n=6,hosts=3,cables=2",
    "hypercube:4",
    "hypercube:n=3,hosts=2,cables=3",
    "hyperx:4x4",
    "hyperx:S=4x3,K=1,2,T=3",
    "hyperx:3x3;2;2",
    "hyperx:S=4x2x2,T=2",
    "flattened-butterfly:k=4,n=2",
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("spec", SMALL)
def test_bisections_of_the_literature_are_the_smallest_cuts(spec):
    fabric = build(spec)
    form = closed_form(fabric)
    assert form.bisection_cables is not None
    assert form.bisection_cables == smallest_cut(fabric)
    assert bisection_upper_bound(fabric) == form.bisection_cables


@pytest.mark.parametrize(
    "spec",
    [
        "bcube:n=3,k=1",
        "bcube:n=2,k=2",
        "kns:k=3,n=2",
        "mesh:5x3",
        "torus:5x3",
        "hyperx:S=5,T=4",
        "ring:n=5,hosts=2",
        "dragonfly:p=3,a=2,h=1",
        "dragonfly:p=1,a=3,h=1",
        "megafly:p=1,leaves=2,spines=2,h=1",
        "multi-ring:n=12,ratio=3,rings=2",
        "jellyfish:switches=12,degree=3,hosts=3",
        "slimmed-fat-tree:k=3,up=1,n=2",
        "xgft:2;3,3;2,2",
    ],
)
def test_bisection_bounds_are_no_smaller_than_the_smallest_cut(spec):
    fabric = build(spec)
    exact = smallest_cut(fabric)
    assert exact <= bisection_upper_bound(fabric) <= exact + max(1, exact // 4)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("seed", range(40))
def test_bisection_bounds_on_random_fabrics(seed):
    fabric = random_fabric(seed, switches=8, hosts=7)
    exact = smallest_cut(fabric)
    assert exact <= bisection_upper_bound(fabric, seed) <= exact + 1


def test_a_block_of_routers_gives_a_smaller_cut_of_a_kns_than_a_straight_cut():
    """A block of 4 x 4 routers plus two more has 16 cables to the rest; a straight cut has 18."""
    assert bisection_upper_bound(build("kns:k=6,n=2")) == 16


def test_bisection_bounds_depend_only_on_the_seed():
    fabric = build("jellyfish:switches=60,degree=4,hosts=4")
    assert bisection_upper_bound(fabric, 5) == bisection_upper_bound(fabric, 5)


def test_disconnected_fabrics_have_small_bisections():
    fabric = build("cellia:nodes=45").without(switches=["top0", "top1", "top2"])
    # Of three parts with 15 hosts, one must be split into 7 and 8 hosts.
    assert 0 < bisection_upper_bound(fabric) <= 9
    split = build("leaf-spine:leaves=4,spines=2,hosts=3").without(switches=["spine0", "spine1"])
    assert bisection_upper_bound(split) == 0


def test_fabrics_without_hosts_or_without_cables_between_switches():
    make = FabricBuilder("bare")
    switches = make.switches(["a", "b"])
    make.connect(switches[:1], switches[1:])
    bare = make.fabric()
    assert (diameter(bare), average_distance(bare), bisection_upper_bound(bare)) == (0, None, 0)
    # More nodes than the dense computation handles, without a cable between switches.
    leaves = build("leaf-spine:leaves=500,spines=1,hosts=3").without(switches=["spine0"])
    assert diameter(leaves) is None
    assert bisection_upper_bound(leaves) == 0


def test_a_real_cluster_is_measured(shared):
    fabric = weft.fabric(shared / "fabrics" / "psmn-x5.ibnetdiscover")
    assert distance_counts(fabric).tolist() == plain_counts(fabric)
    cables = np.bincount(fabric.link_from, minlength=fabric.num_nodes)[fabric.host_nodes]
    assert 0 <= bisection_upper_bound(fabric) < np.sort(cables)[: fabric.num_hosts // 2].sum()
