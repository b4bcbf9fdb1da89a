from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import routing as plain
from tests.reference.test_deadlock_twin import path_case
from weft.core.errors import NotApplicable, UnroutedWarning
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.engine_registry import empty_table, fill_balanced
from weft.routing.engines.source import source_routes
from weft.routing.lower import lower
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.routing.validation.validate import reached_rows, validate
from weft.sim.static.all_to_all import all_to_all_loads, all_to_all_users
from weft.sim.static.effective_bisection import bisection
from weft.sim.static.loads import contention, flow_loads, host_flows, link_loads, link_users

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
    """Return tables with random entries overwritten: loops, dead ends, wrong hosts."""
    random = np.random.default_rng(seed)
    table = routes.table.copy()
    overwritten = random.random(table.shape) < 0.1
    table[overwritten] = random.integers(0, 12, int(overwritten.sum()))
    return replace(routes, table=table)


def tables(fabric: Fabric, seed: int) -> list[TableRoutes]:
    tables_made = [route(fabric, "minhop"), route(fabric, "updn", roots="center")]
    tables_made.append(route(fabric, "minhop", lmc=1))
    return [*tables_made, damaged(tables_made[0], seed)]


@pytest.mark.sampled(12)
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
        congestion = contention(fabric, routes, flows)
        rate = fabric.link_rate_gbps
        for number, path in enumerate(paths.values()):
            assert congestion.hops[number] == (-1 if path is None else len(path))
            if path:
                ratio = expected[path] / rate[path]
                assert congestion.link[number] in np.asarray(path)[ratio == ratio.max()]
        busiest = np.argsort(expected)[-3:]
        for link, users in zip(busiest, link_users(fabric, routes, flows, busiest), strict=True):
            through = [i for i, path in enumerate(paths.values()) if path and link in path]
            assert sorted(users.tolist()) == through
        assert_users_by_switch(fabric, routes, paths, np.arange(fabric.num_links))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", SEEDS)
def test_links_of_many_flows_follow_the_tables(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3) if seed % 5 else load("torus:40")
    random = np.random.default_rng(seed)
    for routes in tables(fabric, seed):
        offset = int(random.integers(1 << routes.lmc))
        paths = [*plain.host_paths(fabric, routes, offset).values()]
        flows = host_flows(fabric, *all_pairs(fabric), lmc=routes.lmc)
        if routes.lmc:
            lids = (flows.destinations << routes.lmc) + np.int32(offset)
            flows = replace(flows, lids=lids.astype(np.int32))
        chosen = random.integers(0, len(paths), 700)
        first, link = routes.links(fabric, flows.part(chosen))
        for number, flow in enumerate(chosen):
            assert link[first[number] : first[number + 1]].tolist() == (paths[flow] or [])


def assert_users_by_switch(fabric, routes, paths, links) -> None:
    """Compare users counted by switch with the paths of all pairs."""
    row = fabric.graph.destination_row[fabric.host_endpoint]
    for link, groups in zip(links, all_to_all_users(fabric, routes, links), strict=True):
        through = [pair for pair, path in paths.items() if path and link in path]
        nodes = (fabric.graph.row_node[row[list(pair)]] for pair in through)
        expected = Counter(tuple(ends.tolist()) for ends in nodes)
        ends = zip(groups.source.tolist(), groups.destination.tolist(), strict=True)
        assert dict(zip(ends, groups.flows.tolist(), strict=True)) == expected


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
    node_ports = plain.destinations(fabric)
    first: dict[int, tuple[int, int]] = {}
    for place in node_ports:
        first.setdefault(place[0], place)
    for a in range(fabric.num_hosts):
        for b in range(fabric.num_hosts):
            s, d = first.get(fabric.num_switches + a), first.get(fabric.num_switches + b)
            share = plain.split_pair(fabric, routes, s, d) if a != b and s and d else None
            for link, amount in (share or {}).items():
                expected_loads[link] += amount
    np.testing.assert_allclose(quiet_loads(fabric, routes), expected_loads, atol=1e-9)
    np.testing.assert_allclose(all_to_all_loads(fabric, routes).per_link, expected_loads, atol=1e-9)


def by_row(fabric: Fabric, routes: TableRoutes, best: dict[int, Any]) -> tuple[int, list[int], int]:
    """Return unrouted (LID, row) pairs, each row's own LIDs that it sends on, LIDs with a loop."""
    nodes = np.flatnonzero(fabric.forwards).tolist()
    unrouted, sent_out, looping = 0, [], set()
    for number, (node, port) in enumerate(plain.destinations(fabric)):
        leaf = int(fabric.link_to[plain.out_link(fabric, node, port)]) if port else node
        for lid in range(number << routes.lmc, (number + 1) << routes.lmc):
            for row, start in enumerate(nodes):
                path = plain.follow(fabric, routes, (start, 0), (node, port), lid)
                unrouted += leaf in best[start] and path is None
                own = start == node and port == 0
                if own and int(routes.table[lid, row]) not in (0, routes.no_path):
                    sent_out.append(lid)
                if path is None and circles(fabric, routes, nodes, start, lid):
                    looping.add(lid)
    return unrouted, sent_out, len(looping)


def circles(fabric: Fabric, routes: TableRoutes, nodes: list[int], node: int, lid: int) -> bool:
    """Return whether a packet without a way to its destination comes back to a row."""
    seen = set()
    while node in nodes and node not in seen:
        seen.add(node)
        port = int(routes.table[lid, nodes.index(node)])
        link = plain.out_link(fabric, node, port)
        if port == routes.no_path or link < 0:
            return False
        node = int(fabric.link_to[link])
    return node in seen


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_validator_counts_agree_with_the_paths(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    best = dict(nx.all_pairs_shortest_path_length(plain.switch_graph(fabric)))
    tables_made = tables(fabric, seed)
    for routes in (*tables_made, damaged(tables_made[2], seed)):
        result = validate(fabric, routes)
        by_offset = [plain.host_paths(fabric, routes, o) for o in range(1 << routes.lmc)]
        paths = by_offset[0]
        unrouted = {pair for each in by_offset for pair, path in each.items() if path is None}
        assert result.num_unrouted_pairs == len(unrouted)
        assert [(a, b) for a, b in result.unrouted_pairs.tolist()] == sorted(
            unrouted, key=lambda pair: pair[::-1]
        )
        routed = [np.array(path) for path in paths.values() if path is not None]
        assert result.hops.tolist() == np.bincount([len(path) for path in routed]).tolist()
        extra = []
        for path in routed:
            inner = path[fabric.forwards[fabric.link_from[path]]]
            inner = inner[fabric.forwards[fabric.link_to[inner]]]
            ends = (fabric.link_from[inner[:1]], fabric.link_to[inner[-1:]])
            least = best[int(ends[0][0])][int(ends[1][0])] if len(inner) else 0
            extra.append(len(inner) - least)
        assert result.detours.tolist() == np.bincount(extra).tolist()
        assert result.mean_hops == pytest.approx(np.mean([len(path) for path in routed]))
        assert result.max_hops == max(len(path) for path in routed)
        assert (result.minimal_share, result.max_detour) == (
            extra.count(0) / len(extra),
            max(extra),
        )
        rows_found = result.unrouted_rows, result.sent_out.tolist(), result.num_loops
        assert rows_found == by_row(fabric, routes, best)
        has_endpoint = fabric.host_endpoint >= 0
        rows = np.where(has_endpoint, fabric.graph.destination_row[fabric.host_endpoint], -1)
        reached = reached_rows(fabric, routes, fabric.host_endpoint)
        for (a, b), path in paths.items():
            if has_endpoint[a] and has_endpoint[b] and rows[a] >= 0:
                assert reached[b, rows[a]] == (path is not None)
        for loop in result.loops:
            assert len(set(loop)) == len(loop) >= 2
    hashed = validate(fabric, route(fabric, "ecmp"))
    single = validate(fabric, route(fabric, "minhop"))
    assert hashed.hops.tolist() == single.hops.tolist()
    assert hashed.num_unrouted_pairs == single.num_unrouted_pairs


def source_routes_of(
    fabric: Fabric, paths: dict[tuple[int, int], list[int] | None], keep: np.ndarray
) -> PathRoutes:
    """Return some of the paths of tables as source routes."""
    kept_paths = [(pair, path) for pair, path in paths.items() if path]
    kept_paths = [pair_path for pair_path, kept in zip(kept_paths, keep, strict=False) if kept]
    ports = [fabric.link_from_port[path].tolist() for _, path in kept_paths]
    offset = np.concatenate(([0], np.cumsum([len(hops) for hops in ports])))
    return source_routes(
        fabric,
        np.array([pair[0] for pair, _ in kept_paths], dtype=np.int64),
        np.array([pair[1] for pair, _ in kept_paths], dtype=np.int64),
        offset.astype(np.int64),
        np.array([port for hops in ports for port in hops], dtype=np.int64),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_source_routes_agree_with_their_paths(seed: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    random = np.random.default_rng(seed)
    every = plain.host_paths(fabric, route(fabric, "minhop"))
    routes = source_routes_of(fabric, every, random.random(len(every)) < 0.7)
    endpoint = fabric.host_endpoint.tolist()
    routed = set(routes.pair.tolist())
    paths = {
        (a, b): path if endpoint[a] * fabric.num_host_endpoints + endpoint[b] in routed else None
        for (a, b), path in every.items()
    }
    expected = plain.loads(fabric, paths)
    assert np.array_equal(quiet_loads(fabric, routes), expected)
    total = all_to_all_loads(fabric, routes)
    assert np.array_equal(total.per_link, expected)
    unrouted = {pair for pair, path in paths.items() if path is None}
    assert total.unrouted == len(unrouted)
    result = validate(fabric, routes)
    assert result.num_unrouted_pairs == len(unrouted)
    assert {tuple(pair) for pair in result.unrouted_pairs.tolist()} == unrouted
    lengths = [len(path) for path in paths.values() if path is not None]
    assert result.hops.tolist() == np.bincount(lengths).tolist()
    complete = validate(fabric, route(fabric, "minhop"))
    assert result.num_disconnected_pairs == complete.num_disconnected_pairs
    assert result.max_detour == 0
    flows = host_flows(fabric, *all_pairs(fabric))
    congestion = contention(fabric, routes, flows)
    for number, path in enumerate(paths.values()):
        assert congestion.hops[number] == (-1 if path is None else len(path))
        if path:
            ratio = expected[path] / fabric.link_rate_gbps[path]
            assert congestion.link[number] in np.asarray(path)[ratio == ratio.max()]
    busiest = np.argsort(expected)[-3:]
    for link, users in zip(busiest, link_users(fabric, routes, flows, busiest), strict=True):
        through = [i for i, path in enumerate(paths.values()) if path and link in path]
        assert sorted(users.tolist()) == through
    assert_users_by_switch(fabric, routes, paths, np.arange(fabric.num_links))
    same = bisection(fabric, source_routes_of(fabric, every, np.ones(len(every))), samples=20)
    assert same.mean == pytest.approx(bisection(fabric, route(fabric, "minhop"), samples=20).mean)


@pytest.mark.parametrize("seed", SEEDS)
def test_source_routes_are_counted_between_first_ports(seed: int) -> None:
    """Walks of any length, some from or to the second port of a host."""
    fabric, routes = path_case(seed)
    best = dict(nx.all_pairs_shortest_path_length(plain.switch_graph(fabric)))
    node_ports, first = plain.destinations(fabric), fabric.host_endpoint.tolist()
    leaf = [
        int(fabric.link_to[plain.out_link(fabric, *place)]) if place[1] else place[0]
        for place in node_ports
    ]
    hops, extra = [], []
    for pair, length in zip(routes.pair.tolist(), np.diff(routes.offset).tolist(), strict=True):
        source, target = divmod(pair, fabric.num_host_endpoints)
        if source in first and target in first:
            hops.append(length + (node_ports[source][1] > 0) + (node_ports[target][1] > 0))
            extra.append(length - best[leaf[source]][leaf[target]])
    result = validate(fabric, routes)
    assert result.hops.tolist() == (np.bincount(hops).tolist() or [0])
    assert result.detours.tolist() == (np.bincount(extra).tolist() or [0])
    assert result.num_unrouted_pairs == fabric.num_hosts * (fabric.num_hosts - 1) - len(hops)
    assert result.num_disconnected_pairs == sum(
        a < 0 or b < 0 or leaf[b] not in best[leaf[a]]
        for i, a in enumerate(first)
        for j, b in enumerate(first)
        if i != j
    )


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", SEEDS)
def test_tables_lowered_from_source_routes_have_the_same_paths(seed: int) -> None:
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
    node_ports = plain.destinations(fabric)
    for path, (key, o) in enumerate(zip(routes.pair.tolist(), offset.tolist(), strict=True)):
        source, destination = divmod(key, fabric.num_host_endpoints)
        lid = (destination << lmc) + o
        links = plain.follow(fabric, tables, node_ports[source], node_ports[destination], lid)
        edges = fabric.graph.edge_of_link[links]
        expected = routes.edge[routes.offset[path] : routes.offset[path + 1]]
        assert edges[edges >= 0].tolist() == expected.tolist()
    result = validate(fabric, tables)
    assert result.num_unrouted_pairs == result.num_disconnected_pairs
    assert (result.num_loops, result.unrouted_rows) == (0, 0)


def test_flows_between_second_ports_count_in_the_deadlock_proof() -> None:
    """First ports are all on one switch; only flows between second ports use the ring."""
    build = FabricBuilder("dual rail")
    (rail,) = build.switches(["rail"])
    ring = build.switches([f"s{i}" for i in range(5)])
    hosts = build.hosts([f"h{i}" for i in range(5)])
    build.connect(np.full(5, rail), hosts)
    build.connect(ring, np.roll(ring, -1))
    build.connect(ring, hosts)
    fabric = build.fabric()
    for engine in ("minhop", "ecmp:max_vls=1"):
        assert len(validate(fabric, route(fabric, engine)).credit_loops) == 2


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("passes", [1, 2, 4])
def test_loads_balance_minimal_paths_pass_by_pass(passes: int, seed: int) -> None:
    # Trees have blocks of rows with the same choices, and passes that change no load.
    tree = ("xgft:2;8,9;1,8", "xgft:3;3,9,5;1,3,4")[seed % 2]
    fabric = random_fabric(seed, others=seed % 3) if seed > 1 else load(tree)
    table = empty_table(fabric)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.routing.engine_registry._lower_peaks", lambda *_: None)
        fill_balanced(fabric, table, passes=passes)
    for target, ports in plain.balanced_lines(fabric, passes).items():
        for row, port in ports.items():
            assert table[target, row] == port


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


def test_equal_split_has_no_contention_of_single_flows() -> None:
    fabric = random_fabric(3)
    routes = route(fabric, "ecmp")
    with pytest.raises(NotApplicable, match="policy"):
        contention(fabric, routes, host_flows(fabric, [0], [1]))
    assert flow_loads(fabric, routes, host_flows(fabric, [], [])).flows == 0
