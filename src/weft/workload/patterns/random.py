"""Random patterns; equal seeds give equal flows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.patterns.pattern_registry import (
    Pairs,
    check_flows,
    generator,
    listed_hosts,
    need,
    pattern,
    permutation,
)


@pattern("random-permutation", aliases=("permutation",), source="Dally and Towles 2004, table 3.1")
def random_permutation(num_hosts: int, *, fixed_points: bool = False, seed: int = 0) -> Pairs:
    """Every host sends to one host and receives from one host.

    Parameters
    ----------
    fixed_points
        Draw from all permutations; a host mapped to itself is then idle. Otherwise draw from those
        that map no host to itself (derangements), each equally likely.
    seed
        Seed of the random numbers.
    """
    random = generator(seed)
    hosts = np.arange(num_hosts)
    while True:
        # One in e permutations is a derangement, so exact rejection sampling takes few iterations.
        drawn = random.permutation(num_hosts)
        if fixed_points or not np.any(drawn == hosts):
            return permutation(drawn)


@pattern("uniform", aliases=("uniform-random",), source="Dally and Towles 2004, table 3.1")
def uniform(num_hosts: int, *, flows: int = 1, seed: int = 0) -> Pairs:
    """Every host sends to hosts drawn uniformly among the others.

    Parameters
    ----------
    flows
        Number of flows from each host, whose destinations are drawn independently.
    seed
        Seed of the random numbers.
    """
    need(flows >= 1, f"flows must be at least 1, not {flows}")
    check_flows("uniform", num_hosts, num_hosts * flows)
    sources = np.repeat(np.arange(num_hosts), flows)
    return Pairs(sources, _others(generator(seed), sources, num_hosts))


@pattern("bisect", aliases=("bisection",), source="Hoefler, Schneider and Lumsdaine 2008")
def bisect(num_hosts: int, *, two_way: bool = False, seed: int = 0) -> Pairs:
    """Each host of a random half sends to one host of the other half; a host left over is idle.

    Parameters
    ----------
    two_way
        Whether the other half also sends to the first.
    seed
        Seed of the random halves and pairs.
    """
    half = num_hosts // 2
    order = generator(seed).permutation(num_hosts)
    one, other = order[:half], order[half : 2 * half]
    if two_way:
        return Pairs(np.concatenate((one, other)), np.concatenate((other, one)))
    return Pairs(one, other)


@pattern("hot-spot", aliases=("hotspot",), source="Pfister and Norton 1985")
def hot_spot(
    num_hosts: int,
    *,
    fraction: float = 0.1,
    targets: int | None = None,
    hosts: tuple[int, ...] | None = None,
    flows: int = 1,
    seed: int = 0,
) -> Pairs:
    """A share of the flows goes to hot hosts, the rest to destinations drawn uniformly.

    Parameters
    ----------
    fraction
        Share of all flows, rounded to whole flows, whose destinations are drawn among the hot
        hosts, 0 to 1. The flows from a single hot host are never among these, because it cannot
        send to itself.
    targets
        Number of hot hosts, drawn at random; 1 if neither `targets` nor `hosts` is given.
    hosts
        Numbers of the hot hosts, instead of `targets`.
    flows
        Number of flows from each host, whose destinations are drawn independently.
    seed
        Seed of the random numbers.
    """
    need(0 <= fraction <= 1, f"fraction must be 0 to 1, not {fraction}")
    need(flows >= 1, f"flows must be at least 1, not {flows}")
    need(targets is None or hosts is None, "give targets (how many) or hosts (which), not both")
    check_flows("hot-spot", num_hosts, num_hosts * flows)
    random = generator(seed)
    if hosts is None:
        targets = 1 if targets is None else targets
        need(targets >= 1, f"targets must be at least 1, not {targets}")
        if targets > num_hosts:
            raise NotApplicable(f"hot-spot needs {targets} hot hosts, and there are {num_hosts}")
        hot = np.sort(random.choice(num_hosts, size=targets, replace=False))
    else:
        hot = listed_hosts("hot-spot", "hosts", hosts, num_hosts)

    sources = np.repeat(np.arange(num_hosts), flows)
    destinations = _others(random, sources, num_hosts)
    # Index of each hot host among the hot hosts; len(hot) for the other hosts.
    hot_index = np.full(num_hosts, len(hot))
    hot_index[hot] = np.arange(len(hot))
    eligible = np.flatnonzero((hot_index[sources] == len(hot)) | (len(hot) > 1))
    count = min(round(fraction * len(sources)), len(eligible))
    chosen = np.sort(random.choice(eligible, size=count, replace=False))
    own = hot_index[sources[chosen]]
    drawn = random.integers(0, np.where(own < len(hot), len(hot) - 1, len(hot)))
    destinations[chosen] = hot[drawn + (drawn >= own)]
    return Pairs(sources, destinations)


def _others(
    random: np.random.Generator, sources: NDArray[np.int64], num_hosts: int
) -> NDArray[np.int64]:
    """Return for each source a host drawn uniformly among all others."""
    drawn = random.integers(0, num_hosts - 1, size=len(sources))
    return drawn + (drawn >= sources)
