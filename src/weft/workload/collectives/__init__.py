"""Collectives lowered to messages between two ranks: one function for each named algorithm.

An algorithm is added by a file with one function, which names ranks by their place::

    @algorithm("bcast", "linear", source="where it is defined")
    def linear(group: Group) -> None:
        for place in range(1, group.n):
            group.message(
                group.from_root(0), group.from_root(place), group.sizes, lambda _: (0,)
            )
"""

from weft.workload.collectives.collective_registry import (
    COLLECTIVES,
    Collective,
    Group,
    Sizes,
    Trace,
    algorithm,
    collective,
)
from weft.workload.collectives.lowering import (
    algorithms,
    collective_on,
    collective_workload,
    default_algorithm,
)

__all__ = [
    "COLLECTIVES",
    "Collective",
    "Group",
    "Sizes",
    "Trace",
    "algorithm",
    "algorithms",
    "collective",
    "collective_on",
    "collective_workload",
    "default_algorithm",
]
