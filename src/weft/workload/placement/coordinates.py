"""Placement by the coordinates of a torus, mesh, KNS or other fabric with coordinates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.workload.placement.leaves import leaf_nodes
from weft.workload.placement.placement_registry import PlacementRequest, placement


@placement("coordinates", explicit=False)
def coordinates(
    request: PlacementRequest, *, axes: tuple[int, ...] | None = None, snake: bool = False
) -> NDArray[np.int32]:
    """Hosts in the order of their coordinates, the first of `axes` varying fastest.

    A host without coordinates takes those of its switch; hosts with equal coordinates keep the
    order of the allowed hosts.

    Parameters
    ----------
    axes
        Axes from the fastest to the slowest, numbered from 0; axes that are not listed follow in
        ascending order. If left out, the order is 0, 1, 2…, as in the numbering of weft's own
        fabrics. For an MPI Cartesian communicator with the fabric's three dimensions, of which the
        last varies fastest, use ``axes=2,1,0``.
    snake
        Reverse the order of every second line. If no host is missing, consecutive hosts are then
        one step apart along one axis.

    Raises
    ------
    InputError
        If the fabric does not have an axis, or an axis is listed twice.
    NotApplicable
        When the fabric has no coordinates, or neither a host nor its switch has any.
    """
    own = host_coordinates(request.fabric, request.hosts)
    order = _axes(axes, own.shape[1])
    keys = own[:, order]
    if snake:
        keys = _snaked(keys)
    return request.fill(request.hosts[np.lexsort(keys.T)])


def host_coordinates(fabric: Fabric, hosts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return int32 [hosts, axes]: coordinates of each host, or else of its leaf switch."""
    if not fabric.coordinates.shape[1]:
        raise NotApplicable(f"{fabric.name} has no coordinates")
    own = fabric.coordinates[fabric.num_switches + hosts]
    missing = np.asarray((own < 0).all(axis=1))
    result: NDArray[np.int32] = own.copy()
    if missing.any():
        result[missing] = fabric.coordinates[leaf_nodes(fabric, hosts[missing])]
    without = hosts[(result < 0).any(axis=1)]
    if len(without):
        raise NotApplicable(f"host {fabric.host_names[without[0]]} has no coordinates")
    return result


def _axes(axes: tuple[int, ...] | None, number: int) -> list[int]:
    named = list(axes or ())
    for axis in named:
        if not 0 <= axis < number:
            raise InputError(f"there is no axis {axis}; axes are 0 to {number - 1}")
        if named.count(axis) > 1:
            raise InputError(f"axis {axis} is named twice")
    return named + [axis for axis in range(number) if axis not in named]


def _snaked(keys: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return coordinates with every second line reversed; the first axis varies fastest."""
    result = keys.copy()
    # A line is reversed if the sum of its slower coordinates is odd; from one line to the next, one
    # of these coordinates changes by 1.
    odd = np.zeros(len(keys), dtype=bool)
    for axis in range(keys.shape[1] - 1, -1, -1):
        last = keys[:, axis].max(initial=0)
        result[:, axis] = np.where(odd, last - keys[:, axis], keys[:, axis])
        odd ^= keys[:, axis] % 2 == 1
    return result
