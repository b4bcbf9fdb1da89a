"""Trees along which segments of a buffer pass, and their messages.

A tree of n ranks has root 0. It is int64 [n, most]: the children of each rank in the order of
messages, -1 for none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from weft.core.errors import InputError
from weft.workload.collectives.blocks import Ints
from weft.workload.collectives.collective_registry import Carries, Group, one_block

Shape = Literal["chain", "binary", "near", "knomial"]


def tree_of(shape: str, n: int, radix: int = 2) -> Ints:
    """Return a tree; rank 0 is its root.

    `shape`: chain; binary, with odd ranks on one side and even ones on the other; near, a binomial
    tree with the nearest ranks first; knomial, in which a rank serves `radix` - 1 others a round,
    the farthest first.
    """
    if radix < 2 or shape not in ("chain", "binary", "near", "knomial"):
        raise InputError(f"there is no tree {shape} of radix {radix}; see weft list collectives")
    steps = [1]
    while steps[-1] * radix < n:
        steps.append(steps[-1] * radix)
    tree: list[list[int]] = []
    for rank in range(n):
        if shape == "chain":
            children = [rank + 1]
        elif shape == "binary":
            step = 1 << ((rank + 1).bit_length() - 1)
            children = [rank + step, rank + 2 * step]
        elif shape == "near":
            children = [rank + (1 << bit) for bit in range(rank.bit_length(), n.bit_length())]
        else:
            served = [step for step in reversed(steps) if rank % (radix * step) == 0]
            children = [rank + step * at for step in served for at in range(1, radix)]
        tree.append([child for child in children if child < n])
    return _padded(tree)


def in_order_tree(n: int) -> Ints:
    """Return a binary tree with root n - 1, in which each subtree has consecutive ranks."""
    tree: list[list[int]] = [[] for _ in range(n)]
    todo = [(0, n)]
    while todo:
        first, size = todo.pop()
        root, right = first + size - 1, size // 2 if size > 2 else 0
        for begin, count in ((first + right, size - 1 - right), (first, right)):
            if count:
                tree[root].append(begin + count - 1)
                todo.append((begin, count))
    return _padded(tree)


def _padded(tree: list[list[int]]) -> Ints:
    most = max(map(len, tree))
    return np.array([[*each, *[-1] * (most - len(each))] for each in tree], dtype=np.int64)


def segments(group: Group, total: int, segment: int) -> Ints:
    """Return the sizes of segments of a buffer, each of which all ranks but one receive.

    The last one is smaller; a `segment` of 0 is for no division.
    """
    if segment < 0:
        raise InputError(f"a segment of {segment} bytes is not possible; expected 0 or more")
    count = max(1, -(-total // segment)) if segment else 1
    group.expect(count * (group.n - 1))
    sizes = np.full(count, segment, dtype=np.int64)
    sizes[-1] = total - (count - 1) * segment
    return sizes


def bcast_steps(
    group: Group,
    tree: Ints,
    sizes: Ints,
    carries: Callable[[int, int], Carries] = lambda at, _: one_block(at),
) -> None:
    """Send segments down a tree from the root; a rank awaits the next one while it forwards.

    `sizes`: int64 [segments, n or 1], by segment and rank behind the root. `carries`: function from
    the numbers of a segment, and of a child among its siblings, to what a message has.
    """
    of = np.broadcast_to(sizes.reshape(len(sizes), -1), (len(sizes), group.n))
    parents, rounds = _edges(tree)
    below = np.flatnonzero(parents >= 0)
    ranks, sources = group.from_root(below), group.from_root(parents[below])
    pending = group.begin_receive(ranks, sources, of[0, below])
    for at in range(len(sizes)):
        awaited = pending
        if at + 1 < len(sizes):
            pending = group.begin_receive(ranks, sources, of[at + 1, below])
        group.wait(ranks, [awaited])
        for number, (senders, to) in enumerate(rounds):
            size = of[at, to]
            group.send(group.from_root(senders), group.from_root(to), size, carries(at, number))


def reduce_steps(group: Group, tree: Ints, sizes: Ints, carries: Carries | None = None) -> None:
    """Combine segments up a tree: a rank receives from its children, then sends to its parent.

    `sizes`: int64 [segments]. `carries`: what a message has; by default, its segment.
    """
    parents, rounds = _edges(tree)
    below = np.flatnonzero(parents >= 0)
    for at, size in enumerate(sizes.tolist()):
        begun = []
        for to, senders in rounds:
            ranks = group.from_root(to)
            begun.append(
                (ranks, group.begin_receive(ranks, group.from_root(senders), size, add=True))
            )
        for ranks, handles in begun:
            group.wait(ranks, [handles])
            group.combine(ranks, size)
        ranks, to = group.from_root(below), group.from_root(parents[below])
        group.send(ranks, to, size, carries or one_block(at))


def _edges(tree: Ints) -> tuple[Ints, list[tuple[Ints, Ints]]]:
    """Return the parent of each rank, and for each column its ranks and their children."""
    parent = np.full(len(tree), -1, dtype=np.int64)
    rounds = [(np.flatnonzero(column >= 0), column[column >= 0]) for column in tree.T]
    for ranks, children in rounds:
        parent[children] = ranks
    return parent, rounds
