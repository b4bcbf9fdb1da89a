"""Scan and exscan: rank i gets the buffers of ranks 0 to i, or to i - 1, combined.

Block 0 is what a rank hands on, block 1 its result.
"""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import powers
from weft.workload.collectives.collective_registry import Carries, Group, algorithm


def _partial(_: int) -> tuple[int]:
    return (0,)


def _result(_: int) -> tuple[int]:
    return (1,)


@algorithm("scan", "recursive-doubling", source="MPICH", first=True)
def recursive_doubling(group: Group) -> None:
    """Pairs at distances 1, 2, 4 exchange what their runs combine to; ceil(log2 n) rounds.

    What comes from below also goes into the result, so it is combined twice.
    """
    _doubling(group, first_is_copied=False)


@algorithm("exscan", "recursive-doubling", source="MPICH", first=True)
def exclusive_doubling(group: Group) -> None:
    """Pairs at distances 1, 2, 4 exchange what their runs combine to; ceil(log2 n) rounds.

    What comes from below also goes into the result, so all but the first is combined twice.
    """
    _doubling(group, first_is_copied=True)


def _doubling(group: Group, first_is_copied: bool) -> None:
    group.cut(np.array([group.sizes]))
    empty = np.full(group.n, first_is_copied)
    for step in powers(group.n):
        who = group.places[(group.places ^ step) < group.n]
        peer = who ^ step
        below = peer < who
        combined = group.sizes * (1 + (below & ~empty[who]))
        empty[who[below]] = False
        group.exchange(
            who, peer, group.sizes, peer, group.sizes, _partial,
            add=True, also=_from_below(step), combined_bytes=combined,
        )  # fmt: skip


def _from_below(step: int) -> Carries:
    return lambda place: (1,) if place & step else ()


@algorithm("scan", "linear", source="Open MPI's basic linear")
def linear(group: Group) -> None:
    """From each rank to the next, which adds its own; n - 1 rounds."""
    group.cut(np.array([group.sizes]))
    for place in range(group.n - 1):
        group.message(place, place + 1, group.sizes, _result, add=True)


@algorithm("exscan", "linear", source="Open MPI's basic linear")
def exclusive_linear(group: Group) -> None:
    """From each rank to the next, which keeps it and hands it on with its own; n - 1 rounds."""
    group.cut(np.array([group.sizes]))
    for place in range(group.n - 1):
        # The last one has nobody to hand it on to.
        combines = place + 2 < group.n
        group.send(place, place + 1, group.sizes, _partial)
        group.receive(place + 1, place, group.sizes, add=combines, also=_result)
