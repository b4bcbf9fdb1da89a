"""Arrays of the sharing kernel that follows the contention-graph model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.contention.coefficients import INFINIBAND, PenaltyModel
from weft.contention.slots import slot_shift


def penalty_state(
    capacity_bytes_per_ns: NDArray[np.float64],
    route_offset: NDArray[np.int64],
    route_link: NDArray[np.int32],
    route_share: NDArray[np.float64],
    max_flows: int,
    num_adapters: int,
    *,
    model: PenaltyModel = INFINIBAND,
    inner: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[Any], ...]:
    """State of `weft.kernels.flow.penalty` with no flow in it.

    Parameters
    ----------
    capacity_bytes_per_ns
        float64 [links], above 0.
    route_offset, route_link
        int64 [routes + 1] and int32: the directed links of each route, each link at most once;
        the first leaves the sending adapter and the last enters the receiving one.
    route_share
        float64 as `route_link`, above 0: the part of a flow's rate that crosses the link; empty
        when all of it does.
    max_flows
        How many flows there may be at once.
    num_adapters
        Sources and destinations of flows are below this number.
    model
        Coefficients of the contention graph of the adapters.
    inner
        bool [links]: shared inside the fabric, beyond what the contention graph knows. When left
        out, links that some route crosses other than first or last.

    Raises
    ------
    InputError
        If a capacity or a share is not above 0, or there are too many flows.
    """
    links = len(capacity_bytes_per_ns)
    hops = np.diff(route_offset)
    shift = slot_shift(capacity_bytes_per_ns, route_offset, route_share, max_flows)
    entries = max_flows << shift
    if inner is None:
        middle = np.ones(len(route_link), dtype=np.bool_)
        middle[route_offset[:-1][hops > 0]] = False
        middle[route_offset[1:][hops > 0] - 1] = False
        inner = np.zeros(links, dtype=np.bool_)
        inner[route_link[middle]] = True
    # Rates of the adapters at the ends of each route; a route of no links is never used.
    ends = np.full((2, len(hops)), np.inf)
    for end, at in zip(ends, (route_offset[:-1], route_offset[1:] - 1), strict=True):
        used = at[hops > 0]
        end[hops > 0] = capacity_bytes_per_ns[route_link[used]]
        if len(route_share):
            end[hops > 0] /= route_share[used]
    node = np.zeros((10, num_adapters), dtype=np.int32)
    node[8:] = -1
    number = np.zeros(5, dtype=np.int64)
    number[0] = shift
    # Pages of the large arrays take memory only once they are used.
    return (
        np.ascontiguousarray(capacity_bytes_per_ns, dtype=np.float64),
        np.ascontiguousarray(route_offset, dtype=np.int64),
        np.ascontiguousarray(route_link, dtype=np.int32),
        np.ascontiguousarray(route_share, dtype=np.float64),
        np.ascontiguousarray(inner, dtype=np.bool_),
        ends,
        node,
        np.zeros((7, max_flows), dtype=np.int32),
        np.zeros((4, max_flows), dtype=np.float64),
        np.zeros(entries, dtype=np.int32),
        np.zeros(entries, dtype=np.int32),
        np.full(links, -1, dtype=np.int32),
        np.zeros(num_adapters, dtype=np.int32),
        number,
        np.zeros(links, dtype=np.bool_),
        np.zeros(links, dtype=np.int32),
        np.zeros(num_adapters, dtype=np.int32),
        np.zeros(num_adapters, dtype=np.int32),
        np.zeros(max_flows, dtype=np.int32),
        np.zeros(max_flows, dtype=np.bool_),
        model.array(),
        np.zeros((3, num_adapters), dtype=np.float64),
        np.full(links, np.inf),
    )
