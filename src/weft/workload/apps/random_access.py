"""MPI RandomAccess of HPC Challenge: random updates of a table that all ranks share."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import (
    application,
    at_least,
    barrier,
    check_messages,
    everyone,
    generator,
    in_order,
    need,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Kind, Workload

_UPDATE_BYTES = 8
_UPDATES_PER_WORD = 4
_UPDATE, _FINISHED = 0, 1
#: Most updates that are drawn one by one: 2 GB.
_MAX_UPDATES = 2**28


@application(
    "random-access",
    source="HPC Challenge, MPIRandomAccess.c; hypercube: MPIRandomAccess_opt.c (Plimpton et al. "
    "2006)",
)
def random_access(
    num_ranks: int,
    *,
    table: Bytes = 8192,
    algorithm: Literal["buckets", "hypercube"] = "buckets",
    look_ahead: int = 1024,
    update_time: Nanoseconds = 0.0,
    seed: int = 0,
) -> Workload:
    """Every rank updates random words of a table of which each rank holds an equal part.

    A rank makes four updates for each word of its own part, of 8 bytes each.

    `buckets`: it collects up to `look_ahead` updates by the rank that holds their word, then sends
    the largest collection (the nearest following rank's of equal ones) and goes on. One message at
    a time is under way; receives are posted before, for whoever sends, so that updates are
    one-sided. What is left at the end is sent in the same way. Then each rank tells all others that
    it has finished, and waits for all of them.

    `hypercube`: `look_ahead` updates at a time go to their ranks along the dimensions of a
    hypercube: in step k a rank hands those whose bit k differs from its own to the rank that
    differs in bit k only.

    Parameters
    ----------
    num_ranks
        Ranks; for `hypercube` a power of two.
    table
        Bytes of the part of one rank, a multiple of 8. The benchmark fills half the memory, which
        takes very many messages that are all alike; the default makes 4,096 updates of each rank.
    algorithm
        `buckets`, the benchmark's own, or `hypercube`, its optimised version.
    look_ahead
        Updates that wait at a rank; the benchmark allows 1,024.
    update_time
        Time to make one update, at the rank that sends it.
    seed
        Of the words.
    """
    at_least(1, look_ahead=look_ahead)
    need(table > 0 and table % _UPDATE_BYTES == 0, f"table must be a multiple of 8, not {table}")
    updates = _UPDATES_PER_WORD * (table // _UPDATE_BYTES)
    look_ahead = min(look_ahead, updates)
    builder = WorkloadBuilder(num_ranks)
    random = generator(seed)
    barrier(builder)
    builder.phase("updates")
    if algorithm == "hypercube":
        if num_ranks & (num_ranks - 1):
            raise NotApplicable(
                f"a hypercube of ranks needs a power of two of them, not {num_ranks}"
            )
        _hypercube(builder, updates, look_ahead, update_time, random)
        return builder.build()
    if num_ranks * updates > _MAX_UPDATES:
        raise NotApplicable(
            f"{num_ranks} ranks make {num_ranks * updates:,} updates, and at most "
            f"{_MAX_UPDATES:,} are drawn; a smaller table gives fewer"
        )
    # A collection that leaves holds about 2 look_ahead / ranks updates, and at least one.
    sent = num_ranks * updates * min(1.0, num_ranks / (2 * look_ahead))
    check_messages(num_ranks, sent + num_ranks * (num_ranks - 1))
    _buckets(builder, updates, look_ahead, update_time, random)
    builder.phase("finish")
    _finish(builder)
    return builder.build()


def _buckets(
    builder: WorkloadBuilder,
    updates: int,
    look_ahead: int,
    update_time: float,
    random: np.random.Generator,
) -> None:
    """The largest collection of each rank again and again, all ranks at once."""
    ranks = builder.num_ranks
    # Counted by how far the owner stands behind the sender, 0 being the sender itself.
    drawn = random.integers(0, ranks, (ranks, updates), dtype=np.int32)
    waiting = np.zeros((ranks, ranks), dtype=np.int32)
    # Position of the m-th update of each rank that has to be sent; own words are updated at once.
    sent = drawn != 0
    total = sent.sum(axis=1)
    offset = np.concatenate([[0], np.cumsum(total)])
    remote = drawn[sent]
    # Updates that a rank has made when its m-th for others comes.
    made = np.flatnonzero(sent.reshape(-1)) % updates + 1
    taken = np.zeros(ranks, dtype=np.int64)
    done = np.zeros(ranks, dtype=np.int64)
    room = np.full(ranks, look_ahead, dtype=np.int64)
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]
    steps = []
    who = everyone(builder)
    while True:
        more = np.minimum(room, total - taken)
        owner = np.repeat(who, more)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(more) - more, more)
        picked = offset[owner] + taken[owner] + place
        np.add.at(waiting, (owner, remote[picked]), 1)
        taken += more
        # A rank stops when it has no more room, else when it has made all its updates.
        last = np.clip(offset[:-1] + taken - 1, 0, max(len(made) - 1, 0))
        now = np.where(more < room, updates, made[last] if len(made) else updates)
        far = waiting.argmax(axis=1)
        size = waiting[who, far].astype(np.int64)
        active = size > 0
        if not active.any():
            break
        sender = who[active]
        steps.append((sender, (sender + far[active]) % ranks, size[active], (now - done)[active]))
        waiting[sender, far[active]] = 0
        room = np.where(active, size, 0)
        done = np.where(active, now, done)
    sender, receiver, size, fresh = (
        np.concatenate([step[column] for step in steps]) if steps else np.zeros(0, dtype=np.int64)
        for column in range(4)
    )
    # Before each message the time to make the updates since the last one.
    both = np.repeat(sender, 2)
    is_put = np.arange(len(both)) % 2 == 1
    in_order(
        builder,
        both,
        np.where(is_put, Kind.PUT, Kind.CALC).astype(np.uint8),
        peer=np.repeat(receiver, 2),
        size_bytes=np.repeat(size * _UPDATE_BYTES, 2),
        tag=_UPDATE,
        duration_ns=np.repeat(fresh * update_time, 2),
    )


def _finish(builder: WorkloadBuilder) -> None:
    """Each rank tells all others, in the order of ranks, and waits for all of them."""
    ranks = builder.num_ranks
    who = everyone(builder)
    for step in range(1, ranks):
        builder.irecv(who, (who - step) % ranks, _UPDATE_BYTES, _FINISHED)
    for turn in range(ranks - 1):
        builder.send(who, np.where(turn < who, turn, turn + 1), _UPDATE_BYTES, _FINISHED)
    builder.waitall(who)


def _hypercube(
    builder: WorkloadBuilder,
    updates: int,
    look_ahead: int,
    update_time: float,
    random: np.random.Generator,
) -> None:
    """Words are drawn uniformly, so each bit of an owner is 0 or 1 independently of the others."""
    who = everyone(builder)
    ranks = builder.num_ranks
    dimensions = ranks.bit_length() - 1
    check_messages(ranks, ranks * dimensions * -(-updates // look_ahead))
    for start in range(0, updates, look_ahead):
        held = np.full(ranks, min(look_ahead, updates - start), dtype=np.int64)
        if update_time:
            builder.calc(who, held * update_time)
        for bit in range(dimensions):
            partner = who ^ (1 << bit)
            leaves = random.binomial(held, 0.5)
            builder.sendrecv(
                who, partner, leaves * _UPDATE_BYTES, partner, leaves[partner] * _UPDATE_BYTES
            )
            held += leaves[partner] - leaves
