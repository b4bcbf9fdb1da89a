"""Allgather: the block of every rank goes to everybody. A block is named after its rank."""

from __future__ import annotations

from weft.workload.collectives.blocks import Blocks, Fold, powers
from weft.workload.collectives.collective_registry import Carries, Group, algorithm


def ring_steps(group: Group, blocks: Blocks) -> None:
    """N - 1 rounds: each hands to the next the block that came last; blocks count from the root."""
    n, places = group.n, group.places
    group.expect(n * (n - 1))
    behind = group.behind_root(places)
    for step in range(n - 1):
        group.exchange(
            places, (places + 1) % n, blocks.sizes[(behind - step) % n],
            (places - 1) % n, blocks.sizes[(behind - 1 - step) % n], _behind(n, step),
        )  # fmt: skip


def _behind(n: int, step: int) -> Carries:
    return lambda place: ((place - step) % n,)


def doubling_steps(group: Group, blocks: Blocks) -> None:
    """Pairs at distances 1, 2, 4 exchange all that they have; blocks count from the root.

    Where n is no power of two the ranks beyond the largest one hand their block to a neighbour
    before, and get all others after.
    """
    n, fold = group.n, Fold(group.n)
    who = group.from_root(fold.place)
    idle, helper = group.from_root(fold.idle), group.from_root(fold.helper)
    group.message(idle, helper, blocks.sizes[fold.idle], lambda place: (place,))
    for step in powers(fold.count):
        mine, theirs = fold.numbers & -step, (fold.numbers ^ step) & -step
        peer = who[fold.numbers ^ step]
        group.exchange(
            who, peer, blocks.run(fold.first(mine), fold.first(mine + step)),
            peer, blocks.run(fold.first(theirs), fold.first(theirs + step)),
            _aligned(group, fold, step),
        )  # fmt: skip
    group.message(
        helper, idle, blocks.run(0, n) - blocks.sizes[fold.idle],
        lambda place: (block for block in range(n) if block != (place - 1) % n),
    )  # fmt: skip


def _aligned(group: Group, fold: Fold, step: int) -> Carries:
    """Blocks of the aligned run of `step` participants that the sender is in."""

    def carries(place: int) -> list[int]:
        number = int(fold.number(group.behind_root(place))) & -step
        run = range(int(fold.first(number)), int(fold.first(number + step)))
        return [group.from_root(at) for at in run]

    return carries


@algorithm("allgather", "ring", source="Thakur et al. 2005, 3.1; MPICH", first=True)
@algorithm("allgatherv", "ring", source="as allgather; MPICH", first=True)
def ring(group: Group) -> None:
    """Each rank hands to the next what it got last; n - 1 rounds of one block."""
    ring_steps(group, Blocks(group.sizes))


@algorithm("allgather", "recursive-doubling", source="Thakur et al. 2005, 3.1; MPICH")
@algorithm("allgatherv", "recursive-doubling", source="as allgather; MPICH")
def recursive_doubling(group: Group) -> None:
    """Pairs at distances 1, 2, 4 exchange all they have; log2 n rounds, 2 more for other n."""
    doubling_steps(group, Blocks(group.sizes))


@algorithm("allgather", "bruck", source="Bruck et al. 1997; Thakur et al. 2005, 3.1; MPICH")
@algorithm("allgatherv", "bruck", source="as allgather; MPICH")
def bruck(group: Group) -> None:
    """In round k from the rank 2^k places on, all that it has; ceil(log2 n) rounds for every n."""
    n, places, blocks = group.n, group.places, Blocks(group.sizes)
    for step in powers(n):
        count = min(step, n - step)
        source = (places + step) % n
        group.exchange(
            places, (places - step) % n, blocks.around(places, count),
            source, blocks.around(source, count), _ahead(n, count),
        )  # fmt: skip


def _ahead(n: int, count: int) -> Carries:
    return lambda place: ((place + at) % n for at in range(count))
