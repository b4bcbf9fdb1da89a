"""Rules of Open MPI 5.0.2: the fixed decision functions of its component coll/tuned.

The numbers in the tables are those of its parameters coll_tuned_*_algorithm. Its decisions give a
segment size of 0, which means that messages are not divided.
"""

from __future__ import annotations

import numpy as np

from weft.workload.collectives.blocks import is_power_of_two
from weft.workload.collectives.libraries.library_registry import (
    AlgorithmChoice,
    LibraryCall,
    library,
    number_below,
    rows_below,
)

#: Bytes of an element, on whose number some rules depend; assumed to be MPI_FLOAT or MPI_INT.
ELEMENT_BYTES = 4

_ALLREDUCE = rows_below("""
4: 4 8 3 4096 4 8192 3 16384 4 65536 5 262144 6; 8: 4 16 3 8192 6; 16: 3 8192 6;
32: 5 64 3 4096 6; 64: 5 128 6; 128: 3 262144 6; 256: 2 131072 3 262144 6; 512: 2 4096 6;
2048: 2 2048 3 16384 6; 4096: 2 2048 5 4096 3 16384 6; *: 2 2048 5 16384 3 32768 6
""")
_ALLTOALL = rows_below("""
3: 2 2 5 4 2 16 5 64 2 256 5 4096 2 32768 4 262144 5 1048576 2;
8: 4 8192 1 16384 4 65536 1 524288 2 1048576 1; 16: 4 262144 1;
32: 4 4 3 512 4 8192 1 32768 4 262144 1 524288 4; 64: 3 512 1 524288 4;
128: 3 1024 1 2048 4 4096 1 262144 2; 256: 3 1024 4 2048 1 262144 2;
512: 3 1024 4 8192 1 32768 2; 1024: 3 512 4 8192 1 16384 4 131072 1 262144 2;
2048: 3 512 4 1024 1 2048 4 16384 1 262144 4; 4096: 3 1024 4 4096 1 8192 4 131072 1;
*: 3 2048 4 8192 1 16384 4 32768 1 65536 4
""")
_BCAST = rows_below("""
4: 3 32 5 256 3 512 7 1024 1 32768 5 131072 2 262144 1 524288 6 1048576 5;
8: 5 64 6 128 5 2048 6 8192 1 1048576 2; 16: 7 8 5 64 7 4096 5 16384 6 32768 1;
32: 7 4096 6 1048576 8; 64: 6 2048 7; 128: 7; 256: 6 2 5 16384 1 32768 5 65536 7;
1024: 7 16384 4 32768 7; 2048: 7 524288 8; 4096: 7 262144 8; *: 7 8192 5 16384 7 262144 8
""")
_REDUCE = rows_below("""
4: 7 8 4 16 3 32 1 262144 3 524288 2 1048576 3; 8: 4 4096 2 65536 5 262144 1 524288 5 1048576 1;
16: 4 8192 5; 32: 4 4096 5; 256: 5; 512: 5 8192 6 16384 5; 2048: 5;
4096: 5 512 6 1024 5 8192 6 16384 5; *: 5 16 6 32 5 1024 6 2048 5 8192 6 16384 5
""")
_REDUCE_SCATTER = rows_below("""
4: 3 65536 4 131072 3; 8: 1 8 2 262144 3; 32: 2 262144 3; 64: 1 64 2 2048 4 524288 3;
128: 1 256 2 512 4 2048 2 4096 4; 256: 1 256 2 512 4; 512: 1 256 2 1024 4;
1024: 1 512 2 2048 4 8192 2 16384 4; 2048: 1 512 2 4096 4 16384 2 32768 4; 4096: 1 512 2 4096 4;
*: 1 1024 2 8192 4
""")
_REDUCE_SCATTER_BLOCK = rows_below("""
4: 2 4 4 8 3 16 4 128 3 256 4 4096 3 8192 4 131072 1;
8: 3 8 2 32 4 256 3 8192 4 16384 3 1048576 1; 16: 1 4 3 32 4 128 3 524288 1 4194304 4;
32: 1 32 3 524288 1 2097152 3 4194304 4; *: 3 4 1 16 4 65536 1 262144 4
""")
_ALLGATHER = rows_below("""
3: 6; 32: 3; 64: 3 1024 5 65536 4; 128: 3 512 5 65536 4;
256: 3 512 5 131072 4 524288 5 1048576 4; 512: 3 32 2 128 3 1024 5 131072 4 524288 5 1048576 4;
1024: 3 64 2 256 3 2048 5; 2048: 3 4 2 8 3 16 2 32 3 256 2 512 3 4096 5;
4096: 2 32 3 128 2 512 3 4096 5; *: 3 2 2 8 3 16 2 512 3 4096 5
""")

_ALLTOALLS = {
    1: AlgorithmChoice("linear", {"throttle": 0}),
    2: AlgorithmChoice("pairwise", {"shift": True}),
    3: AlgorithmChoice("bruck"),
    4: AlgorithmChoice("linear", {"throttle": 0}, "linear_sync without a limit of requests"),
    5: AlgorithmChoice("pairwise", why="two_proc"),
}
_BCASTS = {
    1: AlgorithmChoice("linear"),
    2: AlgorithmChoice("chain", {"segment": 0}),
    3: AlgorithmChoice("chain", {"segment": 0}, "pipeline"),
    4: AlgorithmChoice("split-binary"),
    5: AlgorithmChoice("tree", {"shape": "binary"}),
    6: AlgorithmChoice("tree", {"shape": "near"}, "binomial"),
    7: AlgorithmChoice("tree", {"shape": "knomial", "radix": 4}),
    8: AlgorithmChoice("scatter-doubling"),
    9: AlgorithmChoice("scatter-ring"),
}
_REDUCES = {
    1: AlgorithmChoice("linear"),
    2: AlgorithmChoice("tree", {"shape": "chain"}),
    3: AlgorithmChoice("tree", {"shape": "chain"}, "pipeline"),
    4: AlgorithmChoice("tree", {"shape": "binary"}),
    5: AlgorithmChoice("binomial"),
    6: AlgorithmChoice("in-order-binary"),
    # Taken below 8 bytes only.
    7: AlgorithmChoice("linear", why="rabenseifner of fewer elements than parts"),
}
_REDUCE_SCATTERS = {
    2: AlgorithmChoice("recursive-halving"),
    3: AlgorithmChoice("ring"),
    4: AlgorithmChoice("butterfly"),
}
_REDUCE_SCATTER_BLOCKS = {
    2: AlgorithmChoice("", why="recursive_doubling"),
    3: AlgorithmChoice("recursive-halving"),
    4: AlgorithmChoice("butterfly"),
}


@library("openmpi-5", source="Open MPI 5.0.2: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c")
def openmpi(call: LibraryCall) -> AlgorithmChoice | None:
    """Open MPI 5.0.2's coll/tuned with its fixed decisions, for commutative operators."""
    n, size = call.num_ranks, call.size
    match call.collective:
        case "allreduce":
            return _allreduce(number_below(_ALLREDUCE, n, size), n, size)
        case "alltoall":
            return _ALLTOALLS[number_below(_ALLTOALL, n, size)]
        case "bcast":
            return _BCASTS[number_below(_BCAST, n, size)]
        case "reduce":
            return _REDUCES[number_below(_REDUCE, n, size)]
        case "allgather":
            return _allgather(number_below(_ALLGATHER, n, size), n)
        case "reduce-scatter" if np.ndim(call.size_bytes):
            number = number_below(_REDUCE_SCATTER, n, call.total)
            return _REDUCE_SCATTERS.get(number) or _reduce_first("reduce-scatter", n, call.total)
        case "reduce-scatter":
            number = number_below(_REDUCE_SCATTER_BLOCK, n, size)
            chosen = _REDUCE_SCATTER_BLOCKS.get(number)
            return chosen or _reduce_first("reduce-scatter", n, call.total)
    return None


def _reduce_first(algorithm: str, n: int, size: int) -> AlgorithmChoice:
    """Return an algorithm that begins with a reduce, for which the library chooses again."""
    reduce = _REDUCES[number_below(_REDUCE, n, size)]
    options = {"reduce": reduce.options.get("shape", reduce.algorithm)}
    if algorithm == "reduce-bcast":
        bcast = _BCASTS[number_below(_BCAST, n, size)]
        options["bcast"] = bcast.options.get("shape", bcast.algorithm)
    return AlgorithmChoice(algorithm, options, "nonoverlapping")


def _allreduce(number: int, n: int, size: int) -> AlgorithmChoice:
    count = size // ELEMENT_BYTES
    if number == 2:
        return _reduce_first("reduce-bcast", n, size)
    if number == 6 and count >= 1 << (n.bit_length() - 1):
        return AlgorithmChoice("rabenseifner")
    if number == 6:
        why = "rabenseifner of fewer elements than parts"
        return AlgorithmChoice("reduce-bcast", {"reduce": "linear", "bcast": "linear"}, why)
    why = {3: "", 4: "ring", 5: "segmented_ring without segments"}[number]
    if number == 3 or count < n:
        return AlgorithmChoice(
            "recursive-doubling", why=why and f"{why} of fewer elements than ranks"
        )
    return AlgorithmChoice("ring", why=why if number == 5 else "")


def _allgather(number: int, n: int) -> AlgorithmChoice:
    if number == 3 and not is_power_of_two(n):
        return AlgorithmChoice("bruck", why="recursive_doubling of no power of two")
    if number == 5 and n % 2:
        return AlgorithmChoice("ring", why="neighbor of an odd number")
    names = {2: "bruck", 4: "ring", 5: "neighbor-exchange"}
    return AlgorithmChoice(
        names.get(number, "recursive-doubling"), why="two_proc" if number == 6 else ""
    )
