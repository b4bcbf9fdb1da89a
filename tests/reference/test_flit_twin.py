"""The flit level against its reference: random fabrics, routers and loads, at several stops."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import weft
from tests.flit_runs import Run, holding
from tests.reference.flit_parts import Lane, Packet
from tests.reference.flit_twin import PlainFlits
from tests.reference.packet_cases import fabric_of
from weft.fabrics import Fabric
from weft.sim.flit.network import waits_of
from weft.sim.flit.router import Router
from weft.sim.flit.traffic import Load

#: Switch of each host, and cables between switches.
BY_HAND = {
    "one switch": ([0] * 5, []),
    "8 ports": ([0] * 8, []),
    "64 ports": ([0] * 64, []),
    "parallel cables": ([0, 0, 0, 1, 1, 1], [(0, 1), (0, 1)]),
    "ring": ([0, 0, 1, 2, 3, 4], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
    "irregular": ([0, 0, 0, 0, 1, 2, 2, 3], [(0, 1), (0, 1), (1, 2), (2, 3), (2, 0)]),
}
TREE = ["nca-random", "nca-adaptive"]
GRID = ["dor", "valiant"]
GRIDS = ("torus:4x5", "torus:6", "mesh:3x4", "hyperx:4x3", "torus:4x4,hosts=2", "mesh:5")
#: Fabrics, each with engines or routings. Packets deadlock where `minhop` lets them, also in the
#: reference.
FABRICS = {
    "one switch": ["minhop"],
    "parallel cables": ["minhop"],
    "irregular": ["minhop", "updn:roots=center"],
    "ring": ["minhop", "updn:roots=center"],
    "torus:3x3": ["minhop", "updn:roots=center"],
    "xgft:2;2,3;1,2": ["minhop", *TREE],
    "xgft:3;2,2,2;1,2,2": ["dmodk", *TREE],
    "xgft:2;3,2;1,2;1,2": TREE,
    "leaf-spine:leaves=3,spines=3,hosts=3": ["dmodk", *TREE],
}
#: Destinations of an endpoint: any other, one, several, and none or one.
PATTERNS = (
    *["uniform"] * 3,
    "hot-spot:fraction=0.5",
    "random-permutation:seed=3",
    "all-to-all",
    "stencil:wrap=false",
    "bisect",
)
COUNTERS = ("hops", "born", "packet_hops", "under_way")
BATCH = ("ejected", "measured", "latency", "network")


@cache
def fabric(name: str) -> Fabric:
    return fabric_of(*BY_HAND[name]) if name in BY_HAND else weft.fabric(name)


@cache
def table(name: str, engine: str) -> Any:
    return weft.route(fabric(name), engine).table


def state(run: Run) -> dict[str, Any]:
    """Return the counters and the state of lanes and endpoints; endpoints have no credits."""
    net, links = run.net, run.links
    shift, lanes = int(net.rules.lane_shift), int(net.rules.lanes)

    def of_lanes(port_of_link: Any) -> Any:
        return ((port_of_link[:, None] << shift) + np.arange(lanes)).ravel()

    into, out = of_lanes(links.input_of), of_lanes(links.output_of)
    inside = links.input_of >= links.ends

    def owner(lane: int) -> Any:
        owner = int(net.out_lanes["owner"][lane])
        if owner < 0:
            return None
        if lane >> shift >= links.ends:
            return int(links.in_link[owner >> shift]), owner & ((1 << shift) - 1)
        sent = net.sending["packet"][lane]
        packet, born = net.packets[sent], int(net.origins["born"][sent])
        return born, *(int(packet[name]) for name in ("destination", "size", "kind", "key"))

    return {
        **{name: int(net.count[name]) for name in COUNTERS},
        "flits": net.outputs["flits"][links.output_of].tolist(),
        "waits": waits_of(net)[links.input_of].tolist(),
        "owners": [owner(lane) for lane in out],
        "credits": net.out_lanes["credits"][out[inside.repeat(lanes)]].tolist(),
        "shared": net.outputs["shared"][links.output_of[inside]].tolist(),
        "buffers": net.in_lanes["count"][into].tolist(),
        "queues": net.queues["count"][out].tolist() if net.rules.output_buffer else [],
        "births": [birth if birth < 2**59 else np.inf for birth in net.endpoints["birth"].tolist()],
        **{name: net.endpoints[name].tolist() for name in ("drawn", "packets")},
        "ejected at": net.endpoints["ejected"].tolist(),
        "histogram": {int(t): int(net.histogram[t]) for t in np.flatnonzero(net.histogram)},
        "batches": [[int(batch[name]) for name in BATCH] for batch in net.batches],
    }


def plain_state(twin: PlainFlits) -> dict[str, Any]:
    """Return the same of the reference."""
    lanes = [lane for link in twin.links for lane in link.lanes]
    inside = [link for link in twin.links if not link.ends_at_endpoint]

    def owner(owner: Lane | Packet | None) -> Any:
        if owner is None:
            return None
        if isinstance(owner, Lane):
            return owner.link.number, owner.number
        return owner.born, owner.destination, owner.size, owner.kind, owner.key

    return {
        **{name: twin.count[name] for name in COUNTERS},
        "flits": [link.flits for link in twin.links],
        "waits": [twin.total_wait(link) for link in twin.links],
        "owners": [owner(lane.owner) for lane in lanes],
        "credits": [lane.credits - lane.borrowed for link in inside for lane in link.lanes],
        "shared": [link.shared for link in inside],
        "buffers": [len(lane.buffer) for lane in lanes],
        "queues": [len(lane.queue) for lane in lanes] if twin.router.output_buffer else [],
        "births": [end.birth for end in twin.endpoints],
        "drawn": [end.drawn for end in twin.endpoints],
        "packets": [end.packets for end in twin.endpoints],
        "ejected at": [end.ejected for end in twin.endpoints],
        "histogram": dict(sorted(twin.histogram.items())),
        "batches": [[batch[name] for name in BATCH] for batch in twin.batches],
    }


def run_of(
    name: str, routing: str, router: Router, load: Load, latency: Any, interval: Any, **options: Any
) -> Run:
    """Return the run of the kernel with the arguments of `Pair`."""
    named = {"routing" if routing in (*TREE, *GRID) else "engine": routing}
    times = [np.broadcast_to(time, fabric(name).num_links) for time in (latency, interval)]
    return Run(fabric(name), router, load, **named, latency=times[0], interval=times[1], **options)


class Pair:
    """The same run in the kernel and in the reference.

    Parameters
    ----------
    name
        One of `FABRICS`.
    routing
        Name of a routing, or of an engine.
    router, load, latency, interval, **options
        As in `Run`.
    """

    def __init__(
        self,
        name: str,
        routing: str,
        router: Router,
        load: Load,
        latency: Any = 1,
        interval: Any = 1,
        **options: Any,
    ):
        where = fabric(name)
        times = [np.broadcast_to(time, where.num_links) for time in (latency, interval)]
        self.run = run_of(name, routing, router, load, latency, interval, **options)
        to = routing if routing in (*TREE, *GRID) else table(name, routing)
        self.twin = PlainFlits(
            where, to, router, load, *(time.tolist() for time in times), **options
        )

    def differences(self, until: int) -> dict[str, Any]:
        """Simulate up to a cycle and return what differs: of the kernel, and of the reference."""
        self.run.until(until)
        self.twin.run(until)
        kernel, plain = state(self.run), plain_state(self.twin)
        assert kernel.keys() == plain.keys()
        return {name: (kernel[name], plain[name]) for name in kernel if kernel[name] != plain[name]}


class Draw:
    """Random settings."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)

    def one(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def upto(self, most: int, least: int = 0) -> int:
        return int(self.random.integers(least, most + 1))

    def router(self, largest: int, replies: bool) -> Router:
        one, upto = self.one, self.upto
        switching = one("wormhole", "wormhole", "cut-through", "store-and-forward")
        lanes = 2 * upto(3, 1) if replies else upto(5, 1)
        buffer, shared = upto(7, 1), one(0, 0, 1, 3, 6)
        if switching != "wormhole":
            buffer += max(largest - buffer - shared, 0)
        queue, vc_delay = one(0, 0, 1, 2, 4), one(0, 0, 1, 1, 2, 3, 17)
        return Router(
            lanes=lanes,
            buffer=buffer,
            shared_buffer=shared,
            output_buffer=queue,
            routing_delay=one(0, 0, 1, 2, 3, 19),
            vc_delay=vc_delay,
            switch_delay=one(0, 1, 2, 3, 9),
            credit_delay=one(0, 1, 2, 3, 11),
            speculative=vc_delay > 0 and one(False, True),
            allocator=one("input-first", "output-first", "islip"),
            iterations=upto(3, 1),
            arbiter=one("round-robin", "least-recent", "age"),
            input_speedup=upto(min(lanes, 3), 1),
            output_speedup=upto(max(min(queue, 3), 1), 1),
            hold_switch=queue == 0 and one(False, False, True),
            switching=switching,
            atomic=one(False, False, True),
        )

    def load(self, circuits: bool) -> Load:
        one, upto = self.one, self.upto
        least = 2 if circuits else 1
        mixed = f"{least}:0.5,{upto(4, least)}:0.2,{upto(7, least)}:0.3"
        return Load(
            rate=one(0.02, 0.1, 0.3, 0.6, 0.9, 1.0),
            pattern=one(*PATTERNS),
            size=one(least, upto(6, least), mixed),
            reply=one(0, 0, upto(5, least)),
            warmup=one(0, 17, 60),
            measure=one(41, 100, 200),
            seed=upto(2**40),
        )


def drawn(seed: int) -> dict[str, Any]:
    """Return random arguments of `Pair`."""
    draw = Draw(seed)
    name = list(FABRICS)[seed % len(FABRICS)]
    links = fabric(name).num_links
    circuits = holding(draw.one(0, 2, 30), draw.one(0, 1, 5), draw.one(0, 3))
    circuits = draw.one(None, None, circuits)
    load = draw.load(circuits is not None)
    return {
        "name": name,
        "routing": draw.one(*FABRICS[name]),
        "router": draw.router(load.largest, load.reply > 0),
        "load": load,
        "latency": draw.random.integers(1, draw.one(3, 5, 5, 13), size=links),
        "interval": draw.one(1, 1, draw.random.integers(1, draw.one(4, 4, 11), size=links)),
        "circuits": circuits,
        "window": draw.one(1, 1, 2, 3),
    }


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(60))
def test_grids_follow_the_rules(seed: int) -> None:
    settings = drawn(seed)
    draw = Draw(seed)
    classes = 2 if settings["load"].reply else 1
    settings |= {
        "name": GRIDS[seed % len(GRIDS)],
        "routing": GRID[seed // len(GRIDS) % 2],
        "router": replace(settings["router"], lanes=classes * draw.one(4, 5, 7), input_speedup=1),
        "load": replace(settings["load"], pattern=draw.one("uniform", "all-to-all")),
        "latency": draw.upto(4, 1),
        "interval": 1,
    }
    pair = Pair(**settings)
    for until in (40, 90, 180):
        assert not pair.differences(until), (until, settings)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("seed", range(240))
def test_the_kernel_follows_the_rules(seed: int) -> None:
    settings = drawn(seed)
    pair = Pair(**settings)
    for until in np.cumsum(np.random.default_rng(seed).integers(1, 60, size=6)).tolist():
        assert not pair.differences(until), (until, settings)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(170))
def test_a_run_is_the_same_for_any_number_of_threads(seed: int) -> None:
    settings = drawn(seed) | {"circuits": None}
    runs = [run_of(**settings, threads=threads) for threads in (1, 2, 3, 7)]
    for until in np.cumsum(np.random.default_rng(seed).integers(1, 120, size=4)).tolist():
        for run in runs:
            run.until(until)
        alone, *others = map(state, runs)
        for other in others:
            assert other == alone, (until, settings)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_allocates_a_busy_switch_by_the_rules(seed: int) -> None:
    draw = Draw(seed)
    router = replace(draw.router(4, False), lanes=5, routing_delay=0, iterations=draw.upto(3, 2))
    load = Load(0.9, size=draw.one(1, 3, "1:0.5,4:0.5"), warmup=0, measure=60, seed=seed)
    pair = Pair("8 ports", "minhop", router, load, window=5)
    assert not pair.differences(60), router


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("allocator", "arbiter"),
    [("input-first", "least-recent"), ("output-first", "age"), ("islip", "round-robin")],
)
def test_the_kernel_follows_the_rules_with_all_bits_of_its_masks(
    allocator: Any, arbiter: Any
) -> None:
    router = Router(
        lanes=32, buffer=2, iterations=2, input_speedup=2, allocator=allocator, arbiter=arbiter
    )
    pair = Pair("64 ports", "minhop", router, Load(0.9, size=3, warmup=5), window=32)
    for until in 20, 40:
        assert not pair.differences(until)


#: A packet alone takes few cycles, and those in the way of others wait.
QUICK = Router(lanes=2, buffer=4, vc_delay=1, switch_delay=0, credit_delay=0)


def test_long_acknowledgements_arrive_in_a_network_at_rest() -> None:
    load = Load(0.5, "shift:offset=1", size=2, warmup=0, measure=200)
    pair = Pair("one switch", "minhop", QUICK, load, circuits=holding(20))
    assert not pair.differences(200)
