from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weft.advice.compare import compare
from weft.core.errors import InputError, NotApplicable, UnroutedWarning
from weft.core.registry import Entry
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build
from weft.routing import engine as engines
from weft.routing import route
from weft.routing.engines.as_opensm import detected_roots
from weft.routing.engines.updn import chosen_roots
from weft.routing.routes import CandidateRoutes, TableRoutes
from weft.routing.structure.fat_tree import find_fat_tree
from weft.routing.validation.validate import reached_rows, validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.effective_bisection import bisection
from weft.sim.static.loads import contention, host_flows, link_loads
from weft.subnet.live.subnet import live


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


def test_dmodk_says_why_it_refuses() -> None:
    tree = build("xgft:3;4,4,4;1,4,4")
    with pytest.raises(NotApplicable, match="not a complete fat tree"):
        route(tree.with_faults(cables=1), "dmodk")
    with pytest.raises(NotApplicable, match=r"not a complete fat tree|no cable"):
        route(tree.with_faults(switches=1, seed=3), "dmodk")
    with pytest.raises(NotApplicable, match="two switches of level 1"):
        route(ring(5), "dmodk")


def test_route_refuses_a_spec() -> None:
    with pytest.raises(InputError, match=r"expected a Fabric.* not 'ring:4'"):
        route("ring:4", "minhop")  # type: ignore[arg-type]


def test_other_functions_refuse_a_spec() -> None:
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
    with pytest.raises(InputError, match="routing engine forgetful returned NoneType instead"):
        route(ring(4), "forgetful")


def test_minhop_balances_the_second_level_too() -> None:
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
    report = validate(fabric, route(fabric, "minhop"))
    assert not report.ok
    assert len(report.credit_loops) == 2
    assert all(len(cycle) == 6 for cycle in report.credit_loops)
    text = report.credit_loops[0].text(fabric)
    assert text.count(" waits for ") == 6
    assert all(f"s{i}[" in text for i in range(6))
    ordered = validate(fabric, route(fabric, "updn", roots=("s2",)))
    assert ordered.ok
    assert ordered.max_detour > 0
    assert "are not minimal" in ordered.text()


def test_candidates_have_a_lane_for_each_hop_where_one_lane_can_deadlock() -> None:
    for fabric, lanes in ((build("slim-fly:q=5"), 2), (ring(6), 3), (build("fat-tree:k=4"), 1)):
        routes = route(fabric, "ecmp")
        checked = validate(fabric, routes)
        assert checked.ok
        assert checked.lanes == lanes
        assert checked.minimal_share == 1
        plain = route(fabric, "ecmp:max_vls=1")
        for target, row in np.argwhere(plain.set_id >= 0)[::7]:
            known = [
                each.set_edge[each.set_offset[at] : each.set_offset[at + 1]]
                for each in (routes, plain)
                for at in [each.set_id[target, row]]
            ]
            assert np.array_equal(*known)


def test_candidates_of_a_ring_can_deadlock_too() -> None:
    report = validate(ring(6), route(ring(6), "ecmp:max_vls=1"))
    assert len(report.credit_loops) == 2
    assert report.num_unrouted_pairs == 0


def test_roots_are_found_as_opensm_finds_them() -> None:
    tree = build("xgft:3;6,6,6;1,6,6")
    roots = detected_roots(tree)
    assert np.array_equal(roots, np.flatnonzero(tree.level[: tree.num_switches] == 3))
    with pytest.raises(NotApplicable, match="no roots found"):
        route(ring(6), "updn")


def test_without_roots_updn_falls_back_to_minhop_as_opensm_does() -> None:
    fabric = ring(6)
    routes = route(fabric, "updn:balance=opensm")
    assert isinstance(routes, TableRoutes)
    minhop = route(fabric, "minhop:balance=opensm")
    assert isinstance(minhop, TableRoutes)
    assert np.array_equal(routes.table, minhop.table)
    assert (routes.engine, routes.options) == ("minhop", minhop.options)
    assert routes.refusals == (("updn", "no roots found; OpenSM falls back to minhop"),)
    assert validate(fabric, routes).credit_loops
    # Each part of a split fabric is a subnet: a tree keeps its roots, a ring has none.
    builder = FabricBuilder("tree and ring")
    tops, leaves, ring_of = (
        builder.switches([f"{name}{i}" for i in range(size)])
        for name, size in (("top", 2), ("leaf", 3), ("ring", 5))
    )
    for leaf in leaves:
        builder.connect(np.repeat(leaf, 2), tops)
    builder.connect(ring_of, np.roll(ring_of, 1))
    ends = [*leaves, *ring_of]
    builder.connect(ends, builder.hosts([f"h{i}" for i in range(len(ends))]))
    split = builder.fabric()
    routes = route(split, "updn:balance=opensm")
    assert routes.engine == "updn"
    assert routes.notes[0] == "2 roots (detected by OpenSM): top0, top1"
    assert "component of switch ring0; OpenSM falls back to minhop" in routes.refusals[0][1]
    assert validate(split, routes).num_unrouted_pairs == 2 * 3 * 5
    assert validate(split, routes).credit_loops


def test_weights_of_opensms_sssp_have_32_bits() -> None:
    """The real one lost as many entries of these tables, and fell back on the leaf-spine."""
    line = build("mesh:dims=5,hosts=47").shuffled(1)
    routes = route(line, "sssp:balance=opensm", lmc=7)
    assert isinstance(routes, TableRoutes)
    # Pairs of switches that are 3 or 4 hops apart, and the LIDs of 47 hosts and a switch at each.
    hosts = line.num_endpoints << 7
    assert np.count_nonzero(routes.table[:hosts] == 255) == 6 * 47 << 7
    assert validate(line, route(line, "sssp", lmc=7)).ok
    wide = build("leaf-spine:leaves=4,spines=2,hosts=75")
    minhop = route(wide, "minhop:balance=opensm", lmc=7)
    assert isinstance(minhop, TableRoutes)
    for engine in ("sssp", "dfsssp"):
        routes = route(wide, f"{engine}:balance=opensm", lmc=7)
        assert isinstance(routes, TableRoutes)
        assert (routes.engine, routes.lmc, routes.sl.any()) == ("minhop", 7, False)
        assert routes.refusals[0][0] == engine
        assert routes.refusals[0][1].endswith(
            "do not fit into 32 bits; OpenSM falls back to minhop"
        )
        assert np.array_equal(routes.table, minhop.table)


def named_roots(fabric: Fabric) -> tuple[list[str], str]:
    rows, rule = chosen_roots(fabric)
    return [fabric.node_names[fabric.graph.row_node[row]] for row in rows], rule


def test_roots_are_the_top_level_of_a_tree() -> None:
    """OpenSM's search is not used: with more than 20 leaves it takes each leaf for a root."""
    spines = ["spine0", "spine1", "spine2"]
    wide = build("leaf-spine:leaves=24,spines=3,hosts=2")
    assert len(detected_roots(wide)) == 27
    assert named_roots(wide) == (spines, "top level of the tree")
    note = "3 roots (top level of the tree): spine0, spine1, spine2"
    assert route(wide, "updn").notes == (note,)
    three = build("xgft:3;3,3,3;1,3,3")
    assert named_roots(three)[0] == [f"s3-{i}" for i in range(9)]
    assert route(three, "updn").notes[0].endswith("s3-0, s3-1, s3-2 and 6 more")

    # A leaf without hosts and a switch above one spine do not connect hosts.
    builder = FabricBuilder("appendages")
    tops, leaves = builder.switches(spines), builder.switches([f"leaf{i}" for i in range(3)])
    for leaf in leaves:
        builder.connect(np.repeat(leaf, 3), tops)
    more = builder.switches(["empty", "above"])
    builder.connect(np.repeat(more, 2), tops[[0, 1, 1, 2]])
    builder.connect(leaves, builder.hosts(["h0", "h1", "h2"]))
    assert named_roots(builder.fabric()) == (spines, "top level of the tree")

    # A cable between two leaves changes no level.
    builder = FabricBuilder("meshed")
    tops, leaves = builder.switches(spines), builder.switches([f"leaf{i}" for i in range(24)])
    for leaf in leaves:
        builder.connect(np.repeat(leaf, 3), tops)
    builder.connect(leaves, builder.hosts([f"h{i}" for i in range(24)]))
    builder.connect(leaves[:1], leaves[1:2])
    meshed = builder.fabric()
    assert len(detected_roots(meshed)) > 3
    assert named_roots(meshed) == (spines, "top level of the tree")
    assert validate(meshed, route(meshed, "updn")).ok


def test_roots_come_from_a_file_of_guids(tmp_path) -> None:
    fabric = ring(6)
    for name in ("updn", "updn:balance=opensm"):
        path = tmp_path / "roots"
        path.write_text(f"{int(fabric.node_guid[3]):#018x} # {fabric.node_names[3]}\n")
        named = route(fabric, name, roots=(fabric.node_names[3],))
        assert np.array_equal(route(fabric, name, roots=(f"@{path}",)).table, named.table)
        path.write_text(f"{int(fabric.node_guid[-1]):#018x}\n")
        with pytest.raises(InputError, match=f"{path}:1: .* expected the node GUID of a switch"):
            route(fabric, name, roots=(f"@{path}",))


def test_updn_refuses_roots_that_are_not_switches() -> None:
    with pytest.raises(InputError, match="h1 is not a switch"):
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
    with pytest.raises(InputError, match="passes: 0 does not fit: expected 1 or more"):
        route(ring(5), "minhop", passes=0)


def test_each_part_of_a_split_fabric_is_routed() -> None:
    builder = FabricBuilder("split")
    a, b = builder.switches(["a", "b"])
    builder.connect([a, a, b], builder.hosts(["h0", "h1", "h2"]))
    builder.hosts(["h3"])
    fabric = builder.fabric()
    for engine in ("minhop", "ecmp"):
        report = validate(fabric, route(fabric, engine))
        assert not report.ok
        assert report.num_unrouted_pairs == report.num_disconnected_pairs == 10
        assert {tuple(pair) for pair in report.unrouted_pairs.tolist()} == {
            (s, d) for s in range(4) for d in range(4) if s != d and {s, d} != {0, 1}
        }
    routes = route(fabric, "minhop")
    with pytest.warns(UnroutedWarning, match="2 of 3 flows"):
        loads = link_loads(fabric, routes, [0, 0, 3], [1, 2, 0])
    assert loads.sum() == 2


def test_each_lid_of_a_host_has_a_path_of_its_own() -> None:
    fabric = build("xgft:2;4,4;1,4")
    for engine in ("minhop", "updn", "dmodk"):
        routes = route(fabric, engine, lmc=2)
        assert isinstance(routes, TableRoutes)
        assert validate(fabric, routes).ok
        used = [link_loads(fabric, routes, [0], [15], lid_offset=offset) for offset in range(4)]
        paths = {tuple(np.flatnonzero(loads)) for loads in used}
        assert len(paths) == 4, engine


def test_flows_of_unknown_hosts_or_lids_are_refused() -> None:
    fabric = ring(4)
    routes = route(fabric, "minhop")
    for sources, destinations, match in (
        ([4], [0], "sources: 4 is out of range"),
        ([0], [-1], "destinations: -1 is out of range"),
        ([0, 1], [2], "destinations: expected whole numbers, 2 of them"),
        ([0.5], [1], "sources: expected whole numbers"),
    ):
        with pytest.raises(InputError, match=match):
            link_loads(fabric, routes, sources, destinations)
    with pytest.raises(InputError, match="LID offset"):
        link_loads(fabric, routes, [0], [1], lid_offset=1)
    with pytest.raises(InputError, match="LID offsets: expected whole numbers"):
        link_loads(fabric, routes, [0], [1], lid_offset=0.5)
    with pytest.raises(InputError, match="LID offsets: expected one number or 2"):
        link_loads(fabric, routes, [0, 1], [1, 2], lid_offset=[0, 0, 0])
    for weights in ([1.0, 2.0, 3.0], ["a", "b"], [[1], [1, 2]]):
        with pytest.raises(InputError, match="weights: expected"):
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


def test_names_of_roots_may_contain_x_and_digits() -> None:
    builder = FabricBuilder("names with x and digits")
    switches = builder.switches(["sx6036", "rack1x2", "s3"])
    builder.connect(switches, np.roll(switches, 1))
    builder.connect(switches, builder.hosts(["h0", "h1", "h2"]))
    fabric = builder.fabric()
    for root in ("sx6036", "rack1x2", "0x200002"):
        assert route(fabric, f"updn:roots={root}").notes == (
            f"1 root: {fabric.node_names[fabric.find_node(root)]}",
        )
    two = route(fabric, "updn:roots=sx6036,rack1x2")
    assert two.notes == ("2 roots: sx6036, rack1x2",)


def test_disconnected_hosts_are_not_errors_of_the_routing() -> None:
    fabric = build("xgft:2;4,4;1,4").without(switches=["s1-0"])
    report = validate(fabric, route(fabric, "minhop"))
    assert not report.ok
    assert report.ok_where_connected
    assert not validate(ring(6), route(ring(6), "minhop")).ok_where_connected


def test_only_entry_0_delivers_at_a_nodes_own_lid() -> None:
    """Any other port sends the packet out again, as a switch's forwarding table does."""
    build = FabricBuilder("own")
    switches = build.switches(["s0", "s1"])
    (h0,) = build.hosts(["h0"], forwards=True)
    build.connect(switches[:1], switches[1:])
    build.connect(switches[:1], [h0])
    build.connect(switches[[0, 1, 1]], build.hosts(["h1", "h2", "h3"]))
    fabric = build.fabric()
    routes = route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    assert validate(fabric, routes, management=True).ok
    for node, port, unrouted in (("h0", 1, 3), ("s1", 1, 0)):
        number = fabric.node_names.index(node)
        lid = (
            int(np.flatnonzero(fabric.endpoint_node == number)[0])
            if unrouted
            else (fabric.num_endpoints + number)
        )
        table = routes.table.copy()
        table[lid, fabric.graph.node_row[number]] = port
        wrong = replace(routes, table=table)
        report = validate(fabric, wrong, management=True)
        assert not report.ok
        assert report.sent_out.tolist() == [lid]
        assert (report.num_unrouted_pairs, report.num_loops) == (unrouted, 1)
        assert number in report.loops[0]
        assert report.credit_loops, "a packet that goes in a loop waits for itself"
        without = validate(fabric, wrong)
        assert bool(without.credit_loops) == bool(unrouted)
        assert not without.ok
        assert not without.ok_where_connected
        assert (
            "1 LIDs are never delivered: the entry of a switch or forwarding host for its "
            f"own LID must be port 0, but {node} sends such packets out by port 1"
        ) in report.findings()
        assert all_to_all_loads(fabric, wrong).unrouted == unrouted
        assert bool(bisection(fabric, wrong, samples=20).unrouted_share) == bool(unrouted)
        hops = contention(fabric, wrong, host_flows(fabric, [1, 2, 3], [0, 0, 0])).hops
        assert np.all((hops < 0) == bool(unrouted))
    table = routes.table.copy()
    table[fabric.num_endpoints, 0] = routes.no_path
    dropped = validate(fabric, replace(routes, table=table))
    assert dropped.ok
    assert len(dropped.sent_out) == 0
    assert dropped.unrouted_rows == fabric.graph.num_rows


def test_unknown_service_levels_leave_open_whether_routes_deadlock() -> None:
    fabric = ring(6)
    routes = route(fabric, "dfsssp")
    exact, unsure = (validate(fabric, routes, levels_known=known) for known in (True, False))
    assert (exact.ok, exact.deadlock) == (True, "no")
    assert (unsure.ok, unsure.ok_where_connected, unsure.deadlock) == (False, False, "may")
    assert "the routes may deadlock: if all packets share one lane, 2 set(s)" in unsure.text()
    assert validate(fabric, route(fabric, "updn", roots="s2"), levels_known=False).ok
    certain = validate(fabric, route(fabric, "minhop"))
    assert certain.deadlock == "can"
    assert "the routes can deadlock: 2 set(s) of channels wait" in certain.text()


def test_a_cable_between_two_ports_of_a_switch_can_wait_for_itself() -> None:
    build = FabricBuilder("loopback")
    switches = build.switches(["a", "b"])
    build.connect(switches[:1], switches[1:])
    build.connect(switches, build.hosts(["h0", "h1"]))
    build.connect(switches[:1], switches[:1])
    fabric = build.fabric()
    routes = route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    assert validate(fabric, routes).ok
    table = routes.table.copy()
    table[fabric.host_endpoint[1], 0] = 3
    report = validate(fabric, replace(routes, table=table))
    assert report.loops == [[0]]
    assert [len(cycle) for cycle in report.credit_loops] == [1]
    assert "a[3] -> a[4] (VL 0) waits for a[3] -> a[4] (VL 0)" in report.text()


def test_hosts_cabled_first_or_to_each_other_are_counted() -> None:
    """Link 0 leads to a host, and two hosts are not attached to a switch."""
    build = FabricBuilder("hosts first")
    (switch,) = build.switches(["s"])
    hosts = build.hosts(["h0", "h1", "h2", "h3"])
    build.connect([switch, switch], hosts[2:])
    build.connect(hosts[:1], hosts[1:2])
    fabric = build.fabric()
    routes = route(fabric, "minhop")
    assert isinstance(routes, TableRoutes)
    report = validate(fabric, routes)
    reached = reached_rows(fabric, routes, fabric.host_endpoint)
    assert reached.tolist() == [[False], [False], [True], [True]]
    assert report.hops.tolist() == [0, 0, 2]
    assert report.detours.tolist() == [2]
    assert (report.num_unrouted_pairs, report.num_disconnected_pairs) == (10, 10)
    assert len(report.unrouted_pairs) == 10
    assert (report.unrouted_rows, report.ok_where_connected) == (0, True)
    assert len(report.sent_out) == 0
    nothing = validate(fabric, replace(routes, table=np.full_like(routes.table, routes.no_path)))
    assert (nothing.num_unrouted_pairs, nothing.ok_where_connected) == (12, False)
    assert np.isnan(nothing.mean_hops)
    assert np.isnan(nothing.minimal_share)


@pytest.mark.parametrize("phase", ["set_id", "via_set"])
def test_candidates_that_send_packets_in_a_circle_are_a_loop(phase: str) -> None:
    """All three switches are intermediates. Two of them send packets for the third in a circle."""
    fabric = ring(3)
    routes = route(fabric, "ecmp")
    assert isinstance(routes, CandidateRoutes)
    sets = routes.set_id
    assert sorted(np.diff(routes.set_offset).tolist()) == [1] * 6
    rows = np.arange(3, dtype=np.int32)
    routes = replace(routes, via=rows, via_set=sets)
    assert validate(fabric, routes).num_loops == 0
    lines = sets.copy()
    lines[0, 1], lines[0, 2] = sets[2, 1], sets[1, 2]  # from 1 to 2 and back, never to 0
    report = validate(fabric, replace(routes, **{phase: lines}))
    assert report.num_loops == 1
    assert sorted(report.loops[0]) == [1, 2]
    assert not report.ok
    lines = sets.copy()
    lines[0, 1] = -1
    lacking = validate(fabric, replace(route(fabric, "ecmp"), set_id=lines))
    assert (lacking.unrouted_rows, lacking.unrouted_pairs.tolist()) == (1, [[1, 0]])


def test_loops_are_all_counted_and_sixteen_described() -> None:
    build = FabricBuilder("loops")
    switches = build.switches(["a", "b"])
    build.connect(switches[:1], switches[1:])
    build.connect(switches[:1].repeat(15), build.hosts([f"h{i}" for i in range(15)]))
    fabric = build.fabric()
    table = np.ones((fabric.num_destinations, 2), dtype=np.uint8)
    for lid in (None, 0):  # every LID loops, then all but one
        if lid is not None:
            table = table.copy()
            table[lid, 0] = 2
        report = validate(fabric, TableRoutes("loops", fabric.digest, table=table))
        looping = 17 - (lid is not None)
        assert (report.num_loops, len(report.loops)) == (looping, 16)
        assert all(sorted(loop) == [0, 1] for loop in report.loops)
        assert report.num_unrouted_pairs == 15 * 14 - 14 * (lid is not None)
        assert report.unrouted_rows == 2 * looping
        assert report.sent_out.tolist() == [15, 16]
