"""Sharing models: how concurrent messages divide the capacity of links.

A model uses only the capacities of links and the links of routes, not the fabric. Its kernel has
three functions: add a flow, remove a flow, and update the rates that these changes affect.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.kernels.flow import maxmin as kernel
from weft.kernels.flow.maxmin import DIGITS, LINK, QUEUE, LinkQueue
from weft.kernels.records import aligned, record
from weft.sim.flow import Sharing
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.penalty_state import penalty_state, slot_shift
from weft.sim.flow.network import Network

_MOST_BUCKETS = 2**16


def maxmin_state(
    capacity_bytes_per_ns: NDArray[np.float64],
    route_offset: NDArray[np.int64],
    route_link: NDArray[np.int32],
    route_share: NDArray[np.float64],
    max_flows: int,
) -> kernel.MaxMinState:
    """Return the initial state of `weft.kernels.flow.maxmin`, which has no flows.

    `capacity_bytes_per_ns` [links]: above 0. `route_offset`, `route_link`: int64 [routes + 1] and
    int32: the directed links of each route, each link at most once. `route_share`: same shape as
    `route_link`, above 0: share of a flow's rate that crosses the link; empty if all shares are 1.
    """
    links = len(capacity_bytes_per_ns)
    shift = slot_shift(capacity_bytes_per_ns, route_offset, route_share, max_flows)
    entries = max_flows << shift
    # Pages of these arrays take memory only once they are used. Buckets cover flow rates from 2^-24
    # of the slowest link's rate to 2^8 times the fastest link's rate; lower and higher rates use
    # the first and the last bucket.
    lowest = float(capacity_bytes_per_ns.min(initial=1.0)) / 2**24
    highest = float(capacity_bytes_per_ns.max(initial=1.0)) * 2**8
    base, last = np.array([lowest, highest]).view(np.int64) >> DIGITS
    last_bucket = min(last - base, _MOST_BUCKETS)
    key = np.zeros(links)
    capacity = np.ascontiguousarray(capacity_bytes_per_ns, dtype=np.float64)
    return kernel.MaxMinState(
        capacity=capacity,
        route_offset=np.ascontiguousarray(route_offset, dtype=np.int64),
        route_link=np.ascontiguousarray(route_link, dtype=np.int32),
        route_share=np.ascontiguousarray(route_share, dtype=np.float64),
        hops=np.zeros(max_flows, dtype=np.int32),
        entry_link=np.zeros(entries, dtype=np.int32),
        entry_index=np.zeros(entries, dtype=np.int32),
        entry_share=np.zeros(entries if len(route_share) else 0, dtype=np.float64),
        segment=np.zeros(links, dtype=np.int64),
        room=np.zeros(links, dtype=np.int32),
        members=np.zeros(links, dtype=np.int32),
        pool=np.zeros(4 * (entries + links), dtype=np.int32),
        links=aligned(links, LINK, {"rest": capacity, "level": np.inf}),
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


def sharing_states(
    sharing: Sharing, network: Network, max_flows: int, model: PenaltyModel = INFINIBAND
) -> tuple[Any, Any]:
    """Return the states of the max-min and the penalty model; None for a model that is not used.

    `network`: capacities of links, and the routes.
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
                "the penalty model counts messages at adapters, and these routes split messages "
                "over several ports of one host; multipath=hash takes one path per message"
            )
        last = max(network.route_source.max(initial=0), network.route_destination.max(initial=0))
        state = penalty_state(
            network.capacity_bytes_per_ns, network.route_offset, network.route_link,
            network.route_share, max_flows, int(last) + 1, model=model,
        )  # fmt: skip
        return None, state
    return None, None
