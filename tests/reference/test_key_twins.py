"""Kernels of routing keys against definitions: colourings, and the best of all assignments."""

from __future__ import annotations

from itertools import permutations, product

import networkx as nx
import numpy as np
import pytest
import rustworkx as rx
from scipy.optimize import linear_sum_assignment

import weft
from weft.kernels.hashing import splitmix64
from weft.kernels.keys.assignment import (
    FORBIDDEN,
    add_flows,
    assign,
    best_alternative,
    best_planes,
    columns_of,
    first_fit,
    least_limit,
    load_index,
    shifted_planes,
)
from weft.kernels.keys.colouring import colour_edges
from weft.sim.keys import RoutingKey, keys
from weft.sim.keys.network import key_network
from weft.sim.keys.routing_key import HOST_RATE


def random_graph(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the edges of a small bipartite multigraph."""
    left, right, edges = random.integers(1, 12, 3) * (1, 1, 6)
    return (
        random.integers(0, left, edges).astype(np.int32),
        random.integers(0, right, edges).astype(np.int32),
    )


@pytest.mark.parametrize("seed", range(30))
def test_colours_of_a_vertex_are_as_even_as_possible(seed: int) -> None:
    random = np.random.default_rng(seed)
    for case in range(40):
        ends = random_graph(random)
        degree = max(np.bincount(each).max() for each in ends)
        colours = int(degree) if case % 2 else int(random.integers(1, 20))
        colour = colour_edges(*ends, colours, np.uint64(case))
        assert set(colour.tolist()) <= set(range(colours))
        for each in ends:
            count = np.zeros((each.max() + 1, colours), dtype=int)
            np.add.at(count, (each, colour), 1)
            assert np.all(count.max(axis=1) <= -(-count.sum(axis=1) // colours))


def test_colours_are_as_few_as_those_of_rustworkx() -> None:
    random = np.random.default_rng(4)
    for _ in range(300):
        left, right = random_graph(random)
        graph = rx.PyGraph(multigraph=True)
        graph.add_nodes_from(range(24))
        graph.add_edges_from_no_data(list(zip(left.tolist(), (right + 12).tolist(), strict=True)))
        theirs = len(set(rx.graph_bipartite_edge_color(graph).values()))
        assert len(set(colour_edges(left, right, theirs, np.uint64(0)).tolist())) == theirs
        assert theirs == max(np.bincount(each).max() for each in (left, right))


def test_regular_graphs_need_every_colour_at_every_vertex() -> None:
    """König's theorem with equality: each colour is a perfect matching."""
    random = np.random.default_rng(1)
    for degree in (1, 2, 3, 5, 6, 7, 12, 31):
        left = np.repeat(np.arange(9, dtype=np.int32), degree)
        right = np.concatenate([random.permutation(9) for _ in range(degree)]).astype(np.int32)
        order = np.argsort(np.tile(np.arange(9), degree), kind="stable")
        colour = colour_edges(left, right[order], degree, np.uint64(0))
        for number in range(degree):
            graph = nx.Graph(
                (("s", int(u)), ("d", int(v)))
                for u, v in zip(left[colour == number], right[order][colour == number], strict=True)
            )
            assert nx.is_perfect_matching(graph, set(graph.edges))
            assert len(graph) == 18


def test_linear_assignments_are_optimal() -> None:
    random = np.random.default_rng(2)
    columns = np.zeros(9, dtype=np.int64)
    for _ in range(500):
        rows = int(random.integers(1, 9))
        width = int(random.integers(rows, 10))
        cost = random.integers(0, 9, (rows, width)).astype(float)
        total = assign(cost, rows, width, columns)
        assert total == cost[linear_sum_assignment(cost)].sum()
        assert len(set(columns[:rows].tolist())) == rows


def all_assignments(key: RoutingKey) -> list[np.ndarray]:
    """Return the columns of a key's flows for every assignment of groups to planes."""
    network, groups = key.network, key.groups
    stages = network.stages
    parents = []
    for stage, planes in enumerate(stages.planes.tolist()):
        for parent in range(int(stages.prefixes[stage])):
            first = int(stages.group_base[stage]) + parent * planes
            used = [
                g for g in range(first, first + planes) if groups.offset[g] < groups.offset[g + 1]
            ]
            if used:
                parents.append((used, list(permutations(range(planes), len(used)))))
    listed = []
    for chosen in product(*(orders for _, orders in parents)):
        plane = np.full(network.num_groups, -1, dtype=np.int32)
        for (used, _), order in zip(parents, chosen, strict=True):
            plane[used] = order
        column = np.empty_like(key.column)
        columns_of(stages, key.group, key.cable, plane, column)
        listed.append(column)
    return listed


def chosen(key: RoutingKey, plane: np.ndarray, loads: np.ndarray, totals: list[np.ndarray]) -> int:
    """Return the index in `totals` of the loads that result if the groups get these planes."""
    column = np.empty_like(key.column)
    assert columns_of(key.network.stages, key.group, key.cable, plane, column)
    total = loads_with(key, column, loads)
    return next(at for at, each in enumerate(totals) if np.array_equal(each, total))


def loads_with(key: RoutingKey, column: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """Return the loads of the network after adding a key."""
    total = loads.copy()
    add_flows(key.network.stages, *key.subtrees, key.depth, column, 1, total)
    return total


@pytest.mark.sampled(2)
@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0, 1.0, 2.0), (1.0,) * 9 + (0.5, -1.0)])
@pytest.mark.parametrize("spec", ["xgft:2;3,4;1,3", "xgft:3;2,2,3;1,2,2", "xgft:2;3,3;1,4"])
def test_optimum_is_the_best_of_all_assignments_and_the_shift_is_not_better(
    spec: str, weights: tuple[float, ...]
) -> None:
    fabric = weft.fabric(spec)
    random = np.random.default_rng(3)
    possible = 0
    plane = np.empty(key_network(fabric).num_groups, dtype=np.int32)
    for _ in range(12):
        hosts = random.permutation(fabric.num_hosts)
        flows = int(random.integers(1, fabric.num_hosts // 2 + 1))
        key = keys(fabric, hosts[:flows], hosts[flows : 2 * flows])
        network, groups = key.network, key.groups
        loads = random.integers(0, 4, len(network.edge)).astype(np.int32)
        weight = random.choice(weights, len(loads))
        allowed = [
            total
            for total in (loads_with(key, column, loads) for column in all_assignments(key))
            if (weight[total != loads] >= 0).all()
        ]
        square = float(((loads * weight) ** 2).sum())
        squares = [float(((total * weight) ** 2).sum()) - square for total in allowed]
        maxima = [float((total * weight)[total != loads].max(initial=0)) for total in allowed]
        common = (network.stages, groups, loads, weight)
        increase, worst, lowest, _ = best_planes(*common, np.inf, plane)
        limit = least_limit(*common, plane)
        if not allowed:
            assert increase >= FORBIDDEN
            assert worst == limit == np.inf
            continue
        possible += 1
        assert lowest <= limit == min(maxima)
        at_limit = [each for each, most in zip(squares, maxima, strict=True) if most == limit]
        at = chosen(key, plane, loads, allowed)
        assert (maxima[at], squares[at]) == (limit, min(at_limit))
        assert best_planes(*common, np.inf, plane)[:2] == (increase, worst)
        at = chosen(key, plane, loads, allowed)
        assert (maxima[at], squares[at]) == (worst, increase) == (worst, min(squares))
        for by_maximum in (False, True):
            if shifted_planes(*common, by_maximum, plane):
                at = chosen(key, plane, loads, allowed)
                assert squares[at] >= increase
                assert maxima[at] >= limit
    assert possible >= 4


def cables(key: RoutingKey, flow: int, columns: tuple[int, ...]) -> list[int]:
    """Return the indices of the loads on a path of a flow."""
    stages, used, prefix = key.network.stages, [], 0
    for stage, column in enumerate(columns):
        for side in range(2):
            subtree = key.subtrees[side][flow, stage]
            used.append(int(load_index(stages, stage, side, subtree, prefix, column)))
        prefix = prefix * int(stages.planes[stage]) + column % int(stages.planes[stage])
    return used


def first_path(key: RoutingKey, flow: int, reserved: np.ndarray, limit: float, pair: int) -> tuple:
    """Return columns and load indices of the first path of a flow with room; () if none."""
    stages = key.network.stages
    orders = []
    for stage in range(key.depth[flow]):
        width = int(stages.planes[stage] * stages.parallel[stage])
        begin = 0
        if pair >= 0:
            begin = int(splitmix64(np.uint64(int(splitmix64(pair)) + stage))) % width
        orders.append([(begin + at) % width for at in range(width)])
    for columns in product(*orders):
        used = cables(key, flow, columns)
        weight = key.network.weight[used]
        if (weight >= 0).all() and ((reserved[used] + key.demand[flow]) * weight <= limit).all():
            return columns, used
    return ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("spec", ["xgft:2;4,4;1,4", "xgft:3;3,2,3;1,2,3", "xgft:2;4,4;1,2;1,2"])
def test_first_fit_takes_the_first_path_with_room_or_a_hashed_one(spec: str) -> None:
    whole = weft.fabric(spec)
    slow = whole.degraded(np.flatnonzero(whole.link_kind[::2] == 0)[:3], 50.0)
    random = np.random.default_rng(11)
    hashed = 0
    for fabric in (whole, slow, whole.with_faults(cables=1, seed=1)):
        for _ in range(10):
            ends = random.integers(0, fabric.num_hosts, (2, int(random.integers(1, 20))))
            key = keys(fabric, *ends)
            limit = HOST_RATE * (1 + 1e-9)
            reserved = random.integers(0, HOST_RATE // 2, len(key.network.edge))
            expected, column = reserved.copy(), np.full(key.column.shape, -1, dtype=np.int32)
            pair = random.integers(0, 2**40, len(ends[0]))
            found = first_fit(
                key.network.stages, reserved, key.network.weight, *key.subtrees, key.depth,
                key.demand, limit, pair, column,
            )  # fmt: skip
            lost = 0
            for flow in np.flatnonzero(key.depth).tolist():
                fit = first_path(key, flow, expected, limit, -1)
                lost += not fit
                columns, used = fit or first_path(key, flow, expected, np.inf, int(pair[flow]))
                expected[used] += key.demand[flow]
                assert tuple(column[flow, : key.depth[flow]].tolist()) == columns
            assert np.array_equal(reserved, expected)
            assert found == lost
            hashed += lost
    assert hashed > 50


@pytest.mark.parametrize("seed", range(30))
def test_the_best_alternative_agrees_with_a_plain_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    links, count = 12, int(random.integers(1, 6))
    weight = random.choice([0.5, 1.0, 2.0], links)
    loads = random.integers(0, 4, links).astype(np.int32)
    uses = [random.choice(links, int(random.integers(0, 7)), replace=False) for _ in range(count)]
    flows = [random.integers(1, 4, len(each)) for each in uses]
    start = np.cumsum([0, *map(len, uses)]).astype(np.int64)
    joined = [np.concatenate(each).astype(np.int32) for each in (uses, flows)]
    for by_maximum in (True, False):
        scores = []
        for each, number in zip(uses, flows, strict=True):
            after = loads.astype(float)
            after[each] += number
            largest = max((after * weight)[each], default=0.0) if by_maximum else 0.0
            scores.append((largest, float(((after * weight) ** 2).sum())))
        found = best_alternative(start, *joined, loads, weight, by_maximum)
        least = min(scores)
        assert scores[found] == pytest.approx(least)
        assert all(score > least for score in scores[:found])
