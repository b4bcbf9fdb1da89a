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
    if radix < 2:
        raise InputError(f"there is no tree of radix {radix}; expected 2 or more")
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
    *,
    at_once: bool = True,
) -> None:
    """Send segments down a tree from the root; a rank awaits the next one while it forwards.

    `sizes`: int64 [segments, n or 1], by segment and rank behind the root. `carries`: function from
    the numbers of a segment, and of a child among its siblings, to what a message has. `at_once`:
    send a segment to all children at the same time, else to one after the other.
    """
    of = np.broadcast_to(sizes.reshape(len(sizes), -1), (len(sizes), group.n))
    ranks, sources = (group.from_root(each) for each in _edges(tree))
    below = group.behind_root(ranks)
    inner = np.flatnonzero(tree[:, 0] >= 0)
    senders = group.from_root(inner)
    pending = group.begin_receive(ranks, sources, of[0, below])
    for at in range(len(sizes)):
        awaited = pending
        if at + 1 < len(sizes):
            pending = group.begin_receive(ranks, sources, of[at + 1, below])
        group.wait(ranks, [awaited])
        sends = []
        for number, to in enumerate(tree[inner].T):
            sends.append(
                group.begin_send(
                    senders, group.from_root(to), of[at, to], carries(at, number), where=to >= 0
                )
            )
            if not at_once or number == tree.shape[1] - 1:
                group.wait(senders, sends)
                sends = []


def reduce_steps(group: Group, tree: Ints, size: int, carries: Carries) -> None:
    """Combine a buffer up a tree: a rank receives from its children, then sends to its parent.

    `size`: bytes. `carries`: what a message has.
    """
    begun = []
    for column in tree.T:
        some = np.flatnonzero(column >= 0)
        ranks, senders = group.from_root(some), group.from_root(column[some])
        begun.append((ranks, group.begin_receive(ranks, senders, size, add=True)))
    for ranks, handles in begun:
        group.wait(ranks, [handles])
        group.combine(ranks, size)
    below, parents = _edges(tree)
    group.send(group.from_root(below), group.from_root(parents), size, carries)


def _edges(tree: Ints) -> tuple[Ints, Ints]:
    """Return the ranks that have a parent, in ascending order, and their parents."""
    parents, columns = np.nonzero(tree >= 0)
    children = tree[parents, columns]
    order = np.argsort(children)
    return children[order], parents[order]
