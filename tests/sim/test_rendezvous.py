"""What the messages of a rendezvous wait for: the option `rendezvous` of `weft.simulate`."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.core.errors import InputError
from weft.sim.packet.congestion_control import CongestionControl
from weft.workload import Workload, WorkloadBuilder

TREE = weft.fabric("xgft:2;2,2;1,2,rate=100")
ROUTES = weft.route(TREE, "minhop")
ENDS = [0, 3]
KIB = 1024


def exchange(size: int, late_ns: float, receive_first: bool, both: bool = True) -> Workload:
    """Return an exchange of two ranks, of which rank 1 begins late."""
    builder = WorkloadBuilder(2)
    builder.rank(1).calc(late_ns)
    for me in (0, 1):
        rank = builder.rank(me)
        calls = [rank.isend] if both or me == 0 else []
        calls += [rank.irecv] if both or me == 1 else []
        for call in reversed(calls) if receive_first else calls:
            call(1 - me, size)
        rank.wait()
    return builder.build()


def takes(level: Any, work: Workload, **options: Any) -> float:
    result: Any = weft.simulate(TREE, ROUTES, work, ENDS, level=level, **options)
    return float(result.makespan_ns)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rendezvous", ["get", "put"])
@pytest.mark.parametrize("level", ["flow", "packet", "flit"])
def test_an_exchange_uses_both_directions_however_late_one_side_is(
    level: str, rendezvous: str
) -> None:
    sizes = (64 * KIB, 256 * KIB) if level == "flit" else (64 * KIB, 300_000, 4096 * KIB)
    for size in sizes:
        alone = takes(level, exchange(size, 0, True, both=False), rendezvous=rendezvous)
        for late_ns in (0, 50, 200, 300, 340, 350, 400, 700, 1000, 2000, 5000):
            for receive_first in (False, True):
                work = exchange(size, late_ns, receive_first)
                both = takes(level, work, rendezvous=rendezvous) - late_ns
                assert both <= alone / 0.9, (size, late_ns, receive_first)


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_in_one_shared_queue_pair_a_late_exchange_takes_twice_as_long(level: str) -> None:
    alone = takes(level, exchange(1024 * KIB, 0, True, both=False))
    shared = takes(level, exchange(1024 * KIB, 2000, True), rendezvous="put-shared") - 2000
    assert shared == pytest.approx(2 * alone, rel=0.03)


@pytest.mark.parametrize(
    ("rendezvous", "left_ns"),
    [
        # The request waits for the first put. Its data do not wait for the second.
        ("get", [0, 8800, 8001]),
        # The request does not wait, and is answered before the first put has left.
        ("put", [0, 8000, 48_000]),
        # The request waits for the first put, and the data for the second.
        ("put-shared", [0, 12_001, 8001]),
    ],
)
def test_each_message_waits_for_those_before_it_in_its_queue(
    rendezvous: str, left_ns: list[float]
) -> None:
    """Puts of 8,000 ns, posted at 0, and of 4,000 ns, at 8,001; between them, a send of 40,000."""
    builder = WorkloadBuilder(2)
    builder.put(0, 1, 100_000)
    builder.isend(0, 1, 500_000)
    builder.irecv(1, 0, 500_000)
    builder.put(0, 1, 50_000, release_ns=8001)
    work = builder.build()
    result = weft.simulate(
        TREE, ROUTES, work, ENDS, rendezvous=rendezvous, sharing="none", latency_ns=400
    )
    assert result.left_ns[work.messages].tolist() == pytest.approx(left_ns)


def test_tables_of_queue_pairs_count_both_queues() -> None:
    """With one message for each pair of ranks, no queue holds anything up: all values are equal."""
    tree = weft.fabric("xgft:2;4,4;1,4,rate=100")
    builder = WorkloadBuilder(16)
    ranks = [(rank, (rank + 4 + rank % 2) % 16) for rank in range(16)]
    for source, target in ranks:
        builder.isend(source, target, 200_000)
        builder.irecv(target, source, 200_000)
    found = [
        weft.simulate(
            tree, weft.route(tree, "ecmp"), builder.build(), level="packet", policy="spray",
            rendezvous=rendezvous, hardware=weft.Hardware(congestion_control=CongestionControl()),
        )
        for rendezvous in ("get", "put", "put-shared")
    ]  # fmt: skip
    for table, column in (("reordering", "early_packets"), ("throttling", "marked_packets")):
        get, put, shared = (getattr(result, table)() for result in found)
        assert shared[column].sum() > 0
        assert get.equals(shared)
        assert put.equals(shared)
    highest = [result.congestion.highest.tolist() for result in found if result.congestion]
    assert max(highest[2]) > 0
    assert highest == [highest[2]] * 3


def test_the_flit_level_has_no_queue_pairs_to_share() -> None:
    with pytest.raises(InputError, match="which the flit level does not have"):
        takes("flit", exchange(64 * KIB, 0, True), rendezvous="put-shared")
