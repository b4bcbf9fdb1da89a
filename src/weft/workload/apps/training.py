"""Data-parallel training: gradients are reduced in buckets during the backward pass."""

from __future__ import annotations

from collections.abc import Callable

from weft.core.units import MAX_BYTES
from weft.workload.apps.application_registry import all_ranks, at_least, need, numbered
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Kind

#: Gradients of ResNet-50: 25,557,032 parameters in single precision.
RESNET50_BYTES = 4 * 25_557_032
#: Default bucket sizes of PyTorch's DistributedDataParallel.
FIRST_BUCKET_BYTES = 2**20
BUCKET_BYTES = 25 * 2**20
_MAX_BUCKETS = 2**16


def buckets(gradients: int, bucket: int, first: int) -> list[int]:
    """Return the bytes of each bucket, in the order in which the backward pass fills them."""
    at_least(1, gradients=gradients, bucket=bucket, first_bucket=first)
    need(gradients <= MAX_BYTES, f"gradients must be at most 2^56 bytes, not {gradients}")
    count = 1 + max(0, gradients - first) // bucket
    need(count <= _MAX_BUCKETS, f"{count:,} buckets; at most {_MAX_BUCKETS:,} are possible")
    sizes = [min(first, gradients)]
    rest = gradients - sizes[0]
    full, last = divmod(rest, bucket)
    return sizes + [bucket] * full + ([last] if last else [])


def train(
    builder: WorkloadBuilder,
    sizes: list[int],
    reduce: Callable[[int], None],
    *,
    iterations: int,
    forward: float,
    backward: float,
    overlap: bool,
) -> None:
    """Add iterations of a forward pass, a backward pass and the reduction of its gradients.

    `sizes`: bytes of the buckets; each takes a proportional share of the backward pass. `reduce`:
    function that appends the reduction of a number of bytes to the programs of all ranks.
    `forward`, `backward`: time of the forward and of the backward pass in nanoseconds. `overlap`:
    reduce a bucket during the backward pass, when it is full and the previous one is reduced; else
    reduce all buckets after the pass. The next forward pass always waits for all reductions.
    """
    ranks = all_ranks(builder)
    total = sum(sizes)
    for iteration in range(iterations):
        builder.phase(numbered("forward", iteration, iterations))
        before = builder.calc(ranks, forward)
        builder.phase(numbered("backward", iteration, iterations))
        filled = []
        for size in sizes:
            # This calculation is outside program order, so that reductions do not wait for later
            # calculations.
            op = builder.operations(ranks, Kind.CALC, duration_ns=backward * (size / total))
            builder.requires(op, before)
            filled.append(op)
            before = op
        if not overlap:
            builder.wait(ranks, before)
        for number, (size, op) in enumerate(zip(sizes, filled, strict=True)):
            name = numbered("allreduce", iteration, iterations)
            builder.phase(name if len(sizes) == 1 else f"{name}, bucket {number + 1}")
            builder.wait(ranks, op)
            reduce(size)
