"""Routing keys: contention, bounds, paths and errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.routing.routes import VirtualLanes
from weft.routing.structure.folded_clos import find_folded_clos
from weft.sim.keys import RoutingKey, keys
from weft.sim.keys.key_set import workload_keys
from weft.sim.keys.network import key_network
from weft.sim.keys.scheduler import Place, Request, Scheduler
from weft.sim.keys.tables import key_tables


def load_between_switches(key: RoutingKey) -> int:
    """Return the largest number of pairs on a link between switches, by the static level."""
    fabric = key.fabric
    pairs = np.unique(np.stack((key.sources, key.destinations)), axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    loads = weft.link_loads(fabric, key.routes, *pairs)
    return int(loads[fabric.graph.edge_link].max(initial=0))


def test_the_example_of_the_paper() -> None:
    key = keys(weft.fabric("xgft:2;4,4;1,4"), [0, 1], [4, 8])
    assert key.lines() == ["A1: 0→4→1→DLID(4)", "A2: 0→5→2→DLID(8)"]
    assert key.middle.tolist() == [4, 5]
    assert (key.worst, key.bound, key.num_colours) == (1, 1, 2)
    assert "free of contention" in repr(key)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "spec", ["xgft:2;6,6;1,6", "xgft:3;3,4,3;1,3,4", "xgft:4;2,2,3,2;1,2,2,3", "leaf-spine:4;6;5"]
)
@pytest.mark.parametrize("method", ["exact", "greedy"])
def test_loads_of_keys_are_those_of_the_static_level(spec: str, method: str) -> None:
    fabric = weft.fabric(spec)
    random = np.random.default_rng(len(spec))
    for case in range(20):
        flows = int(random.integers(1, 2 * fabric.num_hosts))
        ends = random.integers(0, fabric.num_hosts, (2, flows))
        key = keys(fabric, *ends, method=method, seed=case)  # type: ignore[arg-type]
        assert load_between_switches(key) == key.worst >= key.bound
        assert weft.validate(fabric, key.routes).deadlock == "no"


@pytest.mark.parametrize("spec", ["xgft:2;6,6;1,6", "xgft:3;3,4,3;1,3,4", "xgft:3;4,4,4;1,4,4"])
def test_permutations_on_full_trees_are_free_of_contention(spec: str) -> None:
    fabric = weft.fabric(spec)
    for case in range(60):
        random = np.random.default_rng(case)
        flows = int(random.integers(1, fabric.num_hosts + 1))
        sources, destinations = (random.permutation(fabric.num_hosts)[:flows] for _ in range(2))
        key = keys(fabric, sources, destinations, first="random", seed=case)
        leaf = fabric.graph.destination_row[key.endpoints]
        apart = leaf[0] != leaf[1]
        most = max(np.bincount(each[apart], minlength=1).max() for each in leaf)
        assert key.worst == min(most, 1)
        assert key.num_colours == most
        for number in range(most):
            assert all(
                len(set(each[key.colour == number])) == (key.colour == number).sum()
                for each in leaf
            )


def test_more_flows_than_switches_above_are_divided_evenly() -> None:
    fabric = weft.fabric("xgft:2;8,4;1,3")
    random = np.random.default_rng(4)
    for _ in range(30):
        ends = random.integers(0, fabric.num_hosts, (2, 60))
        key = keys(fabric, *ends)
        pairs = np.unique(ends, axis=1) // 8
        pairs = pairs[:, pairs[0] != pairs[1]]
        assert key.worst == -(-max(np.bincount(each).max() for each in pairs) // 3)
        assert key.num_colours == max(np.bincount(each).max() for each in pairs)


def test_greedy_matchings_can_need_more_colours_than_exact() -> None:
    fabric = weft.fabric("xgft:2;6,6;1,6")
    more = 0
    for case in range(100):
        ends = np.random.default_rng(case).integers(0, 36, (2, 40))
        greedy, exact = (keys(fabric, *ends, method=each) for each in ("greedy", "exact"))
        assert greedy.num_colours >= exact.num_colours
        assert greedy.worst >= exact.worst
        more += greedy.num_colours > exact.num_colours
    assert more >= 5


def test_flows_of_one_pair_share_a_path_and_flows_within_a_leaf_switch_have_none() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    key = keys(fabric, [0, 1, 0, 2, 3], [4, 5, 4, 3, 3])
    assert key.worst == 1
    assert key.column[0].tolist() == key.column[2].tolist()
    assert key.colour.tolist()[3:] == [-1, -1]
    assert key.middle.tolist()[3:] == [-1, -1]
    assert len(key.routes.pair) == 3  # 0 to 4, 1 to 5, 2 to 3


@pytest.mark.parametrize("choice", ["shift", "optimum"])
def test_one_switch_and_no_flows_have_keys_without_paths(choice: str) -> None:
    for spec, ends in (("xgft:1;4;1", [0, 1]), ("xgft:2;4,4;1,4", [])):
        fabric = weft.fabric(spec)
        key = keys(fabric, ends, ends[::-1])
        assert (key.worst, key.bound, key.num_colours) == (0, 0, 0)
        assert load_between_switches(key) == 0
        assert (key.middle == -1).all()
        state = Scheduler(key_network(fabric), choice=choice)  # type: ignore[arg-type]
        state.handle(Place(0.0, key))
        assert state.handle(Request(0.0, "A")) is not None


@pytest.mark.parametrize("spec", ["xgft:3;6,4,3;1,4,2", "xgft:4;4,4,4,4;1,4,2,3"])
def test_keys_of_slimmed_trees_reach_the_bound(spec: str) -> None:
    fabric = weft.fabric(spec)
    for case in range(60):
        random = np.random.default_rng(case)
        flows = int(random.integers(1, fabric.num_hosts + 1))
        ends = (random.permutation(fabric.num_hosts)[:flows] for _ in range(2))
        key = keys(fabric, *ends)
        assert load_between_switches(key) == key.worst == key.bound


def test_keys_avoid_missing_and_slow_cables() -> None:
    fabric = weft.fabric("xgft:3;4,4,4;1,4,4")
    random = np.random.default_rng(5)
    for case in range(15):
        faulty = fabric.with_faults(cables=6, seed=case)
        hosts = np.unique(faulty.endpoint_node[: faulty.num_host_endpoints]) - faulty.num_switches
        ends = random.permutation(hosts)[:20], random.permutation(hosts)[:20]
        key = keys(faulty, *ends)
        assert load_between_switches(key) == key.worst >= key.bound
        assert key.worst == key.bound
    slow = fabric.degraded(np.flatnonzero(fabric.link_from[::2] == 0)[4:6], 50.0)
    key = keys(slow, [0, 1], [20, 40])
    assert key.contention == key.contention_bound == 1.0


def test_random_switches_are_random_even_with_missing_cables() -> None:
    tree = weft.fabric("xgft:2;8,8;1,8").with_faults(cables=1, seed=0)
    first = {
        int(keys(tree, [0], [60], first="random", seed=seed).column[0, 0]) for seed in range(9)
    }
    assert len(first) > 3
    random = np.random.default_rng(3)
    for seed in range(30):
        ends = random.permutation(64)[:40], random.permutation(64)[:40]
        lowest, key = keys(tree, *ends), keys(tree, *ends, first="random", seed=seed)
        assert key.contention <= max(lowest.contention, key.contention_bound)


def test_hosts_without_a_path_or_a_cable_are_refused() -> None:
    tree = weft.fabric("xgft:2;4,4;1,4")
    faulty = tree.with_faults(switches=1, seed=1)
    lost = np.flatnonzero(faulty.host_endpoint < 0)
    assert len(lost) == 4
    with pytest.raises(weft.InputError, match=f"host h{lost[0]} of .* has no cable"):
        keys(faulty, [0], [int(lost[0])])
    counts = {"made": 0, "refused": 0}
    whole = weft.fabric("xgft:3;2,2,3;1,2,2")
    for seed in range(60):
        cut = whole.with_faults(cables=int(3 + seed % 9), seed=seed)
        hosts = np.flatnonzero(cut.host_endpoint >= 0)
        ends = np.random.default_rng(seed).choice(hosts, (2, 6))
        try:
            key = keys(cut, *ends, first="random", seed=seed)
            assert (key.network.weight[key.loads > 0] > 0).all()
            assert load_between_switches(key) == key.worst >= key.bound
            counts["made"] += 1
        except (weft.InputError, weft.NotApplicable):
            counts["refused"] += 1
    assert min(counts.values()) >= 10


def test_the_guarantee_names_slow_links_and_repeated_flows() -> None:
    tree = weft.fabric("xgft:2;4,4;1,4")
    slow = keys(tree.degraded(np.unique(tree.graph.edge_link >> 1), 10.0), [0], [4])
    assert slow.guarantee.endswith("some of these links are slower than those of hosts")
    twice = keys(weft.fabric("xgft:2;4,4;1,4"), [0, 0], [4, 4])
    assert "flows between the same hosts count once" in twice.guarantee


def test_tables_have_no_service_levels_of_the_base_routes() -> None:
    tree = weft.fabric("xgft:3;3,3,3;1,3,3")
    key = keys(tree, [0, 1, 2], [9, 18, 26])
    tables = key_tables(tree, weft.route(tree, "dfsssp"), [key])
    assert weft.validate(tree, tables.routes).ok
    tree = weft.fabric("xgft:2;4,4;1,4")
    base = weft.route(tree, "dmodk")
    two = replace(base, sl=np.ones((), np.uint8), lanes=VirtualLanes.uniform([0, 1]))
    with pytest.raises(weft.NotApplicable, match="one virtual lane"):
        key_tables(tree, two, [])


def test_fabrics_that_are_not_folded_clos_networks_are_refused() -> None:
    with pytest.raises(weft.NotApplicable, match="connects two switches of level 1"):
        keys(weft.fabric("torus:4x4"), [0], [5])


def with_a_stub() -> weft.Fabric:
    """Return a tree with a switch for management below a leaf and a cable between two leaves."""
    maker = weft.FabricBuilder("cluster")
    stub = maker.switches(["admin"])
    admins = maker.hosts(["admin0", "admin1"])
    leaves = maker.switches([f"leaf{i}" for i in range(6)])
    spines = maker.switches([f"spine{i}" for i in range(3)])
    maker.connect(stub.repeat(2), admins)
    maker.connect(leaves.repeat(4), maker.hosts([f"h{i}" for i in range(24)]))
    maker.connect(leaves.repeat(3), np.tile(spines, 6))
    maker.connect(leaves[:1], leaves[1:2])
    maker.connect(stub, leaves[:1])
    return maker.fabric()


def test_keys_are_made_for_the_part_that_is_a_folded_clos_network() -> None:
    fabric = with_a_stub()
    left_out = "switch admin; 2 hosts: admin0, admin1; cable leaf0[8] -- leaf1[8]"
    assert key_network(fabric).clos.left_out == left_out
    key = keys(fabric, [2, 3], [8, 12])
    assert key.worst == key.bound == 1
    with pytest.raises(weft.InputError, match=r"host admin1 .* has no routing keys, .* admin; 2 h"):
        keys(fabric, [2, 1], [8, 12])
    whole = keys(weft.fabric("leaf-spine:leaves=6,spines=3,hosts=4"), range(20), range(4, 24))
    part = keys(fabric, range(2, 22), range(6, 26))
    assert (part.worst, part.bound) == (whole.worst, whole.bound)
    assert part.colour.tolist() == whole.colour.tolist()
    # Ranks are placed on hosts that can have keys.
    workload = weft.application_workload("cartesian", 24)
    assert all(set(key.sources) <= set(range(2, 26)) for key in workload_keys(fabric, workload))
    with pytest.raises(weft.InputError, match="hosts of the folded Clos network without switch"):
        workload_keys(fabric, weft.application_workload("cartesian", 26))
    with pytest.raises(weft.NotApplicable, match="a folded Clos network only without switch admin"):
        find_folded_clos(fabric)


@pytest.mark.parametrize("fewer", [False, True])
def test_keys_are_made_for_the_connected_part_with_most_hosts(fewer: bool) -> None:
    specs = ("leaf-spine:leaves=4,spines=2,hosts=2", "leaf-spine:leaves=6,spines=3,hosts=3")
    maker = weft.FabricBuilder("islands")
    for name, spec in zip("ab", specs[:: -1 if fewer else 1], strict=True):
        tree = weft.fabric(spec)
        names = [f"{name}{node}" for node in tree.node_names]
        switches = maker.switches(names[: tree.num_switches])
        nodes = np.append(switches, maker.hosts(names[tree.num_switches :]))
        maker.connect(nodes[tree.link_from[0::2]], nodes[tree.link_to[0::2]])
    alone = maker.switches(["alone"])
    maker.connect(alone.repeat(2), maker.hosts(["alone0", "alone1"]))
    fabric = maker.fabric()
    small, large = ("b", "a") if fewer else ("a", "b")
    network = key_network(fabric)
    assert network.complete
    assert {fabric.host_names[host][0] for host in network.hosts} == {large}
    assert len(network.hosts) == 18
    left_out = network.clos.left_out
    assert left_out.startswith("7 switches: ")
    assert f"; 10 hosts: {small}" in left_out
    workload = weft.application_workload("cartesian", 18)
    assert all(np.isin(key.sources, network.hosts).all() for key in workload_keys(fabric, workload))
    with pytest.raises(weft.InputError, match=r"alone1 of .* has no routing keys, .* without 7 s"):
        keys(fabric, [network.hosts[0]], [fabric.host_names.index("alone1")])


def test_a_cable_to_another_plane_is_left_out() -> None:
    tree = weft.fabric("xgft:3;4,4,4;1,4,4")
    maker = weft.FabricBuilder("crossed")
    switches = maker.switches(tree.node_names[: tree.num_switches])
    hosts = maker.hosts(tree.host_names)
    nodes = np.concatenate((switches, hosts))
    ends = np.stack((tree.link_from[0::2], tree.link_to[0::2])).astype(int)
    level = tree.level[ends]
    cable = int(np.flatnonzero((level == 2).any(axis=0) & (level == 3).any(axis=0))[0])
    upper = ends[np.argmax(level[:, cable]), cable]
    others = ends[:, (ends == upper).any(axis=0)]
    free = next(s for s in switches[tree.level[switches] == 2] if s not in others)
    ends[np.argmin(level[:, cable]), cable] = free
    maker.connect(nodes[ends[0]], nodes[ends[1]])
    crossed = maker.fabric()
    network = key_network(crossed)
    assert network.clos.left_out.startswith("cable ")
    assert not network.complete
    key = keys(crossed, range(64), [(host + 16) % 64 for host in range(64)])
    assert load_between_switches(key) == key.worst == key.bound == 2


@pytest.mark.parametrize(
    ("sources", "destinations", "options", "message"),
    [
        ([0, 1], [2], {}, "2"),
        ([0], [99], {}, "99"),
        ([0], [5], {"method": "best"}, "exact or greedy"),
        ([0], [5], {"seed": -1}, "seed"),
        ([0], [5], {"colours": "some"}, "fewest or all"),
        ([0], [5], {"method": "greedy", "colours": "all"}, "colours=all needs method exact"),
        ([0], [5], {"name": 3}, "must be text, not 3"),
    ],
)
def test_wrong_arguments_are_refused(
    sources: list[int], destinations: list[int], options: dict[str, object], message: str
) -> None:
    with pytest.raises(weft.InputError, match=message):
        keys(weft.fabric("xgft:2;4,4;1,4"), sources, destinations, **options)  # type: ignore[arg-type]


def test_several_colourings_are_tried_until_the_bound_is_reached() -> None:
    tree = weft.fabric("xgft:3;3,3,3;1,3,2")
    destinations = [11, 3, 7, 18, 16, 14, 5, 21, 19, 13, 9, 24, 10, 23, 4, 22, 8, 12, 20, 6, 15, 17]
    destinations += [0, 1, 2, 26, 25]
    for seed in range(10):
        key = keys(tree, range(27), destinations, seed=seed)
        assert key.worst == key.bound == 1


def test_switches_without_cables_are_left_out() -> None:
    for spec, cables in (
        ("xgft:2;4,4;1,4", ["s1-0[5]", "s1-1[5]", "s1-2[5]", "s1-3[5]"]),
        ("xgft:3;2,2,2;1,2,2", ["s2-0[3]", "s2-2[3]"]),
    ):
        tree = weft.fabric(spec).without(cables=cables)
        key = keys(tree, [0, 1, 2], [tree.num_hosts - 1, 5, 6])
        assert load_between_switches(key) == key.worst == key.bound == 1
