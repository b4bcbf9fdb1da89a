"""Placement that gives each job links of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.isolation import IsolatedJobs, Isolation
from weft.workload.placement.placement_registry import Room, placement


@placement("isolated", explicit=False)
def isolated(room: Room, *, method: Isolation = "jigsaw") -> NDArray[np.int32]:
    """Hosts of a fat tree on which a job needs no link between switches that another job needs.

    Parameters
    ----------
    room
        Allowed hosts and number of ranks.
    method
        ``jigsaw``, or ``laas``, which rounds jobs that need several pods up to whole leaf switches.
        All jobs must be placed by one method; see `weft.workload.isolation`.

    Raises
    ------
    InputError
        If the ranks need more hosts than are allowed.
    NotApplicable
        If the fabric is not a complete tree of two or three levels, a job with ranks already is not
        isolated, or no allocation of the job is.
    """
    room.need(len(room.hosts))
    state = IsolatedJobs(room.fabric, method)
    for number, hosts in enumerate(room.earlier, 1):
        earlier = state.adopt(hosts)
        if earlier is None:
            raise NotApplicable(f"job {number} with ranks already is not isolated by {method}")
        state.take(earlier)
    state.allow(room.hosts)
    count = -(-room.num_ranks // room.seats)
    allocation = state.find(count)
    if allocation is None:
        raise NotApplicable(
            f"no {count:,} of the {sum(map(len, state.free)):,} free hosts can be isolated by "
            f"{method}"
        )
    return room.fill(np.array(allocation.hosts[:count], dtype=np.int32))
