"""The packet level and its plain twin, which moves every flit, by numbers worked out by hand."""

from __future__ import annotations

import pytest

from tests.reference.packet import PlainPackets
from tests.reference.packet_cases import CASES


@pytest.mark.parametrize("flit_bytes", [16, 64, 100])
@pytest.mark.parametrize("name", CASES)
def test_the_plain_twin_finds_the_times_by_hand(name: str, flit_bytes: int) -> None:
    case = CASES[name]()
    hosts = range(case.workload.num_ranks)
    plain = PlainPackets(
        case.fabric, case.routes, case.workload, hosts, hardware=case.hardware,
        flit_bytes=flit_bytes, **case.options,
    )  # fmt: skip
    plain.run()
    assert plain.arrived == case.arrived
    for found, expected in ((plain.left, case.left), (plain.ended, case.ended)):
        assert {op: found[op] for op in expected} == expected
