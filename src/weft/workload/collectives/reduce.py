"""Reduce: the combined buffers of all ranks reach the root. The operator is commutative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.core.errors import InputError
from weft.core.registry import wrong_name
from weft.core.units import Bytes
from weft.workload.collectives import trees
from weft.workload.collectives.blocks import Blocks, Fold, evenly, powers, tree
from weft.workload.collectives.collective_registry import (
    BUFFER,
    Carries,
    Group,
    Ints,
    algorithm,
    one_block,
)


def binomial_steps(group: Group, size: int, carries: Carries = BUFFER) -> None:
    """Combine the whole buffer up a binomial tree."""
    for parent, child, _ in reversed(list(tree(group.n))):
        group.message(group.from_root(child), group.from_root(parent), size, carries, add=True)


def linear_steps(group: Group, size: int, carries: Carries = BUFFER) -> None:
    """Send all buffers to the root, which combines them in descending order."""
    others = np.delete(group.ranks, group.root)
    group.send(others, np.full_like(others, group.root), size, carries)
    for rank in others[::-1].tolist():
        group.receive(group.root, rank, size, add=True)


def in_order_steps(
    group: Group, sizes: Ints, carries: Callable[[int], Carries] = one_block
) -> None:
    """Combine segments up a tree with the last rank as its root, which passes on the result."""
    trees.reduce_steps(group, trees.in_order_binary(group.n), sizes, lambda rank: rank, carries)
    last = group.n - 1
    if last != group.root:
        for at, size in enumerate(sizes.tolist()):
            group.message(last, group.root, size, carries(at))


def whole_steps(name: str, group: Group, size: int, carries: Carries = BUFFER) -> None:
    """Combine the whole buffer of `size` bytes by an algorithm that does not divide it.

    `carries`: the blocks that a message has.
    """
    one, held = np.array([size]), lambda _: carries
    if name == "in-order-binary":
        in_order_steps(group, one, held)
    elif name in ("binary", "chain"):
        tree = getattr(trees, name)(group.n)
        trees.reduce_steps(group, tree, one, group.from_root, held)
    elif name in ("binomial", "linear"):
        (binomial_steps if name == "binomial" else linear_steps)(group, size, carries)
    else:
        known = ["binary", "binomial", "chain", "in-order-binary", "linear"]
        raise InputError(wrong_name("reduce of whole buffers has no algorithm", name, known))


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
    binomial_steps(group, group.sizes)


@algorithm("reduce", "linear", source="Open MPI's basic linear")
def linear(group: Group) -> None:
    """All ranks send to the root, which receives and combines one buffer after the other."""
    group.cut(np.array([group.sizes]))
    linear_steps(group, group.sizes)


@algorithm("reduce", "chain", source="Open MPI's pipeline")
def chain(group: Group, *, segment: Bytes = 65536) -> None:
    """Pipeline of segments: each rank combines those of the next rank with its own.

    Parameters
    ----------
    segment
        Bytes of a segment; the last one may be smaller. 0 for the whole buffer.
    """
    sizes = group.cut(trees.segments(group.sizes, segment))
    trees.reduce_steps(group, trees.chain(group.n), sizes, group.from_root)


@algorithm("reduce", "binary", source="Open MPI")
def binary(group: Group, *, segment: Bytes = 0) -> None:
    """Segments are combined up a binary tree with odd ranks on one side.

    Parameters
    ----------
    segment
        Bytes of a segment; the last one may be smaller. 0 for the whole buffer.
    """
    sizes = group.cut(trees.segments(group.sizes, segment))
    trees.reduce_steps(group, trees.binary(group.n), sizes, group.from_root)


@algorithm("reduce", "in-order-binary", source="Open MPI")
def in_order_binary(group: Group, *, segment: Bytes = 0) -> None:
    """Segments are combined in the order of ranks, up a binary tree to the last rank.

    Parameters
    ----------
    segment
        Bytes of a segment; the last one may be smaller. 0 for the whole buffer.
    """
    in_order_steps(group, group.cut(trees.segments(group.sizes, segment)))


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
