"""Reduce-scatter: the buffers of all ranks are combined, and each rank keeps one block.

The operator is commutative. A block has the number of the rank that keeps it.
"""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.allgather import block_behind
from weft.workload.collectives.blocks import Blocks, Fold, powers
from weft.workload.collectives.collective_registry import Carries, Group, algorithm


def ring_reduce_steps(group: Group, blocks: Blocks) -> None:
    """Combine blocks around a ring in n - 1 rounds; block r ends at rank r."""
    n, ranks = group.n, group.ranks
    group.expect(n * (n - 1))
    for step in range(n - 1):
        group.exchange(
            ranks, (ranks + 1) % n, blocks.sizes[(ranks - 1 - step) % n],
            (ranks - 1) % n, blocks.sizes[(ranks - 2 - step) % n], block_behind(n, 1 + step),
            add=True,
        )  # fmt: skip


@algorithm("reduce-scatter", "ring", source="Patarasuk and Yuan 2009", first=True)
def ring(group: Group) -> None:
    """The partial result of each block passes around a ring; n - 1 rounds of one block."""
    ring_reduce_steps(group, Blocks(group.sizes))


@algorithm("reduce-scatter", "pairwise", source="Thakur et al. 2005, 3.3; MPICH")
def pairwise(group: Group) -> None:
    """In round k rank r sends its part of block r + k to rank r + k; n - 1 rounds."""
    n, ranks, sizes = group.n, group.ranks, group.sizes
    group.expect(n * (n - 1))
    for step in range(1, n):
        to = (ranks + step) % n
        group.exchange(
            ranks, to, sizes[to], (ranks - step) % n, sizes, block_behind(n, -step), add=True
        )


@algorithm("reduce-scatter", "recursive-halving", source="Thakur et al. 2005, 3.3; MPICH")
def recursive_halving(group: Group) -> None:
    """Pairs at distances n/2, n/4 to 1 send blocks of the peer's half to the peer; log2 n rounds.

    If n is not a power of two, the ranks in excess of the largest power of two below n exchange
    data through a neighbour, in 2 more rounds.
    """
    n, fold, blocks = group.n, Fold(group.n), Blocks(group.sizes)
    group.message(fold.idle, fold.helper, blocks.run(0, n), lambda _: range(n), add=True)
    for step in reversed(list(powers(fold.count))):
        other = fold.numbers ^ step
        give, keep = other & -step, fold.numbers & -step
        peer = fold.place[other]
        group.exchange(
            fold.place, peer, blocks.run(fold.first(give), fold.first(give + step)),
            peer, blocks.run(fold.first(keep), fold.first(keep + step)),
            _opposite(fold, step), add=True,
        )  # fmt: skip
    group.message(fold.helper, fold.idle, blocks.sizes[fold.idle], lambda rank: (rank - 1,))


def _opposite(fold: Fold, step: int) -> Carries:
    """Return the blocks kept by the run of `step` participants that contains the sender's peer."""

    def carries(rank: int) -> range:
        number = (int(fold.number(np.int64(rank))) ^ step) & -step
        return range(int(fold.first(number)), int(fold.first(number + step)))

    return carries
