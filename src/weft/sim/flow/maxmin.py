"""Arrays of the max–min sharing kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.contention.slots import slot_shift
from weft.kernels.flow.maxmin import MOST_PATIENCE
from weft.kernels.flow.water_levels import BASE, DIGITS, LAST_BUCKET, PATIENCE, SHIFT

#: Entries of a link's list of flows are 32-bit numbers.
_MOST_ENTRIES = 2**31
_MOST_BUCKETS = 2**16


def maxmin_state(
    capacity_bytes_per_ns: NDArray[np.float64],
    route_offset: NDArray[np.int64],
    route_link: NDArray[np.int32],
    route_share: NDArray[np.float64],
    max_flows: int,
) -> tuple[NDArray[Any], ...]:
    """State of `weft.kernels.flow.maxmin` with no flow in it.

    Parameters
    ----------
    capacity_bytes_per_ns
        float64 [links], above 0.
    route_offset, route_link
        int64 [routes + 1] and int32: the directed links of each route, each link at most once.
    route_share
        float64 as `route_link`, above 0: the part of a flow's rate that crosses the link; empty
        when all of it does.
    max_flows
        How many flows there may be at once.

    Raises
    ------
    InputError
        If a capacity or a share is not above 0, or there are too many flows.
    """
    links = len(capacity_bytes_per_ns)
    shift = slot_shift(capacity_bytes_per_ns, route_offset, route_share, max_flows)
    entries = max_flows << shift
    # Pages of these arrays take memory only once they are used.
    # Levels from what each of a few million flows gets of the thinnest link upwards tell buckets
    # apart; those below and above share one.
    lowest = float(capacity_bytes_per_ns.min(initial=1.0)) / 2**24
    highest = float(capacity_bytes_per_ns.max(initial=1.0)) * 2**8
    number = np.zeros(13, dtype=np.int64)
    number[SHIFT] = shift
    number[PATIENCE] = MOST_PATIENCE
    number[BASE], number[LAST_BUCKET] = np.array([lowest, highest]).view(np.int64) >> DIGITS
    number[LAST_BUCKET] = min(number[LAST_BUCKET] - number[BASE], _MOST_BUCKETS)
    key = np.zeros(links)
    capacity = np.ascontiguousarray(capacity_bytes_per_ns, dtype=np.float64)
    # The four numbers of a link lie in one line of the processor's cache.
    room = np.zeros(4 * links + 8)
    skipped = (-room.ctypes.data % 64) // room.itemsize
    sums = room[skipped : skipped + 4 * links].reshape(links, 4)
    sums[:, 0] = capacity
    sums[:, 3] = np.inf
    return (
        capacity,
        np.ascontiguousarray(route_offset, dtype=np.int64),
        np.ascontiguousarray(route_link, dtype=np.int32),
        np.ascontiguousarray(route_share, dtype=np.float64),
        np.zeros(max_flows, dtype=np.int32),
        np.zeros(entries, dtype=np.int32),
        np.zeros(entries, dtype=np.int32),
        np.zeros(entries if len(route_share) else 0, dtype=np.float64),
        np.zeros(links, dtype=np.int64),
        np.zeros(links, dtype=np.int32),
        np.zeros(links, dtype=np.int32),
        np.zeros(4 * (entries + links), dtype=np.int32),
        number,
        np.zeros(links, dtype=np.int32),
        np.zeros(links, dtype=np.bool_),
        np.zeros(max_flows, dtype=np.int32),
        np.zeros(max_flows, dtype=np.bool_),
        np.zeros(max_flows, dtype=np.float64),
        sums.reshape(-1),
        key,
        key.view(np.int64),
        np.full(links, -1, dtype=np.int32),
        np.full(number[LAST_BUCKET] + 1, -1, dtype=np.int32),
        np.zeros(links, dtype=np.int32),
        np.zeros(links, dtype=np.int32),
        np.zeros(links, dtype=np.float64),
        np.zeros(links, dtype=np.int32),
    )
