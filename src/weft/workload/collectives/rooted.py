"""Gather and scatter: one block per rank is sent to the root, or by the root.

A block has the number of the rank that sends (gather) or receives it (scatter).
"""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import Blocks, tree
from weft.workload.collectives.collective_registry import Carries, Group, algorithm, one_block


def _share(group: Group, first: int, share: int) -> Carries:
    """Return the blocks of `share` consecutive ranks, from `first` ranks after the sender on."""

    def carries(rank: int) -> list[int]:
        start = group.behind_root(rank) + first
        return [group.from_root(at) for at in range(start, min(start + share, group.n))]

    return carries


def scatter_steps(group: Group, blocks: Blocks) -> None:
    """Send blocks down a binomial tree; block 0 is the root's."""
    for parent, child, share in tree(group.n):
        size = blocks.run(child, np.minimum(child + share, group.n))
        group.message(
            group.from_root(parent), group.from_root(child), size, _share(group, share, share)
        )


@algorithm("gather", "binomial", source="MPICH; Thakur and Gropp 2003", first=True)
@algorithm("gatherv", "binomial", source="as gather; Träff 2018 refines it", first=True)
def gather_binomial(group: Group) -> None:
    """Binomial tree to the root, where inner ranks forward blocks; ceil(log2 n) rounds."""
    blocks = Blocks(np.roll(group.sizes, -group.root))
    for parent, child, share in reversed(list(tree(group.n))):
        size = blocks.run(child, np.minimum(child + share, group.n))
        group.message(
            group.from_root(child), group.from_root(parent), size, _share(group, 0, share)
        )


@algorithm("scatter", "binomial", source="MPICH; Thakur and Gropp 2003", first=True)
@algorithm("scatterv", "binomial", source="as scatter; Träff 2018 refines it", first=True)
def scatter_binomial(group: Group) -> None:
    """Binomial tree from the root, where inner ranks forward blocks; ceil(log2 n) rounds."""
    scatter_steps(group, Blocks(np.roll(group.sizes, -group.root)))


def _others(group: Group) -> list[int]:
    """Return the ranks with a non-empty block, except the root."""
    return [at for at in range(group.n) if at != group.root and group.sizes[at]]


def _own(rank: int) -> tuple[int]:
    return (rank,)


@algorithm("gather", "linear", source="MPICH's gatherv; Open MPI's basic linear")
@algorithm("gatherv", "linear", source="MPICH")
def gather_linear(group: Group) -> None:
    """Every rank sends to the root, which receives all at once; empty blocks are not sent."""
    others = _others(group)
    senders = np.array(others, dtype=np.int64)
    if len(senders):
        group.send(senders, np.full_like(senders, group.root), group.sizes[senders], _own)
    group.wait(
        group.root, [group.begin_receive(group.root, at, int(group.sizes[at])) for at in others]
    )


@algorithm("scatter", "linear", source="MPICH's scatterv; Open MPI's basic linear")
@algorithm("scatterv", "linear", source="MPICH")
def scatter_linear(group: Group) -> None:
    """The root sends to all ranks at once; empty blocks are not sent."""
    others = _others(group)
    group.wait(
        group.root,
        [group.begin_send(group.root, at, int(group.sizes[at]), one_block(at)) for at in others],
    )
    receivers = np.array(others, dtype=np.int64)
    if len(receivers):
        group.receive(receivers, np.full_like(receivers, group.root), group.sizes[receivers])
