"""Source routes: their paths, loads and text form, and forwarding tables made from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats.host_words import host_word
from weft.routing.engines.source import read_paths, source_routes
from weft.routing.lower import lower
from weft.routing.routes import PathRoutes, TableRoutes, VirtualLanes
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.analysis import analyse
from weft.sim.static.loads import contention, host_flows, link_users


def write_paths(fabric: Fabric, routes: PathRoutes) -> str:
    """Return the text for `read_paths`, one line per path, ordered by source and destination."""
    routes.check(fabric)
    return "".join(f"{line}\n" for line in _lines(fabric, routes))


def _lines(fabric: Fabric, routes: PathRoutes) -> Iterator[str]:
    graph = fabric.graph
    yield f"# source routes of {fabric.name} by {routes.engine}: output ports from the source on"
    names = [host_word(fabric, int(node)) for node in fabric.endpoint_node]
    out_port = fabric.endpoint_port
    for i, key in enumerate(routes.pair.tolist()):
        source, destination = divmod(key, fabric.num_host_endpoints)
        if source == destination:
            continue
        edges = routes.edge[routes.offset[i] : routes.offset[i + 1]]
        ports = graph.edge_port[edges].tolist()
        if graph.destination_link[source] >= 0:
            ports.insert(0, int(out_port[source]))
        last = graph.destination_link[destination]
        if last >= 0:
            ports.append(int(fabric.link_from_port[last]))
        yield f"{names[source]} {names[destination]} {','.join(map(str, ports))}"


@pytest.fixture
def square() -> Fabric:
    """Four switches in a ring, s0 - s1 - s2 - s3 - s0, with one host each.

    Port 1 of a switch leads to the next switch, port 2 to the previous one, port 3 to the host.
    """
    build = FabricBuilder("square")
    switches = build.switches([f"s{i}" for i in range(4)])
    build.connect(switches, np.roll(switches, -1), a_ports=[1] * 4, b_ports=[2] * 4)
    build.connect(switches, build.hosts([f"h{i}" for i in range(4)]), a_ports=[3] * 4)
    return build.fabric()


ROUND = """
# all the same way round
h0 h1 1,1,3
h0 h2 0,1,1,1,3   # as a direct route begins
h0 h3 1,1,1,1,3
h1 h2 1,1,3
h1 h3 1,1,1,3
h1 h0 1,1,1,1,3
h2 h3 1,1,3
h2 h0 1,1,1,3
h2 h1 1,1,1,1,3
h3 h0 1,1,3
h3 h1 1,1,1,3
h3 h2 1,1,1,1,3
"""


def link_between(fabric: Fabric, a: str, b: str) -> int:
    ends = fabric.find_node(a), fabric.find_node(b)
    (link,) = np.flatnonzero((fabric.link_from == ends[0]) & (fabric.link_to == ends[1]))
    return int(link)


def test_paths_in_one_direction_of_a_ring_close_a_credit_loop(square: Fabric) -> None:
    routes = read_paths(square, ROUND)
    report = weft.validate(square, routes)
    assert report.num_unrouted_pairs == 0
    assert report.hops.tolist() == [0, 0, 0, 4, 4, 4]
    assert report.detours.tolist() == [8, 0, 4]
    assert report.mean_hops == 4.0
    (cycle,) = report.credit_loops
    assert len(cycle) == 4
    loads = all_to_all_loads(square, routes)
    assert (loads.flows, loads.unrouted) == (12, 0)
    forward = [link_between(square, f"s{i}", f"s{(i + 1) % 4}") for i in range(4)]
    assert loads.per_link[forward].tolist() == [6, 6, 6, 6]
    assert loads.per_link[[link ^ 1 for link in forward]].tolist() == [0, 0, 0, 0]
    assert loads.per_link.sum() == 12 * 4

    flows = host_flows(square, [0, 1, 2, 2], [2, 3, 2, 1])
    contended = contention(square, routes, flows)
    assert contended.hops.tolist() == [4, 4, 0, 5]
    assert contended.worst.tolist() == [2.0, 2.0, 0.0, 2.0]
    assert [users.tolist() for users in link_users(square, routes, flows, np.array(forward))] == [
        [3, 0],
        [0, 1],
        [3, 1],
        [3],
    ]
    shift = analyse(square, routes, [0, 1, 2, 3], [1, 2, 3, 0])
    assert shift.flows["hops"].to_list() == [3, 3, 3, 3]
    assert weft.bisection(square, routes, samples=50).mean < 1


def test_a_dateline_breaks_the_ring(square: Fabric) -> None:
    """Packets that cross the cable from s3 to s0 have SL 1 and continue on the second lane."""
    routes = read_paths(square, ROUND)
    crossing = np.array([key // 4 > key % 4 for key in routes.pair.tolist()], dtype=np.uint8)
    single_lane = replace(routes, sl=crossing, lanes=VirtualLanes.uniform([0, 1]))
    # With one lane per path, the paths s1 to s0, s2 to s1 and s3 to s2 close the ring again.
    (cycle,) = weft.validate(square, single_lane).credit_loops
    assert {lane for _, lane in cycle} == {1}
    maps = np.zeros((2, 16), dtype=np.uint8)
    maps[1, 1] = 1
    index = np.zeros(64, dtype=np.int32)
    base, ports = np.arange(4, dtype=np.int64) * 16, np.full(4, 4, dtype=np.int32)
    index[base[:2] + 2 * 4 + 1] = 1  # on s0 and s1, from the previous switch to the next
    report = weft.validate(
        square, replace(routes, sl=crossing, lanes=VirtualLanes(maps, index, base, ports))
    )
    assert report.ok
    assert report.lanes == 2


def test_unlisted_pairs_have_no_path(square: Fabric) -> None:
    routes = read_paths(square, "h0 h1 1,1,3\nh2 h0 1,1,1,3\n")
    report = weft.validate(square, routes)
    assert (report.num_unrouted_pairs, report.num_disconnected_pairs) == (10, 0)
    listed = {tuple(pair) for pair in report.unrouted_pairs.tolist()}
    everything = {(a, b) for a in range(4) for b in range(4) if a != b}
    assert listed == everything - {(0, 1), (2, 0)}
    loads = all_to_all_loads(square, routes)
    assert (loads.unrouted, loads.per_link.sum()) == (10, 7)
    with pytest.warns(weft.UnroutedWarning, match="1 of 2 flows"):
        assert weft.link_loads(square, routes, [0, 1], [1, 0]).sum() == 3
    half = weft.bisection(square, routes, samples=200)
    assert 0.7 < half.unrouted_share < 0.95


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("h0 h1", "expected SOURCE DESTINATION PORT,PORT"),
        ("h0 h9 1,1,3", "no node 'h9' in square"),
        ("h0 s1 1,1", "s1 is not a host"),
        ("h0 h1 1,x,3", "'1,x,3' is not a list of ports"),
        ("h0 h1 1,99999999999999999999", "is not a list of ports"),
        ("h0 h1 1,1_1,3", "'1,1_1,3' is not a list of ports"),
        ("h0 h1 1,4,3", "h0 to h1: port 4 of s0 has no cable"),
        ("h0 h1 2,1,3", "h0 to h1: port 2 of h0 has no cable"),
        ("h0 h1 1,1", "the path ends at s1, not at h1"),
        ("h0 h2 1,1,3", "the path ends at h1, not at h2"),
        ("h0 h1 1,1,3,1", "the path continues after h1, which does not forward"),
        ("h0 h1 1,1,2,1,3", "the path visits s0 twice"),
        ("h0 h0 1,3", "a path from a host to itself is not allowed"),
        ("h1 h2 1,1,3", "h1 to h2 already has a path"),
    ],
)
def test_errors_in_a_file_of_paths_name_the_line(square: Fabric, line: str, wrong: str) -> None:
    with pytest.raises(InputError) as error:
        read_paths(square, f"# a comment\nh1 h2 1,1,3\n\n{line}\n", "given.txt")
    assert str(error.value).startswith("given.txt:4:")
    assert wrong in str(error.value)


def test_written_paths_are_read_back(square: Fabric, tmp_path: Path) -> None:
    routes = read_paths(square, ROUND)
    file = tmp_path / "paths.txt"
    file.write_text("\ufeff" + write_paths(square, routes))
    again = weft.route(square, f"source:paths={file}")
    assert isinstance(again, PathRoutes)
    assert np.array_equal(again.pair, routes.pair)
    assert np.array_equal(again.edge, routes.edge)
    by_guid = f"{square.node_guid[4]:#x} h1 1,1,3"
    assert read_paths(square, by_guid).pair.tolist() == [1]
    with pytest.raises(NotApplicable, match="specify it with paths=FILE"):
        weft.route(square, "source")
    with pytest.raises(InputError, match="none: cannot be read"):
        weft.route(square, "source", paths=str(tmp_path / "none"))


def test_inconsistent_source_routes_are_refused(square: Fabric) -> None:
    routes = read_paths(square, ROUND)
    turned = routes.edge.copy()
    turned[0] = square.graph.edge_of_link[square.graph.edge_link[turned[0]] ^ 1]
    for broken, wrong in [
        (replace(routes, edge=turned), "the path from h0 to h1 does not lead there"),
        (replace(routes, edge=routes.edge[:-1].copy()), "does not lead there"),
        (replace(routes, pair=routes.pair[::-1].copy()), "must ascend"),
        (replace(routes, pair=routes.pair + 10), "must be below 4 x 4"),
        (replace(routes, sl=np.zeros(3, np.uint8)), "service levels have shape"),
    ]:
        with pytest.raises(InputError, match=wrong):
            weft.validate(square, broken)
    with pytest.raises(InputError, match="service levels: expected one number or 1, not 2"):
        source_routes(square, [0], [1], [0, 3], [1, 1, 3], sl=[1, 2])
    with pytest.raises(InputError, match="the offsets must ascend from 0 to 3"):
        source_routes(square, [0], [1], [0, 2], [1, 1, 3])
    with pytest.raises(InputError, match="are 0 to 3"):
        source_routes(square, [4], [1], [0, 3], [1, 1, 3])


def test_hops_include_the_cables_of_both_hosts() -> None:
    fabric = weft.fabric("xgft:1;3;1")
    routes = source_routes(fabric, [0, 2], [1, 0], [0, 2, 4], [1, 2, 1, 1])
    assert weft.validate(fabric, routes).hops.tolist() == [0, 0, 2]


def test_each_port_of_a_host_has_paths_of_its_own() -> None:
    build = FabricBuilder("two rails")
    rails = build.switches(["s0", "s1"])
    hosts = build.hosts(["a", "b"])
    for rail in rails:
        build.connect([rail] * 2, hosts)
    fabric = build.fabric()
    routes = read_paths(fabric, "a b 1,2\na b 2,2\nb a 2,1\n")
    assert len(routes.pair) == 3
    report = weft.validate(fabric, routes)
    assert report.unrouted_pairs.tolist() == [[1, 0]]  # no path between the first ports of b and a
    loads = weft.link_loads(fabric, routes, [0, 0], [1, 1], ports="first")
    assert loads.sum() == 4
    assert "a b 2,2\n" in write_paths(fabric, routes)


def test_smodk_mirrors_the_loads_of_dmodk_and_uses_one_uplink_per_host() -> None:
    for spec in ("xgft:2;4,4;1,4", "xgft:3;2,3,4;1,2,3", "pgft:2;4,4;1,2;1,2", "xgft:2;4,4;1,2"):
        for fabric in (weft.fabric(spec), weft.fabric(spec).shuffled(3)):
            routes = weft.route(fabric, "smodk")
            assert isinstance(routes, PathRoutes)
            report = weft.validate(fabric, routes)
            assert report.ok
            assert report.max_detour == 0
            loads = all_to_all_loads(fabric, routes).per_link
            mirrored = all_to_all_loads(fabric, weft.route(fabric, "dmodk")).per_link
            assert np.array_equal(loads, mirrored[np.arange(len(loads)) ^ 1])
            source = routes.pair // fabric.num_host_endpoints
            for host in range(fabric.num_hosts):
                climbs = [
                    routes.edge[routes.offset[i]]
                    for i in np.flatnonzero(source == host)
                    if routes.offset[i] < routes.offset[i + 1]
                ]
                assert len(set(climbs)) == 1


def test_smodk_follows_its_formula() -> None:
    fabric = weft.fabric("xgft:3;2,3,4;1,2,3")
    routes = weft.route(fabric, "smodk")
    assert isinstance(routes, PathRoutes)
    graph = fabric.graph
    for i, key in enumerate(routes.pair.tolist()):
        source, destination = divmod(key, fabric.num_host_endpoints)
        edges = routes.edge[routes.offset[i] : routes.offset[i + 1]]
        ports = graph.edge_port[edges].tolist()
        if source // 2 == destination // 2:
            assert ports == []
        elif source // 6 == destination // 6:
            # Down ports come first: 2 on a leaf switch, 3 on a switch of level 2.
            assert ports == [2 + 1 + source % 2, 1 + destination // 2 % 3]
        else:
            up = [2 + 1 + source % 2, 3 + 1 + source // 2 % 3]
            assert ports == [*up, 1 + destination // 6, 1 + destination // 2 % 3]


def test_too_many_source_routes_are_refused() -> None:
    large = weft.fabric("xgft:2;65,65;1,1")
    with pytest.raises(NotApplicable, match=r"17,850,625 pairs.*at most 16,777,216"):
        weft.route(large, "smodk")


@pytest.mark.parametrize(("engine", "kind"), [("dmodk", "Table"), ("ecmp", "Candidate")])
def test_lower_takes_source_routes_only(engine: str, kind: str) -> None:
    fabric = weft.fabric("xgft:2;2,2;1,2")
    with pytest.raises(InputError, match=f"PathRoutes.*; {engine} gives {kind}Routes"):
        lower(fabric, weft.route(fabric, engine))  # type: ignore[arg-type]


def test_lower_makes_tables_or_names_the_first_conflict() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    tree = weft.route(fabric, "smodk")
    assert isinstance(tree, PathRoutes)
    with pytest.raises(NotApplicable, match="to h0 need more than one LID: switch s1-1 sends by p"):
        lower(fabric, tree)
    with pytest.raises(NotApplicable, match="need more than 2 LIDs"):
        lower(fabric, tree, lmc=1)
    tables, offset = lower(fabric, tree, lmc=2)
    assert weft.validate(fabric, tables).ok
    # The four hosts of a leaf use four uplinks, so each uses another LID of a destination.
    source, destination = np.divmod(tree.pair, fabric.num_host_endpoints)
    loads = weft.link_loads(fabric, tables, source, destination, lid_offset=offset)
    assert np.array_equal(loads, all_to_all_loads(fabric, tree).per_link)


def test_tables_made_from_paths_have_the_same_loads(square: Fabric) -> None:
    routes = replace(read_paths(square, ROUND), sl=np.full(12, 3, np.uint8))
    tables, offset = lower(square, routes)
    assert not offset.any()
    assert set(np.unique(tables.sl)) == {3}
    assert np.array_equal(
        all_to_all_loads(square, tables).per_link, all_to_all_loads(square, routes).per_link
    )
    report = weft.validate(square, tables)
    assert (report.num_unrouted_pairs, report.unrouted_rows) == (0, 0)
    assert isinstance(weft.validate(square, tables).routes, TableRoutes)


def test_two_service_levels_to_one_destination_need_two_lids() -> None:
    build = FabricBuilder("pair")
    left, right = build.switches(["left", "right"])
    build.connect([left, left], build.hosts(["a", "b"]))
    build.connect([right], build.hosts(["c"]))
    build.connect([left], [right])
    fabric = build.fabric()
    routes = source_routes(fabric, [0, 1], [2, 2], [0, 3, 6], [1, 3, 1, 1, 3, 1], sl=[0, 1])
    with pytest.raises(NotApplicable, match="switch left sends on two service levels, one for b"):
        lower(fabric, routes)
    tables, offset = lower(fabric, routes, lmc=1)
    assert offset.tolist() == [0, 1]
    lid = int(fabric.host_endpoint[2]) << 1
    assert tables.sl[0, lid : lid + 2].tolist() == [0, 1]


def test_source_routes_may_be_empty(square: Fabric) -> None:
    routes = source_routes(square, [], [], [0], [], sl=np.zeros(0, dtype=np.uint8))
    assert repr(routes) == "PathRoutes('source': 0 source routes, up to 0 links between switches)"
    assert weft.validate(square, routes).num_unrouted_pairs == 12
    assert weft.bisection(square, routes, samples=3).unrouted_share == 1.0
    assert read_paths(square, "# nothing\n").pair.size == 0


def test_a_missing_file_of_paths_is_named_once() -> None:
    with pytest.raises(InputError) as caught:
        weft.route(weft.fabric("ring:4"), "source:paths=/no/such.paths")
    assert str(caught.value) == "/no/such.paths: cannot be read: No such file or directory"
