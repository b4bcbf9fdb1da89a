"""Lanes for tables: exact small cases, and proofs by the validator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.random_fabrics import random_fabric

import weft
from weft.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.routes import TableRoutes, VirtualLanes
from weft.routing.lanes import assign_lanes
from weft.routing.validate import validate


def with_lanes(fabric: Fabric, routes: TableRoutes, **options: object) -> tuple[TableRoutes, int]:
    sl, lanes = assign_lanes(fabric, routes.table, lmc=routes.lmc, **options)
    assert sl.shape == routes.table.shape[::-1]
    assert sl.max(initial=0) == lanes - 1
    return replace(routes, sl=sl, lanes=VirtualLanes.uniform(range(16))), lanes


@pytest.mark.parametrize("switches", [5, 6, 7, 9])
def test_a_ring_needs_two_lanes(switches: int) -> None:
    fabric = weft.fabric(f"ring:n={switches}")
    routes, lanes = with_lanes(fabric, weft.route(fabric, "minhop"))
    assert lanes == 2
    assert validate(fabric, routes).ok
    with pytest.raises(NotApplicable, match="2 virtual lanes would be needed; max_vls is 1"):
        assign_lanes(fabric, routes.table, max_vls=1)


def test_a_fat_tree_needs_one_lane() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,4")
    sl, lanes = assign_lanes(fabric, weft.route(fabric, "minhop").table)
    assert lanes == 1
    assert not sl.any()


@pytest.mark.parametrize("management", [False, True])
@pytest.mark.parametrize(
    "spec", ["kns:k=4,n=2", "torus:4x4x4", "torus:5x5", "xgft:3;3,3,3;1,3,3", "bcube:n=3,k=2"]
)
def test_lanes_are_proved(spec: str, management: bool) -> None:
    fabric = weft.fabric(spec)
    routes, _ = with_lanes(fabric, weft.route(fabric, "minhop:lmc=1"), management=management)
    found = validate(fabric, routes, management=management)
    assert found.num_unrouted_pairs == 0
    assert not found.credit_loops


@pytest.mark.parametrize("seed", range(12))
def test_lanes_are_proved_on_random_fabrics(seed: int) -> None:
    fabric = random_fabric(seed, switches=10, hosts=16, others=2)
    for management in (False, True):
        routes, _ = with_lanes(
            fabric, weft.route(fabric, "minhop"), max_vls=15, management=management
        )
        assert not validate(fabric, routes, management=management).credit_loops


def test_what_cannot_be_is_refused() -> None:
    fabric = weft.fabric("ring:n=3")
    table = weft.route(fabric, "minhop").table
    for max_vls in (0, 16):
        with pytest.raises(InputError, match="max_vls must be 1 to 15"):
            assign_lanes(fabric, table, max_vls=max_vls)
    around = table.copy()
    switch_ports = fabric.graph.edge_port[
        fabric.graph.edge_row == np.roll(np.arange(3), -1).repeat(2)
    ]
    around[0] = switch_ports
    with pytest.raises(InputError, match="round for ever"):
        assign_lanes(fabric, around)
