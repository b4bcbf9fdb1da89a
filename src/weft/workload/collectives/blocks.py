"""Partition of buffers and arrangement of ranks: blocks, binomial trees and powers of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def is_power_of_two(n: int) -> bool:
    """Return whether n is 1, 2, 4, 8 and so on."""
    return n & (n - 1) == 0


def powers(n: int) -> Iterator[int]:
    """Yield 1, 2, 4 and so on, below n."""
    step = 1
    while step < n:
        yield step
        step *= 2


def tree(n: int) -> Iterator[tuple[Ints, Ints, int]]:
    """Yield the rounds of a binomial tree from root 0: parents, children, subtree size.

    In each round parent p sends to child ``p + share``. The subtree of the child is ranks
    ``p + share`` to ``p + 2 share - 1``, as far as they exist; the size is `share` in any case.
    """
    for share in reversed(list(powers(n))):
        parent = np.arange(0, n - share, 2 * share, dtype=np.int64)
        yield parent, parent + share, share


def evenly(total: int, parts: int) -> Ints:
    """Return sizes of parts that differ by at most 1, the larger ones first."""
    size, rest = divmod(total, parts)
    return np.full(parts, size, dtype=np.int64) + (np.arange(parts) < rest)


def rounded_up(total: int, parts: int) -> Ints:
    """Return sizes of parts: ceil(total / parts) each; the last may be smaller or empty."""
    size = -(-total // parts)
    return np.clip(total - size * np.arange(parts, dtype=np.int64), 0, size)


class Blocks:
    """Sizes of runs of neighbouring blocks.

    `sizes`, int64 [blocks]: bytes of each block.
    """

    def __init__(self, sizes: Ints):
        self.n = len(sizes)
        self.sizes = sizes
        # Cumulative bytes of all blocks twice in succession, for runs that wrap around.
        self._before = np.concatenate([[0], np.cumsum(np.concatenate([sizes, sizes]))])

    def run(self, first: Any, end: Any) -> Any:
        """Return the bytes of blocks `first` to ``end - 1``; `end` is at most n."""
        return self._before[end] - self._before[first]

    def around(self, first: Any, count: Any) -> Any:
        """Return the bytes of `count` blocks from `first` on; block 0 follows the last block."""
        start = first % self.n
        return self._before[start + count] - self._before[start]


class Fold:
    """Folding of n ranks into participants, whose number is the largest power of two up to n.

    If there are ``rest`` more ranks than participants, each pair of the first ``2 rest`` ranks
    becomes one participant, as in MPICH, so that the blocks of a participant's ranks are
    contiguous.

    `active`: which rank of a pair takes part: 0 for the first, 1 for the second.
    """

    def __init__(self, n: int, active: int = 1):
        self.n = n
        self.count = 1 << (n.bit_length() - 1)
        self.rest = n - self.count
        self.numbers: Ints = np.arange(self.count, dtype=np.int64)
        pair = np.arange(0, 2 * self.rest, 2, dtype=np.int64)
        #: Ranks that take part only via a neighbour (`idle`), and these neighbours (`helper`).
        self.idle = pair + 1 - active
        self.helper = pair + active
        #: Rank of each participant.
        self.place = np.concatenate([self.helper, np.arange(2 * self.rest, n, dtype=np.int64)])

    def first(self, number: Any) -> Any:
        """Return the first rank of a participant; for ``number = count``, return n."""
        return number + np.minimum(number, self.rest)

    def number(self, rank: Any) -> Any:
        """Return the participant of a rank."""
        return np.where(rank < 2 * self.rest, rank // 2, rank - self.rest)
