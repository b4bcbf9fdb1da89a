"""InfiniBand's congestion control: marks, notifications and delays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.reference.packet_cases import PLAIN, D, L, R, fabric_of, puts

import weft
from weft import CongestionControl, Hardware, InputError, NotApplicable
from weft.fabrics import Fabric
from weft.sim.packet import CongestionRecord, VlArbitration
from weft.sim.packet.congestion_control import QUADRATIC, quadratic_table
from weft.sim.packet.result import PacketResult
from weft.sim.packet.throttling import THROTTLING_COLUMNS
from weft.workload import Workload, WorkloadBuilder


def run(fabric: Fabric, work: Workload, control: Any = None, **more: Any) -> PacketResult:
    hardware = replace(more.pop("hardware", PLAIN), congestion_control=control)
    routes = weft.route(fabric, more.pop("engine", "minhop"))
    return weft.simulate(fabric, routes, work, hardware=hardware, **more, level="packet")


def record_of(result: PacketResult) -> CongestionRecord:
    """Return the congestion-control record of a run."""
    assert result.congestion is not None
    return result.congestion


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"threshold": 16}, "threshold: 16 does not fit: expected 15 or less"),
        ({"threshold": -1}, "threshold: -1 does not fit: expected 0 or more"),
        ({"marking_rate": 65536}, "marking_rate: 65536 does not fit: expected 65535 or less"),
        ({"packet_size": 256}, "packet_size: 256 does not fit: expected 255 or less"),
        ({"ccti_increase": 0}, "ccti_increase: 0 does not fit: expected 1 or more"),
        ({"ccti_timer": 0}, "ccti_timer: 0 does not fit: expected 1 or more"),
        ({"ccti_limit": 128}, "ccti_limit must be 0 to 127, not 128"),
        ({"ccti_limit": 5, "ccti_min": 6}, "ccti_min must be 0 to ccti_limit, 5, not 6"),
        ({"victims": "some"}, "victims"),
        ({"per": "port"}, "per"),
        ({"cct": ()}, "cct: .* does not fit: it has no entries"),
        ({"cct": ((0, 0), (4, 1))}, "cct: .* entry 1 is 4:1; shifts are 0 to 3"),
        ({"cct": "0:0,0:16384"}, "cct: .* entry 1 is 0:16384"),
        ({"cct": "0:0,7"}, "cct: .* entry 1 is '7'"),
        ({"threshold": "high"}, "threshold"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CongestionControl(**wrong)


@pytest.mark.parametrize("given", [True, "threshold=3", VlArbitration()])
def test_hardware_refuses_congestion_control_of_another_type(given: Any) -> None:
    with pytest.raises(InputError, match="expected a CongestionControl"):
        Hardware(congestion_control=given)


def test_the_threshold_in_credits_falls_linearly_to_a_sixteenth_of_the_buffer() -> None:
    credits = [CongestionControl(threshold=t).threshold_credits(256) for t in (1, 8, 14, 15)]
    assert credits == [240, 128, 32, 16]


def test_delays_of_the_quadratic_table_grow_with_the_square_of_the_index() -> None:
    assert len(QUADRATIC) == 128
    assert QUADRATIC[0] == (3, 0)
    # At index 95 the delay is 7 / 0.218 packet times, stated in eighths of a packet time.
    assert QUADRATIC[95] == (3, int(8 * 7 / 0.218))
    assert quadratic_table(3, at=2, delays=4.0) == ((3, 0), (3, 8), (3, 32))
    with pytest.raises(InputError, match="entries"):
        quadratic_table(0)


# -- computed by hand ------------------------------------------------------------------------------

#: Every notification raises the index by one; the timer period is longer than the run.
BY_HAND = CongestionControl(
    threshold=15, marking_rate=0, ccti_timer=65535, cct=((0, 0), (0, 1), (1, 5)), ccti_limit=1
)


def two_to_one(control: Any, packets: int = 8, **more: Any) -> PacketResult:
    """Simulate a message each from hosts 0 and 1 to host 2 through one switch."""
    work = puts(3, (0, 2, 1000 * packets), (1, 2, 1000 * packets))
    return run(fabric_of([0, 0, 0], []), work, control, trace=(0, 1), **more)


def out_of(result: PacketResult, host: int) -> int:
    """Return the link that leaves a host."""
    return int(np.flatnonzero(result.fabric.link_from == result.fabric.host_nodes[host])[0])


def left_at(result: PacketResult, op: int) -> list[int]:
    """Return the times at which the packets of a message left their host."""
    hop = result.hop
    source = out_of(result, int(result.host[result.workload.rank[op]]))
    return hop[(hop["op"] == op) & (hop["link"] == source) & (hop["sequence"] >= 0)][
        "left_ps"
    ].tolist()


def test_a_marked_packet_slows_its_queue_pair_down_after_a_round_trip() -> None:
    result = two_to_one(BY_HAND)
    # From L + R on, the switch takes packets of hosts 0 and 1 alternately. When it takes the first
    # of host 1, two more packets wait: 32 credits, above the threshold of 16. The marked packet
    # reaches host 2 at L + R + D + L + D; its notification of 24 bytes reaches host 1 after another
    # L + R + L + 2.4 ns.
    notice = L + R + D + L + D
    notified = notice + L + R + L + 2_400
    assert 4 * D < notified < 5 * D
    notices = result.hop[(result.hop["sequence"] == -1) & (result.hop["op"] == 1)]
    assert notices[["ready_ps", "left_ps"]][0].tolist() == (notice, notice)
    assert notices["left_ps"][1] == notice + L + R
    # Packets 0 to 5 leave back to back. From packet 5 on, a delay of D follows each packet.
    leaves = left_at(result, 1)
    assert leaves == [0, D, 2 * D, 3 * D, 4 * D, 5 * D, 7 * D, 9 * D]
    assert record_of(result).held_back_ps.tolist()[1] == 2 * D
    assert record_of(result).highest.tolist() == [1, 1]


def test_the_time_of_a_packet_is_shifted_before_it_is_multiplied() -> None:
    control = replace(BY_HAND, ccti_limit=2, ccti_increase=2)
    leaves = left_at(two_to_one(control), 1)
    assert leaves[5:] == [5 * D, 6 * D + 5 * (D >> 1), 7 * D + 10 * (D >> 1)]


def test_a_minimum_index_delays_packets_before_any_notification() -> None:
    result = two_to_one(replace(BY_HAND, ccti_min=1), packets=3)
    assert left_at(result, 0) == [0, 2 * D, 4 * D]


def test_the_timer_lowers_the_index() -> None:
    # The period of the timer, 1.024 us, is 10 D: the index is 0 again before later packets leave.
    result = two_to_one(replace(BY_HAND, ccti_timer=1), packets=40)
    gaps = set(np.diff(left_at(result, 1)).tolist())
    assert gaps == {D, 2 * D}


def test_notifications_go_ahead_of_data_and_are_counted() -> None:
    result = two_to_one(BY_HAND, packets=40)
    record = record_of(result)
    marked = int(record.marked.sum())
    assert marked == record.arrived.sum() == record.notified.sum() > 10
    assert result.conservation["injected_packets"] == 80 + marked
    assert result.conservation["delivered_packets"] == 80 + marked
    assert result.conservation["in_flight_packets"] == 0
    # Host 2 sends only notifications, of one header each.
    assert result.wire_bytes[out_of(result, 2)].sum() == marked * PLAIN.header_bytes


def test_data_waits_for_the_notification_of_its_lane() -> None:
    # Host 2 sends a long message, whose packets are on the cable when notifications are due.
    work = puts(3, (0, 2, 8000), (1, 2, 8000), (2, 0, 8000))
    result = run(fabric_of([0, 0, 0], []), work, BY_HAND, trace=(0, 1, 2))
    rows = result.hop[result.hop["link"] == out_of(result, 2)]
    notice = L + R + D + L + D
    first = rows[rows["sequence"] == -1][0]
    # The notification waits for the packet in transmission and precedes the next one.
    assert first["ready_ps"] == notice
    assert first["left_ps"] == -(-notice // D) * D
    assert rows[rows["left_ps"] > first["left_ps"]][0]["left_ps"] == first["gone_ps"]


# -- marked packets --------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0, 1])
def test_a_queue_below_the_threshold_changes_nothing(threshold: int) -> None:
    plain, result = two_to_one(None), two_to_one(replace(BY_HAND, threshold=threshold), packets=8)
    assert plain.congestion is None
    assert record_of(result).marked.sum() == 0
    for name in ("posted_ps", "ended_ps", "left_ps", "arrived_ps", "packets", "wait_ps", "hop"):
        assert (getattr(result, name) == getattr(plain, name)).all()
    assert result.end_ps == plain.end_ps


def test_small_packets_are_not_marked() -> None:
    result = two_to_one(replace(BY_HAND, packet_size=17))
    assert record_of(result).marked.sum() == 0
    assert record_of(two_to_one(replace(BY_HAND, packet_size=16))).marked.sum() > 0


def test_the_marking_rate_is_the_mean_number_of_packets_between_marks() -> None:
    never_slow = replace(BY_HAND, cct=((0, 0),), ccti_limit=0, threshold=15)
    every = two_to_one(never_slow, packets=400)
    some = two_to_one(replace(never_slow, marking_rate=3), packets=400)
    again = two_to_one(replace(never_slow, marking_rate=3), packets=400)
    other = two_to_one(replace(never_slow, marking_rate=3), packets=400, seed=7)
    counts = [int(record_of(each).marked.sum()) for each in (every, some, again, other)]
    assert counts[0] > 780
    assert counts[1] == pytest.approx(counts[0] / 4, rel=0.2)
    assert (some.hop == again.hop).all()
    assert not (len(some.hop) == len(other.hop) and (some.hop == other.hop).all())


def test_victims_mark_when_the_mask_says_so() -> None:
    # Host 2 accepts half of the arriving rate; the port to it lacks credits, so it is not a root.
    hardware = replace(PLAIN, adapter_gbps=40.0)
    work = puts(3, (0, 2, 60_000), (1, 2, 60_000))
    marked = {}
    for victims in ("none", "hosts", "all"):
        control = replace(BY_HAND, victims=victims, cct=((0, 0),), ccti_limit=0)
        result = run(fabric_of([0, 0, 0], []), work, control, hardware=hardware)
        marked[victims] = int(record_of(result).marked.sum())
    assert marked["none"] < 20 < 60 < marked["hosts"] == marked["all"]


def test_only_the_root_of_a_tree_marks() -> None:
    # Hosts 0 and 1, before the trunk, and hosts 3 and 4, behind it, send to host 2. The port to
    # host 2 is the root; the trunk's port is a victim as soon as the buffer behind it is full.
    fabric = fabric_of([0, 0, 1, 1, 1], [(0, 1)])
    work = puts(5, *((source, 2, 200_000) for source in (0, 1, 3, 4)))
    marked = {}
    for victims in ("hosts", "all"):
        control = replace(BY_HAND, threshold=8, victims=victims, cct=((0, 0),), ccti_limit=0)
        result = run(fabric, work, control, hardware=replace(PLAIN, queues="voq"))
        counts = record_of(result).marked.sum(1)
        ends = fabric.link_from, fabric.link_to
        trunk = int(np.flatnonzero((ends[0] == 0) & (ends[1] == 1))[0])
        root = int(np.flatnonzero(ends[1] == fabric.host_nodes[2])[0])
        marked[victims] = int(counts[root]), int(counts[trunk])
    assert marked["hosts"][0] > 700
    assert marked["hosts"][1] < 20 < 100 < marked["all"][1]


# -- slowed queue pairs ----------------------------------------------------------------------------


@pytest.mark.parametrize("per", ["qp", "sl"])
def test_an_index_is_per_queue_pair_or_per_service_level_of_a_port(per: str) -> None:
    # Host 0 sends to host 2, as host 1 does, and to host 3, which has no other sender.
    work = puts(4, (0, 2, 40_000), (1, 2, 40_000), (0, 3, 40_000))
    result = run(fabric_of([0] * 4, []), work, replace(BY_HAND, per=per), trace=(2,))
    record = record_of(result)
    assert record.notified[1] == 0  # queue pairs are ordered by sending, then receiving rank
    assert (record.held_back_ps[1] > 0) == (per == "sl")
    assert len(record.highest) == (3 if per == "qp" else 16 * fabric_of([0] * 4, []).num_links)


@pytest.mark.parametrize(
    "more",
    [
        {"hardware": replace(PLAIN, queue_pairs="host")},
        {"hardware": replace(PLAIN, adapter_gbps=50.0, adapter_latency_ns=70.0)},
        {"hardware": replace(PLAIN, queues="voq", speedup=2), "eager_bytes": 1000},
        {"engine": "ecmp", "policy": "spray"},
        {"engine": "ecmp", "policy": "adaptive"},
        {"spec": "torus:5,5,rate=80", "engine": "lash"},  # two lanes
        {"spec": "kns:k=4,n=2,rate=80", "engine": "hdor"},  # hosts that forward
    ],
)
def test_packets_and_credits_are_conserved_and_runs_are_reproducible(more: dict[str, Any]) -> None:
    more = dict(more)
    fabric = weft.fabric(more.pop("spec", "xgft:2;3,3;1,2,rate=80"))
    hosts = fabric.num_hosts
    builder = WorkloadBuilder(hosts)
    rng = np.random.default_rng(5)
    for source in range(hosts):
        for size in rng.integers(100, 30_000, 6):
            other = (source + 1 + rng.integers(hosts - 1)) % hosts
            builder.put(source, 0 if source and rng.random() < 0.5 else int(other), int(size))
    work = builder.build()
    control = CongestionControl(threshold=14, marking_rate=1, ccti_timer=2)
    result = [run(fabric, work, control, **more) for _ in range(2)]
    record = record_of(result[0])
    assert result[0].complete
    assert 0 < record.marked.sum() == record.notified.sum()
    assert result[0].conservation == result[1].conservation
    assert (result[0].arrived_ps == result[1].arrived_ps).all()
    assert (result[0].arrived_ps[work.messages] >= 0).all()
    # Stopped with packets and notifications in flight, conservation is still checked.
    part = run(fabric, work, control, max_time_ns=result[0].makespan_ns / 3, **more)
    assert part.conservation["in_flight_packets"] > 0
    assert record_of(part).notified.sum() < record_of(part).marked.sum()


def test_a_missing_path_back_is_an_error() -> None:
    fabric = fabric_of([0, 1], [(0, 1)])
    routes = weft.route(fabric, "minhop")
    table = routes.table.copy()
    table[0] = 255
    with pytest.raises(InputError, match="no path from h1 to h0"):
        weft.simulate(
            fabric, replace(routes, table=table), puts(2, (0, 1, 1000)),
            hardware=replace(PLAIN, congestion_control=CongestionControl()), level="packet",
        )  # fmt: skip


# -- the table of queue pairs ----------------------------------------------------------------------


def test_the_throttling_table_has_a_row_for_each_queue_pair() -> None:
    work = puts(4, (0, 2, 40_000), (1, 2, 40_000), (0, 3, 40_000))
    result = run(fabric_of([0] * 4, []), work, BY_HAND)
    rows = result.throttling()
    assert rows.columns == list(THROTTLING_COLUMNS)
    assert rows["source_host"].to_list() == [0, 0, 1]
    assert rows["destination_host"].to_list() == [2, 3, 2]
    record = record_of(result)
    assert rows["notifications"].to_list() == record.notified.tolist()
    assert rows["marked_packets"].to_list() == record.arrived.tolist()
    assert (rows["held_back_ns"].to_numpy() * 1000 == record.held_back_ps).all()


def test_a_queue_pair_of_a_host_may_send_to_several_hosts() -> None:
    work = puts(4, (0, 2, 40_000), (1, 2, 40_000), (0, 3, 40_000))
    hardware = replace(PLAIN, queue_pairs="host")
    rows = run(fabric_of([0] * 4, []), work, BY_HAND, hardware=hardware).throttling()
    assert rows["queue_pair"].to_list() == [0, 1]
    assert rows["destination_host"].to_list() == [None, 2]


def test_runs_without_congestion_control_have_no_throttling_table() -> None:
    with pytest.raises(NotApplicable, match="no congestion control"):
        two_to_one(None).throttling()
