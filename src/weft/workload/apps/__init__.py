"""Applications: workloads modelled on benchmarks and programs.

A file with one function adds an application::

    @application("to-first", source="paper or program")
    def to_first(num_ranks: int, *, size: Bytes = 4096) -> Workload:
        builder = WorkloadBuilder(num_ranks)
        builder.put(np.arange(1, num_ranks), 0, size)
        return builder.build()
"""

from weft.workload.apps.application_registry import (
    application,
    application_workload,
    depends_on_places,
)
from weft.workload.apps.one_shot import pattern_workload

__all__ = ["application", "application_workload", "depends_on_places", "pattern_workload"]
