"""Processors at the flow level: order of waiting operations, posting of sends, large times."""

from __future__ import annotations

import pytest
from tests.processes import PATIENCE_S

import weft
from weft.core.errors import InputError
from weft.workload import WorkloadBuilder

TREE = weft.fabric("xgft:2;4,4;1,4,rate=100")
ROUTES = weft.route(TREE, "dmodk")


def test_operations_waiting_for_a_processor_run_in_program_order() -> None:
    builder = WorkloadBuilder(2)
    first = builder.irecv(0, 1, 0)
    builder.calc(0, 50.0, after=[])
    builder.calc(0, 30.0, after=[])
    last = builder.irecv(0, 1, 0)
    for _ in range(2):
        builder.isend(1, 0, 0)
    options = {"overhead_ns": 10, "latency_ns": 5}
    ended = weft.simulate(TREE, ROUTES, builder.build(), [0, 5], **options).ended_ns
    # The messages arrive at 15 and 25 ns, during the calculation from 0 to 50 ns. Then the first
    # receive runs before the second calculation, which has waited longer.
    assert ended[[first, 1, 2, last]].tolist() == [60, 50, 90, 100]


def test_many_operations_that_wait_for_one_processor_take_linear_time() -> None:
    builder = WorkloadBuilder(2)
    count = 300_000
    ops = builder.operations([0] * count, 0, duration_ns=3.0)
    result = weft.simulate(TREE, ROUTES, builder.build(), [0, 5])
    assert result.ended_ns[ops].tolist() == [3.0 * (index + 1) for index in range(count)]
    # Checking all waiting operations whenever one begins would take more than an hour.
    assert result.run_s < PATIENCE_S


@pytest.mark.parametrize("duration", [0.25, 1.0, 50.0])
def test_calculations_of_any_duration_take_turns(duration: float) -> None:
    builder = WorkloadBuilder(1)
    for _ in range(4):
        builder.calc(0, duration, after=[])
    ended = weft.simulate(TREE, ROUTES, builder.build()).ended_ns
    assert ended.tolist() == [duration, 2 * duration, 3 * duration, 4 * duration]


@pytest.mark.parametrize("eager", [0, 10_000])
def test_a_send_of_any_size_is_posted_in_program_order(eager: int) -> None:
    builder = WorkloadBuilder(2)
    for _ in range(2):
        builder.isend(0, 1, 5000)
        builder.irecv(1, 0, 5000)
    options = {"overhead_ns": 100, "latency_ns": 7, "eager_bytes": eager, "handshake": False}
    result = weft.simulate(TREE, ROUTES, builder.build(), [0, 5], **options)
    assert result.posted_ns[:2].tolist() == [0, 100]
    # The second message leaves after the first, which takes 400 ns.
    assert result.left_ns[:2].tolist() == [100, 500]


@pytest.mark.parametrize("start", [0.0, 1e9, 1e12, 1e15])
def test_late_messages_take_as_long_as_early_ones(start: float) -> None:
    builder = WorkloadBuilder(2)
    builder.calc([0, 1], start)
    builder.rank(0).send(1, 125)
    builder.rank(1).recv(0, 125)
    result = weft.simulate(
        TREE, ROUTES, builder.build(), [0, 5], latency_ns=90, hardware=weft.Hardware(header_bytes=0)
    )
    # The message takes 10 ns at full rate and 90 ns of latency; at 1e15 ns, or 11 days, doubles are
    # an eighth of a ns apart.
    assert result.makespan_ns - start == pytest.approx(100, abs=1e-16 * start + 1e-9)


def test_infinite_times_are_not_a_deadlock() -> None:
    builder = WorkloadBuilder(1)
    builder.rank(0).calc(1e308).calc(1e308)
    with pytest.raises(InputError, match="simulated time exceeds 1e\\+308"):
        weft.simulate(TREE, ROUTES, builder.build())
