from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder, LinkKind
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.torus_conf import parse, write
from weft.routing.routes import TableRoutes
from weft.routing.structure.torus import Torus, find_tori
from weft.routing.structure.torus_seed import configuration, seeded
from weft.routing.validation.validate import Validation, validate
from weft.sim.static.all_to_all import all_to_all_loads


def one(fabric: Fabric) -> Torus:
    (torus,) = find_tori(fabric)
    return torus


def check_steps(fabric: Fabric, torus: Torus) -> None:
    """Check that every row has its own coordinates and that every cable is one step."""
    position = {int(row): at for row, at in zip(torus.rows, torus.coordinate.tolist(), strict=True)}
    assert len({tuple(at) for at in position.values()}) == len(torus.rows)
    assert all(0 <= a < n for at in position.values() for a, n in zip(at, torus.radix, strict=True))
    graph = fabric.graph
    for tail, head in zip(graph.edge_tail.tolist(), graph.edge_row.tolist(), strict=True):
        moved = [
            (b - a, size, wrap)
            for a, b, size, wrap in zip(
                position[tail], position[head], torus.radix, torus.wraps, strict=True
            )
            if a != b
        ]
        assert len(moved) == 1
        length, size, wrap = moved[0]
        assert abs(length) == 1 or (wrap and abs(length) == size - 1)


def routed(fabric: Fabric, engine: str = "torus-2QoS") -> tuple[TableRoutes, Validation]:
    routes = route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    report = validate(fabric, routes)
    assert report.ok_where_connected, report.text()
    return routes, report


def worst(fabric: Fabric, engine: str) -> int:
    loads = all_to_all_loads(fabric, route(fabric, engine)).per_link
    return int(loads[fabric.link_kind == 0].max())


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("torus:4x4x4", "4x4x4 torus"),
        ("torus:dims=3x4x5,hosts=2,cables=2", "5x3x4 torus"),
        ("torus:7x2", "7x2 torus"),
        ("torus:3x3x3x3x3x3", "3x3x3x3x3x3 torus"),
        ("torus:8x1", "8 ring"),
        ("ring:3", "3 ring"),
        ("ring:n=2,cables=2", "2 line"),
        ("mesh:3x4x5", "5x4x3 mesh"),
        ("mesh:7", "7 line"),
        ("hypercube:5", "4x4x2 torus"),
        ("mesh:2x2", "4 ring"),
    ],
)
def test_tori_and_meshes_are_found_whatever_the_ports_and_names(spec: str, text: str) -> None:
    for fabric in (load(spec), load(spec).shuffled(1), load(spec).shuffled(2)):
        torus = one(fabric)
        assert torus.folded().text() == text
        assert torus.complete
        check_steps(fabric, torus)
        check_steps(fabric, torus.folded())


def test_rings_and_lines_mix() -> None:
    """A line of three rings of five switches, connected switch by switch."""
    build = FabricBuilder("tube")
    switches = build.switches([f"s{i}" for i in range(15)])
    for ring in range(3):
        for i in range(5):
            build.connect([switches[5 * ring + i]], [switches[5 * ring + (i + 1) % 5]])
            if ring < 2:
                build.connect([switches[5 * ring + i]], [switches[5 * ring + 5 + i]])
    build.connect(build.hosts([f"h{i}" for i in range(15)]), switches)
    fabric = build.fabric().shuffled(5)
    torus = one(fabric)
    assert (torus.radix, torus.wraps) == ((5, 3), (True, False))
    assert torus.text() == "5tx3m torus"
    check_steps(fabric, torus)
    assert routed(fabric)[1].lanes == 2


@pytest.mark.parametrize(
    "spec",
    ["torus:5x5x5", "torus:4x4x4", "torus:6x5", "torus:5x4", "torus:3x3", "mesh:4x5x3", "mesh:4x4"],
)
@pytest.mark.parametrize("seed", range(4))
def test_a_torus_with_one_missing_cable_or_switch_is_found(spec: str, seed: int) -> None:
    complete = one(load(spec)).folded()
    for cables, switches in ((1, 0), (0, 1)):
        fabric = load(spec).with_faults(cables=cables, switches=switches, seed=seed).shuffled(seed)
        torus = one(fabric)
        assert torus.folded().text() == complete.text()
        assert torus.missing == switches
        assert not torus.complete
        check_steps(fabric, torus)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "spec",
    ["torus:4x5", "torus:3x5", "torus:3x3", "torus:3x4", "torus:4x6", "mesh:3x5", "mesh:5x5"],
)
def test_a_torus_with_short_rings_or_a_small_mesh_and_two_missing_cables_is_found(
    spec: str,
) -> None:
    whole = load(spec)
    cables = np.flatnonzero(whole.link_kind[0::2] == LinkKind.SWITCH_SWITCH)
    for seed in range(40):
        missing = np.random.default_rng(seed).choice(cables, 2, replace=False)
        fabric = whole.without(cables=missing.tolist()).shuffled(seed)
        if fabric.graph.components.any():  # a corner of a mesh is cut off
            continue
        torus = one(fabric)
        assert torus.folded().text() == one(whole).folded().text()
        assert torus.missing == 0
        assert not torus.complete
        check_steps(fabric, torus)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("xgft:2;4,4;1,4", "parallel to its own reverse"),
        ("kns:k=6,n=2", "has no position in the"),
        ("hyperx:4x4", "not a torus"),
        ("jellyfish:switches=20,degree=4,seed=1", "torus"),
        (
            "xgft:2;20,20;1,20",
            "has 20 neighbours; a switch of a torus of 6 dimensions has at most 12",
        ),
    ],
)
def test_a_fabric_that_is_not_a_torus_is_refused(spec: str, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        route(load(spec), "torus-2QoS")


def test_one_cable_too_many_is_named() -> None:
    build = FabricBuilder("almost")
    switches = build.switches([f"s{i}" for i in range(36)])
    for i in range(36):
        x, y = i % 6, i // 6
        build.connect([switches[i]], [switches[(x + 1) % 6 + 6 * y]])
        build.connect([switches[i]], [switches[x + 6 * ((y + 1) % 6)]])
    build.connect([switches[0]], [switches[15]])
    with pytest.raises(NotApplicable, match="cable from s0 to s15 is not a step in the 6x6 grid"):
        route(build.fabric(), "torus-2QoS")


@pytest.mark.parametrize(
    ("spec", "lanes", "most"),
    [
        ("torus:4x4x4", 1, 32),  # routed as a hypercube
        ("torus:5x5x5", 2, 75),
        ("torus:4x5x6", 2, 90),
        ("torus:6x6", 2, 30),
        ("torus:3x3x3", 1, 9),  # no path takes two steps in one ring
        ("mesh:4x4", 1, 16),
        ("hypercube:4", 1, 8),
        ("torus:dims=5x5,hosts=2,cables=2", 2, 30),
    ],
)
def test_lanes_loads_and_shortest_paths(spec: str, lanes: int, most: int) -> None:
    fabric = load(spec)
    routes, report = routed(fabric)
    assert report.ok
    assert report.lanes == routes.num_vls == lanes
    assert report.minimal_share == 1
    assert worst(fabric, "torus-2QoS") == most
    assert worst(fabric, "torus-2QoS:balance=opensm") >= most
    assert validate(fabric, routes, management=True).ok
    assert routed(fabric, "torus-2QoS:balance=opensm")[1].lanes == 2


def test_parallel_cables_share_flows_by_their_rates() -> None:
    fabric = load("torus:dims=5x5,hosts=4,cables=2,rate=4xHDR")
    fabric = fabric.degraded(["s1.0[5]"], "4xEDR")  # ports 5 and 6 lead up in x
    loads = all_to_all_loads(fabric, route(fabric, "torus-2QoS")).per_link
    first = fabric.port_offset[fabric.find_node("s1.0")] + 4
    slow, fast = loads[fabric.port_link[first : first + 2]]
    assert 0.45 * fast < slow < 0.55 * fast
    other = fabric.port_offset[fabric.find_node("s2.3")] + 4
    even = loads[fabric.port_link[other : other + 2]]
    assert abs(even[0] - even[1]) < 0.05 * even[0]


def test_any_single_switch_can_fail() -> None:
    fabric = load("torus:5x4x3")
    for switch in range(0, fabric.num_switches, 7):
        broken = fabric.without(switches=[fabric.node_names[switch]])
        for engine in ("torus-2QoS", "torus-2QoS:balance=opensm", "torus-2QoS:management=true"):
            routes, report = routed(broken, engine)
            assert report.lanes <= 4
            assert validate(broken, routes, management=True).ok_where_connected
        assert "missing parts" in routes.notes[0]


def test_the_sl_of_a_path_does_not_change_when_a_switch_fails() -> None:
    """Running programs depend on this: they keep the SL that they were given first."""
    fabric = load("torus:5x5x3")
    complete = route(fabric, "torus-2QoS:balance=opensm")
    broken = fabric.without(switches=["s2.2.1"])
    degraded = route(broken, "torus-2QoS:balance=opensm")
    names = [broken.node_names[row] for row in broken.graph.row_node]
    rows = [fabric.find_node(name) for name in names]
    old = complete.sl[:, fabric.num_endpoints :][np.ix_(rows, rows)]
    assert np.array_equal(old, degraded.sl[:, broken.num_endpoints :])
    assert len(np.unique(old)) == 8


def test_a_ring_cut_twice_is_routed_around() -> None:
    fabric = load("torus:5x5").without(cables=["s1.2[2]", "s3.2[2]"])
    report = routed(fabric)[1]
    assert report.num_unrouted_pairs == 0
    assert report.mean_hops > routed(load("torus:5x5"))[1].mean_hops


def test_paths_get_lanes_one_by_one_where_sls_do_not_suffice() -> None:
    fabric = load("torus:6x5").with_faults(cables=2, seed=0)
    routes, report = routed(fabric)
    assert report.num_unrouted_pairs == 0
    assert routes.lanes.is_uniform
    assert "one by one" in routes.notes[-1]
    with pytest.raises(NotApplicable, match=r"missing parts of the 6x5 torus can deadlock: s\d"):
        route(fabric, "torus-2QoS:balance=opensm")


def test_each_part_of_a_split_torus_is_routed() -> None:
    fabric = load("ring:8").without(switches=["s1", "s3"])
    assert [torus.text() for torus in find_tori(fabric)] == ["5 line", "single switch"]
    routes, report = routed(fabric)
    assert report.num_unrouted_pairs == report.num_disconnected_pairs > 0
    assert "5 line and single switch" in routes.notes[0]


def test_a_qos_level_shifts_service_levels_to_lanes_of_their_own() -> None:
    fabric = load("torus:5x5")
    routes, report = routed(fabric, "torus-2QoS:qos_level=1")
    assert report.lanes == 2
    assert routes.sl.min() >= 8
    low = routed(fabric)[0]
    assert np.array_equal(routes.sl, low.sl + 8)
    assert np.array_equal(routes.table, low.table)
    between = routes.lanes.tables[:-1, 8:]
    assert set(np.unique(between[[0, 2]])) == {4, 5}
    assert routes.num_vls == 6


@pytest.mark.parametrize(
    ("spec", "options", "reason"),
    [
        ("torus:5x5", "max_vls=1", "a ring needs 2 virtual lanes; max_vls is 1"),
        ("torus:5x5", "qos_level=1;max_vls=4", "need 8 virtual lanes; max_vls is 4"),
        ("torus:5x5x5x5", "qos_level=1", "needs 4 SL bits for the datelines of its rings; there"),
        ("torus:5x5x5x5", "balance=opensm", "OpenSM's torus-2QoS has three dimensions, not 4"),
        ("torus:5x5x5x5x5", "max_vls=8", "needs 5 SL bits"),
    ],
)
def test_too_few_lanes_or_levels_are_refused(spec: str, options: str, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        route(load(spec), f"torus-2QoS:{options}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("max_vls=0", "max_vls: '0' does not fit: expected 1 or more"),
        ("qos_level=2", "qos_level must be 0 or 1, not 2"),
        ("conf=/no/such.conf", "cannot be read"),
    ],
)
def test_bad_options(options: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        route(load("torus:3x3"), f"torus-2QoS:{options}")


def test_five_dimensions_without_datelines_fit() -> None:
    assert routed(load("torus:3x3x3x3x3"))[1].lanes == 1
    assert routed(load("torus:5x5x3x3x3"))[1].lanes == 2


def test_a_mesh_needs_one_lane_and_lanes_by_port_need_more_than_three() -> None:
    assert routed(load("mesh:4x4"), "torus-2QoS:max_vls=1")[1].lanes == 1
    broken = load("torus:5x5x5").without(switches=["s2.2.2"])
    assert not routed(broken)[0].lanes.is_uniform
    assert routed(broken, "torus-2QoS:max_vls=3")[0].lanes.is_uniform


# -- torus-2QoS.conf ------------------------------------------------------------------------------


def conf_text(fabric: Fabric, first: str, *lines: str) -> str:
    """Return a configuration in which switch names are replaced by GUIDs."""
    text_lines = [first]
    for line in lines:
        words = [
            f"{int(fabric.node_guid[fabric.find_node(word)]):#x}" if word.startswith("s") else word
            for word in line.split()
        ]
        text_lines.append(" ".join(words))
    return "\n".join([*text_lines, ""])


def coordinates(fabric: Fabric, text: str) -> dict[str, tuple[int, ...]]:
    torus = seeded(fabric, find_tori(fabric), parse(text, "t.conf"))
    names = [fabric.node_names[fabric.graph.row_node[row]] for row in torus.rows]
    return dict(zip(names, map(tuple, torus.coordinate.tolist()), strict=True))


def test_a_seed_gives_directions_and_datelines_move_the_origin() -> None:
    fabric = load("torus:4x5x3")
    seed = ("xp_link s1.1.1 s0.1.1", "xm_link s1.1.1 s2.1.1", "ym_link s1.1.1 s1.2.1",
            "zp_link s1.1.1 s1.1.2")  # fmt: skip
    positions = coordinates(fabric, conf_text(fabric, "torus 4 5 3", *seed))
    for name, at in positions.items():
        x, y, z = (int(part) for part in name[1:].split("."))
        assert at == ((1 - x) % 4, (1 - y) % 5, (z - 1) % 3)
    moved = coordinates(
        fabric, conf_text(fabric, "torus 4 5 3", *seed, "x_dateline -1", "y_dateline 2")
    )
    assert moved["s1.1.1"] == (1, 3, 0)
    assert moved["s0.1.1"] == (2, 3, 0)


def test_axes_may_come_in_any_order_and_be_left_out() -> None:
    fabric = load("torus:5x3")
    positions = coordinates(
        fabric, conf_text(fabric, "torus 1 3 5", "yp_link s0.0 s0.1", "zp_link s0.0 s1.0")
    )
    assert positions["s4.2"] == (0, 2, 4)


def test_a_second_seed_replaces_a_missing_one_and_gives_the_same_sls(tmp_path: Path) -> None:
    fabric = load("torus:5x5")
    path = tmp_path / "t.conf"
    path.write_text(write(configuration(fabric, one(fabric))))
    conf = parse(path.read_text())
    assert len(conf.seeds) == 2
    first = fabric.node_names[
        int(np.flatnonzero(fabric.node_guid == conf.seeds[0].links["xp"].tail_guid)[0])
    ]
    broken = fabric.without(switches=[first])
    complete = route(fabric, "torus-2QoS", conf=str(path), balance="opensm")
    degraded = route(broken, "torus-2QoS", conf=str(path), balance="opensm")
    assert validate(broken, degraded).ok_where_connected
    rows = [fabric.find_node(name) for name in broken.node_names[: broken.num_switches]]
    old = complete.sl[:, fabric.num_endpoints :][np.ix_(rows, rows)]
    assert np.array_equal(old, degraded.sl[:, broken.num_endpoints :])


@pytest.mark.parametrize(
    "spec", ["torus:4x4x4", "torus:5x4x2", "mesh:4x3", "torus:2x2x6", "ring:9"]
)
def test_a_configuration_leads_back_to_the_coordinates_it_was_made_from(spec: str) -> None:
    for fabric in (load(spec).shuffled(4), load(spec).with_faults(cables=1, seed=3)):
        torus = one(fabric).folded()
        conf = parse(write(configuration(fabric, torus)))
        back = seeded(fabric, find_tori(fabric), conf)
        dimensions = len(torus.radix)
        assert back.radix[:dimensions] == torus.radix
        assert np.array_equal(back.coordinate[:, :dimensions], torus.coordinate)
        assert not back.coordinate[:, dimensions:].any()


def test_the_configuration_allows_many_adapters_per_switch() -> None:
    fabric = load("torus:dims=5x5,hosts=20")
    assert configuration(fabric, one(fabric)).portgroup_max_ports == 21


def test_four_dimensions_cannot_be_configured() -> None:
    fabric = load("torus:3x3x3x3")
    with pytest.raises(NotApplicable, match="three dimensions; this is a 3x3x3x3 torus"):
        configuration(fabric, one(fabric))


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (("torus 5 4 1", "xp_link s0.0 0xbad", "yp_link s0.0 s0.1", "ym_link s0.0 s0.3"), 2,
         "xp_link names 0xbad, which is not a switch of"),
        (("torus 5 4 1", "xp_link s0.0 s2.0", "yp_link s0.0 s0.1", "ym_link s0.0 s0.3"), 2,
         "are not neighbours in"),
        (("torus 5 4 1", "xp_link s0.0 s1.1", "yp_link s0.0 s0.1", "ym_link s0.0 s0.3"), 2,
         "are not neighbours in"),
        (("torus 6 4 1", "xp_link s0.0 s1.0", "yp_link s0.0 s0.1", "ym_link s0.0 s0.3"), 2,
         "specifies a ring of 6 for x, but the fabric, a 5x4 torus, has a ring of 5 there"),
        (("torus 5m 4 1", "xp_link s0.0 s1.0", "yp_link s0.0 s0.1", "ym_link s0.0 s0.3"), 2,
         "specifies a line of 5 for x, but the fabric, a 5x4 torus, has a ring of 5"),
        (("torus 5 4 1", "xp_link s0.0 s1.0", "yp_link s0.0 s0.1", "ym_link s0.0 s4.0"), 3,
         "yp_link and ym_link are in different dimensions"),
        (("torus 5 1 1", "xp_link s0.0 s1.0"), None, "specifies 5t 1 1, but the fabric is"),
    ],
)  # fmt: skip
def test_a_configuration_of_another_fabric_is_refused(
    lines: tuple[str, ...], line: int | None, message: str
) -> None:
    fabric = load("torus:5x4")
    with pytest.raises(InputError) as error:
        coordinates(fabric, conf_text(fabric, *lines))
    assert message in error.value.message
    assert (error.value.file, error.value.line) == ("t.conf", line)


def test_switches_that_the_seed_does_not_reach_are_refused(tmp_path: Path) -> None:
    fabric = load("ring:8").without(cables=["s1[2]", "s4[2]"])
    path = tmp_path / "t.conf"
    path.write_text(conf_text(fabric, "torus 8 1 1", "xp_link s5 s6"))
    with pytest.raises(NotApplicable, match="s2 is not connected to the switches of the seed"):
        route(fabric, "torus-2QoS", conf=str(path))
