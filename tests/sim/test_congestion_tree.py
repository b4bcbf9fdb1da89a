"""Congestion trees: root, cause, members and victims in snapshots of buffers."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from tests.packet_states import slot_run
from tests.sim.test_deadlock_cycle import state

from weft.core.columns import Column
from weft.core.errors import InputError
from weft.fabrics.topology import build
from weft.routing import route
from weft.sim.packet import Hardware
from weft.sim.packet.congestion_trees import CAUSES, congestion_trees, full_buffers
from weft.sim.packet.hot_spots import (
    HOT_SPOT_COLUMNS,
    NODE_COLUMNS,
    HotSpots,
    adapter_ends,
    depth_first,
    trees_at,
)
from weft.sim.simulate import simulate
from weft.workload import WorkloadBuilder

TREE = build("xgft:2;4,4;1,2")


def sends(pairs, size=65536, ranks=16):
    builder = WorkloadBuilder(ranks)
    for source, destination in pairs:
        builder.put(source, destination, size)
    return builder.build()


def link(name):
    return next(at for at in range(TREE.num_links) if TREE.link_name(at) == name)


def trees_of(links, lanes, waits, full, slow=()):
    filled = np.zeros((links, lanes), dtype=bool)
    for buffer in full:
        filled[buffer] = True
    return congestion_trees(*state(links, lanes, waits), filled, np.isin(np.arange(links), slow))


@pytest.fixture(scope="module")
def one_hot():
    return slot_run(TREE, sends([(rank, 0) for rank in range(1, 16)]))


@pytest.fixture(scope="module")
def two_hot():
    pairs = [(rank, 0 if rank % 2 else 5) for rank in range(1, 16) if rank != 5]
    return slot_run(TREE, sends(pairs))


# -- states by hand --------------------------------------------------------------------------------


def test_chain_of_full_buffers_belongs_to_the_busy_link():
    # Link 0 is busy; 1 and 2 wait for it; 3 waits for room in 1, and 4 for room in 3.
    waits = {(1, 0): (0, 0, 1), (2, 0): (0, 0, 1), (3, 0): (1, 0, 2), (4, 0): (3, 0, 2)}
    (tree,) = trees_of(7, 1, waits, [(1, 0), (3, 0)])
    assert (tree.root, tree.cause, tree.height) == (0, "link", 3)
    assert tree.link.tolist() == [1, 2, 3, 4]
    assert tree.parent.tolist() == [-1, -1, 0, 2]
    assert tree.depth.tolist() == [1, 1, 2, 3]
    assert tree.full.tolist() == [True, False, True, False]
    assert tree.why.tolist() == [1, 1, 2, 2]


def test_link_with_room_behind_it_is_a_root_of_its_own():
    # Buffer 1 is not full, although it waits: packets for link 1 wait for arbitration only.
    waits = {(1, 0): (0, 0, 1), (2, 0): (1, 0, 1), (3, 0): (0, 0, 1)}
    trees = trees_of(4, 1, waits, [(2, 0), (3, 0)])
    assert [(tree.root, tree.link.tolist()) for tree in trees] == [(0, [1, 3]), (1, [2])]


def test_waiting_without_a_full_buffer_is_not_congestion():
    assert trees_of(4, 1, {(1, 0): (0, 0, 1), (2, 0): (0, 0, 1)}, []) == []
    assert trees_of(4, 2, {}, [(0, 0)]) == []


def test_waits_for_the_input_port_or_for_time_are_not_in_a_tree():
    waits = {(1, 0): (0, 0, 3), (2, 0): (0, 0, 4), (3, 0): (0, 0, 1)}
    (tree,) = trees_of(4, 1, waits, [(1, 0), (2, 0), (3, 0)])
    assert tree.link.tolist() == [3]


def test_lanes_of_one_busy_link_make_one_tree():
    waits = {(1, 0): (0, 0, 1), (1, 1): (0, 1, 1), (2, 1): (0, 1, 1), (3, 1): (2, 1, 2)}
    (tree,) = trees_of(4, 2, waits, [(1, 0), (2, 1)])
    assert (tree.root, tree.cause) == (0, "link")
    assert list(zip(tree.link.tolist(), tree.vl.tolist(), strict=True)) == [
        (1, 0), (1, 1), (2, 1), (3, 1),
    ]  # fmt: skip
    assert tree.wants_vl.tolist() == [0, 1, 1, 1]


def test_each_lane_of_a_link_belongs_to_its_own_tree():
    # Lane 0 of link 1 is full and waits for link 0; lane 1 of link 1 has room.
    waits = {(1, 0): (0, 0, 1), (2, 0): (1, 0, 2), (3, 1): (1, 1, 1)}
    trees = trees_of(4, 2, waits, [(1, 0), (2, 0), (3, 1)])
    assert [(tree.root, tree.link.tolist()) for tree in trees] == [(0, [1, 2]), (1, [3])]


@pytest.mark.parametrize(
    ("waits", "slow", "cause"),
    [
        ({(1, 0): (0, 0, 2)}, [0], "receiver"),
        ({(1, 0): (0, 0, 2)}, [], "credits"),
        ({(1, 0): (0, 0, 2), (0, 0): (2, 0, 3)}, [], "port"),
        ({(1, 0): (0, 0, 2), (0, 0): (1, 0, 2)}, [], "cycle"),
        ({(1, 0): (0, 0, 1)}, [], "link"),
    ],
)
def test_cause_of_a_root(waits, slow, cause):
    full = [(1, 0)] if cause == "link" else [(0, 0), (1, 0)]
    (tree,) = trees_of(3, 1, waits, full, slow)
    assert (tree.root, tree.cause) == (0, cause)
    assert cause in CAUSES


def test_cycle_is_cut_at_its_lowest_buffer_which_is_shown_twice():
    waits = {(3, 0): (1, 0, 2), (1, 0): (2, 0, 2), (2, 0): (3, 0, 2), (0, 0): (2, 0, 2)}
    (tree,) = trees_of(4, 1, waits, [(at, 0) for at in range(4)])
    assert (tree.root, tree.cause) == (1, "cycle")
    assert tree.link.tolist() == [3, 2, 0, 1]
    assert tree.parent.tolist() == [-1, 0, 1, 1]


def test_a_buffer_is_full_when_no_packet_fits_or_a_waiting_packet_lacks_its_credits():
    waits = {(1, 0): (0, 0, 2)}
    held = np.array([[10], [90], [91], [100]])
    full = full_buffers(*state(4, 1, waits), held, buffer_credits=100, packet_credits=10)
    assert full.ravel().tolist() == [True, False, True, True]


@pytest.mark.parametrize("seed", range(15))
def test_each_waiting_buffer_is_at_most_once_in_the_trees(seed):
    random = np.random.default_rng(seed)
    links, lanes = int(random.integers(2, 30)), int(random.integers(1, 4))
    wants = random.integers(-1, links, (links, lanes)).astype(np.int32)
    wants_vl = random.integers(0, lanes, (links, lanes)).astype(np.int8)
    why = np.where(wants < 0, 0, random.integers(1, 5, (links, lanes))).astype(np.uint8)
    full = random.random((links, lanes)) < 0.7
    trees = congestion_trees(wants, wants_vl, why, full, np.zeros(links, dtype=bool))
    seen = set()
    for tree in trees:
        assert tree.full.any()
        for at in range(len(tree)):
            buffer = (int(tree.link[at]), int(tree.vl[at]))
            assert buffer not in seen
            seen.add(buffer)
            assert why[buffer] in (1, 2)
            parent = int(tree.parent[at])
            if parent < 0:
                assert wants[buffer] == tree.root
                assert tree.depth[at] == 1
            else:
                assert (wants[buffer], wants_vl[buffer]) == (tree.link[parent], tree.vl[parent])
                assert full[tree.link[parent], tree.vl[parent]]
                assert tree.depth[at] == tree.depth[parent] + 1
        assert len({tree.root for tree in trees}) == len(trees)
    if full.all():
        assert len(seen) == np.isin(why, (1, 2)).sum()


# -- runs ------------------------------------------------------------------------------------------


def test_hot_receiver_is_one_tree_up_to_the_hosts(one_hot):
    spots = HotSpots(one_hot, end_ns=60_000)
    (tree,) = spots.trees
    assert one_hot.link_name(tree.root) == "s1-0[1] -> h0[1]"
    assert (tree.cause, tree.height) == ("link", 3)
    # Links from the other leaves to the spine, from the spine to the hot leaf, and from all hosts
    # but h0.
    into = {f"s1-{leaf}[5] -> s2-0[{leaf + 1}]" for leaf in (1, 2, 3)} | {"s2-0[1] -> s1-0[5]"}
    into |= {f"h{host}[1] -> s1-{host // 4}[{host % 4 + 1}]" for host in range(1, 16)}
    assert {one_hot.link_name(int(at)) for at in tree.link} == into
    (row,) = spots.roots().to_dicts()
    assert (row["buffers"], row["depth"], row["elsewhere"]) == (19, 3, 0)
    assert row["hosts"] == row["messages"] == row["full"] - 4
    assert row["utilisation"] == pytest.approx(1.0)
    assert row["wait_ns"] > 0


def test_two_hot_receivers_are_two_trees(two_hot):
    spots = HotSpots(two_hot, end_ns=20_000)
    roots = spots.roots()
    assert set(roots["name"][:2]) == {"s1-0[1] -> h0[1]", "s1-1[2] -> h5[1]"}
    big = roots.filter(pl.col("depth") > 1)
    assert len(big) == 2
    assert big["hosts"].min() > 0
    senders = spots.nodes().filter(pl.col("host").is_not_null(), pl.col("tree") <= 2)
    assert set(senders["host"]) == {f"h{host}" for host in range(1, 16) if host != 5}


def test_a_run_without_congestion_has_no_tree():
    # The two messages share no link, so there is no contention.
    calm = slot_run(TREE, sends([(0, 4), (5, 1)]))
    spots = HotSpots(calm, 0)
    assert spots.trees == []
    assert spots.text() == "No congestion: no packet waits because of a full buffer."
    for frame, columns in ((spots.roots(), HOT_SPOT_COLUMNS), (spots.nodes(), NODE_COLUMNS)):
        assert frame.is_empty()
        assert list(frame.columns) == list(columns)


def test_trees_of_an_interval_are_weighted_by_time(one_hot):
    shots = one_hot.snapshots.time_ps
    spots = HotSpots(one_hot, 0, 60_000)
    last = link("s1-0[1] -> h0[1]")
    single = [trees_at(one_hot, at) for at in range(spots.first, spots.last)]
    spans = np.diff(shots[: spots.last], prepend=0)
    here = np.array([last in [tree.root for tree in trees] for trees in single])
    (tree,) = [tree for tree in spots.trees if tree.root == last]
    assert tree.root_weight == pytest.approx((spans * here).sum() / spans.sum())
    for at in range(len(tree)):
        present = [
            any(t.root == last and tree.link[at] in t.link for t in trees) for trees in single
        ]
        assert tree.weight[at] == pytest.approx((spans * present).sum() / spans.sum())
        parent = int(tree.parent[at])
        assert tree.depth[at] == (1 if parent < 0 else tree.depth[parent] + 1)
    weights = [tree.weight.sum() for tree in spots.trees]
    assert weights == sorted(weights, reverse=True)


def test_an_interval_begins_at_the_snapshot_before_it(two_hot):
    spots = HotSpots(two_hot, 40_000, 80_000)
    assert spots.first > 1
    mean: dict[tuple[int, int], float] = {}
    for at in range(spots.first, spots.last):  # snapshots are equally far apart
        for tree in trees_at(two_hot, at):
            for link, weight in zip(tree.link.tolist(), tree.weight.tolist(), strict=True):
                key = tree.root, link
                mean[key] = mean.get(key, 0.0) + weight / (spots.last - spots.first)
    found: dict[tuple[int, int], float] = {}
    for tree in spots.trees:
        for link, weight in zip(tree.link.tolist(), tree.weight.tolist(), strict=True):
            found[tree.root, link] = found.get((tree.root, link), 0.0) + weight
    assert found == pytest.approx(mean)


def test_messages_of_an_interval_are_those_in_flight_while_the_tree_exists(two_hot):
    spots = HotSpots(two_hot, 0, 80_000)
    shots, ops = two_hot.snapshots, two_hot.workload.messages
    for row, tree in zip(spots.roots().to_dicts(), spots.trees, strict=True):
        hosts = set(spots.hosts(tree).tolist())
        there = [
            int(shots.time_ps[at])
            for at in range(spots.first, spots.last)
            if tree.root in [other.root for other in trees_at(two_hot, at)]
        ]
        mine = [
            op
            for op in ops.tolist()
            if int(two_hot.host[two_hot.workload.rank[op]]) in hosts
            and any(two_hot.posted_ps[op] <= time < two_hot.arrived_ps[op] for time in there)
        ]
        assert row["messages"] == len(mine)
        if row["elsewhere"] is not None:
            end = int(TREE.link_to[tree.root]) - TREE.num_switches
            assert row["elsewhere"] == sum(two_hot.workload.peer[op] != end for op in mine)


@pytest.mark.parametrize(
    ("spec", "engine", "hardware"),
    [
        ("torus:4x4", "dfsssp", {}),
        ("torus:4x4", "lash", {"queues": "voq", "buffer_bytes": 4400}),
        ("bcube:n=3,k=1", "minhop", {"buffer_bytes": 4400}),
        ("xgft:2;4,4;1,2", "updn", {"adapter_gbps": 60.0}),
    ],
)
def test_trees_of_real_runs_follow_the_cables(spec, engine, hardware):
    fabric = build(spec)
    random = np.random.default_rng(5)
    builder = WorkloadBuilder(fabric.num_hosts)
    for rank in range(fabric.num_hosts):
        for peer in random.permutation(fabric.num_hosts)[:6].tolist():
            if peer != rank:
                builder.put(rank, peer if peer % 2 else 0 if rank else 1, 20_000)
    result = simulate(
        fabric, route(fabric, engine), builder.build(), snapshot_ns=700,
        hardware=Hardware(**hardware), level="packet",
    )  # fmt: skip
    sender, receiver = adapter_ends(result)
    links = len(result.busy_ps)
    tail, head = np.full(links, -1), np.full(links, -1)
    tail[: fabric.num_links], head[: fabric.num_links] = fabric.link_from, fabric.link_to
    inside = np.flatnonzero(fabric.forwards[fabric.host_nodes]) + fabric.num_switches
    if len(inside):
        head[fabric.num_links :: 2], tail[fabric.num_links + 1 :: 2] = inside, inside
    count = 0
    for at in range(len(result.snapshots.time_ps)):
        for tree in trees_at(result, at):
            count += 1
            assert tree.cause != "cycle"
            assert (tree.cause == "receiver") <= ("adapter_gbps" in hardware)
            for node in range(len(tree)):
                above = tree.root if tree.parent[node] < 0 else tree.link[tree.parent[node]]
                assert head[tree.link[node]] == tail[above] >= 0
                # Nothing waits in an adapter's own buffer.
                assert receiver[tree.link[node]] < 0
    assert count > 10
    into = np.flatnonzero(sender >= 0)
    assert len(np.unique(sender[into])) == fabric.num_hosts


def test_a_slow_receiver_is_the_cause_of_its_root():
    result = simulate(
        TREE, route(TREE, "minhop"), sends([(rank, 0) for rank in range(1, 16)]), snapshot_ns=1000,
        hardware=Hardware(adapter_gbps=50.0), level="packet",
    )  # fmt: skip
    (tree,) = HotSpots(result, end_ns=40_000).trees
    assert (result.link_name(tree.root), tree.cause) == ("s1-0[1] -> h0[1]", "receiver")
    assert "receiver: the adapter at the link's far end" in HotSpots(result, end_ns=40_000).text()


def test_nodes_frame_is_the_tree(one_hot):
    spots = HotSpots(one_hot, end_ns=60_000)
    nodes = spots.nodes()
    (tree,) = spots.trees
    assert len(nodes) == len(tree) + 1
    root = nodes.row(0, named=True)
    assert (root["node"], root["parent"], root["depth"], root["vl"]) == (0, None, 0, None)
    assert nodes["parent"][1:].to_list() == (tree.parent + 1).tolist()
    hosts = nodes.filter(pl.col("host").is_not_null())
    assert set(hosts["host"]) == {f"h{host}" for host in range(1, 16)}
    assert nodes["held_share"][1:].max() <= 1
    for row in nodes[1:].iter_rows(named=True):
        parent = nodes.row(row["parent"], named=True)
        assert parent["depth"] == row["depth"] - 1
        tail = TREE.link_to[row["link"]]
        assert TREE.link_from[parent["link"]] == tail


def test_text_is_indented_by_depth_and_shortened(one_hot):
    spots = HotSpots(one_hot, end_ns=60_000)
    lines = spots.text().splitlines()
    assert lines[0] == "Hot spot 1: s1-0[1] -> h0[1]"
    assert "100% busy, 19 buffers" in lines[1]
    assert "    s2-0[1] -> s1-0[5]  link busy, full" in lines
    deep = [line for line in lines if line.startswith("        h")]
    assert len(deep) == 12
    assert lines[lines.index("      s1-1[5] -> s2-0[2]  no credits, full") + 1] in deep
    short = spots.text(most_nodes=3).splitlines()
    assert len(short) == 6
    assert short[-1].strip() == "and 16 more buffers"
    over = HotSpots(one_hot, 0).text(most_trees=1)
    assert "% of the time" in over
    assert over.endswith("And 3 smaller hot spots.")


def test_depth_first_follows_the_tree(one_hot):
    (tree,) = HotSpots(one_hot, end_ns=60_000).trees
    order = depth_first(tree)
    assert sorted(order) == list(range(len(tree)))
    for before, at in pairwise(order):
        assert tree.depth[at] <= tree.depth[before] + 1
        assert tree.depth[at] <= tree.depth[before] or tree.parent[at] == before


def test_run_without_snapshots_or_outside_them_is_refused(one_hot):
    with pytest.raises(InputError, match="no snapshot in that interval"):
        HotSpots(one_hot, end_ns=1.0)
    with pytest.raises(InputError, match="no snapshot in that interval"):
        HotSpots(one_hot, 1e9)
    bare = SimpleNamespace(**{**vars(one_hot), "snapshots": None})
    with pytest.raises(InputError, match="snapshot_ns"):
        HotSpots(bare)


def test_columns_are_described():
    for columns in (HOT_SPOT_COLUMNS, NODE_COLUMNS):
        assert all(isinstance(column, Column) and column.meaning for column in columns.values())
