"""The rings of b_eff and HPC Challenge: every rank sends to its left and right neighbours."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    all_ranks,
    application,
    at_least,
    barrier,
    check_messages,
    check_sizes,
    generator,
    numbered,
    per_size,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload

SOURCE = "b_eff (Rabenseifner and Koniges 2001); HPC Challenge, bench_lat_bw, ring_lat_bw_loop"
Method = Literal["nonblocking", "sendrecv"]
_RIGHT, _LEFT = 0, 1


@application("natural-ring", source=SOURCE)
def natural_ring(
    num_ranks: int,
    *,
    sizes: tuple[Bytes, ...] = (8, 2_000_000),
    repetitions: int = 1,
    method: Method = "nonblocking",
) -> Workload:
    """Send in both directions around the ring of ranks in rank order; one phase per size.

    Parameters
    ----------
    num_ranks
        Number of ranks; if there are two, each is both the left and the right neighbour of the
        other rank.
    sizes
        Message sizes in bytes; the defaults are the benchmark's for latency and for bandwidth.
    repetitions
        Consecutive exchanges. The benchmark repeats its measurement and takes the best; here all
        exchanges are identical.
    method
        `nonblocking`: both receives and both sends at once. `sendrecv`: first to the right, then
        to the left. The benchmark runs both methods and takes the faster one.
    """
    check_sizes(sizes)
    at_least(1, repetitions=repetitions)
    check_messages(num_ranks, 2 * num_ranks * repetitions * len(sizes))
    builder = WorkloadBuilder(num_ranks)
    for size in sizes:
        barrier(builder)
        builder.phase(f"{size} B")
        for _ in range(repetitions):
            _around(builder, all_ranks(builder), size, method)
    return builder.build()


@application("random-ring", source=SOURCE, small={"rings": (2,)})
def random_ring(
    num_ranks: int,
    *,
    sizes: tuple[Bytes, ...] = (8, 2_000_000),
    rings: tuple[int, ...] = (30, 10),
    repetitions: int = 1,
    method: Method = "nonblocking",
    seed: int = 0,
) -> Workload:
    """Send in both directions around rings of ranks in random orders; one phase per ring and size.

    Parameters
    ----------
    sizes
        Message sizes in bytes; the defaults are the benchmark's for latency and for bandwidth.
    rings
        Number of random orders, as one number for all sizes or one number per size; the defaults
        are the benchmark's.
    repetitions, method
        As in natural-ring.
    seed
        Seed of the orders; all sizes use the same sequence of orders.
    """
    check_sizes(sizes)
    at_least(1, repetitions=repetitions)
    counts = per_size(rings, sizes, "rings")
    check_messages(num_ranks, 2 * num_ranks * repetitions * sum(counts))
    builder = WorkloadBuilder(num_ranks)
    for size, count in zip(sizes, counts, strict=True):
        random = generator(seed)
        for ring in range(count):
            order = random.permutation(num_ranks)
            barrier(builder)
            builder.phase(f"{size} B, {numbered('ring', ring, count)}")
            for _ in range(repetitions):
                _around(builder, order, size, method)
    return builder.build()


def _around(builder: WorkloadBuilder, order: NDArray[np.int64], size: int, method: Method) -> None:
    right, left = np.roll(order, -1), np.roll(order, 1)
    if method == "sendrecv":
        builder.sendrecv(order, right, size, left, size, _RIGHT)
        builder.sendrecv(order, left, size, right, size, _LEFT)
        return
    builder.irecv(order, left, size, _RIGHT)
    builder.irecv(order, right, size, _LEFT)
    builder.isend(order, right, size, _RIGHT)
    builder.isend(order, left, size, _LEFT)
    builder.waitall(order)
