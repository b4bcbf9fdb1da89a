"""Valiant and UGAL: the structures that they find, their loads, and fabrics that they refuse."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from tests.work import lines_run

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing import route
from weft.routing.routes import CandidateRoutes
from weft.routing.structure.groups import find_dragonfly, find_grid, find_megafly
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.loads import Loads, flow_loads, host_flows, least_worst_share
from weft.sim.static.multipath import multipath_loads


def candidates(fabric: Fabric, spec: str) -> CandidateRoutes:
    routes = route(fabric, spec)
    assert isinstance(routes, CandidateRoutes)
    return routes


def shifted(fabric: Fabric, engine: str, by: int) -> Loads:
    """Return the loads of the links when every host i sends to host i + `by`."""
    hosts = np.arange(fabric.num_hosts)
    flows = host_flows(fabric, hosts, (hosts + by) % fabric.num_hosts)
    return flow_loads(fabric, route(fabric, engine), flows)


def groups_of(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """Return the group that each edge leaves and the group that it enters, by coordinates."""
    group = fabric.coordinates[fabric.graph.row_node, 0]
    return group[fabric.graph.edge_tail], group[fabric.graph.edge_row]


def test_a_shift_by_a_group_of_a_dragonfly() -> None:
    """The 8 hosts of each of 9 groups send to the next group, over the only cable to it."""
    fabric = weft.fabric("dragonfly:p=2,a=4,h=2")
    tail, head = groups_of(fabric)
    between = tail != head
    following = between & (head == (tail + 1) % 9)
    edge_link = fabric.graph.edge_link

    direct_routes = replace(
        candidates(fabric, "ugal"),
        via=np.zeros(0, dtype=np.int32),
        via_set=np.zeros((0, 0), dtype=np.int32),
    )
    hosts = np.arange(72)
    flows = host_flows(fabric, hosts, (hosts + 8) % 72)
    minimal = flow_loads(fabric, direct_routes, flows).per_link[edge_link]
    assert minimal[following].tolist() == [8] * 9
    assert not minimal[between & ~following].any()

    # Seven groups serve as intermediates. Each cable carries 8/7 to an intermediate group and 8/7
    # from another one; the cable to the next group carries nothing.
    valiant = shifted(fabric, "valiant", 8)
    assert np.isnan(valiant.minimal_share)
    np.testing.assert_allclose(valiant.per_link[edge_link][following], 0, atol=1e-12)
    np.testing.assert_allclose(valiant.per_link[edge_link][between & ~following], 16 / 7)

    # Direct traffic relieves the other cables: at a direct share x = 1/8 their load is 2, as on the
    # busiest cable in a group. At x = 1/4 the direct cables carry 2 as well.
    ugal = shifted(fabric, "ugal", 8)
    assert ugal.minimal_share == pytest.approx(1 / 4)
    np.testing.assert_allclose(ugal.per_link[edge_link][following], 2)
    np.testing.assert_allclose(ugal.per_link[edge_link][between & ~following], 16 / 7 * 3 / 4)
    assert ugal.per_link[edge_link].max() == pytest.approx(2)


def test_a_shift_by_a_group_of_a_megafly() -> None:
    """As on the dragonfly, but cables within groups are not the busiest: 8 x = 16/7 (1 - x)."""
    fabric = weft.fabric("megafly:p=2,leaves=4,spines=4,h=2")
    tail, head = groups_of(fabric)
    following = (tail != head) & (head == (tail + 1) % 9)
    edge_link = fabric.graph.edge_link
    minimal = shifted(fabric, "ecmp", 8).per_link[edge_link]
    np.testing.assert_allclose(minimal[following], 8)
    valiant = shifted(fabric, "valiant", 8).per_link[edge_link]
    np.testing.assert_allclose(valiant[(tail != head) & ~following], 16 / 7)
    ugal = shifted(fabric, "ugal", 8)
    assert ugal.minimal_share == pytest.approx(2 / 9)
    np.testing.assert_allclose(ugal.per_link[edge_link][tail != head], 16 / 9)
    assert ugal.per_link[edge_link].max() == pytest.approx(16 / 9)


def test_a_shift_by_a_switch_of_a_full_mesh() -> None:
    """Four hosts per switch send to the next switch: load 4 directly, 8/3 via the other three."""
    fabric = weft.fabric("hyperx:S=5,T=4")
    loads = shifted(fabric, "valiant", 4).per_link[fabric.graph.edge_link]
    assert sorted(set(loads.round(12))) == [0, round(8 / 3, 12)]
    assert int((loads == 0).sum()) == 5
    mixed = shifted(fabric, "ugal", 4)
    assert mixed.minimal_share == pytest.approx(0.4)  # 4 x = 8/3 (1 - x)
    np.testing.assert_allclose(mixed.per_link[fabric.graph.edge_link], 1.6)


def test_all_to_all_on_a_full_mesh_doubles() -> None:
    """Each of 20 cables carries 16 direct flows; via another switch all flows cross two cables."""
    fabric = weft.fabric("hyperx:S=5,T=4")
    inner = fabric.graph.edge_link
    for engine, load in (("valiant", 32), ("ugal", 16), ("ecmp", 16)):
        loads = all_to_all_loads(fabric, route(fabric, engine)).per_link
        np.testing.assert_allclose(loads[inner], load)
        np.testing.assert_allclose(np.delete(loads, inner), 19)
    assert all_to_all_loads(fabric, route(fabric, "ugal")).minimal_share == 1.0


def test_path_lengths_on_a_full_mesh() -> None:
    fabric = weft.fabric("hyperx:S=5,T=4")
    # 60 pairs share a switch; the paths of 320 pairs cross two cables between switches, not one.
    report = validate(fabric, route(fabric, "valiant"))
    np.testing.assert_allclose(report.hops, [0, 0, 60, 0, 320])
    np.testing.assert_allclose(report.detours, [60, 320])
    report = validate(fabric, route(fabric, "ugal"))
    assert report.hops.tolist() == [0, 0, 60, 320]
    assert (report.max_hops, report.max_detour) == (4, 0)
    assert "via an intermediate have up to 4 hops, direct ones up to 3" in report.text()


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("spec", "kind", "lanes"),
    [
        ("dragonfly:p=2,a=4,h=2", "dragonfly of 9 groups of 4", 3),
        ("dragonfly:p=1,a=4,h=3,g=6,cables=2", "dragonfly of 6 groups of 4", 3),
        ("dragonfly:p=1,a=3,h=2,g=4,arrangement=palmtree", "dragonfly of 4 groups of 3", 3),
        ("dragonfly:p=3,a=2,h=1", "dragonfly of 3 groups of 2", 3),
        ("megafly:p=2,leaves=3,spines=2,h=2,g=3", "megafly of 3 groups, 9 leaves and 6 spines", 2),
        ("hyperx:S=4x4x2,K=1,1,2,T=3", "HyperX of 4x4x2", 2),
        ("flattened-butterfly:k=3,n=2", "HyperX of 3 switches", 2),
        ("hypercube:3", "HyperX of 2x2x2", 2),
        ("dragonfly:p=2,a=5,h=1,g=1", "HyperX of 5 switches", 2),
        # Ports cannot be divided evenly among groups: the last switches have no global cable.
        ("dragonfly:p=2,a=4,h=2,g=4", "dragonfly of 4 groups of 4", 3),
        ("dragonfly:p=2,a=4,h=2,g=6", "dragonfly of 6 groups of 4", 3),
        ("dragonfly:p=2,a=4,h=2,g=7,arrangement=palmtree", "dragonfly of 7 groups of 4", 3),
        ("dragonfly:p=1,a=8,h=4,g=12", "dragonfly of 12 groups of 8", 3),
        ("dragonfly:p=1,a=8,h=4,g=24", "dragonfly of 24 groups of 8", 3),
        ("megafly:p=2,leaves=4,spines=4,h=2,g=6", "megafly of 6 groups", 2),
        ("slim-fly:q=5,hosts=1", "each of 50 switches", 4),
        ("slim-fly:q=4,hosts=2", "each of 32 switches", 4),
        ("jellyfish:switches=20,degree=5", "each of 20 switches", 8),
        ("ring:5", "each of 5 switches", 4),
    ],
)
def test_structures_are_found_whatever_the_labels(spec: str, kind: str, lanes: int) -> None:
    for fabric in (weft.fabric(spec), weft.fabric(spec).shuffled(5)):
        for engine in ("valiant", "ugal"):
            routes = candidates(fabric, engine)
            assert kind in routes.notes[0]
            report = validate(fabric, routes, management=True)
            assert report.ok
            assert report.lanes == routes.num_vls == lanes
            with pytest.raises(NotApplicable, match=f"needs {lanes} lanes, but max_vls is 1"):
                route(fabric, engine, max_vls=1)


def test_groups_and_coordinates_are_those_of_the_labels() -> None:
    fabric = weft.fabric("dragonfly:p=1,a=6,h=3")
    rows = fabric.graph.row_node
    assert np.array_equal(find_dragonfly(fabric).group, fabric.coordinates[rows, 0])
    fabric = weft.fabric("megafly:p=1,leaves=4,spines=3,h=2")
    megafly = find_megafly(fabric)
    names = np.array(fabric.node_names)[fabric.graph.row_node]
    assert [name.startswith("spine") for name in names] == (megafly.tier == 1).tolist()
    group = [int(name.lstrip("leafspin").split(".")[0]) for name in names]
    assert np.array_equal(np.unique(megafly.group, return_inverse=True)[1], group)
    fabric = weft.fabric("hyperx:S=4x3x2")
    assert np.array_equal(find_grid(fabric), fabric.coordinates[fabric.graph.row_node])


@pytest.mark.slow
def test_the_search_for_groups_is_fast_on_dense_random_networks() -> None:
    """Where no cliques exist, the search does not try all subsets of switches."""
    fabric = weft.fabric("jellyfish:switches=90,degree=70")
    assert lines_run(lambda: find_dragonfly(fabric)) < 10_000_000
    groups = find_dragonfly(fabric)
    graph = fabric.graph
    joined = set(zip(graph.edge_tail.tolist(), graph.edge_row.tolist(), strict=True))
    for number in range(groups.num_groups):
        group = np.flatnonzero(groups.group == number).tolist()
        assert joined >= set(permutations(group, 2))


@pytest.mark.parametrize(
    ("fabric", "reason"),
    [
        (weft.fabric("ring:11"), "needs 10 lanes, but max_vls is 8 (found no groups: each of"),
        (weft.fabric("xgft:2;4,4;1,4"), "has 1 groups; three are needed; not a dragonfly"),
        (weft.fabric("xgft:2;4,4;1,4"), "the switches form a tree"),
        (weft.fabric("torus:20x3"), "the switches are in part 11 or more hops apart"),
        (
            weft.fabric("megafly:p=1,leaves=2,spines=1,h=2").without(
                cables=["spine0.0[3]", "spine0.0[4]"]
            ),
            "6 leaves and 3 spines, but the switches are not all connected",
        ),
        (weft.fabric("hyperx:S=2"), "a HyperX needs at least 3 switches or groups"),
        (weft.fabric("bcube:4;1"), "hosts of a dragonfly, megafly or HyperX do not forward"),
        (
            weft.fabric("ring:5").without(cables=["s0[2]", "s0[3]"]),
            "the switches are not all connected",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else value.name,
)
def test_refusals_say_what_is_missing(fabric: Fabric, reason: str) -> None:
    for engine in ("valiant", "ugal"):
        with pytest.raises(NotApplicable) as refusal:
            route(fabric, engine)
        assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("spec", "cables", "note", "lanes"),
    [
        ("dragonfly:p=2,a=4,h=2", ["s0.0[6]"], "no cable connects the groups of s0.0 and s1.0", 5),
        ("dragonfly:p=1,a=3,h=1", ["s0.0[4]", "s3.1[4]"], "no cable connects the groups of", 5),
        ("dragonfly:p=2,a=4,h=2", ["s0.0[3]"], "found no groups", 8),
        (
            "megafly:p=2,leaves=4,spines=4,h=2",
            ["spine0.0[5]"],
            "no cable connects the groups of leaf0.0 and leaf1.0",
            6,
        ),
        ("hyperx:S=3x3,T=1", ["s0.0[2]"], "found a dragonfly of 3 groups of 3", 3),
        ("slim-fly:q=5,hosts=1", ["s0.1.2[2]"], "found no groups", 8),
    ],
)
def test_faults_need_more_lanes_but_leave_all_pairs_routed(
    spec: str, cables: list[str], note: str, lanes: int
) -> None:
    """Groups without a common cable use a third; without groups, switches are intermediates."""
    fabric = weft.fabric(spec).without(cables=cables).shuffled(2)
    for engine in ("valiant", "ugal"):
        routes = candidates(fabric, engine)
        assert "no cable connects" in note or note in routes.notes[0]
        report = validate(fabric, routes, management=True)
        assert report.ok
        assert report.lanes == lanes
    original = weft.fabric(spec).without(cables=cables)
    assert note in candidates(original, "valiant").notes[0]


def test_a_slim_fly_uses_all_switches_as_intermediates() -> None:
    """Both phases use minimal paths; intermediates are all switches but the two ends."""
    fabric = weft.fabric("slim-fly:q=3,hosts=1")
    routes = candidates(fabric, "valiant")
    assert routes.num_intermediates == fabric.num_switches == 18
    assert (validate(fabric, routes).max_hops, validate(fabric, routes).lanes) == (6, 4)
    minimal = validate(fabric, candidates(fabric, "ugal"))
    assert minimal.max_detour == 0
    assert minimal.hops[-1] > 0
    # In a Moore graph each of the two phases loads every cable as minimal paths do: all-to-all
    # loads are twice those of minimal paths.
    moore = weft.fabric("slim-fly:q=5,hosts=1")
    inner = moore.graph.edge_link
    minimal = all_to_all_loads(moore, route(moore, "ecmp")).per_link[inner]
    about = all_to_all_loads(moore, route(moore, "valiant")).per_link[inner]
    np.testing.assert_allclose(minimal, minimal[0])
    np.testing.assert_allclose(about, 2 * minimal[0])


def test_one_of_two_parallel_cables_may_fail() -> None:
    complete = weft.fabric("hyperx:S=3x3,K=2,T=2")
    fabric = complete.without(cables=["s0.0[3]"])
    report = validate(fabric, candidates(fabric, "valiant"))
    assert report.ok
    assert candidates(fabric, "ugal").num_sets < candidates(complete, "ugal").num_sets * 2


def test_inconsistent_candidates_are_refused() -> None:
    fabric = weft.fabric("dragonfly:p=1,a=3,h=1")
    routes = candidates(fabric, "ugal")
    inside = routes.via_set.copy()
    inside[routes.via[0], 0] = 0
    for broken, wrong in [
        (replace(routes, set_lane=routes.set_lane[:-1].copy()), "lanes do not match"),
        (replace(routes, via=routes.via[:-1].copy()), "expected three or more, for 12 rows"),
        (replace(routes, via=routes.via % 2, via_set=routes.via_set[:2].copy()), "2 intermediates"),
        (replace(routes, via_set=inside), "must not have a port set to itself"),
        (replace(routes, sl=np.zeros(3, np.uint8)), "service levels have shape"),
    ]:
        with pytest.raises(InputError, match=wrong):
            validate(fabric, broken)
    with pytest.raises(NotApplicable, match="draws intermediates, which a hash"):
        multipath_loads(fabric, routes, [0], [5], splits=[(1, 1)])


def test_dead_ends_and_loops_via_an_intermediate_are_found() -> None:
    fabric = weft.fabric("hyperx:S=4,T=1")
    routes = candidates(fabric, "valiant")
    sets = routes.via_set.copy()
    sets[3, 0] = -1  # switch 0 has no set to intermediate 3, which pairs 0-1 and 0-2 may draw
    report = validate(fabric, replace(routes, via_set=sets))
    assert sorted(map(tuple, report.unrouted_pairs.tolist())) == [(0, 1), (0, 2)]
    loads = all_to_all_loads(fabric, replace(routes, via_set=sets))
    assert loads.unrouted == 2
    sets = routes.set_id.copy()
    sets[1, 0] = -1  # switch 0 has no set to 1 for any packets, its own or those via 0
    for direct, pairs in ((False, [(2, 1), (3, 1)]), (True, [(0, 1), (2, 1), (3, 1)])):
        broken = replace(routes, set_id=sets, direct=direct)
        report = validate(fabric, broken)
        assert sorted(map(tuple, report.unrouted_pairs.tolist())) == pairs
        assert all_to_all_loads(fabric, broken).unrouted == len(pairs)
    for via, (a, b) in ((3, (0, 1)), (0, (1, 2))):
        sets = routes.via_set.copy()
        # a sends to b, and b to a, the packets for the intermediate.
        sets[via, a], sets[via, b] = routes.via_set[b, a], routes.via_set[a, b]
        report = validate(fabric, replace(routes, via_set=sets))
        assert report.num_loops == 1
        assert sorted(report.loops[0]) == [a, b]
        # With a loop, no path has a length.
        assert (report.hops.tolist(), report.detours.tolist()) == ([0], [0])


@pytest.mark.parametrize(
    ("none", "every", "share"),
    [
        ([1.0, 0.0], [0.0, 1.0], 0.5),
        ([1.0, 1.0], [1.0, 0.0], 1.0),  # all shares are equally good: the largest is taken
        ([2.0, 0.0], [2.0, 2.0], 1.0),
        ([1.0], [2.0], 0.0),
        ([3.0, 0.0, 1.0], [0.0, 6.0, 1.0], 1 / 3),
        ([0.0], [0.0], 1.0),
        ([1.0, 0.0], [1.0, 4.0], 0.25),  # all shares up to this one are equally good
        ([1.0, 1.0], [0.0, 2.0], 0.0),
        ([4.0, 3.0, 0.0, 0.0], [0.0, 3.0, 2.0, 6.0], 0.5),
        ([3.0, 1.0, 0.0], [0.0, 1.0 + 3e-16, 1.25], 0.8),  # two links differ by rounding only
        ([1.0, 1.0], [1.0, 1.0 + 3e-16], 1.0),
        ([1.0, 0.5], [1.0 + 3e-16, 0.2], 1.0),
        ([0.3, 0.1], [0.1 + 0.2, 0.0], 1.0),
    ],
)
def test_the_share_of_direct_traffic_minimises_the_largest_load(
    none: list[float], every: list[float], share: float
) -> None:
    assert least_worst_share(np.array(none), np.array(every)) == pytest.approx(share)


def test_bisections_use_the_better_of_direct_and_indirect_paths() -> None:
    """In a full mesh each flow has a direct cable of its own; paths via intermediates contend."""
    fabric = weft.fabric("hyperx:S=6,T=1")
    minimal = weft.bisection(fabric, route(fabric, "minhop"), samples=50)
    assert weft.bisection(fabric, route(fabric, "ugal"), samples=50).mean == minimal.mean == 1.0
    assert weft.bisection(fabric, route(fabric, "valiant"), samples=50).mean < 1.0
    # Each of two flows on four switches draws one of the other two switches as intermediate; in
    # half of the draws they contend.
    pair = weft.fabric("hyperx:S=4,T=1")
    contended = weft.bisection(pair, route(pair, "valiant"), samples=4000)
    assert set(contended.per_sample.tolist()) == {0.5, 1.0}
    assert contended.mean == pytest.approx(0.75, abs=0.02)
    crowded = weft.fabric("hyperx:S=4,T=8")
    minimal = weft.bisection(crowded, route(crowded, "minhop"), samples=50).mean
    assert weft.bisection(crowded, route(crowded, "ugal"), samples=50).mean > minimal


def test_a_host_that_sends_to_itself_loads_nothing() -> None:
    fabric = weft.fabric("hyperx:S=4,T=1")
    loads = flow_loads(fabric, route(fabric, "valiant"), host_flows(fabric, [1, 1], [1, 2]))
    assert (loads.flows, loads.unrouted) == (2, 0)
    assert loads.per_link.sum() == pytest.approx(4)


def test_different_sets_of_the_same_code_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal sets are found by a random code; here all sets have the same code."""

    class NoRandom:
        def integers(self, low: int, high: int, size: tuple[int, int], dtype: type) -> np.ndarray:
            return np.zeros(size, dtype=dtype)

    fabric = weft.fabric("dragonfly:p=1,a=3,h=2,g=4,arrangement=palmtree")
    expected = candidates(fabric, "valiant")
    monkeypatch.setattr(np.random, "default_rng", lambda seed: NoRandom())
    routes_equal = candidates(fabric, "valiant")
    assert routes_equal.num_sets > expected.num_sets

    def edges(routes: CandidateRoutes, number: int) -> list[tuple[int, int]]:
        run = slice(routes.set_offset[number], routes.set_offset[number + 1])
        return list(zip(routes.set_edge[run].tolist(), routes.set_lane[run].tolist(), strict=True))

    for one, other in (
        (expected.set_id, routes_equal.set_id),
        (expected.via_set, routes_equal.via_set),
    ):
        for a, b in zip(one.reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True):
            assert (a < 0) == (b < 0)
            assert a < 0 or edges(expected, a) == edges(routes_equal, b)
