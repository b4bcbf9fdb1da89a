"""Choose the switches of a key, given the other keys in use (NRK)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.frozen import read_only
from weft.kernels.keys.assignment import (
    best_planes,
    columns_of,
    first_fit,
    least_limit,
    shifted_planes,
)
from weft.sim.keys.routing_key import HOST_RATE, RoutingKey

Choice = Literal["shift", "optimum", "first-fit", "fixed", "installed"]
Criterion = Literal["max", "variance"]


def chosen_columns(
    key: RoutingKey, loads: NDArray[np.integer[Any]], choice: Choice, criterion: Criterion
) -> NDArray[np.int32]:
    """Choose the columns of a key's flows for the present loads of the network.

    - `key`: the key. Flows that share a switch still share one afterwards, except with
      ``first-fit``; flows on different switches stay on different ones.
    - `loads`, int32 [loads]: number of flows of the other keys on each link; for ``first-fit``
      int64 [loads]: the sum of their demands (see `RoutingKey.demand`).
    - `choice`: ``shift`` gives the colour with the most flows the best switch, then the colour with
      the second most flows the best of the remaining switches, and so on (Routing Keys, section
      II-B). ``optimum`` is the best of all assignments of colours to switches. ``first-fit``
      ignores the colours: it places the flows one after the other, each on the first path (in the
      order of the switches) whose links all have room for the flow's demand. A flow that fits on no
      path gets one that a hash of its two ends selects. ``fixed`` keeps the switches that the key
      has.
    - `criterion`: for ``shift`` and ``optimum`` only. ``max`` minimises the largest load of the
      links that the key uses, and breaks ties by the sum of squared loads. ``variance`` minimises
      the sum of squared loads of all links, and thus the variance of the loads if all links have
      one rate.

    Returns int32 [flows, stages], as `RoutingKey.column`.

    Where cables are missing, ``shift`` may find no switch for the last colours. The key then gets
    the best of all assignments, as with ``optimum``. There is always one, because the switches that
    the key had when it was made are possible.

    ``first-fit`` takes its idea from Hedera's global first fit (Al-Fares et al., NSDI 2010). There
    are three differences. It places all flows of a phase when the phase begins, whereas Hedera
    detects large flows by polling the switches every few seconds. It estimates demands in one step,
    from the flows of the key alone. A flow that fits on no path still reserves its demand on the
    path that it gets.
    """
    if choice == "fixed":
        return key.column
    network = key.network
    stages, weight, groups = network.stages, network.weight, key.groups
    column = np.full(key.column.shape, -1, dtype=np.int32)
    if choice == "first-fit":
        pair = key.endpoints[0].astype(np.int64) << 32 | key.endpoints[1]
        first_fit(
            stages, loads.copy(), weight, *key.subtrees, key.depth, key.demand,
            HOST_RATE * (1 + 1e-9), pair, column,
        )  # fmt: skip
        return read_only(key.shared(column))
    plane = np.empty(network.num_groups, dtype=np.int32)
    by_maximum = criterion == "max"
    if choice != "shift" or not shifted_planes(stages, groups, loads, weight, by_maximum, plane):
        if by_maximum:
            least_limit(stages, groups, loads, weight, plane)
        else:
            best_planes(stages, groups, loads, weight, np.inf, plane)
    columns_of(stages, key.group, key.cable, plane, column)
    return read_only(key.shared(column))
