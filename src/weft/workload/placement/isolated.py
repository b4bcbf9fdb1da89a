"""Placement that gives each job links of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.isolation import IsolatedJobs, Isolation
from weft.workload.placement.placement_registry import PlacementRequest, placement


@placement("isolated", explicit=False)
def isolated(request: PlacementRequest, *, method: Isolation = "jigsaw") -> NDArray[np.int32]:
    """Hosts of a fat tree on which a job needs no link between switches that another job needs.

    Parameters
    ----------
    method
        ``jigsaw``, or ``laas``, which rounds jobs that need several pods up to whole leaf switches.
        All jobs must be placed by the same method. `weft.workload.isolation` describes the methods;
        its `isolated_routes` use only the jobs' own links.

    Raises
    ------
    InputError
        If the ranks need more hosts than are allowed.
    NotApplicable
        If the fabric is not a tree as for `IsolatedJobs`, an earlier job is not isolated, or no
        isolated allocation for this job is left. Also if ranks per host are given and machines have
        several adapters.
    """
    request.need(len(request.hosts))
    if request.adapters is not None:
        raise NotApplicable("links of a machine with several adapters cannot be isolated")
    state = IsolatedJobs(request.fabric, method)
    for number, hosts in enumerate(request.earlier, 1):
        earlier = state.adopt(hosts)
        if earlier is None:
            raise NotApplicable(f"job {number}, already placed, is not isolated by {method}")
        state.take(earlier)
    state.allow(request.hosts)
    count = request.hosts_needed
    allocation = state.find(count)
    if allocation is None:
        raise NotApplicable(
            f"no {count:,} of the {sum(map(len, state.free)):,} free hosts can be isolated by "
            f"{method}"
        )
    return request.fill(np.array(allocation.hosts[:count], dtype=np.int32))
