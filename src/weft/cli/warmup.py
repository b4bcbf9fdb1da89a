"""`weft warmup`: compile every kernel now, so that no later command waits."""

from __future__ import annotations

import time
from typing import get_args

import numpy as np

from weft.advice.compare import compare
from weft.contention import INFINIBAND, penalties, predict
from weft.fabrics import FabricBuilder
from weft.fabrics.topology import build
from weft.kernels.flow.contention_steps import synchronous_times
from weft.routes import PathRoutes
from weft.routing import route
from weft.routing.lower import lower
from weft.routing.validation.validate import validate
from weft.sim.flow import simulate
from weft.sim.flow.sharing import Sharing
from weft.sim.packet import Hardware, VlArbitration, simulate_packets
from weft.sim.static.phases import analyse_workload
from weft.studies import paper
from weft.workload import load_workload


def warmup_command() -> int:
    """Compile all kernels and say how long it took."""
    start = time.perf_counter()
    warm_packets()
    packets = time.perf_counter() - start
    warm()
    print(
        f"kernels are compiled; it took {time.perf_counter() - start:.1f} s, {packets:.1f} s of "
        "that for the packet level"
    )
    return 0


def warm() -> None:
    """Run every kernel once, and the usual ones in each form that they take, on small fabrics."""
    tree = build("xgft:2;2,2;1,2")
    compare(tree, samples=2)
    tree_paths = route(tree, "smodk")
    assert isinstance(tree_paths, PathRoutes)
    lower(tree, tree_paths, lmc=1)
    # What trees do not need: recognition of other structures, lanes, ways around faults.
    torus = build("torus:5x5")
    for fabric in (
        build("dragonfly:p=1,a=2,h=1"),
        build("kns:k=3,n=2").with_faults(cables=1, seed=1),
        torus,
        torus.without(switches=[torus.node_names[12]]),
    ):
        compare(fabric, patterns=("shift",), samples=2)
    wide = FabricBuilder("a switch of more ports than a byte counts")
    (switch,) = wide.switches(["s"], ports=300)
    wide.connect(np.full(3, switch), wide.hosts(["a", "b", "c"]))
    # Ports of two bytes take kernels of their own; so wide a switch is rare, and these engines fit.
    compare(wide.fabric(), ("minhop", "dmodk", "ecmp"), ("shift",), samples=2)
    broken = build("xgft:2;2,2;1,1").without(switches=["s1-0"])
    ring = FabricBuilder("ring")
    switches = ring.switches(["a", "b", "c", "d", "e"])
    ring.connect(switches, np.roll(switches, 1))
    ring.connect(switches, ring.hosts(["f", "g", "h", "i", "j"]))
    for fabric in (broken, ring.fabric()):
        for engine in ("minhop", "updn:roots=center", "ecmp"):
            validate(fabric, route(fabric, engine))
    work = load_workload("allreduce:size=1MiB", 4)
    for routes in (route(tree, "dmodk"), tree_paths, route(tree, "ecmp")):
        analyse_workload(tree, routes, work, np.arange(4))
        for sharing in get_args(Sharing):
            simulate(tree, routes, work, sharing=sharing)
    warm_contention()
    for entry in paper:
        entry.facts.get("warm", lambda: None)()


def warm_packets() -> None:
    """Run the kernels of the packet level over each kind of routes, with all that is looked at."""
    tree = build("xgft:2;2,2;1,2")
    work = load_workload("allreduce:size=64KiB", 4)
    weights = VlArbitration(high=((0, 1),))
    for engine, policy in (
        ("dmodk", "deterministic"), ("smodk", "deterministic"), ("ecmp", "adaptive"),
    ):  # fmt: skip
        found = simulate_packets(
            tree, route(tree, engine), work, policy=policy, snapshot_ns=1000.0,
            hardware=Hardware(vl_arbitration=weights), trace=work.messages[:1].tolist(),
        )  # fmt: skip
        found.messages()
    # Hosts that forward, and several lanes.
    ring = build("torus:5")
    simulate_packets(ring, route(ring, "dfsssp"), load_workload("alltoall:size=64", 5))


def warm_contention() -> None:
    """Run the kernels of contention graphs: small and large ones, and those that fits ask for."""
    many = np.arange(1, 400)
    for destinations in (many[:1], many):
        penalties(np.zeros_like(destinations), destinations)
        predict(np.zeros_like(destinations), destinations, 1)
    ends = np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.int32)
    synchronous_times(np.arange(2), *ends, np.full(1, 2), INFINIBAND.coefficients(), np.zeros(1))
