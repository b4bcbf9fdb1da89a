"""Routes of every engine on several fabrics, by weft and by the real OpenSM.

Each line has the verdict (whether all connected host pairs have a path, and deadlocks are
excluded), the largest contention of a link between switches under all-to-all traffic, the mean
number of hops, lanes, and seconds of routing. OpenSM does not dump service levels: ``in lanes``
means that OpenSM's tables have credit loops on one lane and that OpenSM uses several lanes.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import weft
from benchmarks._opensm import missing_tools, opensm_run
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.routing.validation.validate import validate
from weft.sim.static.all_to_all import all_to_all_loads
from weft.sim.static.loads import relative_loads

CLUSTER = str(Path(__file__).parents[1] / "examples" / "cluster.ibnetdiscover")
FAULTY = "xgft:3;6,6,6;1,6,6"

#: Engines that weft and OpenSM run here, and engines that only weft runs.
BOTH = ("minhop", "updn", "dnup", "ftree", "dor", "sssp", "dfsssp", "lash", "nue")
ALONE = ("torus-2QoS", "hdor", "dmodk")


def fabrics() -> dict[str, Fabric]:
    """Return the fabrics of the table by name."""
    return {
        "KNS 6-ary 2D": weft.fabric("kns:k=6,n=2"),
        "KNS 6-ary 2D shuffled": weft.fabric("kns:k=6,n=2").shuffled(1),
        "CELLIA tree": weft.fabric("cellia:nodes=36"),
        "XGFT 216": weft.fabric("xgft:3;6,6,6;1,6,6"),
        "XGFT 216 faulty": weft.fabric(FAULTY).with_faults(cables=9, switches=2, seed=4),
        "torus 4x4x4": weft.fabric("torus:4x4x4"),
        "mesh 4x4x4": weft.fabric("mesh:4x4x4"),
        "cluster": weft.fabric(CLUSTER),
    }


def verdict(fabric: Fabric, routes: Routes, lanes: int | None = None) -> str:
    """Return the columns of routes: verdict, largest load, mean hops and number of lanes."""
    validation = validate(fabric, routes)
    unrouted = validation.num_unrouted_pairs - validation.num_disconnected_pairs
    state = f"-{unrouted} pairs" if unrouted else "loops" if validation.num_loops else "valid"
    if state == "valid" and validation.credit_loops:
        state = "in lanes" if lanes and lanes > 1 else "deadlock"
    loads = relative_loads(fabric, all_to_all_loads(fabric, routes).per_link)
    worst = float(np.max(loads[fabric.link_kind == 0], initial=0))
    return f"{state:>11s} {worst:8.1f} {validation.mean_hops:6.3f} {lanes or validation.lanes:5d}"


def ours(fabric: Fabric, engine: str) -> str:
    """Return weft's part of a line."""
    try:
        weft.route(fabric, engine)
        start = time.perf_counter()
        routes = weft.route(fabric, engine)
        took = time.perf_counter() - start
    except NotApplicable:
        return f"{'refuses':>11s} {'':29s}"
    return f"{verdict(fabric, routes)} {took:8.4f}"


def theirs(fabric: Fabric, engine: str) -> str:
    """Return OpenSM's part of a line."""
    try:
        run = opensm_run(fabric, engine)
    except NotApplicable:
        return f"{'falls back':>11s}"
    return f"{verdict(fabric, run.routes, run.lanes)} {run.routing_s:8.4f}"


def main() -> None:
    """Print the table."""
    missing = missing_tools()
    if missing:
        print(f"not installed: {missing}; weft only")
    head = f"{'':>11s} {'max load':>8s} {'hops':>6s} {'lanes':>5s} {'s':>8s}"
    print(f"{'':22s} {'engine':10s} weft:{head[5:]}  OpenSM:{head[7:]}")
    for name, fabric in fabrics().items():
        for engine in (*BOTH, *ALONE):
            line = f"{name:22s} {engine:10s} {ours(fabric, engine)}"
            if engine in BOTH and not missing:
                line += f"  {theirs(fabric, engine)}"
            print(line.rstrip(), flush=True)


if __name__ == "__main__":
    main()
