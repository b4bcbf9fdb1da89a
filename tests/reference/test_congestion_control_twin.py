"""Congestion control against its reference: rates at random notifications; marks and delays."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from tests.reference.congestion_control import TIMER_PS, PlainRate, marked_again, paths_of
from tests.reference.packet_cases import PLAIN, fabric_of
from weft import CongestionControl
from weft.kernels.packet import congestion_control as kernel
from weft.sim.packet.congestion_control import control_state
from weft.workload import WorkloadBuilder


def drawn_control(rng: np.random.Generator, **more: Any) -> CongestionControl:
    entries = int(rng.integers(1, 40))
    cct = [(int(rng.integers(4)), int(rng.integers(60))) for _ in range(entries)]
    limit = int(rng.integers(entries))
    return CongestionControl(
        cct=tuple(cct), ccti_limit=limit, ccti_min=int(rng.integers(limit + 1)),
        ccti_increase=int(rng.integers(1, 5)), ccti_timer=int(rng.integers(1, 9)), **more,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(100))
def test_rates_agree_after_random_notifications(seed: int) -> None:
    rng = np.random.default_rng(seed)
    control = drawn_control(rng)
    state = control_state(control, 256, 1, 1, 1)
    settings, rate = state.settings, state.rates[0]
    plain, now, highest = PlainRate(control), np.int64(0), control.ccti_min
    for _ in range(200):
        # Some events are exactly at a tick.
        step = int(rng.integers(0, 4_000_000))
        now += np.int64(control.ccti_timer * TIMER_PS if rng.random() < 0.3 else step)
        if rng.random() < 0.5:
            kernel.notified(settings, rate, now)
            plain.notification(int(now))
        else:
            takes = np.int64(rng.integers(1, 600_000))
            delay = kernel.delay_of(settings, state.table, rate, takes, now)
            assert delay == plain.delay(int(takes), int(now))
        assert rate["index"] == plain.index
        highest = max(highest, plain.index)
    assert rate["highest"] == highest


def drawn_run(seed: int) -> Any:
    """Simulate many-to-one and other messages over 1 to 3 switches, one queue pair per host."""
    rng = np.random.default_rng(seed)
    switches = int(rng.integers(1, 4))
    hosts = sorted([*range(switches), *rng.integers(0, switches, int(rng.integers(3, 7))).tolist()])
    trunks = [(one, one + 1) for one in range(switches - 1)]
    fabric = fabric_of(hosts, trunks)
    builder = WorkloadBuilder(len(hosts))
    hot = int(rng.integers(len(hosts)))
    for source in range(len(hosts)):
        others = [host for host in range(len(hosts)) if host != source]
        goal = hot if source != hot and rng.random() < 0.7 else int(rng.choice(others))
        builder.put(source, goal, int(rng.integers(1, 30_000)))
    control = drawn_control(
        rng, threshold=int(rng.integers(1, 16)), marking_rate=0,
        victims=str(rng.choice(["none", "hosts", "all"])), per=str(rng.choice(["qp", "sl"])),
    )  # fmt: skip
    hardware = replace(
        PLAIN, queues="voq", speedup=int(rng.integers(1, 3)), congestion_control=control,
        buffer_bytes=int(rng.choice([2048, 4096, 16384])),
        credit_latency_ns=float(rng.integers(0, 50)),
    )  # fmt: skip
    work = builder.build()
    return weft.simulate(
        fabric,
        weft.route(fabric, "minhop"),
        work,
        hardware=hardware,
        trace=work.messages.tolist(),
        level="packet",
    )


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(40))
def test_marks_and_delays_of_runs(seed: int) -> None:
    result = drawn_run(seed)
    control, fabric, record = result.hardware.congestion_control, result.fabric, result.congestion
    marked = record.marked.sum(1)
    assert marked_again(result) == {int(link): int(marked[link]) for link in np.flatnonzero(marked)}
    # Arrival of the last byte of notifications, by the message that caused them.
    paths = paths_of(result)
    latency = np.rint(np.repeat(fabric.cable_latency_ns, 2) * 1000).astype(int)
    notified_at: dict[int, list[int]] = defaultdict(list)
    sent: dict[int, list[Any]] = defaultdict(list)
    for path in paths:
        if path[0].number < 0:
            notified_at[path[0].op].append(path[-1].gone + int(latency[path[-1].link]))
        else:
            sent[path[0].op].append(path[0])
    assert sum(len(times) for times in notified_at.values()) == marked.sum()
    # Each host has one message, so its queue pair is the only one of its service level and port.
    pair = result.connections.pair
    for op, hops in sent.items():
        rate, is_delayed, earliest = PlainRate(control), 0, 0
        pending = sorted(notified_at[op])
        for index, hop in enumerate(sorted(hops, key=lambda each: each.number)):
            assert hop.left >= earliest
            while pending and pending[0] <= hop.left:
                rate.notification(pending.pop(0))
            delay = rate.delay(hop.gone - hop.left, hop.left)
            earliest = hop.gone + delay
            is_delayed += delay if index + 1 < len(hops) else 0
        assert record.held_back_ps[pair[op]] == is_delayed


def test_half_of_the_drawn_runs_have_marks() -> None:
    marked = [int(drawn_run(seed).congestion.marked.sum()) for seed in range(40)]
    assert sum(count > 0 for count in marked) >= 20
