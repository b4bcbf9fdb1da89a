from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import dor as plain
from tests.reference.routing import random_entries, switch_graph
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.engines.dor import _factors, dor_in_place
from weft.routing.routes import TableRoutes


@pytest.mark.parametrize("lmc", [0, 2])
@pytest.mark.parametrize("seed", range(15))
def test_dimension_order_by_ports(seed: int, lmc: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    routes = route(fabric, "dor", lmc=lmc)
    assert isinstance(routes, TableRoutes)
    assert np.array_equal(routes.table, plain.tables(fabric, lmc, None))
    table, present = random_entries(fabric, lmc, seed)
    again = dor_in_place(fabric, table, "ports", (), lmc)
    assert np.array_equal(again.table, plain.tables(fabric, lmc, None, present))


def product(seed: int) -> Fabric:
    """Build a random product of two or three small connected graphs, with parallel cables."""
    random = np.random.default_rng(seed)
    graphs = []
    for _ in range(random.integers(2, 4)):
        size = int(random.integers(2, 5))
        part = nx.gnp_random_graph(size, 0.6, seed=seed + size)
        nx.add_path(part, range(size))
        graphs.append(part)
    graph_product = graphs[0]
    for part in graphs[1:]:
        graph_product = nx.cartesian_product(graph_product, part)
    build = FabricBuilder(f"product {seed}")
    nodes = dict(
        zip(
            graph_product, build.switches([f"s{i}" for i in range(len(graph_product))]), strict=True
        )
    )
    for a, b in graph_product.edges:
        build.connect([nodes[a]], [nodes[b]], cables=int(random.integers(1, 3)))
    build.connect(list(nodes.values()), build.hosts([f"h{i}" for i in range(len(nodes))]))
    return build.fabric().shuffled(seed)


@pytest.mark.parametrize("seed", range(12))
def test_factors_of_products_and_their_tables_agree_with_the_reference(seed: int) -> None:
    fabric = product(seed)
    classes = plain.factors(nx.Graph(switch_graph(fabric)))
    key, _ = _factors(fabric)
    graph = fabric.graph
    dimension = {}
    for number, (tail, head) in enumerate(zip(graph.edge_tail, graph.edge_row, strict=True)):
        dimension[frozenset((int(tail), int(head)))] = int(key[number])
    result: dict[int, set[frozenset[int]]] = {}
    for edge, number in dimension.items():
        result.setdefault(number, set()).add(edge)
    assert {frozenset(edges) for edges in result.values()} == set(map(frozenset, classes))
    routes = route(fabric, "dor", dimensions="wiring", lmc=seed % 2)
    assert isinstance(routes, TableRoutes)
    assert np.array_equal(routes.table, plain.tables(fabric, seed % 2, dimension))


@pytest.mark.parametrize("seed", range(10))
def test_a_fabric_that_is_not_a_product_is_rejected(seed: int) -> None:
    fabric = load(f"jellyfish:switches=10,degree=3,hosts=1,seed={seed}")
    classes = plain.factors(nx.Graph(switch_graph(fabric)))
    if len(classes) > 1:
        route(fabric, "dor", dimensions="wiring")
        return
    with pytest.raises(NotApplicable, match="not form a product of dimensions"):
        route(fabric, "dor", dimensions="wiring")
