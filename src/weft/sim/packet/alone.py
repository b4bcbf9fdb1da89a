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
    offset, links = first_ways(
        network.fixed, network.row_base, network.row_link, ways.kind, ways.arrays["table"],
        *(
            ways.arrays[name]
            for name in (
                "runs", "set_id", "set_offset", "set_edge", "edge_link", "goal_row", "last_link"
            )
        ),
        ways.link[used], ways.way[used], len(network.row_base) + 2,
    )  # fmt: skip
    took: NDArray[np.int64] = zero_load(
        network.fixed, network.spans, network.rate_gbps, network.memory_gbps, offset, links,
        which.astype(np.int64), np.asarray(size_bytes, dtype=np.int64), hardware.mtu_bytes,
        hardware.header_bytes, int(picoseconds(hardware.adapter_latency_ns)),
    )  # fmt: skip
    return took
