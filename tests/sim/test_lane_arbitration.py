"""Lane arbitration by weights: the lane that a link serves next, and the share of each lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numba import njit
from tests.reference.packet_cases import PLAIN, D, L, R, fabric_of, puts

import weft
from weft.kernels.packet import lanes as kernel
from weft.kernels.packet.net import Arbitration
from weft.kernels.packet.records import RULES
from weft.kernels.records import record
from weft.routing.routes import TableRoutes, VirtualLanes
from weft.sim.packet import Hardware, VlArbitration
from weft.sim.packet.result import PacketResult
from weft.sim.packet.state import arbitration as arbitration_of

#: Packets of 64 bytes, the unit of weights, so that shares equal weights exactly.
SMALL = replace(PLAIN, mtu_bytes=40, header_bytes=24, credit_bytes=64)
#: Packets of 1024 bytes, which are 16 units of weights.
LARGE = PLAIN


def saturated(
    arbitration: VlArbitration | None, lanes: int, hardware: Hardware = SMALL, share: float = 0.5
) -> PacketResult:
    """Simulate one sending host per lane; together they overload one trunk for the whole run."""
    fabric = fabric_of([0] * lanes + [1] * lanes, [(0, 1)])
    minhop = weft.route(fabric, "minhop")
    assert isinstance(minhop, TableRoutes)
    levels = np.zeros(fabric.num_destinations, dtype=np.uint8)
    levels[lanes : 2 * lanes] = range(lanes)
    routes = replace(minhop, sl=levels, lanes=VirtualLanes.uniform(list(range(lanes))))
    packets = 4000 if hardware is SMALL else 600
    work = puts(2 * lanes, *((n, lanes + n, packets * hardware.mtu_bytes) for n in range(lanes)))
    wire = hardware.mtu_bytes + hardware.header_bytes
    return weft.simulate(
        fabric, routes, work, hardware=replace(hardware, vl_arbitration=arbitration),
        max_time_ns=share * packets * wire * 8 / 80, level="packet",
    )  # fmt: skip


def shares(result: PacketResult) -> list[float]:
    """Return each lane's share of the trunk's bytes."""
    fabric = result.fabric
    trunk = int(np.flatnonzero((fabric.link_from == 0) & (fabric.link_to == 1))[0])
    sent = result.wire_bytes[trunk]
    assert result.busy_ps[trunk] > 0.98 * result.end_ps
    return (sent / sent.sum()).tolist()


@pytest.mark.parametrize(
    ("low", "expected"),
    [
        (((0, 1), (1, 3)), [1 / 4, 3 / 4]),
        (((0, 7), (1, 1)), [7 / 8, 1 / 8]),
        (((0, 60), (1, 20)), [3 / 4, 1 / 4]),
        (((0, 4), (1, 2), (2, 1), (3, 1)), [1 / 2, 1 / 4, 1 / 8, 1 / 8]),
        # Entries of one lane add up; an entry of weight 0 adds nothing.
        (((0, 2), (1, 2), (0, 0), (0, 4)), [3 / 4, 1 / 4]),
    ],
)
def test_low_weights_share_the_bytes_of_a_saturated_link(
    low: tuple[tuple[int, int], ...], expected: list[float]
) -> None:
    result = saturated(VlArbitration(low=low), len(expected))
    assert shares(result) == pytest.approx(expected, abs=0.02)


def test_lanes_without_tables_are_served_round_robin() -> None:
    assert shares(saturated(None, 3)) == pytest.approx([1 / 3] * 3, abs=0.01)


@pytest.mark.parametrize(
    ("low", "expected"),
    [
        # A packet has 16 units: weights that are multiples of 16 give exact shares.
        (((0, 16), (1, 48)), [1 / 4, 3 / 4]),
        # The last packet may exceed the weight: weights 1 and 3 allow one packet, 17 allows two.
        (((0, 1), (1, 3)), [1 / 2, 1 / 2]),
        (((0, 16), (1, 17)), [1 / 3, 2 / 3]),
    ],
)
def test_weights_end_with_the_packet_that_uses_them_up(
    low: tuple[tuple[int, int], ...], expected: list[float]
) -> None:
    assert shares(saturated(VlArbitration(low=low), 2, LARGE)) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        # Limit 0 allows one packet; limit n allows n * 4096 bytes, or 64 n packets of 64 bytes.
        (0, [1 / 2, 1 / 2]),
        (1, [1 / 65, 64 / 65]),
        (4, [1 / 257, 256 / 257]),
        (255, [0.0, 1.0]),
    ],
)
def test_high_priority_sends_up_to_its_limit_before_low_priority(
    limit: int, expected: list[float]
) -> None:
    result = saturated(VlArbitration(high=((1, 255),), low=((0, 1),), limit=limit), 2)
    assert shares(result) == pytest.approx(expected, abs=0.005)


def test_weights_hold_within_each_priority() -> None:
    # Lanes 2 and 3 have high priority and share it as 1 to 3. With limit 0, each of their packets
    # is followed by a packet of low priority, which lanes 0 and 1 share as 3 to 1.
    tables = VlArbitration(high=((2, 1), (3, 3)), low=((0, 3), (1, 1)), limit=0)
    assert shares(saturated(tables, 4)) == pytest.approx([3 / 8, 1 / 8, 1 / 8, 3 / 8], abs=0.01)


def test_an_idle_lane_leaves_its_share_to_the_others() -> None:
    # Host 1 has sent everything after a tenth of the run; then lane 0 continues alone.
    fabric = fabric_of([0, 0, 1, 1], [(0, 1)])
    minhop = weft.route(fabric, "minhop")
    assert isinstance(minhop, TableRoutes)
    levels = np.zeros(fabric.num_destinations, dtype=np.uint8)
    levels[3] = 1
    routes = replace(minhop, sl=levels, lanes=VirtualLanes.uniform([0, 1]))
    work = puts(4, (0, 2, 400_000), (1, 3, 40_000))
    hardware = replace(PLAIN, vl_arbitration=VlArbitration(high=((1, 16),), low=((0, 1),), limit=9))
    result = weft.simulate(fabric, routes, work, hardware=hardware, level="packet")
    trunk = int(np.flatnonzero((fabric.link_from == 0) & (fabric.link_to == 1))[0])
    packets = result.packets[trunk]
    assert packets.tolist() == [400, 40]
    assert result.busy_ps[trunk] == 440 * D
    # The trunk is never idle between the first packet's arrival and the last one's departure.
    assert result.end_ps == 440 * D + 2 * (L + R) + L


# -- grants of the kernel, compared with the specification -----------------------------------------


@njit
def _grants(link: Arbitration, rules: Any, mask: int, num_bytes: int) -> int:
    # These functions can only be called from compiled code.
    picked = kernel.choose_lane(link, rules, 0, mask)
    if picked >= 0:
        kernel.lane_served(link, rules, 0, picked, num_bytes)
    return picked >> 1


class Arbiter:
    """The kernel's arbitration of one link; the caller says which lanes have packets."""

    def __init__(self, tables: VlArbitration | None, lanes: int = 4):
        self.rules = record(RULES)
        self.rules["lanes"] = lanes
        self.rules["is_weighted"] = tables is not None
        self.rules["high_limit"] = 0 if tables is None else tables.limit
        self.link = arbitration_of(tables, 1)

    def grants(self, lanes: Sequence[int], num_bytes: int = 64) -> int:
        """Return which of the lanes sends, if each has a packet of `num_bytes`; -1 for none."""
        mask = np.int64(sum(1 << lane for lane in lanes))
        return int(_grants(self.link, self.rules, mask, np.int64(num_bytes)))


def test_an_entry_is_served_until_its_weight_is_used_up() -> None:
    link = Arbiter(VlArbitration(low=((0, 2), (1, 1))))
    assert [link.grants([0, 1]) for _ in range(6)] == [0, 0, 1, 0, 0, 1]


def test_an_entry_without_packets_is_skipped_and_then_has_its_whole_weight() -> None:
    link = Arbiter(VlArbitration(low=((0, 3), (1, 1))))
    assert link.grants([0, 1]) == 0
    assert link.grants([1]) == 1
    assert [link.grants([0, 1]) for _ in range(4)] == [0, 0, 0, 1]


def test_weights_count_whole_units_of_64_bytes() -> None:
    link = Arbiter(VlArbitration(low=((0, 4), (1, 4))))
    # A packet of 65 bytes counts as two units.
    assert [link.grants([0, 1], 65) for _ in range(4)] == [0, 0, 1, 1]


def test_lanes_in_no_table_never_send() -> None:
    link = Arbiter(VlArbitration(high=((1, 0),), low=((0, 1),)))
    assert link.grants([1, 2]) == -1
    assert link.grants([0, 2]) == 0


def test_low_priority_waits_for_the_limit_and_then_sends_one_packet() -> None:
    link = Arbiter(VlArbitration(high=((1, 255),), low=((0, 255),), limit=1))
    granted = [link.grants([0, 1], 2048) for _ in range(7)]
    assert granted == [1, 1, 0, 1, 1, 0, 1]


def test_low_priority_is_served_first_if_the_limit_was_used_up_before() -> None:
    link = Arbiter(VlArbitration(high=((1, 255),), low=((0, 1),), limit=1))
    assert [link.grants([1], 2048) for _ in range(5)] == [1] * 5
    assert [link.grants([0, 1], 2048) for _ in range(4)] == [0, 1, 1, 0]


def test_a_limit_stays_used_up_after_any_number_of_bytes() -> None:
    link = Arbiter(VlArbitration(high=((1, 255),), low=((0, 1),), limit=1))
    # More than 2^31 bytes in all.
    assert [link.grants([1], 2**30) for _ in range(4)] == [1] * 4
    assert link.grants([0, 1]) == 0


def test_one_lane_may_be_in_both_tables() -> None:
    link = Arbiter(VlArbitration(high=((0, 1),), low=((0, 1), (1, 1)), limit=0))
    # After each packet of the high table the low table sends one, from its entries in order.
    assert [link.grants([0, 1]) for _ in range(6)] == [0, 0, 0, 1, 0, 0]


def test_round_robin_continues_after_the_lane_served_last() -> None:
    link = Arbiter(None)
    assert [link.grants([0, 2, 3]) for _ in range(4)] == [0, 2, 3, 0]
    assert [link.grants([1, 3]) for _ in range(3)] == [1, 3, 1]
