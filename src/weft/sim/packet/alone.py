"""How long messages would take if nothing else were there: a closed form along the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.kernels.packet.alone import first_ways, zero_load
from weft.sim.packet.hardware import Hardware
from weft.sim.packet.message_routes import Ways
from weft.sim.packet.network import PacketNetwork, picoseconds


def alone_ps(
    network: PacketNetwork,
    ways: Ways,
    hardware: Hardware,
    route: NDArray[Any],
    size_bytes: NDArray[Any],
) -> NDArray[np.int64]:
    """int64 [messages]: from a message's leaving to its arrival in an empty network.

    Every packet follows the one before over each link as soon as rules 11, 12 and 18 let it, with
    credits for all; buffers that hold fewer packets than a round trip takes make it longer.

    Parameters
    ----------
    network, ways, hardware
        Of the run.
    route, size_bytes
        int [messages].
    """
    used, which = np.unique(route, return_inverse=True)
    topology = network.topology
    offset, links = first_ways(
        topology, ways.tables, ways.kind, ways.routes[used], len(topology.rows) + 3
    )
    took: NDArray[np.int64] = zero_load(
        topology, offset, links, which.astype(np.int64), np.asarray(size_bytes, dtype=np.int64),
        hardware.mtu_bytes, hardware.header_bytes, int(picoseconds(hardware.adapter_latency_ns)),
    )  # fmt: skip
    return took
