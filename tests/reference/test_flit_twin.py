"""The flit level against its reference: random fabrics, routers and loads, at several stops."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import weft
from tests.reference.flit_twin import Lane, PlainFlits
from tests.reference.packet_cases import fabric_of
from weft.fabrics import Fabric
from weft.kernels.flit.engine import DONE, loop
from weft.kernels.flit.net import Net
from weft.kernels.flit.routing import by_tables
from weft.routes import TableRoutes
from weft.sim.flit.network import Load, Router, flit_net, with_packets

RUN = loop(by_tables)

#: Switch of each host, and cables between switches.
BY_HAND = {
    "one switch": ([0] * 5, []),
    "64 ports": ([0] * 64, []),
    "parallel cables": ([0, 0, 0, 1, 1, 1], [(0, 1), (0, 1)]),
    "ring": ([0, 0, 1, 2, 3, 4], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
    "irregular": ([0, 0, 0, 0, 1, 2, 2, 3], [(0, 1), (0, 1), (1, 2), (2, 3), (2, 0)]),
}
#: Fabrics, each with engines. Packets deadlock where `minhop` lets them, also in the reference.
FABRICS = {
    "one switch": ["minhop"],
    "parallel cables": ["minhop"],
    "irregular": ["minhop", "updn:roots=center"],
    "ring": ["minhop", "updn:roots=center"],
    "torus:3x3": ["minhop", "updn:roots=center"],
    "xgft:2;2,3;1,2": ["minhop", "dmodk"],
    "xgft:3;2,2,2;1,2,2": ["updn", "dmodk"],
    "leaf-spine:leaves=3,spines=2,hosts=3": ["minhop", "dmodk"],
}
COUNTERS = (
    "injected",
    "ejected",
    "measured",
    "born",
    "latency",
    "network",
    "packet_hops",
    "under_way",
)


@cache
def tables(name: str, engine: str) -> tuple[Fabric, TableRoutes]:
    fabric = fabric_of(*BY_HAND[name]) if name in BY_HAND else weft.fabric(name)
    routes = weft.route(fabric, engine)
    assert isinstance(routes, TableRoutes)
    return fabric, routes


def drawn(random: np.random.Generator, ends: int) -> tuple[Router, Load]:
    """Return random settings of routers, and traffic of `ends` sources."""

    def one(*choices: Any) -> Any:
        return choices[int(random.integers(len(choices)))]

    size = one(1, 1, 2, 3, 4, 5, 6, 7)
    switching = one("wormhole", "wormhole", "cut-through", "store-and-forward")
    router = Router(
        lanes=one(1, 2, 3, 4, 5),
        buffer=int(random.integers(1 if switching == "wormhole" else size, 10)),
        routing_delay=one(0, 0, 1, 2, 3),
        vc_delay=one(0, 1, 1, 2, 3),
        switch_delay=one(0, 1, 2, 3),
        credit_delay=one(0, 1, 2, 3),
        iterations=one(1, 2, 3),
        switching=switching,
        atomic=one(False, False, True),
    )
    targets = random.integers(ends, size=ends).astype(np.int32)
    load = Load(
        rate=one(0.02, 0.1, 0.3, 0.6, 0.9, 1.0),
        size=size,
        warmup=one(0, 37, 100),
        measure=one(100, 200),
        seed=int(random.integers(2**40)),
        targets=one(None, None, random.permutation(ends).astype(np.int32), targets),
    )
    return router, load


def state(net: Net) -> dict[str, Any]:
    """Return the counters and the state of lanes and sources; endpoints have no credits."""
    inside = net.links["head_row"][net.lanes["link"]] >= 0
    return {
        **{name: int(net.count[name]) for name in ["hops", *COUNTERS]},
        "flits": net.links["flits"].tolist(),
        "owners": net.lanes["owner"].tolist(),
        "credits": net.lanes["credits"][inside].tolist(),
        "buffers": net.lanes["count"].tolist(),
        "births": net.sources["birth"].tolist(),
        "drawn": net.sources["drawn"].tolist(),
    }


def plain_state(twin: PlainFlits) -> dict[str, Any]:
    """Return the same of the reference."""
    lanes = [lane for link in twin.links for lane in link.lanes]
    links = np.array([sent.link for sent in twin.sent], dtype=np.int64)

    def owner(lane: Lane) -> int:
        return lanes.index(lane.owner) if isinstance(lane.owner, Lane) else lane.owner.number

    return {
        "hops": len(twin.sent),
        **{name: twin.count[name] for name in COUNTERS},
        "flits": np.bincount(links, minlength=len(twin.links)).tolist(),
        "owners": [-1 if lane.owner is None else owner(lane) for lane in lanes],
        "credits": [lane.credits for lane in lanes if not lane.link.ends_at_endpoint],
        "buffers": [len(lane.buffer) for lane in lanes],
        "births": [source.birth for source in twin.sources],
        "drawn": [source.drawn for source in twin.sources],
    }


def check(
    random: np.random.Generator, tables: tuple[Fabric, TableRoutes], router: Router, load: Load
) -> None:
    """Compare after each of several stops, with random latencies."""
    fabric, _ = tables
    latency = random.integers(1, 5, size=fabric.num_links)
    net = flit_net(*tables, router, load, latency)
    twin = PlainFlits(*tables, router, load, latency, net.sources["birth"])
    for until in np.cumsum(random.integers(1, 60, size=12)).tolist():
        while RUN(net, until) != DONE:
            net = with_packets(net)
        twin.run(until)
        assert state(net) == plain_state(twin), (fabric.name, until, router, load)


@pytest.mark.parametrize("seed", range(200))
def test_the_kernel_follows_the_rules(seed: int) -> None:
    random = np.random.default_rng(seed)
    name = list(FABRICS)[seed % len(FABRICS)]
    run = tables(name, str(random.choice(FABRICS[name])))
    check(random, run, *drawn(random, run[0].num_endpoints))


def test_the_kernel_follows_the_rules_with_all_bits_of_its_masks() -> None:
    random = np.random.default_rng(0)
    run = tables("64 ports", "minhop")
    check(random, run, Router(lanes=32, buffer=2, iterations=3), Load(0.9, size=3, warmup=20))
