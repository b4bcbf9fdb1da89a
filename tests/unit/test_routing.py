from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.compare import compare
from weft.errors import InputError, NotApplicable, UnroutedWarning
from weft.fabrics import Fabric, FabricBuilder
from weft.registry import Entry
from weft.routes import TableRoutes
from weft.routing import engine as engines
from weft.routing import route
from weft.routing.structure.fat_tree import find_fat_tree
from weft.routing.updn import roots_by_distance
from weft.routing.validate import validate
from weft.sim.all_to_all import all_to_all_loads
from weft.sim.bisection import bisection
from weft.sim.static import contention, host_flows, link_loads
from weft.subnet.live import live
from weft.topology import build


def ring(size: int) -> Fabric:
    builder = FabricBuilder(f"ring of {size}")
    switches = builder.switches([f"s{i}" for i in range(size)])
    builder.connect(switches, np.roll(switches, -1))
    builder.connect(switches, builder.hosts([f"h{i}" for i in range(size)]))
    return builder.fabric()


def switch_loads(fabric: Fabric, loads: np.ndarray) -> np.ndarray:
    return loads[fabric.link_kind == 0]


@pytest.mark.parametrize("spec", ["xgft:3;6,6,6;1,6,6", "xgft:2;8,4;1,4;1,2", "xgft:3;4,4,3;1,2,2"])
@pytest.mark.parametrize("shuffle", [None, 1, 2])
def test_dmodk_balances_all_to_all_perfectly_and_shifts_without_contention(
    spec: str, shuffle: int | None
) -> None:
    fabric = build(spec)
    if shuffle is not None:
        fabric = fabric.shuffled(shuffle)
    routes = route(fabric, "dmodk")
    assert validate(fabric, routes).ok
    tree = find_fat_tree(fabric)
    loads = all_to_all_loads(fabric, routes).per_link
    level = tree.level[fabric.graph.node_row[fabric.link_from]]
    for at in range(1, len(tree.m)):
        up = (fabric.link_kind == 0) & (level == at)
        up &= tree.level[fabric.graph.node_row[fabric.link_to]] == at + 1
        spread = loads[up]
        if fabric.num_hosts % np.prod([w * p for w, p in zip(tree.w, tree.p, strict=True)]) == 0:
            assert spread.max() == spread.min()
    full = all(m == w * p for m, w, p in zip(tree.m, tree.w[1:], tree.p[1:], strict=False))
    if full:  # full bisection: every shift of the numbered hosts is free of contention
        order = np.argsort(tree.rank[fabric.host_endpoint])
        hosts = np.arange(fabric.num_hosts)
        for offset in (1, 5, fabric.num_hosts // 2, fabric.num_hosts - 1):
            flows = host_flows(fabric, order, order[(hosts + offset) % fabric.num_hosts])
            assert contention(fabric, routes, flows).worst.max() == 1.0


def test_dmodk_says_what_is_missing() -> None:
    tree = build("xgft:3;4,4,4;1,4,4")
    with pytest.raises(NotApplicable, match="no complete fat tree"):
        route(tree.with_faults(cables=1), "dmodk")
    with pytest.raises(NotApplicable, match=r"no complete fat tree|no cable"):
        route(tree.with_faults(switches=1, seed=3), "dmodk")
    with pytest.raises(NotApplicable, match="two switches of level 1"):
        route(ring(5), "dmodk")


def test_a_spec_is_no_fabric_yet() -> None:
    with pytest.raises(InputError, match=r"expected a Fabric.* not 'ring:4'"):
        route("ring:4", "minhop")  # type: ignore[arg-type]


def test_nothing_takes_a_spec_for_a_fabric() -> None:
    routes = route(ring(4), "minhop")
    uses: list[Any] = [
        lambda spec: validate(spec, routes),
        lambda spec: bisection(spec, routes),
        compare,
        lambda spec: live(spec).__enter__(),
    ]
    for use in uses:
        with pytest.raises(InputError, match=r"expected a Fabric.* not 'ring:4'"):
            use("ring:4")


def test_an_engine_that_gives_no_routes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    forgetful = Entry("forgetful", lambda fabric: None, facts={"pipeline": ("fabric",)})
    engines.names()
    monkeypatch.setitem(engines._entries, "forgetful", forgetful)
    with pytest.raises(InputError, match="routing engine forgetful gave NoneType instead"):
        route(ring(4), "forgetful")


def test_minhop_balances_the_second_tier_too() -> None:
    fabric = build("xgft:3;6,6,6;1,6,6")
    loads = switch_loads(fabric, all_to_all_loads(fabric, route(fabric, "minhop")).per_link)
    assert (loads.max(), loads.min()) == (210, 180)


def test_minhop_weighs_cables_by_their_rate() -> None:
    builder = FabricBuilder("two ways")
    left, right = builder.switches(["left", "right"])
    builder.connect([left], [right], rate=300.0)
    builder.connect([left], [right], rate=100.0)
    builder.connect([left] * 16, builder.hosts([f"a{i}" for i in range(16)]))
    builder.connect([right] * 16, builder.hosts([f"b{i}" for i in range(16)]))
    fabric = builder.fabric()
    loads = all_to_all_loads(fabric, route(fabric, "minhop")).per_link
    fast, slow = (loads[fabric.port_link[port]] for port in (0, 1))
    assert fast / 300 == slow / 100


def test_a_ring_can_deadlock_under_minhop_and_not_under_updn() -> None:
    fabric = ring(6)
    found = validate(fabric, route(fabric, "minhop"))
    assert not found.ok
    assert len(found.credit_loops) == 2
    assert all(len(cycle) == 6 for cycle in found.credit_loops)
    text = found.credit_loops[0].text(fabric)
    assert text.count(" waits for ") == 6
    assert all(f"s{i}[" in text for i in range(6))
    ordered = validate(fabric, route(fabric, "updn", roots=("s2",)))
    assert ordered.ok
    assert ordered.max_detour > 0
    assert "longer than need be" in ordered.text()


def test_candidates_of_a_ring_can_deadlock_too() -> None:
    found = validate(ring(6), route(ring(6), "ecmp"))
    assert len(found.credit_loops) == 2
    assert found.num_unrouted_pairs == 0


def test_roots_are_found_as_opensm_finds_them() -> None:
    tree = build("xgft:3;6,6,6;1,6,6")
    roots = roots_by_distance(tree)
    assert np.array_equal(roots, np.flatnonzero(tree.level[: tree.num_switches] == 3))
    with pytest.raises(NotApplicable, match="no roots can be found"):
        route(ring(6), "updn")


def test_updn_refuses_roots_that_are_no_switches() -> None:
    with pytest.raises(InputError, match="h1 is no switch"):
        route(ring(4), "updn", roots=("h1",))
    with pytest.raises(InputError, match=r"no node 'switch1'"):
        route(ring(4), "updn", roots=("switch1",))


def test_the_first_engine_that_fits_is_used_and_refusals_are_kept() -> None:
    routes = route(ring(5), engine=["dmodk", "minhop"])
    assert routes.engine == "minhop"
    assert [name for name, _ in routes.refusals] == ["dmodk"]
    with pytest.raises(InputError, match=r"unknown routing engine 'minhup' \(did you mean"):
        route(ring(5), "minhup")
    with pytest.raises(InputError, match="has no option 'depth'"):
        route(ring(5), "minhop", depth=3)
    with pytest.raises(InputError, match="lmc must be 0 to 7"):
        route(ring(5), "minhop", lmc=8)
    with pytest.raises(InputError, match="passes must be at least 1"):
        route(ring(5), "minhop", passes=0)


def test_a_split_fabric_is_routed_as_far_as_it_goes() -> None:
    builder = FabricBuilder("split")
    a, b = builder.switches(["a", "b"])
    builder.connect([a, a, b], builder.hosts(["h0", "h1", "h2"]))
    builder.hosts(["h3"])
    fabric = builder.fabric()
    for engine in ("minhop", "ecmp"):
        found = validate(fabric, route(fabric, engine))
        assert not found.ok
        assert found.num_unrouted_pairs == found.num_disconnected_pairs == 10
        assert {tuple(pair) for pair in found.unrouted_pairs.tolist()} == {
            (s, d) for s in range(4) for d in range(4) if s != d and {s, d} != {0, 1}
        }
    routes = route(fabric, "minhop")
    with pytest.warns(UnroutedWarning, match="2 of 3 flows"):
        loads = link_loads(fabric, routes, [0, 0, 3], [1, 2, 0])
    assert loads.sum() == 2


def test_several_lids_take_several_ways() -> None:
    fabric = build("xgft:2;4,4;1,4")
    for engine in ("minhop", "updn", "dmodk"):
        routes = route(fabric, engine, lmc=2)
        assert isinstance(routes, TableRoutes)
        assert validate(fabric, routes).ok
        used = [link_loads(fabric, routes, [0], [15], lid_offset=offset) for offset in range(4)]
        ways = {tuple(np.flatnonzero(loads)) for loads in used}
        assert len(ways) == 4, engine


def test_flows_that_name_no_host_are_refused() -> None:
    fabric = ring(4)
    routes = route(fabric, "minhop")
    for sources, destinations, match in (
        ([4], [0], "source 4 is no host"),
        ([0], [-1], "destination -1 is no host"),
        ([0, 1], [2], "2 sources do not match 1"),
        ([0.5], [1], "list of host numbers"),
    ):
        with pytest.raises(InputError, match=match):
            link_loads(fabric, routes, sources, destinations)
    with pytest.raises(InputError, match="LID offset"):
        link_loads(fabric, routes, [0], [1], lid_offset=1)
    with pytest.raises(InputError, match="LID offset must be a whole number"):
        link_loads(fabric, routes, [0], [1], lid_offset=0.5)
    with pytest.raises(InputError, match="LID offsets must be one number or 2, one for each"):
        link_loads(fabric, routes, [0, 1], [1, 2], lid_offset=[0, 0, 0])
    for weights in ([1.0, 2.0, 3.0], ["a", "b"], [[1], [1, 2]]):
        with pytest.raises(InputError, match="weights must be one number or 2"):
            link_loads(fabric, routes, [0, 1], [1, 2], weights=weights)
    with pytest.raises(InputError, match="another fabric"):
        link_loads(ring(5), routes, [0], [1])


def test_hosts_with_two_ports_can_spread_their_flows() -> None:
    builder = FabricBuilder("dual rail")
    rails = builder.switches(["rail0", "rail1"])
    hosts = builder.hosts([f"h{i}" for i in range(4)])
    for rail in rails:
        builder.connect(np.full(4, rail), hosts)
    fabric = builder.fabric()
    routes = route(fabric, "minhop")
    first = link_loads(fabric, routes, [0, 0, 1], [1, 2, 2])
    assert set(fabric.link_to[np.flatnonzero(first)].tolist()) <= {0, 2, 3, 4, 5}
    spread = link_loads(fabric, routes, [0, 0, 1], [1, 2, 2], ports="spread")
    by_rail = [spread[(fabric.link_to == rail)].sum() for rail in rails]
    assert by_rail == [1, 2]
    with pytest.raises(InputError, match="unknown port policy"):
        link_loads(fabric, routes, [0], [1], ports="any")  # type: ignore[arg-type]


def test_names_of_roots_may_hold_any_letter() -> None:
    builder = FabricBuilder("names with x and digits")
    switches = builder.switches(["sx6036", "rack1x2", "s3"])
    builder.connect(switches, np.roll(switches, 1))
    builder.connect(switches, builder.hosts(["h0", "h1", "h2"]))
    fabric = builder.fabric()
    for root in ("sx6036", "rack1x2", "0x200002"):
        assert route(fabric, f"updn:roots={root}").notes == (
            f"roots: {fabric.node_names[fabric.find_node(root)]}",
        )
    two = route(fabric, "updn:roots=sx6036,rack1x2")
    assert two.notes == ("roots: sx6036, rack1x2",)


def test_a_routing_is_not_blamed_for_cables_that_are_not_there() -> None:
    fabric = build("xgft:2;4,4;1,4").without(switches=["s1-0"])
    found = validate(fabric, route(fabric, "minhop"))
    assert not found.ok
    assert found.ok_where_connected
    assert not validate(ring(6), route(ring(6), "minhop")).ok_where_connected
