"""Finds blocks that repeat in a list of lines, also with numbers that grow by the same step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Longest block that is looked for, in items.
MAX_PERIOD = 400
#: Largest number that may grow in a loop: below it sums are exact.
_EXACT = 2**53


#: Whole numbers stay whole, so that they are exact.
Real = int | float


@dataclass(frozen=True)
class Linear:
    """``base`` plus a step for each turn of the loops around, by the names of their counters."""

    base: Real
    terms: tuple[tuple[str, Real], ...] = ()


@dataclass(frozen=True)
class Line:
    """One statement: what it is, and its numbers.

    Parameters
    ----------
    key
        What lines must share to repeat each other.
    numbers
        What may differ between turns.
    terms
        For each number, its growth by loop counter; empty outside loops.
    """

    key: tuple[Any, ...]
    numbers: tuple[Real, ...]
    terms: tuple[tuple[tuple[str, Real], ...], ...] = ()

    def forms(self) -> Iterator[Linear]:
        """The numbers with their growth."""
        terms = self.terms or ((),) * len(self.numbers)
        for base, grown in zip(self.numbers, terms, strict=True):
            yield Linear(base, grown)


@dataclass(frozen=True)
class Loop:
    """A block and how often it is run.

    Parameters
    ----------
    count
        Turns.
    body
        The items of the first turn.
    steps
        For each item of the body, by how much each of its numbers grows from turn to turn.
    """

    count: int
    body: tuple[Item, ...]
    steps: tuple[tuple[Real, ...], ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What loops must share to repeat each other."""
        return (self.count, tuple(item.key for item in self.body), self.steps)

    @property
    def numbers(self) -> tuple[Real, ...]:
        """Numbers of the first turn."""
        return tuple(number for item in self.body for number in item.numbers)

    def with_counter(self, counter: str) -> list[Item]:
        """The body, its numbers growing with a counter."""
        return [
            _grown(item, steps, counter) for item, steps in zip(self.body, self.steps, strict=True)
        ]


Item = Line | Loop


def _grown(item: Item, steps: Sequence[Real], counter: str) -> Item:
    if isinstance(item, Line):
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
    """The items with repetitions as loops, short blocks first, until nothing repeats.

    Numbers may grow from turn to turn when there are three turns or more: two say nothing of a
    rule. A loop is made only where it saves lines.
    """
    found = list(items)
    keys, numbers = _numbered(found), [item.numbers for item in found]
    changed = True
    while changed:
        changed = False
        period = 1
        while period <= min(MAX_PERIOD, len(found) // 2):
            shorter = _with_period(found, keys, numbers, period)
            if len(shorter) < len(found):
                found, changed = shorter, True
                keys, numbers = _numbered(found), [item.numbers for item in found]
            period += 1
    return found


def _numbered(items: list[Item]) -> NDArray[np.int64]:
    """A number for each item, the same for those of the same key."""
    numbers: dict[tuple[Any, ...], int] = {}
    return np.array([numbers.setdefault(item.key, len(numbers)) for item in items], dtype=np.int64)


def _with_period(
    items: list[Item], keys: NDArray[np.int64], numbers: list[tuple[Real, ...]], period: int
) -> list[Item]:
    """The items with blocks of one length that repeat as loops."""
    alike = keys[period:] == keys[:-period]
    if not alike.any():
        return items
    # How many items from each on equal the one a period later.
    breaks = np.append(np.flatnonzero(~alike), len(alike))
    run = breaks[np.searchsorted(breaks, np.arange(len(alike)))] - np.arange(len(alike))
    result: list[Item] = []
    at = 0
    while at < len(items):
        turns = int(run[at]) // period + 1 if at < len(run) else 1
        if turns > 1 and (loop := _loop(items, numbers, at, period, turns)) is not None:
            result.append(loop)
            at += loop.count * period
        else:
            result.append(items[at])
            at += 1
    return result


def _loop(
    items: list[Item], numbers: list[tuple[Real, ...]], at: int, period: int, turns: int
) -> Loop | None:
    """The longest loop that begins here, if it saves lines."""
    steps = []
    grows, third = False, turns >= 3
    # Most blocks do not repeat, and most of those show it in their first lines.
    for place in range(at, at + period):
        old, new = numbers[place], numbers[place + period]
        row = tuple(map(_difference, old, new))
        if any(map(isnan, row)):
            return None
        grows = grows or any(row)
        third = third and numbers[place + 2 * period] == _after(old, row, 2)
        if grows and not third:
            return None
        steps.append(row)
    count = 3 if third else 2
    while (
        third
        and count < turns
        and all(
            numbers[at + count * period + place] == _after(numbers[at + place], row, count)
            for place, row in enumerate(steps)
        )
    ):
        count += 1
    if (count - 1) * period <= 2:
        return None
    return Loop(count, tuple(items[at : at + period]), tuple(steps))


def _after(numbers: tuple[Real, ...], steps: tuple[Real, ...], turns: int) -> tuple[Real, ...]:
    """Numbers so many turns later."""
    return tuple(number + turns * step for number, step in zip(numbers, steps, strict=True))


def _difference(old: Real, new: Real) -> Real:
    """Growth from one turn to the next; not a number where it could not be worked out exactly."""
    if old == new:
        return 0
    if isinstance(old, float) or isinstance(new, float) or max(abs(old), abs(new)) >= _EXACT:
        return float("nan")
    return new - old
