"""Programs of ranks as arrays for the levels that run them over time, and their queue pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.kernels.program import operations as program
from weft.workload import Kind, Workload

#: Most keys that are numbered by a table of all of them.
_DENSE = 2**24


class Programs(NamedTuple):
    """Programs before anything has happened; `weft.kernels.flow.engine.run` has the arrays."""

    program: tuple[NDArray[Any], ...]
    times: tuple[NDArray[Any], ...]
    heap: tuple[NDArray[Any], ...]
    timeline: tuple[NDArray[np.int32], NDArray[Any]]
    moves: tuple[NDArray[Any], ...]

    @classmethod
    def of(
        cls,
        workload: Workload,
        duration: NDArray[Any],
        release: NDArray[Any],
        route: NDArray[np.int32],
        number: NDArray[np.int64],
        copies: tuple[float, float, float],
    ) -> Programs:
        """Arrays of a workload's programs.

        Parameters
        ----------
        workload
            What the ranks do.
        duration, release
            Of each operation, in the level's unit and type of time; release may be empty.
        route
            int32 [ops], `LOCAL` within a host.
        number
            The level's counters; how many operations are ready is written there.
        copies
            Rate within hosts in Gb/s, units of time x Gb/s a byte, and 1 where they are whole.
        """
        ops = workload.num_ops
        waiting = np.subtract(
            workload.dep_offset[1:], workload.dep_offset[:-1], dtype=np.int32, casting="same_kind"
        )
        free = waiting == 0
        later = free & (release > 0) if len(release) else np.zeros(ops, dtype=bool)
        begin = np.flatnonzero(free & ~later)
        # Large arrays of zeros take memory only where they are used.
        ready = np.zeros(ops + 1, dtype=np.int32)
        ready[: len(begin)] = begin
        number[program.READY_TAIL] = len(begin)
        timeline = np.flatnonzero(later)
        if len(release):
            timeline = timeline[np.argsort(release[timeline], kind="stable")]
        processors = int(workload.cpu.max(initial=0)) + 1
        events = 2 * ops + workload.num_ranks * processors + 16
        unit = duration.dtype
        sent = workload.messages[route[workload.messages] == program.LOCAL]
        ranks = workload.num_ranks
        key = workload.rank[sent].astype(np.int64) * ranks + workload.peer[sent]
        pairs, number_of = numbered(key, ranks**2)
        pair_of = np.zeros(ops if len(sent) else 0, dtype=np.int32)
        pair_of[sent] = number_of
        return cls(
            program=(
                workload.kind, workload.rank, workload.size_bytes, duration, workload.match,
                release, workload.cpu, *workload.after, route,
            ),
            times=(
                waiting, ready,
                *(np.full(ops, -1, dtype=unit) for _ in range(4)),
                np.zeros((workload.num_ranks, processors), dtype=unit),
                np.zeros((workload.num_ranks, processors), dtype=np.int32),
                np.zeros(ops, dtype=np.int32),
                np.zeros(ops, dtype=np.int32),
            ),
            heap=(np.zeros(events, dtype=unit), np.zeros(events, dtype=np.int64)),
            timeline=(timeline.astype(np.int32), release[timeline].astype(unit)),
            moves=(
                np.zeros(ops, dtype=np.uint8), np.zeros(ops + 1, dtype=np.int32), np.array(copies),
                pair_of, np.zeros(len(pairs), dtype=unit),
            ),
        )  # fmt: skip


class QueuePairs(NamedTuple):
    """What crosses the network, and the ordered pair of ranks that each belongs to.

    Parameters
    ----------
    ops
        int32: sends and puts between hosts, and receives that answer a request, ascending.
    source, target
        int32: host numbers of who sends and who receives.
    key
        int64, ascending: the ordered pairs of ranks, source x ranks + destination.
    pair
        int32: which of them each operation belongs to.
    """

    ops: NDArray[np.int32]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    key: NDArray[np.int64]
    pair: NDArray[np.int32]


def queue_pairs(
    workload: Workload, hosts: NDArray[np.int32], eager_bytes: int, handshake: bool
) -> QueuePairs:
    """Queue pairs of a workload's messages, requests and answers between hosts.

    Parameters
    ----------
    workload
        What the ranks do.
    hosts
        int32 [ranks].
    eager_bytes, handshake
        Which messages are answered: sends of more bytes, where there are handshakes.
    """
    kind, rank, peer = workload.kind, workload.rank, workload.peer
    sends = (kind == Kind.SEND) | (kind == Kind.PUT)
    if handshake:
        answered = (kind == Kind.SEND) & (workload.size_bytes > eager_bytes)
        sends[workload.match[answered]] = True
    ops = np.flatnonzero(sends).astype(np.int32)
    ops = ops[hosts[rank[ops]] != hosts[peer[ops]]]
    ranks = workload.num_ranks
    key, pair = numbered(rank[ops].astype(np.int64) * ranks + peer[ops], ranks**2)
    source, target = hosts[rank[ops]], hosts[peer[ops]]
    return QueuePairs(ops, source, target, key, pair)


def numbered(key: NDArray[np.int64], bound: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The distinct keys, int64 ascending, and int32, the place of each key among them.

    Parameters
    ----------
    key
        int64, from 0.
    bound
        Above all keys.
    """
    if bound > _DENSE:
        distinct, inverse = np.unique(key, return_inverse=True)
        return distinct, inverse.astype(np.int32)
    number = np.full(bound, -1, dtype=np.int32)
    number[key] = 0
    distinct = np.flatnonzero(number >= 0)
    number[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, number[key]
