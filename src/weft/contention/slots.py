"""Slots of flows: the room that every sharing law keeps for each flow at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError

#: Entries of a link's list of flows are 32-bit numbers.
_MOST_ENTRIES = 2**31


def slot_shift(
    capacity_bytes_per_ns: NDArray[np.float64],
    route_offset: NDArray[np.int64],
    route_share: NDArray[np.float64],
    max_flows: int,
) -> int:
    """Binary digits of a place in a slot: a slot has one for each link of the longest route.

    Parameters
    ----------
    capacity_bytes_per_ns
        float64 [links].
    route_offset, route_share
        int64 [routes + 1] and float64, as `weft.sim.flow.network.Network` has them.
    max_flows
        How many flows there may be at once.

    Raises
    ------
    InputError
        If a capacity or a share is not above 0, or there are too many flows.
    """
    if not np.all(capacity_bytes_per_ns > 0):
        raise InputError("every link that flows share needs a capacity above 0")
    if len(route_share) and not np.all(route_share > 0):
        raise InputError("the part of a flow that crosses a link is above 0")
    longest: Any = np.diff(route_offset).max(initial=1)
    shift = int(longest - 1).bit_length()
    if max_flows << shift >= _MOST_ENTRIES:
        raise InputError(
            f"{max_flows} flows at once over up to {longest} links each are too many; "
            f"at most {_MOST_ENTRIES >> shift} fit"
        )
    return shift
