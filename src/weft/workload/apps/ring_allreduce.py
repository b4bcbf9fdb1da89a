"""Data-parallel training with rings."""

from __future__ import annotations

from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import all_ranks, application, at_least, check_messages
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
    builder: WorkloadBuilder,
    gradients: Bytes = RESNET50_BYTES,
    bucket: Bytes = BUCKET_BYTES,
    first_bucket: Bytes = FIRST_BUCKET_BYTES,
    iterations: int = 1,
    forward: Nanoseconds = 0.0,
    backward: Nanoseconds = 0.0,
    overlap: bool = True,
) -> Workload:
    """Train data-parallel, with the gradients of all ranks added up along a ring.

    On n ranks each bucket takes 2 (n - 1) steps, in each of which every rank sends an n-th of the
    bucket to the next rank: first a reduce-scatter, then an allgather. Buckets are reduced one
    after the other, each after the backward pass has filled it.

    Parameters
    ----------
    num_ranks
        Number of ranks, one for each copy of the model.
    gradients
        Bytes of all gradients; the default is ResNet-50 in single precision.
    bucket, first_bucket
        Bytes of a bucket, and of the first one; the defaults are PyTorch's.
    iterations
        Number of iterations.
    forward, backward
        Time of the forward and of the backward pass; a bucket takes a share of the backward pass in
        proportion to its size.
    overlap
        Reduce buckets during the backward pass; else after it.
    """
    at_least(1, iterations=iterations)
    sizes = buckets(gradients, bucket, first_bucket)
    check_messages(builder, iterations * len(sizes) * 2.0 * (num_ranks - 1) * num_ranks)

    def reduce(size: int) -> None:
        collective_on(builder, "allreduce", all_ranks(builder), size, algorithm="ring")

    train(
        builder, sizes, reduce, iterations=iterations, forward=forward, backward=backward,
        overlap=overlap,
    )  # fmt: skip
    return builder.build()
