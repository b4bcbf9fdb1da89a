"""Tables of weft and of OpenSM, by each engine that both have, on a list of fabrics.

Both must route every pair of hosts. weft's largest link load, mean hops and longest path must not
exceed OpenSM's. OpenSM's known failures are listed, so that a change in either is detected.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.oracle.tools import opensm_tables, require_tools

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.routes import TableRoutes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads

pytestmark = pytest.mark.oracle

CLUSTER = str(Path(__file__).parents[2] / "examples" / "cluster.ibnetdiscover")

FABRICS = {
    "kns": "kns:k=6,n=2",
    "cellia": "cellia:nodes=36",
    "xgft": "xgft:3;6,6,6;1,6,6",
    "torus": "torus:4x4x4",
    "mesh": "mesh:4x4x4",
    "faulty tree": "xgft:3;6,6,6;1,6,6",
    "cluster": CLUSTER,
    "messy": "",
    "psmn": "fabrics/psmn-x5.ibnetdiscover",
}

#: Options that OpenSM needs for each engine besides its name.
ENGINES: dict[str, tuple[str, ...]] = {
    "minhop": (),
    "updn": (),
    "dnup": (),
    "ftree": (),
    "dor": (),
    "sssp": (),
    "dfsssp": ("-Q",),
    "lash": ("-Q",),
    "nue": ("-Q",),
}

#: Cases (engine, fabric) in which OpenSM uses another engine and says so only in its log.
FALLS_BACK = {
    *(("updn", name) for name in ("kns", "torus", "mesh", "messy")),
    *(("ftree", name) for name in ("torus", "mesh", "faulty tree", "cluster", "messy", "psmn")),
}
#: Cases in which OpenSM reports success though host pairs have no path.
LEAVES_PAIRS = {("dnup", "kns"), ("dnup", "messy"), ("ftree", "kns")}

#: Cases in which OpenSM's tables can deadlock on one lane.
CAN_DEADLOCK = {
    *(
        (engine, name)
        for engine in ("minhop", "sssp")
        for name in ("kns", "torus", "mesh", "messy")
    ),
    *(("dnup", name) for name in ("torus", "mesh")),
    *(("dor", name) for name in ("torus", "messy")),
}
#: Ratio of weft's mean hops to OpenSM's in cases in which shorter paths would increase the largest
#: link load. OpenSM's longest path has two more hops.
LONGER = {("nue", "messy"): 1.004}


@cache
def fabric_named(name: str, shared: Path | None) -> Fabric:
    if name == "messy":
        return messy_fabric(7)
    if name == "psmn":
        assert shared is not None
        return load(str(shared / FABRICS[name]))
    fabric = load(FABRICS[name])
    if name == "faulty tree":
        return fabric.with_faults(cables=9, switches=2, seed=4).shuffled(3)
    return fabric


def messy_fabric(seed: int) -> Fabric:
    """Build switches with 0 to 6 hosts each and random cables between them, some doubled."""
    random = np.random.default_rng(seed)
    maker = FabricBuilder(f"messy {seed}")
    switches = maker.switches([f"s{number}" for number in range(24)], ports=36)
    rates = ["4xDDR", "4xQDR", "4xFDR", "4xEDR"]
    for at, switch in enumerate(switches[1:], start=1):
        for other in random.choice(switches[:at], size=min(at, 3), replace=False):
            cables = int(random.integers(1, 3))
            maker.connect([switch], [other], rate=rates[random.integers(4)], cables=cables)
    for at, switch in enumerate(switches):
        for number in range(int(random.integers(7))):
            host = maker.hosts([f"h{at}-{number}"], ports=2)
            maker.connect(host, [switch], rate=rates[random.integers(4)])
            if random.random() < 0.2:
                maker.connect(host, [random.choice(switches)], rate="4xQDR")
    return maker.fabric().shuffled(seed)


def worst(fabric: Fabric, routes: TableRoutes) -> float:
    loads = all_to_all_loads(fabric, routes).per_link / fabric.link_rate_gbps
    between = loads[fabric.link_kind == 0]
    return float(between.max(initial=0.0))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("engine", ENGINES)
def test_weft_is_no_worse_than_opensm(
    engine: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    require_tools("opensm", "ibsim", "ibsim-run")
    shared = request.getfixturevalue("shared") if name == "psmn" else None
    fabric = fabric_named(name, shared)
    used, table = opensm_tables(fabric, tmp_path, engine, *ENGINES[engine])
    assert (used != engine) == ((engine, name) in FALLS_BACK), f"the real one used {used}"
    try:
        ours = route(fabric, engine)
    except NotApplicable:
        # weft may reject a fabric only where OpenSM has no routes for all pairs.
        assert (engine, name) in FALLS_BACK | LEAVES_PAIRS
        return
    assert isinstance(ours, TableRoutes)
    result = validate(fabric, ours)
    assert result.num_unrouted_pairs == result.num_disconnected_pairs
    assert result.num_loops == 0
    theirs = replace(ours, table=table, sl=np.zeros((), dtype=np.uint8))
    verdict = validate(fabric, theirs)
    unrouted = verdict.num_unrouted_pairs > verdict.num_disconnected_pairs
    assert unrouted == ((engine, name) in LEAVES_PAIRS), verdict.text()
    if used != engine or unrouted:
        return
    assert verdict.num_loops == 0
    # On a single lane, OpenSM's routes may deadlock on fabrics other than trees.
    cyclic = not ENGINES[engine] and ours.num_vls == 1 and bool(verdict.credit_loops)
    assert cyclic == ((engine, name) in CAN_DEADLOCK), verdict.text()
    if cyclic and not result.credit_loops:
        return
    assert worst(fabric, ours) <= worst(fabric, theirs) * (1 + 1e-9)
    assert result.mean_hops <= verdict.mean_hops * LONGER.get((engine, name), 1) + 1e-9
    assert result.max_hops <= verdict.max_hops
