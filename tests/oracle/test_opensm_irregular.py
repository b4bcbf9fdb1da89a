"""Engines of OpenSM on irregular fabrics: every table entry, fallbacks and lost pairs included."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.irregular import irregular
from tests.oracle.tools import opensm_tables, require_tools

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing import route
from weft.routing.engine_registry import sending_rows
from weft.routing.routes import TableRoutes

pytestmark = pytest.mark.oracle

#: Engines, the options of the real one, and the LMC; seeds above `FEW` are for `make validate`.
ENGINES = {
    "minhop:balance=opensm": ((), 0),
    "minhop:balance=opensm;lmc=2": ((), 2),
    "updn:balance=opensm": ((), 0),
    "updn:balance=opensm;lmc=1": ((), 1),
    "dnup:balance=opensm": ((), 0),
    "dnup:balance=opensm;lmc=2": ((), 2),
    "dor": ((), 0),
    "dor:lmc=1": ((), 1),
    "ftree": ((), 0),
    "sssp:balance=opensm": ((), 0),
    "sssp:balance=opensm;lmc=2": ((), 2),
    "dfsssp:balance=opensm": (("-Q",), 0),
    "dfsssp:balance=opensm;lmc=1": (("-Q",), 1),
}
FEW = 4
CASES = [
    pytest.param(spec, seed, marks=[pytest.mark.slow] if seed >= FEW else [], id=f"{spec}-{seed}")
    for spec in ENGINES
    for seed in range(100)
]


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tools("opensm", "ibsim", "ibsim-run")


def in_subnet(fabric: Fabric, table: np.ndarray, lmc: int = 0) -> np.ndarray:
    """Return the entries of the part of the fabric that the subnet manager reaches."""
    label, rows = fabric.graph.components, fabric.graph.destination_row
    part = label[rows[fabric.host_endpoint[fabric.host_endpoint >= 0][0]]]
    seen = np.repeat((rows >= 0) & (label[rows] == part), 1 << lmc)
    return table[seen][:, label == part]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("spec", "seed"), CASES)
def test_tables_are_those_of_opensm(spec: str, seed: int, tmp_path: Path) -> None:
    options, lmc = ENGINES[spec]
    fabric = irregular(seed)
    if lmc and seed % 2:
        # Switches in pairs, as in a chassis, which OpenSM tries to use in turn.
        pairs = fabric.node_guid.copy()
        pairs[1 : fabric.num_switches : 2] = pairs[: fabric.num_switches - 1 : 2]
        fabric = replace(fabric, system_guid=pairs)
    engine = spec.partition(":")[0]
    used, table = opensm_tables(fabric, tmp_path, engine, *options, lmc=lmc)
    theirs = in_subnet(fabric, table, lmc)
    try:
        ours = route(fabric, spec)
    except NotApplicable as refusal:
        assert engine == "ftree"
        assert_ftree_fails(fabric, str(refusal), used, theirs)
        return
    assert isinstance(ours, TableRoutes)
    assert ours.engine == used
    assert np.array_equal(in_subnet(fabric, ours.table, lmc), theirs)


def assert_ftree_fails(fabric: Fabric, refusal: str, used: str, table: np.ndarray) -> None:
    """Assert that weft's ftree refuses a fabric for what OpenSM's does with it."""
    if "run to run" in refusal:
        return
    if gaps := re.search(r"(\d+) pairs of a switch and a host have no path", refusal):
        assert used == "ftree"
        rows = fabric.graph.destination_row[: fabric.num_host_endpoints]
        hosts = np.count_nonzero(rows >= 0)
        assert np.count_nonzero(table[:hosts][:, sending_rows(fabric)] == 255) == int(gaps[1])
    elif used == "ftree":
        assert "can deadlock" in refusal
    else:
        assert used == "minhop"
        instead = route(fabric, "minhop:balance=opensm")
        assert isinstance(instead, TableRoutes)
        assert np.array_equal(in_subnet(fabric, instead.table), table)
