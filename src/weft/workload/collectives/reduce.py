"""Reduce: the combined buffers of all ranks reach the root. The operator is commutative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from weft.workload.collectives.blocks import Blocks, Fold, evenly, powers, tree
from weft.workload.collectives.collective_registry import BUFFER, Carries, Group, Ints, algorithm
from weft.workload.collectives.trees import in_order_tree, reduce_steps, tree_of

#: Ways to combine a buffer that is not divided.
Whole = Literal["binomial", "linear", "chain", "binary", "in-order-binary"]


def whole_steps(how: str, group: Group, size: int, carries: Carries = BUFFER) -> None:
    """Combine the whole buffer of `size` bytes; `carries`: the blocks that a message has."""
    if how == "binomial":
        for parent, child, _ in reversed(list(tree(group.n))):
            ranks, to = group.from_root(child), group.from_root(parent)
            group.message(ranks, to, size, carries, add=True)
    elif how == "linear":
        others = np.delete(group.ranks, group.root)
        group.send(others, np.full_like(others, group.root), size, carries)
        for rank in others[::-1].tolist():
            group.receive(group.root, rank, size, add=True)
    elif how == "in-order-binary":
        # Ranks are those of the communicator, and the last one passes the result to the root.
        by_rank, last = group.part(group.ranks[np.newaxis]), group.n - 1
        reduce_steps(by_rank, in_order_tree(group.n), size, carries)
        if group.root != last:
            group.message(last, group.root, size, carries)
    else:
        reduce_steps(group, tree_of(how, group.n), size, carries)


def halving_steps(
    group: Group, fold: Fold, blocks: Blocks, held: Callable[[Carries], Carries] = lambda it: it
) -> Ints:
    """Exchange and combine halves of the buffer in pairs at distances 1, 2, 4.

    The largest messages are thus between neighbours. `held`: function from the parts in a message
    to its blocks. Returns the part that each participant holds at the end, int64 [participants].
    """
    ranks = group.from_root(fold.place)
    part, count = np.zeros(fold.count, dtype=np.int64), fold.count
    for step in powers(fold.count):
        count //= 2
        upper = (fold.numbers & step) > 0
        keep, give = part + np.where(upper, count, 0), part + np.where(upper, 0, count)
        peer = ranks[fold.numbers ^ step]
        group.exchange(
            ranks, peer, blocks.run(give, give + count), peer, blocks.run(keep, keep + count),
            held(parts_of(group, fold, give, count)), add=True,
        )  # fmt: skip
        part = keep
    return part


def parts_of(group: Group, fold: Fold, first: Ints, count: int) -> Carries:
    """Return the parts of a sender: `count` consecutive parts from its entry in `first` on."""

    def carries(rank: int) -> range:
        start = int(first[fold.number(group.behind_root(rank))])
        return range(start, start + count)

    return carries


@algorithm("reduce", "binomial", source="MPICH; Thakur et al. 2005, 3.4", first=True)
def binomial(group: Group) -> None:
    """Binomial tree to the root; ceil(log2 n) rounds of the whole buffer."""
    group.cut(np.array([group.sizes]))
    whole_steps("binomial", group, group.sizes)


@algorithm("reduce", "linear", source="Open MPI's basic linear")
def linear(group: Group) -> None:
    """All ranks send to the root, which combines one buffer after the other."""
    group.cut(np.array([group.sizes]))
    whole_steps("linear", group, group.sizes)


@algorithm("reduce", "in-order-binary", source="Open MPI")
def in_order_binary(group: Group) -> None:
    """Buffers are combined in the order of ranks, up a binary tree to the last rank."""
    group.cut(np.array([group.sizes]))
    whole_steps("in-order-binary", group, group.sizes)


@algorithm("reduce", "tree", source="Open MPI's pipeline, chain and binary")
def up_tree(group: Group, *, shape: Literal["chain", "binary"] = "chain") -> None:
    """Whole buffers are combined up a tree.

    Parameters
    ----------
    shape
        chain or binary, as for a broadcast.
    """
    group.cut(np.array([group.sizes]))
    whole_steps(shape, group, group.sizes)


@algorithm("reduce", "rabenseifner", source="Rabenseifner 2004; Thakur et al. 2005, 3.4; MPICH")
def rabenseifner(group: Group) -> None:
    """Reduce-scatter by recursive halving, then a binomial gather to the root.

    If the number of ranks is not a power of two, the ranks in excess of the largest power of two
    below it first send their buffer to a neighbour. Ranks are numbered from the root, so that the
    root takes part in the halving.
    """
    fold = Fold(group.n, active=0)
    blocks = Blocks(group.cut(evenly(group.sizes, fold.count)))
    ranks = group.from_root(fold.place)
    group.message(
        group.from_root(fold.idle), group.from_root(fold.helper), group.sizes,
        lambda _: range(fold.count), add=True,
    )  # fmt: skip
    part = halving_steps(group, fold, blocks)
    count = 1
    for step in reversed(list(powers(fold.count))):
        sends = fold.numbers[step : 2 * step]
        size = blocks.run(part[sends], part[sends] + count)
        group.message(ranks[sends], ranks[sends - step], size, parts_of(group, fold, part, count))
        count *= 2
