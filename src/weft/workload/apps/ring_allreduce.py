"""Data-parallel training with rings."""

from __future__ import annotations

from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import application, at_least, check_messages, everyone
from weft.workload.apps.training import (
    BUCKET_BYTES,
    FIRST_BUCKET_BYTES,
    RESNET50_BYTES,
    buckets,
    train,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.workload import Workload


@application(
    "ring-allreduce",
    source="Patarasuk and Yuan 2009; PyTorch DistributedDataParallel (Li et al. 2020)",
)
def ring_allreduce(
    num_ranks: int,
    *,
    gradients: Bytes = RESNET50_BYTES,
    bucket: Bytes = BUCKET_BYTES,
    first_bucket: Bytes = FIRST_BUCKET_BYTES,
    iterations: int = 1,
    forward: Nanoseconds = 0.0,
    backward: Nanoseconds = 0.0,
    overlap: bool = True,
) -> Workload:
    """Data-parallel training whose gradients all ranks add up along a ring.

    Each bucket of n ranks takes 2 (n - 1) steps, in each of which every rank sends an n-th of the
    bucket to the next: first to add up, then to hand out. Buckets come one after the other, as soon
    as the backward pass has filled them.

    Parameters
    ----------
    num_ranks
        Ranks, one for each copy of the model.
    gradients
        Bytes of all gradients; those of ResNet-50 in single precision where left out.
    bucket, first_bucket
        Bytes reduced at once, and the first time; PyTorch's.
    iterations
        How often.
    forward, backward
        Time of the forward and of the backward pass, shared among the buckets by their size.
    overlap
        Reduce a bucket while the backward pass goes on; else all after it.
    """
    at_least(1, iterations=iterations)
    sizes = buckets(gradients, bucket, first_bucket)
    check_messages(num_ranks, iterations * len(sizes) * 2.0 * (num_ranks - 1) * num_ranks)
    builder = WorkloadBuilder(num_ranks)

    def reduce(size: int) -> None:
        collective_on(builder, "allreduce", everyone(builder), size, algorithm="ring")

    train(
        builder, sizes, reduce, iterations=iterations, forward=forward, backward=backward,
        overlap=overlap,
    )  # fmt: skip
    return builder.build()
