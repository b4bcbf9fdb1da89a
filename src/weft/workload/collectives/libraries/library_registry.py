"""The registry of libraries: functions from a call of a collective to the algorithm they take.

A file adds one::

    @library("mine-2", source="version and file in which its rules are stated")
    def mine(call: LibraryCall) -> AlgorithmChoice | None:
        return AlgorithmChoice("ring") if call.collective == "allreduce" else None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
class LibraryCall:
    """What a library knows when it chooses: name and size of the collective, ranks, machines.

    `size_bytes`: as in `collective_on`. `per_machine`: ranks on each machine, 0 if they differ.
    """

    collective: str
    size_bytes: ArrayLike
    num_ranks: int
    per_machine: int = 1

    @property
    def size(self) -> int:
        """The size of a collective with blocks of equal sizes, else the bytes of all blocks."""
        return int(np.sum(self.size_bytes))

    @property
    def total(self) -> int:
        """Bytes of the blocks of all ranks."""
        return int(np.broadcast_to(self.size_bytes, self.num_ranks).sum())


@dataclass(frozen=True)
class AlgorithmChoice:
    """An algorithm and its options; `why`: what the library calls it, or why it takes it."""

    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    def __str__(self) -> str:
        given = "".join(f", {key} {value}" for key, value in self.options.items())
        return f"{self.algorithm}{given}{self.why and f' ({self.why})'}"


def choose(name: str, call: LibraryCall) -> AlgorithmChoice:
    """Return the algorithm that a library takes; refuse what weft does not have of it."""
    choice: AlgorithmChoice | None = library[name].function(call)
    if choice is None or not choice.algorithm:
        taken = f"what {name} takes here, {choice.why}," if choice else f"the rules of {name}"
        raise InputError(
            f"weft does not have {taken} for {call.collective}; expected an algorithm by name"
        )
    return choice


Rows = list[tuple[int, list[int]]]


def rows_below(text: str) -> Rows:
    """Parse a decision table of nested limits, with rows separated by semicolons.

    A row ``8: 4 16 3 8192 6`` means: below 8 ranks, algorithm 4 below 16 bytes, 3 below 8192
    bytes, else 6. ``*`` is any number of ranks.
    """
    pairs = (row.split(":") for row in text.split(";"))
    return [
        (2**62 if limit.strip() == "*" else int(limit), list(map(int, cells.split())))
        for limit, cells in pairs
    ]


def number_below(rows: Rows, num_ranks: int, size_bytes: int) -> int:
    """Return the number of the algorithm in a table of `rows_below`."""
    cells = next(cells for limit, cells in rows if num_ranks < limit)
    pairs = zip(cells[::2], [*cells[1::2], 2**62], strict=True)
    return next(number for number, limit in pairs if size_bytes < limit)
