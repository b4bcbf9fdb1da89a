"""Placements, which give the host of each rank; one file per family of placements.

A file with one function adds a placement::

    @placement("backwards", explicit=False)
    def backwards(request: PlacementRequest) -> NDArray[np.int32]:
        return request.fill(request.hosts[::-1])

The fact `explicit` is true if the user names the hosts, and false if the placement picks them among
the allowed hosts.
"""

from weft.workload.placement.placement_registry import (
    PlacementRequest,
    host_of_rank,
    place,
    placement,
)

__all__ = ["PlacementRequest", "host_of_rank", "place", "placement"]
