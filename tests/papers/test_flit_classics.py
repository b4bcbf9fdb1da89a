"""The literature's classic networks at the flit level: zero-load latency, and throughput bounds.

Bounds are those of the most loaded channel (Dally and Towles 2004, sections 3.2 and 3.3), from
paths that these tests enumerate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

import weft
from weft.sim.flit import FlitTraffic, Load, Router, simulate_flits

SIDE = 8
#: Cycles of a router and the link after it, with the delays below.
ROUTER_CYCLES = 0 + 1 + 1 + 1
ROUTER = Router(lanes=8, buffer=8, routing_delay=0, vc_delay=1, switch_delay=1)

Pattern = Callable[[int], int]


def bits(source: int) -> list[int]:
    return [source >> place & 1 for place in range(6)]


def number(of: list[int]) -> int:
    return sum(each << place for place, each in enumerate(of))


PATTERNS: dict[str, Pattern] = {
    "transpose": lambda s: number(bits(s)[3:] + bits(s)[:3]),
    "complement": lambda s: 63 - s,
    "bit-reversal": lambda s: number(bits(s)[::-1]),
    "shuffle": lambda s: number([bits(s)[5], *bits(s)[:5]]),
    "neighbour:dims=8x8": lambda s: (s % 8 + 1) % 8 + (s // 8 + 1) % 8 * 8,
    "tornado:dims=8x8": lambda s: (s % 8 + 3) % 8 + (s // 8 + 3) % 8 * 8,
}


def steps(x: int, y: int, ring: bool) -> list[tuple[Fraction, int]]:
    """Return the probability and the signed length of the ways from x to y."""
    if not ring:
        return [(Fraction(1), y - x)]
    ahead = (y - x) % SIDE
    if 2 * ahead == SIDE:
        return [(Fraction(1, 2), ahead), (Fraction(1, 2), -ahead)]
    return [(Fraction(1), ahead if 2 * ahead < SIDE else ahead - SIDE)]


def channels(source: int, target: int, ring: bool) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """Yield the probability and the channel of each hop in dimension order, x first."""
    at = [source % SIDE, source // SIDE]
    for d, goal in enumerate([target % SIDE, target // SIDE]):
        for share, length in steps(at[d], goal, ring):
            x, sign = at[d], 1 if length > 0 else -1
            for hop in range(abs(length)):
                place = (x + sign * hop) % SIDE
                yield share, (d, place, at[1 - d], sign)
        at[d] = goal


def pairs(pattern: str) -> list[tuple[Fraction, int, int]]:
    """Return the share of a source's traffic, source and destination of each flow."""
    if pattern == "uniform":
        return [(Fraction(1, 63), s, d) for s in range(64) for d in range(64) if s != d]
    flows = [(Fraction(1), s, PATTERNS[pattern](s)) for s in range(64)]
    return [flow for flow in flows if flow[1] != flow[2]]


def grid(pattern: str, ring: bool) -> tuple[float, float]:
    """Return the mean number of hops between routers, and the throughput bound."""
    load: Counter[tuple[int, ...]] = Counter()
    flows = pairs(pattern)
    for share, source, target in flows:
        for part, channel in channels(source, target, ring):
            load[channel] += share * part
    weight = sum(share for share, _, _ in flows)
    return float(sum(load.values()) / weight), min(1.0, float(1 / max(load.values())))


def run(spec: str, pattern: str, rate: float, routing: str = "dor", size: int = 1) -> FlitTraffic:
    load = Load(rate=rate, pattern=pattern, size=size, warmup=1000, measure=4000)
    return simulate_flits(weft.fabric(spec), routing, router=ROUTER, load=load, drain=6000)


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("pattern", ["uniform", *PATTERNS])
@pytest.mark.parametrize("family", ["torus", "mesh"])
def test_zero_load_latency_is_that_of_the_formula(family: str, pattern: str, size: int) -> None:
    rate = 0.0004 if size == 1 else 0.0008
    load = Load(rate=rate, pattern=pattern, size=size, warmup=0, measure=80_000, seed=3)
    result = simulate_flits(weft.fabric(f"{family}:8x8"), "dor", router=ROUTER, load=load)
    hops, _ = grid(pattern, family == "torus")
    assert result.hops - 1 == pytest.approx(hops, rel=0.05)
    # For the routers of the packets that were drawn; few packets meet another one.
    alone = 1 + result.hops * ROUTER_CYCLES + size - 1
    assert alone - 1e-9 <= result.network_latency.mean < alone + 0.1


def test_bounds_are_those_of_the_book() -> None:
    """Capacities of section 3.2: 8/k on a torus and 4/k on a mesh, with 64 hosts but themselves."""
    assert grid("uniform", True)[1] == pytest.approx(8 / 8 * 63 / 64)
    assert grid("uniform", False)[1] == pytest.approx(4 / 8 * 63 / 64)
    assert grid("transpose", False)[1] == pytest.approx(1 / 7)
    assert grid("tornado:dims=8x8", True)[1] == pytest.approx(1 / 3)


@pytest.mark.parametrize("pattern", ["uniform", *PATTERNS])
@pytest.mark.parametrize("family", ["torus", "mesh"])
def test_throughput_comes_near_the_bound_and_never_exceeds_it(family: str, pattern: str) -> None:
    bound = grid(pattern, family == "torus")[1]
    assert run(f"{family}:8x8", pattern, 0.6 * bound).settled
    if bound < 0.95:
        above = run(f"{family}:8x8", pattern, 1.05 * bound)
        assert not above.settled
        # The most loaded channel carries at most a flit in a cycle.
        assert np.max(above.flits) <= above.cycles


@pytest.mark.parametrize("routing", ["nca-random", "nca-adaptive"])
@pytest.mark.parametrize("pattern", ["uniform", "transpose", "complement", "bit-reversal"])
def test_a_fat_tree_of_64_nodes_has_its_zero_load_latency_and_takes_half_its_load(
    routing: str, pattern: str
) -> None:
    flows = pairs(pattern)
    heights = [3 if s // 16 != d // 16 else 2 if s // 4 != d // 4 else 1 for _, s, d in flows]
    routers = float(np.average([2 * h - 1 for h in heights], weights=[float(f[0]) for f in flows]))
    low = run("kary-n-tree:4;3", pattern, 0.002, routing)
    assert low.hops == pytest.approx(routers, rel=0.05)
    assert low.network_latency.mean == pytest.approx(1 + low.hops * ROUTER_CYCLES, abs=0.1)
    assert run("kary-n-tree:4;3", pattern, 0.5, routing).settled


@pytest.mark.parametrize(
    ("routing", "below", "above"),
    [("dor", 0.22, 0.26), ("dal", 0.27, 0.55), ("valiant", 0.3, 0.55)],
)
def test_a_flattened_butterfly_of_64_nodes_under_its_worst_traffic(
    routing: str, below: float, above: float
) -> None:
    """All four hosts of a switch send to the next one: bound 1/4 in dimension order, 1/2 else."""
    fabric = weft.fabric("flattened-butterfly:4;3")
    for rate, settles in ((below, True), (above, False)):
        load = Load(rate=rate, pattern="shift:offset=4", warmup=1000, measure=4000)
        result = simulate_flits(fabric, routing, router=ROUTER, load=load, drain=6000)
        assert result.settled == settles, result
