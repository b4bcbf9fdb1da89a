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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Annotated, Any, get_args

import numpy as np

from weft.advice.compare import compare, default_engines
from weft.cli.compile_helpers import compile_helpers
from weft.cli.listing import KINDS
from weft.cli.option_types import FIRST, Name
from weft.cli.study_progress import Display
from weft.core.errors import InputError, NotApplicable
from weft.core.registry import wrong_name
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build
from weft.kernels.flow.contention_steps import synchronous_times
from weft.kernels.hashing import uniforms
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
from weft.sim.keys.alternatives import load_decision
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


def warmup_command(
    *,
    commands: Annotated[
        tuple[Name, ...],
        FIRST(name="--for", help="Compile only what these commands need. Default: all commands."),
    ] = (),
) -> int:
    """Compile all kernels and print how long it took.

    Example: `weft warmup --for compare,simulate`
    """
    start = time.perf_counter()
    kind = needed([name.strip() for text in commands for name in text.split(",")])
    with compile_helpers(kind) as begin, Display() as display:
        parts = parts_of(kind)
        if not parts:
            print("these commands need no kernels")
            return 0
        begin()
        for done, part in enumerate(parts):
            text = f"{len(parts) - done} of {len(parts)} groups of kernels left"
            display.show(text, done, len(parts))
            part()
    print(f"kernels are compiled; it took {time.perf_counter() - start:.1f} s")
    return 0


def needed(names: Sequence[str]) -> str:
    """Return the names of the parts that commands need, separated by commas; without names, all."""
    from weft.cli.app import commands

    known = commands()
    for name in names:
        if name not in known:
            raise InputError(wrong_name("--for: unknown command", name, known))
    wanted = {part for name in names for part in NEEDS.get(name, ALL)} if names else set(ALL)
    return ",".join(part for part in PARTS if part in wanted)


def parts_of(kind: str) -> list[Part]:
    """Return the parts with these names, the longest first."""
    return [part for name in kind.split(",") if name for part in PARTS[name]()]


def warm_comparisons() -> Iterator[Part]:
    """Yield comparisons of every engine on small fabrics, which compile the usual kernels."""
    *others, tree = _fabrics()
    for fabric in others:
        yield partial(compare, fabric, patterns=("shift",), samples=2)
    # Last: helpers of `weft compare` run the parts in reverse order, so they compile these first.
    for name in default_engines():
        yield partial(compare, tree, (name,), samples=2)


def warm_routes() -> Iterator[Part]:
    """Yield routes of every engine on the fabrics of `warm_comparisons`, and their validation."""
    for fabric in _fabrics():
        for name in default_engines():
            yield partial(_if_it_fits, _validated, fabric, name)


def warm_rare() -> Iterator[Part]:
    """Yield parts that few fabrics need: wide switches, broken trees, rings, paths as tables."""
    tree = build("xgft:2;2,2;1,2")
    wide = FabricBuilder("switch with more than 254 ports")
    (switch,) = wide.switches(["s"], ports=300)
    wide.connect(np.full(3, switch), wide.hosts(["a", "b", "c"]))
    # Comparing these engines compiles their kernels for port numbers of two bytes.
    yield partial(
        compare, wide.fabric(), ("minhop", "dmodk", "ecmp", "ar_updn"), ("shift",), samples=2
    )
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
    for entry in chain.from_iterable(KINDS.values()):
        if "warm" in entry.facts:
            yield entry.facts["warm"]


def _fabrics() -> list[Fabric]:
    """Return fabrics whose routes need most kernels; the last is a tree."""
    # Kernels that trees do not need: recognition of other structures, lanes, paths around faults.
    torus = build("torus:5x5")
    return [
        build("dragonfly:p=1,a=2,h=1"),
        build("kns:k=3,n=2").with_faults(cables=1, seed=1),
        torus,
        torus.without(switches=[torus.node_names[12]]),
        build("xgft:2;2,2;1,2"),
    ]


def _lowered(tree: Fabric) -> None:
    paths = route(tree, "smodk")
    assert isinstance(paths, PathRoutes)
    lower(tree, paths, lmc=1)


def _validated(fabric: Fabric, engine: str) -> None:
    validate(fabric, route(fabric, engine))


def _if_it_fits(run: Callable[..., None], *arguments: Any, **options: Any) -> None:
    with suppress(NotApplicable):
        run(*arguments, **options)


def _flows(tree: Fabric, engine: str, work: Workload) -> None:
    routes = route(tree, engine)
    simulate(tree, routes, work, level="static")
    for sharing in get_args(Sharing):
        simulate(tree, routes, work, sharing=sharing)


def warm_packets() -> Iterator[Part]:
    """Yield runs of the packet level for each kind of routes, with all measurements."""
    tree, dragonfly = build("xgft:2;2,2;1,2"), build("dragonfly:p=1,a=2,h=1")
    work = load_workload("allreduce:size=64KiB", 4)
    measured = {
        "hardware": Hardware(vl_arbitration=VlArbitration(high=((0, 1),))),
        "snapshot_ns": 1000.0, "trace": work.messages[:1].tolist(),
    }  # fmt: skip
    for engine, policy in (
        ("dmodk", "deterministic"), ("smodk", "deterministic"), ("ecmp", "adaptive"),
    ):  # fmt: skip
        yield partial(_packets, tree, engine, work, policy=policy, **measured)
    work = load_workload("alltoall:size=64", 4)
    for chosen in policies:
        for fabric, engine in ((tree, "ecmp"), (dragonfly, "valiant"), (dragonfly, "ugal")):
            if "choose" in chosen.facts:
                yield partial(_if_it_fits, _packets, fabric, engine, work, policy=chosen.name)
    yield partial(_packets, tree, "dmodk", work, fast_forward=0.01)
    # Hosts that forward, and several lanes.
    yield partial(_packets, build("torus:5"), "dfsssp", load_workload("alltoall:size=64", 5))


def _packets(fabric: Fabric, engine: str, work: Workload, **options: Any) -> None:
    simulate(fabric, route(fabric, engine), work, level="packet", **options).messages()


def warm_flits() -> Iterator[Part]:
    """Yield runs of the flit level for tables and for the usual routings."""
    tree, torus = build("xgft:2;2,2;1,2"), build("torus:4x4")
    work = load_workload("allreduce:size=64KiB", 4)
    yield lambda: simulate(tree, route(tree, "dmodk"), work, level="flit")
    yield partial(simulate, torus, "dor", work, level="flit")
    yield partial(simulate_flits, torus, "dor", load=Load(measure=100))


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
    network = key_network(tree)
    load_decision(network)
    scheduler = Scheduler(network, choice="installed")
    scheduler.handle(Place(0.0, made.key))
    scheduler.handle(Request(0.0, "a"))


def warm_programs() -> None:
    """Make a workload and draw random numbers, as `weft trace` and `weft convert` do."""
    load_workload("allreduce:size=64KiB", 4)
    ranks = np.zeros(1, dtype=np.int64)
    uniforms(np.uint64(0), ranks, ranks, np.zeros(1))


def warm_contention() -> None:
    """Run the kernels of small and large contention graphs and of calibration."""
    many = np.arange(1, 400)
    for destinations in (many[:1], many):
        penalties(np.zeros_like(destinations), destinations)
        predict(np.zeros_like(destinations), destinations, 1)
    ends = np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.int32)
    synchronous_times(np.arange(2), *ends, np.full(1, 2), INFINIBAND.coefficients(), np.zeros(1))


#: Name -> parts that compile its kernels, the longest first.
PARTS: dict[str, Callable[[], Iterable[Part]]] = {
    "packets": warm_packets,
    "flits": warm_flits,
    "comparisons": warm_comparisons,
    "routes": warm_routes,
    "flows": warm_flows,
    "contention": lambda: [warm_contention],
    "rare": warm_rare,
    "service": lambda: [warm_service],
    "programs": lambda: [warm_programs],
}
#: All kernels: comparisons have those of routes.
ALL = tuple(name for name in PARTS if name != "routes")
_LEVELS = ("packets", "flits", "routes", "flows")
#: Command -> names of its parts; all for commands that are not listed.
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("check", "completion", "cost", "doctor", "list", "report"), ()),
    **dict.fromkeys(("info", "route"), ("routes", "rare")),
    **dict.fromkeys(("convert", "trace"), ("programs",)),
    "calibrate": ("contention",),
    "compare": ("comparisons", "rare"),
    "flits": ("flits", "routes"),
    "predict": ("contention",),
    "serve": ("service",),
    "simulate": _LEVELS,
    "sweep": _LEVELS,
}


def help_compile(kind: str, number: int, helpers: int) -> None:
    """Run the parts from the last to the first, while the main process runs them from the first.

    Several helpers begin at evenly spaced parts. If one compiles a kernel, the others wait for
    this kernel. A helper ends as soon as the process that started it ends.
    """
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parts = parts_of(kind)[::-1]
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
