"""Rules by which MPI libraries choose the algorithms of their collectives: one file per library."""

from weft.workload.collectives.libraries.library_registry import (
    Choice,
    LibraryCall,
    choose,
    library,
)

__all__ = ["Choice", "LibraryCall", "choose", "library"]
