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
from weft.workload.apps.grids import rows_and_columns
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
    """Transpose a square matrix of doubles, distributed block-cyclically on a P x Q grid of ranks.

    With g = gcd(P, Q), a rank holds blocks that belong to (P/g)(Q/g) ranks after the transpose, and
    exchanges with these ranks one by one, sending and receiving at once; on a square grid there is
    one such rank, across the diagonal. A message holds all blocks for its receiver, padded to whole
    blocks and to the same number of blocks in all messages, as in the benchmark.

    Parameters
    ----------
    num_ranks
        Number of ranks; rank pQ + q is in row p and column q.
    order
        Number of rows and of columns of the matrix.
    block
        Number of rows and of columns of a block.
    grid
        P and Q; if left out, as square as possible with P <= Q, as HPC Challenge recommends.
    repetitions
        Number of transposes, each a phase after a barrier.
    """
    at_least(1, order=order, block=block, repetitions=repetitions)
    rows, columns = rows_and_columns(num_ranks, grid)
    common, multiple = gcd(rows, columns), lcm(rows, columns)
    check_messages(num_ranks, num_ranks * repetitions * multiple // common)
    blocks = -(-order // block)
    padded = -(-blocks // multiple) * block
    size = check_size(padded * padded * _ELEMENT_BYTES)
    builder = WorkloadBuilder(num_ranks)
    ranks = np.arange(num_ranks, dtype=np.int64)
    for index in range(repetitions):
        barrier(builder)
        builder.phase(numbered("transpose", index, repetitions))
        for to, source in partners(rows, columns):
            apart = to != ranks
            if apart.any():
                builder.sendrecv(ranks[apart], to[apart], size, source[apart], size)
    return builder.build()


def partners(rows: int, columns: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the destinations and the sources of all ranks in each step, int64 [ranks] each.

    Block (i, j) is at rank (i mod P, j mod Q) and is sent to rank (j mod P, i mod Q), which may be
    the same rank.
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
