"""Detection of repeated blocks of lines, whose numbers may grow by a constant step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Largest number of items in a repeated block.
MAX_PERIOD = 400
#: Limit of numbers that grow in a loop; below it sums are exact.
_EXACT = 2**53


#: Integers stay int, so that they are exact.
Real = int | float


@dataclass(frozen=True)
class Linear:
    """``base`` plus the sum of counter times step over ``terms``, one term per enclosing loop."""

    base: Real
    terms: tuple[tuple[str, Real], ...] = ()


@dataclass(frozen=True)
class StatementLine:
    """One statement: its key and its numbers."""

    #: Parts of the statement that repetitions have in common.
    key: tuple[Any, ...]
    #: Numbers that may differ between iterations.
    numbers: tuple[Real, ...]
    #: For each number, pairs of a loop counter and the growth per iteration; empty outside loops.
    terms: tuple[tuple[tuple[str, Real], ...], ...] = ()

    def forms(self) -> Iterator[Linear]:
        """Yield the numbers with their growth."""
        terms = self.terms or ((),) * len(self.numbers)
        for base, grown in zip(self.numbers, terms, strict=True):
            yield Linear(base, grown)


@dataclass(frozen=True)
class Loop:
    """A repeated block."""

    #: Number of iterations.
    count: int
    #: Items of the first iteration.
    body: tuple[Item, ...]
    #: Growth per iteration of each number of each item of the body.
    steps: tuple[tuple[Real, ...], ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Parts of the loop that repetitions have in common."""
        return (self.count, tuple(item.key for item in self.body), self.steps)

    @property
    def numbers(self) -> tuple[Real, ...]:
        """Numbers of the first iteration."""
        return tuple(number for item in self.body for number in item.numbers)

    def with_counter(self, counter: str) -> list[Item]:
        """Return the body with numbers that grow with a counter."""
        return [
            _grown(item, steps, counter) for item, steps in zip(self.body, self.steps, strict=True)
        ]


Item = StatementLine | Loop


def _grown(item: Item, steps: Sequence[Real], counter: str) -> Item:
    if isinstance(item, StatementLine):
        terms = item.terms or ((),) * len(item.numbers)
        grown = tuple(
            (*term, (counter, step)) if step else term
            for term, step in zip(terms, steps, strict=True)
        )
        return replace(item, terms=grown)
    body = []
    at = 0
    for inner in item.body:
        count = len(inner.numbers)
        body.append(_grown(inner, steps[at : at + count], counter))
        at += count
    return replace(item, body=tuple(body))


def compress(items: Sequence[Item]) -> list[Item]:
    """Replace repeated blocks of items by loops, short blocks first, until no block repeats.

    Numbers may grow only in loops of three or more iterations, since two iterations do not
    establish a rule. A loop is made only if it saves lines.
    """
    result = list(items)
    keys, numbers = _numbered(result), [item.numbers for item in result]
    changed = True
    while changed:
        changed = False
        period = 1
        while period <= min(MAX_PERIOD, len(result) // 2):
            shorter = _with_period(result, keys, numbers, period)
            if len(shorter) < len(result):
                result, changed = shorter, True
                keys, numbers = _numbered(result), [item.numbers for item in result]
            period += 1
    return result


def _numbered(items: list[Item]) -> NDArray[np.int64]:
    """Return a number for each item, equal for equal keys."""
    numbers: dict[tuple[Any, ...], int] = {}
    return np.array([numbers.setdefault(item.key, len(numbers)) for item in items], dtype=np.int64)


def _with_period(
    items: list[Item], keys: NDArray[np.int64], numbers: list[tuple[Real, ...]], period: int
) -> list[Item]:
    """Return the items with repeated blocks of `period` items replaced by loops."""
    equal = keys[period:] == keys[:-period]
    if not equal.any():
        return items
    # run[i]: how many consecutive items, beginning with item i, have the key of the item one
    # period later.
    breaks = np.append(np.flatnonzero(~equal), len(equal))
    run = breaks[np.searchsorted(breaks, np.arange(len(equal)))] - np.arange(len(equal))
    result: list[Item] = []
    index = 0
    while index < len(items):
        count = int(run[index]) // period + 1 if index < len(run) else 1
        if count > 1 and (loop := _loop(items, numbers, index, period, count)) is not None:
            result.append(loop)
            index += loop.count * period
        else:
            result.append(items[index])
            index += 1
    return result


def _loop(
    items: list[Item], numbers: list[tuple[Real, ...]], start: int, period: int, iterations: int
) -> Loop | None:
    """Return the longest loop that begins at an item if it saves lines, else None."""
    steps = []
    grows, affine = False, iterations >= 3
    # Most blocks do not repeat, and their first lines usually show it.
    for index in range(start, start + period):
        old, new = numbers[index], numbers[index + period]
        row = tuple(map(_difference, old, new))
        if any(map(isnan, row)):
            return None
        grows = grows or any(row)
        affine = affine and numbers[index + 2 * period] == _after(old, row, 2)
        if grows and not affine:
            return None
        steps.append(row)
    count = 3 if affine else 2
    while (
        affine
        and count < iterations
        and all(
            numbers[start + count * period + index] == _after(numbers[start + index], row, count)
            for index, row in enumerate(steps)
        )
    ):
        count += 1
    if (count - 1) * period <= 2:
        return None
    return Loop(count, tuple(items[start : start + period]), tuple(steps))


def _after(numbers: tuple[Real, ...], steps: tuple[Real, ...], iterations: int) -> tuple[Real, ...]:
    """Return the numbers a given number of iterations later."""
    return tuple(number + iterations * step for number, step in zip(numbers, steps, strict=True))


def _difference(old: Real, new: Real) -> Real:
    """Return the growth from one iteration to the next; NaN if it is not exact."""
    if old == new:
        return 0
    if isinstance(old, float) or isinstance(new, float) or max(abs(old), abs(new)) >= _EXACT:
        return float("nan")
    return new - old
