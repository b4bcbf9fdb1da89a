"""Allreduce: the combined buffers of all ranks reach all ranks. The operator is commutative."""

from __future__ import annotations

from typing import Literal

import numpy as np

from weft.workload.collectives.allgather import ring_steps
from weft.workload.collectives.bcast import binomial_steps, linear_steps
from weft.workload.collectives.blocks import Blocks, Fold, evenly, powers
from weft.workload.collectives.collective_registry import BUFFER, Group, algorithm
from weft.workload.collectives.reduce import Whole, halving_steps, parts_of, whole_steps
from weft.workload.collectives.reduce_scatter import ring_reduce_steps
from weft.workload.collectives.trees import bcast_steps, tree_of


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
    part = halving_steps(group, fold, blocks)
    count = 1
    for step in reversed(list(powers(fold.count))):
        other = fold.numbers ^ step
        peer = fold.place[other]
        group.exchange(
            fold.place, peer, blocks.run(part, part + count),
            peer, blocks.run(part[other], part[other] + count),
            parts_of(group, fold, part, count),
        )  # fmt: skip
        part = np.minimum(part, part[other])
        count *= 2
    _unfold(group, fold, fold.count)


@algorithm("allreduce", "ring", source="Patarasuk and Yuan 2009; Baidu, NCCL")
def ring(group: Group) -> None:
    """Reduce-scatter, then allgather, around a ring; 2(n - 1) rounds of 1/n of the buffer."""
    group.expect(2 * group.n * (group.n - 1))
    blocks = Blocks(group.cut(evenly(group.sizes, group.n)))
    ring_reduce_steps(group, blocks)
    ring_steps(group, blocks)


@algorithm("allreduce", "reduce-bcast", source="Open MPI's nonoverlapping")
def reduce_bcast(
    group: Group,
    *,
    reduce: Whole = "binomial",
    bcast: Literal["binomial", "linear", "chain", "binary", "near", "knomial"] = "binomial",
) -> None:
    """Reduce of the whole buffer to rank 0, then broadcast.

    Parameters
    ----------
    reduce
        How the buffer is reduced: binomial, linear, chain, binary or in-order-binary.
    bcast
        How the result is sent: binomial, linear, or a tree; a knomial one has radix 4.
    """
    sizes = group.cut(np.array([group.sizes]))
    whole_steps(reduce, group, group.sizes)
    if bcast in ("binomial", "linear"):
        (binomial_steps if bcast == "binomial" else linear_steps)(group)
    else:
        bcast_steps(group, tree_of(bcast, group.n, 4), sizes)


@algorithm("allreduce", "two-level", source="MVAPICH2", machines=True)
def two_level(
    group: Group,
    *,
    between: Literal["recursive-doubling", "rabenseifner"] = "recursive-doubling",
    within: Literal["linear", "binomial"] = "linear",
) -> None:
    """Reduce to one leader within each machine, allreduce of leaders, broadcast within machines.

    Parameters
    ----------
    between
        Algorithm among leaders.
    within
        Reduction within machines: linear, as in shared memory, where the leader reads from all
        ranks of its machine; or binomial. All ranks read the leader's result at once.
    """
    leaders, machines = group.machines()
    doubles = between == "recursive-doubling"
    parts = 1 if doubles else 1 << (leaders.n.bit_length() - 1)
    group.cut(evenly(group.sizes, parts))
    for local in machines:
        whole_steps(within, local, group.sizes, lambda _: range(parts))
    if leaders.n > 1:
        (recursive_doubling if doubles else rabenseifner)(leaders)
    for local in machines:
        linear_steps(local, lambda _: range(parts))
