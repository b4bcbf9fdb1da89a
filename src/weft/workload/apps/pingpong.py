"""Ping-pong between pairs of ranks, as in HPC Challenge."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    application,
    at_least,
    barrier,
    check_messages,
    check_sizes,
    generator,
    in_order,
    need,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Kind, Workload

_PING, _PONG, _TOKEN = 0, 1, 2


@application(
    "pingpong",
    source="HPC Challenge (Luszczek et al. 2006), bench_lat_bw, cross_ping_pong_set",
    seeded={"sample": 2},
)
def pingpong(
    num_ranks: int,
    *,
    sizes: tuple[Bytes, ...] = (8, 2_000_000),
    repetitions: int = 1,
    max_pairs: int = 10_000,
    sample: int | None = None,
    concurrent: bool = False,
    seed: int = 0,
) -> Workload:
    """A message there and back between one pair of ranks after the other; a phase for each size.

    As in the benchmark, each rank in turn is the client of all others, and hands a token of no
    bytes to the next client: no two pairs ever communicate at once. The benchmark repeats each
    measurement to take the best; repetitions of a workload are all alike.

    Parameters
    ----------
    num_ranks
        Ranks.
    sizes
        Message sizes, one after the other: the benchmark's for latency and for bandwidth.
    repetitions
        Ping-pongs of a pair in a row.
    max_pairs
        When there are more ordered pairs, only ranks that are multiples of a stride take part. The
        stride is the benchmark's for as many pairs as fit in its time.
    sample
        So many ordered pairs drawn at random instead, in random order.
    concurrent
        Without tokens: pairs that share no rank communicate at once, in the rounds of a tournament
        in which all meet all, first with the smaller and then with the larger rank as the client;
        random pairs as they come. A rank begins with its next pair when the one before is over.
    seed
        Of the sample.
    """
    check_sizes(sizes)
    at_least(1, repetitions=repetitions, max_pairs=max_pairs, sample=sample)
    random = generator(seed)
    if sample is None:
        clients, servers = _strided(num_ranks, max_pairs)
        if concurrent:
            order = _tournament(clients, servers)
            clients, servers = clients[order], servers[order]
    else:
        pairs = num_ranks * (num_ranks - 1)
        if sample > pairs:
            raise NotApplicable(f"{num_ranks} ranks are {pairs} ordered pairs, fewer than {sample}")
        clients, others = np.divmod(random.choice(pairs, sample, replace=False), num_ranks - 1)
        servers = others + (others >= clients)
    check_messages(num_ranks, len(sizes) * len(clients) * (2 * repetitions + 1))
    builder = WorkloadBuilder(num_ranks)
    for size in sizes:
        barrier(builder)
        builder.phase(f"{size} B")
        _turns(builder, clients, servers, size, repetitions, not concurrent)
    return builder.build()


def _strided(num_ranks: int, max_pairs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Clients and servers of all ordered pairs of ranks that are multiples of a stride."""
    ranks = np.arange(0, num_ranks, stride(num_ranks, max_pairs), dtype=np.int64)
    clients, servers = np.repeat(ranks, len(ranks)), np.tile(ranks, len(ranks))
    apart = clients != servers
    return clients[apart], servers[apart]


def _tournament(clients: NDArray[np.int64], servers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order of all ordered pairs in rounds of pairs that share no rank."""
    ranks, place = np.unique(np.stack([clients, servers]), return_inverse=True)
    one, other = place.reshape(2, -1)
    # Of an odd number of places those with equal sums modulo the number are disjoint; one place
    # more meets the one that is left over.
    odd = len(ranks) - (len(ranks) % 2 == 0)
    extra = np.maximum(one, other) == odd
    low = np.minimum(one, other)
    meets = np.where(extra, 2 * low, one + other) % odd
    order: NDArray[np.int64] = np.lexsort((meets, one > other))
    return order


def stride(num_ranks: int, max_pairs: int) -> int:
    """Distance of the ranks that take part: the benchmark's, 1, 3 or mostly a prime above 3."""
    need(max_pairs >= 1, f"max_pairs must be at least 1, not {max_pairs}")
    most = max(5, int(max_pairs**0.5))
    distance = max(1, int(num_ranks / most + 0.9))
    if distance == 2:
        return 3
    while distance <= num_ranks / 3 and any(distance % other == 0 for other in range(2, distance)):
        distance += 1
    return distance


def _turns(
    builder: WorkloadBuilder,
    clients: NDArray[np.int64],
    servers: NDArray[np.int64],
    size: int,
    repetitions: int,
    token: bool,
) -> None:
    """One pair after the other, each waiting for the token from the client before it."""
    before = np.roll(clients, 1)
    passes = np.zeros(len(clients), dtype=np.bool_)
    passes[1:] = token & (clients[1:] != before[1:])
    # Columns: who, with whom, send or receive, tag, bytes; the token's two operations come first.
    rounds = [
        (before, clients, Kind.SEND, _TOKEN, 0),
        (clients, before, Kind.RECV, _TOKEN, 0),
    ] + repetitions * [
        (clients, servers, Kind.SEND, _PING, size),
        (servers, clients, Kind.RECV, _PING, size),
        (servers, clients, Kind.SEND, _PONG, size),
        (clients, servers, Kind.RECV, _PONG, size),
    ]
    kept = np.ones((len(clients), len(rounds)), dtype=np.bool_)
    kept[:, :2] = passes[:, None]
    shape = kept.shape
    in_order(
        builder,
        np.stack([row[0] for row in rounds], axis=1)[kept],
        np.broadcast_to(np.array([row[2] for row in rounds], dtype=np.uint8), shape)[kept],
        peer=np.stack([row[1] for row in rounds], axis=1)[kept],
        tag=np.broadcast_to([row[3] for row in rounds], shape)[kept],
        size_bytes=np.broadcast_to([row[4] for row in rounds], shape)[kept],
    )
