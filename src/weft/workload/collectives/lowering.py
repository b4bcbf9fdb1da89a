"""Collectives as messages: into the programs of a builder, or as a workload of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from weft.core.arguments import whole_number
from weft.core.errors import InputError
from weft.core.registry import Entry, convert, did_you_mean
from weft.core.units import MAX_BYTES, Bytes, Nanoseconds
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives.blocks import is_power_of_two
from weft.workload.collectives.collective_registry import (
    COLLECTIVES,
    Collective,
    Group,
    Sizes,
    Trace,
    check_members,
    collective,
)
from weft.workload.program_order import MAX_OPS
from weft.workload.workload import Workload

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


def collective_on(
    builder: WorkloadBuilder,
    name: str,
    members: ArrayLike,
    size_bytes: ArrayLike = 0,
    *,
    algorithm: str | None = None,
    root: int = 0,
    comm: int = 0,
    reduce_ns_per_byte: float = 0.0,
    trace: Trace | None = None,
    **options: Any,
) -> str:
    """Append a blocking collective to the programs of its ranks.

    A rank's part begins when its last blocking operation is over, and its next operation waits
    for that part; operations that it began before (`isend`, `irecv`) go on meanwhile. One rank
    sends nothing, and neither does anybody when there are no bytes at all (as in MPICH and Open
    MPI, where such a collective synchronises nobody; a barrier does).

    Parameters
    ----------
    builder
        Whose programs grow.
    name
        ``barrier``, ``bcast``, ``reduce``, ``allreduce``, ``scan``, ``exscan``, ``allgather``,
        ``allgatherv``, ``gather``, ``gatherv``, ``scatter``, ``scatterv``, ``reduce-scatter``,
        ``alltoall`` or ``alltoallv``; ``_`` counts as ``-``.
    members
        int [n]: world ranks in communicator order. Or int [groups, n]: the same collective in
        each of several disjoint groups, far faster than one call for each.
    size_bytes
        As MPI's arguments. bcast, reduce, allreduce, scan, exscan: of the buffer. allgather,
        gather, scatter: of the block of one rank; allgatherv, gatherv, scatterv: [n], of each
        rank's block. reduce-scatter: of the block that a rank keeps, one number
        (MPI_Reduce_scatter_block) or [n] (MPI_Reduce_scatter). alltoall: of one rank for one
        other; alltoallv: [n, n], from row to column. barrier: 0. One number does for all.
    algorithm
        Its name; by size and count as in MPICH when left out (`default_algorithm`).
    root
        Place of the root in `members`.
    comm
        Communicator in which the messages are matched.
    reduce_ns_per_byte
        Time to combine a byte that came with one's own; a calculation after each such receive.
    trace
        Filled with what each message holds, for tests.
    **options
        Of the algorithm.

    Returns
    -------
    str
        Name of the algorithm.

    Raises
    ------
    InputError
        On an unknown collective, algorithm or option, members that do not exist or are there
        twice, a root that is not among them, sizes that are negative, too large or of another
        shape, or messages with tags below 0, which are those of collectives, in the builder.
    """
    kind = _kind(name)
    ranks = check_members(builder, members, comm)
    n = ranks.shape[1]
    sizes = _sizes(kind, size_bytes, n)
    if not isinstance(root, int | np.integer) or not 0 <= root < n:
        raise InputError(f"{kind.name}: there is no root {root} among {n} ranks, counted from 0")
    if root and not kind.rooted:
        raise InputError(f"{kind.name} has no root")
    if not 0 <= reduce_ns_per_byte < float("inf"):
        raise InputError(f"{kind.name}: combining a byte cannot take {reduce_ns_per_byte} ns")
    if reduce_ns_per_byte and not kind.combines:
        raise InputError(f"{kind.name} combines nothing")
    chosen = RULES[kind.name](size_bytes, n) if algorithm is None else algorithm
    entry = _entry(kind, chosen)
    bound = collective.bind(entry, options)
    with builder.reserved_tag(comm) as tag:
        group = Group(
            builder, ranks, sizes, root=int(root), uneven=kind.uneven, comm=comm, tag=tag,
            reduce_ns_per_byte=reduce_ns_per_byte, trace=trace,
        )  # fmt: skip
        if n > 1 and (kind.sizes is Sizes.NONE or np.any(size_bytes)):
            entry.function(group, **bound)
    return chosen


def default_algorithm(name: str, size_bytes: ArrayLike, num_ranks: int) -> str:
    """Algorithm that MPICH takes for a size and a number of ranks.

    Parameters
    ----------
    name, size_bytes
        As for `collective_on`.
    num_ranks
        Ranks of the communicator.

    Raises
    ------
    InputError
        On an unknown collective or a size or number of ranks that cannot be.
    """
    kind = _kind(name)
    if num_ranks < 1:
        raise InputError(f"{kind.name}: there cannot be {num_ranks} ranks")
    _sizes(kind, size_bytes, num_ranks)
    return RULES[kind.name](size_bytes, num_ranks)


def algorithms(name: str) -> list[str]:
    """Names of a collective's algorithms.

    Raises
    ------
    InputError
        On an unknown collective.
    """
    kind = _kind(name)
    return [
        entry.facts["algorithm"] for entry in collective if entry.facts["collective"] == kind.name
    ]


def _repeated(
    size: Bytes | None = None,
    algorithm: str | None = None,
    count: int = 1,
    root: int = 0,
    compute: Nanoseconds = 0.0,
    reduce_ns_per_byte: float = 0.0,
    spread: float = 0.0,
    seed: int = 0,
) -> None:
    """Options of every collective that is a workload of its own."""


_OPTIONS = get_type_hints(_repeated, include_extras=True)
_OPTIONS.pop("return")


def collective_workload(spec: str, num_ranks: int) -> Workload:
    """A collective of all ranks, several times in a row.

    Parameters
    ----------
    spec
        ``allreduce:size=1MiB,algorithm=ring,count=10``. Options: `size` (as in `collective_on`,
        one number; every collective but barrier needs it), `algorithm`, `count` (1), `root` (0),
        `compute` (0), what each rank computes before each repetition, `reduce_ns_per_byte` (0), for
        collectives with blocks of different sizes `spread` (0) and `seed` (0): sizes drawn
        uniformly from size (1 - spread) to size (1 + spread), and those of the algorithm.
    num_ranks
        Ranks, all of which take part.

    Raises
    ------
    InputError
        On an unknown name or option, or a value that does not fit.
    """
    entry, given = collective.parse(spec)
    kind = COLLECTIVES[entry.facts["collective"]]
    common = {
        key: convert(given.pop(key), hint, f"{spec}: {key}")
        for key, hint in _OPTIONS.items()
        if key in given
    }
    named = spec.partition(":")[0].strip() == entry.name
    if named and common.get("algorithm", entry.facts["algorithm"]) != entry.facts["algorithm"]:
        raise InputError(f"{spec}: {entry.name} is already one algorithm")
    chosen = entry.facts["algorithm"] if named else common.get("algorithm")
    size, count = common.get("size"), common.get("count", 1)
    if size is None and kind.sizes is not Sizes.NONE:
        meant = [f"; it has no option {key!r}" for key in given if did_you_mean(key, ["size"])]
        raise InputError(
            f"{spec}: {kind.name} needs size, its {kind.sizes.value}{''.join(meant[:1])}"
        )
    if count < 1:
        raise InputError(f"{spec}: count is {count}; expected 1 or more")
    spread, seed = common.get("spread", 0.0), common.get("seed", 0)
    if not 0 <= spread <= 1:
        raise InputError(f"{spec}: spread is {spread}; expected 0 to 1")
    if spread and not kind.uneven:
        raise InputError(f"{spec}: the blocks of {kind.name} are of one size")
    whole_number(seed, f"{spec}: seed")
    draw = np.random.default_rng(seed)
    builder = WorkloadBuilder(num_ranks, name=spec)
    everyone = np.arange(num_ranks)
    for turn in range(count):
        if turn == 1 and builder.num_ops * count > MAX_OPS:
            raise InputError(
                f"{spec}: {count:,} times {builder.num_ops:,} operations; at most {MAX_OPS:,}"
            )
        if common.get("compute"):
            builder.calc(everyone, common["compute"])
        sizes: Any = size or 0
        if spread:
            shape = (num_ranks, num_ranks) if kind.sizes is Sizes.PAIR else num_ranks
            sizes = draw.integers(
                round(sizes * (1 - spread)), round(sizes * (1 + spread)), shape, endpoint=True
            )
        collective_on(
            builder, kind.name, everyone, sizes, algorithm=chosen, root=common.get("root", 0),
            reduce_ns_per_byte=common.get("reduce_ns_per_byte", 0.0), **given,
        )  # fmt: skip
    if size == 0:
        builder.notes.append(f"{kind.name} of 0 bytes sends nothing, as in MPICH")
    return builder.build()


def _kind(name: str) -> Collective:
    plain = name.strip().lower().replace("_", "-")
    if plain not in COLLECTIVES:
        raise InputError(
            f"unknown collective {name!r}{did_you_mean(plain, COLLECTIVES)}; "
            f"there are {', '.join(COLLECTIVES)}"
        )
    return COLLECTIVES[plain]


def _entry(kind: Collective, name: str) -> Entry:
    full = f"{kind.name}-{name}"
    if full not in collective:
        known = algorithms(kind.name)
        raise InputError(
            f"{kind.name} has no algorithm {name!r}{did_you_mean(name, known)}; "
            f"it has {', '.join(known)}"
        )
    return collective[full]


def _sizes(kind: Collective, size_bytes: ArrayLike, n: int) -> Any:
    """Sizes in the shape that algorithms take: one number, [n] or [n, n]."""
    given = np.asarray(size_bytes)
    if given.dtype.kind not in "iu" and not (
        given.dtype.kind == "f" and np.all(given == np.floor(given))
    ):
        raise InputError(f"{kind.name}: size {size_bytes!r} is no whole number of bytes")
    bad = given[~((given >= 0) & (given <= MAX_BYTES))]
    if bad.size:
        raise InputError(f"{kind.name}: a size of {bad.flat[0]} bytes; sizes are 0 to 2^56")
    shape: tuple[int, ...] = ()
    if kind.sizes in (Sizes.BLOCK, Sizes.PAIR):
        shape = (n,) if kind.sizes is Sizes.BLOCK else (n, n)
    if given.ndim and (not kind.uneven or given.shape != shape):
        needs = f"one number or an array of shape {shape}" if kind.uneven else "one number"
        raise InputError(
            f"{kind.name} of {n} ranks: sizes of shape {given.shape}; expected {needs}"
        )
    total = float(given.sum()) if given.ndim else float(given) * int(np.prod(shape))
    if total > MAX_BYTES:
        raise InputError(f"{kind.name}: {total:.3g} bytes in all; at most 2^56 are possible")
    if kind.sizes is Sizes.NONE and total:
        raise InputError(f"{kind.name} carries no data; its size is 0")
    if not shape:
        return int(given)
    return np.broadcast_to(given.astype(np.int64), shape)
