"""Placements that are independent of the topology: by host number, or random."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.workload.patterns.pattern_registry import generator
from weft.workload.placement.placement_registry import PlacementRequest, placement


@placement("linear", explicit=False)
def linear(request: PlacementRequest) -> NDArray[np.int32]:
    """Hosts in the order of the allowed hosts: by number, unless a list of hosts is given."""
    return request.fill(request.hosts)


@placement("last", explicit=False)
def last(request: PlacementRequest) -> NDArray[np.int32]:
    """The last of the allowed hosts, in their order."""
    request.need(len(request.hosts))
    used = request.hosts_needed
    return request.fill(request.hosts[len(request.hosts) - used :])


@placement("strided", explicit=False)
def strided(request: PlacementRequest) -> NDArray[np.int32]:
    """Evenly spaced hosts: every n-th of the allowed hosts, from the first on."""
    request.need(len(request.hosts))
    used = request.hosts_needed
    return request.fill(request.hosts[np.arange(used) * len(request.hosts) // used])


@placement("random", explicit=False)
def random(
    request: PlacementRequest, *, seed: int = 0, over: Literal["hosts", "seats"] = "hosts"
) -> NDArray[np.int32]:
    """Hosts in random order.

    Parameters
    ----------
    seed
        Seed of the random order; equal seeds give equal placements.
    over
        What is put in random order. With ``hosts``, the hosts are permuted and filled with ranks
        according to the distribution. With ``seats``, every host has `ranks_per_host` seats, and
        each rank gets a random free seat. The results differ only if hosts have several seats.

    Raises
    ------
    InputError
        When the seed is negative, or seats are drawn and a distribution is given.
    """
    draw = generator(seed)
    if over == "hosts":
        return request.fill(draw.permutation(request.hosts))
    request.refuse_distribution("over=seats")
    request.need(len(request.hosts))
    each = request.max_ranks_per_host
    seats = np.repeat(request.hosts, each)
    seats = request.seat(seats, np.arange(len(seats)) % each)
    return draw.permutation(seats)[: request.num_ranks]
