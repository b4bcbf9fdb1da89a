from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import phases as plain
from tests.reference import routing as tables
from weft.fabrics import Fabric
from weft.kernels.dependencies import list_dependencies
from weft.kernels.phases import phase_dependencies, spread_demand
from weft.routes import CandidateRoutes
from weft.routing import route
from weft.routing.phases import routed_rows, turn_shares
from weft.routing.sets import SetCollector
from weft.routing.validate import validate
from weft.sim.all_to_all import all_to_all_loads
from weft.sim.bisection import bisection
from weft.sim.intermediates import round_loads
from weft.sim.static import flow_loads, host_flows
from weft.topology import build

SEEDS = range(12)


def by_random_groups(fabric: Fabric, seed: int, *, direct: bool, lanes: int) -> CandidateRoutes:
    """Shortest ways to random groups of rows, then to the target, on random lanes."""
    random = np.random.default_rng(seed)
    rows = fabric.graph.num_rows
    graph = tables.switch_graph(fabric).reverse()
    nodes = np.flatnonzero(fabric.forwards).tolist()
    via = random.integers(-1, 4, rows).astype(np.int32)
    via[random.choice(rows, 4, replace=False)] = np.arange(4)
    sets = SetCollector(fabric)
    goals = [np.flatnonzero(via == v).tolist() for v in range(4)] + [[row] for row in range(rows)]
    for number, goal in enumerate(goals):
        far = nx.multi_source_dijkstra_path_length(graph, [nodes[row] for row in goal], weight=None)
        hops = np.array([far.get(node, 99) for node in nodes])
        nearer = hops[fabric.graph.edge_row] + 1 == hops[fabric.graph.edge_tail]
        lane = random.integers(0, lanes, len(nearer)) if lanes > 1 else int(number >= 4)
        sets.add(np.where(nearer & (hops[fabric.graph.edge_tail] < 99), lane, -1).astype(np.int8))
    number, offset, edge, lane = sets.collect()
    return CandidateRoutes(
        "twin", fabric.digest, set_id=number[4:].copy(), set_offset=offset, set_edge=edge,
        set_lane=lane, via=via, via_set=number[:4].copy(), direct=direct,
    )  # fmt: skip


def host_pairs(fabric: Fabric) -> list[tuple[int, int, int, int]]:
    """Host pairs with the rows of their first ports, -1 for none."""
    row = [
        int(fabric.graph.destination_row[end]) if end >= 0 else -1
        for end in fabric.host_endpoint.tolist()
    ]
    hosts = range(fabric.num_hosts)
    return [(a, b, row[a], row[b]) for a in hosts for b in hosts if a != b]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_loads_and_lengths_are_those_of_all_ways(seed: int, direct: bool) -> None:
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=direct, lanes=1)
    total = all_to_all_loads(fabric, routes)
    expected = np.zeros(fabric.num_links)
    lost = 0
    hops: dict[int, float] = {}
    longest = 0
    share = 0.0 if np.isnan(total.straight) else total.straight
    out = [int(link) ^ 1 for link in fabric.graph.destination_link]
    for a, b, source, target in host_pairs(fabric):
        found = None
        if source >= 0 and target >= 0:
            found = plain.pair_ways(fabric, routes, source, target, straight=share)
        if found is None:
            lost += 1
            continue
        ends = fabric.host_endpoint[[a, b]]
        cables = fabric.graph.destination_link[ends] >= 0
        if cables[0]:
            expected[out[ends[0]]] += 1
        if cables[1]:
            expected[fabric.graph.destination_link[ends[1]]] += 1
        for way, chance in found:
            longest = max(longest, len(way) + int(cables.sum()))
            for edge, _ in way:
                expected[fabric.graph.edge_link[edge]] += chance
        if plain.goes_round(routes, source, target) and direct:
            found = plain.straight_ways(fabric, routes, source, target) or []
        for way, chance in found:
            length = len(way) + int(cables.sum())
            hops[length] = hops.get(length, 0.0) + chance
    assert total.unrouted == lost
    np.testing.assert_allclose(total.per_link, expected, atol=1e-9)
    sources, destinations, *_ = np.array(host_pairs(fabric)).T
    flows = host_flows(fabric, sources, destinations)
    listed = flow_loads(fabric, routes, flows)
    assert listed.unrouted == lost
    np.testing.assert_allclose(listed.per_link, expected, atol=1e-9)
    found = validate(fabric, routes)
    assert found.num_unrouted_pairs == lost == len(found.unrouted_pairs)
    assert found.max_hops == longest
    np.testing.assert_allclose(
        found.hops, [hops.get(length, 0.0) for length in range(len(found.hops))], atol=1e-9
    )
    assert found.detours.sum() == pytest.approx(found.hops.sum())
    assert 0 <= bisection(fabric, routes, samples=3).mean <= 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lanes", [1, 3])
def test_no_dependency_of_any_way_is_missed(seed: int, lanes: int) -> None:
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=bool(seed % 2), lanes=lanes)
    rows = np.unique(fabric.graph.destination_row[: fabric.num_host_endpoints])
    expected = plain.dependency_graph(fabric, routes, rows[rows >= 0].tolist())
    graph = fabric.graph
    vls = routes.num_vls
    degree = np.diff(graph.edge_offset)[graph.edge_row].astype(np.int64)
    first_bit = np.concatenate(([0], np.cumsum(degree * vls * vls)))
    bits = np.zeros(int(first_bit[-1] >> 3) + 1, dtype=np.uint8)
    used = np.zeros(len(degree) * vls, dtype=np.uint8)
    sources = rows[rows >= 0].astype(np.int32)
    phase_dependencies(
        routes.set_id, routes.set_offset, routes.set_edge, routes.set_lane, routes.via,
        routes.via_set, routes.direct, graph.edge_offset, graph.edge_row, sources, 0, vls,
        first_bit, bits, used,
    )  # fmt: skip
    tails = np.empty(len(used) * 64, dtype=np.int32)
    heads = np.empty(len(used) * 64, dtype=np.int32)
    count = list_dependencies(
        graph.edge_offset, graph.edge_row, vls, first_bit, bits, used, tails, heads
    )
    found = {
        (divmod(int(a), vls), divmod(int(b), vls))
        for a, b in zip(tails[:count], heads[:count], strict=True)
    }
    if all(plain.pair_ways(fabric, routes, a, b) for a in sources for b in sources if a != b):
        assert set(expected.edges) <= found
    knots = [part for part in nx.strongly_connected_components(expected) if len(part) > 1]
    assert bool(validate(fabric, routes).credit_loops) >= bool(knots)


@pytest.mark.parametrize("seed", SEEDS)
def test_straight_share_is_the_best_of_all(seed: int) -> None:
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=True, lanes=1)
    random = np.random.default_rng(seed)
    rows = fabric.graph.num_rows
    demand = random.integers(0, 4, (rows, rows)) * routed_rows(fabric, routes)
    np.fill_diagonal(demand, 0)
    rate = fabric.link_rate_gbps[fabric.graph.edge_link]
    loads, share = round_loads(fabric, routes, demand.astype(np.float64))
    if np.isnan(share):
        return
    about, _ = round_loads(fabric, replace(routes, direct=False), demand.astype(np.float64))
    straight = np.zeros(len(rate))
    spread_demand(
        routes.set_id, demand.astype(np.float64), routes.set_offset, routes.set_edge,
        fabric.graph.edge_row, straight,
    )  # fmt: skip
    np.testing.assert_allclose(loads, share * straight + (1 - share) * about)
    worst = [float(((x * straight + (1 - x) * about) / rate).max()) for x in np.linspace(0, 1, 501)]
    assert (loads / rate).max() <= min(worst) + 1e-12
    further = min(share + 1e-3, 1.0)
    if further > share:
        there = ((further * straight + (1 - further) * about) / rate).max()
        assert there > (loads / rate).max() - 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_turns_add_up(seed: int) -> None:
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=False, lanes=1)
    shares = turn_shares(fabric, routes)
    for source in range(fabric.graph.num_rows):
        for v in range(4):
            ends = dict.fromkeys(range(fabric.graph.num_rows), 0.0)
            if routes.via[source] != v:
                for way, chance in plain.ways(fabric, routes, routes.via_set[v], source):
                    turn = plain.end(fabric, way, source)
                    ends[turn] += chance * (routes.via[turn] == v)
            for row in np.flatnonzero(routes.via == v).tolist():
                assert shares[source, row] == pytest.approx(ends[row])


@pytest.mark.parametrize(
    "spec", ["dragonfly:p=1,a=3,h=1", "megafly:p=1,leaves=2,spines=2,h=1", "hyperx:3x2;1;1"]
)
@pytest.mark.parametrize("name", ["valiant", "ugal"])
def test_engines_wait_in_no_circle_way_by_way(name: str, spec: str) -> None:
    fabric = build(spec)
    routes = route(fabric, name)
    assert isinstance(routes, CandidateRoutes)
    rows = np.unique(fabric.graph.destination_row[: fabric.num_host_endpoints])
    graph = plain.dependency_graph(fabric, routes, rows.tolist())
    assert nx.is_directed_acyclic_graph(graph)
    one_lane = replace(routes, set_lane=np.zeros(0, dtype=np.uint8))
    cyclic = plain.dependency_graph(fabric, one_lane, rows.tolist())
    assert not nx.is_directed_acyclic_graph(cyclic)
    assert validate(fabric, one_lane).credit_loops
