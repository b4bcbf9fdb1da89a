"""State of the penalty sharing model, and the size of a flow's slot in all sharing models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.kernels.flow import penalty as kernel
from weft.kernels.records import record
from weft.sim.flow.contention.coefficients import INFINIBAND, PenaltyModel

#: Entries of a link's list of flows are 32-bit numbers.
_MOST_ENTRIES = 2**31


def slot_shift(
    capacity_bytes_per_ns: NDArray[np.float64],
    route_offset: NDArray[np.int64],
    route_share: NDArray[np.float64],
    max_flows: int,
) -> int:
    """Return the number of bits of an index in a flow's slot, which has one entry per hop.

    `capacity_bytes_per_ns` [links]: capacity of each link, above 0. `route_offset`, `route_share`:
    int64 [routes + 1] and float64, as in `weft.sim.flow.network.Network`.
    """
    if not np.all(capacity_bytes_per_ns > 0):
        raise InputError("capacities of links must be above 0")
    if len(route_share) and not np.all(route_share > 0):
        raise InputError("shares of flows on links must be above 0")
    longest: Any = np.diff(route_offset).max(initial=1)
    shift = int(longest - 1).bit_length()
    if max_flows << shift >= _MOST_ENTRIES:
        raise InputError(
            f"{max_flows} concurrent flows over up to {longest} links each are too many; "
            f"at most {_MOST_ENTRIES >> shift} are possible"
        )
    return shift


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
) -> kernel.PenaltyState:
    """Return a state of `weft.kernels.flow.penalty` without flows.

    - `capacity_bytes_per_ns` [links]: capacity of each link, above 0.
    - `route_offset`, `route_link`: int64 [routes + 1] and int32: links of each route as in
      `weft.sim.flow.network.Network`. A route has each link at most once. Its first link leaves the
      sending adapter, its last link enters the receiving adapter.
    - `route_share`: same shape as `route_link`, above 0: share of a flow's rate that uses the link;
      empty if all shares are 1.
    - `num_adapters`: number of endpoints; the endpoint numbers of flows are below this number.
    - `model`: coefficients of the contention-graph model, which applies to the adapters.
    - `inner` [links]: whether the link is inside the fabric, and so is not part of the contention
      graph. By default, links between the first and the last link of some route.
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
    # Rates of the adapters at the ends of each route; a route without links is never used.
    ends = np.full((2, len(hops)), np.inf)
    for end, at in zip(ends, (route_offset[:-1], route_offset[1:] - 1), strict=True):
        used = at[hops > 0]
        end[hops > 0] = capacity_bytes_per_ns[route_link[used]]
        if len(route_share):
            end[hops > 0] /= route_share[used]
    # Pages of the large arrays take memory only once they are used.
    return kernel.PenaltyState(
        coefficients=model.coefficients(),
        capacity=np.ascontiguousarray(capacity_bytes_per_ns, dtype=np.float64),
        inner=np.ascontiguousarray(inner, dtype=np.bool_),
        level=np.full(links, np.inf),
        route_offset=np.ascontiguousarray(route_offset, dtype=np.int64),
        route_link=np.ascontiguousarray(route_link, dtype=np.int32),
        route_share=np.ascontiguousarray(route_share, dtype=np.float64),
        source_rate=ends[0],
        destination_rate=ends[1],
        nodes=np.zeros(num_adapters, dtype=kernel.NODE),
        flows=np.zeros(max_flows, dtype=kernel.FLOW),
        sent_by=_lists(num_adapters, max_flows),
        received_by=_lists(num_adapters, max_flows),
        entries_of=_lists(links, entries),
        senders=np.zeros(num_adapters, dtype=np.int32),
        receivers=np.zeros(num_adapters, dtype=np.int32),
        links=np.zeros(links, dtype=np.int32),
        pending=np.zeros(max_flows, dtype=np.int32),
        is_listed=np.zeros(links, dtype=np.bool_),
        is_pending=np.zeros(max_flows, dtype=np.bool_),
        count=record(kernel.COUNT, shift=shift),
    )


def _lists(heads: int, items: int) -> kernel.Lists:
    """Return `heads` empty linked lists with room for `items` items in all."""
    return kernel.Lists(
        np.full(heads, -1, dtype=np.int32),
        np.zeros(items, dtype=np.int32),
        np.zeros(items, dtype=np.int32),
    )
