"""Netgauge's patterns: effective bisection bandwidth, one to many, many to one."""

from __future__ import annotations

import numpy as np

from weft.core.errors import NotApplicable
from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    all_ranks,
    application,
    at_least,
    barrier,
    check_messages,
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
    """Exchange messages between random pairs (effective bisection bandwidth); one phase per round.

    In each round every rank gets one partner, all perfect matchings being equally likely, and all
    ranks send and receive at once.

    Parameters
    ----------
    num_ranks
        Number of ranks, even.
    size
        Size of each message in bytes; Netgauge's documentation measures with 1 MiB.
    rounds
        Number of random matchings, each after a barrier.
    repetitions
        Consecutive exchanges per matching.
    seed
        Seed of the matchings.
    """
    at_least(1, rounds=rounds, repetitions=repetitions)
    if num_ranks % 2:
        raise NotApplicable(f"ebb needs an even number of ranks, not {num_ranks}")
    check_messages(num_ranks, num_ranks * rounds * repetitions)
    random = generator(seed)
    builder = WorkloadBuilder(num_ranks)
    ranks = all_ranks(builder)
    for index in range(rounds):
        order = random.permutation(num_ranks)
        one, other = np.split(order, 2)
        partner = np.empty(num_ranks, dtype=np.int64)
        partner[one], partner[other] = other, one
        barrier(builder)
        builder.phase(numbered("round", index, rounds))
        for _ in range(repetitions):
            builder.sendrecv(ranks, partner, size, partner, size)
    return builder.build()


@application("1toN", aliases=("one-to-n",), source="Netgauge, ptrn_1toN.cpp")
def one_to_n(num_ranks: int, *, size: Bytes = 2**20, repetitions: int = 1) -> Workload:
    """Send from rank 0 to all other ranks at once; each of them sends the same size back.

    Parameters
    ----------
    size
        Size of each message in bytes.
    repetitions
        Number of repetitions, each a phase followed by a barrier.
    """
    at_least(1, repetitions=repetitions)
    check_messages(num_ranks, 2 * num_ranks * repetitions)
    builder = WorkloadBuilder(num_ranks)
    clients = np.arange(1, num_ranks, dtype=np.int64)
    for index in range(repetitions):
        builder.phase(numbered("1toN", index, repetitions))
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
    """Send from all other ranks to rank 0 at once; rank 0 then answers rank 1 with one byte.

    Parameters
    ----------
    size
        Size of each message in bytes.
    repetitions
        Number of repetitions, each a phase after a barrier.
    """
    at_least(1, repetitions=repetitions)
    check_messages(num_ranks, num_ranks * repetitions)
    builder = WorkloadBuilder(num_ranks)
    clients = np.arange(1, num_ranks, dtype=np.int64)
    for index in range(repetitions):
        barrier(builder)
        builder.phase(numbered("Nto1", index, repetitions))
        for client in clients:
            builder.irecv(0, int(client), size, _DATA)
        builder.waitall([0])
        builder.send(clients, 0, size, _DATA)
        builder.send(0, 1, 1, _BACK)
        builder.recv(1, 0, 1, _BACK)
    return builder.build()
