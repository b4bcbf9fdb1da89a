"""Measures of each job of an open-loop workload."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from weft.sim.sweep.window_measures import OpenLoopMeasures, measure
from weft.workload import Workload
from weft.workload.sources import MEASURED, transfers


def measure_jobs(
    workload: Workload, arrived_ns: ArrayLike, *, sources: int | None = None, **window: Any
) -> dict[str, OpenLoopMeasures]:
    """Measure each job of an open-loop workload by itself.

    A read counts from the time at which its request is issued to the arrival of its data, with the
    size of the data. Its source is the rank that issues it, its destination the rank that answers.

    `workload`: a workload of `weft.workload.sources.open_loop` or `open_loop_jobs`, or several of
    them combined by `weft.workload.jobs.combine`. `arrived_ns`, float [ops]: arrival of each
    message, such as `arrived_ns` of a result of the flow or packet level. `sources`: number of
    ranks that issue transfers; if left out, those of the job that issue at least one. `**window`:
    further arguments of `weft.sim.sweep.measure`, such as `warmup_ns`, `measure_ns` and
    `rate_gbps`.

    Returns measures of each job by its name, in the order of the jobs; a single job without a name
    is ``""``. Loads are means over the sources of the job: the accepted bandwidth of all its
    sources is ``accepted_load * rate_gbps * sources``.
    """
    every = transfers(workload)
    arrived = np.asarray(arrived_ns, np.float64)[every.ops]
    size = workload.size_bytes[every.ops]
    measures = {}
    for job, _, phase in (name.rpartition(": ") for name in workload.phase_names):
        if phase != MEASURED:
            continue
        mine = every.job == job
        source = every.source[mine]
        measures[job] = measure(
            every.issued_ns[mine],
            arrived[mine],
            size[mine],
            sources=len(np.unique(source)) if sources is None else sources,
            source=source,
            destination=every.destination[mine],
            **window,
        )
    return measures
