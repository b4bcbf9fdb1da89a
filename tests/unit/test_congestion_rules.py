"""Rules of congestion control that only few runs come to, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from tests.packet_runs import PLAIN, D, L, R, fabric_of, puts, run

from weft import CongestionControl
from weft.sim.packet import CongestionRecord, PacketResult
from weft.workload import WorkloadBuilder

#: Each queue pair pauses after a packet for as long as the packet took.
PAUSES = CongestionControl(threshold=0, ccti_min=1, ccti_limit=1, cct=((0, 0), (0, 1)))
#: Two packets of 16 credits that wait are too many, one is not; every mark is taken.
MARKS = CongestionControl(threshold=15, marking_rate=0, cct=((0, 0),))


def record_of(result: PacketResult) -> CongestionRecord:
    """What congestion control did in a run that had it."""
    assert result.congestion is not None
    return result.congestion


# -- queue pairs that come back (rule 4) -----------------------------------------------------------


@pytest.mark.parametrize("targets", list(permutations((1, 2, 3))))
def test_queue_pairs_that_come_back_at_once_do_so_in_order_of_their_numbers(
    targets: Sequence[int],
) -> None:
    # Packets of D, D/2 and D/4, one after the other from 0 on: the pauses of all end at 2 D.
    builder = WorkloadBuilder(4)
    for target, part in zip(targets, (1, 2, 4), strict=True):
        for _ in range(2):
            builder.put(0, target, 1024 // part - 24)
    found = run(fabric_of([0] * 4), builder.build(), replace(PLAIN, congestion_control=PAUSES))
    assert found.left_ps[::2].tolist() == [0, D, D + D // 2]
    # Numbers of queue pairs are in order of the ranks that receive.
    then = 2 * D
    for target in (1, 2, 3):
        place = targets.index(target)
        assert found.left_ps[2 * place + 1] == then
        then += D >> place


@pytest.mark.parametrize("late", [0, 5])
@pytest.mark.parametrize("targets", list(permutations((1, 2, 3))))
def test_queue_pairs_that_come_back_go_behind_those_in_line(
    targets: Sequence[int], late: int
) -> None:
    # As before; a fourth one sends from 7/4 D on for D, and a fifth one, whose number is the
    # lowest or the highest of all, is in the line when the three come back at 2 D.
    builder = WorkloadBuilder(7)
    for target, part in zip(targets, (1, 2, 4), strict=True):
        for _ in range(2):
            builder.put(6, target, 1024 // part - 24)
    builder.put(6, 4, 1000)
    builder.put(6, late, 1000, release_ns=1.9 * D / 1000)
    found = run(fabric_of([0] * 7), builder.build(), replace(PLAIN, congestion_control=PAUSES))
    assert found.left_ps[6:].tolist() == [7 * D // 4, 11 * D // 4]
    then = 15 * D // 4
    for target in (1, 2, 3):
        place = targets.index(target)
        assert found.left_ps[2 * place + 1] == then
        then += D >> place


@pytest.mark.parametrize(
    ("released", "held"), [(0, 3.0), (0.5, 3.0), (1, 3.0), (2.5, 1.5), (3.9, 0.1), (4, 0), (7, 0)]
)
def test_a_queue_pair_is_held_back_while_it_has_something_to_send(
    released: float, held: float
) -> None:
    # Its first packet leaves at 0, the second may not before 4 D.
    control = replace(PAUSES, cct=((0, 0), (0, 3)))
    builder = WorkloadBuilder(2)
    builder.put(0, 1, 1000)
    builder.put(0, 1, 1000, release_ns=released * D / 1000)
    found = run(fabric_of([0] * 2), builder.build(), replace(PLAIN, congestion_control=control))
    assert found.left_ps.tolist() == [0, max(4, released) * D]
    assert record_of(found).held_back_ps.tolist() == [round(held * D)]


# -- marks (rule 1) --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "marked"), [((3, 3, 3, 2), 1), ((3, 2, 3, 3), 0), ((3, 2, 3, 3, 3), 1)]
)
def test_packets_stuck_behind_others_mark_nothing(targets: Sequence[int], marked: int) -> None:
    # The cable of host 3 takes 4 D for a packet. That of host 0 is there first; meanwhile host 1
    # fills its input queue, from which the second packet leaves when all of four have come.
    # Where the next in front is for host 2, the two behind it do not wait for host 3's link, yet.
    fabric = fabric_of([0] * 4, rates=[80.0, 80.0, 80.0, 20.0])
    work = puts(4, (0, 3, 1000), *((1, target, 1000) for target in targets))
    hardware = replace(PLAIN, queue_pairs="host", congestion_control=MARKS)
    found = run(fabric, work, hardware, trace=list(range(1 + len(targets))))
    to_host = int(np.flatnonzero(fabric.link_to == fabric.host_nodes[3])[0])
    leaves = found.hop[found.hop["link"] == to_host]["left_ps"]
    assert leaves[:2].tolist() == [L + R, L + R + 4 * D]
    counts = record_of(found).marked.sum(1)
    assert counts[to_host] == counts.sum() == marked
