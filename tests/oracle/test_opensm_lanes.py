"""sssp, dfsssp and lash, compared with those of the real OpenSM on the same fabrics."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import opensm_tables, require_tools

from weft.fabrics import Fabric
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads

pytestmark = pytest.mark.oracle

SPECS = ["kns:k=6,n=2", "cellia:nodes=36", "xgft:3;6,6,6;1,6,6", "torus:4x4x4", "mesh:4x4"]


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tools("opensm", "ibsim", "ibsim-run")


def fabrics() -> list[tuple[str, Fabric]]:
    named = [(spec, load(spec)) for spec in SPECS]
    named += [(f"{spec} shuffled", load(spec).shuffled(1)) for spec in SPECS]
    faulty = load("xgft:3;4,4,4;1,4,4").with_faults(cables=4, switches=1, seed=2)
    messy = load("jellyfish:switches=60,degree=4,seed=3").with_faults(cables=5, seed=1).shuffled(3)
    return [*named, ("faulty tree", faulty), ("messy", messy)]


ALL = fabrics()


def worst(fabric: Fabric, routes: TableRoutes) -> float:
    loads = all_to_all_loads(fabric, routes).per_link / fabric.link_rate_gbps
    return float(loads[fabric.link_kind == 0].max())


def lanes_of(folder: Path) -> int:
    """Return the number of lanes that the log of the real OpenSM reports."""
    log = (folder / "osm.log").read_text(errors="replace")
    return max(int(count) for count in re.findall(r"(?:Lanes needed: |needed=)(\d+)", log))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "fabric"), ALL, ids=[name for name, _ in ALL])
def test_sssp_equals_opensms_or_is_better(name: str, fabric: Fabric, tmp_path: Path) -> None:
    used, table = opensm_tables(fabric, tmp_path, "sssp")
    assert used == "sssp"
    same = route(fabric, "sssp:balance=opensm")
    assert isinstance(same, TableRoutes)
    assert np.array_equal(same.table, table)
    ours = route(fabric, "sssp")
    assert isinstance(ours, TableRoutes)
    assert worst(fabric, ours) <= worst(fabric, same)
    assert validate(fabric, ours).mean_hops <= validate(fabric, same).mean_hops


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "fabric"), ALL, ids=[name for name, _ in ALL])
def test_dfsssp_needs_no_more_lanes(name: str, fabric: Fabric, tmp_path: Path) -> None:
    used, table = opensm_tables(fabric, tmp_path, "dfsssp", "-Q")
    needed = lanes_of(tmp_path)
    assert (used == "dfsssp") == (needed <= 8)
    for balance in ("flows", "opensm"):
        ours = route(fabric, "dfsssp", balance=balance)
        assert isinstance(ours, TableRoutes)
        assert ours.num_vls <= needed
        assert validate(fabric, ours).ok
    assert ours.engine == used == "dfsssp"
    assert np.array_equal(ours.table, table)
    assert ours.num_vls == needed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shuffle", [0, 1])
def test_dfsssp_falls_back_where_opensm_has_too_few_lanes(shuffle: int, tmp_path: Path) -> None:
    """OpenSM's minhop then starts from the counters that its dfsssp has left behind."""
    fabric = load("torus:5x5x5").shuffled(shuffle)
    used, table = opensm_tables(fabric, tmp_path, "dfsssp", "-Q")
    ours = route(fabric, "dfsssp:balance=opensm")
    assert isinstance(ours, TableRoutes)
    assert ours.engine == used == "minhop"
    assert np.array_equal(ours.table, table)
    assert validate(fabric, ours).credit_loops


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "fabric"), ALL, ids=[name for name, _ in ALL])
def test_lash_needs_no_more_lanes_and_loads_no_link_more(
    name: str, fabric: Fabric, tmp_path: Path
) -> None:
    used, table = opensm_tables(fabric, tmp_path, "lash", "-Q")
    needed = lanes_of(tmp_path)
    assert (used == "lash") == (needed <= 8)
    for management in (False, True):
        ours = route(fabric, "lash", management=management)
        assert isinstance(ours, TableRoutes)
        assert ours.num_vls <= needed
        assert not validate(fabric, ours, management=management).credit_loops
        theirs = replace(ours, table=table)
        if used == "lash":
            assert worst(fabric, ours) <= worst(fabric, theirs)
            assert validate(fabric, ours).mean_hops <= validate(fabric, theirs).mean_hops
