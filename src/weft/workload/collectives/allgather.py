"""Allgather: the block of every rank reaches all ranks. A block has the number of its rank."""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import Blocks, Fold, Ints, powers
from weft.workload.collectives.collective_registry import Carries, Group, algorithm


def ring_steps(group: Group, blocks: Blocks) -> None:
    """In n - 1 rounds, send the block received last to the next rank; block 0 is the root's."""
    n, ranks = group.n, group.ranks
    group.expect(n * (n - 1))
    behind = group.behind_root(ranks)

    def add(step: int) -> None:
        group.exchange(
            ranks, (ranks + 1) % n, blocks.sizes[(behind - step) % n],
            (ranks - 1) % n, blocks.sizes[(behind - 1 - step) % n], block_behind(n, step),
        )  # fmt: skip

    group.rounds(n - 1, add)


def block_behind(n: int, step: int) -> Carries:
    """Return that a message has only the block of the rank `step` ranks before its sender."""
    return lambda rank: ((rank - step) % n,)


def doubling_steps(group: Group, blocks: Blocks) -> None:
    """In pairs at distances 1, 2, 4 and so on, exchange all blocks held; block 0 is the root's.

    If n is not a power of two, each rank in excess of the largest power of two below n first sends
    its block to a neighbour, and receives all other blocks from this neighbour at the end.
    """
    n, fold = group.n, Fold(group.n)
    ranks = group.from_root(fold.place)
    idle, helper = group.from_root(fold.idle), group.from_root(fold.helper)
    group.message(idle, helper, blocks.sizes[fold.idle], lambda rank: (rank,))
    for step in powers(fold.count):
        mine, theirs = fold.numbers & -step, (fold.numbers ^ step) & -step
        peer = ranks[fold.numbers ^ step]
        group.exchange(
            ranks, peer, blocks.run(fold.first(mine), fold.first(mine + step)),
            peer, blocks.run(fold.first(theirs), fold.first(theirs + step)),
            aligned_run(group, fold, step),
        )  # fmt: skip
    group.message(
        helper, idle, blocks.run(0, n) - blocks.sizes[fold.idle],
        lambda rank: (block for block in range(n) if block != (rank - 1) % n),
    )  # fmt: skip


def aligned_run(group: Group, fold: Fold, step: int) -> Carries:
    """Return the blocks of a sender: those of its aligned run of `step` participants."""

    def carries(rank: int) -> list[int]:
        number = int(fold.number(group.behind_root(rank))) & -step
        run = range(int(fold.first(number)), int(fold.first(number + step)))
        return [group.from_root(at) for at in run]

    return carries


@algorithm("allgather", "ring", source="Thakur et al. 2005, 3.1; MPICH", first=True)
@algorithm("allgatherv", "ring", source="as allgather; MPICH", first=True)
def ring(group: Group) -> None:
    """Each rank sends the block received last to the next rank; n - 1 rounds of one block."""
    ring_steps(group, Blocks(group.sizes))


@algorithm("allgather", "recursive-doubling", source="Thakur et al. 2005, 3.1; MPICH")
@algorithm("allgatherv", "recursive-doubling", source="as allgather; MPICH")
def recursive_doubling(group: Group) -> None:
    """Pairs at distances 1, 2, 4 exchange all blocks held; log2 n rounds.

    If n is not a power of two, the ranks in excess of the largest power of two below n exchange
    data through a neighbour, in 2 more rounds.
    """
    doubling_steps(group, Blocks(group.sizes))


@algorithm("allgather", "bruck", source="Bruck et al. 1997; Thakur et al. 2005, 3.1; MPICH")
@algorithm("allgatherv", "bruck", source="as allgather; MPICH")
def bruck(group: Group) -> None:
    """In round k rank r receives the blocks it lacks from rank r + 2^k; ceil(log2 n) rounds."""
    n, ranks, blocks = group.n, group.ranks, Blocks(group.sizes)
    for step in powers(n):
        count = min(step, n - step)
        source = (ranks + step) % n
        group.exchange(
            ranks, (ranks - step) % n, blocks.around(ranks, count),
            source, blocks.around(source, count), _ahead(n, count),
        )  # fmt: skip


@algorithm("allgather", "neighbor-exchange", source="Chen et al. 2005; Open MPI")
def neighbor_exchange(group: Group) -> None:
    """Ranks exchange two blocks with either neighbour in turn; n/2 rounds; ring if n is odd."""
    n, ranks, blocks = group.n, group.ranks, Blocks(group.sizes)
    if n % 2:
        ring_steps(group, blocks)
        return
    # Ranks 2p and 2p + 1 are pair p. A rank first has its own block, then those of pairs.
    forward, newest = np.where(ranks % 2, -1, 1), ranks // 2
    peer = ranks + forward
    group.exchange(ranks, peer, blocks.sizes, peer, blocks.sizes[peer], lambda rank: (rank,))
    for _ in range(1, n // 2):
        forward = -forward
        peer = (ranks + forward) % n
        both = blocks.run(2 * newest, 2 * newest + 2)
        group.exchange(ranks, peer, both, peer, both[peer], _two_of(newest))
        newest = newest[peer]


def _two_of(pair: Ints) -> Carries:
    return lambda rank: (2 * pair[rank], 2 * pair[rank] + 1)


def _ahead(n: int, count: int) -> Carries:
    return lambda rank: ((rank + at) % n for at in range(count))
