"""MPI RandomAccess of HPC Challenge: random updates of a distributed table."""

from __future__ import annotations

from typing import Literal

import numpy as np

from weft.core.errors import NotApplicable
from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import (
    all_ranks,
    application,
    at_least,
    barrier,
    check_messages,
    generator,
    in_order,
    need,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Kind, Workload

_UPDATE_BYTES = 8
_UPDATES_PER_WORD = 4
_UPDATE, _FINISHED = 0, 1
#: Largest number of updates that are drawn individually; they take 2 GB.
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
    """Update random words of a table of which each rank holds an equal part.

    A rank makes four updates of 8 bytes for each word of its own part.

    `buckets`: a rank collects up to `look_ahead` updates in one bucket per owner of the words, then
    sends the largest bucket and continues; of equally large buckets, it sends the one for the
    nearest following rank. It sends one message at a time. The benchmark posts receives from any
    source in advance; here, updates are one-sided messages. Updates that remain at the end are
    sent in the same way. Then each rank sends a final message to every other rank and waits for one
    from each of them.

    `hypercube`: a rank routes `look_ahead` updates at a time along the dimensions of a hypercube:
    in step k, rank r sends to rank r XOR 2^k the updates whose owner's rank differs from r in bit
    k.

    Parameters
    ----------
    num_ranks
        Number of ranks; a power of two for `hypercube`.
    table
        Bytes of the part of one rank, a multiple of 8. The benchmark fills half the memory, which
        needs very many similar messages; the default gives 4,096 updates per rank.
    algorithm
        `buckets`, the benchmark's own, or `hypercube`, its optimised version.
    look_ahead
        Largest number of pending updates of a rank; the benchmark allows 1,024.
    update_time
        Time to make one update, at the rank that sends it.
    seed
        Seed of the words.
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
                f"hypercube needs a power of two as the number of ranks, not {num_ranks}"
            )
        _hypercube(builder, updates, look_ahead, update_time, random)
        return builder.build()
    if num_ranks * updates > _MAX_UPDATES:
        raise NotApplicable(
            f"{num_ranks} ranks make {num_ranks * updates:,} updates; at most "
            f"{_MAX_UPDATES:,} are possible; choose a smaller table"
        )
    # A bucket that is sent holds about 2 look_ahead / ranks updates, and at least one.
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
    """Repeatedly send the largest bucket of each rank, for all ranks at once."""
    num_ranks = builder.num_ranks
    # Owner of each word, as its rank minus the sender's rank, modulo `num_ranks`; 0 is the sender.
    drawn = random.integers(0, num_ranks, (num_ranks, updates), dtype=np.int32)
    waiting = np.zeros((num_ranks, num_ranks), dtype=np.int32)
    # Updates that must be sent; updates of the sender's own words are made at once.
    sent = drawn != 0
    total = sent.sum(axis=1)
    offset = np.concatenate([[0], np.cumsum(total)])
    remote = drawn[sent]
    # Number of updates that a rank has made when its m-th remote update is drawn.
    made_at = np.flatnonzero(sent.reshape(-1)) % updates + 1
    taken = np.zeros(num_ranks, dtype=np.int64)
    done = np.zeros(num_ranks, dtype=np.int64)
    room = np.full(num_ranks, look_ahead, dtype=np.int64)
    steps = [(np.zeros(0, dtype=np.int64),) * 4]
    ranks = all_ranks(builder)
    while True:
        more = np.minimum(room, total - taken)
        owner = np.repeat(ranks, more)
        index = np.arange(len(owner)) - np.repeat(np.cumsum(more) - more, more)
        position = offset[owner] + taken[owner] + index
        np.add.at(waiting, (owner, remote[position]), 1)
        taken += more
        # A rank pauses when its buckets are full, or after all its updates.
        last = np.clip(offset[:-1] + taken - 1, 0, max(len(made_at) - 1, 0))
        now = np.where(more < room, updates, made_at[last] if len(made_at) else updates)
        ahead = waiting.argmax(axis=1)
        size = waiting[ranks, ahead].astype(np.int64)
        active = size > 0
        if not active.any():
            break
        sender = ranks[active]
        steps.append(
            (sender, (sender + ahead[active]) % num_ranks, size[active], (now - done)[active])
        )
        waiting[sender, ahead[active]] = 0
        room = np.where(active, size, 0)
        done = np.where(active, now, done)
    sender, receiver, size, fresh = (np.concatenate(column) for column in zip(*steps, strict=True))
    # The calculation before each message makes the updates since the previous message.
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
    """Send a final message from each rank to each other rank in rank order, and wait for all."""
    num_ranks = builder.num_ranks
    ranks = all_ranks(builder)
    for step in range(1, num_ranks):
        builder.irecv(ranks, (ranks - step) % num_ranks, _UPDATE_BYTES, _FINISHED)
    for index in range(num_ranks - 1):
        builder.send(ranks, np.where(index < ranks, index, index + 1), _UPDATE_BYTES, _FINISHED)
    builder.waitall(ranks)


def _hypercube(
    builder: WorkloadBuilder,
    updates: int,
    look_ahead: int,
    update_time: float,
    random: np.random.Generator,
) -> None:
    """Route updates along the hypercube.

    Words are uniform, so the bits of an owner are independent, 0 or 1 with equal probability.
    """
    ranks = all_ranks(builder)
    num_ranks = builder.num_ranks
    dimensions = num_ranks.bit_length() - 1
    check_messages(num_ranks, num_ranks * dimensions * -(-updates // look_ahead))
    for start in range(0, updates, look_ahead):
        held = np.full(num_ranks, min(look_ahead, updates - start), dtype=np.int64)
        if update_time:
            builder.calc(ranks, held * update_time)
        for bit in range(dimensions):
            partner = ranks ^ (1 << bit)
            leaves = random.binomial(held, 0.5)
            builder.sendrecv(
                ranks, partner, leaves * _UPDATE_BYTES, partner, leaves[partner] * _UPDATE_BYTES
            )
            held += leaves[partner] - leaves
