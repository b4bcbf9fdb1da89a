"""hdor compared with engines of the real OpenSM on the KNS of the paper."""

from __future__ import annotations

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
from weft.sim.static.effective_bisection import bisection

pytestmark = pytest.mark.oracle


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tools("opensm", "ibsim", "ibsim-run")


def extremes(fabric: Fabric, routes: TableRoutes) -> tuple[int, int]:
    """Return the largest and the smallest all-to-all load of links between switches."""
    loads = all_to_all_loads(fabric, routes).per_link[fabric.link_kind == 0]
    return int(loads.max()), int(loads.min())


def hdor_and_opensm(fabric: Fabric, folder: Path, engine: str) -> tuple[TableRoutes, TableRoutes]:
    used, table = opensm_tables(fabric, folder, engine)
    assert used == engine
    ours = route(fabric, "hdor")
    assert isinstance(ours, TableRoutes)
    return ours, replace(ours, table=table, sl=np.zeros((), dtype=np.uint8))


def test_the_real_dor_equals_hdor_on_ordered_ports(tmp_path: Path) -> None:
    fabric = load("kns:k=6,n=2")
    ours, theirs = hdor_and_opensm(fabric, tmp_path, "dor")
    assert extremes(fabric, ours) == extremes(fabric, theirs) == (30, 30)
    assert validate(fabric, ours).ok
    assert validate(fabric, theirs).ok


@pytest.mark.parametrize("seed", [1, 2])
def test_shuffled_ports_give_cycles_in_the_real_dor_but_not_in_hdor(
    seed: int, tmp_path: Path
) -> None:
    fabric = load("kns:k=6,n=2").shuffled(seed)
    ours, theirs = hdor_and_opensm(fabric, tmp_path, "dor")
    assert extremes(fabric, ours) == (30, 30)
    assert validate(fabric, ours).ok
    assert validate(fabric, ours).lanes == 1
    assert extremes(fabric, theirs)[0] > 40
    assert validate(fabric, theirs).credit_loops
    assert bisection(fabric, ours, 300).mean > 1.1 * bisection(fabric, theirs, 300).mean


def test_the_real_minhop_is_less_balanced_than_hdor(tmp_path: Path) -> None:
    fabric = load("kns:k=6,n=2").shuffled(1)
    ours, theirs = hdor_and_opensm(fabric, tmp_path, "minhop")
    assert extremes(fabric, theirs)[0] > extremes(fabric, ours)[0] == 30
    assert bisection(fabric, ours, 300).mean > bisection(fabric, theirs, 300).mean
