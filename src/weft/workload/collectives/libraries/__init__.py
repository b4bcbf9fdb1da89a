"""Rules by which MPI libraries choose the algorithms of their collectives: one file per library."""

from weft.workload.collectives.libraries.library_registry import (
    AlgorithmChoice,
    LibraryCall,
    choose,
    library,
)

__all__ = ["AlgorithmChoice", "LibraryCall", "choose", "library"]
