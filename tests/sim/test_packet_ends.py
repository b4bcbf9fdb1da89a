"""How runs of the packet level end: complete, stopped with packets in flight, or deadlocked."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

import numpy as np
import pytest
from tests.packet_runs import PLAIN, D, L, R, arrivals, fabric_of, puts, run

import weft
from weft import CongestionControl, InputError
from weft.cli.simulate_packets_text import packet_lines
from weft.sim.common.progress import Progress, StopRun
from weft.sim.packet import state
from weft.sim.sweep.one_load import RoutedFabric

#: Time from the departure of a packet's first byte to the arrival of its last, via one switch.
THROUGH = L + R + L + D


@pytest.mark.parametrize("size_bytes", [1000, 2000, 5000])
def test_a_ring_deadlocks_even_after_all_packets_left_their_hosts(size_bytes: int) -> None:
    ring = fabric_of(range(5), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    work = puts(5, *[(host, (host + 2) % 5, size_bytes) for host in range(5)])
    with pytest.raises(InputError, match=r"the network is deadlocked .* in a cycle"):
        run(ring, work, replace(PLAIN, buffer_bytes=1024))


def ring_and_others() -> tuple[weft.Fabric, weft.Workload]:
    """Build a ring whose hosts send two switches further, and two more hosts at one switch."""
    ring = fabric_of([0, 1, 2, 3, 4, 0, 0], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    builder = weft.WorkloadBuilder(7)
    for host in range(5):
        builder.put(host, (host + 2) % 5, 50_000)
    for number in range(50):
        builder.put(5, 6, 1000, release_ns=1000.0 * number)
    return ring, builder.build()


def test_a_stopped_run_reports_a_deadlock_in_a_part_of_the_network() -> None:
    tight = replace(PLAIN, buffer_bytes=1024)
    ring, work = ring_and_others()
    result = run(ring, work, tight, max_time_ns=20_000)
    assert not result.complete
    assert result.deadlock.startswith("the buffer behind s0[")
    assert result.deadlock.count("which waits for") == 5
    assert "Deadlock in a part of the fabric" in "\n".join(packet_lines(result))
    with pytest.raises(InputError, match="deadlocked"):
        run(ring, work, tight)


def test_full_buffers_without_a_cycle_are_not_reported_as_a_deadlock() -> None:
    """Runs are stopped at many times, with full buffers along the path to a hot spot."""
    ring = fabric_of([0, 1, 2, 3, 4, 2], [(0, 1), (1, 2), (2, 3), (3, 4)])
    work = puts(6, *[(host, 5, 20_000) for host in range(5)])
    tight = replace(PLAIN, buffer_bytes=1024)
    for limit_ps in range(D // 7, 60 * D, D // 3):
        assert run(ring, work, tight, max_time_ns=limit_ps / 1000).deadlock == ""


@pytest.mark.parametrize("limit_ps", [0, D - 1, D, THROUGH - 1, THROUGH, THROUGH + 1])
@pytest.mark.parametrize("control", [None, CongestionControl()])
def test_a_put_arrives_with_its_last_byte(limit_ps, control) -> None:
    hardware = replace(PLAIN, congestion_control=control)
    result = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)), hardware, max_time_ns=limit_ps / 1000)
    arrived = limit_ps >= THROUGH
    assert result.complete == arrived
    assert result.end_ps == min(limit_ps, THROUGH)
    assert result.arrived_ps.tolist() == [THROUGH if arrived else -1]
    assert result.ended_ps.tolist() == [D if limit_ps >= D else -1]


@pytest.mark.parametrize("instants", range(1, 5))
def test_a_put_in_flight_when_a_run_is_stopped_has_not_arrived(
    instants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []

    def stop(now: Progress) -> None:
        stopped.append(round(now.now_ns * 1000))
        raise StopRun

    complete = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)))
    step = state.PacketRunState.step
    monkeypatch.setattr(state.PacketRunState, "step", lambda self, _: step(self, instants))
    partial = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)), progress=stop)
    assert partial.end_ps == (complete.end_ps if partial.complete else stopped[0])
    for name in ("left_ps", "arrived_ps", "ended_ps"):
        happened = np.where(getattr(complete, name) > partial.end_ps, -1, getattr(complete, name))
        assert np.array_equal(getattr(partial, name), happened)


def test_a_pausing_queue_pair_does_not_prolong_a_run() -> None:
    # After its only packet, the queue pair pauses for the time of 100 packets.
    control = CongestionControl(ccti_min=1, cct=((0, 0), (0, 100)))
    hardware = replace(PLAIN, congestion_control=control)
    limit_ps = THROUGH + 10 * D
    result = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)), hardware, max_time_ns=limit_ps / 1000)
    assert result.complete
    assert result.end_ps == THROUGH


def test_an_interrupt_from_progress_is_raised_to_the_caller() -> None:
    """An interrupt ends a sweep; the interrupted run must not count as a partial result."""

    def interrupted(now: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(fabric_of([0, 0]), puts(2, (0, 1, 10**7)), progress=interrupted)


def test_an_interrupt_of_an_open_loop_run_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = fabric_of([0, 0])
    network = RoutedFabric(fabric, weft.route(fabric, "minhop"))

    def interrupted(self: state.PacketRunState, instants: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(state.PacketRunState, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        network.run(puts(2, (0, 1, 1000)), 0, 1e6, None)


def test_steps_that_end_early_do_not_lengthen_the_next(monkeypatch) -> None:
    """A step cannot be interrupted: a step that is too long would delay the interrupt."""
    lengths = []
    step = state.PacketRunState.step
    monkeypatch.setattr(
        state.PacketRunState,
        "step",
        lambda self, instants: lengths.append(instants) or step(self, instants),
    )
    run(fabric_of([0, 0]), puts(2, (0, 1, 100_000)), snapshot_ns=100)
    assert len(lengths) > 50
    assert set(lengths) == {1000}


@pytest.mark.parametrize("lines", range(12))
def test_an_interrupt_while_arrays_grow_keeps_the_state_consistent(
    lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupts may come between any two lines; every run checks that no packet was lost."""
    grow, interrupts = state.PacketRunState._grow, []

    def interrupted(self: state.PacketRunState, part: int) -> None:
        left = lines

        def trace(frame: FrameType, event: str, arg: object) -> object:
            nonlocal left
            if frame.f_code is grow.__code__ and event == "line":
                if left == 0:
                    interrupts.append(frame.f_lineno)
                    raise KeyboardInterrupt
                left -= 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            grow(self, part)
        finally:
            sys.settrace(before)

    monkeypatch.setattr(state.PacketRunState, "_grow", interrupted)
    work = puts(3, (0, 2, 2_000_000), (1, 2, 2_000_000))
    result = run(fabric_of([0] * 3), work, replace(PLAIN, buffer_bytes=2**22))
    assert result.complete == (not interrupts)
    assert interrupts or lines > 2


def test_ranks_of_one_host_need_no_cables() -> None:
    bare = fabric_of([0, 0]).without(cables=[0, 1])
    routes = weft.route(bare, "minhop")
    result = weft.simulate(bare, routes, puts(2, (0, 1, 1000)), [0, 0], level="packet")
    # 8,000 bits take 80 ns at 100 Gb/s; 200 ns of latency follow.
    assert arrivals(result) == [280_000]
