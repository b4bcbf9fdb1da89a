"""PTRANS of HPC Challenge: the transpose of a block-cyclic matrix on a grid of ranks."""

from __future__ import annotations

from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from weft.workload.apps.application_registry import (
    application,
    at_least,
    barrier,
    check_messages,
    check_size,
    numbered,
)
from weft.workload.apps.grids import near_cube, process_grid
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload

_ELEMENT_BYTES = 8


@application("ptrans", source="HPC Challenge, pdtrans.c; PUMMA (Choi, Dongarra and Walker 1994)")
def ptrans(
    num_ranks: int,
    *,
    order: int = 10_000,
    block: int = 80,
    grid: tuple[int, ...] | None = None,
    repetitions: int = 1,
) -> Workload:
    """Transpose a square matrix of doubles whose blocks lie cyclically on a P x Q grid of ranks.

    With g = gcd(P, Q), a rank holds blocks that belong to (P/g)(Q/g) ranks after the transpose,
    and exchanges with one after the other, sending and receiving at once; on a square grid that is
    the one rank across the diagonal. A message holds all blocks for its receiver, padded to whole
    blocks and to the same number of them everywhere, as the benchmark's does.

    Parameters
    ----------
    num_ranks
        Ranks; rank pQ + q stands in row p and column q.
    order
        Rows and columns of the matrix.
    block
        Rows and columns of a block.
    grid
        P and Q; the most nearly square with P <= Q where left out, as HPC Challenge recommends.
    repetitions
        Transposes, each after a barrier and in a phase of its own.
    """
    at_least(1, order=order, block=block, repetitions=repetitions)
    near = near_cube(num_ranks, 2)
    rows, columns = process_grid(num_ranks, grid, 2) if grid else (near[1], near[0])
    common, multiple = gcd(rows, columns), lcm(rows, columns)
    check_messages(num_ranks, num_ranks * repetitions * multiple // common)
    blocks = -(-order // block)
    padded = -(-blocks // multiple) * block
    size = check_size(padded * padded * _ELEMENT_BYTES)
    builder = WorkloadBuilder(num_ranks)
    who = np.arange(num_ranks, dtype=np.int64)
    for turn in range(repetitions):
        barrier(builder)
        builder.phase(numbered("transpose", turn, repetitions))
        for to, source in partners(rows, columns):
            apart = to != who
            if apart.any():
                builder.sendrecv(who[apart], to[apart], size, source[apart], size)
    return builder.build()


def partners(rows: int, columns: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Where each rank sends and whence it receives, step by step, itself included.

    Block (i, j) lies at (i mod P, j mod Q) and goes to (j mod P, i mod Q).
    """
    common = gcd(rows, columns)
    row, column = np.divmod(np.arange(rows * columns, dtype=np.int64), columns)
    ahead = (column - row) % common
    back = (common - ahead) % common
    return [
        (
            (row + common * down + ahead) % rows * columns
            + (column - common * along - ahead) % columns,
            (row - common * down - back) % rows * columns
            + (column + common * along + back) % columns,
        )
        for along in range(columns // common)
        for down in range(rows // common)
    ]
