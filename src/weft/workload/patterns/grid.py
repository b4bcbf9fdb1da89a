"""Patterns over hosts in a grid.

Hosts are numbered with the first dimension varying fastest: in a grid of 4x3, host 5 has the
coordinates (1, 1). Without `dims` the grid has one dimension. In formulas, s(x) and d(x) are the
coordinates of source and destination in dimension x, which has k hosts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.patterns.pattern_registry import Pairs, check_flows, grid, pattern, permutation

DALLY = "Dally and Towles 2004, table 3.1"


def _moved(dims: tuple[int, ...], steps: list[int]) -> NDArray[np.int64]:
    """Return, for each host, the host `steps` further in each dimension, with wrap-around."""
    hosts = np.arange(np.prod(dims), dtype=np.int64).reshape(dims[::-1])
    back = [-step for step in reversed(steps)]
    return np.roll(hosts, back, axis=tuple(range(len(dims)))).reshape(-1)


@pattern("neighbour", aliases=("neighbor",), source=DALLY)
def neighbour(num_hosts: int, *, dims: tuple[int, ...] | None = None) -> Pairs:
    """d(x) = s(x) + 1 mod k in every dimension x at once.

    Parameters
    ----------
    dims
        Number of hosts in each dimension, the fastest dimension first.
    """
    dims = grid("neighbour", num_hosts, dims)
    return permutation(_moved(dims, [1] * len(dims)))


@pattern("tornado", source=DALLY)
def tornado(num_hosts: int, *, dims: tuple[int, ...] | None = None) -> Pairs:
    """d(x) = s(x) + ceil(k/2) - 1 mod k in every dimension: almost halfway round each ring.

    Parameters
    ----------
    dims
        Number of hosts in each dimension, the fastest dimension first.
    """
    dims = grid("tornado", num_hosts, dims)
    steps = [(radix + 1) // 2 - 1 for radix in dims]
    if not any(steps):
        size = "x".join(map(str, dims))
        raise NotApplicable(
            f"tornado in a grid of {size} ({num_hosts} hosts) lets each host send to itself; it "
            "needs at least 3 hosts in one dimension"
        )
    return permutation(_moved(dims, steps))


@pattern("stencil", source="halo exchange of a Cartesian domain decomposition")
def stencil(num_hosts: int, *, dims: tuple[int, ...] | None = None, wrap: bool = True) -> Pairs:
    """Every host sends to its two neighbours in each dimension.

    Parameters
    ----------
    dims
        Number of hosts in each dimension, the fastest dimension first. In a dimension of 2 hosts
        with wrap-around, both neighbours are the same host, which receives two flows.
    wrap
        Whether the first and the last host of a dimension are neighbours.
    """
    dims = grid("stencil", num_hosts, dims)
    check_flows("stencil", num_hosts, 2 * len(dims) * num_hosts)
    hosts = np.arange(num_hosts, dtype=np.int64)
    sources, destinations = [], []
    stride = 1
    for axis, radix in enumerate(dims):
        for step in (1, -1) if radix > 1 else ():
            at = hosts // stride % radix
            inside = (at + step >= 0) & (at + step < radix)
            keep = inside | wrap
            move = [step if other == axis else 0 for other in range(len(dims))]
            sources.append(hosts[keep])
            destinations.append(_moved(dims, move)[keep])
        stride *= radix
    return Pairs(np.concatenate(sources), np.concatenate(destinations))
