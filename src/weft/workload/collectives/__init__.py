"""Collectives lowered to point-to-point messages: one function for each named algorithm.

A file with one function adds an algorithm; it addresses ranks by their number in the communicator::

    @algorithm("bcast", "linear", source="where it is defined")
    def linear(group: Group) -> None:
        for rank in range(1, group.n):
            group.message(group.root, group.from_root(rank), group.sizes, lambda _: (0,))
"""

from weft.workload.collectives.collective_registry import (
    COLLECTIVES,
    BlockRecord,
    Collective,
    Group,
    Sizes,
    algorithm,
    collective,
)
from weft.workload.collectives.lowering import (
    algorithms,
    check_collective,
    collective_on,
    collective_workload,
    default_algorithm,
    depends_on_machines,
)

__all__ = [
    "COLLECTIVES",
    "BlockRecord",
    "Collective",
    "Group",
    "Sizes",
    "algorithm",
    "algorithms",
    "check_collective",
    "collective",
    "collective_on",
    "collective_workload",
    "default_algorithm",
    "depends_on_machines",
]
