"""Fast-forward of the packet level: what repeats itself is skipped, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.packet_runs import PLAIN, fabric_of, puts, run
from tests.settling_workloads import settling_run

import weft
from weft import CongestionControl, Hardware, InputError, WorkloadBuilder
from weft.kernels.packet import steady
from weft.kernels.packet.net import Net
from weft.sim.common.progress import Progress, StopRun
from weft.sim.options import RunSettings
from weft.sim.packet.fast_forward import FastForward
from weft.sim.packet.result import PacketResult

EXACT = (
    "posted_ps", "ended_ps", "left_ps", "arrived_ps", "end_ps", "packets", "wire_bytes",
    "wait_ps", "busy_ps", "blocked_ps", "buffer_wait_ps", "num_hops", "hop",
)  # fmt: skip
#: Three hosts at one switch; two at another, behind one cable.
HOSTS, TRUNKS = (0, 0, 0, 1, 1), ((0, 1),)


def assert_same(full: PacketResult, skipped: PacketResult) -> None:
    """Compare all times and counters, which must be equal to the picosecond."""
    assert full.skipped is None
    for name in EXACT:
        np.testing.assert_equal(getattr(skipped, name), getattr(full, name), err_msg=name)
    # Credits that came back after the last packet count as held until a sender needs them.
    assert {**full.conservation, "held_credits": 0} == {**skipped.conservation, "held_credits": 0}


def both(*arguments: Any, **options: Any) -> PacketResult:
    """Compare a run with and without fast-forward; return the latter."""
    skipped = run(*arguments, fast_forward=0.01, **options)
    assert_same(run(*arguments, **options), skipped)
    return skipped


def share(result: PacketResult) -> float:
    """Return the share of packet-hops that were skipped."""
    assert result.skipped is not None
    return result.skipped.hops / result.num_hops


def test_a_single_message_is_skipped_but_for_its_begin_and_end() -> None:
    result = both(fabric_of(HOSTS, TRUNKS), puts(5, (0, 3, 1_000_000)))
    assert result.skipped is not None
    assert result.skipped.times == 1
    assert result.num_events < 60  # of 3,000


def test_a_ring_allreduce_is_the_full_run_to_the_picosecond() -> None:
    fabric = weft.fabric("xgft:2;4,4;1,2,rate=100")
    routes = weft.route(fabric, "dmodk")
    work = weft.load_workload("allreduce:size=64MiB,algorithm=ring", 16)
    full, skipped = (
        weft.simulate(fabric, routes, work, level="packet", fast_forward=error)
        for error in (0.0, 0.01)
    )
    assert_same(full, skipped)
    assert share(skipped) > 0.98


@pytest.mark.parametrize(
    "hardware",
    [PLAIN, Hardware(adapter_gbps=40.0), Hardware(queues="voq", quantum_bytes=5000)],
    ids=["plain", "slow memory", "virtual output queues"],
)
@pytest.mark.parametrize("lane_of", [None, (0, 1, 0, 1, 0)], ids=["one lane", "two lanes"])
def test_messages_that_share_a_cable_are_skipped_together(
    hardware: Hardware, lane_of: tuple[int, ...] | None
) -> None:
    work = puts(5, (0, 3, 900_000), (1, 3, 1_500_000), (2, 4, 700_000), (4, 0, 900_000))
    assert share(both(fabric_of(HOSTS, TRUNKS), work, hardware, lane_of=lane_of)) > 0.8


@pytest.mark.parametrize("late_ns", [20_000.0, 20_051.2, 77_777.0, 98_304.0])
def test_a_message_that_joins_later_meets_the_state_of_that_time(late_ns: float) -> None:
    builder = WorkloadBuilder(5)
    builder.put(0, 3, 2_000_000)
    builder.put(1, 3, 2_000_000)
    for rank in (2, 4):
        builder.calc(rank, late_ns)
    builder.put(2, 3, 300_000)
    builder.put(4, 0, 300_000)  # begins at the same time, elsewhere
    assert share(both(fabric_of(HOSTS, TRUNKS), builder.build())) > 0.8


def test_parts_without_common_links_are_skipped_apart() -> None:
    builder = WorkloadBuilder(5)
    builder.put(0, 1, 2_000_000)
    for _ in range(20):  # one short message after the other, which never settle
        builder.send(3, 4, 3000)
        builder.recv(4, 3, 3000)
    result = both(fabric_of(HOSTS, TRUNKS), builder.build())
    assert result.skipped is not None
    assert result.skipped.times == 1


def test_messages_wait_behind_others_of_their_queue_pair() -> None:
    work = puts(5, (0, 3, 500_000), (0, 3, 500_000), (0, 4, 500_000), (1, 3, 1_000_000))
    for pairs in ("pair", "host"):
        hardware = Hardware(queue_pairs=pairs)
        assert share(both(fabric_of(HOSTS, TRUNKS), work, hardware)) > 0.8


def test_every_hop_of_a_traced_message_is_simulated() -> None:
    work = puts(5, (0, 1, 500_000), (3, 4, 300_000))
    result = both(fabric_of(HOSTS, TRUNKS), work, trace=[int(work.messages[1])])
    assert len(result.hop) == 2 * 300
    assert result.skipped is not None
    assert result.skipped.times == 1


@pytest.mark.parametrize(
    ("short", "last", "rests"), [(3000, 40_000, True), (40_000, 4_000_000, False)]
)
def test_watching_rests_while_it_does_not_pay(
    short: int, last: int, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, stop = [], FastForward.stop

    def look(self: FastForward, net: Net) -> None:
        states.append(self.state.state.copy())
        assert net.rules.is_watched != rests
        stop(self, net)

    monkeypatch.setattr(FastForward, "stop", look)
    fabric, random = weft.fabric("xgft:2;4,4;1,2,rate=100"), np.random.default_rng(1)
    builder, ranks = WorkloadBuilder(16), np.arange(16)
    for _ in range(100):  # random pairs, whose traffic never settles
        targets = (ranks + random.integers(1, 16, 16)) % 16
        for source, target in enumerate(targets.tolist()):
            builder.put(source, target, int(random.integers(1, short)))
    for source in range(16):
        builder.put(source, (source + 5) % 16, last)
    full, skipped = (
        weft.simulate(
            fabric, weft.route(fabric, "dmodk"), builder.build(), level="packet", fast_forward=error
        )
        for error in (0.0, 0.01)
    )
    assert_same(full, skipped)
    (state,) = states
    assert (state["rests_until"] > 0) == rests
    free = steady.START + steady.OF_LINK * fabric.num_links
    assert free < state["spent"] < free + steady.OF_HOP * full.num_hops / 4
    assert (share(skipped) > 0.4) != rests


def test_programs_of_short_messages_are_not_watched() -> None:
    fabric = fabric_of(HOSTS, TRUNKS)
    size = steady.SHORTEST * PLAIN.mtu_bytes
    for last, watched in ((size - 1, False), (size, True)):
        result = both(fabric, puts(5, *((3, 0, 1000) for _ in range(200)), (1, 2, last)))
        assert (share(result) > 0) == watched


@pytest.mark.parametrize("max_time_ns", [30_000.0, 99_999.0])
def test_a_time_limit_is_kept(max_time_ns: float) -> None:
    result = both(fabric_of(HOSTS, TRUNKS), puts(5, (0, 3, 9_000_000)), max_time_ns=max_time_ns)
    assert not result.complete
    assert share(result) > 0.5


def test_a_stopped_run_has_what_had_been_skipped_by_then() -> None:
    def stop(progress: Progress) -> None:
        if progress.now_ns > 50_000:
            raise StopRun

    work = puts(5, (0, 3, 100_000_000), *((1, 2, 1000) for _ in range(3000)))
    fabric = fabric_of(HOSTS, TRUNKS)
    result = weft.simulate(
        fabric, weft.route(fabric, "minhop"), work, level="packet", hardware=PLAIN,
        fast_forward=0.01, progress=stop,
    )  # fmt: skip
    assert not result.complete
    sent = result.conservation["injected_packets"]
    assert abs(sent * 102.4 - 2 * result.end_ps / 1000) < 3000


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_are_the_full_runs(seed: int) -> None:
    compare(seed, 2**20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 220))
def test_more_random_runs_are_the_full_runs(seed: int) -> None:
    compare(seed, 2**26)


def compare(seed: int, largest_bytes: int) -> None:
    """Compare a random run with and without fast-forward."""
    kind, fabric, routes, work, hardware = settling_run(seed, largest_bytes)
    full, skipped = (
        weft.simulate(
            fabric, routes, work, level="packet", hardware=hardware, seed=seed, fast_forward=error
        )
        for error in (None, 0.01)
    )
    assert_same(full, skipped)
    long = work.size_bytes.max() > 200 * hardware.mtu_bytes  # others may end before they settle
    assert share(skipped) > 0 or kind == "collective" or not long


def test_the_error_may_be_given_in_percent() -> None:
    assert RunSettings.at("packet", {"fast_forward": "1%"}).fast_forward == 0.01
    assert RunSettings.at("packet", {"fast_forward": "0.01"}).fast_forward == 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fast_forward": "20%"}, r"expected a share from 0 to 0\.1, such as 0\.01 or 1%"),
        ({"fast_forward": 2.0}, r"expected a share from 0 to 0\.1, such as 0\.01"),
        ({"fast_forward": -0.01}, r"expected a share from 0 to 0\.1"),
        ({"fast_forward": float("nan")}, "fast_forward"),
        ({"hardware": Hardware(congestion_control=CongestionControl())}, "switch it off"),
        ({"snapshot_ns": 1000.0}, "take no snapshots"),
        ({"policy": "spray"}, "policy spray chooses a path for each packet: use .* such as ecmp"),
        ({"policy": "adaptive"}, "policy adaptive chooses"),
        ({"threads": 2}, "threads 2: this run needs 1 thread, because fast_forward sets back time"),
    ],
)
def test_what_does_not_settle_is_refused(options: dict[str, Any], message: str) -> None:
    fabric = weft.fabric("xgft:2;2,2;1,2")
    engine = "ecmp" if "policy" in options else "dmodk"
    with pytest.raises(InputError, match=message):
        weft.simulate(
            fabric, weft.route(fabric, engine), puts(4, (0, 3, 1000)), level="packet",
            **{"fast_forward": 0.01, **options},
        )  # fmt: skip


def test_lids_in_turn_and_open_loop_traffic_are_refused() -> None:
    fabric = weft.fabric("xgft:2;2,2;1,2")
    routes = weft.route(fabric, "dmodk:lmc=1")
    with pytest.raises(InputError, match="use lids first or hash"):
        weft.simulate(
            fabric, routes, puts(4, (0, 3, 1000), (0, 3, 1000)), level="packet",
            fast_forward=0.01, lids="spread",
        )  # fmt: skip
    work = weft.load_workload("open-loop:duration=5us", 4)
    with pytest.raises(InputError, match="use closed-loop traffic"):
        weft.simulate(fabric, routes, work, level="packet", fast_forward=0.01)
