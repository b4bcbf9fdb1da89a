"""Choice of the switches of a key against the other keys in the network (NRK)."""

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
from weft.routing_keys.routing_key import HOST_RATE, RoutingKey

Choice = Literal["shift", "optimum", "first-fit", "fixed"]
Criterion = Literal["max", "variance"]


def chosen_columns(
    key: RoutingKey, loads: NDArray[np.integer[Any]], choice: Choice, criterion: Criterion
) -> NDArray[np.int32]:
    """Return the columns of a key's flows that suit the present loads of the network.

    Parameters
    ----------
    key
        The key. The flows that share a switch stay together; each such colour gets another switch.
    loads
        int32 [loads]: flows of the other keys; for ``first-fit`` int64, their demands as
        `RoutingKey.demand`.
    choice
        ``shift`` gives the colour with the most flows the best switch, then the colour with the
        second most flows the best of the others, and so on (Routing Keys, section II-B).
        ``optimum`` is the best of all assignments of colours to switches. ``first-fit`` ignores the
        colours: the flows are placed one after the other on the first path, in the order of the
        switches, whose links all have room for the flow's demand, else on a hashed path.
        ``fixed`` keeps the switches that the key has.
    criterion
        Of ``shift`` and ``optimum``. ``max`` minimises the largest load of the links that the key
        uses, and among equal choices the sum of squared loads; ``variance`` minimises the sum of
        squared loads of all links, and thus their variance where all links have one rate.

    Returns
    -------
    NDArray
        int32 [flows, stages], as `RoutingKey.column`.

    Notes
    -----
    Where cables are missing, ``shift`` may find no switch for its last colours; the best of all
    assignments takes its place. There is always one, since the key's own switches are possible.

    ``first-fit`` has the idea of Hedera's global first fit (Al-Fares et al., NSDI 2010): it places
    all flows of a phase when the phase begins, where Hedera finds large flows by polling the
    switches every few seconds; demands are estimated within the key and in one step; and flows that
    fit nowhere are reserved on their hashed path.
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
