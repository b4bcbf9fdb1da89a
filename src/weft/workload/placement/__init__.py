"""Placement: on which host each rank runs, one file per family of strategies.

A strategy is added by a file with one function::

    @placement("backwards", explicit=False)
    def backwards(room: Room) -> NDArray[np.int32]:
        return room.fill(room.hosts[::-1])

The fact `explicit` says that the user's text names the hosts, rather than the strategy picking
them from those that are allowed.
"""

from weft.workload.placement.placement_registry import Room, place, placement

__all__ = ["Room", "place", "placement"]
