"""Reduce: the buffers of all ranks, combined, reach the root. The operator is commutative."""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import Blocks, Fold, evenly, powers, tree
from weft.workload.collectives.collective_registry import Carries, Group, Ints, algorithm


def _whole(_: int) -> tuple[int]:
    """Every message holds the whole buffer."""
    return (0,)


def binomial_steps(group: Group) -> None:
    """The whole buffer up a binomial tree."""
    for parent, child, _ in reversed(list(tree(group.n))):
        group.message(
            group.from_root(child), group.from_root(parent), group.sizes, _whole, add=True
        )


def halving_steps(group: Group, fold: Fold, blocks: Blocks) -> Ints:
    """Pairs at distances 1, 2, 4 exchange halves of what they work on, and combine.

    The first round halves the buffer, so that the largest messages go the shortest way; the
    participants then have one part each, which this returns.
    """
    who = group.from_root(fold.place)
    part, count = np.zeros(fold.count, dtype=np.int64), fold.count
    for step in powers(fold.count):
        count //= 2
        upper = (fold.numbers & step) > 0
        keep, give = part + np.where(upper, count, 0), part + np.where(upper, 0, count)
        peer = who[fold.numbers ^ step]
        group.exchange(
            who, peer, blocks.run(give, give + count), peer, blocks.run(keep, keep + count),
            parts_of(group, fold, give, count), add=True,
        )  # fmt: skip
        part = keep
    return part


def parts_of(group: Group, fold: Fold, first: Ints, count: int) -> Carries:
    """So many parts, beginning with the participant's."""

    def carries(place: int) -> range:
        start = int(first[fold.number(group.behind_root(place))])
        return range(start, start + count)

    return carries


@algorithm("reduce", "binomial", source="MPICH; Thakur et al. 2005, 3.4", first=True)
def binomial(group: Group) -> None:
    """Up a binomial tree; ceil(log2 n) rounds of the whole buffer."""
    group.cut(np.array([group.sizes]))
    binomial_steps(group)


@algorithm("reduce", "rabenseifner", source="Rabenseifner 2004; Thakur et al. 2005, 3.4; MPICH")
def rabenseifner(group: Group) -> None:
    """Reduce-scatter by recursive halving, then a binomial gather to the root.

    Where the number of ranks is no power of two, those beyond the largest one first hand their
    buffer to a neighbour. Ranks are counted from the root, so that it takes part itself.
    """
    fold = Fold(group.n, active=0)
    blocks = Blocks(group.cut(evenly(group.sizes, fold.count)))
    who = group.from_root(fold.place)
    group.message(
        group.from_root(fold.idle), group.from_root(fold.helper), group.sizes,
        lambda _: range(fold.count), add=True,
    )  # fmt: skip
    part = halving_steps(group, fold, blocks)
    count = 1
    for step in reversed(list(powers(fold.count))):
        sends = fold.numbers[step : 2 * step]
        size = blocks.run(part[sends], part[sends] + count)
        group.message(who[sends], who[sends - step], size, parts_of(group, fold, part, count))
        count *= 2
