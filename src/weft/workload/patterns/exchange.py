"""Patterns over the order of host numbers: all-to-all, shifts, pairs and the rings of b_eff."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.patterns.pattern_registry import (
    Pairs,
    check_flows,
    generator,
    pattern,
    permutation,
)

B_EFF = "Rabenseifner and Koniges 2001 (b_eff); Luszczek et al. 2006 (HPC Challenge)"


@pattern("all-to-all", aliases=("alltoall",), source="MPI_Alltoall, all of its messages at once")
def all_to_all(num_hosts: int) -> Pairs:
    """Every host sends to every other host."""
    check_flows("all-to-all", num_hosts, num_hosts * (num_hosts - 1))
    # Flows are sorted by destination, which is fastest for following forwarding tables.
    hosts = np.arange(num_hosts, dtype=np.int64)
    others = hosts[1:] + np.zeros((num_hosts, 1), dtype=np.int64)
    others -= others <= hosts[:, None]
    return Pairs(others.reshape(-1), np.repeat(hosts, num_hosts - 1))


@pattern("shift", source="Zahavi 2012, a stage of a shift all-to-all")
def shift(num_hosts: int, *, offset: int = 1) -> Pairs:
    """Host s sends to host s + offset, modulo the number of hosts.

    Parameters
    ----------
    offset
        Number of the destination minus number of the source; may be negative.
    """
    if offset % num_hosts == 0:
        raise NotApplicable(
            f"shift by {offset} lets each of {num_hosts} hosts send to itself; "
            f"the offset must not be a multiple of {num_hosts}"
        )
    return permutation((np.arange(num_hosts) + offset) % num_hosts)


@pattern("adjacent-pairs", aliases=("buddy",), source="Petrini et al. 2003, section 4.4: neighbor")
def adjacent_pairs(num_hosts: int) -> Pairs:
    """Hosts 2i and 2i + 1 send to each other; a host left over is idle."""
    hosts = np.arange(num_hosts - num_hosts % 2)
    return Pairs(hosts, hosts ^ 1)


@pattern("ring-natural", aliases=("ring",), source=B_EFF)
def ring_natural(num_hosts: int, *, two_way: bool = True) -> Pairs:
    """Every host sends to its left and right neighbour in a ring of hosts ordered by number.

    Parameters
    ----------
    num_hosts
        Number of hosts; of two hosts, each is the left and the right neighbour of the other and
        receives two flows.
    two_way
        Send to both neighbours, as b_eff does; otherwise to the right one only.
    """
    return _ring(np.arange(num_hosts), two_way)


@pattern("ring-random", source=B_EFF)
def ring_random(num_hosts: int, *, two_way: bool = True, seed: int = 0) -> Pairs:
    """Every host sends to its left and right neighbour in a ring of hosts in random order.

    Parameters
    ----------
    two_way
        Send to both neighbours, as b_eff does; otherwise to the right one only.
    seed
        Seed of the random order.
    """
    return _ring(generator(seed).permutation(num_hosts), two_way)


def _ring(order: NDArray[np.int64], two_way: bool) -> Pairs:
    right = np.roll(order, -1)
    if not two_way:
        return Pairs(order, right)
    return Pairs(np.concatenate((order, right)), np.concatenate((right, order)))
