"""Counts in messages: a number with its noun, or with the status of runs."""

from __future__ import annotations

from collections.abc import Sequence


def count_text(count: int, noun: str) -> str:
    """Return a number and a noun: ``1 run``, ``2,000 runs``, ``3 studies``, ``4 switches``."""
    ending = "es" if noun.endswith("ch") else "s"
    plural = noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + ending
    return f"{count:,} {noun if count == 1 else plural}"


def counted(items: Sequence[object], noun: str, what: str) -> str:
    """Return a count and a few names: ``4 switches without a table: a, b, c and 1 more``."""
    from weft.core.words import few  # imported late: `weft store ls` needs no NumPy

    return f"{count_text(len(items), noun)} {what}: {few(items)}"


def with_status(count: int, status: str) -> str:
    """Return a number of runs with their status: ``2 complete``, ``2 do not fit``."""
    return f"{count:,} {'do not fit' if count != 1 and status == 'does not fit' else status}"
