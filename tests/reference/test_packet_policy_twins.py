"""Policies with state of their own: every choice against reference implementations."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.packet_runs import fabric_of
from tests.reference.packet_layout import ps
from tests.reference.packet_policies import PlainAdaptive, PlainConga, PlainRound, Played
from weft.fabrics import Fabric
from weft.kernels.records import record
from weft.routing.routes import CandidateRoutes
from weft.sim.packet import Hardware
from weft.sim.packet.policies import conga as kernel
from weft.sim.packet.result import PacketResult
from weft.workload import WorkloadBuilder

TREES = (
    "xgft:2;3,3;1,4", "xgft:3;2,2,3;1,3,2", "xgft:3;2,3,2;1,2,3", "xgft:2;2,4;1,2",
    "middle switches first",
)  # fmt: skip
GROUPS = (
    "dragonfly:p=2,a=4,h=2",
    "megafly:p=2,leaves=2,spines=2,h=2",
    "hyperx:3x4",
    "slim-fly:q=3,hosts=1",
)


def played_run(
    fabric: Fabric, engine: str, policy: str, seed: int, pairs: int, **hardware: float
) -> tuple[PacketResult, CandidateRoutes]:
    """Simulate bursts of puts in both directions of random pairs, so that feedback can return."""
    random = np.random.default_rng(seed)
    builder = WorkloadBuilder(fabric.num_hosts)
    ends = [random.permutation(fabric.num_hosts)[:2].tolist() for _ in range(pairs)]
    for time in np.sort(random.integers(0, 6000, size=30)).tolist():
        for _ in range(int(random.integers(1, 12))):
            one, other = ends[int(random.integers(len(ends)))][:: int(random.choice([-1, 1]))]
            size = int(random.choice([0, 300, 1000, 2500]))
            builder.put(one, other, size, release_ns=float(time))
    work = builder.build()
    routes = weft.route(fabric, engine)
    assert isinstance(routes, CandidateRoutes)
    result = weft.simulate(
        fabric, routes, work, policy=policy, seed=seed, trace=work.messages.tolist(),
        hardware=Hardware(mtu_bytes=1000, buffer_bytes=3000, **hardware), level="packet",  # type: ignore[arg-type]
    )  # fmt: skip
    assert result.conservation["in_flight_packets"] == 0
    return result, routes


def middle_first() -> Fabric:
    """Build two pods, each of a middle switch (0 or 1) and a leaf (2 or 3), below three tops."""
    pods = [(2, 0), (3, 1)]
    tops = [(middle, top) for middle in (0, 1) for top in (4, 5, 6)]
    return fabric_of([2, 2, 2, 3, 3, 3], pods + tops)


def tree(spec: str, seed: int) -> Fabric:
    """Build a tree, with some slow or missing cables between switches."""
    fabric = middle_first() if spec == TREES[-1] else weft.fabric(spec)
    random = np.random.default_rng(seed)
    between = np.unique(fabric.graph.edge_link >> 1)
    if seed % 3 == 1:
        fabric = fabric.degraded(random.choice(between, 3, replace=False).tolist(), 50.0)
    if seed % 3 == 2:
        fabric = fabric.without(cables=[int(random.choice(between))])
    return fabric


@pytest.mark.sampled(5)
@pytest.mark.parametrize("spec", TREES)
@pytest.mark.parametrize("seed", range(9))
def test_conga_agrees_with_the_reference(spec: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    gap, entries = int(random.choice([50, 200, 1000])), int(random.choice([1, 5, 4096]))
    t_dre, alpha = int(random.choice([20, 100, 500])), float(random.choice([0.1, 0.3, 1.0]))
    bits, ageing = int(random.choice([1, 3, 7])), int(random.choice([300, 2000, 10**7]))
    middle = str(random.choice(["conga", "conga", "ecmp"]))
    policy = (
        f"conga:gap={gap}ns,entries={entries},t_dre={t_dre}ns,alpha={alpha},bits={bits},"
        f"ageing={ageing}ns,middle={middle}"
    )
    result, routes = played_run(tree(spec, seed), "ecmp", policy, seed, 8)
    twin = PlainConga(
        Played(result, routes), gap=ps(gap), entries=entries, alpha=alpha, t_dre=ps(t_dre),
        bits=bits, ageing=ps(ageing), middle=middle,
    )  # fmt: skip
    decisions = 0
    for packet, at, link in twin.follow():
        assert packet.hops[at][0] == link, (packet, at)
        decisions += 1
    assert decisions > 100
    assert twin.heard, "no feedback arrived anywhere"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("by", ["both", "queue", "credits"])
@pytest.mark.parametrize("gap", [0, 300])
@pytest.mark.parametrize("seed", range(3))
def test_adaptive_routing_agrees_with_the_reference(by: str, gap: int, seed: int) -> None:
    policy = f"adaptive:by={by},gap={gap}ns,entries=5"
    result, routes = played_run(tree(TREES[seed], seed), "ecmp", policy, seed, 8)
    twin = PlainAdaptive(Played(result, routes), by=by, gap=ps(gap), entries=5)
    for packet, at, link in twin.follow():
        assert packet.hops[at][0] == link, (packet, at)


@pytest.mark.parametrize("seed", range(20))
def test_feedback_rotates_and_prefers_changed_metrics(seed: int) -> None:
    random = np.random.default_rng(seed)
    uplinks, ageing = int(random.integers(1, 7)), 1000
    cells = np.zeros(uplinks + 2, dtype=kernel.CELL)
    cells["heard_to_ps"] = cells["heard_from_ps"] = -1
    before = cells.copy()
    seen: dict[int, tuple[int, int]] = {}
    news: set[int] = set()
    last_tag, now = 0, 0
    for _ in range(200):
        now += int(random.integers(400 if random.random() < 0.9 else 12 * ageing))
        if random.random() < 0.5:
            tag, level = int(random.integers(uplinks)), int(random.integers(1 << 7))
            if seen.get(tag, (-1, 0))[0] != level:
                news.add(tag)
            seen[tag] = level, now
            kernel.learn(cells, 1, tag | level << 8 | kernel.NO_TAG << 16, now)
            continue
        word = int(kernel.feedback(cells, 1, uplinks, now, ageing))
        order = [(last_tag + step) % uplinks for step in range(1, uplinks + 1)]
        eligible = [tag for tag in order if tag in news] or [tag for tag in order if tag in seen]
        if not eligible:
            assert word == kernel.NO_TAG << 16
            continue
        last_tag = eligible[0]
        news.discard(last_tag)
        level, since = seen[last_tag]
        assert (word >> 16 & 0xFF, word >> 24) == (last_tag, level >> (now - since) // ageing)
    assert (cells == before)[[0, -1]].all(), "a neighbour's table was written"


@pytest.mark.parametrize("seed", range(20))
def test_estimators_decay_at_each_tick(seed: int) -> None:
    random = np.random.default_rng(seed)
    rate, levels, alpha, quanta = float(random.choice([25, 100, 400])), set(), random.random(), 8
    period = int(random.uniform(0.5, 2) * 16e6 / rate)  # traffic uses about half of the rate
    rules = record(kernel.RULES)
    rules["tick_ps"], rules["levels"] = period, quanta
    rules["left"], rules["scale"] = 1 - alpha, quanta * 8000 * alpha / period
    estimates = np.zeros(2, dtype=kernel.ESTIMATE)
    kept, total, now = estimates[1], 0.0, 0
    for _ in range(100):
        step = int(random.integers(3 * period))
        for _ in range((now + step) // period - now // period):
            total = total * (1 - alpha) if total >= 1 else 0.0
        now, size = now + step, int(random.integers(3000))
        total += size
        kept["amount_bytes"] = size + kernel.decayed(rules, kept, now // period)
        assert kept["amount_bytes"] == total
        exact = total / (rate / 8000 * period / alpha) * quanta
        level = kernel.congestion(rules, kept, now // period, rate)
        assert abs(level - min(int(exact), 7)) <= (exact % 1 > 1 - 1e-9)
        levels.add(int(level))
    assert len(levels) > 2, "metrics must not all be the largest"
    assert estimates["amount_bytes"][0] == 0
    # One byte still counts, and the decayed amount is stored.
    kept["amount_bytes"], kept["tick"] = 1.0, 0
    assert kernel.decayed(rules, kept, 1) == 1 - alpha == kept["amount_bytes"]
    assert kernel.decayed(rules, kept, 2) == 0 == kept["amount_bytes"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("spec", GROUPS)
@pytest.mark.parametrize("engine", ["valiant", "ugal"])
@pytest.mark.parametrize("seed", range(4))
def test_paths_via_intermediates_agree_with_the_reference(
    spec: str, engine: str, seed: int
) -> None:
    by = ("both", "queue", "credits")[seed % 3]
    threshold = (0, 500)[seed // 2]
    for policy, limit in (("valiant", None), (f"ugal:threshold={threshold},by={by}", threshold)):
        result, routes = played_run(
            weft.fabric(spec), engine, policy, seed, 24, credit_latency_ns=7.0
        )
        twin = PlainRound(Played(result, routes), threshold=limit, by=by)
        intermediates = set()
        num_minimal = 0
        for packet, at, link in twin.follow():
            assert packet.hops[at][0] == link, (policy, packet, at)
            if at == 1:
                ends = {int(routes.via[row]) for row in (twin.row_of(packet), packet.goal)}
                num_minimal += packet.via is None and len(ends) > 1
                intermediates.add(packet.via)
        chooses = limit is not None and engine == "ugal"
        assert len(intermediates - {None}) > (0 if chooses else 2)
        assert (num_minimal > 0) == chooses
