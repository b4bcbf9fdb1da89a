"""Allreduce: the combined buffers of all ranks reach all ranks. The operator is commutative."""

from __future__ import annotations

import numpy as np

from weft.workload.collectives import bcast, reduce
from weft.workload.collectives.allgather import ring_steps
from weft.workload.collectives.blocks import Blocks, Fold, evenly, powers
from weft.workload.collectives.collective_registry import BUFFER, Group, algorithm
from weft.workload.collectives.reduce_scatter import ring_reduce_steps


def _fold(group: Group, fold: Fold, parts: int) -> None:
    """Send the buffers of the ranks in excess of a power of two to their neighbours."""
    group.message(fold.idle, fold.helper, group.sizes, lambda _: range(parts), add=True)


def _unfold(group: Group, fold: Fold, parts: int) -> None:
    """Send the result to the ranks in excess of a power of two, from their neighbours."""
    group.message(fold.helper, fold.idle, group.sizes, lambda _: range(parts))


@algorithm(
    "allreduce",
    "recursive-doubling",
    source="Thakur et al. 2005, 3.5; MPICH",
    first=True,
)
def recursive_doubling(group: Group) -> None:
    """Pairs at distances 1, 2, 4 exchange and combine whole buffers; log2 n rounds.

    If n is not a power of two, the ranks in excess of the largest power of two below n exchange
    data through a neighbour, in 2 more rounds.
    """
    fold = Fold(group.n)
    group.cut(np.array([group.sizes]))
    _fold(group, fold, 1)
    for step in powers(fold.count):
        peer = fold.place[fold.numbers ^ step]
        group.exchange(fold.place, peer, group.sizes, peer, group.sizes, BUFFER, add=True)
    _unfold(group, fold, 1)


@algorithm("allreduce", "rabenseifner", source="Rabenseifner 2004; Thakur et al. 2005, 3.5; MPICH")
def rabenseifner(group: Group) -> None:
    """Reduce-scatter by recursive halving, then allgather by recursive doubling; 2 log2 n rounds.

    If n is not a power of two, the ranks in excess of the largest power of two below n exchange
    data through a neighbour, in 2 more rounds.
    """
    fold = Fold(group.n)
    blocks = Blocks(group.cut(evenly(group.sizes, fold.count)))
    _fold(group, fold, fold.count)
    part = reduce.halving_steps(group, fold, blocks)
    count = 1
    for step in reversed(list(powers(fold.count))):
        other = fold.numbers ^ step
        peer = fold.place[other]
        group.exchange(
            fold.place, peer, blocks.run(part, part + count),
            peer, blocks.run(part[other], part[other] + count),
            reduce.parts_of(group, fold, part, count),
        )  # fmt: skip
        part = np.minimum(part, part[other])
        count *= 2
    _unfold(group, fold, fold.count)


@algorithm("allreduce", "ring", source="Patarasuk and Yuan 2009; Baidu, NCCL")
def ring(group: Group) -> None:
    """Reduce-scatter, then allgather, around a ring; 2(n - 1) rounds of 1/n of the buffer."""
    blocks = Blocks(group.cut(evenly(group.sizes, group.n)))
    ring_reduce_steps(group, blocks)
    ring_steps(group, blocks)


@algorithm("allreduce", "reduce-bcast", source="binomial reduce and broadcast")
def reduce_bcast(group: Group) -> None:
    """Binomial reduce, then binomial broadcast; 2 ceil(log2 n) rounds of the whole buffer."""
    group.cut(np.array([group.sizes]))
    reduce.binomial_steps(group)
    bcast.binomial_steps(group)
