"""Snapshots of the packet level: their number, and that they do not change results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.packet_runs import PLAIN, D, L, R, fabric_of, puts, run

import weft
from weft.kernels.packet import view as packet_view
from weft.sim.packet import state


def test_every_second_snapshot_is_dropped_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = weft.fabric("xgft:2;3,3;1,2")
    routes = weft.route(fabric, "dmodk")
    work = weft.load_workload("alltoall:size=20KiB", 9)
    plain = weft.simulate(fabric, routes, work, level="packet")
    monkeypatch.setattr(state, "MAX_SNAPSHOTS", 8)
    result = weft.simulate(fabric, routes, work, snapshot_ns=100, level="packet")
    assert result.snapshots is not None
    times = result.snapshots.time_ps
    steps = np.unique(np.diff(times))
    assert 4 <= len(times) <= 8
    assert len(steps) == 1
    assert steps[0] % 200_000 == 0
    assert times[-1] > result.end_ps - 2 * steps[0]
    assert np.array_equal(result.arrived_ps, plain.arrived_ps)


def test_no_snapshot_is_taken_after_the_end() -> None:
    """Queue pairs paused by congestion control resume long after the end of the run."""
    control = weft.CongestionControl(threshold=15, marking_rate=0, cct=((0, 0), (0, 16383)))
    work = puts(4, *((source, 3, 100_000) for source in (0, 1, 2)))
    result = run(
        fabric_of([0] * 4), work, weft.Hardware(congestion_control=control), snapshot_ns=1000.0
    )
    assert result.complete
    assert result.snapshots is not None
    assert 0 <= result.end_ps - result.snapshots.time_ps[-1] < 1_000_000


@pytest.mark.parametrize(
    ("buffer_packets", "why"), [(1, packet_view.NO_CREDITS), (2, packet_view.LINK_BUSY)]
)
def test_waits_for_credits_are_distinguished_from_busy_links(buffer_packets: int, why: int) -> None:
    """While a packet leaves by a cable, the next packet waits for the cable or for credits."""
    hardware = replace(PLAIN, buffer_bytes=1024 * buffer_packets)
    fabric = fabric_of([0, 0, 1, 1], [(0, 1)])
    work = puts(4, (0, 2, 1000), (1, 3, 1000))
    result = run(fabric, work, hardware, snapshot_ns=(L + R + D // 2) / 1000)
    shots = result.snapshots
    assert shots is not None
    into = int(np.flatnonzero(fabric.link_from == fabric.host_nodes[1])[0])
    trunk = int(np.flatnonzero((fabric.link_from == 0) & (fabric.link_to == 1))[0])
    moment = int(np.flatnonzero(shots.time_ps == L + R + D // 2)[0])
    assert shots.wants[moment, into].tolist() == [trunk]
    assert shots.why[moment, into].tolist() == [why]
