"""Placement along the axes of a torus, mesh, KNS or any other fabric with coordinates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.workload.placement.leaves import leaf_nodes
from weft.workload.placement.placement_registry import Room, placement


@placement("coordinates", explicit=False)
def coordinates(
    room: Room, *, axes: tuple[int, ...] | None = None, snake: bool = False
) -> NDArray[np.int32]:
    """Hosts by their coordinates, the first axis named counting fastest.

    A host without coordinates has those of the switch that it hangs from; hosts of equal
    coordinates follow each other as they are offered.

    Parameters
    ----------
    room
        The hosts and how many ranks.
    axes
        Axes from the fastest to the slowest, counted from 0; those left out follow in ascending
        order. 0, 1, 2… when left out, which is how the coordinates of weft's own fabrics count; an
        MPI Cartesian communicator, whose last dimension counts fastest, is ``axes=2,1,0`` where its
        dimensions are the fabric's.
    snake
        Turn round at the end of every line rather than start the next one at its beginning, so
        that hosts which follow each other differ by one step along one axis, where none is left
        out.

    Raises
    ------
    InputError
        On an axis that the fabric does not have, or one named twice.
    NotApplicable
        When the fabric has no coordinates, or a host has none.
    """
    where = host_coordinates(room.fabric, room.hosts)
    order = _axes(axes, where.shape[1])
    digits = where[:, order]
    if snake:
        digits = _snaked(digits)
    return room.fill(room.hosts[np.lexsort(digits.T)])


def host_coordinates(fabric: Fabric, hosts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Coordinates of hosts, or of the switches that they hang from; int32 [hosts, axes].

    Raises
    ------
    NotApplicable
        When one has none.
    """
    if not fabric.coordinates.shape[1]:
        raise NotApplicable(f"{fabric.name} has no coordinates")
    own = fabric.coordinates[fabric.num_switches + hosts]
    bare = np.asarray((own < 0).all(axis=1))
    where: NDArray[np.int32] = own.copy()
    if bare.any():
        where[bare] = fabric.coordinates[leaf_nodes(fabric, hosts[bare])]
    lost = hosts[(where < 0).any(axis=1)]
    if len(lost):
        raise NotApplicable(f"host {fabric.host_names[lost[0]]} has no coordinates")
    return where


def _axes(axes: tuple[int, ...] | None, number: int) -> list[int]:
    named = list(axes or ())
    for axis in named:
        if not 0 <= axis < number:
            raise InputError(f"there is no axis {axis}; axes are 0 to {number - 1}")
        if named.count(axis) > 1:
            raise InputError(f"axis {axis} is named twice")
    return named + [axis for axis in range(number) if axis not in named]


def _snaked(digits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Digits, fastest first, in which lines run forth and back in turn."""
    result = digits.copy()
    # From one line to the next one slower coordinate changes by 1, so that their sum tells lines
    # that run forth from those that run back.
    odd = np.zeros(len(digits), dtype=bool)
    for axis in range(digits.shape[1] - 1, -1, -1):
        last = digits[:, axis].max(initial=0)
        result[:, axis] = np.where(odd, last - digits[:, axis], digits[:, axis])
        odd ^= digits[:, axis] % 2 == 1
    return result
