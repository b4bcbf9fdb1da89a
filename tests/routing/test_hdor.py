"""hdor: recognition of a KNS from its cables, and routes with and without faults."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from tests.kns_grids import grid

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder, NodeKind
from weft.fabrics.parts import Parts
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.structure.kns import Kns, find_kns
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads


def loads(fabric: Fabric, routes: TableRoutes) -> np.ndarray:
    """Return the number of all-to-all flows on every link between rows."""
    return all_to_all_loads(fabric, routes).per_link[fabric.graph.edge_link]


def tables(fabric: Fabric, **options: object) -> TableRoutes:
    routes = route(fabric, "hdor", **options)
    assert isinstance(routes, TableRoutes)
    return routes


def assert_grid(kns: Kns, sizes: tuple[int, ...]) -> None:
    """Assert that two routers share a line if and only if they differ in one coordinate."""
    assert kns.sizes == sizes
    assert len(np.unique(kns.coordinates, axis=0)) == len(kns.routers) == np.prod(sizes)
    assert np.all(kns.coordinates < sizes)
    lines: dict[int, set[int]] = {}
    for router, line in zip(kns.joint_router, kns.joint_line, strict=True):
        lines.setdefault(int(router), set()).add(int(line))
    where = dict(zip(kns.routers.tolist(), kns.coordinates, strict=True))
    for one, other in combinations(kns.routers.tolist(), 2):
        differ = np.flatnonzero(where[one] != where[other])
        shared = lines[one] & lines[other]
        assert len(shared) == (len(differ) == 1)
        for line in shared:
            assert kns.dimension[line] == differ[0]


# -- recognition ------------------------------------------------------------------------------


@pytest.mark.sampled(25)
@pytest.mark.parametrize("seed", [None, *range(10)])
@pytest.mark.parametrize(
    ("spec", "sizes", "stages"),
    [
        ("kns:k=6,n=2", (6, 6), 1),
        ("kns:k=3,n=3,hosts=2,cables=2", (3, 3, 3), 1),
        ("bcube:n=2,k=3", (2, 2, 2, 2), 1),
        ("kns:k=8,n=2,s=2,d=4", (8, 8), 2),
        ("kns:k=6,n=2,d=4,cables=2", (6, 6), 3),
        ("kns:k=12,n=1,s=3,d=4", (12,), 3),
    ],
)
def test_coordinates_are_those_of_the_grid(
    spec: str, sizes: tuple[int, ...], stages: int, seed: int | None
) -> None:
    fabric = build(spec) if seed is None else build(spec).shuffled(seed)
    kns = find_kns(fabric)
    assert_grid(kns, sizes)
    assert kns.stages == stages


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes", [(2, 3, 4), (5, 2), (2, 2, 3, 2), (4,)])
def test_dimensions_may_have_lines_of_unequal_length(sizes: tuple[int, ...], seed: int) -> None:
    fabric = grid(sizes, hosts=2).shuffled(seed)
    assert_grid(find_kns(fabric), tuple(sorted(sizes)))
    assert validate(fabric, tables(fabric)).lanes == 1


@pytest.mark.parametrize("seed", range(5))
def test_coordinates_are_unique_despite_a_missing_cable(seed: int) -> None:
    pristine = grid((4, 5))
    kns = find_kns(pristine.without(cables=["r1.2[2]"]).shuffled(seed))
    assert kns.sizes == (4, 5)
    assert len(np.unique(kns.coordinates, axis=0)) == 20
    assert len(kns.joint_router) == 39
    assert kns.describe() == (
        "found a KNS of 4x5 routers, s = 1, 1 connections of routers to lines missing"
    )


@pytest.mark.parametrize("spec", ["kns:k=4,n=2", "kns:k=3,n=3", "kns:k=8,n=2,s=2,d=4"])
def test_a_router_without_its_host_is_still_a_router(spec: str) -> None:
    pristine = build(spec)
    cables = [int(c) for c in np.flatnonzero(pristine.link_kind[0::2])[[1, 6]]]
    fabric = pristine.without(cables=cables).shuffled(2)
    assert_grid(find_kns(fabric), find_kns(pristine).sizes)
    verdict = validate(fabric, tables(fabric))
    assert verdict.ok_where_connected
    assert verdict.lanes == 1
    assert verdict.max_detour == 0


def test_a_line_switch_with_auxiliary_nodes_is_not_a_router() -> None:
    build_ = FabricBuilder("with aggregation")
    routers = build_.switches(["r0", "r1", "r2"])
    (line,) = build_.switches(["s"])
    build_.connect([line] * 3, routers)
    build_.connect(routers, build_.hosts(["h0", "h1", "h2"]))
    extra = build_.hosts(["sharp"])
    build_.connect([line], extra)
    parts = build_.parts()
    parts.kind[extra] = NodeKind.AUXILIARY
    fabric = Fabric.of(parts)
    assert find_kns(fabric).sizes == (3,)
    assert validate(fabric, tables(fabric)).ok


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("torus:4x4", r"s0\.0 and s1\.0 are both routers .* cabled only to switches without hosts"),
        ("jellyfish:switches=20,degree=4,hosts=2", "are both routers"),
        ("hyperx:4x4", "are both routers"),
        ("xgft:2;4,4;1,2", "s1-0 and s1-1 share two lines, through s2-0 and s2-1"),
        ("fat-tree:k=4", "edge0.0 and edge0.1 share two lines"),
        ("megafly:p=2,leaves=4,spines=4,h=2", "two switches of one stage that have no hosts"),
        ("xgft:1;8;1", "every switch has hosts"),
    ],
)
def test_other_topologies_are_refused_with_the_reason(spec: str, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        route(build(spec), "hdor")


def test_a_router_with_two_cables_into_one_line_is_refused() -> None:
    pristine = build("kns:k=8,n=2,s=2,d=4")
    raw = Parts.of(pristine)
    one, other = pristine.find_node("r0.0"), pristine.find_node("s0.0.1.1")
    raw.ports[[one, other]] += 1
    for key, value in (("a_node", one), ("b_node", other)):
        setattr(raw, key, np.append(getattr(raw, key), np.int32(value)))
    for key, node in (("a_port", one), ("b_port", other)):
        setattr(raw, key, np.append(getattr(raw, key), raw.ports[node]))
    for key in ("rate_gbps", "rate_code", "length_m", "latency_ns"):
        setattr(raw, key, np.append(getattr(raw, key), getattr(raw, key)[-1]))
    with pytest.raises(NotApplicable, match=r"r0\.0 is cabled to .* one switch of each"):
        find_kns(Fabric.of(raw))


def test_lines_that_do_not_form_a_grid_are_refused() -> None:
    """Seven routers and seven lines of three, any two of which intersect: the Fano plane."""
    build_ = FabricBuilder("Fano")
    routers = build_.switches([f"r{i}" for i in range(7)])
    build_.connect(routers, build_.hosts([f"h{i}" for i in range(7)]))
    lines = build_.switches([f"s{i}" for i in range(7)])
    for shift in (0, 1, 3):
        build_.connect(lines, routers[(np.arange(7) + shift) % 7])
    with pytest.raises(NotApplicable, match="lines of a KNS form a grid"):
        route(build_.fabric(), "hdor")


def test_bad_options_are_refused() -> None:
    fabric = build("kns:k=4,n=2")
    with pytest.raises(InputError, match="max_vls: 16 does not fit: expected 15 or less"):
        route(fabric, "hdor", max_vls=16)
    with pytest.raises(InputError, match="lanes must be 1 to max_vls=2, not 3"):
        route(fabric, "hdor", max_vls=2, lanes=3)
    with pytest.raises(InputError, match="order"):
        route(fabric, "hdor", order="sideways")
    with pytest.raises(NotApplicable, match="2 virtual lanes are needed; max_vls is 1"):
        route(fabric.without(cables=["r1.2[2]"]), "hdor", max_vls=1)


# -- pristine fabrics -------------------------------------------------------------------------


@pytest.mark.sampled(20)
@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("seed", [None, *range(8)])
@pytest.mark.parametrize(
    ("spec", "load"),
    [("kns:k=6,n=2", 30), ("kns:k=4,n=3", 48), ("kns:k=3,n=3,hosts=2,cables=2", 36)],
)
def test_all_links_have_equal_loads_with_one_lane(
    spec: str, load: int, seed: int | None, order: str
) -> None:
    fabric = build(spec) if seed is None else build(spec).shuffled(seed)
    routes = tables(fabric, order=order)
    assert set(loads(fabric, routes)) == {load}
    verdict = validate(fabric, routes)
    assert verdict.ok
    assert verdict.lanes == 1
    assert verdict.max_detour == 0


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize(
    ("spec", "most"), [("kns:k=16,n=2,s=2,d=8", 256), ("kns:k=8,n=2,s=2,d=8,hosts=2,cables=2", 128)]
)
def test_fat_trees_inside_lines_are_balanced(spec: str, most: int, seed: int | None) -> None:
    fabric = build(spec) if seed is None else build(spec).shuffled(seed)
    routes = tables(fabric)
    verdict = validate(fabric, routes)
    assert verdict.ok
    assert verdict.lanes == 1
    assert verdict.max_detour == 0
    assert not verdict.unrouted_rows
    assert loads(fabric, routes).max() <= most


def test_parallel_cables_share_flows_in_proportion_to_their_rates() -> None:
    fabric = grid((3, 4), hosts=6, cables=2, rates=("4xHDR", "4xEDR"))
    routes = tables(fabric)
    rates = fabric.link_rate_gbps[fabric.graph.edge_link]
    load = loads(fabric, routes)
    fast, slow = load[rates > 150], load[rates < 150]
    # The ratio is two only approximately: a table does not split the flows of one destination.
    assert fast.sum() == pytest.approx(2 * slow.sum(), rel=0.02)
    assert validate(fabric, routes).ok


@pytest.mark.parametrize(
    "spec", ["kns:k=4,n=2", "kns:k=3,n=3", "kns:k=8,n=2,s=2,d=4", "kns:k=16,n=1,s=3,d=4"]
)
def test_paths_to_switches_need_further_lanes(spec: str) -> None:
    fabric = build(spec).shuffled(3)
    routes = tables(fabric, management=True)
    verdict = validate(fabric, routes, management=True)
    assert verdict.ok
    assert verdict.lanes > 1
    assert validate(fabric, tables(fabric), management=True).credit_loops


@pytest.mark.parametrize("lanes", [2, 3, 8])
def test_lanes_spread_destinations_evenly(lanes: int) -> None:
    fabric = build("kns:k=4,n=2,hosts=2").shuffled(1)
    routes = tables(fabric, lanes=lanes)
    verdict = validate(fabric, routes)
    assert verdict.ok
    assert verdict.lanes == lanes
    assert np.array_equal(routes.table, tables(fabric).table)
    of_hosts = np.bincount(routes.sl[: fabric.num_hosts], minlength=lanes)
    assert of_hosts.max() - of_hosts.min() <= 2
    row = fabric.graph.destination_row[: fabric.num_hosts]
    for router in np.unique(row):
        assert len(set(routes.sl[: fabric.num_hosts][row == router])) == 2


def test_more_lanes_than_routers_on_a_line_are_all_used() -> None:
    fabric = build("kns:k=4,n=2").shuffled(1)
    routes = tables(fabric, lanes=8)
    assert np.bincount(routes.sl[: fabric.num_hosts]).tolist() == [2] * 8


def test_lanes_for_faults_reduce_the_lanes_that_spread_destinations() -> None:
    fabric = build("kns:k=4,n=2").without(cables=["r1.2[2]"])
    routes = tables(fabric, lanes=4, max_vls=4)
    assert routes.lanes.tables[0].max() == 3  # no service level is mapped to a missing lane
    verdict = validate(fabric, routes)
    assert verdict.ok
    assert verdict.lanes == 4
    assert routes.notes[-2:] == (
        "faults or management need 2 lanes",
        "destinations are spread over 3 lanes, not 4",
    )


# -- faults -----------------------------------------------------------------------------------


def assert_routed(fabric: Fabric, max_vls: int = 8) -> None:
    routes = tables(fabric, max_vls=max_vls)
    verdict = validate(fabric, routes)
    assert verdict.ok_where_connected, verdict.text()
    assert verdict.max_detour == 0


@pytest.mark.parametrize(
    ("cables", "switches"),
    [
        (["r1.2[2]"], []),
        (["r1.2[3]"], []),
        (["r1.2[2]", "r3.2[3]", "r0.0[2]"], []),
        (["r1.2[2]", "r1.2[3]"], []),
        ([], ["r2.1"]),
        ([], ["s0.1"]),
        ([], ["s0.1", "s1.2", "r0.0"]),
        ([], ["s0.0", "s0.1", "s0.2"]),
    ],
)
def test_faults_of_each_kind_are_routed_around(cables: list[str], switches: list[str]) -> None:
    assert_routed(build("kns:k=4,n=2").without(cables=cables, switches=switches))


def test_few_entries_change_for_a_missing_cable() -> None:
    pristine = build("kns:k=6,n=2")
    fabric = pristine.without(cables=["r1.2[2]"])
    before, after = tables(pristine), tables(fabric)
    changed = (before.table != after.table)[: fabric.num_hosts]
    leave, enter = pristine.find_node("r1.2"), pristine.find_node("s0.1")
    assert {leave, enter} <= set(np.flatnonzero(changed.any(axis=0)))
    assert changed.mean() < 0.05
    assert (np.asarray(after.sl) > 0).mean() < 0.05


def test_detours_leave_a_line_via_all_of_its_routers() -> None:
    """r1.2 lost its cable to its line r1.0 to r1.5; its other line, s1.2, leads to each of these
    via a different router.
    """
    fabric = build("kns:k=6,n=2").without(cables=["r1.2[2]"])
    line = fabric.find_node("s1.2")
    beyond = [fabric.find_node(f"h1.{other}") - fabric.num_switches for other in (0, 1, 3, 4, 5)]
    assert len(set(tables(fabric).table[beyond, line].tolist())) == 5


@pytest.mark.parametrize("seed", range(4))
def test_a_line_that_has_lost_top_or_leaf_switches_is_still_used(seed: int) -> None:
    pristine = build("kns:k=8,n=2,s=2,d=4")
    tops = [name for name in pristine.node_names if name.startswith("s0.3.2.")]
    assert_inside(pristine.without(switches=tops[: 1 + seed % 2]).shuffled(seed))
    leaves = [name for name in pristine.node_names if name.startswith("s1.2.1.")]
    assert_inside(pristine.without(switches=[*leaves[: 1 + seed % 2], tops[1]]).shuffled(seed))


def test_leaves_without_a_common_top_are_joined_via_a_third_leaf() -> None:
    """Leaf a reaches only top x, b only top y, c both: the path from a to b is a, x, c, y, b."""
    pristine = build("kns:k=16,n=2,s=2,d=8")
    a, b = pristine.find_node("s0.0.1.0"), pristine.find_node("s0.0.1.1")
    x, y = pristine.find_node("s0.0.2.0"), pristine.find_node("s0.0.2.1")
    ends = np.stack((pristine.link_from[0::2], pristine.link_to[0::2]), axis=1).tolist()
    lost = [c for c, pair in enumerate(ends) if set(pair) in ({a, y}, {b, x})]
    assert len(lost) == 4
    assert_inside(pristine.without(cables=lost))


@pytest.mark.parametrize("size", [4, 5, 6])
def test_paths_inside_a_line_avoid_switches_without_a_legal_continuation(size: int) -> None:
    """Fast switches p connect neighbouring leaves in a ring; only the slow x connects all."""
    build_line = FabricBuilder("ring in a line")
    names = ("r", "l", "p", "m", "x")
    rings = [build_line.switches([f"{name}{i}" for i in range(size)]) for name in names[:4]]
    routers, leaves, beside, slow = rings
    top = build_line.switches(names[4:])
    build_line.connect(build_line.hosts([f"h{i}" for i in range(size)]), routers)
    build_line.connect(routers, leaves)
    build_line.connect(leaves, beside)
    build_line.connect(np.roll(leaves, -1), beside)
    build_line.connect(leaves, slow, rate="1xSDR")
    build_line.connect(slow, np.repeat(top, size), rate="1xSDR")
    fabric = Fabric.of(build_line.parts())
    assert_inside(fabric)
    verdict = validate(fabric, tables(fabric, management=True), management=True)
    assert verdict.ok, verdict.text()


def assert_inside(fabric: Fabric) -> None:
    verdict = validate(fabric, tables(fabric))
    assert verdict.ok_where_connected, verdict.text()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(
    "spec", ["kns:k=5,n=2", "kns:k=3,n=3,hosts=2,cables=2", "kns:k=6,n=2,s=3,d=4,cables=2"]
)
def test_all_connected_pairs_are_routed_after_any_faults(spec: str, seed: int) -> None:
    """Up to a fifth of the cables and a tenth of the switches fail at once."""
    random = np.random.default_rng(seed)
    pristine = build(spec)
    between = np.flatnonzero(pristine.link_kind[0::2] == 0)
    share = random.random() * 0.2
    fabric = pristine.without(
        cables=random.choice(between, round(len(between) * share), replace=False).tolist(),
        switches=random.choice(
            pristine.num_switches, round(pristine.num_switches * share / 2), replace=False
        ).tolist(),
    ).shuffled(seed)
    routes = tables(fabric, lanes=2, management=bool(seed % 5 == 0))
    verdict = validate(fabric, routes, management=bool(seed % 5 == 0))
    assert verdict.ok_where_connected, verdict.text()
    assert verdict.lanes <= 8


@pytest.mark.parametrize("seed", range(10))
def test_adapters_that_forward_may_lose_cables_and_lines(seed: int) -> None:
    random = np.random.default_rng(seed)
    pristine = build("bcube:n=3,k=2")
    fabric = pristine.without(
        cables=random.choice(pristine.num_cables, seed, replace=False).tolist(),
        switches=random.choice(pristine.num_switches, 2, replace=False).tolist(),
    ).shuffled(seed)
    assert_routed(fabric)
