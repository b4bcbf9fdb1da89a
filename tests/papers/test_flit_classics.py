"""The literature's classic networks at the flit level: zero-load latency, and throughput.

Bounds are those of the most loaded channel (`tests/reference/channel_loads.py`), which knows
definitions of routings, but no routes. Saturation is that of docs/flit-level.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.flit_runs import Run
from tests.reference import channel_loads
from tests.reference.channel_loads import Dragonfly, Flows, flows

import weft
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.flit.router import Router
from weft.sim.flit.run import FlitTraffic, simulate_flits
from weft.sim.flit.traffic import Load

#: Cycles of a router and the link after it, with the delays below.
ROUTER_CYCLES = 0 + 1 + 1 + 1
ROUTER = Router(lanes=8, buffer=8, routing_delay=0, vc_delay=1, switch_delay=1)
#: On dragonflies, the routes of `ugal` need a multiple of three lanes.
DRAGONFLY: dict[str, Any] = {"lanes": 6, "buffer": 16}

BITS = ("uniform", "transpose", "complement", "bit-reversal", "shuffle")
DIGITS = ("neighbour:dims=8x8", "tornado:dims=8x8")


class Network(NamedTuple):
    """A classic network.

    Parameters
    ----------
    spec, patterns
        The fabric, and the patterns that are defined on it.
    bound
        Function of flows: mean hops between switches, and the bound with minimal routing.
    routing
        Name of the minimal routing; or policy for the routes of `ugal`.
    """

    spec: str
    patterns: tuple[str, ...]
    bound: Callable[[Flows], tuple[float, float]]
    routing: str = "dor"


def _grid(side: int, dimensions: int, kind: str, hosts: int = 1) -> Any:
    return lambda traffic: channel_loads.grid([side] * dimensions, kind, hosts, traffic)


def _tree(traffic: Flows) -> tuple[float, float]:
    switches, bound = channel_loads.tree(4, 3, traffic)
    return switches - 1, bound


@cache
def _dragonfly(p: int, a: int) -> Dragonfly:
    return Dragonfly(fabric(f"dragonfly:p={p},a={a},h={p}"), p, a)


def _dragonfly_network(p: int, a: int) -> Network:
    hosts = p * a * (a * p + 1)
    patterns = (
        "uniform",
        f"shift:offset={p * a}",
        f"neighbour:dims={hosts}",
        f"tornado:dims={hosts}",
    )
    spec = f"dragonfly:p={p},a={a},h={p}"
    return Network(spec, patterns, lambda flows: _dragonfly(p, a).bound(flows, False), "ecmp")


NETWORKS = {
    "torus": Network("torus:8x8", BITS + DIGITS, _grid(8, 2, "ring")),
    "mesh": Network("mesh:8x8", BITS + DIGITS, _grid(8, 2, "line")),
    "tree": Network("kary-n-tree:4;3", BITS, _tree, "nca-random"),
    "butterfly 8x8": Network(
        "flattened-butterfly:k=8,n=3,hosts=1", BITS + DIGITS, _grid(8, 2, "full")
    ),
    "butterfly 4x4": Network(
        "flattened-butterfly:4;3", (*BITS, "shift:offset=4"), _grid(4, 2, "full", 4)
    ),
    "butterfly 8": Network(
        "flattened-butterfly:8;2", (*BITS, "shift:offset=8"), _grid(8, 1, "full", 8)
    ),
    "dragonfly 72": _dragonfly_network(2, 4),
    "dragonfly 1056": _dragonfly_network(4, 8),
}
CASES = [(name, pattern) for name, network in NETWORKS.items() for pattern in network.patterns]


@cache
def fabric(spec: str) -> Fabric:
    return weft.fabric(spec)


@cache
def ugal(spec: str) -> Routes:
    return weft.route(fabric(spec), "ugal")


@cache
def bound(name: str, pattern: str) -> tuple[float, float]:
    """Return the mean hops between switches and the bound of minimal routing."""
    network = NETWORKS[name]
    return network.bound(flows(pattern, fabric(network.spec).num_hosts))


def run(
    spec: str, routing: str, pattern: str, rate: float, router: Router = ROUTER,
    drain: int = 6000, **load: Any,
) -> FlitTraffic:  # fmt: skip
    """Simulate traffic with a routing by name, or a policy for the routes of `ugal`."""
    given: dict[str, Any] = {"warmup": 1000, "measure": 4000, **load}
    is_dragonfly = spec.startswith("dragonfly")
    is_policy = is_dragonfly or routing in ("ugal", "ugal-g")
    if is_dragonfly:
        router = replace(router, **DRAGONFLY)
    return simulate_flits(
        fabric(spec), ugal(spec) if is_policy else routing, policy=routing if is_policy else None,
        router=router, load=Load(rate=rate, pattern=pattern, **given), drain=drain,
    )  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("name", "pattern", "size"),
    [
        (*case, size)
        for case in CASES
        for size in (1, 8)
        if case[0] != "dragonfly 1056" or (size == 8 and case[1][0] in "us")
    ],
)
def test_zero_load_latency_is_that_of_the_formula(name: str, pattern: str, size: int) -> None:
    """Each host sends one packet, 64 cycles after the host before it, so no two packets meet."""
    network, apart = NETWORKS[name], 64
    built = fabric(network.spec)
    hosts = built.num_hosts
    load = Load(rate=1e-9, pattern=pattern, size=((size, 1.0),), warmup=0, measure=hosts * apart)
    routes: dict[str, Any] = {"routing": network.routing}
    router = ROUTER
    if network.routing == "ecmp":
        routes = {"engine": ugal(network.spec), "policy": "ecmp"}
        router = replace(router, **DRAGONFLY)
    alone = Run(built, router, load, **routes)
    sends = alone.net.endpoints["birth"] < 2**60
    alone.net.endpoints["birth"][sends] = apart * np.arange(hosts)[sends]
    net = alone.until(load.measure + apart)
    count = net.count
    measured, latency, network = (
        net.batches[name].sum() for name in ("measured", "latency", "network")
    )
    assert measured == sends.sum() > hosts / 2
    cycles = 1 + size - 1  # first link, and flits after the first
    assert network == latency == count.packet_hops * ROUTER_CYCLES + measured * cycles
    if pattern == "uniform":  # destinations are drawn
        if hosts < 100:
            assert count.packet_hops / hosts - 1 == pytest.approx(bound(name, pattern)[0], rel=0.1)
    else:
        hops = bound(name, pattern)[0]
        assert count.packet_hops == pytest.approx(measured * (hops + 1))


def test_bounds_are_those_of_the_literature() -> None:
    """Channel loads k/8 on a torus and k/4 on a mesh (Dally and Towles 2004, section 3.3.1).

    Their hosts also send to themselves, so that 63/64 of the traffic remains.
    """
    assert bound("torus", "uniform")[1] == pytest.approx(8 / 8 * 63 / 64)
    assert bound("mesh", "uniform")[1] == pytest.approx(4 / 8 * 63 / 64)
    assert bound("mesh", "transpose")[1] == pytest.approx(1 / 7)
    assert bound("torus", "tornado:dims=8x8")[1] == pytest.approx(1 / 3)
    assert bound("butterfly 8", "shift:offset=8")[1] == pytest.approx(1 / 8)
    assert bound("dragonfly 72", "shift:offset=8")[1] == pytest.approx(1 / 8)
    assert bound("dragonfly 1056", "shift:offset=32")[1] == pytest.approx(1 / 32)
    # Via third groups: 2 h flits of p hosts for each of the g - 2 cables of a group.
    for p, a in ((2, 4), (4, 8)):
        traffic = flows(f"shift:offset={p * a}", _dragonfly(p, a).hosts)
        expected = (a * p - 1) / (2 * a * p)
        assert _dragonfly(p, a).bound(traffic, True)[1] == pytest.approx(expected)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "pattern"), [case for case in CASES if case[0] not in ("tree", "dragonfly 1056")]
)
def test_throughput_comes_near_the_bound_and_never_exceeds_it(name: str, pattern: str) -> None:
    network, most = NETWORKS[name], bound(name, pattern)[1]
    assert run(network.spec, network.routing, pattern, 0.6 * most, drain=3000).settled
    if most < 0.95:
        above = run(network.spec, network.routing, pattern, 1.05 * most, drain=1000)
        assert not above.settled
        # The most loaded channel carries at most a flit in a cycle.
        assert np.max(above.flits) <= above.cycles


@pytest.mark.sampled(2)
@pytest.mark.parametrize("routing", ["nca-random", "nca-adaptive"])
@pytest.mark.parametrize("pattern", BITS)
def test_a_fat_tree_of_64_nodes_takes_half_its_load(routing: str, pattern: str) -> None:
    assert run("kary-n-tree:4;3", routing, pattern, 0.5, drain=3000).settled


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("routing", "below", "above"),
    [("dor", 0.22, 0.26), ("dal", 0.27, 0.55), ("valiant", 0.3, 0.55)],
)
def test_a_flattened_butterfly_of_64_nodes_under_its_worst_traffic(
    routing: str, below: float, above: float
) -> None:
    """All four hosts of a switch send to the next one: bound 1/4 in dimension order, 1/2 else."""
    for rate, settles in ((below, True), (above, False)):
        result = run("flattened-butterfly:4;3", routing, "shift:offset=4", rate)
        assert result.settled == settles, result


PAGE = Path(__file__).parents[2] / "docs" / "flit-level.md"
#: Routers of the page: one iteration of allocation, and with speed-up and output queues.
PLAIN = Router(lanes=8, buffer=8, vc_delay=1, switch_delay=2)
FAST = replace(PLAIN, input_speedup=2, output_speedup=2, output_buffer=8)


def printed() -> list[tuple[str, str, str, float, float, float]]:
    """Return network, routing, pattern, both saturations and bound of each cell of the page."""
    cells: list[tuple[str, str, str, float, float, float]] = []
    columns: list[tuple[str, str]] = []
    for line in PAGE.read_text().partition("## Classic networks")[2].splitlines():
        first, *rest = [cell.strip() for cell in line.strip("|").split("|")]
        if first == "pattern":
            columns = re.findall(r"\| ([\w ]+), `([\w-]+)`", line)
        for column, cell in zip(columns, rest, strict=False):
            if numbers := re.fullmatch(r"([\d.]+), ([\d.]+) of ([\d.]+)", cell):
                plain, fast, most = map(float, numbers.groups())
                pattern = next(p for p in NETWORKS[column[0]].patterns if p.startswith(first))
                cells.append((*column, pattern, plain, fast, most))
    return cells


#: Minimal routings, for which `bound` holds.
MINIMAL = ("dor", "nca-random", "nca-adaptive", "ecmp")


def test_the_page_has_all_networks_and_its_bounds_are_right() -> None:
    cells = printed()
    found = {(name, pattern) for name, _, pattern, *_ in cells}
    assert found == {case for case in CASES if case[0] != "dragonfly 1056"}
    for name, routing, pattern, plain, fast, most in cells:
        assert max(plain, fast) <= most
        if routing in MINIMAL:
            assert most == pytest.approx(
                bound(name, pattern)[1], abs=0.0051 if most > 0.2 else 6e-4
            )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "routing", "pattern", "plain", "fast", "most"), printed())
def test_saturation_is_that_of_the_page(
    name: str, routing: str, pattern: str, plain: float, fast: float, most: float
) -> None:
    times = {"warmup": 2000, "measure": 4000, "drain": 3000}
    for router, saturation in ((PLAIN, plain), (FAST, fast)):
        spec = NETWORKS[name].spec
        assert run(spec, routing, pattern, 0.95 * saturation, router, **times).settled
        if 1.05 * saturation < 1:
            assert not run(spec, routing, pattern, 1.05 * saturation, router, **times).settled


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "pattern", "rate", "settles", "most"),
    [
        ("ecmp", "shift:offset=32", 0.030, True, 0.0313),
        ("ecmp", "shift:offset=32", 0.0325, False, 0.0313),
        ("valiant", "shift:offset=32", 0.46, True, 0.4844),
        ("valiant", "shift:offset=32", 0.50, False, 0.4844),
        ("ugal", "shift:offset=32", 0.22, True, 0.5157),
        ("ugal-g", "shift:offset=32", 0.46, False, 0.5157),
        ("valiant", "uniform", 0.48, True, 0.5),
        ("ugal", "uniform", 0.88, True, 1.0),
        ("ugal-g", "uniform", 0.92, True, 1.0),
    ],
)
def test_a_dragonfly_of_1056_nodes(
    policy: str, pattern: str, rate: float, settles: bool, most: float
) -> None:
    spec = NETWORKS["dragonfly 1056"].spec
    result = run(spec, policy, pattern, rate, FAST, 1000, warmup=2000, measure=3000)
    assert result.settled == settles
    assert result.accepted <= 1.005 * most
