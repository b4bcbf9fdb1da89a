"""One run on several threads: every number of the result is that of one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.packet_runs import PLAIN, D, L, R, arrivals, run
from tests.reference.packet_random import RandomCase, random_case

import weft
from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder
from weft.sim.packet import partition
from weft.sim.packet.congestion_control import CongestionControl
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.result import PacketResult
from weft.workload import Workload, WorkloadBuilder
from weft.workload.sources import open_loop

THREADS = (2, 3, 7)
#: Number of random cases, of which seven in ten can be cut, and number of cases per test.
NUM_CASES, AT_ONCE = 700, 25
#: Fields that say how the result was computed.
HOW = frozenset({"run_s", "threads", "fewer_threads", "windows"})
#: Fabrics with the policies of each that draw, remember or detour.
ADAPTIVE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "xgft:3;2,3,2;1,2,3": ("ecmp", ("spray", "conga", "adaptive:gap=200ns")),
    "dragonfly:p=2,a=4,h=2": ("ugal", ("ugal", "valiant")),
    "torus:3x3x3": ("dfsssp", ("deterministic",)),
}


def numbers(value: Any) -> Any:
    """Return what a result says, as plain values that can be compared."""
    if isinstance(value, PacketResult):
        known = {each.name for each in fields(value)} - HOW
        return {name: numbers(getattr(value, name)) for name in sorted(known)}
    if is_dataclass(value) and not isinstance(value, (Hardware, Fabric, Workload)):
        return {each.name: numbers(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return {key: numbers(each) for key, each in value.items()}
    return value if isinstance(value, (int, float, str, type(None))) else None


def assert_same(one: PacketResult, other: PacketResult, what: object) -> None:
    expected, actual = numbers(one), numbers(other)
    for name in expected:
        assert expected[name] == actual[name], f"{name} of {what} on {other.threads} threads"


def run_case(case: RandomCase, threads: int) -> PacketResult:
    result = weft.simulate(
        case.fabric, case.routes, case.workload, case.hosts, hardware=case.hardware,
        policy=case.policy, lids=case.lids if case.lids.any() else "first",
        trace=case.workload.messages, threads=threads, snapshot_ns=700.0, **case.options,
        level="packet",
    )  # fmt: skip
    assert isinstance(result, PacketResult)
    return result


def compare(first: int) -> Counter[str]:
    """Compare some random cases; count those that ran on several threads, and those refused."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + AT_ONCE):
        case = random_case(seed)
        if seed % 4 == 0:
            control = CongestionControl(
                threshold=15, marking_rate=0, per=("qp", "sl")[seed % 8 > 0]
            )
            case.hardware = replace(case.hardware, congestion_control=control)
        one = run_case(case, 1)
        for threads in THREADS:
            try:
                several = run_case(case, threads)
            except InputError as error:
                if "needs 1 thread" not in str(error):
                    raise
                seen["refused"] += 1
                continue
            assert_same(one, several, f"case {seed}")
            seen["same"] += 1
    return seen


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, NUM_CASES, AT_ONCE))
def test_random_runs_are_the_same_for_any_number_of_threads(first: int) -> None:
    seen = compare(first)
    assert seen["same"] > AT_ONCE


@pytest.mark.parametrize(
    ("spec", "policy"), [(spec, each) for spec in ADAPTIVE for each in ADAPTIVE[spec][1]]
)
def test_loaded_fabrics_are_the_same_for_any_number_of_threads(spec: str, policy: str) -> None:
    fabric = weft.fabric(spec)
    routes = weft.route(fabric, ADAPTIVE[spec][0])
    switches = len(np.unique(fabric.graph.destination_row[: fabric.num_hosts]))
    work = open_loop(
        fabric.num_hosts, "uniform", load=0.7, rate_gbps=25.0, size=5000, duration_ns=20_000.0,
        seed=3,
    )  # fmt: skip
    for control in (None, CongestionControl(threshold=12)):
        hardware = Hardware(congestion_control=control, buffer_bytes=16384)
        options: dict[str, Any] = {
            "hardware": hardware, "policy": policy, "snapshot_ns": 900.0, "level": "packet",
        }  # fmt: skip
        one = weft.simulate(fabric, routes, work, threads=1, **options)
        for threads in THREADS:
            several = weft.simulate(fabric, routes, work, threads=threads, **options)
            assert several.threads == min(threads, switches)
            assert_same(one, several, (spec, policy))


def test_letters_wait_when_their_part_has_no_room_for_them() -> None:
    """So many packets are under way that parts need more slots while they take their mail."""
    fabric = weft.fabric("xgft:2;8,6;1,4,rate=4xQDR")
    routes = weft.route(fabric, "ecmp")
    work = open_loop(
        fabric.num_hosts, "uniform", load=1.0, rate_gbps=32.0, size=64, duration_ns=5000.0,
        seed=2,
    )  # fmt: skip
    options: dict[str, Any] = {
        "hardware": Hardware(mtu_bytes=256, queues="input"), "policy": "ecmp",
        "snapshot_ns": 1500.0, "level": "packet", "seed": 2,
    }  # fmt: skip
    one = weft.simulate(fabric, routes, work, threads=1, **options)
    for threads in THREADS:
        assert_same(one, weft.simulate(fabric, routes, work, threads=threads, **options), work)


def test_a_lookahead_of_one_picosecond_more_would_be_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two packets are routed at the end of a window; that from the other part has priority."""
    builder = FabricBuilder("by hand", rate=80.0)
    switches, hosts = builder.switches(["s0", "s1"]), builder.hosts(["a", "b", "c"])
    builder.connect(switches[[0]], switches[[1]])
    builder.connect(switches[[0, 1, 1]], hosts)
    fabric = builder.fabric()
    work = WorkloadBuilder(3)
    # The second window begins as the first packet leaves its switch.
    work.put(0, 2, 1000, release_ns=1)
    work.put(1, 2, 1000, release_ns=(L + R) / 1000 + 1)
    work.put(2, 1, 1000)
    messages, hardware = work.build(), replace(PLAIN, credit_latency_ns=1000.0)
    one, two = (run(fabric, messages, hardware, threads=threads) for threads in (1, 2))
    assert_same(one, two, "packets that meet")
    routed = 1000 + 2 * (L + R)
    assert arrivals(one) == [routed + L + D, routed + L + 2 * D, L + R + L + D]
    exact = partition._lookahead
    monkeypatch.setattr(partition, "_lookahead", lambda *given: exact(*given) + 1)
    assert arrivals(run(fabric, messages, hardware, threads=2)) != arrivals(one)
