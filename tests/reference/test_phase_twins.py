from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import phases as plain
from tests.reference import routing as tables
from tests.reference.dependencies import dependency_graph
from tests.reference.phases import by_random_groups
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.kernels.routes.intermediates import spread_demand
from weft.routing import route
from weft.routing.routes import CandidateRoutes
from weft.routing.routes.intermediates import arrival_shares, routed_rows
from weft.routing.validation.validate import validate
from weft.sim.flow.network import carried_bytes, lay_routes
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.effective_bisection import bisection
from weft.sim.static.loads import flow_loads, host_flows, round_loads

SEEDS = range(12)


def host_pairs(fabric: Fabric) -> list[tuple[int, int, int, int]]:
    """Return host pairs with the rows of their first ports, -1 for none."""
    row = [
        int(fabric.graph.destination_row[end]) if end >= 0 else -1
        for end in fabric.host_endpoint.tolist()
    ]
    hosts = range(fabric.num_hosts)
    return [(a, b, row[a], row[b]) for a in hosts for b in hosts if a != b]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_loads_and_lengths_agree_with_all_paths(seed: int, direct: bool) -> None:
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=direct, lanes=1)
    total = all_to_all_loads(fabric, routes)
    expected = np.zeros(fabric.num_links)
    unrouted = set()
    hops: dict[int, float] = {}
    longest = 0
    share = 0.0 if np.isnan(total.minimal_share) else total.minimal_share
    out = [int(link) ^ 1 for link in fabric.graph.destination_link]
    for a, b, source, target in host_pairs(fabric):
        result = None
        if source >= 0 and target >= 0:
            result = plain.pair_paths(fabric, routes, source, target, minimal_share=share)
        if result is None:
            unrouted.add((a, b))
            continue
        ends = fabric.host_endpoint[[a, b]]
        cables = fabric.graph.destination_link[ends] >= 0
        if cables[0]:
            expected[out[ends[0]]] += 1
        if cables[1]:
            expected[fabric.graph.destination_link[ends[1]]] += 1
        for path, chance in result:
            longest = max(longest, len(path) + int(cables.sum()))
            for edge, _ in path:
                expected[fabric.graph.edge_link[edge]] += chance
        if plain.uses_intermediate(routes, source, target) and direct:
            result = plain.minimal_paths(fabric, routes, source, target) or []
        for path, chance in result:
            length = len(path) + int(cables.sum())
            hops[length] = hops.get(length, 0.0) + chance
    assert total.unrouted == len(unrouted)
    np.testing.assert_allclose(total.per_link, expected, atol=1e-9)
    sources, destinations, *_ = np.array(host_pairs(fabric)).T
    flows = host_flows(fabric, sources, destinations)
    listed = flow_loads(fabric, routes, flows)
    assert listed.unrouted == len(unrouted)
    np.testing.assert_allclose(listed.per_link, expected, atol=1e-9)
    result = validate(fabric, routes)
    assert result.num_unrouted_pairs == len(unrouted)
    assert {tuple(pair) for pair in result.unrouted_pairs.tolist()} == unrouted
    assert result.max_hops == longest
    every = range(fabric.graph.num_rows)
    cabled = dict(nx.all_pairs_shortest_path_length(tables.switch_graph(fabric)))
    nodes = np.flatnonzero(fabric.forwards).tolist()
    assert result.unrouted_rows == sum(
        nodes[b] in cabled[nodes[a]] and plain.pair_paths(fabric, routes, a, b) is None
        for a in every
        for b in every
        if a != b
    )
    np.testing.assert_allclose(
        result.hops, [hops.get(length, 0.0) for length in range(len(result.hops))], atol=1e-9
    )
    assert result.detours.sum() == pytest.approx(result.hops.sum())
    assert 0 <= bisection(fabric, routes, samples=3).mean <= 1


def routed_pairs(
    fabric: Fabric, routes: CandidateRoutes
) -> list[tuple[int, int, list[plain.WeightedPath], list[plain.WeightedPath]]]:
    """Return pairs of hosts with all their paths, and with their direct paths."""
    pairs = []
    for a, b, source, target in host_pairs(fabric):
        if source >= 0 and target >= 0:
            result = plain.pair_paths(fabric, routes, source, target)
            if result is not None:
                minimal = plain.minimal_paths(fabric, routes, source, target)
                pairs.append((a, b, result, minimal or []))
    return pairs


def links_of(fabric: Fabric, a: int, b: int, path: tuple[tuple[int, int], ...]) -> list[int]:
    """Return the directed links of a path of edges between two hosts."""
    link = fabric.graph.destination_link[fabric.host_endpoint[[a, b]]]
    first = [int(link[0]) ^ 1] if link[0] >= 0 else []
    last = [int(link[1])] if link[1] >= 0 else []
    return [*first, *(int(fabric.graph.edge_link[edge]) for edge, _ in path), *last]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_messages_are_split_by_the_probabilities_of_paths(seed: int, direct: bool) -> None:
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=direct, lanes=1)
    pairs = routed_pairs(fabric, routes)
    if not pairs:
        return
    sources, destinations = np.array([pair[:2] for pair in pairs]).T
    minimal_share = 0.3
    layout = lay_routes(
        fabric, routes, sources, destinations, minimal_share=minimal_share, switch_latency_ns=7.0
    )
    assert np.isnan(layout.minimal_share) != direct
    row = fabric.graph.destination_row[fabric.host_endpoint]
    for number, (a, b, indirect, minimal) in enumerate(pairs):
        mixed = [(path, chance) for path, chance in indirect]
        if direct and plain.uses_intermediate(routes, row[a], row[b]):
            mixed = [(path, chance * (1 - minimal_share)) for path, chance in indirect]
            mixed += [(path, chance * minimal_share) for path, chance in minimal]
        expected: dict[int, float] = {}
        latency = 0.0
        for path, chance in mixed:
            links = links_of(fabric, a, b, path)
            latency += chance * (fabric.cable_latency_ns[np.array(links) >> 1].sum() - 7.0)
            latency += chance * 7.0 * len(links)
            for link in links:
                expected[link] = expected.get(link, 0.0) + chance
        run = slice(layout.route_offset[number], layout.route_offset[number + 1])
        share = (
            layout.route_share[run] if len(layout.route_share) else np.ones(run.stop - run.start)
        )
        result = dict(zip(layout.route_link[run].tolist(), share.tolist(), strict=True))
        assert len(result) == run.stop - run.start
        assert result == pytest.approx({link: part for link, part in expected.items() if part > 0})
        assert layout.route_latency_ns[number] == pytest.approx(latency)


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_and_flows_give_the_same_loads(seed: int) -> None:
    """Both levels send the same share of weighted traffic directly, over the same links."""
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=True, lanes=1)
    pairs = routed_pairs(fabric, routes)
    if not pairs:
        return
    sources, destinations = np.array([pair[:2] for pair in pairs]).T
    size = np.random.default_rng(seed).integers(1, 9, len(pairs)).astype(np.float64)
    layout = lay_routes(fabric, routes, sources, destinations, weights=size)
    loads = flow_loads(fabric, routes, host_flows(fabric, sources, destinations, weights=size))
    assert layout.minimal_share == pytest.approx(loads.minimal_share, nan_ok=True)
    carried = carried_bytes(layout, np.arange(len(pairs)), size)
    np.testing.assert_allclose(carried, loads.per_link, atol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_hashed_message_takes_one_of_the_paths(seed: int, direct: bool) -> None:
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=direct, lanes=1)
    for a, b, indirect, minimal in routed_pairs(fabric, routes)[:20]:
        for share, paths in ((0.0, indirect), (1.0, minimal)):
            layout = lay_routes(
                fabric, routes, [a] * 40, [b] * 40, multipath="hash", minimal_share=share, seed=seed
            )
            allowed = {
                tuple(links_of(fabric, a, b, path)) for path, _ in (paths if direct else indirect)
            }
            taken = {
                tuple(run.tolist())
                for run in np.split(layout.route_link, layout.route_offset[1:-1])
            }
            assert taken <= allowed
            # Of 40 draws among four intermediates and their paths, not all are the same.
            assert len(taken) > 1 or len(allowed) == 1 or max(p for _, p in paths) > 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_the_share_of_direct_traffic_minimises_the_largest_load(seed: int) -> None:
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
    indirect, _ = round_loads(fabric, replace(routes, direct=False), demand.astype(np.float64))
    minimal = np.zeros(len(rate))
    spread_demand(
        routes.set_id, demand.astype(np.float64), routes.set_offset, routes.set_edge,
        fabric.graph.edge_row, minimal,
    )  # fmt: skip
    np.testing.assert_allclose(loads, share * minimal + (1 - share) * indirect)
    worst = [
        float(((x * minimal + (1 - x) * indirect) / rate).max()) for x in np.linspace(0, 1, 501)
    ]
    assert (loads / rate).max() <= min(worst) + 1e-12
    further = min(share + 1e-3, 1.0)
    if further > share:
        load_beyond = ((further * minimal + (1 - further) * indirect) / rate).max()
        assert load_beyond > (loads / rate).max() - 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_shares_of_intermediate_rows_add_up(seed: int) -> None:
    fabric = random_fabric(seed, switches=7)
    routes = by_random_groups(fabric, seed, direct=False, lanes=1)
    shares = arrival_shares(fabric, routes)
    for source in range(fabric.graph.num_rows):
        for v in range(4):
            ends = dict.fromkeys(range(fabric.graph.num_rows), 0.0)
            if routes.via[source] != v:
                for path, chance in plain.weighted_paths(fabric, routes, routes.via_set[v], source):
                    last_row = plain.end(fabric, path, source)
                    ends[last_row] += chance * (routes.via[last_row] == v)
            for row in np.flatnonzero(routes.via == v).tolist():
                assert shares[source, row] == pytest.approx(ends[row])


@pytest.mark.parametrize(
    "spec", ["dragonfly:p=1,a=3,h=1", "megafly:p=1,leaves=2,spines=2,h=1", "hyperx:3x2;1;1"]
)
@pytest.mark.parametrize("name", ["valiant", "ugal"])
def test_engines_are_free_of_credit_loops_path_by_path(name: str, spec: str) -> None:
    fabric = build(spec)
    routes = route(fabric, name)
    assert isinstance(routes, CandidateRoutes)
    graph = dependency_graph(fabric, routes)
    assert nx.is_directed_acyclic_graph(graph)
    one_lane = replace(routes, set_lane=np.zeros(0, dtype=np.uint8))
    cyclic = dependency_graph(fabric, one_lane)
    assert not nx.is_directed_acyclic_graph(cyclic)
    assert validate(fabric, one_lane).credit_loops
