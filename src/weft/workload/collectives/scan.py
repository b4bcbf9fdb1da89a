"""Scan and exscan: rank i receives the combined buffers of ranks 0 to i (scan) or 0 to i - 1.

Block 0 is the partial result that a rank sends, block 1 its own result.
"""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import powers
from weft.workload.collectives.collective_registry import Carries, Group, algorithm, one_block

_PARTIAL, _RESULT = one_block(0), one_block(1)


@algorithm("scan", "recursive-doubling", source="MPICH", first=True)
def recursive_doubling(group: Group) -> None:
    """Pairs at distances 1, 2, 4 exchange their partial results; ceil(log2 n) rounds.

    A buffer from a lower rank is combined twice: into the partial result and into the result.
    """
    _doubling(group, first_is_copied=False)


@algorithm("exscan", "recursive-doubling", source="MPICH", first=True)
def exclusive_doubling(group: Group) -> None:
    """Pairs at distances 1, 2, 4 exchange their partial results; ceil(log2 n) rounds.

    A buffer from a lower rank is also combined into the result; the first such buffer is copied.
    """
    _doubling(group, first_is_copied=True)


def _doubling(group: Group, first_is_copied: bool) -> None:
    group.cut(np.array([group.sizes]))
    empty = np.full(group.n, first_is_copied)
    for step in powers(group.n):
        ranks = group.ranks[(group.ranks ^ step) < group.n]
        peer = ranks ^ step
        below = peer < ranks
        combined = group.sizes * (1 + (below & ~empty[ranks]))
        empty[ranks[below]] = False
        group.exchange(
            ranks, peer, group.sizes, peer, group.sizes, _PARTIAL,
            add=True, also=_from_below(step), combined_bytes=combined,
        )  # fmt: skip


def _from_below(step: int) -> Carries:
    return lambda rank: (1,) if rank & step else ()


@algorithm("scan", "linear", source="Open MPI's basic linear")
def linear(group: Group) -> None:
    """Each rank sends its result to the next, which combines it with its buffer; n - 1 rounds."""
    group.cut(np.array([group.sizes]))
    for rank in range(group.n - 1):
        group.message(rank, rank + 1, group.sizes, _RESULT, add=True)


@algorithm("exscan", "linear", source="Open MPI's basic linear")
def exclusive_linear(group: Group) -> None:
    """Each rank keeps the received buffer, and sends it on combined with its own; n - 1 rounds."""
    group.cut(np.array([group.sizes]))
    for rank in range(group.n - 1):
        # The last rank sends nothing and so does not combine.
        combines = rank + 2 < group.n
        group.send(rank, rank + 1, group.sizes, _PARTIAL)
        group.receive(rank + 1, rank, group.sizes, add=combines, also=_RESULT)
