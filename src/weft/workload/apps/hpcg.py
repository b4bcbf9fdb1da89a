"""HPCG: conjugate gradients with a multigrid preconditioner on a 27-point operator."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    all_ranks,
    allreduce,
    application,
    at_least,
    check_messages,
    check_size,
    need,
)
from weft.workload.apps.grids import beside, coordinates_of_ranks, process_grid
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
    """Run conjugate gradients as HPCG's reference version does.

    The program starts with one product with the matrix, one vector update and one dot product; an
    iteration is the multigrid cycle, three dot products (MPI_Allreduce), one product and three
    vector updates. On each level but the coarsest the cycle smooths (symmetric Gauss-Seidel),
    multiplies, runs the cycle of the next coarser level and smooths again; on the coarsest level it
    smooths once. Each smoothing and each product exchanges the halo first: a rank posts all
    receives, sends to its up to 26 neighbours one by one in the order of their ranks, then waits
    for all receives. The domain is not periodic. Each of these parts is a phase whose name includes
    the iteration; level 0 is the finest.

    Parameters
    ----------
    num_ranks
        Number of ranks, all in the grid.
    local
        Grid points of a rank in each dimension, multiples of 2^(levels - 1).
    iterations
        Number of iterations; the benchmark runs sets of 50, which all send the same messages.
    levels
        Number of multigrid levels.
    gflops
        Speed of a rank in 10^9 operations per second, as HPCG counts them; the duration of a
        calculation is its number of operations divided by this speed. 0 means no calculations.
    dims
        Grid of ranks, the first dimension varying fastest; if left out, the grid of the
        smallest surface as in HPCG, with the largest dimension first.
    reduction
        Bytes of a dot product's reduction.
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
    for iteration in range(iterations):
        prefix = f"iteration {iteration + 1}, " if iterations > 1 else ""
        solver.cycle(prefix, 0)
        solver.dot(prefix + "dot r z")
        solver.update(prefix + "update p", 1)
        solver.multiply(prefix + "product", 0)
        solver.dot(prefix + "dot p Ap")
        solver.update(prefix + "update x r", 2)
        solver.dot(prefix + "dot r r")
    return builder.build()


class _Halo:
    """Neighbours, message sizes and work of one multigrid level.

    `grid`: ranks in each dimension. `local`: grid points of a rank in each dimension.
    """

    def __init__(self, grid: tuple[int, ...], local: tuple[int, ...]):
        self.points = prod(local)
        #: For each direction: ranks, their neighbours (int64 [ranks] each), bytes per message.
        self.sides: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
        for step in _STEPS:
            # The last dimension varies slowest, so reversed steps give neighbours in rank order.
            direction = step[::-1]
            other = beside(grid, direction, (False,) * 3)
            ranks = np.flatnonzero(other >= 0)
            if len(ranks):
                size = prod(n for n, move in zip(local, direction, strict=True) if not move)
                self.sides.append((ranks, other[ranks], check_size(size * _DOUBLE_BYTES)))
        # A row of the matrix has 27 entries, fewer at the boundary of the domain.
        coordinates = coordinates_of_ranks(grid)
        entries = np.ones(prod(grid), dtype=np.float64)
        for axis, points in enumerate(local):
            ends = (coordinates[axis] == 0).astype(np.int64) + (coordinates[axis] == grid[axis] - 1)
            entries *= 3 * points - ends
        #: float64 [ranks]: number of matrix entries of each rank.
        self.entries = entries


class _Solver:
    """The parts of an iteration; each part is one phase."""

    def __init__(
        self, builder: WorkloadBuilder, halos: list[_Halo], gflops: float, reduction_bytes: int
    ):
        self._builder = builder
        self._halos = halos
        self._ns_per_operation = 1.0 / gflops if gflops else 0.0
        self._reduction_bytes = reduction_bytes
        self._all_ranks = all_ranks(builder)

    def multiply(self, phase: str, level: int, times: int = 1) -> None:
        """Multiply by the matrix after one exchange: two operations per entry each time."""
        self._builder.phase(phase)
        self._exchange(level)
        self._compute(2 * times * self._halos[level].entries)

    def smooth(self, phase: str, level: int) -> None:
        """Smooth by symmetric Gauss-Seidel: one forward and one backward pass over the matrix."""
        self.multiply(phase, level, 2)

    def cycle(self, prefix: str, level: int) -> None:
        """Run the multigrid cycle from a level downwards."""
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
        """Compute a dot product: two operations per point, and a reduction."""
        self._builder.phase(phase)
        self._compute(2 * self._halos[0].points)
        allreduce(self._builder, self._reduction_bytes)

    def update(self, phase: str, count: int) -> None:
        """Compute `count` sums of two vectors: two operations per point."""
        self._builder.phase(phase)
        self._compute(count * 2 * self._halos[0].points)

    def _transfer(self, phase: str, points: int) -> None:
        """Transfer between two levels: one operation per point of the coarser level."""
        self._builder.phase(phase)
        self._compute(points)

    def _compute(self, operations: float | NDArray[np.float64]) -> None:
        if self._ns_per_operation:
            self._builder.calc(self._all_ranks, operations * self._ns_per_operation)

    def _exchange(self, level: int) -> None:
        sides = self._halos[level].sides
        for ranks, other, size in sides:
            self._builder.irecv(ranks, other, size)
        for ranks, other, size in sides:
            self._builder.send(ranks, other, size)
        self._builder.waitall(self._all_ranks)
