"""Rules of MPICH with the default values of its control variables (MPIR_CVAR_...)."""

from __future__ import annotations

from weft.workload.collectives.blocks import is_power_of_two
from weft.workload.collectives.libraries.library_registry import (
    AlgorithmChoice,
    LibraryCall,
    library,
)

BCAST_MIN_PROCS = 8  # MPIR_CVAR_BCAST_MIN_PROCS
BCAST_SHORT_BYTES = 12288  # MPIR_CVAR_BCAST_SHORT_MSG_SIZE
BCAST_LONG_BYTES = 524288  # MPIR_CVAR_BCAST_LONG_MSG_SIZE
REDUCE_SHORT_BYTES = 2048  # MPIR_CVAR_REDUCE_SHORT_MSG_SIZE, and ALLREDUCE
ALLGATHER_SHORT_BYTES = 81920  # MPIR_CVAR_ALLGATHER(V)_SHORT_MSG_SIZE, of all blocks
ALLGATHER_LONG_BYTES = 524288  # MPIR_CVAR_ALLGATHER(V)_LONG_MSG_SIZE, of all blocks
REDUCE_SCATTER_LONG_BYTES = 524288  # MPIR_CVAR_REDSCAT_COMMUTATIVE_LONG_MSG_SIZE, of all blocks
ALLTOALL_MIN_PROCS = 8
ALLTOALL_SHORT_BYTES = 256  # MPIR_CVAR_ALLTOALL_SHORT_MSG_SIZE
ALLTOALL_MEDIUM_BYTES = 32768  # MPIR_CVAR_ALLTOALL_MEDIUM_MSG_SIZE

#: Algorithms of collectives for which neither size nor number of ranks matters.
ALWAYS = {
    "barrier": "dissemination",
    "scan": "recursive-doubling",
    "exscan": "recursive-doubling",
    "gather": "binomial",
    "gatherv": "linear",
    "scatter": "binomial",
    "scatterv": "linear",
    "alltoallv": "linear",
}


@library("mpich", source="MPICH 3: src/mpi/coll; Thakur et al. 2005")
def mpich(call: LibraryCall) -> AlgorithmChoice:
    """MPICH with its default control variables, without its first step within each machine."""
    return AlgorithmChoice(ALWAYS.get(call.collective) or _by_size(call))


def _by_size(call: LibraryCall) -> str:
    name, n = call.collective, call.num_ranks
    if name in ("allgather", "allgatherv"):
        if call.total < ALLGATHER_LONG_BYTES and is_power_of_two(n):
            return "recursive-doubling"
        return "bruck" if call.total < ALLGATHER_SHORT_BYTES else "ring"
    if name == "reduce-scatter":
        short = call.total < REDUCE_SCATTER_LONG_BYTES
        return "recursive-halving" if short else "pairwise"
    size = call.size
    if name == "bcast":
        if size < BCAST_SHORT_BYTES or n < BCAST_MIN_PROCS:
            return "binomial"
        doubles = size < BCAST_LONG_BYTES and is_power_of_two(n)
        return "scatter-doubling" if doubles else "scatter-ring"
    if name == "alltoall":
        if size <= ALLTOALL_SHORT_BYTES and n >= ALLTOALL_MIN_PROCS:
            return "bruck"
        return "linear" if size <= ALLTOALL_MEDIUM_BYTES else "pairwise"
    # Rabenseifner's algorithm divides the buffer into this many parts, none of them empty.
    parts = 1 << (n.bit_length() - 1)
    if size > REDUCE_SHORT_BYTES and size >= parts:
        return "rabenseifner"
    return "binomial" if name == "reduce" else "recursive-doubling"
