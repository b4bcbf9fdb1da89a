from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import orders as plain
from tests.reference.routing import random_entries
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.kernels.routing.distances import bfs_many, updown
from weft.kernels.routing.opensm_ranks import EARLY, LATE, LEVEL
from weft.routing import route
from weft.routing.engine_registry import empty_table, fill_counted
from weft.routing.engines.ranked import fill_ranked
from weft.routing.routes import TableRoutes


def up_links(fabric: Fabric, edge_up: np.ndarray) -> dict[int, bool]:
    return dict(zip(fabric.graph.edge_link.tolist(), map(bool, edge_up), strict=True))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(15))
def test_up_down_distances_agree_with_the_definition(seed: int) -> None:
    fabric = random_fabric(seed, switches=10)
    graph = fabric.graph
    random = np.random.default_rng(seed)
    # The order of rows is arbitrary, not from a root, so some may have no legal path.
    rank = random.permutation(graph.num_rows)
    edge_up = (rank[graph.edge_row] < rank[graph.edge_tail]).astype(np.uint8)
    up = up_links(fabric, edge_up)
    sizes = np.bincount(fabric.graph.components)[fabric.graph.components]
    hop_type = _hop_dtype(fabric)
    for goal in range(graph.num_rows):
        hops = np.empty(graph.num_rows, dtype=hop_type)
        down = np.empty(graph.num_rows, dtype=np.uint8)
        queue = np.empty(graph.num_rows, dtype=np.int32)
        count = updown(graph.parts, edge_up, goal, sizes[goal], hops, down, queue)
        result = plain.legal_distances(fabric, up, int(graph.row_node[goal]))
        assert count == len(result)
        for row in queue[:count]:
            assert (hops[row], bool(down[row])) == result[int(graph.row_node[row])]


def _hop_dtype(fabric: Fabric) -> np.dtype:
    """Return the dtype of hops in the package."""
    return fabric.graph.hops().dtype


def with_systems(fabric: Fabric) -> Fabric:
    """Return the fabric with two switches in every other system."""
    number = np.arange(fabric.num_nodes, dtype=np.uint64)
    system = np.where(number % 4 < 2, 1 + number // 4, 0).astype(np.uint64)
    return replace(fabric, system_guid=system)


@pytest.mark.parametrize("lmc", [0, 2])
@pytest.mark.parametrize("seed", range(15))
def test_counting_chooses_as_opensm_does(seed: int, lmc: int) -> None:
    fabric = with_systems(random_fabric(seed))
    routes = route(fabric, "minhop", balance="opensm", lmc=lmc)
    assert isinstance(routes, TableRoutes)
    assert np.array_equal(routes.table, plain.counted_tables(fabric, lmc))
    table, present = random_entries(fabric, lmc, seed)
    fill_counted(fabric, table, lmc)
    assert np.array_equal(table, plain.counted_tables(fabric, lmc, present))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("lmc", [0, 2])
@pytest.mark.parametrize("seed", range(15))
def test_ranked_search_chooses_as_opensm_does(seed: int, lmc: int) -> None:
    fabric = with_systems(random_fabric(seed))
    graph = fabric.graph
    random = np.random.default_rng(seed)
    rank = random.integers(0, 4, graph.num_rows)
    climb = rank[graph.edge_row] - rank[graph.edge_tail]
    step = np.where(climb > 0, EARLY, np.where(climb < 0, LATE, LEVEL)).astype(np.uint8)
    names = {EARLY: "early", LATE: "late", LEVEL: "level"}
    table = empty_table(fabric, lmc)
    fill_ranked(fabric, table, step, lmc)
    again, present = random_entries(fabric, lmc, seed)
    fill_ranked(fabric, again, step, lmc)
    links = graph.edge_link.tolist()
    step_names = {link: names[what] for link, what in zip(links, step.tolist(), strict=True)}
    assert np.array_equal(table, plain.ranked_tables(fabric, step_names, lmc))
    assert np.array_equal(again, plain.ranked_tables(fabric, step_names, lmc, present))


@pytest.mark.parametrize("spec", ["xgft:2;4,4;1,4", "xgft:3;2,3,4;1,2,3", "xgft:3;4,4,3;1,2,2"])
def test_dmodk_follows_the_formula(spec: str) -> None:
    fabric = build(spec)
    routes = route(fabric, "dmodk")
    assert isinstance(routes, TableRoutes)
    for host in range(fabric.num_hosts):
        for switch in range(fabric.num_switches):
            level, parent = plain.dmodk_next(fabric, switch, host)
            port = int(routes.table[host, switch])
            link = int(fabric.port_link[fabric.port_offset[switch] + port - 1])
            following = int(fabric.link_to[link])
            assert fabric.level[following] == level
            if parent is not None:
                # The parent's own digit at this level is its index among the parents.
                assert fabric.coordinates[following][level - 1] == parent


@pytest.mark.parametrize("seed", range(5))
def test_lids_of_one_host_use_different_links(seed: int) -> None:
    """With as many LIDs as paths, every leaf switch uses every path once."""
    fabric = build("xgft:2;4,5;1,4").shuffled(seed)
    routes = route(fabric, "minhop", lmc=2)
    assert isinstance(routes, TableRoutes)
    graph = fabric.graph
    hops = np.empty((graph.num_rows, graph.num_rows), dtype=_hop_dtype(fabric))
    every = np.arange(graph.num_rows, dtype=np.int32)
    bfs_many(graph.edge_offset, graph.edge_row, every, hops)
    for d in range(fabric.num_endpoints):
        goal = graph.destination_row[d]
        for row in np.flatnonzero(hops[goal] == 2):
            if row in graph.destination_row[: fabric.num_endpoints]:
                assert len(set(routes.table[4 * d : 4 * d + 4, row].tolist())) == 4
