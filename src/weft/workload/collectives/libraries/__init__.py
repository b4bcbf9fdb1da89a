"""Rules by which MPI libraries choose the algorithms of their collectives: one file per library."""

from weft.workload.collectives.libraries.library_registry import Call, Choice, choose, library

__all__ = ["Call", "Choice", "choose", "library"]
