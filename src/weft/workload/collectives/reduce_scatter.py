"""Reduce-scatter: everybody's buffers are combined, and each rank keeps its own block of them.

The operator is commutative. A block is named after the rank that keeps it.
"""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import Blocks, Fold, powers
from weft.workload.collectives.collective_registry import Carries, Group, algorithm


def ring_reduce_steps(group: Group, blocks: Blocks) -> None:
    """N - 1 rounds: each adds its own to what came and hands it on; block r ends at rank r."""
    n, places = group.n, group.places
    group.expect(n * (n - 1))
    for step in range(n - 1):
        group.exchange(
            places, (places + 1) % n, blocks.sizes[(places - 1 - step) % n],
            (places - 1) % n, blocks.sizes[(places - 2 - step) % n], _behind(n, 1 + step), add=True,
        )  # fmt: skip


def _behind(n: int, step: int) -> Carries:
    return lambda place: ((place - step) % n,)


@algorithm("reduce-scatter", "ring", source="Patarasuk and Yuan 2009", first=True)
def ring(group: Group) -> None:
    """Partial sums of each block travel around a ring; n - 1 rounds of one block."""
    ring_reduce_steps(group, Blocks(group.sizes))


@algorithm("reduce-scatter", "pairwise", source="Thakur et al. 2005, 3.3; MPICH")
def pairwise(group: Group) -> None:
    """In round k each rank sends its part of the block of the rank k places on; n - 1 rounds."""
    n, places, sizes = group.n, group.places, group.sizes
    group.expect(n * (n - 1))
    for step in range(1, n):
        to = (places + step) % n
        group.exchange(
            places, to, sizes[to], (places - step) % n, sizes, _behind(n, -step), add=True
        )


@algorithm("reduce-scatter", "recursive-halving", source="Thakur et al. 2005, 3.3; MPICH")
def recursive_halving(group: Group) -> None:
    """Pairs at distances n/2, n/4 to 1 exchange what the other's half keeps; log2 n rounds.

    Where n is no power of two, the ranks beyond the largest one go by a neighbour: 2 more rounds.
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
    group.message(fold.helper, fold.idle, blocks.sizes[fold.idle], lambda place: (place - 1,))


def _opposite(fold: Fold, step: int) -> Carries:
    """Blocks that the run of `step` participants opposite the sender's keeps."""

    def carries(place: int) -> range:
        number = (int(fold.number(np.int64(place))) ^ step) & -step
        return range(int(fold.first(number)), int(fold.first(number + step)))

    return carries
