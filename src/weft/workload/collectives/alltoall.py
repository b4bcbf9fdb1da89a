"""Alltoall: every rank sends a block to every other. Block ``i * n + j`` is from rank i to j."""

from __future__ import annotations

import numpy as np

from weft.core.errors import InputError
from weft.workload.collectives.allgather import aligned_run
from weft.workload.collectives.blocks import Fold, is_power_of_two, powers
from weft.workload.collectives.collective_registry import Carries, Group, algorithm


def _shifted(n: int, step: int) -> Carries:
    return lambda rank: (rank * n + (rank + step) % n,)


def _flipped(n: int, step: int) -> Carries:
    return lambda rank: (rank * n + (rank ^ step),)


@algorithm("alltoall", "pairwise", source="Thakur et al. 2005, 3.6; MPICH", first=True)
@algorithm("alltoallv", "pairwise", source="as alltoall", first=True)
def pairwise(group: Group, *, shift: bool = False) -> None:
    """In round k rank r exchanges one block with rank r XOR k; n - 1 rounds.

    If n is not a power of two, rank r sends to rank r + k and receives from rank r - k instead.

    Parameters
    ----------
    shift
        Whether this holds for powers of two, too, as in Open MPI.
    """
    n, ranks, sizes = group.n, group.ranks, group.sizes
    group.expect(n * (n - 1))
    flips = is_power_of_two(n) and not shift
    for step in range(1, n):
        to = ranks ^ step if flips else (ranks + step) % n
        source = to if flips else (ranks - step) % n
        carries = (_flipped if flips else _shifted)(n, step)
        group.exchange(ranks, to, sizes[ranks, to], source, sizes[source, ranks], carries)


@algorithm("alltoall", "linear", source="Thakur et al. 2005, 3.6; MPICH's scattered")
@algorithm("alltoallv", "linear", source="MPICH's scattered")
def linear(group: Group, *, throttle: int = 32) -> None:
    """Non-blocking receives and sends, `throttle` peers at a time; alltoallv skips empty blocks.

    Parameters
    ----------
    throttle
        Number of peers at a time (MPIR_CVAR_ALLTOALL_THROTTLE); 0 for all.
    """
    n, ranks, sizes = group.n, group.ranks, group.sizes
    if throttle < 0:
        raise InputError(f"throttle is {throttle}; expected 0 or more")
    # A uniform size is a broadcast matrix (all strides 0), which is too large for counting its
    # entries.
    group.expect(n * (n - 1) if not any(sizes.strides) else int(np.count_nonzero(sizes)))
    at_once = throttle or n
    for first in range(1, n, at_once):
        steps = range(first, min(first + at_once, n))
        handles = []
        for step in steps:
            source = (ranks + step) % n
            size = sizes[source, ranks]
            where = size > 0 if group.uneven else None
            handles.append(group.begin_receive(ranks, source, size, where=where))
        for step in steps:
            to = (ranks - step) % n
            size = sizes[ranks, to]
            where = size > 0 if group.uneven else None
            carries = _shifted(n, -step)
            handles.append(group.begin_send(ranks, to, size, carries, where=where))
        group.wait(ranks, handles)


@algorithm("alltoall", "bruck", source="Bruck et al. 1997; Thakur et al. 2005, 3.6; MPICH")
def bruck(group: Group) -> None:
    """In round k blocks move by 2^k ranks if bit k of their distance is 1; ceil(log2 n) rounds."""
    n, ranks = group.n, group.ranks
    for step in powers(n):
        distances = ranks[(ranks & step) > 0]
        size = len(distances) * int(group.sizes[0, 0])
        group.exchange(
            ranks, (ranks + step) % n, size, (ranks - step) % n, size,
            _in_transit(n, step, distances.tolist()),
        )  # fmt: skip


@algorithm("alltoall", "in-place", source="MPICH; MVAPICH2")
def in_place(group: Group) -> None:
    """Each rank exchanges one block with all others, in ascending order; up to 2n - 3 rounds."""
    n, ranks, size = group.n, group.ranks, int(group.sizes[0, 0])
    group.expect(n * (n - 1))
    for peer in range(n):
        others = np.delete(ranks, peer)
        to = np.full_like(others, peer)
        group.exchange(others, to, size, to, size, lambda rank, peer=peer: (rank * n + peer,))  # type: ignore[misc]


@algorithm("alltoall", "recursive-doubling", source="MVAPICH2; MPICH before Thakur et al. 2005")
def recursive_doubling(group: Group) -> None:
    """Pairs at distances 1, 2, 4 exchange all buffers that they hold; log2 n rounds.

    If n is not a power of two, the ranks in excess of the largest power of two below n exchange
    data through a neighbour, in 2 more rounds.
    """
    n, fold, size = group.n, Fold(group.n), int(group.sizes[0, 0])
    group.message(fold.idle, fold.helper, n * size, lambda rank: range(rank * n, (rank + 1) * n))
    for step in powers(fold.count):
        peer, first = fold.place[fold.numbers ^ step], fold.numbers & -step
        held = (fold.first(first + step) - fold.first(first)) * n * size
        coming = held[fold.numbers ^ step]
        carries = _buffers(aligned_run(group, fold, step), n)
        group.exchange(fold.place, peer, held, peer, coming, carries)
    to_idle = (n - 1) * size
    group.message(
        fold.helper, fold.idle, to_idle,
        lambda rank: (start * n + rank - 1 for start in range(n) if start != rank - 1),
    )  # fmt: skip


def _buffers(ranks: Carries, n: int) -> Carries:
    """Return all blocks from the ranks that another function gives for a sender."""
    return lambda rank: (start * n + to for start in ranks(rank) for to in range(n))


def _in_transit(n: int, step: int, distances: list[int]) -> Carries:
    """Return a sender's blocks that travel `distances`, after moves for the bits below `step`."""

    def carries(rank: int) -> list[int]:
        starts = [(rank - d % step) % n for d in distances]
        return [start * n + (start + d) % n for start, d in zip(starts, distances, strict=True)]

    return carries
