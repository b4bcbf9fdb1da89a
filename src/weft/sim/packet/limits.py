"""Checks before a run: refuse numbers whose sums would not fit into 64 bits of picoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.program import operations as program
from weft.sim.common.times import LONGEST_WAIT_PS, check_durations, check_latencies, placed
from weft.sim.packet.connections import Connections
from weft.sim.packet.hardware import Hardware
from weft.workload import Workload

#: Longest time of one packet on one link, 35 s; congestion control multiplies it by up to 2^14.
LONGEST_PACKET_PS = 2**45
#: Largest number of packets of one connection: packet numbers have 31 bits.
MOST_PACKETS = 2**31 - 1


def check_fabric_times(fabric: Fabric, hardware: Hardware) -> None:
    """Refuse latencies of cables that are too large, and rates that are too low for a packet."""
    check_latencies(fabric)
    packet_bytes = hardware.mtu_bytes + hardware.header_bytes
    rate = np.asarray(fabric.link_rate_gbps, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        slow = np.flatnonzero((rate > 0) & ~(8000.0 * packet_bytes / rate <= LONGEST_PACKET_PS))
    if len(slow):
        raise InputError(
            f"{fabric.link_name(int(slow[0]))} has a rate of {rate[slow[0]]:g} Gb/s, at which a "
            f"packet of {packet_bytes} bytes takes more than {LONGEST_PACKET_PS / 1e12:.0f} s"
        )
    memory = hardware.adapter_gbps
    if memory is not None and not 8000.0 * packet_bytes / memory <= LONGEST_PACKET_PS:
        raise InputError(
            f"adapter_gbps is {memory:g}, at which a packet of {packet_bytes} bytes takes more "
            f"than {LONGEST_PACKET_PS / 1e12:.0f} s"
        )


def check_workload(
    workload: Workload,
    connections: Connections,
    hardware: Hardware,
    slowest_gbps: float,
    options: Mapping[str, Any],
    times: NDArray[np.int64],
    place: NDArray[np.int64] | None = None,
) -> None:
    """Refuse operations that take too long.

    `times`: how often each message is sent. `place`: as for `check_durations`.
    """
    check_durations(workload, place)
    ops = workload.messages
    size = workload.size_bytes[ops]
    away = connections.route[ops] != program.LOCAL
    packets = np.maximum(-(-size // hardware.mtu_bytes), 1)
    wire = size + packets * float(hardware.header_bytes)
    _refuse_long(workload, ops, np.where(away, wire, 0.0), slowest_gbps, "the slowest link", place)
    local = float(options["local_gbps"])
    _refuse_long(workload, ops, np.where(away, 0.0, size), local, "local_gbps", place)
    of_connection = np.bincount(connections.connection[ops[away]], (times * packets)[away])
    if of_connection.max(initial=0) > MOST_PACKETS:
        most = int(of_connection.argmax())
        op = int(ops[away][connections.connection[ops[away]] == most][0])
        raise InputError(
            f"rank {workload.rank[op]} sends {of_connection[most]:.4g} packets to rank "
            f"{workload.peer[op]}; at most {MOST_PACKETS:,} are simulated, so choose a larger "
            "mtu_bytes or smaller messages"
        )


def _refuse_long(
    workload: Workload,
    ops: NDArray[Any],
    size_bytes: NDArray[Any],
    rate_gbps: float,
    where: str,
    place: NDArray[np.int64] | None,
) -> None:
    long = np.flatnonzero(size_bytes * 8000.0 > LONGEST_WAIT_PS * rate_gbps)
    if len(long):
        op = int(ops[long[0]])
        raise InputError(
            f"{placed(workload, op, place)} sends {workload.size_bytes[op]:,} bytes, which take "
            f"more than {LONGEST_WAIT_PS / 8.64e16:.0f} days at {rate_gbps:g} Gb/s, {where}"
        )
