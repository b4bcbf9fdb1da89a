"""Completion times of the flow level and of SimGrid for the same flows, fabrics and routes."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._simgrid import random_flows, run_simgrid
from tests.oracle.tools import require_simgrid

from weft.fabrics.topology import build
from weft.routing import route
from weft.sim.simulate import simulate

pytestmark = pytest.mark.oracle

#: SimGrid's tolerances for equal values; its default tolerances are larger.
PRECISE = ["maxmin/precision:1e-9", "surf/precision:1e-12"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spread_ns", [0.0, 2e7])
@pytest.mark.parametrize("spec", ["xgft:2;8,8;1,8", "xgft:3;6,6,6;1,6,6"])
def test_completion_times_of_random_flows_equal_simgrids(spec: str, spread_ns: float) -> None:
    require_simgrid()
    fabric = build(spec)
    routes = route(fabric, "dmodk")
    flows = random_flows(fabric, routes, 1000, seed=4, spread_ns=spread_ns)
    theirs = run_simgrid(flows, options=PRECISE).finish_ns
    ours = simulate(fabric, routes, flows.workload(), flows.placement(), latency_ns=0).arrived_ns
    assert np.all(theirs > flows.start_ns)
    lasted = theirs - flows.start_ns
    assert np.abs(ours - theirs).max() <= 1e-6 * theirs.max()
    assert np.abs((ours - theirs) / lasted).max() < 1e-6
    # Most of these flows share links, and so take longer than alone.
    assert np.median(lasted / (flows.size_bytes / 12.5)) > 1.2
