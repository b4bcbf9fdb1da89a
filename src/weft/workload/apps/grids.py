"""Grids of processes: how many in each dimension, and who stands beside whom.

Ranks are numbered with the first dimension varying fastest: in a grid of 4x3, rank 5 stands at
(1, 1).
"""

from __future__ import annotations

from functools import cache
from math import inf, isqrt, prod

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable


@cache
def near_cube(count: int, dimensions: int) -> tuple[int, ...]:
    """Sizes of a grid of so many processes whose surface is smallest, the largest first.

    MPI_Dims_create asks for sizes as close to each other as possible, which its implementations
    read differently; the smallest surface is what the programs want of it, and HPCG searches for
    it by name.

    Parameters
    ----------
    count
        Processes, 1 or more.
    dimensions
        How many, 1 or more.
    """
    best: tuple[float, tuple[int, ...]] = (inf, ())
    for dims in _factorings(count, dimensions, count):
        surface = sum(count / size for size in dims)
        if surface < best[0] - 1e-9:
            best = (surface, dims)
    return best[1]


def _factorings(count: int, dimensions: int, most: int) -> list[tuple[int, ...]]:
    """All ways to write a number as a product of so many factors, in falling order."""
    if dimensions == 1:
        return [(count,)] if count <= most else []
    return [
        (size, *rest)
        for size in _divisors(count)
        if size <= most
        for rest in _factorings(count // size, dimensions - 1, size)
    ]


@cache
def _divisors(count: int) -> tuple[int, ...]:
    """All divisors, the largest first."""
    low = [size for size in range(1, isqrt(count) + 1) if count % size == 0]
    return tuple(sorted({*low, *(count // size for size in low)}, reverse=True))


def process_grid(num_ranks: int, dims: tuple[int, ...] | None, dimensions: int) -> tuple[int, ...]:
    """The grid that was asked for, or the one nearest to a cube.

    Raises
    ------
    InputError
        When a size is below 1 or there is another number of dimensions.
    NotApplicable
        When the grid has another number of places than there are ranks.
    """
    if dims is None:
        return near_cube(num_ranks, dimensions)
    if len(dims) != dimensions or min(dims) < 1:
        raise InputError(
            f"dims {'x'.join(map(str, dims))} is no grid of {dimensions} dimensions, "
            "each of 1 or more"
        )
    if prod(dims) != num_ranks:
        raise NotApplicable(
            f"a grid of {'x'.join(map(str, dims))} takes {prod(dims)} ranks, and there are "
            f"{num_ranks}"
        )
    return dims


def places(dims: tuple[int, ...]) -> NDArray[np.int64]:
    """int64 [dimensions, ranks]: where each rank stands."""
    ranks = np.arange(prod(dims), dtype=np.int64)
    strides = np.cumprod((1, *dims[:-1]))
    return np.stack([ranks // stride % size for stride, size in zip(strides, dims, strict=True)])


def beside(
    dims: tuple[int, ...], step: tuple[int, ...], periodic: tuple[bool, ...]
) -> NDArray[np.int64]:
    """int64 [ranks]: the rank that stands a step further, -1 where the grid ends.

    Parameters
    ----------
    dims
        Sizes of the grid.
    step
        How far in each dimension.
    periodic
        Whether a dimension goes round.
    """
    at = places(dims)
    strides = np.cumprod((1, *dims[:-1]))
    rank = np.zeros(prod(dims), dtype=np.int64)
    inside = np.ones(prod(dims), dtype=np.bool_)
    for axis, (size, move) in enumerate(zip(dims, step, strict=True)):
        moved = at[axis] + move
        if not periodic[axis]:
            inside &= (moved >= 0) & (moved < size)
        rank += moved % size * strides[axis]
    return np.where(inside, rank, -1)
