from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.random_fabrics import random_fabric
from tests.reference import lanes as plain
from weft.routing import route
from weft.routing.lane_assignment import assign_lanes
from weft.routing.routes import TableRoutes, VirtualLanes
from weft.routing.validation.validate import validate


@pytest.mark.parametrize("management", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_lanes_are_acyclic_and_at_most_those_of_first_fit(seed: int, management: bool) -> None:
    fabric = random_fabric(seed, switches=10, hosts=14, others=seed % 3)
    routes = route(fabric, "minhop", lmc=seed % 2)
    assert isinstance(routes, TableRoutes)
    sl, lanes = assign_lanes(
        fabric, routes.table, lmc=routes.lmc, max_vls=15, management=management
    )
    paths = plain.counted_paths(fabric, routes, management)
    assert plain.are_acyclic(paths, sl)
    assert lanes <= plain.first_fit(paths)
    uncounted = np.ones(sl.shape, dtype=bool)
    for row, lid in paths:
        uncounted[row, lid] = False
    assert not sl[uncounted].any()
    # The reference and the validator also agree on which routes are cyclic.
    one = replace(routes, lanes=VirtualLanes.uniform())
    cyclic = bool(validate(fabric, one, management=management).credit_loops)
    assert cyclic == (lanes > 1)
    assert cyclic != plain.are_acyclic(paths, np.zeros_like(sl))


@pytest.mark.parametrize("engine", ["dfsssp", "lash", "lash:passes=0", "lash:lmc=1"])
@pytest.mark.parametrize("seed", range(6))
def test_routes_of_engines_with_lanes_are_acyclic_and_shortest(seed: int, engine: str) -> None:
    fabric = random_fabric(seed, switches=10, hosts=14)
    for management in (False, True):
        routes = route(fabric, engine, management=management, max_vls=15)
        assert isinstance(routes, TableRoutes)
        assert routes.sl.shape == routes.table.shape[::-1]
        paths = plain.counted_paths(fabric, routes, management)
        assert plain.are_acyclic(paths, routes.sl)
        result = validate(fabric, routes, management=management)
        assert not result.credit_loops
        assert result.num_unrouted_pairs == result.num_disconnected_pairs
        assert result.detours.sum() == result.detours[0]


@pytest.mark.parametrize("lmc", [0, 1])
@pytest.mark.parametrize("seed", range(8))
def test_sssp_chooses_paths_of_least_weight(seed: int, lmc: int) -> None:
    fabric = random_fabric(seed, others=seed % 3)
    routes = route(fabric, "sssp", balance="opensm", lmc=lmc)
    assert isinstance(routes, TableRoutes)
    plain.sssp_is_cheapest(fabric, routes)
