from __future__ import annotations

import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import routing as plain
from weft.errors import NotApplicable, UnroutedWarning
from weft.fabrics import Fabric, FabricBuilder
from weft.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes, VirtualLanes
from weft.routing import route
from weft.routing.lower import lower
from weft.routing.source import source_routes
from weft.routing.validate import validate
from weft.sim.all_to_all import all_to_all_loads
from weft.sim.bisection import bisection
from weft.sim.static import contention, flow_loads, host_flows, link_loads, link_users

SEEDS = range(25)


def all_pairs(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    source, destination = np.divmod(np.arange(fabric.num_hosts**2), fabric.num_hosts)
    different = source != destination
    return source[different], destination[different]


def quiet_loads(fabric: Fabric, routes: Routes) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnroutedWarning)
        return link_loads(fabric, routes, *all_pairs(fabric))


def damaged(routes: TableRoutes, seed: int) -> TableRoutes:
    """Tables with a few entries overwritten at random: loops, dead ends, wrong hosts."""
    random = np.random.default_rng(seed)
    table = routes.table.copy()
    hit = random.random(table.shape) < 0.1
    table[hit] = random.integers(0, 12, int(hit.sum()))
    return replace(routes, table=table)


def tables(fabric: Fabric, seed: int) -> list[TableRoutes]:
    made = [route(fabric, "minhop"), route(fabric, "updn", roots="center")]
    made.append(route(fabric, "minhop", lmc=1))
    return [*made, damaged(made[0], seed)]


@pytest.mark.parametrize("seed", SEEDS)
def test_loads_contention_and_users_follow_the_tables(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    for routes in tables(fabric, seed):
        paths = plain.host_paths(fabric, routes)
        expected = plain.loads(fabric, paths)
        assert np.array_equal(quiet_loads(fabric, routes), expected)
        total = all_to_all_loads(fabric, routes)
        assert np.array_equal(total.per_link, expected)
        assert total.unrouted == sum(path is None for path in paths.values())

        flows = host_flows(fabric, *all_pairs(fabric), lmc=routes.lmc)
        met = contention(fabric, routes, flows)
        rate = fabric.link_rate_gbps
        for number, path in enumerate(paths.values()):
            assert met.hops[number] == (-1 if path is None else len(path))
            if path:
                ratio = expected[path] / rate[path]
                assert met.link[number] in np.asarray(path)[ratio == ratio.max()]
        busiest = np.argsort(expected)[-3:]
        for link, users in zip(busiest, link_users(fabric, routes, flows, busiest), strict=True):
            through = [i for i, path in enumerate(paths.values()) if path and link in path]
            assert sorted(users.tolist()) == through


@pytest.mark.parametrize("seed", SEEDS)
def test_candidates_are_all_shortest_paths_and_split_equally(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    routes = route(fabric, "ecmp")
    assert isinstance(routes, CandidateRoutes)
    graph = plain.switch_graph(fabric)
    nodes = [int(node) for node in np.flatnonzero(fabric.forwards)]
    for g, target in enumerate(nodes):
        distance = nx.single_source_shortest_path_length(graph.reverse(), target)
        for r, node in enumerate(nodes):
            choice = routes.set_id[g, r]
            if node == target or node not in distance:
                assert choice == -1
                continue
            edges = routes.set_edge[routes.set_offset[choice] : routes.set_offset[choice + 1]]
            expected = [
                link
                for _, head, link in graph.out_edges(node, keys=True)
                if distance.get(head, -9) == distance[node] - 1
            ]
            assert sorted(fabric.graph.edge_link[edges].tolist()) == sorted(expected)

    expected_loads = np.zeros(fabric.num_links)
    places = plain.destinations(fabric)
    first: dict[int, tuple[int, int]] = {}
    for place in places:
        first.setdefault(place[0], place)
    for a in range(fabric.num_hosts):
        for b in range(fabric.num_hosts):
            s, d = first.get(fabric.num_switches + a), first.get(fabric.num_switches + b)
            share = plain.split_pair(fabric, routes, s, d) if a != b and s and d else None
            for link, amount in (share or {}).items():
                expected_loads[link] += amount
    np.testing.assert_allclose(quiet_loads(fabric, routes), expected_loads, atol=1e-9)
    np.testing.assert_allclose(all_to_all_loads(fabric, routes).per_link, expected_loads, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_validator_counts_what_the_paths_show(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    for routes in tables(fabric, seed):
        found = validate(fabric, routes)
        paths = plain.host_paths(fabric, routes)
        lost = {pair for pair, path in paths.items() if path is None}
        assert found.num_unrouted_pairs == len(lost)
        assert {tuple(pair) for pair in found.unrouted_pairs.tolist()} == lost
        lengths = [len(path) for path in paths.values() if path is not None]
        assert found.hops.tolist() == np.bincount(lengths).tolist()
        assert found.detours.sum() == len(lengths)
        for loop in found.loops:
            assert len(set(loop)) == len(loop) >= 2
    hashed = validate(fabric, route(fabric, "ecmp"))
    single = validate(fabric, route(fabric, "minhop"))
    assert hashed.hops.tolist() == single.hops.tolist()
    assert hashed.num_unrouted_pairs == single.num_unrouted_pairs


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lanes", ["one", "by LID", "by pair", "by port"])
def test_the_dependency_graph_is_the_one_that_the_paths_make(seed: int, lanes: str) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    random = np.random.default_rng(seed)
    routes = route(fabric, "minhop", lmc=seed % 2)
    lids = fabric.num_destinations << seed % 2
    if lanes == "by LID":
        routes = replace(
            routes,
            sl=random.integers(0, 3, lids).astype(np.uint8),
            lanes=VirtualLanes.uniform(range(16)),
        )
    elif lanes == "by pair":
        shape = (fabric.graph.num_rows, lids)
        routes = replace(
            routes,
            sl=random.integers(0, 2, shape).astype(np.uint8),
            lanes=VirtualLanes.uniform(range(16)),
        )
    elif lanes == "by port":
        ports = np.diff(fabric.graph.row_base).astype(np.int32)
        base = np.concatenate(([0], np.cumsum(ports.astype(np.int64) ** 2)))
        maps = random.integers(0, 3, (4, 16)).astype(np.uint8)
        index = random.integers(0, 4, int(base[-1])).astype(np.int32)
        routes = replace(routes, lanes=VirtualLanes(maps, index, base[:-1], ports))
    found = validate(fabric, routes)
    graph = plain.dependency_graph(fabric, routes)
    knots = [part for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert len(found.credit_loops) == len(knots)
    for cycle in found.credit_loops:
        for channel, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert graph.has_edge(channel, following)
    assert found.lanes == max(len({lane for _, lane in graph}), 1)


def source_routes_of(
    fabric: Fabric, paths: dict[tuple[int, int], list[int] | None], keep: np.ndarray
) -> PathRoutes:
    """Some of the paths that tables give, as source routes."""
    given = [(pair, path) for pair, path in paths.items() if path]
    given = [pair_path for pair_path, kept in zip(given, keep, strict=False) if kept]
    ports = [fabric.link_from_port[path].tolist() for _, path in given]
    offset = np.concatenate(([0], np.cumsum([len(hops) for hops in ports])))
    return source_routes(
        fabric,
        np.array([pair[0] for pair, _ in given], dtype=np.int64),
        np.array([pair[1] for pair, _ in given], dtype=np.int64),
        offset.astype(np.int64),
        np.array([port for hops in ports for port in hops], dtype=np.int64),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_source_routes_do_what_the_paths_say(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    random = np.random.default_rng(seed)
    every = plain.host_paths(fabric, route(fabric, "minhop"))
    routes = source_routes_of(fabric, every, random.random(len(every)) < 0.7)
    endpoint = fabric.host_endpoint.tolist()
    there = set(routes.pair.tolist())
    paths = {
        (a, b): path if endpoint[a] * fabric.num_host_endpoints + endpoint[b] in there else None
        for (a, b), path in every.items()
    }
    expected = plain.loads(fabric, paths)
    assert np.array_equal(quiet_loads(fabric, routes), expected)
    total = all_to_all_loads(fabric, routes)
    assert np.array_equal(total.per_link, expected)
    lost = {pair for pair, path in paths.items() if path is None}
    assert total.unrouted == len(lost)
    found = validate(fabric, routes)
    assert found.num_unrouted_pairs == len(lost)
    assert {tuple(pair) for pair in found.unrouted_pairs.tolist()} == lost
    lengths = [len(path) for path in paths.values() if path is not None]
    assert found.hops.tolist() == np.bincount(lengths).tolist()
    whole = validate(fabric, route(fabric, "minhop"))
    assert found.num_disconnected_pairs == whole.num_disconnected_pairs
    assert found.max_detour == 0
    flows = host_flows(fabric, *all_pairs(fabric))
    met = contention(fabric, routes, flows)
    for number, path in enumerate(paths.values()):
        assert met.hops[number] == (-1 if path is None else len(path))
        if path:
            ratio = expected[path] / fabric.link_rate_gbps[path]
            assert met.link[number] in np.asarray(path)[ratio == ratio.max()]
    busiest = np.argsort(expected)[-3:]
    for link, users in zip(busiest, link_users(fabric, routes, flows, busiest), strict=True):
        through = [i for i, path in enumerate(paths.values()) if path and link in path]
        assert sorted(users.tolist()) == through
    routes = replace(
        routes,
        sl=random.integers(0, 3, len(routes.pair)).astype(np.uint8),
        lanes=VirtualLanes.uniform(range(16)),
    )
    level = dict(zip(routes.pair.tolist(), routes.sl.tolist(), strict=True))
    waits = nx.DiGraph()
    for (a, b), path in paths.items():
        if path is None:
            continue
        lane = level[endpoint[a] * fabric.num_host_endpoints + endpoint[b]]
        ends = fabric.forwards[fabric.link_from[path]] & fabric.forwards[fabric.link_to[path]]
        channels = [(link, lane) for link in np.asarray(path)[ends].tolist()]
        waits.add_nodes_from(channels)
        nx.add_path(waits, channels)
    judged = validate(fabric, routes)
    knots = [part for part in nx.strongly_connected_components(waits) if len(part) > 1]
    assert len(judged.credit_loops) == len(knots)
    assert judged.lanes == max(len({lane for _, lane in waits}), 1)
    same = bisection(fabric, source_routes_of(fabric, every, np.ones(len(every))), samples=20)
    assert same.mean == pytest.approx(bisection(fabric, route(fabric, "minhop"), samples=20).mean)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_made_of_source_routes_take_the_same_ways(seed: int) -> None:
    fabric = random_fabric(seed)
    mixed = {
        **plain.host_paths(fabric, route(fabric, "minhop")),
        **{
            pair: path
            for pair, path in plain.host_paths(
                fabric, route(fabric, "updn", roots="center")
            ).items()
            if sum(pair) % 2
        },
    }
    routes = source_routes_of(fabric, mixed, np.ones(len(mixed)))
    for lmc in range(4):
        try:
            tables, offset = lower(fabric, routes, lmc)
        except NotApplicable:
            continue
        break
    places = plain.destinations(fabric)
    for path, (key, o) in enumerate(zip(routes.pair.tolist(), offset.tolist(), strict=True)):
        source, destination = divmod(key, fabric.num_host_endpoints)
        lid = (destination << lmc) + o
        links = plain.follow(fabric, tables, places[source], places[destination], lid)
        edges = fabric.graph.edge_of_link[links]
        expected = routes.edge[routes.offset[path] : routes.offset[path + 1]]
        assert edges[edges >= 0].tolist() == expected.tolist()
    found = validate(fabric, tables)
    assert found.num_unrouted_pairs == found.num_disconnected_pairs
    assert (found.num_loops, found.unrouted_rows) == (0, 0)


def test_flows_between_second_ports_count_in_the_deadlock_proof() -> None:
    """First ports are all on one switch; the ring is used between second ports only."""
    build = FabricBuilder("dual rail")
    (rail,) = build.switches(["rail"])
    ring = build.switches([f"s{i}" for i in range(5)])
    hosts = build.hosts([f"h{i}" for i in range(5)])
    build.connect(np.full(5, rail), hosts)
    build.connect(ring, np.roll(ring, -1))
    build.connect(ring, hosts)
    fabric = build.fabric()
    for engine in ("minhop", "ecmp"):
        assert len(validate(fabric, route(fabric, engine)).credit_loops) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_minhop_is_minimal_and_updn_legal_and_complete(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    graph = plain.switch_graph(fabric)
    minimal = validate(fabric, route(fabric, "minhop"))
    assert minimal.max_detour == 0
    assert minimal.num_unrouted_pairs == minimal.num_disconnected_pairs
    routes = route(fabric, "updn", roots="center")
    ordered = validate(fabric, routes, management=True)
    assert ordered.num_unrouted_pairs == ordered.num_disconnected_pairs
    assert not ordered.credit_loops
    assert not ordered.loops
    assert graph.number_of_nodes() == fabric.graph.num_rows


def test_equal_split_needs_no_flows_of_its_own() -> None:
    fabric = random_fabric(3)
    routes = route(fabric, "ecmp")
    with pytest.raises(NotApplicable, match="policy"):
        contention(fabric, routes, host_flows(fabric, [0], [1]))
    assert flow_loads(fabric, routes, host_flows(fabric, [], [])).flows == 0
