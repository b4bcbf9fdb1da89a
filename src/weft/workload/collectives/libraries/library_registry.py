"""The registry of libraries, each of which is a function from a call to an algorithm.

A module with one function adds a library::

    @library("mine-2", source="version and file in which its rules are stated")
    def mine(call: Call) -> Choice | None:
        return Choice("ring") if call.collective == "allreduce" else None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from weft.core.errors import InputError
from weft.core.registry import Registry

library = Registry(
    "library",
    "weft.workload.collectives.libraries",
    "weft.collective_libraries",
    pipeline=("call",),
    facts=("source",),
)


@dataclass(frozen=True)
class Call:
    """What a library knows when it chooses.

    Parameters
    ----------
    collective
        Name of the collective.
    size_bytes
        Size, as in `collective_on`.
    num_ranks
        Number of ranks of the communicator.
    per_machine
        Number of ranks on each machine; the largest one if they differ.
    """

    collective: str
    size_bytes: ArrayLike
    num_ranks: int
    per_machine: int = 1

    @property
    def one_size(self) -> int:
        """The size, where it is one number."""
        return int(self.size_bytes)  # type: ignore[arg-type]

    @cached_property
    def total_bytes(self) -> int:
        """Bytes of the blocks of all ranks."""
        return int(np.broadcast_to(self.size_bytes, self.num_ranks).sum())


@dataclass(frozen=True)
class Choice:
    """An algorithm and its options; `why`: what the library's own name of it hides, if anything."""

    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    def __str__(self) -> str:
        given = "".join(f", {key} {value}" for key, value in self.options.items())
        return f"{self.algorithm}{given}{self.why and f' ({self.why})'}"


def choose(name: str, call: Call) -> Choice:
    """Return the algorithm that a library takes.

    Raises
    ------
    InputError
        If the library is unknown, or weft does not have its rules for the collective.
    """
    choice: Choice | None = library[name].function(call)
    if choice is None:
        raise InputError(
            f"weft does not have the rules of {library[name].name} for {call.collective}; "
            "expected an algorithm, or another library"
        )
    return choice


def rows_below(text: str) -> list[tuple[int, list[int]]]:
    """Parse a decision table of nested limits.

    A line of ``8: 4 16 3 8192 6`` means: below 8 ranks, algorithm 4 below 16 bytes, 3 below 8192
    bytes, else 6; a line of ``*`` is for any number of ranks.
    """
    parsed = []
    for line in text.strip().splitlines():
        limit, _, cells = line.strip().partition(":")
        parsed.append((2**62 if limit == "*" else int(limit), list(map(int, cells.split()))))
    return parsed


def number_below(rows: list[tuple[int, list[int]]], num_ranks: int, size_bytes: int) -> int:
    """Return the number of the algorithm in a table of `rows_below`."""
    cells = next(cells for limit, cells in rows if num_ranks < limit)
    pairs = zip(cells[::2], [*cells[1::2], 2**62], strict=True)
    return next(number for number, limit in pairs if size_bytes < limit)
