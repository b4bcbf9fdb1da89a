"""Sharing laws: how messages that are under way at once divide the links.

A law knows capacities and runs of links, nothing of fabrics. Its kernel has three functions:
a flow comes, a flow goes, and rates are shared anew where that changed something.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.contention import INFINIBAND, PenaltyModel
from weft.contention.penalty_state import penalty_state, slot_shift
from weft.core.errors import NotApplicable
from weft.kernels.flow import maxmin as kernel
from weft.kernels.flow.maxmin import DIGITS, LINK, QUEUE, LinkQueue
from weft.kernels.records import record
from weft.sim.flow.network import Network

#: Entries of a link's list of flows are 32-bit numbers.
_MOST_ENTRIES = 2**31
_MOST_BUCKETS = 2**16


def maxmin_state(
    capacity_bytes_per_ns: NDArray[np.float64],
    route_offset: NDArray[np.int64],
    route_link: NDArray[np.int32],
    route_share: NDArray[np.float64],
    max_flows: int,
) -> kernel.State:
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
    base, last = np.array([lowest, highest]).view(np.int64) >> DIGITS
    last_bucket = min(last - base, _MOST_BUCKETS)
    key = np.zeros(links)
    capacity = np.ascontiguousarray(capacity_bytes_per_ns, dtype=np.float64)
    # What is kept of a link lies in one line of the processor's cache.
    room = np.zeros((links + 2) * LINK.itemsize, dtype=np.uint8)
    skipped = -room.ctypes.data % 64
    sums = room[skipped : skipped + links * LINK.itemsize].view(LINK)
    sums["rest"] = capacity
    sums["level"] = np.inf
    return kernel.State(
        capacity=capacity,
        route_offset=np.ascontiguousarray(route_offset, dtype=np.int64),
        route_link=np.ascontiguousarray(route_link, dtype=np.int32),
        route_share=np.ascontiguousarray(route_share, dtype=np.float64),
        hops=np.zeros(max_flows, dtype=np.int32),
        entry_link=np.zeros(entries, dtype=np.int32),
        entry_place=np.zeros(entries, dtype=np.int32),
        entry_share=np.zeros(entries if len(route_share) else 0, dtype=np.float64),
        segment=np.zeros(links, dtype=np.int64),
        room=np.zeros(links, dtype=np.int32),
        members=np.zeros(links, dtype=np.int32),
        pool=np.zeros(4 * (entries + links), dtype=np.int32),
        links=sums,
        dirty=np.zeros(links, dtype=np.int32),
        is_dirty=np.zeros(links, dtype=np.bool_),
        touched=np.zeros(max_flows, dtype=np.int32),
        is_touched=np.zeros(max_flows, dtype=np.bool_),
        current=np.zeros(max_flows, dtype=np.float64),
        queue=LinkQueue(
            key=key,
            key_bits=key.view(np.int64),
            bucket_of=np.full(links, -1, dtype=np.int32),
            first=np.full(last_bucket + 1, -1, dtype=np.int32),
            after=np.zeros(links, dtype=np.int32),
            before=np.zeros(links, dtype=np.int32),
            count=record(QUEUE, base=base, last_bucket=last_bucket),
        ),
        heap_key=np.zeros(links, dtype=np.float64),
        heap_link=np.zeros(links, dtype=np.int32),
        count=record(kernel.COUNT, shift=shift, patience=kernel.MOST_PATIENCE),
    )


Sharing = Literal["maxmin", "penalty", "none"]


def sharing_states(
    sharing: Sharing, network: Network, max_flows: int, model: PenaltyModel = INFINIBAND
) -> tuple[Any, Any]:
    """State of the max-min and of the penalty law; None for those not in force.

    Parameters
    ----------
    sharing
        The law.
    network
        What flows share.
    max_flows
        Most flows at once.
    model
        Coefficients of the penalty law.

    Raises
    ------
    NotApplicable
        When the penalty law is to share routes that leave a host by several ports at once.
    """
    if sharing == "maxmin":
        levels = maxmin_state(
            network.capacity_bytes_per_ns, network.route_offset, network.route_link,
            network.route_share, max_flows,
        )  # fmt: skip
        return levels, None
    if sharing == "penalty":
        share = network.route_share
        if len(share) and np.any(
            np.concatenate([share[network.route_offset[:-1]], share[network.route_offset[1:] - 1]])
            != 1.0
        ):
            raise NotApplicable(
                "the penalty law counts messages at adapters, and these routes split messages over "
                "several ports of one host; multipath=hash takes one way for each"
            )
        last = max(network.route_source.max(initial=0), network.route_destination.max(initial=0))
        state = penalty_state(
            network.capacity_bytes_per_ns, network.route_offset, network.route_link,
            network.route_share, max_flows, int(last) + 1, model=model,
        )  # fmt: skip
        return None, state
    return None, None
