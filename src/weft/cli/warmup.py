"""`weft warmup`: compile every kernel now, so that later commands start at once.

The work consists of parts; if the cache is empty, helper processes of other commands run parts,
too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import get_args

import numpy as np

from weft.advice.compare import compare, default_engines
from weft.cli.compile_helpers import compile_helpers
from weft.cli.listing import KINDS
from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build
from weft.kernels.flow.contention_steps import synchronous_times
from weft.routing import route
from weft.routing.lower import lower
from weft.routing.routes import PathRoutes
from weft.routing.routes.mixed_tables import MixedTables, detour
from weft.routing.validation.deadlock import credit_loops
from weft.routing.validation.validate import validate
from weft.sim.flit.run import simulate_flits
from weft.sim.flit.traffic import Load
from weft.sim.flow import Sharing
from weft.sim.flow.contention import INFINIBAND
from weft.sim.flow.contention.model import penalties, predict
from weft.sim.keys.network import key_network
from weft.sim.keys.scheduler import Place, Request, Scheduler
from weft.sim.keys.tables import installed_tables
from weft.sim.packet import Hardware, VlArbitration
from weft.sim.packet.policies import policy as policies
from weft.sim.simulate import simulate
from weft.subnet.service import makers
from weft.workload import Workload, load_workload

#: Function that runs some kernels and thereby compiles them.
Part = Callable[[], object]


def warmup_command() -> int:
    """Compile all kernels and print how long it took.

    Example: `weft warmup`
    """
    start = time.perf_counter()
    with compile_helpers("all") as begin:
        begin()
        for part in PARTS["all"]():
            part()
    print(f"kernels are compiled; it took {time.perf_counter() - start:.1f} s")
    return 0


def warm_comparisons() -> Iterator[Part]:
    """Yield comparisons of every engine on small fabrics, which compile the usual kernels."""
    # Kernels that trees do not need: recognition of other structures, lanes, paths around faults.
    torus = build("torus:5x5")
    for fabric in (
        build("dragonfly:p=1,a=2,h=1"),
        build("kns:k=3,n=2").with_faults(cables=1, seed=1),
        torus,
        torus.without(switches=[torus.node_names[12]]),
    ):
        yield partial(compare, fabric, patterns=("shift",), samples=2)
    # Last: helpers of `weft compare` run the parts in reverse order, so they compile these first.
    tree = build("xgft:2;2,2;1,2")
    for name in default_engines():
        yield partial(compare, tree, (name,), samples=2)


def warm_rare() -> Iterator[Part]:
    """Yield parts that few fabrics need: wide switches, broken trees, rings, paths as tables."""
    tree = build("xgft:2;2,2;1,2")
    wide = FabricBuilder("switch with more than 254 ports")
    (switch,) = wide.switches(["s"], ports=300)
    wide.connect(np.full(3, switch), wide.hosts(["a", "b", "c"]))
    # Comparing these engines compiles their kernels for port numbers of two bytes.
    yield partial(compare, wide.fabric(), ("minhop", "dmodk", "ecmp"), ("shift",), samples=2)
    yield partial(_lowered, tree)
    broken = build("xgft:2;2,2;1,1").without(switches=["s1-0"])
    ring = FabricBuilder("ring")
    switches = ring.switches(["a", "b", "c", "d", "e"])
    ring.connect(switches, np.roll(switches, 1))
    ring.connect(switches, ring.hosts(["f", "g", "h", "i", "j"]))
    for fabric in (broken, ring.fabric()):
        for engine in ("minhop", "updn:roots=center", "ecmp"):
            yield partial(_validated, fabric, engine)


def warm_flows() -> Iterator[Part]:
    """Yield simulations at the static and the flow level for each kind of routes."""
    tree = build("xgft:2;2,2;1,2")
    work = load_workload("allreduce:size=1MiB", 4)
    for engine in ("dmodk", "smodk", "ecmp"):
        yield partial(_flows, tree, engine, work)
    yield warm_contention
    for entry in chain.from_iterable(KINDS.values()):
        if "warm" in entry.facts:
            yield entry.facts["warm"]


def _lowered(tree: Fabric) -> None:
    paths = route(tree, "smodk")
    assert isinstance(paths, PathRoutes)
    lower(tree, paths, lmc=1)


def _validated(fabric: Fabric, engine: str) -> None:
    validate(fabric, route(fabric, engine))


def _flows(tree: Fabric, engine: str, work: Workload) -> None:
    routes = route(tree, engine)
    simulate(tree, routes, work, level="static")
    for sharing in get_args(Sharing):
        simulate(tree, routes, work, sharing=sharing)


def warm_packets() -> None:
    """Run the kernels of the packet level for each kind of routes, with all measurements."""
    tree = build("xgft:2;2,2;1,2")
    work = load_workload("allreduce:size=64KiB", 4)
    weights = VlArbitration(high=((0, 1),))
    for engine, policy in (
        ("dmodk", "deterministic"), ("smodk", "deterministic"), ("ecmp", "adaptive"),
    ):  # fmt: skip
        result = simulate(
            tree, route(tree, engine), work, level="packet", policy=policy, snapshot_ns=1000.0,
            hardware=Hardware(vl_arbitration=weights), trace=work.messages[:1].tolist(),
        )  # fmt: skip
        result.messages()
    small = load_workload("alltoall:size=64", 4)
    dragonfly = build("dragonfly:p=1,a=2,h=1")
    choices = [route(tree, "ecmp"), *(route(dragonfly, name) for name in ("valiant", "ugal"))]
    for chosen in policies:
        for fabric, routes in zip((tree, dragonfly, dragonfly), choices, strict=True):
            if "choose" in chosen.facts:
                with suppress(NotApplicable):
                    simulate(fabric, routes, small, level="packet", policy=chosen.name)
    # Hosts that forward, and several lanes.
    ring = build("torus:5")
    work = load_workload("alltoall:size=64", 5)
    simulate(ring, route(ring, "dfsssp"), work, level="packet")


def warm_flits() -> None:
    """Run the kernels of the flit level for tables and for the usual routings."""
    tree, torus = build("xgft:2;2,2;1,2"), build("torus:4x4")
    work = load_workload("allreduce:size=64KiB", 4)
    simulate(tree, route(tree, "dmodk"), work, level="flit")
    simulate(torus, "dor", work, level="flit")
    simulate_flits(torus, "dor", load=Load(measure=100))


def warm_service() -> None:
    """Make, install and grant a key as `weft serve` does."""
    tree = build("xgft:3;2,2,2;1,2,2")
    hosts = np.arange(tree.num_hosts, dtype=np.int32)
    makers.initialise(tree, makers.MakerSettings(lmc=2))
    (made,) = makers.make({"a": (hosts, np.roll(hosts, 3))}, (), 0)
    assert isinstance(made, makers.MadeKey)
    base = makers.base_routes(tree, ("dmodk",))
    before, after = (installed_tables(tree, base, keys, 2, tree) for keys in ([], [made.key]))
    detour(tree, before, after)
    mixture = MixedTables.of(before, after)
    mixture.lost(tree)
    credit_loops(tree, mixture)
    scheduler = Scheduler(key_network(tree), choice="installed")
    scheduler.handle(Place(0.0, made.key))
    scheduler.handle(Request(0.0, "a"))


def warm_contention() -> None:
    """Run the kernels of small and large contention graphs and of calibration."""
    many = np.arange(1, 400)
    for destinations in (many[:1], many):
        penalties(np.zeros_like(destinations), destinations)
        predict(np.zeros_like(destinations), destinations, 1)
    ends = np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.int32)
    synchronous_times(np.arange(2), *ends, np.full(1, 2), INFINIBAND.coefficients(), np.zeros(1))


#: Kind of command -> parts that compile its kernels, the longest first.
PARTS: dict[str, Callable[[], Iterator[Part]]] = {
    "compare": warm_comparisons,
    "all": lambda: chain(
        [warm_packets, warm_flits], warm_comparisons(), warm_flows(), warm_rare(), [warm_service]
    ),
}


def help_compile(kind: str, number: int, helpers: int) -> None:
    """Run the parts from the last to the first, while the main process runs them from the first.

    Several helpers begin at evenly spaced parts. If one compiles a kernel, the others wait for
    this kernel. A helper ends as soon as the process that started it ends.
    """
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parts = list(PARTS[kind]())[::-1]
    begin = number * len(parts) // helpers
    for part in parts[begin:] + parts[:begin]:
        part()


def _end_with_parent() -> None:
    # Not `sys.stdin`: at exit Python cannot close a stream that this thread reads.
    while os.read(0, 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    help_compile(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
