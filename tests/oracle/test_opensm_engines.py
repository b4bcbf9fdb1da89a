"""weft's minhop and updn, compared with those of the real OpenSM on the same fabrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import opensm_tables, require_tools

from weft.cli import main
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.engines.updn import chosen_roots
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.effective_bisection import bisection

pytestmark = pytest.mark.oracle

CLUSTER = str(Path(__file__).parents[2] / "examples" / "cluster.ibnetdiscover")
TREES = ["xgft:3;6,6,6;1,6,6", "cellia:nodes=36", "xgft:2;8,4;1,4;1,2", CLUSTER]
OTHERS = ["kns:k=6,n=2", "torus:4x4x4", "mesh:4x4", "jellyfish:switches=60,degree=4,seed=3"]


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tools("opensm", "ibsim", "ibsim-run")


def worst(fabric: Fabric, routes: TableRoutes) -> float:
    loads = all_to_all_loads(fabric, routes).per_link / fabric.link_rate_gbps
    return float(loads[fabric.link_kind == 0].max())


def as_opensm(fabric: Fabric, engine: str) -> TableRoutes:
    """Return weft's tables with the balance of OpenSM."""
    routes = route(fabric, engine, balance="opensm")
    assert isinstance(routes, TableRoutes)
    return routes


def compare(fabric: Fabric, folder: Path, engine: str) -> None:
    """Assert that weft's tables with OpenSM's balance equal OpenSM's; the default is no worse."""
    used, table = opensm_tables(fabric, folder, engine)
    assert used == engine
    same = as_opensm(fabric, engine)
    assert np.array_equal(same.table, table)
    theirs = replace(same, table=table)
    ours = route(fabric, engine)
    assert isinstance(ours, TableRoutes)
    assert validate(fabric, ours).num_unrouted_pairs == 0
    assert validate(fabric, ours).mean_hops <= validate(fabric, theirs).mean_hops
    assert bisection(fabric, ours).mean > bisection(fabric, theirs).mean - 0.005
    assert worst(fabric, ours) <= worst(fabric, theirs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shuffle", [None, 1])
@pytest.mark.parametrize("spec", TREES + OTHERS)
def test_minhop_equals_opensms_or_is_better(spec: str, shuffle: int | None, tmp_path: Path) -> None:
    fabric = load(spec) if shuffle is None else load(spec).shuffled(shuffle)
    compare(fabric, tmp_path, "minhop")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spec", TREES)
def test_updn_equals_opensms_or_is_better_on_trees(spec: str, tmp_path: Path) -> None:
    compare(load(spec), tmp_path, "updn")


def test_a_tree_of_many_leaves_needs_a_list_of_roots(tmp_path: Path) -> None:
    """OpenSM selects all 26 switches as roots; the advised list of spines gives other tables."""
    fabric = load("leaf-spine:leaves=22,spines=4,hosts=6")
    assert len(chosen_roots(fabric, ("opensm",))[0]) == 26
    roots = tmp_path / "roots.guids"
    engine = "updn:roots=auto;balance=opensm"
    words = ["compare", "leaf-spine:leaves=22,spines=4,hosts=6", "--engine", engine]
    assert main([*words, "--samples", "2", "--pattern", "shift", "--roots", str(roots)]) == 0
    assert roots.read_text().count("spine") == 4
    for name, options, ours in (
        ("alone", (), as_opensm(fabric, "updn")),
        ("listed", ("-a", str(roots)), route(fabric, engine)),
    ):
        (tmp_path / name).mkdir()
        used, table = opensm_tables(fabric, tmp_path / name, "updn", *options)
        assert used == "updn"
        assert isinstance(ours, TableRoutes)
        assert np.array_equal(ours.table, table)


def test_minhop_and_updn_equal_opensms_on_a_faulty_tree(tmp_path: Path) -> None:
    fabric = load("xgft:3;4,4,4;1,4,4").with_faults(cables=4, switches=1, seed=2)
    for engine in ("minhop", "updn"):
        (tmp_path / engine).mkdir()
        used, table = opensm_tables(fabric, tmp_path / engine, engine)
        assert used == engine
        assert np.array_equal(as_opensm(fabric, engine).table, table)


def test_minhop_and_updn_equal_opensms_or_are_better_on_a_real_cluster(
    shared: Path, tmp_path: Path
) -> None:
    fabric = load(shared / "fabrics" / "psmn-x5.ibnetdiscover")
    for engine in ("minhop", "updn"):
        (tmp_path / engine).mkdir()
        compare(fabric, tmp_path / engine, engine)


@pytest.mark.parametrize("spec", ["kns:k=6,n=2", "torus:4x4x4"])
def test_both_find_no_roots_on_other_topologies(spec: str, tmp_path: Path) -> None:
    fabric = load(spec)
    used, table = opensm_tables(fabric, tmp_path, "updn")
    assert used == "minhop"  # OpenSM falls back silently
    same = as_opensm(fabric, "updn")
    assert same.engine == "minhop"
    assert np.array_equal(same.table, table)
    with pytest.raises(NotApplicable, match="no roots found"):
        route(fabric, "updn")


def test_pairs_that_opensm_leaves_unrouted_are_lost_or_the_roots_are_refused(
    tmp_path: Path,
) -> None:
    fabric = load("kns:k=6,n=2")
    roots = tmp_path / "roots"
    roots.write_text("".join(f"{int(guid):#018x}\n" for guid in fabric.node_guid[:6]))
    used, table = opensm_tables(fabric, tmp_path, "updn", "-a", str(roots))
    assert used == "updn"
    same = route(fabric, "updn", root_guid_file=roots, balance="opensm")
    assert isinstance(same, TableRoutes)
    assert np.array_equal(same.table, table)
    assert validate(fabric, same).num_unrouted_pairs == 1080
    with pytest.raises(NotApplicable, match="1080 pairs of a switch and a host"):
        route(fabric, "updn", roots=fabric.node_names[:6])
