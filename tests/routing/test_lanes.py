"""Assignment of lanes to the paths of tables: small exact cases, and checks by the validator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.random_fabrics import random_fabric

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routing.lane_assignment import assign_lanes
from weft.routing.routes import TableRoutes, VirtualLanes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads


def with_lanes(fabric: Fabric, routes: TableRoutes, **options: object) -> tuple[TableRoutes, int]:
    sl, lanes = assign_lanes(fabric, routes.table, lmc=routes.lmc, **options)
    assert sl.shape == routes.table.shape[::-1]
    assert sl.max(initial=0) == lanes - 1
    return replace(routes, sl=sl, lanes=VirtualLanes.uniform(range(16))), lanes


@pytest.mark.parametrize("switches", [5, 6, 7, 9])
def test_a_ring_needs_two_lanes(switches: int) -> None:
    fabric = weft.fabric(f"ring:n={switches}")
    routes, lanes = with_lanes(fabric, weft.route(fabric, "minhop"))
    assert lanes == 2
    assert validate(fabric, routes).ok
    with pytest.raises(NotApplicable, match="2 virtual lanes are needed; max_vls is 1"):
        assign_lanes(fabric, routes.table, max_vls=1)


def test_a_fat_tree_needs_one_lane() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    sl, lanes = assign_lanes(fabric, weft.route(fabric, "minhop").table)
    assert lanes == 1
    assert not sl.any()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("management", [False, True])
@pytest.mark.parametrize(
    "spec", ["kns:k=4,n=2", "torus:4x4x4", "torus:5x5", "xgft:3;3,3,3;1,3,3", "bcube:n=3,k=2"]
)
def test_assigned_lanes_have_no_credit_loops(spec: str, management: bool) -> None:
    fabric = weft.fabric(spec)
    routes, _ = with_lanes(fabric, weft.route(fabric, "minhop:lmc=1"), management=management)
    report = validate(fabric, routes, management=management)
    assert report.num_unrouted_pairs == 0
    assert not report.credit_loops


@pytest.mark.parametrize("seed", range(12))
def test_assigned_lanes_have_no_credit_loops_on_random_fabrics(seed: int) -> None:
    fabric = random_fabric(seed, switches=10, hosts=16, others=2)
    for management in (False, True):
        routes, _ = with_lanes(
            fabric, weft.route(fabric, "minhop"), max_vls=15, management=management
        )
        assert not validate(fabric, routes, management=management).credit_loops


def test_bad_limits_and_forwarding_loops_are_refused() -> None:
    fabric = weft.fabric("ring:n=3")
    table = weft.route(fabric, "minhop").table
    for max_vls in (0, 16):
        with pytest.raises(InputError, match="max_vls must be 1 to 15"):
            assign_lanes(fabric, table, max_vls=max_vls)
    around = table.copy()
    switch_ports = fabric.graph.edge_port[
        fabric.graph.edge_row == np.roll(np.arange(3), -1).repeat(2)
    ]
    around[0] = switch_ports
    with pytest.raises(InputError, match="forwarding loop"):
        assign_lanes(fabric, around)


@pytest.mark.parametrize("engine", ["dfsssp", "lash"])
def test_engines_refuse_too_few_lanes_and_name_the_number_needed(engine: str) -> None:
    fabric = weft.fabric("ring:n=7")
    assert weft.route(fabric, engine).num_vls == 2
    with pytest.raises(NotApplicable, match="2 virtual lanes are needed; max_vls is 1"):
        weft.route(fabric, engine, max_vls=1)
    for max_vls in (0, 16):
        with pytest.raises(InputError, match=f"max_vls: {max_vls} does not fit: expected 1"):
            weft.route(fabric, engine, max_vls=max_vls)


def test_lash_finds_the_single_lane_of_a_four_by_four_by_four_torus() -> None:
    fabric = weft.fabric("torus:4x4x4")
    routes = weft.route(fabric, "lash")
    assert routes.num_vls == 1
    assert validate(fabric, routes, management=True).credit_loops == []


@pytest.mark.parametrize(
    ("spec", "dfsssp", "lash"),
    [
        ("kns:k=6,n=2", 1, 1),
        ("kns:k=4,n=3", 2, 2),
        ("torus:4x4x4", 2, 1),
        ("torus:5x5x5", 5, 3),
        ("xgft:3;6,6,6;1,6,6", 1, 1),
    ],
)
def test_engines_use_at_most_the_known_number_of_lanes(spec: str, dfsssp: int, lash: int) -> None:
    fabric = weft.fabric(spec)
    for engine, most in (("dfsssp", dfsssp), ("lash", lash)):
        routes = weft.route(fabric, engine)
        assert routes.num_vls <= most
        assert validate(fabric, routes).ok


def test_lash_balances_the_cables_across_the_middle_of_a_mesh() -> None:
    fabric = weft.fabric("mesh:4x4")
    loads = all_to_all_loads(fabric, weft.route(fabric, "lash")).per_link
    # 8 x 8 pairs cross the middle in each direction, over 4 cables.
    assert loads[fabric.link_kind == 0].max() == 16


def test_lash_uses_one_lane_on_large_fabrics_if_only_one_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fabric = weft.fabric("mesh:4x4")
    monkeypatch.setattr("weft.routing.engines.lash.MANY_EDGES", 0)
    assert weft.route(fabric, "lash", management=True).num_vls == 2
    assert weft.route(fabric, "lash", management=True, max_vls=1).num_vls == 1


def test_lash_without_passes_uses_one_path_for_all_hosts_of_a_switch() -> None:
    fabric = weft.fabric("xgft:3;3,3,3;1,3,3")
    one, many = (weft.route(fabric, "lash", passes=passes) for passes in (0, 3))
    assert isinstance(one, TableRoutes)
    assert isinstance(many, TableRoutes)
    goals = fabric.graph.destination_row[: fabric.num_hosts]
    for routes, together in ((one, True), (many, False)):
        lines = routes.table[: fabric.num_hosts].copy()
        lines[np.arange(fabric.num_hosts), goals] = 0
        alike = {row: len(np.unique(lines[goals == row], axis=0)) for row in np.unique(goals)}
        assert all(count == 1 for count in alike.values()) == together
    with pytest.raises(InputError, match="passes: -1 does not fit: expected 0 or more"):
        weft.route(fabric, "lash", passes=-1)


@pytest.mark.parametrize("seed", range(3))
def test_routes_are_deterministic(seed: int) -> None:
    fabric = random_fabric(seed, switches=12, hosts=20)
    for engine in ("dfsssp", "lash"):
        one, other = (weft.route(fabric, engine, management=True, max_vls=15) for _ in range(2))
        assert np.array_equal(one.table, other.table)
        assert np.array_equal(one.sl, other.sl)


def test_a_search_ends_early_only_if_it_uses_far_too_many_lanes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fabric = weft.fabric("torus:5x5x5")
    table = weft.route(fabric, "sssp").table
    service_levels, lanes = assign_lanes(fabric, table)
    assert lanes == 5
    with pytest.raises(NotApplicable, match="about 4 or more virtual lanes are needed, as"):
        assign_lanes(fabric, table, max_vls=1)
    monkeypatch.setattr("weft.routing.lane_assignment.FIRST_WORK", 0)
    again, same = assign_lanes(fabric, table)
    assert same == lanes
    assert np.array_equal(again, service_levels)
    with pytest.raises(NotApplicable, match="about 3 or more"):
        assign_lanes(fabric, table, max_vls=1)
