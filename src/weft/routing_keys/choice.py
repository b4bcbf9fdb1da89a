"""Choice of the switches of a key against the other keys in the network (NRK)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.frozen import read_only
from weft.kernels.keys.assignment import (
    FORBIDDEN,
    best_planes,
    columns_of,
    improve_paths,
    least_limit,
    shifted_planes,
)
from weft.routing_keys.routing_key import RoutingKey

Choice = Literal["shift", "optimum", "fixed"]
Criterion = Literal["max", "variance"]


def chosen_columns(
    key: RoutingKey, loads: NDArray[np.int32], choice: Choice, criterion: Criterion
) -> NDArray[np.int32]:
    """Return the columns of a key's flows that suit the present loads of the network.

    Parameters
    ----------
    key
        The key. Its colours stay; each colour gets another switch.
    loads
        int32 [loads]: flows of the other keys.
    choice
        ``shift`` gives the colour with the most flows the best switch, then the colour with the
        second most flows the best of the others, and so on (Routing Keys, section II-B).
        ``optimum`` is the best of all assignments of colours to switches. ``fixed`` keeps the
        switches that the key has.
    criterion
        ``max`` minimises the largest load of the links that the key uses, and among equal choices
        the variance; ``variance`` minimises the variance of the loads of all links.

    Returns
    -------
    NDArray
        int32 [flows, stages], as `RoutingKey.column`.

    Notes
    -----
    If every assignment of colours uses a missing cable, the flows are routed one after the other,
    each by its least loaded path.
    """
    if choice == "fixed":
        return key.column
    network = key.network
    stages, weight, groups = network.stages, network.weight, key.groups
    plane = np.empty(network.num_groups, dtype=np.int32)
    if choice == "shift":
        possible = shifted_planes(stages, groups, loads, weight, criterion == "max", plane)
    elif criterion == "max":
        possible = least_limit(stages, groups, loads, weight, plane) < np.inf
    else:
        possible = best_planes(stages, groups, loads, weight, np.inf, plane) < FORBIDDEN
    column = np.full(key.column.shape, -1, dtype=np.int32)
    if possible:
        columns_of(stages, key.group, key.cable, plane, column)
    else:
        improve_paths(stages, loads.copy(), weight, *key.subtrees, key.depth, column, np.inf, 0)
    return read_only(key.shared(column))
