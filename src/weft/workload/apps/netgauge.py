"""Netgauge's patterns: effective bisection bandwidth, one to many, many to one."""

from __future__ import annotations

import numpy as np

from weft.core.errors import NotApplicable
from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    application,
    at_least,
    barrier,
    check_messages,
    everyone,
    generator,
    numbered,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload

_DATA, _BACK = 0, 1


@application("ebb", source="Hoefler, Schneider and Lumsdaine 2008; Netgauge, ptrn_ebb.cpp")
def ebb(
    num_ranks: int,
    *,
    size: Bytes = 2**20,
    rounds: int = 10,
    repetitions: int = 1,
    seed: int = 0,
) -> Workload:
    """Effective bisection bandwidth: random pairs exchange, all pairs at once; a phase each round.

    In each round every rank gets one partner, all pairings being equally likely, and both send and
    receive at once.

    Parameters
    ----------
    num_ranks
        Ranks, an even number.
    size
        Of each message; Netgauge's documentation measures with 1 MiB.
    rounds
        Random pairings, each after a barrier.
    repetitions
        Exchanges of a pairing in a row.
    seed
        Of the pairings.
    """
    at_least(1, rounds=rounds, repetitions=repetitions)
    if num_ranks % 2:
        raise NotApplicable(f"ebb pairs all ranks, and {num_ranks} is odd")
    check_messages(num_ranks, num_ranks * rounds * repetitions)
    random = generator(seed)
    builder = WorkloadBuilder(num_ranks)
    who = everyone(builder)
    for turn in range(rounds):
        order = random.permutation(num_ranks)
        one, other = np.split(order, 2)
        partner = np.empty(num_ranks, dtype=np.int64)
        partner[one], partner[other] = other, one
        barrier(builder)
        builder.phase(numbered("round", turn, rounds))
        for _ in range(repetitions):
            builder.sendrecv(who, partner, size, partner, size)
    return builder.build()


@application("1toN", aliases=("one-to-n",), source="Netgauge, ptrn_1toN.cpp")
def one_to_n(num_ranks: int, *, size: Bytes = 2**20, repetitions: int = 1) -> Workload:
    """Rank 0 sends to all others at once, and each sends the same back.

    Parameters
    ----------
    num_ranks
        Ranks.
    size
        Of each message.
    repetitions
        How often, each followed by a barrier and in a phase of its own.
    """
    at_least(1, repetitions=repetitions)
    check_messages(num_ranks, 2 * num_ranks * repetitions)
    builder = WorkloadBuilder(num_ranks)
    clients = np.arange(1, num_ranks, dtype=np.int64)
    for turn in range(repetitions):
        builder.phase(numbered("1toN", turn, repetitions))
        builder.recv(clients, 0, size, _DATA)
        builder.send(clients, 0, size, _BACK)
        for client in clients:
            builder.isend(0, int(client), size, _DATA)
        for client in clients:
            builder.irecv(0, int(client), size, _BACK)
        builder.waitall([0])
        barrier(builder)
    return builder.build()


@application("Nto1", aliases=("n-to-one",), source="Netgauge, ptrn_Nto1.cpp")
def n_to_one(num_ranks: int, *, size: Bytes = 2**20, repetitions: int = 1) -> Workload:
    """All others send to rank 0 at once, which answers rank 1 with one byte when it has them all.

    Parameters
    ----------
    num_ranks
        Ranks.
    size
        Of each message.
    repetitions
        How often, each after a barrier and in a phase of its own.
    """
    at_least(1, repetitions=repetitions)
    check_messages(num_ranks, num_ranks * repetitions)
    builder = WorkloadBuilder(num_ranks)
    clients = np.arange(1, num_ranks, dtype=np.int64)
    for turn in range(repetitions):
        barrier(builder)
        builder.phase(numbered("Nto1", turn, repetitions))
        for client in clients:
            builder.irecv(0, int(client), size, _DATA)
        builder.waitall([0])
        builder.send(clients, 0, size, _DATA)
        builder.send(0, 1, 1, _BACK)
        builder.recv(1, 0, 1, _BACK)
    return builder.build()
