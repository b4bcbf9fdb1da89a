"""Cases of the packet level with times worked out by hand, for any implementation.

On cables of 80 Gbit/s a byte takes 100 ps. Packets carry up to 1000 bytes and a header of 24, so a
full one takes 102.4 ns. Cables have a latency of 10 ns and switches one of 100 ns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import weft
from weft.fabrics import Fabric, FabricBuilder
from weft.routing.routes import Routes, TableRoutes, VirtualLanes
from weft.sim.packet.hardware import Hardware, VlArbitration
from weft.workload import Workload, WorkloadBuilder

PLAIN = Hardware(mtu_bytes=1000, header_bytes=24, speedup=1)
#: Duration of a full packet at 80 Gbit/s, latency of a cable, latency of a switch; ps.
D, L, R = 102_400, 10_000, 100_000
#: Time via one switch from when a full packet begins to leave until its last byte arrives.
THROUGH = L + R + L + D


@dataclass
class Case:
    """A run in which rank i is on host i, and its expected times in ps by operation."""

    fabric: Fabric
    routes: Routes
    workload: Workload
    arrived: dict[int, int]
    hardware: Hardware = PLAIN
    options: dict[str, Any] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)


def fabric_of(hosts: list[int], trunks: list[tuple[int, int]], faster: float = 80.0) -> Fabric:
    """Build a fabric from the switch of each host and the cables between switches."""
    builder = FabricBuilder("by hand", rate=80.0)
    switches = builder.switches([f"s{n}" for n in range(max(hosts) + 1)])
    builder.connect(switches[hosts], builder.hosts([f"h{n}" for n in range(len(hosts))]))
    for one, other in trunks:
        builder.connect(switches[[one]], switches[[other]], rate=faster)
    return builder.fabric()


def puts(num_ranks: int, *messages: tuple[int, int, int]) -> Workload:
    """Return a workload of messages (source, destination, bytes), all posted at the start."""
    builder = WorkloadBuilder(num_ranks)
    for source, target, size in messages:
        builder.put(source, target, size)
    return builder.build()


def case(fabric: Fabric, work: Workload, arrived: list[int], **more: Any) -> Case:
    """Return a case on minimal paths, with the arrivals of operations in order."""
    return Case(fabric, weft.route(fabric, "minhop"), work, dict(enumerate(arrived)), **more)


def one_packet_by_cables_of_two_rates() -> Case:
    # On the faster cable, the packet waits D - D / 2 before it starts; on the next, slower cable it
    # starts at once.
    begins = L + R + D // 2
    arrives = begins + L + R + L + D
    fabric = fabric_of([0, 1], [(0, 1)], faster=160.0)
    return case(fabric, puts(2, (0, 1, 1000)), [arrives], left={0: 0}, ended={0: D})


def three_packets_and_the_last_one_small() -> Case:
    small = 12_400
    fabric = fabric_of([0, 1], [(0, 1)])
    arrives = 2 * D + 2 * (L + R) + L + small
    return case(fabric, puts(2, (0, 1, 2100)), [arrives], ended={0: 2 * D + small})


def a_message_without_payload() -> Case:
    return case(fabric_of([0, 0], []), puts(2, (0, 1, 0)), [2 * L + R + 2400])


def two_hosts_share_the_link_to_a_third() -> Case:
    begins = L + R
    work = puts(3, (0, 2, 2000), (1, 2, 2000))
    arrives = [begins + slot * D + L + D for slot in (2, 3)]
    return case(fabric_of([0, 0, 0], []), work, arrives)


def two_flows_by_one_input_against_one_by_another() -> Case:
    """While all three hosts send, they get shares of 1/4, 1/4 and 1/2."""
    # Host 3 receives; 0 and 1 use the trunk, 2 is attached to the last switch. The first two
    # packets of host 2 leave before any arrives by the trunk; then the inputs alternate.
    work = puts(4, (0, 3, 8000), (1, 3, 8000), (2, 3, 8000))
    turns = L + R + 2 * D
    arrives = [turns + slot * D + L + D for slot in (20, 21, 11)]
    return case(fabric_of([0, 0, 1, 1], [(0, 1)]), work, arrives)


def a_parking_lot() -> Case:
    """Hosts 0, 1 and 2 are attached along a line of switches towards host 3."""
    # The trunk before the last switch carries packets of hosts 1 1 0 1 0 1 0 1 0 1 0 1 0 1 0 0.
    work = puts(4, (0, 3, 8000), (1, 3, 8000), (2, 3, 8000))
    turns = L + R + 2 * D
    arrives = [turns + slot * D + L + D for slot in (21, 19, 11)]
    return case(fabric_of([0, 1, 2, 2], [(0, 1), (1, 2)]), work, arrives)


def a_buffer_of_one_packet() -> Case:
    hardware = replace(PLAIN, buffer_bytes=1024, credit_latency_ns=5)
    period = (L + R) + D + L + 5000
    work = puts(2, (0, 1, 3000))
    return case(fabric_of([0, 0], []), work, [2 * period + THROUGH], hardware=hardware)


def adapters_of_half_the_rate() -> Case:
    hardware = replace(PLAIN, adapter_gbps=40)
    arrives = 2 * (2 * D) + L + R + L + 2 * D
    work = puts(2, (0, 1, 3000))
    # The last byte has left before the adapter's own read time of the packet has passed.
    ended = {0: 2 * 2 * D + D}
    return case(fabric_of([0, 0], []), work, [arrives], hardware=hardware, ended=ended)


def two_hosts_to_an_adapter_of_half_the_rate() -> Case:
    hardware = replace(PLAIN, adapter_gbps=40)
    written = L + R + L + 2 * D
    work = puts(3, (0, 2, 1000), (1, 2, 1000))
    return case(fabric_of([0, 0, 0], []), work, [written, written + 2 * D], hardware=hardware)


def _two_lanes(arbitration: VlArbitration, sizes: tuple[int, int], slots: tuple[int, int]) -> Case:
    """Host 0 sends to 2 on lane 0 and host 1 to 3 on lane 1, over one trunk."""
    fabric = fabric_of([0, 0, 1, 1], [(0, 1)])
    minimal = weft.route(fabric, "minhop")
    assert isinstance(minimal, TableRoutes)
    levels = np.zeros(fabric.num_destinations, dtype=np.uint8)
    levels[3] = 1
    routes = replace(minimal, sl=levels, lanes=VirtualLanes.uniform([0, 1]))
    hardware = replace(PLAIN, vl_arbitration=arbitration)
    arrived = {op: L + R + slot * D + THROUGH for op, slot in enumerate(slots)}
    work = puts(4, (0, 2, sizes[0]), (1, 3, sizes[1]))
    return Case(fabric, routes, work, arrived, hardware)


def lanes_by_weights_of_two_and_one() -> Case:
    # Lanes in the order of packets: 0 0 1 0 0 1 1 1
    return _two_lanes(VlArbitration(low=((0, 32), (1, 16))), (4000, 4000), (4, 7))


def a_lane_of_high_priority_with_a_limit() -> Case:
    # Lanes in the order of packets: 1 1 1 1 0 1 1 1 1 0 0 0. After 4096 bytes of high priority, a
    # packet of low priority leaves.
    tables = VlArbitration(high=((1, 255),), low=((0, 1),), limit=1)
    return _two_lanes(tables, (4000, 8000), (11, 8))


def a_lane_of_high_priority_with_a_limit_of_one_packet() -> Case:
    # Lanes in the order of packets: 1 0 1 0 1 1
    tables = VlArbitration(high=((1, 255),), low=((0, 1),), limit=0)
    return _two_lanes(tables, (2000, 4000), (3, 5))


def a_lane_of_high_priority_without_limit() -> Case:
    # Lanes in the order of packets: 1 1 1 0 0
    tables = VlArbitration(high=((1, 16),), low=((0, 1),), limit=255)
    return _two_lanes(tables, (2000, 3000), (4, 2))


def _from_one_host(hardware: Hardware, begins: tuple[int, int]) -> Case:
    work = puts(3, (0, 1, 2000), (0, 2, 2000))
    arrives = [slot * D + THROUGH for slot in begins]
    return case(fabric_of([0, 0, 0], []), work, arrives, hardware=hardware)


def queue_pairs_take_turns() -> Case:
    return _from_one_host(PLAIN, (2, 3))


def one_queue_pair_sends_in_order() -> Case:
    return _from_one_host(replace(PLAIN, queue_pairs="host"), (1, 3))


def _behind_a_blocked_packet(hardware: Hardware, slot: int) -> Case:
    """Host 2 sends to host 3, after packets of hosts 0 and 1 for host 3, and then to host 4."""
    work = puts(5, (0, 3, 1000), (1, 3, 1000), (2, 3, 1000), (2, 4, 1000))
    arrives = [slot * D + THROUGH for slot in (0, 1, 2, slot)]
    return case(fabric_of([0] * 5, []), work, arrives, hardware=hardware)


def the_first_of_a_queue_blocks_the_next() -> Case:
    return _behind_a_blocked_packet(PLAIN, 3)


def virtual_output_queues_do_not_block() -> Case:
    return _behind_a_blocked_packet(replace(PLAIN, queues="voq"), 1)


def two_may_leave_an_input_port_at_once() -> Case:
    return _behind_a_blocked_packet(replace(PLAIN, speedup=2), 2)


def a_rendezvous() -> Case:
    hardware = replace(PLAIN, adapter_latency_ns=1)
    builder = WorkloadBuilder(2)
    builder.send(0, 1, 1000)
    builder.recv(1, 0, 1000)
    control = 2 * L + R + 8800
    begins = 2 * (1000 + control + 1000) + 1000
    return case(
        fabric_of([0, 0], []), builder.build(), [begins + THROUGH + 1000], hardware=hardware,
        options={"eager_bytes": 500}, left={0: begins},
        ended={0: begins + D, 1: begins + THROUGH + 1000},
    )  # fmt: skip


def an_eager_message_and_overheads() -> Case:
    builder = WorkloadBuilder(2)
    builder.send(0, 1, 1000)
    builder.recv(1, 0, 1000)
    arrives = 7000 + THROUGH
    return case(
        fabric_of([0, 0], []), builder.build(), [arrives], options={"overhead_ns": 7},
        left={0: 7000}, ended={0: 7000, 1: arrives + 7000},
    )  # fmt: skip


def through_a_host_that_forwards() -> Case:
    """From host 0 to 3 of BCube(2, 1): host, switch, host, switch, host."""
    fabric = weft.fabric("bcube:2,k=1,rate=80")
    hardware = replace(PLAIN, forward_latency_ns=200)
    forward, inner = 200_000, D // 2
    in_network = forward + 2 * (L + R + L + forward)
    # The packet enters the last adapter through a link of twice the rate.
    return case(
        fabric, puts(4, (0, 3, 1000)), [in_network + D - inner + inner], hardware=hardware,
        left={0: 0}, ended={0: inner},
    )  # fmt: skip


CASES: dict[str, Callable[[], Case]] = {
    function.__name__: function
    for function in (
        one_packet_by_cables_of_two_rates,
        three_packets_and_the_last_one_small,
        a_message_without_payload,
        two_hosts_share_the_link_to_a_third,
        two_flows_by_one_input_against_one_by_another,
        a_parking_lot,
        a_buffer_of_one_packet,
        adapters_of_half_the_rate,
        two_hosts_to_an_adapter_of_half_the_rate,
        lanes_by_weights_of_two_and_one,
        a_lane_of_high_priority_with_a_limit,
        a_lane_of_high_priority_with_a_limit_of_one_packet,
        a_lane_of_high_priority_without_limit,
        queue_pairs_take_turns,
        one_queue_pair_sends_in_order,
        the_first_of_a_queue_blocks_the_next,
        virtual_output_queues_do_not_block,
        two_may_leave_an_input_port_at_once,
        a_rendezvous,
        an_eager_message_and_overheads,
        through_a_host_that_forwards,
    )
}
