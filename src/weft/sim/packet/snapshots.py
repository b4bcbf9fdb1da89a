"""Snapshots of all buffers of a network during a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Snapshots:
    """States of buffers, reasons of waits, and counters of links, at several times."""

    #: int64 [snapshots]: simulated time of each snapshot.
    time_ps: NDArray[np.int64]
    #: int32 [snapshots, links, lanes]: credits in use of the buffer at the far end of each link.
    #: They are the credits of packets in the buffer or on the link, and credits being returned.
    held: NDArray[np.int32]
    #: int64 [snapshots, links, lanes]: packets sent since the start of the run, their bytes, and
    #: total wait of these packets.
    packets: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]
    wait_ps: NDArray[np.int64]
    #: int64 [snapshots, links]: time for which the link carried packets since the start.
    busy_ps: NDArray[np.int64]
    #: int64 [snapshots, links]: time since the start for which the link was free and sent nothing,
    #: although all bytes of a packet at the head of a queue for it had arrived.
    blocked_ps: NDArray[np.int64]
    #: int32, int8 [snapshots, links, lanes]: output link and lane that the first packet of the
    #: buffer at the far end of each link waits for; -1 if nothing waits. If the buffer has several
    #: queues, the values are those of the packet that has waited longest.
    wants: NDArray[np.int32]
    wants_vl: NDArray[np.int8]
    #: uint8 [snapshots, links, lanes]: reason of the wait, as defined in
    #: `weft.kernels.packet.view`.
    why: NDArray[np.uint8]
