"""Engines of switches that route adaptively: ar_updn, ar_ftree and dfp."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.judged import Judged
from weft.fabrics.topology import build
from weft.routing import engine, route
from weft.routing.routes import CandidateRoutes
from weft.routing.validation.validate import validate
from weft.sim.common.policies import usual_of
from weft.sim.flit.routings.policies.policy_registry import policy as flit_policies
from weft.sim.packet.policies.policy_registry import policy as packet_policies

MEGAFLY = "megafly:p=2,leaves=2,spines=2,h=2"
TREE = "xgft:2;4,4;1,4"
SOME_PORTS = 3


def adaptive(fabric: Fabric, spec: str) -> CandidateRoutes:
    routes = route(fabric, spec)
    assert isinstance(routes, CandidateRoutes)
    assert routes.fallback is not None
    return routes


@pytest.mark.parametrize(
    ("spec", "lanes"),
    [(MEGAFLY, 2), (MEGAFLY + ",g=4", 2), ("megafly:p=1,leaves=3,spines=2,h=1", 2)],
)
def test_dfp_takes_one_lane_more_for_the_second_climb(spec: str, lanes: int) -> None:
    fabric = build(spec)
    routes = adaptive(fabric, "dfp")
    result = validate(fabric, routes)
    assert result.ok
    assert result.lanes == lanes
    same = route(fabric, "ugal")
    assert isinstance(same, CandidateRoutes)
    for name in ("set_id", "set_offset", "set_edge", "set_lane", "via", "via_set"):
        assert np.array_equal(getattr(routes, name), getattr(same, name))
    # Up to a spine of the group, across, down to a leaf; on the next lane to the destination.
    for lines, lane in ((routes.via_set, 0), (routes.set_id, 1)):
        for number in np.unique(lines[lines >= 0]):
            assert set(
                routes.set_lane[routes.set_offset[number] : routes.set_offset[number + 1]]
            ) == {lane}
    assert routes.fallback is not None
    static = validate(fabric, routes.fallback)
    assert static.ok
    assert static.minimal_share == 1
    assert static.lanes == 1


def test_dfp_is_for_megaflies() -> None:
    for spec in ("dragonfly:p=2,a=4,h=2", TREE, "hyperx:3x3;2;2"):
        with pytest.raises(NotApplicable, match="not a megafly"):
            route(build(spec), "dfp")
    cut = build(MEGAFLY).without(cables=["spine0.0[3]"])
    routes = adaptive(cut, "dfp")
    assert validate(cut, routes).ok
    assert validate(cut, routes.fallback).ok
    with pytest.raises(NotApplicable, match="needs 6 lanes, but max_vls is 2"):
        route(cut, "dfp", max_vls=2)


def test_ar_ftree_refuses_what_is_no_tree_and_cables_within_a_level() -> None:
    with pytest.raises(NotApplicable, match="not a tree of several levels"):
        route(build("torus:4x4"), "ar_ftree")
    parts = FabricBuilder("two spines that a cable joins")
    leaves, spines = parts.switches(["a", "b"]), parts.switches(["x", "y"])
    parts.connect(np.repeat(leaves, 2), np.tile(spines, 2))
    parts.connect([spines[0]], [spines[1]])
    parts.connect(leaves, parts.hosts(["h", "i"]))
    fabric = parts.fabric()
    with pytest.raises(NotApplicable, match=r"x.* joins two switches of one level; ar_updn takes"):
        route(fabric, "ar_ftree", pure=False)
    assert validate(fabric, adaptive(fabric, "ar_updn:roots=x")).ok


@pytest.mark.parametrize("name", ["ar_updn", "ar_ftree"])
def test_limits_out_of_range_are_refused(name: str) -> None:
    for options in ({"max_groups": -1}, {"max_groups": 4096}, {"max_ports": 0}, {"max_ports": 255}):
        with pytest.raises(InputError, match=next(iter(options))):
            route(build(TREE), name, **options)


def test_limits_are_noted() -> None:
    tree = build(TREE)
    whole = adaptive(tree, "ar_updn")
    few = adaptive(tree, f"ar_updn:max_groups=0,max_ports={SOME_PORTS}")
    assert few.notes[:-2] == whole.notes
    assert few.notes[-2] == "a group has at most 3 ports"
    assert few.notes[-1].startswith("0 groups are too few at 4 of 8 switches: 12 pairs")
    assert np.diff(few.set_offset).max() == 1
    some = adaptive(tree, f"ar_updn:max_ports={SOME_PORTS}")
    leaves = np.flatnonzero(np.diff(some.set_offset) > 1)
    used = {
        edge
        for number in leaves
        for edge in some.set_edge[some.set_offset[number] : some.set_offset[number + 1]].tolist()
    }
    assert len(used) == 16  # all four uplinks of each of four leaves serve some destination


def test_routes_of_judged_hosts_keep_their_fallback() -> None:
    fabric = Judged(f"{build(TREE).node_names[8]},{build(TREE).node_names[15]}").of(build(TREE))
    assert fabric.num_hosts == 2
    routes = adaptive(fabric, "ar_updn")
    assert validate(fabric, routes).ok
    assert validate(fabric, routes.fallback).ok


def test_a_fallback_of_another_fabric_is_refused() -> None:
    fabric = build(TREE)
    routes = replace(adaptive(fabric, "ar_updn"), fallback=route(build("ring:6"), "minhop"))
    with pytest.raises(InputError, match="made for another fabric"):
        validate(fabric, routes)


def test_a_fallback_that_is_not_valid_is_a_finding() -> None:
    fabric = build("ring:6")
    whole = adaptive(fabric, "ar_updn:roots=center")
    result = validate(fabric, whole)
    assert result.ok
    assert result.fallback is not None
    assert result.fallback.routes is whole.fallback
    result = validate(fabric, replace(whole, fallback=route(fabric, "minhop")))
    assert not result.credit_loops
    assert not result.ok
    assert not result.ok_where_connected
    assert result.findings()[0].startswith("static fallback: the routes can deadlock")
    table = whole.fallback.table.copy()
    table[0] = whole.fallback.no_path
    result = validate(fabric, replace(whole, fallback=replace(whole.fallback, table=table)))
    assert result.findings()[0].startswith("static fallback: 5 of 30 host pairs")
    alone = fabric.without(switches=["s0"])
    result = validate(alone, adaptive(alone, "ar_updn:roots=center"))
    assert result.ok_where_connected
    assert not any("static" in line for line in result.findings())


def test_each_engine_has_the_policy_that_its_switches_have() -> None:
    for policies in (packet_policies.names(), flit_policies.names()):
        assert usual_of("ar_updn:roots=center", policies) == "adaptive"
        assert usual_of("ar_ftree", policies) == "adaptive"
        assert usual_of("dfp", policies) == "ugal"
        assert usual_of("valiant", policies) == "valiant"
        assert usual_of("no engine", policies) == usual_of("minhop", policies) == "ecmp"
    settings = {each.name: each.facts["nvidia"] for each in engine if "nvidia" in each.facts}
    assert settings == {name: name for name in ("ar_updn", "ar_ftree", "dfp")}


@pytest.mark.parametrize("policy", ["adaptive", "spray", ""])
@pytest.mark.parametrize("level", ["packet", "flit"])
@pytest.mark.parametrize("name", ["ar_updn", "ar_ftree"])
def test_switches_use_all_uplinks_where_the_fallback_uses_one(
    name: str, level: str, policy: str
) -> None:
    """In the pattern, the eight hosts of a leaf send by seven, one and no flows on its uplinks."""
    fabric = build("xgft:2;8,8;1,4")
    routes = adaptive(fabric, name)
    work = weft.load_workload("pattern:pattern=bit-reversal,size=16KiB", fabric.num_hosts)
    options = {"policy": policy} if policy else {}
    own = weft.simulate(fabric, routes, work, level=level, **options)
    static = weft.simulate(fabric, routes.fallback, work, level=level)
    # The largest contention is 1.75 instead of 7.
    assert own.makespan_ns < 0.6 * static.makespan_ns


@pytest.mark.parametrize("level", ["packet", "flit"])
def test_dfp_goes_around_a_global_cable_that_all_flows_would_share(level: str) -> None:
    fabric = build("megafly:p=4,leaves=2,spines=2,h=2")
    routes = adaptive(fabric, "dfp")
    work = weft.load_workload("pattern:pattern=shift,offset=8,size=64KiB", fabric.num_hosts)
    times = {
        policy: weft.simulate(fabric, routes, work, level=level, **options).makespan_ns
        for policy, options in {
            p: {"policy": p} if p else {} for p in ("adaptive", "spray", "")
        }.items()
    }
    static = weft.simulate(fabric, routes.fallback, work, level=level).makespan_ns
    # Minimal paths have one global cable for the eight flows between two groups.
    assert times["adaptive"] == pytest.approx(static, rel=0.05)
    assert times["spray"] == pytest.approx(static, rel=0.05)
    assert times[""] < 0.8 * static
