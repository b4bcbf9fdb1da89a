"""Pipeline parallelism: consecutive layers of a model on consecutive ranks."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import (
    all_ranks,
    application,
    at_least,
    check_messages,
    group_size,
    numbered,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.workload import Workload

_FORWARD, _BACKWARD = 0, 1
#: Largest default number of stages.
_STAGES = 8


@application(
    "pipeline", source="GPipe (Huang et al. 2019); 1F1B: PipeDream (Narayanan et al. 2019, 2021)"
)
def pipeline(
    num_ranks: int,
    *,
    stages: int | None = None,
    microbatches: int | None = None,
    schedule: Literal["1f1b", "gpipe"] = "1f1b",
    activations: Bytes = 2**23,
    forward: Nanoseconds = 0.0,
    backward: Nanoseconds = 0.0,
    gradients: Bytes = 0,
    iterations: int = 1,
) -> Workload:
    """Send microbatches forwards through all stages, and their gradients backwards.

    A stage receives a microbatch from the previous stage, computes and sends the result on without
    waiting for the send; backwards likewise. `gpipe` processes all microbatches forwards, then all
    backwards in the same order. `1f1b`: stage s of S processes S - 1 - s microbatches forwards,
    then alternately one forwards and one backwards, then the rest backwards. An iteration ends when
    all sends of a rank are complete and gradients are reduced.

    Parameters
    ----------
    num_ranks
        Number of ranks. With R pipelines, ranks sR to sR + R - 1 are stage s of pipelines 0 to
        R - 1.
    stages
        Number of stages, a divisor of `num_ranks`; if left out, the largest divisor up to 8, or
        `num_ranks` if that divisor is 1.
    microbatches
        Number of microbatches per pipeline and iteration; if left out, four per stage, as GPipe
        advises.
    schedule
        `1f1b` or `gpipe`.
    activations
        Bytes per microbatch between two stages, forwards and backwards.
    forward, backward
        Time that a stage takes to process a microbatch forwards, and backwards.
    gradients
        Bytes of a stage's gradients, which the ranks of a stage reduce (MPI_Allreduce) at the end
        of an iteration; 0 for none.
    iterations
        Number of iterations.
    """
    at_least(1, microbatches=microbatches, iterations=iterations)
    depth = group_size(num_ranks, stages, _STAGES, "stages")
    count = 4 * depth if microbatches is None else microbatches
    check_messages(num_ranks, 2.0 * iterations * count * (num_ranks - num_ranks // depth))
    builder = WorkloadBuilder(num_ranks)
    ranks = all_ranks(builder)
    width = num_ranks // depth
    stage = ranks // width
    plan = actions(depth, count, schedule)

    def step(ranks: NDArray[np.int64], back: bool) -> None:
        tag, duration = (_BACKWARD, backward) if back else (_FORWARD, forward)
        source = ranks + width if back else ranks - width
        to = ranks - width if back else ranks + width
        for is_receive, peers, call in (
            (True, source, builder.recv),
            (False, to, builder.isend),
        ):
            exists = (peers >= 0) & (peers < num_ranks)
            if exists.any():
                call(ranks[exists], peers[exists], activations, tag)
            if is_receive and duration:
                builder.calc(ranks, duration)

    for iteration in range(iterations):
        builder.phase(numbered("pipeline", iteration, iterations))
        for slot in range(2 * count):
            for back in (False, True):
                active = ranks[plan[stage, slot] == back]
                if len(active):
                    step(active, back)
        builder.waitall(ranks)
        if gradients and width > 1:
            builder.phase(numbered("gradients", iteration, iterations))
            collective_on(builder, "allreduce", ranks.reshape(depth, width), gradients)
    return builder.build()


def actions(stages: int, microbatches: int, schedule: str, chunks: int = 1) -> NDArray[np.int64]:
    """Return the sequence of actions of each stage: 0 is a microbatch forwards, 1 backwards.

    `schedule`: ``"1f1b"`` or ``"gpipe"``. `chunks`: parts of the model on each stage, each of which
    takes every microbatch; with several, stages begin with more microbatches (interleaved 1F1B of
    Narayanan et al. 2021).

    Returns int64 [stages, 2 * chunks * microbatches].
    """
    passes = microbatches * chunks
    slot = np.arange(2 * passes)
    if schedule == "gpipe":
        return np.tile((slot >= passes).astype(np.int64), (stages, 1))
    ahead = stages - 1 - np.arange(stages)
    if chunks > 1:
        ahead = 2 * ahead + (chunks - 1) * stages
    warm = np.minimum(ahead, passes)[:, None]
    steady = slot - warm
    last = slot >= 2 * passes - warm
    return np.where(last, 1, np.where(steady < 0, 0, steady % 2)).astype(np.int64)
