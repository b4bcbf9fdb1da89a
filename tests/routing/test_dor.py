"""Engine dor: dimension order on grids, tori and their faulty forms."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads

FREE = ["mesh:4x4", "mesh:3x4x2", "hypercube:4", "hyperx:S=4x4x2,K=1,1,2,T=3", "torus:4x4x4"]


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("spec", FREE)
def test_dimensions_from_wiring_need_one_lane(spec: str, seed: int | None) -> None:
    fabric = load(spec) if seed is None else load(spec).shuffled(seed)
    verdict = validate(fabric, route(fabric, "dor:dimensions=wiring"), management=True)
    assert verdict.ok
    assert verdict.max_detour == 0
    assert not verdict.credit_loops


def test_dimensions_by_ports_are_deadlock_free_only_if_ports_are_consistent() -> None:
    fabric = load("mesh:4x4x4")
    assert not validate(fabric, route(fabric, "dor")).credit_loops
    assert validate(fabric.shuffled(1), route(fabric.shuffled(1), "dor")).credit_loops


@pytest.mark.parametrize(
    ("spec", "dimensions"),
    [
        ("mesh:2x5", "line of 5 x line of 2"),
        ("torus:5x4", "ring of 5 x line of 2 x line of 2"),
        ("hyperx:S=4x5,T=1", "full mesh of 5 x full mesh of 4"),
        ("ring:6", "ring of 6"),
        ("leaf-spine:leaves=1,spines=1,hosts=4", "line of 2"),
    ],
)
def test_a_note_names_the_dimensions(spec: str, dimensions: str) -> None:
    for fabric in (load(spec), load(spec).shuffled(7)):
        assert route(fabric, "dor:dimensions=wiring").notes == (f"found dimensions: {dimensions}",)


def test_rings_can_deadlock_and_balance_paths_to_the_opposite_switch() -> None:
    fabric = load("torus:6x6")
    routes = route(fabric, "dor:dimensions=wiring")
    assert validate(fabric, routes).credit_loops
    between = fabric.link_kind == 0
    shared = all_to_all_loads(fabric, routes).per_link[between]
    by_ports = all_to_all_loads(fabric, route(fabric, "dor")).per_link[between]
    assert shared.max() == by_ports.max()
    assert shared.std() < by_ports.std()


@pytest.mark.parametrize(
    "spec", ["kns:k=6,n=2", "xgft:2;4,4;1,4", "jellyfish:switches=20,degree=4"]
)
def test_fabrics_without_dimensions_are_refused(spec: str) -> None:
    with pytest.raises(NotApplicable, match="not form a product of dimensions"):
        route(load(spec), "dor:dimensions=wiring")
    mesh = load("mesh:4x4").with_faults(cables=1, seed=1)
    with pytest.raises(NotApplicable, match="not form a product of dimensions"):
        route(mesh, "dor:dimensions=wiring")
    split = FabricBuilder("two switches apart")
    split.connect(split.switches(["a", "b"]), split.hosts(["x", "y"]))
    with pytest.raises(NotApplicable, match="the switches are not all connected"):
        route(split.fabric(), "dor:dimensions=wiring")


def test_further_lids_take_parallel_cables_in_turn() -> None:
    fabric = load("mesh:3,cables=4,hosts=1")
    routes = route(fabric, "dor", lmc=2)
    assert isinstance(routes, TableRoutes)
    for host in range(3):
        lids = routes.table[4 * host : 4 * host + 4]
        assert all(len(np.unique(lids[:, row])) == 4 for row in range(3) if row != host)
    assert validate(fabric, routes).ok
    with pytest.raises(InputError, match="lmc must be 0 to 7"):
        route(fabric, "dor", lmc=8)
    with pytest.raises(InputError):
        route(fabric, "dor", dimensions="names")


def test_the_first_host_of_the_order_gets_the_first_cable() -> None:
    fabric = load("mesh:2,cables=2,hosts=4")
    by_default = route(fabric, "dor")
    named = (fabric.host_names[7], fabric.host_names[7], fabric.host_names[1])
    routes = route(fabric, "dor", order=named)
    assert isinstance(routes, TableRoutes)
    assert isinstance(by_default, TableRoutes)
    # Hosts 4 to 7 are on the second switch; the first switch sends to them over two cables in turn.
    default = by_default.table[4:8, 0].tolist()
    first, second = default[:2]
    assert default == [first, second, first, second]
    assert routes.table[4:8, 0].tolist() == [second, first, second, first]
    with pytest.raises(InputError, match="no node 'h99'"):
        route(fabric, "dor", order=("h99",))


def test_an_unknown_node_in_an_order_explains_the_format() -> None:
    with pytest.raises(InputError, match=r"names or GUIDs, or @FILE .* no node 'x'"):
        route(load("ring:4"), "dor", order=("x",))
