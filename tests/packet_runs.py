"""Small fabrics and runs of the packet level, for tests whose times are computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import weft
from weft import Hardware
from weft.fabrics import Fabric, FabricBuilder
from weft.routing.routes import TableRoutes, VirtualLanes
from weft.sim.packet.result import PacketResult
from weft.workload import Workload, WorkloadBuilder

#: Packets of up to 1000 bytes of payload and a header of 24 bytes: 102.4 ns at 80 Gb/s.
PLAIN = Hardware(mtu_bytes=1000, header_bytes=24, speedup=1)
#: Times in ps of a full packet at 80 Gb/s, a cable of unknown length and a switch.
D, L, R = 102_400, 10_000, 100_000


def duration_ps(wire_bytes: int, gbps: float) -> int:
    """Return the time of a packet on a cable in ps, rounded once."""
    return max(int(8000 * wire_bytes / gbps + 0.5), 1)


def fabric_of(
    hosts: Sequence[int], trunks: Sequence[tuple[int, int]] = (), *, rates: Sequence[float] = ()
) -> Fabric:
    """Return hosts at 80 Gb/s or `rates`, each on the given switch, and cables between switches."""
    builder = FabricBuilder("by hand", rate=80.0)
    count = 1 + max(*hosts, *(max(trunk) for trunk in trunks))
    switches = builder.switches([f"s{n}" for n in range(count)])
    ends = builder.hosts([f"h{n}" for n in range(len(hosts))])
    for host, switch in enumerate(hosts):
        builder.connect(switches[[switch]], ends[[host]], rate=rates[host] if len(rates) else 80.0)
    for one, other in trunks:
        builder.connect(switches[[one]], switches[[other]])
    return builder.fabric()


def line(rates: Sequence[float], lengths_m: Sequence[float]) -> Fabric:
    """Return the given cables in a chain from host 0 to host 1, with a switch between each two."""
    builder = FabricBuilder("a line")
    nodes = [*builder.switches([f"s{n}" for n in range(len(rates) - 1)])]
    first, last = builder.hosts(["h0", "h1"])
    nodes = [first, *nodes, last]
    for at, (rate, length) in enumerate(zip(rates, lengths_m, strict=True)):
        builder.connect([nodes[at]], [nodes[at + 1]], rate=rate, length_m=length)
    return builder.fabric()


def puts(num_ranks: int, *messages: tuple[int, int, int]) -> Workload:
    """Return messages (source, destination, bytes) sorted by source, all posted at the start."""
    builder = WorkloadBuilder(num_ranks)
    for source, target, size in messages:
        builder.put(source, target, size)
    return builder.build()


def run(
    fabric: Fabric,
    work: Workload,
    hardware: Hardware = PLAIN,
    *,
    lane_of: Sequence[int] | None = None,
    **options: Any,
) -> PacketResult:
    """Simulate on minimal paths, rank i on host i; `lane_of[i]` is the lane to host i."""
    routes = weft.route(fabric, "minhop")
    if lane_of is not None:
        assert isinstance(routes, TableRoutes)
        levels = np.zeros(fabric.num_destinations, dtype=np.uint8)
        levels[: len(lane_of)] = lane_of
        routes = replace(
            routes,
            sl=levels,
            lanes=VirtualLanes.uniform(range(max(lane_of) + 1)),
        )
    return weft.simulate(fabric, routes, work, hardware=hardware, **options, level="packet")


def arrivals(result: PacketResult) -> list[int]:
    """Return the arrival time of each message in ps."""
    return [int(each) for each in result.arrived_ps[result.workload.messages]]
