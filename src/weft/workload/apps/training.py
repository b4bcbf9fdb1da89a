"""Data-parallel training: gradients are reduced in buckets while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Callable

from weft.core.units import MAX_BYTES
from weft.workload.apps.application_registry import at_least, everyone, need, numbered
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Kind

#: Gradients of ResNet-50: 25,557,032 parameters in single precision.
RESNET50_BYTES = 4 * 25_557_032
#: Sizes of buckets that PyTorch's DistributedDataParallel takes unless told otherwise.
FIRST_BUCKET_BYTES = 2**20
BUCKET_BYTES = 25 * 2**20
_MAX_BUCKETS = 2**16


def buckets(gradients: int, bucket: int, first: int) -> list[int]:
    """Bytes of the buckets, in the order in which the backward pass fills them.

    Raises
    ------
    InputError
        When a size is 0.
    """
    at_least(1, gradients=gradients, bucket=bucket, first_bucket=first)
    need(gradients <= MAX_BYTES, f"{gradients} bytes of gradients are not possible")
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
    """Iterations of a forward pass, a backward pass and the reduction of its gradients.

    Parameters
    ----------
    builder
        Whose programs grow.
    sizes
        Bytes of the buckets. Each takes its share of the backward pass.
    reduce
        Appends the reduction of so many bytes to the programs of all ranks.
    iterations
        How often.
    forward, backward
        Nanoseconds of the passes.
    overlap
        A bucket is reduced when it is full and the one before it is reduced, while the backward
        pass goes on; else all are reduced after it. Either way the next forward pass waits for all.
    """
    who = everyone(builder)
    total = sum(sizes)
    for turn in range(iterations):
        builder.phase(numbered("forward", turn, iterations))
        before = builder.calc(who, forward)
        builder.phase(numbered("backward", turn, iterations))
        full = []
        for size in sizes:
            # Outside program order: what is reduced meanwhile does not wait for what comes later.
            op = builder.operations(who, Kind.CALC, duration_ns=backward * (size / total))
            builder.requires(op, before)
            full.append(op)
            before = op
        if not overlap:
            builder.wait(who, before)
        for number, (size, op) in enumerate(zip(sizes, full, strict=True)):
            name = numbered("allreduce", turn, iterations)
            builder.phase(name if len(sizes) == 1 else f"{name}, bucket {number + 1}")
            builder.wait(who, op)
            reduce(size)
