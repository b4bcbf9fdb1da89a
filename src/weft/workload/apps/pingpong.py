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
    draws=lambda options: options["sample"] is not None,
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
    """Send a message back and forth between one pair of ranks at a time; one phase per size.

    As in the benchmark, one rank after the other is the client of all other ranks and then passes
    a token of 0 bytes to the next client, so that only one pair communicates at any time. The
    benchmark repeats each measurement and takes the best; the repetitions of this workload are
    identical.

    Parameters
    ----------
    sizes
        Message sizes in bytes; the defaults are the benchmark's for latency and for bandwidth.
    repetitions
        Consecutive ping-pongs per pair.
    max_pairs
        Largest number of ordered pairs; if there are more, only ranks that are multiples of a
        stride take part. The stride is the one that the benchmark selects if it has time for
        `max_pairs` pairs.
    sample
        Number of ordered pairs to draw at random; the drawn pairs communicate in random order. If
        left out, all pairs communicate.
    concurrent
        Omit the tokens, so that disjoint pairs communicate at once. Pairs are in the order of a
        round-robin tournament, first with the smaller and then with the larger rank as the client;
        with `sample`, in random order. A rank begins its next pair when its previous pair is
        finished.
    seed
        Seed of the sample.
    """
    check_sizes(sizes)
    at_least(1, repetitions=repetitions, max_pairs=max_pairs, sample=sample)
    random = generator(seed)
    if sample is None:
        clients, servers = _strided(num_ranks, max_pairs)
        if concurrent:
            order = _tournament_order(clients, servers)
            clients, servers = clients[order], servers[order]
    else:
        pairs = num_ranks * (num_ranks - 1)
        if sample > pairs:
            raise NotApplicable(f"{num_ranks} ranks have {pairs} ordered pairs, not {sample}")
        clients, others = np.divmod(random.choice(pairs, sample, replace=False), num_ranks - 1)
        servers = others + (others >= clients)
    check_messages(num_ranks, len(sizes) * len(clients) * (2 * repetitions + 1))
    builder = WorkloadBuilder(num_ranks)
    for size in sizes:
        barrier(builder)
        builder.phase(f"{size} B")
        _sequential(builder, clients, servers, size, repetitions, not concurrent)
    return builder.build()


def _strided(num_ranks: int, max_pairs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return clients and servers of all ordered pairs of ranks that are multiples of a stride."""
    ranks = np.arange(0, num_ranks, stride(num_ranks, max_pairs), dtype=np.int64)
    clients, servers = np.repeat(ranks, len(ranks)), np.tile(ranks, len(ranks))
    apart = clients != servers
    return clients[apart], servers[apart]


def _tournament_order(clients: NDArray[np.int64], servers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an order of all ordered pairs in rounds of disjoint pairs."""
    ranks, index = np.unique(np.stack([clients, servers]), return_inverse=True)
    one, other = index.reshape(2, -1)
    # For an odd n, pairs of indices below n with the same sum modulo n are disjoint and leave out
    # one index. If the number of ranks is even, index n is paired with the index that is left out.
    odd = len(ranks) - (len(ranks) % 2 == 0)
    extra = np.maximum(one, other) == odd
    low = np.minimum(one, other)
    round_of_pair = np.where(extra, 2 * low, one + other) % odd
    order: NDArray[np.int64] = np.lexsort((round_of_pair, one > other))
    return order


def stride(num_ranks: int, max_pairs: int) -> int:
    """Return the benchmark's distance between ranks: 1, 3 or a larger number, usually a prime."""
    need(max_pairs >= 1, f"max_pairs must be at least 1, not {max_pairs}")
    most = max(5, int(max_pairs**0.5))
    distance = max(1, int(num_ranks / most + 0.9))
    if distance == 2:
        return 3
    while distance <= num_ranks / 3 and any(distance % other == 0 for other in range(2, distance)):
        distance += 1
    return distance


def _sequential(
    builder: WorkloadBuilder,
    clients: NDArray[np.int64],
    servers: NDArray[np.int64],
    size: int,
    repetitions: int,
    token: bool,
) -> None:
    """Add one pair after the other; if `token`, a client waits for the previous client's token."""
    before = np.roll(clients, 1)
    passes = np.zeros(len(clients), dtype=np.bool_)
    passes[1:] = token & (clients[1:] != before[1:])
    # Columns: rank, peer, kind, tag, bytes. The first two operations transfer the token.
    steps = [
        (before, clients, Kind.SEND, _TOKEN, 0),
        (clients, before, Kind.RECV, _TOKEN, 0),
    ] + repetitions * [
        (clients, servers, Kind.SEND, _PING, size),
        (servers, clients, Kind.RECV, _PING, size),
        (servers, clients, Kind.SEND, _PONG, size),
        (clients, servers, Kind.RECV, _PONG, size),
    ]
    kept = np.ones((len(clients), len(steps)), dtype=np.bool_)
    kept[:, :2] = passes[:, None]
    shape = kept.shape
    in_order(
        builder,
        np.stack([step[0] for step in steps], axis=1)[kept],
        np.broadcast_to(np.array([step[2] for step in steps], dtype=np.uint8), shape)[kept],
        peer=np.stack([step[1] for step in steps], axis=1)[kept],
        tag=np.broadcast_to([step[3] for step in steps], shape)[kept],
        size_bytes=np.broadcast_to([step[4] for step in steps], shape)[kept],
    )
