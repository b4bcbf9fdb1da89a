"""Which algorithm a collective takes when nobody says: MPICH's choice by size and ranks.

The thresholds are the defaults of MPICH's control variables, which the rules below name. MPICH
further looks at the ranks of a node, which weft does not know, and at the number of elements where
weft counts bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from weft.workload.collectives.blocks import is_power_of_two

BCAST_MIN_PROCS = 8  # MPIR_CVAR_BCAST_MIN_PROCS
BCAST_SHORT_BYTES = 12288  # MPIR_CVAR_BCAST_SHORT_MSG_SIZE
BCAST_LONG_BYTES = 524288  # MPIR_CVAR_BCAST_LONG_MSG_SIZE
REDUCE_SHORT_BYTES = 2048  # MPIR_CVAR_REDUCE_SHORT_MSG_SIZE
ALLREDUCE_SHORT_BYTES = 2048  # MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE
ALLGATHER_SHORT_BYTES = 81920  # MPIR_CVAR_ALLGATHER(V)_SHORT_MSG_SIZE, of all blocks
ALLGATHER_LONG_BYTES = 524288  # MPIR_CVAR_ALLGATHER(V)_LONG_MSG_SIZE, of all blocks
REDUCE_SCATTER_LONG_BYTES = 524288  # MPIR_CVAR_REDSCAT_COMMUTATIVE_LONG_MSG_SIZE, of all blocks
ALLTOALL_MIN_PROCS = 8
ALLTOALL_SHORT_BYTES = 256  # MPIR_CVAR_ALLTOALL_SHORT_MSG_SIZE
ALLTOALL_MEDIUM_BYTES = 32768  # MPIR_CVAR_ALLTOALL_MEDIUM_MSG_SIZE


def _bcast(size: int, n: int) -> str:
    if size < BCAST_SHORT_BYTES or n < BCAST_MIN_PROCS:
        return "binomial"
    if size < BCAST_LONG_BYTES and is_power_of_two(n):
        return "scatter-doubling"
    return "scatter-ring"


def _reduce(short: int, small: str) -> Callable[[Any, int], str]:
    def choose(size: int, n: int) -> str:
        # Each of the largest power of two of ranks needs a part of its own.
        parts = 1 << (n.bit_length() - 1)
        return "rabenseifner" if size > short and size >= parts else small

    return choose


def _allgather(size: ArrayLike, n: int) -> str:
    total = int(np.broadcast_to(size, n).sum())
    if total < ALLGATHER_LONG_BYTES and is_power_of_two(n):
        return "recursive-doubling"
    return "bruck" if total < ALLGATHER_SHORT_BYTES else "ring"


def _reduce_scatter(size: ArrayLike, n: int) -> str:
    total = int(np.broadcast_to(size, n).sum())
    return "recursive-halving" if total < REDUCE_SCATTER_LONG_BYTES else "pairwise"


def _alltoall(size: int, n: int) -> str:
    if size <= ALLTOALL_SHORT_BYTES and n >= ALLTOALL_MIN_PROCS:
        return "bruck"
    return "linear" if size <= ALLTOALL_MEDIUM_BYTES else "pairwise"


RULES: dict[str, Callable[[Any, int], str]] = {
    "barrier": lambda _size, _n: "dissemination",
    "bcast": _bcast,
    "reduce": _reduce(REDUCE_SHORT_BYTES, "binomial"),
    "allreduce": _reduce(ALLREDUCE_SHORT_BYTES, "recursive-doubling"),
    "scan": lambda _size, _n: "recursive-doubling",
    "exscan": lambda _size, _n: "recursive-doubling",
    "allgather": _allgather,
    "allgatherv": _allgather,
    "gather": lambda _size, _n: "binomial",
    "gatherv": lambda _size, _n: "linear",
    "scatter": lambda _size, _n: "binomial",
    "scatterv": lambda _size, _n: "linear",
    "reduce-scatter": _reduce_scatter,
    "alltoall": _alltoall,
    "alltoallv": lambda _size, _n: "linear",
}
