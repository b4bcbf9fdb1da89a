"""Rarely exercised rules of congestion control, computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from tests.packet_runs import PLAIN, D, L, R, fabric_of, puts, run

from weft import CongestionControl
from weft.sim.packet import CongestionRecord
from weft.sim.packet.result import PacketResult
from weft.workload import WorkloadBuilder

#: After each packet, its queue pair pauses for the duration of that packet.
PAUSES = CongestionControl(threshold=0, ccti_min=1, ccti_limit=1, cct=((0, 0), (0, 1)))
#: Two waiting packets of 16 credits each exceed the threshold, one does not. While the threshold
#: is exceeded, all packets are marked.
MARKS = CongestionControl(threshold=15, marking_rate=0, cct=((0, 0),))


def record_of(result: PacketResult) -> CongestionRecord:
    """Return the congestion-control record of a run."""
    assert result.congestion is not None
    return result.congestion


# -- queue pairs that resume (rule 4) --------------------------------------------------------------


@pytest.mark.parametrize("targets", list(permutations((1, 2, 3))))
def test_queue_pairs_that_resume_together_are_served_in_order_of_number(
    targets: Sequence[int],
) -> None:
    # The first packets take D, D/2 and D/4, back to back from 0; all three pauses end at 2 D.
    builder = WorkloadBuilder(4)
    for target, part in zip(targets, (1, 2, 4), strict=True):
        for _ in range(2):
            builder.put(0, target, 1024 // part - 24)
    result = run(fabric_of([0] * 4), builder.build(), replace(PLAIN, congestion_control=PAUSES))
    assert result.left_ps[::2].tolist() == [0, D, D + D // 2]
    # Queue pairs are numbered in order of the receiving ranks.
    then = 2 * D
    for target in (1, 2, 3):
        place = targets.index(target)
        assert result.left_ps[2 * place + 1] == then
        then += D >> place


@pytest.mark.parametrize("late", [0, 5])
@pytest.mark.parametrize("targets", list(permutations((1, 2, 3))))
def test_queue_pairs_that_resume_go_behind_those_already_queued(
    targets: Sequence[int], late: int
) -> None:
    # As in the test above, three queue pairs resume at 2 D. A fourth one sends from 7/4 D for D; a
    # fifth one, with the lowest or the highest number, is already queued at 2 D.
    builder = WorkloadBuilder(7)
    for target, part in zip(targets, (1, 2, 4), strict=True):
        for _ in range(2):
            builder.put(6, target, 1024 // part - 24)
    builder.put(6, 4, 1000)
    builder.put(6, late, 1000, release_ns=1.9 * D / 1000)
    result = run(fabric_of([0] * 7), builder.build(), replace(PLAIN, congestion_control=PAUSES))
    assert result.left_ps[6:].tolist() == [7 * D // 4, 11 * D // 4]
    then = 15 * D // 4
    for target in (1, 2, 3):
        place = targets.index(target)
        assert result.left_ps[2 * place + 1] == then
        then += D >> place


@pytest.mark.parametrize(
    ("released", "held"), [(0, 3.0), (0.5, 3.0), (1, 3.0), (2.5, 1.5), (3.9, 0.1), (4, 0), (7, 0)]
)
def test_held_back_time_counts_only_while_there_are_packets_to_send(
    released: float, held: float
) -> None:
    # The first packet leaves at 0; the second may not leave before 4 D.
    control = replace(PAUSES, cct=((0, 0), (0, 3)))
    builder = WorkloadBuilder(2)
    builder.put(0, 1, 1000)
    builder.put(0, 1, 1000, release_ns=released * D / 1000)
    result = run(fabric_of([0] * 2), builder.build(), replace(PLAIN, congestion_control=control))
    assert result.left_ps.tolist() == [0, max(4, released) * D]
    assert record_of(result).held_back_ps.tolist() == [round(held * D)]


# -- marks (rule 1) --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "marked"), [((3, 3, 3, 2), 1), ((3, 2, 3, 3), 0), ((3, 2, 3, 3, 3), 1)]
)
def test_packets_behind_a_packet_for_another_link_do_not_count_for_marks(
    targets: Sequence[int], marked: int
) -> None:
    # A packet takes 4 D on the cable of host 3; host 0's packet is the first there. Meanwhile all
    # packets of host 1 arrive in one input queue. If the second of them is for host 2, the packets
    # behind it do not yet wait for host 3's link.
    fabric = fabric_of([0] * 4, rates=[80.0, 80.0, 80.0, 20.0])
    work = puts(4, (0, 3, 1000), *((1, target, 1000) for target in targets))
    hardware = replace(PLAIN, queue_pairs="host", congestion_control=MARKS)
    result = run(fabric, work, hardware, trace=list(range(1 + len(targets))))
    to_host = int(np.flatnonzero(fabric.link_to == fabric.host_nodes[3])[0])
    leaves = result.hop[result.hop["link"] == to_host]["left_ps"]
    assert leaves[:2].tolist() == [L + R, L + R + 4 * D]
    counts = record_of(result).marked.sum(1)
    assert counts[to_host] == counts.sum() == marked
