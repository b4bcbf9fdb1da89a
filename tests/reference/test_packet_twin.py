"""The packet level and its reference implementation, which moves every flit.

Both are compared with times worked out by hand, and with each other in random cases: every message
to the picosecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.reference.packet import PlainPackets
from tests.reference.packet_cases import CASES
from tests.reference.packet_random import random_case
from weft.sim.simulate import simulate

#: Number of random cases, and number of cases per test.
NUM_CASES, AT_ONCE = 480, 24
TIMES = ("posted", "left", "arrived", "ended")


def by_operation(times: Mapping[int, int], num_ops: int) -> list[int]:
    """Return times by operation, -1 for operations without the event."""
    return [times.get(op, -1) for op in range(num_ops)]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("flit_bytes", [16, 64, 100])
@pytest.mark.parametrize("name", CASES)
def test_the_reference_agrees_with_times_by_hand(name: str, flit_bytes: int) -> None:
    case = CASES[name]()
    hosts = range(case.workload.num_ranks)
    plain = PlainPackets(
        case.fabric, case.routes, case.workload, hosts, hardware=case.hardware,
        flit_bytes=flit_bytes, **case.options,
    )  # fmt: skip
    plain.run()
    assert plain.arrived == case.arrived
    for actual, expected in ((plain.left, case.left), (plain.ended, case.ended)):
        assert {op: actual[op] for op in expected} == expected


@pytest.mark.parametrize("name", CASES)
def test_the_packet_level_agrees_with_times_by_hand(name: str) -> None:
    case = CASES[name]()
    result = simulate(
        case.fabric, case.routes, case.workload, range(case.workload.num_ranks),
        hardware=case.hardware, **case.options, level="packet",
    )  # fmt: skip
    pairs: list[tuple[NDArray[Any], dict[int, int]]] = [
        (result.arrived_ps, case.arrived),
        (result.left_ps, case.left),
        (result.ended_ps, case.ended),
    ]
    for actual, expected in pairs:
        assert {op: int(actual[op]) for op in expected} == expected


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, NUM_CASES, AT_ONCE))
def test_both_agree_on_every_message_of_random_cases(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        case = random_case(seed)
        plain = PlainPackets(
            case.fabric, case.routes, case.workload, case.hosts, hardware=case.hardware,
            lid_offset=case.lids, flit_bytes=(64, 100, 200)[seed % 3], **case.plain, **case.options,
        )  # fmt: skip
        plain.run()
        result = simulate(
            case.fabric, case.routes, case.workload, case.hosts, hardware=case.hardware,
            policy=case.policy, lids=case.lids if case.lids.any() else "first", **case.options,
            level="packet",
        )  # fmt: skip
        for name in TIMES:
            expected = by_operation(getattr(plain, name), case.workload.num_ops)
            assert getattr(result, f"{name}_ps").tolist() == expected, f"{name} of case {seed}"
        for mine, theirs in (
            (plain.net.sent_packets, result.packets),
            (plain.net.sent_bytes, result.wire_bytes),
            (plain.net.waited, result.buffer_wait_ps),
            (plain.net.blocked, result.blocked_ps),
        ):
            assert np.array_equal(np.reshape(mine, theirs.shape), theirs), f"links of case {seed}"
