"""HPCG: conjugate gradients with a multigrid preconditioner on a 27-point operator."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    allreduce,
    application,
    at_least,
    check_messages,
    check_size,
    everyone,
    need,
)
from weft.workload.apps.grids import beside, places, process_grid
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload

_DOUBLE_BYTES = 8
_MAX_LEVELS = 16
_STEPS = [step for step in product((-1, 0, 1), repeat=3) if any(step)]


@application(
    "hpcg",
    source="HPCG 3.1 (Dongarra, Heroux and Luszczek 2016), reference version",
    small={"iterations": 1},
)
def hpcg(
    num_ranks: int,
    *,
    local: tuple[int, ...] = (104, 104, 104),
    iterations: int = 5,
    levels: int = 4,
    gflops: float = 1.0,
    dims: tuple[int, ...] | None = None,
    reduction: Bytes = 8,
) -> Workload:
    """Conjugate gradients as HPCG's reference version runs them.

    Before the first iteration one product with the matrix and one dot product; an iteration is the
    multigrid cycle, three dot products (MPI_Allreduce), one product with the matrix and three
    vector updates. On each level but the coarsest the cycle smooths (symmetric Gauss-Seidel),
    multiplies, goes down and smooths again; on the coarsest it smooths once. Each smoothing and
    each product exchanges the halo first: all receives are posted, then up to 26 neighbours are
    sent to one by one in the order of their ranks, then all receives are waited for. The domain has
    an edge on all six sides. Each of these parts is a phase, named with the iteration; level 0 is
    the finest.

    Parameters
    ----------
    num_ranks
        Ranks, all of them in a grid.
    local
        Grid points of a rank in each dimension, multiples of 2^(levels - 1).
    iterations
        The benchmark runs sets of 50; they are all alike.
    levels
        Multigrid levels.
    gflops
        Speed of a rank, 10^9 operations per second as HPCG counts them; calculations take their
        operations over it. 0 leaves calculations out.
    dims
        Grid of ranks, the first dimension varying fastest; the smallest surface, as HPCG searches
        it, where left out, with the largest dimension first.
    reduction
        Bytes of a dot product.
    """
    at_least(1, iterations=iterations, levels=levels)
    need(0 <= gflops < float("inf"), f"gflops must be 0 or more, not {gflops}")
    need(levels <= _MAX_LEVELS, f"levels must be at most {_MAX_LEVELS}, not {levels}")
    coarsest = 2 ** (levels - 1)
    need(
        len(local) == 3 and all(size >= coarsest and size % coarsest == 0 for size in local),
        f"local must be three multiples of {coarsest} for {levels} levels, "
        f"not {'x'.join(map(str, local))}",
    )
    grid = process_grid(num_ranks, dims, 3)
    halos = [_Halo(grid, tuple(size >> level for size in local)) for level in range(levels)]
    builder = WorkloadBuilder(num_ranks)
    solver = _Solver(builder, halos, gflops, reduction)
    messages = len(halos[0].sides) * num_ranks * (3 * levels - 1)
    check_messages(num_ranks, (messages + 3 * num_ranks * num_ranks.bit_length()) * iterations)
    solver.multiply("start, product", 0)
    solver.update("start, residual", 1)
    solver.dot("start, dot r r")
    for turn in range(iterations):
        prefix = f"iteration {turn + 1}, " if iterations > 1 else ""
        solver.cycle(prefix, 0)
        solver.dot(prefix + "dot r z")
        solver.update(prefix + "update p", 1)
        solver.multiply(prefix + "product", 0)
        solver.dot(prefix + "dot p Ap")
        solver.update(prefix + "update x r", 2)
        solver.dot(prefix + "dot r r")
    return builder.build()


class _Halo:
    """Who exchanges how much with whom on one level, and the work there.

    Parameters
    ----------
    grid
        Ranks in each dimension.
    local
        Points of a rank in each dimension.
    """

    def __init__(self, grid: tuple[int, ...], local: tuple[int, ...]):
        self.points = prod(local)
        #: Ranks, their neighbours and the bytes, for each direction in the order of ranks.
        self.sides: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
        for step in _STEPS:
            # The last dimension varies slowest, so it decides first which neighbour comes first.
            direction = step[::-1]
            other = beside(grid, direction, (False,) * 3)
            ranks = np.flatnonzero(other >= 0)
            if len(ranks):
                size = prod(n for n, move in zip(local, direction, strict=True) if not move)
                self.sides.append((ranks, other[ranks], check_size(size * _DOUBLE_BYTES)))
        # A row of the matrix has 27 entries, fewer at the edges of the domain.
        at = places(grid)
        entries = np.ones(prod(grid), dtype=np.float64)
        for axis, points in enumerate(local):
            ends = (at[axis] == 0).astype(np.int64) + (at[axis] == grid[axis] - 1)
            entries *= 3 * points - ends
        #: Entries of each rank's part of the matrix.
        self.entries = entries


class _Solver:
    """The parts of an iteration, each a phase."""

    def __init__(
        self, builder: WorkloadBuilder, halos: list[_Halo], gflops: float, reduction_bytes: int
    ):
        self._builder = builder
        self._halos = halos
        self._ns_per_operation = 1.0 / gflops if gflops else 0.0
        self._reduction_bytes = reduction_bytes
        self._who = everyone(builder)

    def multiply(self, phase: str, level: int) -> None:
        """Product with the matrix: two operations for each of its entries."""
        self._builder.phase(phase)
        self._exchange(level)
        self._compute(2 * self._halos[level].entries)

    def smooth(self, phase: str, level: int) -> None:
        """Symmetric Gauss-Seidel: forwards and backwards over the matrix."""
        self._builder.phase(phase)
        self._exchange(level)
        self._compute(4 * self._halos[level].entries)

    def cycle(self, prefix: str, level: int) -> None:
        """The multigrid cycle from a level down."""
        if level + 1 == len(self._halos):
            self.smooth(f"{prefix}smooth level {level}", level)
            return
        coarse = self._halos[level + 1].points
        self.smooth(f"{prefix}presmooth level {level}", level)
        self.multiply(f"{prefix}residual level {level}", level)
        self._transfer(f"{prefix}restrict level {level}", coarse)
        self.cycle(prefix, level + 1)
        self._transfer(f"{prefix}prolong level {level}", coarse)
        self.smooth(f"{prefix}postsmooth level {level}", level)

    def dot(self, phase: str) -> None:
        """Dot product: two operations for each point, and a reduction."""
        self._builder.phase(phase)
        self._compute(2 * self._halos[0].points)
        allreduce(self._builder, self._reduction_bytes)

    def update(self, phase: str, count: int) -> None:
        """So many sums of two vectors: two operations for each point."""
        self._builder.phase(phase)
        self._compute(count * 2 * self._halos[0].points)

    def _transfer(self, phase: str, points: int) -> None:
        """Between two levels: one operation for each point of the coarser."""
        self._builder.phase(phase)
        self._compute(points)

    def _compute(self, operations: float | NDArray[np.float64]) -> None:
        if self._ns_per_operation:
            self._builder.calc(self._who, operations * self._ns_per_operation)

    def _exchange(self, level: int) -> None:
        sides = self._halos[level].sides
        for ranks, other, size in sides:
            self._builder.irecv(ranks, other, size)
        for ranks, other, size in sides:
            self._builder.send(ranks, other, size)
        self._builder.waitall(self._who)
