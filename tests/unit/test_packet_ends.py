"""How runs of the packet level end: with all there, cut off on the way, or deadlocked."""

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
from weft.sim.flow.engine import Progress
from weft.sim.packet import StopRun, state
from weft.sim.sweep.one_load import Network

#: From a first byte's leaving a host to the last one's arrival behind one switch.
THROUGH = L + R + L + D


@pytest.mark.parametrize("size_bytes", [1000, 2000, 5000])
def test_a_ring_deadlocks_also_when_all_has_left_its_hosts(size_bytes: int) -> None:
    ring = fabric_of(range(5), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    work = puts(5, *[(host, (host + 2) % 5, size_bytes) for host in range(5)])
    with pytest.raises(InputError, match=r"the network is deadlocked .* in a cycle"):
        run(ring, work, replace(PLAIN, buffer_bytes=1024))


def ring_and_others() -> tuple[weft.Fabric, weft.Workload]:
    """A ring whose messages all go two switches on, and two hosts of one switch that go on."""
    ring = fabric_of([0, 1, 2, 3, 4, 0, 0], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    builder = weft.WorkloadBuilder(7)
    for host in range(5):
        builder.put(host, (host + 2) % 5, 50_000)
    for number in range(50):
        builder.put(5, 6, 1000, release_ns=1000.0 * number)
    return ring, builder.build()


def test_a_deadlock_in_a_part_of_the_network_is_told_when_the_run_is_cut() -> None:
    tight = replace(PLAIN, buffer_bytes=1024)
    ring, work = ring_and_others()
    found = run(ring, work, tight, max_time_ns=20_000)
    assert not found.complete
    assert found.deadlock.startswith("the one behind s0[")
    assert found.deadlock.count("which waits for") == 5
    assert "Deadlock in a part of the fabric" in "\n".join(packet_lines(found))
    with pytest.raises(InputError, match="deadlocked"):
        run(ring, work, tight)


def test_what_is_only_slow_is_no_deadlock() -> None:
    """Full buffers all the way to a hot spot, at moments of all kinds."""
    ring = fabric_of([0, 1, 2, 3, 4, 2], [(0, 1), (1, 2), (2, 3), (3, 4)])
    work = puts(6, *[(host, 5, 20_000) for host in range(5)])
    tight = replace(PLAIN, buffer_bytes=1024)
    for limit_ps in range(D // 7, 60 * D, D // 3):
        assert run(ring, work, tight, max_time_ns=limit_ps / 1000).deadlock == ""


@pytest.mark.parametrize("limit_ps", [0, D - 1, D, THROUGH - 1, THROUGH, THROUGH + 1])
@pytest.mark.parametrize("control", [None, CongestionControl()])
def test_a_put_arrives_when_it_is_there_not_when_it_has_left(limit_ps, control) -> None:
    hardware = replace(PLAIN, congestion_control=control)
    result = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)), hardware, max_time_ns=limit_ps / 1000)
    there = limit_ps >= THROUGH
    assert result.complete == there
    assert result.end_ps == min(limit_ps, THROUGH)
    assert result.arrived_ps.tolist() == [THROUGH if there else -1]
    assert result.ended_ps.tolist() == [D if limit_ps >= D else -1]


@pytest.mark.parametrize("instants", range(1, 5))
def test_a_put_that_is_on_its_way_when_a_run_is_stopped_has_not_arrived(
    instants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []

    def stop(now: Progress) -> None:
        stopped.append(round(now.now_ns * 1000))
        raise StopRun

    whole = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)))
    step = state.State.step
    monkeypatch.setattr(state.State, "step", lambda self, _: step(self, instants))
    part = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)), progress=stop)
    assert part.end_ps == (whole.end_ps if part.complete else stopped[0])
    for name in ("left_ps", "arrived_ps", "ended_ps"):
        happened = np.where(getattr(whole, name) > part.end_ps, -1, getattr(whole, name))
        assert np.array_equal(getattr(part, name), happened)


def test_a_queue_pair_that_pauses_after_all_is_over_holds_no_run_open() -> None:
    # After its one packet it would have to wait for 100 packets' time.
    control = CongestionControl(ccti_min=1, cct=((0, 0), (0, 100)))
    hardware = replace(PLAIN, congestion_control=control)
    limit_ps = THROUGH + 10 * D
    result = run(fabric_of([0, 0]), puts(2, (0, 1, 1000)), hardware, max_time_ns=limit_ps / 1000)
    assert result.complete
    assert result.end_ps == THROUGH


def test_an_interrupt_that_progress_raises_is_the_caller_s() -> None:
    """Sweeps end by it; a run that was cut off by it would count as one that took its time."""

    def interrupted(now: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(fabric_of([0, 0]), puts(2, (0, 1, 10**7)), progress=interrupted)


def test_an_open_loop_run_that_is_interrupted_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = fabric_of([0, 0])
    network = Network(fabric, weft.route(fabric, "minhop"))

    def interrupted(self: state.State, instants: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(state.State, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        network.run(puts(2, (0, 1, 1000)), 0, 1e6, None)


def test_steps_that_end_early_are_no_reason_for_longer_ones(monkeypatch) -> None:
    """As a step is not interrupted, one that is far too long would keep an interrupt waiting."""
    asked = []
    step = state.State.step
    monkeypatch.setattr(
        state.State, "step", lambda self, instants: asked.append(instants) or step(self, instants)
    )
    run(fabric_of([0, 0]), puts(2, (0, 1, 100_000)), snapshot_ns=100)
    assert len(asked) > 50
    assert set(asked) == {1000}


@pytest.mark.parametrize("lines", range(12))
def test_an_interrupt_while_room_is_made_leaves_what_is_known(
    lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupts may come between any two lines; that nothing got lost is proved of every run."""
    grow, came = state.State._grow, []

    def interrupted(self: state.State) -> None:
        left = lines

        def trace(frame: FrameType, event: str, arg: object) -> object:
            nonlocal left
            if frame.f_code is grow.__code__ and event == "line":
                if left == 0:
                    came.append(frame.f_lineno)
                    raise KeyboardInterrupt
                left -= 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            grow(self)
        finally:
            sys.settrace(before)

    monkeypatch.setattr(state.State, "_grow", interrupted)
    work = puts(3, (0, 2, 2_000_000), (1, 2, 2_000_000))
    result = run(fabric_of([0] * 3), work, replace(PLAIN, buffer_bytes=2**22))
    assert result.complete == (not came)
    assert came or lines > 2


def test_ranks_of_one_host_need_no_cables() -> None:
    bare = fabric_of([0, 0]).without(cables=[0, 1])
    routes = weft.route(bare, "minhop")
    result = weft.simulate(bare, routes, puts(2, (0, 1, 1000)), [0, 0], level="packet")
    # 8,000 bits at 100 Gb/s, then 200 ns.
    assert arrivals(result) == [280_000]
