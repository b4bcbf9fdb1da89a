"""Messages, bytes, rounds and critical paths of every algorithm against the textbook formulas."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2

import numpy as np
import pytest
from tests.reference.collectives import run_collective

from weft.workload.collectives import COLLECTIVES, collective

#: For p ranks, L = log2 p, and a buffer of m bytes or blocks of s bytes: number of rounds and of
#: messages, bytes sent in total, and bytes sent and bytes reduced on the critical path. Sources:
#: Thakur et al. 2005; Patarasuk and Yuan 2009 for rings; Bruck et al. 1997.
POWERS_OF_TWO: dict[str, Callable[[int, int, int], tuple[float, ...]]] = {
    "barrier-dissemination": lambda p, L, _: (L, p * L, 0, 0, 0),
    "barrier-tree": lambda p, L, _: (2 * L, 2 * (p - 1), 0, 0, 0),
    "barrier-linear": lambda p, L, _: (2, 2 * (p - 1), 0, 0, 0),
    "barrier-hardware": lambda p, L, _: (1, p, 0, 0, 0),
    "bcast-hardware": lambda p, L, m: (1, p - 1, (p - 1) * m, m, 0),
    "bcast-binomial": lambda p, L, m: (L, p - 1, (p - 1) * m, L * m, 0),
    "bcast-scatter-ring": lambda p, L, m: (
        L + p - 1, p - 1 + p * (p - 1), L * m / 2 + (p - 1) * m, 2 * (p - 1) / p * m, 0,
    ),
    "bcast-scatter-doubling": lambda p, L, m: (
        2 * L, p - 1 + p * L, L * m / 2 + (p - 1) * m, 2 * (p - 1) / p * m, 0,
    ),
    # For four segments.
    "bcast-chain": lambda p, L, m: (p + 2, 4 * (p - 1), (p - 1) * m, (p + 2) * m / 4, 0),
    "bcast-linear": lambda p, L, m: (1, p - 1, (p - 1) * m, m, 0),
    # Radix 4: a level for each two of a binomial tree; the messages of a rank are at once.
    "bcast-tree": lambda p, L, m: (ceil(L / 2), p - 1, (p - 1) * m, ceil(L / 2) * m, 0),
    "bcast-split-binary": lambda p, L, m: (
        max(2 * L - 1, L + 1), 2 * p - 2, (p - 1) * m, max(2 * L - 1, L + 1) * m / 2, 0,
    ),
    "reduce-binomial": lambda p, L, m: (L, p - 1, (p - 1) * m, L * m, L * m),
    "reduce-in-order-binary": lambda p, L, m: (
        L + 1, p, p * m, (L + 1) * m, max(2 * L - 2, L) * m,
    ),
    "reduce-linear": lambda p, L, m: (p - 1, p - 1, (p - 1) * m, (p - 1) * m, (p - 1) * m),
    "reduce-rabenseifner": lambda p, L, m: (
        2 * L, p * L + p - 1, (p - 1) * m + L * m / 2, 2 * (p - 1) / p * m, (p - 1) / p * m,
    ),
    "allreduce-recursive-doubling": lambda p, L, m: (L, p * L, p * L * m, L * m, L * m),
    "allreduce-rabenseifner": lambda p, L, m: (
        2 * L, 2 * p * L, 2 * (p - 1) * m, 2 * (p - 1) / p * m, (p - 1) / p * m,
    ),
    "allreduce-ring": lambda p, L, m: (
        2 * (p - 1), 2 * p * (p - 1), 2 * (p - 1) * m, 2 * (p - 1) / p * m, (p - 1) / p * m,
    ),
    "allreduce-reduce-bcast": lambda p, L, m: (
        2 * L, 2 * (p - 1), 2 * (p - 1) * m, 2 * L * m, L * m,
    ),
    "allreduce-two-level": lambda p, L, m: (L, p * L, p * L * m, L * m, L * m),
    "scan-recursive-doubling": lambda p, L, m: (L, p * L, p * L * m, L * m, 2 * L * m),
    "scan-linear": lambda p, L, m: (p - 1, p - 1, (p - 1) * m, (p - 1) * m, (p - 1) * m),
    "exscan-recursive-doubling": lambda p, L, m: (L, p * L, p * L * m, L * m, (2 * L - 1) * m),
    "exscan-linear": lambda p, L, m: (p - 1, p - 1, (p - 1) * m, (p - 1) * m, (p - 2) * m),
    "allgather-ring": lambda p, L, s: (p - 1, p * (p - 1), p * (p - 1) * s, (p - 1) * s, 0),
    "allgather-bruck": lambda p, L, s: (L, p * L, p * (p - 1) * s, (p - 1) * s, 0),
    "allgather-neighbor-exchange": lambda p, L, s: (
        p / 2, p * p / 2, p * (p - 1) * s, (p - 1) * s, 0,
    ),
    "gather-binomial": lambda p, L, s: (L, p - 1, L * p * s / 2, (p - 1) * s, 0),
    # The count ignores that all messages share the root's link.
    "gather-linear": lambda p, L, s: (1, p - 1, (p - 1) * s, s, 0),
    "reduce-scatter-ring": lambda p, L, s: (
        p - 1, p * (p - 1), p * (p - 1) * s, (p - 1) * s, (p - 1) * s,
    ),
    "reduce-scatter-recursive-halving": lambda p, L, s: (
        L, p * L, p * (p - 1) * s, (p - 1) * s, (p - 1) * s,
    ),
    # All ranks but those whose number reads the same from both ends have another block at the end.
    "reduce-scatter-butterfly": lambda p, L, s: (
        L + (p > 2), p * L + p - 2 ** ceil(L / 2), (p * p - 2 ** ceil(L / 2)) * s,
        (p - 1 + (p > 2)) * s, (p - 1) * s,
    ),
    "reduce-scatter-reduce-scatter": lambda p, L, s: (
        L + 1, 2 * (p - 1), (p - 1) * (p + 1) * s, (L * p + 1) * s, L * p * s,
    ),
    "alltoall-pairwise": lambda p, L, s: (p - 1, p * (p - 1), p * (p - 1) * s, (p - 1) * s, 0),
    "alltoall-in-place": lambda p, L, s: (
        2 * p - 3, p * (p - 1), p * (p - 1) * s, (2 * p - 3) * s, 0,
    ),
    "alltoall-recursive-doubling": lambda p, L, s: (
        L, p * L, p * p * (p - 1) * s, p * (p - 1) * s, 0,
    ),
    "alltoall-linear": lambda p, L, s: (1, p * (p - 1), p * (p - 1) * s, s, 0),
    "alltoall-bruck": lambda p, L, s: (L, p * L, p * L * p * s / 2, L * p * s / 2, 0),
}  # fmt: skip
POWERS_OF_TWO |= {
    "bcast-two-level": POWERS_OF_TWO["bcast-tree"],
    "reduce-tree": POWERS_OF_TWO["reduce-linear"],
    "allgather-recursive-doubling": POWERS_OF_TWO["allgather-bruck"],
    "allgatherv-recursive-doubling": POWERS_OF_TWO["allgather-bruck"],
    "allgatherv-bruck": POWERS_OF_TWO["allgather-bruck"],
    "allgatherv-ring": POWERS_OF_TWO["allgather-ring"],
    "gatherv-binomial": POWERS_OF_TWO["gather-binomial"],
    "scatter-binomial": POWERS_OF_TWO["gather-binomial"],
    "scatterv-binomial": POWERS_OF_TWO["gather-binomial"],
    "gatherv-linear": POWERS_OF_TWO["gather-linear"],
    "scatter-linear": POWERS_OF_TWO["gather-linear"],
    "scatterv-linear": POWERS_OF_TWO["gather-linear"],
    "reduce-scatter-pairwise": POWERS_OF_TWO["reduce-scatter-ring"],
    "alltoallv-pairwise": POWERS_OF_TWO["alltoall-pairwise"],
    "alltoallv-linear": POWERS_OF_TWO["alltoall-linear"],
}

#: For any number p of ranks: number of rounds and of messages; C = ceil(log2 p), and q is the
#: largest power of two up to p.
ANY: dict[str, Callable[[int, int, int], tuple[int, int]]] = {
    "barrier-dissemination": lambda p, C, q: (C, p * C),
    "bcast-binomial": lambda p, C, q: (C, p - 1),
    "bcast-scatter-ring": lambda p, C, q: (C + p - 1, p - 1 + p * (p - 1)),
    "reduce-binomial": lambda p, C, q: (C, p - 1),
    "reduce-rabenseifner": lambda p, C, q: (
        1 + 2 * (C - 1), p - q + q * (C - 1) + q - 1,
    ),
    "allreduce-recursive-doubling": lambda p, C, q: (2 + C - 1, 2 * (p - q) + q * (C - 1)),
    "allreduce-rabenseifner": lambda p, C, q: (
        2 + 2 * (C - 1), 2 * (p - q) + 2 * q * (C - 1),
    ),
    "allreduce-ring": lambda p, C, q: (2 * (p - 1), 2 * p * (p - 1)),
    "allgather-bruck": lambda p, C, q: (C, p * C),
    "allgather-recursive-doubling": lambda p, C, q: (2 + C - 1, 2 * (p - q) + q * (C - 1)),
    "gather-binomial": lambda p, C, q: (C, p - 1),
    "reduce-scatter-recursive-halving": lambda p, C, q: (
        2 + C - 1, 2 * (p - q) + q * (C - 1),
    ),
    "alltoall-pairwise": lambda p, C, q: (p - 1, p * (p - 1)),
    "alltoall-bruck": lambda p, C, q: (C, p * C),
}  # fmt: skip


def cost(entry: str, p: int, size: int) -> tuple[float, ...]:
    facts = collective[entry].facts
    kind = COLLECTIVES[facts["collective"]]
    arguments = (kind.name, facts["algorithm"], np.arange(p), size)
    options = {"segment": size // 4} if entry == "bcast-chain" else {}
    workload, _, rounds = run_collective(*arguments, **options)
    *_, by_bytes = run_collective(*arguments, **options, message=float)
    *_, combined = run_collective(
        *arguments, **options, reduce_ns_per_byte=float(kind.combines), message=lambda _: 0.0,
        calculation=float,
    )  # fmt: skip
    return (
        rounds.ends.max(),
        len(workload.messages),
        workload.size_bytes[workload.messages].sum(),
        by_bytes.ends.max(),
        combined.ends.max(),
    )


@pytest.mark.sampled(20)
@pytest.mark.parametrize("entry", POWERS_OF_TWO)
@pytest.mark.parametrize("p", [2, 8])
def test_costs_for_powers_of_two(entry: str, p: int) -> None:
    size = 0 if entry.startswith("barrier") else 480 * p
    assert cost(entry, p, size) == POWERS_OF_TWO[entry](p, int(log2(p)), size)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("entry", ANY)
@pytest.mark.parametrize("p", [3, 7, 12])
def test_rounds_and_messages_for_other_numbers(entry: str, p: int) -> None:
    size = 0 if entry.startswith("barrier") else 480 * p
    power = 1 << (p.bit_length() - 1)
    assert cost(entry, p, size)[:2] == ANY[entry](p, ceil(log2(p)), power)


def test_every_built_in_algorithm_has_a_formula() -> None:
    built_in = {entry.name for entry in collective if entry.function.__module__.startswith("weft.")}
    assert built_in == set(POWERS_OF_TWO)


@pytest.mark.parametrize(
    ("n", "throttle", "rounds"), [(9, 0, 1), (9, 3, 3), (9, 4, 2), (9, 8, 1), (9, 100, 1)]
)
def test_throttle_bounds_the_number_of_simultaneous_peers(
    n: int, throttle: int, rounds: int
) -> None:
    _, _, run = run_collective("alltoall", "linear", np.arange(n), 5, throttle=throttle)
    assert run.ends.max() == rounds


@pytest.mark.parametrize("size", [1, 9, 10, 11, 65])
def test_segments_of_a_chain(size: int) -> None:
    workload, trace, _ = run_collective("bcast", "chain", np.arange(4), size, root=2, segment=10)
    assert trace.cuts.tolist() == [10] * ((size - 1) // 10) + [(size - 1) % 10 + 1]
    assert len(workload.messages) == 3 * len(trace.cuts)
