"""All buffers of a network at some moments of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Snapshots:
    """What buffers held, what waited for what, and what links had carried, at some moments.

    Parameters
    ----------
    time_ps
        int64 [moments].
    held
        int32 [moments, links, lanes]: credits taken of the buffer at the far end of each link, by
        packets that are in it or on their way to it, or not back yet.
    wire_bytes, wait_ps
        int64 [moments, links, lanes]: counters up to then.
    busy_ps
        int64 [moments, links]: how long packets had been leaving, up to then.
    wants, wants_vl
        int32, int8 [moments, links, lanes]: link and lane by which the first packet of the buffer
        at the far end of each link waits to leave, of several queues the one that waits longest;
        -1 where nothing waits.
    why
        uint8 [moments, links, lanes]: what it waits for, by `weft.kernels.packet.view`.
    """

    time_ps: NDArray[np.int64]
    held: NDArray[np.int32]
    wire_bytes: NDArray[np.int64]
    wait_ps: NDArray[np.int64]
    busy_ps: NDArray[np.int64]
    wants: NDArray[np.int32]
    wants_vl: NDArray[np.int8]
    why: NDArray[np.uint8]
