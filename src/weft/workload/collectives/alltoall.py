"""Alltoall: every rank has a block for every other. Block ``i * n + j`` goes from i to j."""

from __future__ import annotations

import numpy as np

from weft.core.errors import InputError
from weft.workload.collectives.blocks import is_power_of_two, powers
from weft.workload.collectives.collective_registry import Carries, Group, algorithm


def _shifted(n: int, step: int) -> Carries:
    return lambda place: (place * n + (place + step) % n,)


def _flipped(n: int, step: int) -> Carries:
    return lambda place: (place * n + (place ^ step),)


@algorithm("alltoall", "pairwise", source="Thakur et al. 2005, 3.6; MPICH", first=True)
@algorithm("alltoallv", "pairwise", source="as alltoall", first=True)
def pairwise(group: Group) -> None:
    """N - 1 rounds of one block: in round k with rank XOR k, or to rank + k and from rank - k.

    The first where n is a power of two.
    """
    n, places, sizes = group.n, group.places, group.sizes
    group.expect(n * (n - 1))
    flips = is_power_of_two(n)
    for step in range(1, n):
        to = places ^ step if flips else (places + step) % n
        source = to if flips else (places - step) % n
        carries = (_flipped if flips else _shifted)(n, step)
        group.exchange(places, to, sizes[places, to], source, sizes[source, places], carries)


@algorithm("alltoall", "linear", source="Thakur et al. 2005, 3.6; MPICH's scattered")
@algorithm("alltoallv", "linear", source="MPICH's scattered")
def linear(group: Group, *, throttle: int = 32) -> None:
    """Receives and sends all begun at once, some peers at a time; alltoallv skips empty blocks.

    Parameters
    ----------
    throttle
        Peers at a time (MPIR_CVAR_ALLTOALL_THROTTLE); 0 for all.
    """
    n, places, sizes = group.n, group.places, group.sizes
    if throttle < 0:
        raise InputError(f"throttle is {throttle}; expected 0 or more")
    # One size for all is a matrix of which only one number exists.
    group.expect(n * (n - 1) if not any(sizes.strides) else int(np.count_nonzero(sizes)))
    at_once = throttle or n
    for first in range(1, n, at_once):
        steps = range(first, min(first + at_once, n))
        handles = []
        for step in steps:
            source = (places + step) % n
            size = sizes[source, places]
            where = size > 0 if group.uneven else None
            handles.append(group.begin_receive(places, source, size, where=where))
        for step in steps:
            to = (places - step) % n
            size = sizes[places, to]
            where = size > 0 if group.uneven else None
            carries = _shifted(n, -step)
            handles.append(group.begin_send(places, to, size, carries, where=where))
        group.wait(places, handles)


@algorithm("alltoall", "bruck", source="Bruck et al. 1997; Thakur et al. 2005, 3.6; MPICH")
def bruck(group: Group) -> None:
    """In round k a block goes 2^k places on if bit k of its way is 1; ceil(log2 n) rounds."""
    n, places = group.n, group.places
    for step in powers(n):
        moves = places[(places & step) > 0]
        size = len(moves) * int(group.sizes[0, 0])
        group.exchange(
            places, (places + step) % n, size, (places - step) % n, size,
            _on_the_way(n, step, moves.tolist()),
        )  # fmt: skip


def _on_the_way(n: int, step: int, moves: list[int]) -> Carries:
    """Blocks at a place that have come as far as the lower bits of their way say."""

    def carries(place: int) -> list[int]:
        starts = [(place - way % step) % n for way in moves]
        return [start * n + (start + way) % n for start, way in zip(starts, moves, strict=True)]

    return carries
