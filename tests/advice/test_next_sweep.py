"""OpenSM's next sweep, from the one before: the same entries as if it were computed in full."""

from __future__ import annotations

import numpy as np
import pytest
from tests.random_fabrics import random_fabric

from weft import fabric, route
from weft.advice.what_if.failures import Failure, each_cable
from weft.advice.what_if.figures import Remains
from weft.advice.what_if.sweep import NextSweep
from weft.fabrics import Fabric
from weft.routing.reroute import opensm_reroute

FABRICS = {
    "leaf-spine": fabric("leaf-spine:5;3;4"),
    "leaf-spine with faults": fabric("leaf-spine:12;4;4").with_faults(cables=4, seed=3),
    "fat tree with faults": fabric("xgft:3;2,3,3;1,2,2").with_faults(cables=3, seed=3),
    "shuffled": fabric("fat-tree:4").shuffled(5),
    "torus": fabric("torus:3x4;hosts=2").shuffled(1),
    "jellyfish": fabric("jellyfish:12;4;hosts=3"),
}


def rows_of(base: Fabric, spec: str, pairs: bool) -> tuple[int, int]:
    """Compare all sweeps after a cable, or two, failed; return how many of how many there are."""
    routes = route(base, f"{spec}:balance=opensm")
    sweep = NextSweep.of(base, routes, spec)
    assert sweep is not None
    cables = [each.cables[0] for each in each_cable(base)]
    failures = [Failure((), (cable,)) for cable in cables]
    if pairs:
        failures = [
            Failure((), tuple(sorted(two))) for two in zip(cables, cables[5:], strict=False)
        ]
    found = 0
    for failure in failures:
        failed = failure.of(base)
        table = sweep.after(Remains(base, cables=np.array(failure.cables)))
        if table is None:
            continue
        full = opensm_reroute(base, routes, failed, spec)
        ends = slice(base.num_endpoints)
        assert np.array_equal(table[ends], full.table[ends]), failure
        found += 1
    return found, len(failures)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        *((name, spec) for name in FABRICS for spec in ("minhop", "dnup")),
        *((name, "updn") for name in ("leaf-spine", "leaf-spine with faults", "shuffled")),
    ],
)
@pytest.mark.parametrize("pairs", [False, True])
def test_entries_are_those_of_the_sweep_in_full(name: str, spec: str, pairs: bool) -> None:
    found, of = rows_of(FABRICS[name], spec, pairs)
    assert found > 0.5 * of  # others end in a fallback or in parts


def test_sweeps_that_change_entries_are_not_known() -> None:
    base = fabric("leaf-spine:5;3;4")
    assert NextSweep.of(base, route(base, "minhop"), "dor") is None
    routes = route(base, "minhop:balance=opensm")
    wrong = routes.table.copy()
    wrong[0, 4] = routes.no_path
    assert NextSweep.of(base, routes.__class__("t", base.digest, table=wrong), "minhop") is None
    assert NextSweep.of(random_fabric(2), route(random_fabric(2), "minhop"), "ftree") is None
