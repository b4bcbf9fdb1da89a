"""nue: deadlock-free routes on every fabric with any number of lanes."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from tests.random_fabrics import random_fabric
from tests.reference.routing import host_paths

from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.engines.nue import _Attempt, _Problem
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads


def nue(fabric: Fabric, **options: object) -> TableRoutes:
    routes = route(fabric, "nue", **options)
    assert isinstance(routes, TableRoutes)
    return routes


def ring(switches: int) -> Fabric:
    build = FabricBuilder(f"ring of {switches}")
    nodes = build.switches([f"s{i}" for i in range(switches)])
    build.connect(nodes, [*nodes[1:], nodes[0]])
    build.connect(build.hosts([f"h{i}" for i in range(switches)]), nodes)
    return build.fabric()


def dependencies(fabric: Fabric, routes: TableRoutes) -> nx.DiGraph:
    """Return the dependencies of (link, lane) channels along the paths of all pairs of hosts."""
    graph = nx.DiGraph()
    for (_, target), path in host_paths(fabric, routes).items():
        assert path is not None
        lid = int(fabric.host_endpoint[target])
        lane = int(routes.sl[lid]) if routes.sl.ndim else 0
        channels = [(link, lane) for link in path]
        nx.add_path(graph, channels)
    return graph


def test_one_lane_on_a_ring_of_five_omits_one_dependency_per_direction() -> None:
    fabric = ring(5)
    routes = nue(fabric, max_vls=1)
    report = validate(fabric, routes)
    assert report.ok
    assert routes.num_vls == 1
    assert nx.is_directed_acyclic_graph(dependencies(fabric, routes))
    # Each of the two cycles of five channels must omit one dependency. One of 20 pairs per cycle
    # then takes the other direction, with three links between switches instead of two.
    assert report.detours.tolist() == [18, 2]


def test_two_lanes_on_a_ring_of_five_allow_minimal_paths() -> None:
    fabric = ring(5)
    routes = nue(fabric, max_vls=2)
    assert validate(fabric, routes).ok
    assert routes.num_vls == 2
    assert nx.is_directed_acyclic_graph(dependencies(fabric, routes))
    assert validate(fabric, routes).minimal_share == 1


@pytest.mark.parametrize(
    "spec", ["xgft:2;4,4;1,4", "xgft:3;3,3,3;1,3,3", "mesh:4x4", "hypercube:4", "kns:k=4,n=2"]
)
def test_one_lane_is_used_if_it_allows_minimal_paths(spec: str) -> None:
    fabric = load(spec)
    routes = nue(fabric)
    report = validate(fabric, routes)
    assert report.ok
    assert report.minimal_share == 1
    assert routes.num_vls == 1


def test_a_complete_fat_tree_is_balanced_for_any_order_of_its_nodes() -> None:
    for fabric in (load("xgft:3;4,4,4;1,4,4"), load("xgft:3;4,4,4;1,4,4").shuffled(5)):
        loads = all_to_all_loads(fabric, nue(fabric)).per_link[fabric.link_kind == 0]
        # The 4 hosts of a leaf switch send to 60 other hosts over 4 cables.
        assert loads.max() == 60


@pytest.mark.sampled(14)
@pytest.mark.parametrize("max_vls", [1, 2, 8])
@pytest.mark.parametrize("seed", range(12))
def test_routes_of_random_fabrics_are_complete_and_acyclic(seed: int, max_vls: int) -> None:
    fabric = random_fabric(seed, switches=14, hosts=18, others=2)
    for options in ({}, {"management": True}):
        routes = nue(fabric, max_vls=max_vls, **options)
        report = validate(fabric, routes, management=bool(options))
        assert report.ok_where_connected, report.text()
        assert report.unrouted_rows == 0
        assert routes.num_vls <= max_vls


@pytest.mark.parametrize("spec", ["torus:5x5", "xgft:3;4,4,4;1,4,4", "dragonfly:a=4,h=2,p=2"])
def test_one_lane_suffices_for_hosts_and_switches_of_faulty_fabrics(spec: str) -> None:
    fabric = load(spec).with_faults(cables=5, switches=1, seed=3)
    report = validate(fabric, nue(fabric, max_vls=1, management=True), management=True)
    assert report.ok_where_connected
    assert report.unrouted_rows == 0


def test_more_lanes_give_no_longer_paths() -> None:
    fabric = load("jellyfish:switches=40,degree=4,seed=3")
    reports = [validate(fabric, nue(fabric, max_vls=lanes)) for lanes in (1, 2, 4, 8)]
    hops = [one.mean_hops for one in reports]
    assert hops == sorted(hops, reverse=True)
    assert reports[-1].minimal_share == 1
    assert reports[-1].lanes > 1


def test_the_lids_of_one_port_use_different_links() -> None:
    fabric = load("torus:4x4")
    routes = nue(fabric, lmc=1, max_vls=2)
    assert validate(fabric, routes).ok
    ends = np.arange(fabric.num_endpoints)
    ports = routes.table[ends << 1], routes.table[(ends << 1) + 1]
    assert np.mean(ports[0] != ports[1]) > 0.2
    if routes.sl.ndim:
        assert np.array_equal(routes.sl[ends << 1], routes.sl[(ends << 1) + 1])


def test_balanced_paths_are_preferred_to_slightly_shorter_ones() -> None:
    """The worst load multiplied by the mean length decides, whatever the number of pairs."""
    routes = nue(ring(5))
    for pairs in (1, 1000):
        short, balanced = (
            _Attempt(routes.table, routes.table[0].astype(np.int32), 1, worst * pairs, hops * pairs)
            for worst, hops in ((4, 40), (3, 42))
        )
        assert balanced.cost < short.cost


@pytest.mark.parametrize("lmc", [0, 1])
def test_a_large_fat_tree_needs_one_attempt(lmc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other order or number of lanes is tried if the first attempt has only minimal paths."""
    monkeypatch.setattr("weft.routing.engines.nue.WORK", 0)
    attempt = _Problem.route
    lanes = []

    def count(problem: _Problem, order: Any, num_lanes: int, *args: Any, **options: Any) -> Any:
        lanes.append(num_lanes)
        return attempt(problem, order, num_lanes, *args, **options)

    monkeypatch.setattr(_Problem, "route", count)
    nue(load("xgft:2;4,4;1,4"), lmc=lmc)
    assert lanes == [1]
    nue(load("torus:5x5"), lmc=lmc, max_vls=2)
    assert lanes == [1, 1, 2]


def test_bad_options_are_refused() -> None:
    fabric = ring(3)
    for options, message in (
        ({"max_vls": 0}, "max_vls: 0 does not fit: expected 1 or more"),
        ({"max_vls": 16}, "max_vls: 16 does not fit: expected 15 or less"),
        ({"passes": 0}, "passes: 0 does not fit: expected 1 or more"),
        ({"lmc": 8}, "lmc must be 0 to 7, not 8"),
    ):
        with pytest.raises(InputError, match=message):
            route(fabric, "nue", **options)
