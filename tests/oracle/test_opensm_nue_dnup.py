"""nue, dnup and updn with roots from a file, compared with those of the real OpenSM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import opensm_tables, require_tools

from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.engines.dnup import leaf_ranks
from weft.routing.engines.updn import chosen_roots
from weft.routing.opensm.guids import guid_list
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import Validation, validate
from weft.sim.static.all_to_all import all_to_all_loads

pytestmark = pytest.mark.oracle

TREES = ["xgft:3;6,6,6;1,6,6", "cellia:nodes=36", "xgft:2;8,4;1,4;1,2"]
ODD = ["jellyfish:switches=60,degree=4,seed=3", "torus:5x5", "dragonfly:a=4,h=2,p=2", "torus:4x4x4"]


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tools("opensm", "ibsim", "ibsim-run")


def faulty_tree() -> Fabric:
    return load("xgft:3;4,4,4;1,4,4").with_faults(cables=6, switches=1, seed=2)


def verdict_and_worst_load(fabric: Fabric, routes: TableRoutes) -> tuple[Validation, float]:
    loads = all_to_all_loads(fabric, routes).per_link / fabric.link_rate_gbps
    return validate(fabric, routes), float(loads[fabric.link_kind == 0].max())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("max_vls", [1, 4])
@pytest.mark.parametrize(
    "spec", ["kns:k=6,n=2", "xgft:3;6,6,6;1,6,6", "torus:4x4x4", "mesh:4x4", "faulty", *ODD[:3]]
)
def test_nue_is_no_worse_and_never_deadlocks(spec: str, max_vls: int, tmp_path: Path) -> None:
    fabric = faulty_tree() if spec == "faulty" else load(spec)
    used, table = opensm_tables(fabric, tmp_path, "nue", "--nue_max_num_vls", str(max_vls), "-Q")
    assert used == "nue"
    ours = route(fabric, "nue", max_vls=max_vls)
    assert isinstance(ours, TableRoutes)
    their_check, their_worst = verdict_and_worst_load(fabric, replace(ours, table=table))
    our_check, our_worst = verdict_and_worst_load(fabric, ours)
    assert our_check.ok_where_connected
    assert our_worst <= their_worst
    assert our_check.mean_hops <= their_check.mean_hops


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shuffle", [None, 1])
@pytest.mark.parametrize("spec", [*TREES, *ODD])
def test_dnup_gives_the_tables_of_opensm(spec: str, shuffle: int | None, tmp_path: Path) -> None:
    fabric = load(spec) if shuffle is None else load(spec).shuffled(shuffle)
    used, table = opensm_tables(fabric, tmp_path, "dnup")
    assert used == "dnup"
    same = route(fabric, "dnup", balance="opensm")
    assert isinstance(same, TableRoutes)
    assert np.array_equal(same.table, table)
    # Paths may cross cables within a level (OpenSM's rank) at any point, and so form a cycle.
    rank, graph = leaf_ranks(fabric), fabric.graph
    within_ranks = bool((rank[graph.edge_row] == rank[graph.edge_tail]).any())
    assert bool(validate(fabric, same).credit_loops) == within_ranks
    if not within_ranks:
        ours = route(fabric, "dnup")
        assert isinstance(ours, TableRoutes)
        assert verdict_and_worst_load(fabric, ours)[1] <= verdict_and_worst_load(fabric, same)[1]


def test_dnup_loses_the_pairs_that_opensm_leaves_unrouted(tmp_path: Path) -> None:
    fabric = load("kns:k=6,n=2")
    used, table = opensm_tables(fabric, tmp_path, "dnup")
    assert used == "dnup"
    same = route(fabric, "dnup", balance="opensm")
    assert isinstance(same, TableRoutes)
    assert np.array_equal(same.table, table)
    assert validate(fabric, same).num_unrouted_pairs == 900


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shuffle", [None, 1])
@pytest.mark.parametrize("spec", ODD)
def test_updn_gives_the_tables_of_opensm_with_cables_within_a_level(
    spec: str, shuffle: int | None, tmp_path: Path
) -> None:
    fabric = load(spec) if shuffle is None else load(spec).shuffled(shuffle)
    roots = tmp_path / "roots"
    roots.write_text(f"{int(fabric.node_guid[7]):#018x}\n")
    used, table = opensm_tables(fabric, tmp_path, "updn", "-a", str(roots))
    assert used == "updn"
    same = route(fabric, "updn", root_guid_file=roots, balance="opensm")
    assert isinstance(same, TableRoutes)
    assert np.array_equal(same.table, table)


def test_opensms_updn_can_deadlock_where_wefts_cannot(tmp_path: Path) -> None:
    fabric = load(ODD[0])
    center = route(fabric, "updn", roots="center", balance="opensm")
    assert validate(fabric, center).credit_loops
    roots = tmp_path / "roots"
    rows, _ = chosen_roots(fabric, ("center",))
    roots.write_text(guid_list(fabric, fabric.graph.row_node[rows], kind="root"))
    used, table = opensm_tables(fabric, tmp_path, "updn", "-a", str(roots))
    assert used == "updn"
    assert isinstance(center, TableRoutes)
    assert np.array_equal(center.table, table)
    assert validate(fabric, route(fabric, "updn", roots="center")).ok
