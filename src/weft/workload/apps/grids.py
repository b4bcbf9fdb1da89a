"""Grids of processes: their sizes, the coordinates of ranks, and neighbours.

Ranks are numbered with the first dimension varying fastest: in a 4x3 grid, rank 5 has the
coordinates (1, 1).
"""

from __future__ import annotations

from functools import cache
from math import inf, isqrt, prod

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable


@cache
def near_cube(count: int, dimensions: int) -> tuple[int, ...]:
    """Return the sizes, largest first, of the grid of `count` processes with the smallest surface.

    MPI_Dims_create requires sizes as close to each other as possible, which implementations
    interpret differently. Programs call MPI_Dims_create to get a small surface; HPCG minimises the
    surface itself.

    `count`: number of processes, 1 or more. `dimensions`: number of dimensions, 1 or more.
    """
    best: tuple[float, tuple[int, ...]] = (inf, ())
    for dims in _factorings(count, dimensions, count):
        surface = sum(count / size for size in dims)
        if surface < best[0] - 1e-9:
            best = (surface, dims)
    return best[1]


def _factorings(count: int, dimensions: int, most: int) -> list[tuple[int, ...]]:
    """Return all factorings of a number into `dimensions` factors in descending order."""
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
    """Return all divisors of a number, largest first."""
    low = [size for size in range(1, isqrt(count) + 1) if count % size == 0]
    return tuple(sorted({*low, *(count // size for size in low)}, reverse=True))


def process_grid(num_ranks: int, dims: tuple[int, ...] | None, dimensions: int) -> tuple[int, ...]:
    """Return the given grid, or the grid nearest to a cube."""
    if dims is None:
        return near_cube(num_ranks, dimensions)
    if len(dims) != dimensions or min(dims) < 1:
        raise InputError(
            f"dims must be {dimensions} sizes of 1 or more, not {'x'.join(map(str, dims))}"
        )
    if prod(dims) != num_ranks:
        raise NotApplicable(
            f"a grid of {'x'.join(map(str, dims))} needs {prod(dims)} ranks, not {num_ranks}"
        )
    return dims


def rows_and_columns(num_ranks: int, grid: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the given grid, or the grid nearest to a square that has no more rows than columns."""
    return process_grid(num_ranks, grid, 2) if grid else near_cube(num_ranks, 2)[::-1]


def coordinates_of_ranks(dims: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the coordinates of each rank, int64 [dimensions, ranks]."""
    ranks = np.arange(prod(dims), dtype=np.int64)
    strides = np.cumprod((1, *dims[:-1]))
    return np.stack([ranks // stride % size for stride, size in zip(strides, dims, strict=True)])


def beside(
    dims: tuple[int, ...], step: tuple[int, ...], periodic: tuple[bool, ...]
) -> NDArray[np.int64]:
    """Return each rank's neighbour at distance `step`, int64 [ranks]; -1 if it is outside the grid.

    `step`: distance to the neighbour in each dimension.
    """
    coordinates = coordinates_of_ranks(dims)
    strides = np.cumprod((1, *dims[:-1]))
    rank = np.zeros(prod(dims), dtype=np.int64)
    inside = np.ones(prod(dims), dtype=np.bool_)
    for axis, (size, move) in enumerate(zip(dims, step, strict=True)):
        moved = coordinates[axis] + move
        if not periodic[axis]:
            inside &= (moved >= 0) & (moved < size)
        rank += moved % size * strides[axis]
    return np.where(inside, rank, -1)
