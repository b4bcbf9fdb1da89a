"""Scopes: the ranks of communicators, their numbers there, and their coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scope:
    """One communicator, or several disjoint ones with the same name (lines of a grid, a split)."""

    #: Name in the program.
    name: str
    #: Number of the communicator in the builder. Disjoint communicators share the number, since
    #: their messages cannot match each other.
    comm: int
    #: int64 [world ranks]: index in the scope of each rank's communicator; -1 for none.
    group: Ints
    #: int64 [world ranks]: rank in the communicator; -1 for none.
    local: Ints
    #: int64 [communicators + 1] and int64: the world ranks of communicator ``g`` are
    #: ``ranks[offset[g]:offset[g + 1]]``.
    offset: Ints
    ranks: Ints
    #: Name and extent of each axis of the grid, and whether it is periodic; empty without a grid.
    #: The last axis varies fastest, as in MPI.
    axes: tuple[str, ...] = ()
    dims: tuple[int, ...] = ()
    periodic: tuple[bool, ...] = ()

    @property
    def num_groups(self) -> int:
        """Number of communicators."""
        return len(self.offset) - 1

    def size(self, ranks: Ints) -> Ints:
        """Return the number of ranks in the communicator of each rank."""
        return np.asarray(np.diff(self.offset)[self.group[ranks]])

    def world(self, ranks: Ints, local: Ints) -> Ints:
        """Return the world ranks of local ranks in the communicators of `ranks`."""
        return np.asarray(self.ranks[self.offset[self.group[ranks]] + local])

    def members(self, group: int) -> Ints:
        """Return the world ranks of one communicator, in the communicator's order."""
        return self.ranks[self.offset[group] : self.offset[group + 1]]

    def coordinates(self, ranks: Ints) -> list[Ints]:
        """Return the coordinates of ranks, one array per axis."""
        return list(np.unravel_index(self.local[ranks], self.dims))

    def at(self, ranks: Ints, coordinates: list[Ints]) -> Ints:
        """Return the world ranks at coordinates in the grids of `ranks`; -1 outside the grid."""
        inside = np.ones(len(ranks), dtype=np.bool_)
        local = np.zeros(len(ranks), dtype=np.int64)
        for values, extent, closed in zip(coordinates, self.dims, self.periodic, strict=True):
            inside &= closed | ((values >= 0) & (values < extent))
            local = local * extent + values % extent
        return np.where(inside, self.world(ranks, local), -1)


def world_scope(num_ranks: int) -> Scope:
    """Return the scope ALL, which has every rank, like MPI_COMM_WORLD."""
    everyone = np.arange(num_ranks, dtype=np.int64)
    return Scope(
        "ALL", 0, np.zeros(num_ranks, dtype=np.int64), everyone,
        np.array([0, num_ranks], dtype=np.int64), everyone,
    )  # fmt: skip


def grouped(name: str, comm: int, num_ranks: int, groups: list[Ints]) -> Scope:
    """Return a scope with one communicator per array of world ranks; the order is kept."""
    group = np.full(num_ranks, -1, dtype=np.int64)
    local = np.full(num_ranks, -1, dtype=np.int64)
    for number, members in enumerate(groups):
        group[members] = number
        local[members] = np.arange(len(members))
    offset = np.zeros(len(groups) + 1, dtype=np.int64)
    np.cumsum([len(members) for members in groups], out=offset[1:])
    ranks = np.concatenate(groups) if groups else np.zeros(0, dtype=np.int64)
    return Scope(name, comm, group, local, offset, ranks)


def balanced(size: int, dims: list[int | None]) -> list[int] | None:
    """Return dimensions with the product `size`; those given as None are balanced, descending.

    Return None if the given dimensions do not allow this product.
    """
    fixed = math.prod(dim for dim in dims if dim is not None)
    free = sum(dim is None for dim in dims)
    if fixed < 1 or size % fixed or (not free and fixed != size):
        return None
    extents = [1] * free
    for prime in reversed(_primes(size // fixed)):
        extents[extents.index(min(extents))] *= prime
    extents.sort(reverse=True)
    remaining = iter(extents)
    return [next(remaining) if dim is None else dim for dim in dims]


def _primes(number: int) -> list[int]:
    """Return the prime factors in ascending order."""
    factors = []
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            factors.append(factor)
            number //= factor
        factor += 1
    return factors + [number] * (number > 1)
