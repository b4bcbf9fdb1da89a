"""Trees along which segments of a buffer pass: who sends to whom, and in which order.

A tree of n ranks is int64 [n, most]: the children of each rank in the order of messages, -1 for
none. Rank 0 is the root, unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.workload.collectives.blocks import Ints
from weft.workload.collectives.collective_registry import Carries, Group, one_block


def _padded(children: list[list[int]]) -> Ints:
    most = max(map(len, children))
    rows = [[*each, *[-1] * (most - len(each))] for each in children]
    return np.array(rows, dtype=np.int64)


def chain(n: int) -> Ints:
    """Return a chain: each rank has the next one as its child."""
    return _padded([[rank + 1] for rank in range(n - 1)] + [[]])


def binary(n: int) -> Ints:
    """Return a binary tree with odd ranks below rank 1 and even ones below rank 2."""
    tree = []
    for rank in range(n):
        step = 1 << ((rank + 1).bit_length() - 1)
        tree.append([child for child in (rank + step, rank + 2 * step) if child < n])
    return _padded(tree)


def binomial_near(n: int) -> Ints:
    """Return a binomial tree in which distances double with the depth, as Open MPI's."""
    tree = []
    for rank in range(n):
        steps = (1 << bit for bit in range(rank.bit_length(), n.bit_length()))
        tree.append([rank + step for step in steps if rank + step < n])
    return _padded(tree)


def knomial(n: int, radix: int) -> Ints:
    """Return a tree in which a rank passes data to ``radix - 1`` others in each round."""
    if radix < 2:
        raise InputError(f"radix is {radix}; expected 2 or more")
    tree: list[list[int]] = [[] for _ in range(n)]
    steps = [1]
    while steps[-1] * radix < n:
        steps.append(steps[-1] * radix)
    for step in reversed(steps):
        for rank in range(0, n, step * radix):
            tree[rank] += range(rank + step, min(rank + step * radix, n), step)
    return _padded(tree)


def in_order_binary(n: int) -> Ints:
    """Return a binary tree with root n - 1, in which a subtree has consecutive ranks."""
    tree: list[list[int]] = [[] for _ in range(n)]
    todo = [(0, n)]
    while todo:
        first, size = todo.pop()
        root, right = first + size - 1, size // 2 if size > 2 else 0
        if size > 1:
            tree[root].append(root - 1)
            todo.append((first + right, size - 1 - right))
        if right:
            tree[root].append(first + right - 1)
            todo.append((first, right))
    return _padded(tree)


def segments(total: int, segment: int) -> Ints:
    """Return the sizes of the segments of a buffer, the last one smaller; 0 for no division."""
    if segment < 0:
        raise InputError(f"a segment of {segment} bytes is not possible; expected 0 or more")
    count = max(1, -(-total // segment)) if segment else 1
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

    `sizes`: int64 [segments] or [segments, n], by number of segment and of rank behind the root.
    `carries`: function from the number of a segment, and of a child among its siblings, to what a
    message has.
    """
    group.expect(len(sizes) * (group.n - 1))
    ends, behind = _Ends(group, tree), group.ranks
    of = np.broadcast_to(sizes.reshape(len(sizes), -1), (len(sizes), group.n))
    below = behind[ends.parent >= 0]
    pending = None
    for at in range(len(sizes) + 1):
        begun = None
        if at < len(sizes):
            begun = group.begin_receive(
                group.from_root(below), group.from_root(ends.parent[below]), of[at, below]
            )
        if pending is not None:
            group.wait(group.from_root(below), [pending])
            for number, (parents, children) in enumerate(ends.rounds):
                group.send(
                    group.from_root(parents), group.from_root(children), of[at - 1, children],
                    carries(at - 1, number),
                )  # fmt: skip
        pending = begun


def reduce_steps(
    group: Group,
    tree: Ints,
    sizes: Ints,
    place: Callable[[Any], Any],
    carries: Callable[[int], Carries] = one_block,
) -> None:
    """Combine segments up a tree: a rank receives those of all children, then sends its own.

    `place`: function from the ranks of the tree to those of the communicator.
    """
    group.expect(len(sizes) * (group.n - 1))
    ends = _Ends(group, tree)
    below = np.flatnonzero(ends.parent >= 0)
    for at, size in enumerate(sizes.tolist()):
        begun = [
            (parents, group.begin_receive(place(parents), place(children), size, add=True))
            for parents, children in ends.rounds
        ]
        for parents, handles in begun:
            group.wait(place(parents), [handles])
            group.combine(place(parents), size)
        group.send(place(below), place(ends.parent[below]), size, carries(at))


class _Ends:
    """Parents of ranks, and pairs of parent and child for each position among the children."""

    def __init__(self, group: Group, tree: Ints):
        self.parent = np.full(group.n, -1, dtype=np.int64)
        self.rounds: list[tuple[Ints, Ints]] = []
        for column in tree.T:
            parents = np.flatnonzero(column >= 0)
            self.parent[column[parents]] = parents
            self.rounds.append((parents, column[parents]))
