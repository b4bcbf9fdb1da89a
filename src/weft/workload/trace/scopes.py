"""Scopes: which ranks belong to a communicator, their numbers there, and their coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scope:
    """One communicator, or several that share no rank and one name (rows of a grid, a split).

    Parameters
    ----------
    name
        What the program calls it.
    comm
        Number of the communicator, for the builder. Communicators that share no rank share it,
        since their messages cannot be taken for each other's.
    group
        int64 [ranks]: to which of its communicators each rank of the world belongs, -1 for none.
    local
        int64 [ranks]: number of each rank in its communicator, -1 for none.
    offset, ranks
        int64: the ranks of communicator ``g`` are ``ranks[offset[g]:offset[g + 1]]``.
    axes, dims, periodic
        The grid, the last axis varying fastest as in MPI; empty when there is none.
    """

    name: str
    comm: int
    group: Ints
    local: Ints
    offset: Ints
    ranks: Ints
    axes: tuple[str, ...] = ()
    dims: tuple[int, ...] = ()
    periodic: tuple[bool, ...] = ()

    @property
    def num_groups(self) -> int:
        """Communicators."""
        return len(self.offset) - 1

    def size(self, ranks: Ints) -> Ints:
        """Ranks in the communicator of each of these."""
        return np.asarray(np.diff(self.offset)[self.group[ranks]])

    def world(self, ranks: Ints, local: Ints) -> Ints:
        """World ranks of numbers in the communicators of these ranks."""
        return np.asarray(self.ranks[self.offset[self.group[ranks]] + local])

    def members(self, group: int) -> Ints:
        """World ranks of one communicator, in its order."""
        return self.ranks[self.offset[group] : self.offset[group + 1]]

    def coordinates(self, ranks: Ints) -> list[Ints]:
        """Coordinates of ranks, one array for each axis."""
        return list(np.unravel_index(self.local[ranks], self.dims))

    def at(self, ranks: Ints, coordinates: list[Ints]) -> Ints:
        """World ranks at coordinates in the grids of these ranks, -1 off a border."""
        inside = np.ones(len(ranks), dtype=np.bool_)
        local = np.zeros(len(ranks), dtype=np.int64)
        for values, extent, closed in zip(coordinates, self.dims, self.periodic, strict=True):
            inside &= closed | ((values >= 0) & (values < extent))
            local = local * extent + values % extent
        return np.where(inside, self.world(ranks, local), -1)


def world_scope(num_ranks: int) -> Scope:
    """ALL: every rank, as MPI_COMM_WORLD."""
    everyone = np.arange(num_ranks, dtype=np.int64)
    return Scope(
        "ALL", 0, np.zeros(num_ranks, dtype=np.int64), everyone,
        np.array([0, num_ranks], dtype=np.int64), everyone,
    )  # fmt: skip


def grouped(name: str, comm: int, num_ranks: int, groups: list[Ints]) -> Scope:
    """A scope of the given communicators, each a list of world ranks in its order."""
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
    """Dimensions whose product is the size, those of None as equal as can be and never growing.

    None when the size is no multiple of the product of the dimensions that are given.
    """
    given = math.prod(dim for dim in dims if dim is not None)
    free = sum(dim is None for dim in dims)
    if given < 1 or size % given or (not free and given != size):
        return None
    chosen = [1] * free
    for prime in reversed(_primes(size // given)):
        chosen[chosen.index(min(chosen))] *= prime
    chosen.sort(reverse=True)
    left = iter(chosen)
    return [next(left) if dim is None else dim for dim in dims]


def _primes(number: int) -> list[int]:
    """Prime factors, in ascending order."""
    found = []
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found + [number] * (number > 1)
