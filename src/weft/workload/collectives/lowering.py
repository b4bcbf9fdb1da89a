"""Lowering of collectives to messages, in a builder's programs or as a separate workload."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from weft.core.arguments import whole_number
from weft.core.errors import InputError
from weft.core.registry import Entry, convert, did_you_mean, wrong_name
from weft.core.units import MAX_BYTES, Bytes, Nanoseconds
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives.collective_registry import (
    COLLECTIVES,
    BlockRecord,
    Collective,
    Group,
    Sizes,
    check_members,
    collective,
)
from weft.workload.collectives.libraries import AlgorithmChoice, LibraryCall, choose
from weft.workload.collectives.libraries import library as libraries
from weft.workload.places import Places
from weft.workload.workload import Workload


def collective_on(
    builder: WorkloadBuilder,
    name: str,
    members: ArrayLike,
    size_bytes: ArrayLike = 0,
    *,
    algorithm: str | None = None,
    library: str = "mpich",
    places: Places | None = None,
    root: int = 0,
    comm: int = 0,
    reduce_ns_per_byte: float = 0.0,
    trace: BlockRecord | None = None,
    **options: Any,
) -> str:
    """Append a blocking collective to the programs of its ranks.

    At each rank, the collective starts after the rank's last blocking operation, and the rank's
    next operation waits for the collective; earlier non-blocking operations (`isend`, `irecv`)
    continue meanwhile. If there is only one rank, or a collective with data has size 0, nothing is
    sent (as in MPICH and Open MPI, where such a collective does not synchronise its ranks).

    Parameters
    ----------
    builder
        Builder that the operations are added to.
    name
        ``barrier``, ``bcast``, ``reduce``, ``allreduce``, ``scan``, ``exscan``, ``allgather``,
        ``allgatherv``, ``gather``, ``gatherv``, ``scatter``, ``scatterv``, ``reduce-scatter``,
        ``alltoall`` or ``alltoallv``; ``_`` counts as ``-``.
    members
        int [n]: world ranks in communicator order. Or int [groups, n]: the same collective in
        each of several disjoint groups, which is far faster than one call per group.
    size_bytes
        Bytes, as in MPI's arguments. bcast, reduce, allreduce, scan, exscan: size of the buffer.
        allgather, gather, scatter: size of the block of one rank; allgatherv, gatherv, scatterv:
        [n], size of each rank's block. reduce-scatter: size of the block that a rank keeps, one
        number (MPI_Reduce_scatter_block) or [n] (MPI_Reduce_scatter). alltoall: size of one rank's
        block for one other rank; alltoallv: [n, n], with the sender first. barrier: 0. In place of
        an array, one number gives equal sizes.
    algorithm
        Name of the algorithm; if left out, the one that the library selects for the size and the
        number of ranks (`default_algorithm`).
    library
        Library whose rules select the algorithm and its options: mpich, openmpi-5 or mvapich2.
        Options that are given replace those that the library selects.
    places
        Machines of the workload's ranks, for algorithms with a step within machines; by default,
        each rank has a machine of its own. All groups must be on machines in the same way.
    root
        Index of the root in `members`.
    comm
        Communicator in which the messages are matched.
    reduce_ns_per_byte
        Time to combine a received byte with the rank's own, in a calculation after each receive
        whose data are combined.
    trace
        Record to fill with the blocks of each message, for tests.
    **options
        Options of the algorithm.

    Returns
    -------
    str
        Name of the algorithm.

    Raises
    ------
    InputError
        If the collective, the algorithm or an option is unknown, a member does not exist or is
        listed twice, the root is not a member, a size is negative, too large or of the wrong shape,
        or the builder has messages with tags below 0, which are reserved for collectives.
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
        raise InputError(f"{kind.name} has no reduction, and so no reduce_ns_per_byte")
    machine = _machines(kind, ranks, places)
    if algorithm is None:
        choice = _choice(library, kind, size_bytes, machine)
        chosen, options = choice.algorithm, {**choice.options, **options}
    else:
        chosen = algorithm
    entry = _entry(kind, chosen)
    bound = collective.bind(entry, options)
    with builder.reserved_tag(comm) as tag:
        group = Group(
            builder, ranks, sizes, root=int(root), uneven=kind.uneven, comm=comm, tag=tag,
            reduce_ns_per_byte=reduce_ns_per_byte, trace=trace, machine=machine,
        )  # fmt: skip
        if n > 1 and (kind.sizes is Sizes.NONE or np.any(size_bytes)):
            entry.function(group, **bound)
    return chosen


def default_algorithm(
    name: str,
    size_bytes: ArrayLike,
    num_ranks: int,
    *,
    library: str = "mpich",
    per_machine: int = 1,
) -> str:
    """Return the algorithm that a library uses for a size and a number of ranks.

    `name`, `size_bytes`, `library`: as for `collective_on`. `per_machine`: number of ranks on each
    machine, 0 if they differ.
    """
    kind = _kind(name)
    if num_ranks < 1:
        raise InputError(f"{kind.name}: there cannot be {num_ranks} ranks")
    _sizes(kind, size_bytes, num_ranks)
    return choose(library, LibraryCall(kind.name, size_bytes, num_ranks, per_machine)).algorithm


def _choice(library: str, kind: Collective, size_bytes: ArrayLike, machine: Any) -> AlgorithmChoice:
    counts = np.bincount(machine)
    per_machine = int(counts[0]) if np.all(counts == counts[0]) else 0
    return choose(library, LibraryCall(kind.name, size_bytes, len(machine), per_machine))


def _machines(kind: Collective, ranks: Any, places: Places | None) -> Any:
    """Return the machine of each rank of a group, numbered from 0, int64 [n]."""
    if places is None:
        return np.arange(ranks.shape[1])
    rows = [np.unique(row, return_inverse=True)[1] for row in places.machine[ranks]]
    if any(not np.array_equal(row, rows[0]) for row in rows):
        raise InputError(f"{kind.name}: groups in one call must be on machines in the same way")
    return rows[0]


def chosen_algorithms(names: Iterable[str]) -> dict[str, str]:
    """Return the algorithm of each collective of which a registered name such as bcast-ring is."""
    facts = (collective[name].facts for name in names)
    return {each["collective"]: each["algorithm"] for each in facts}


def algorithms(name: str) -> list[str]:
    """Return the names of a collective's algorithms."""
    kind = _kind(name)
    return [
        entry.facts["algorithm"] for entry in collective if entry.facts["collective"] == kind.name
    ]


@dataclass(frozen=True)
class _Repeated:
    """Options that every collective has as a workload."""

    size: Bytes | None = None
    algorithm: str | None = None
    library: str | None = None
    count: int = 1
    root: int = 0
    compute: Nanoseconds = 0.0
    reduce_ns_per_byte: float = 0.0
    spread: float = 0.0
    seed: int = 0


_OPTIONS = get_type_hints(_Repeated, include_extras=True)


def collective_workload(
    spec: str, num_ranks: int, *, places: Places | None = None,
    builder: WorkloadBuilder | None = None,
) -> Workload:  # fmt: skip
    """Return a workload of one or more repetitions of a collective of all ranks.

    Parameters
    ----------
    spec
        ``allreduce:size=1MiB,algorithm=ring,count=10``. Options, with defaults in brackets: `size`
        (as in `collective_on`, one number; required except for barrier); `algorithm`, or `library`
        (mpich), whose rules select it; `count` (1), the number of repetitions; `root` (0);
        `compute` (0), the time of a calculation before each repetition; `reduce_ns_per_byte` (0);
        and the options of the algorithm. Collectives with blocks of different sizes also have
        `spread` (0) and `seed` (0): sizes are drawn uniformly from 1 - spread to 1 + spread times
        `size`.
    num_ranks
        Number of ranks, all of which take part.
    places
        Machines of the ranks; by default, each rank has a machine of its own.
    builder
        Builder without operations, which makes the workload; by default, a `WorkloadBuilder`.

    Raises
    ------
    InputError
        If a name or an option is unknown, or a value is invalid.
    """
    kind, chosen, common, given = _options(spec)
    draw = np.random.default_rng(common.seed)
    builder = builder or WorkloadBuilder(num_ranks, name=spec)
    ranks = np.arange(num_ranks)
    for repetition in range(common.count):
        most = builder.max_ops
        if repetition == 1 and builder.num_ops * common.count > most:
            raise InputError(
                f"{spec}: {common.count:,} times {builder.num_ops:,} operations exceed {most:,}"
            )
        if common.compute:
            builder.calc(ranks, common.compute)
        sizes: Any = common.size or 0
        if spread := common.spread:
            shape = (num_ranks, num_ranks) if kind.sizes is Sizes.PAIR else num_ranks
            sizes = draw.integers(
                round(sizes * (1 - spread)), round(sizes * (1 + spread)), shape, endpoint=True
            )
        algorithm, options = chosen, given
        if common.library is not None:
            machine = _machines(kind, ranks[np.newaxis], places)
            choice = _choice(common.library, kind, sizes, machine)
            algorithm, options = choice.algorithm, {**choice.options, **given}
            note = f"{common.library} takes {choice} for {kind.name} of {num_ranks} ranks"
            builder.notes += [] if note in builder.notes else [note]
        collective_on(
            builder, kind.name, ranks, sizes, algorithm=algorithm, root=common.root, places=places,
            reduce_ns_per_byte=common.reduce_ns_per_byte, **options,
        )  # fmt: skip
    if common.size == 0:
        builder.notes.append(f"{kind.name} of 0 bytes sends nothing, as in MPICH")
    return builder.build()


def depends_on_machines(spec: str) -> bool:
    """Return whether a spec is of a collective whose messages depend on the machines of ranks."""
    if not spec.strip().lower().replace("_", "-").startswith(tuple(COLLECTIVES)):
        return False
    if spec.partition(":")[0].strip() not in collective:
        return False
    kind, chosen, common, _ = _options(spec)
    named = chosen is not None and bool(_entry(kind, chosen).facts["machines"])
    return named or common.library is not None


def check_collective(spec: str) -> None:
    """Refuse the spec of a collective that is wrong for every number of ranks."""
    kind, chosen, _, given = _options(spec)
    if chosen is not None:
        collective.bind(_entry(kind, chosen), given)
        return
    takes = {
        option
        for each in algorithms(kind.name)
        for option in collective[f"{kind.name}-{each}"].options
    }
    for name in given.keys() - takes:
        raise InputError(f"{spec}: no algorithm of {kind.name} has an option {name!r}")


def _options(spec: str) -> tuple[Collective, str | None, _Repeated, dict[str, Any]]:
    """Return the collective of a spec, its algorithm, the common options, and the others."""
    entry, given = collective.parse(spec)
    kind = COLLECTIVES[entry.facts["collective"]]
    common = _Repeated(
        **{
            key: convert(given.pop(key), hint, f"{spec}: {key}")
            for key, hint in _OPTIONS.items()
            if key in given
        }
    )
    named = spec.partition(":")[0].strip() == entry.name
    if named and common.algorithm not in (None, entry.facts["algorithm"]):
        raise InputError(f"{spec}: {entry.name} names the algorithm already")
    chosen = entry.facts["algorithm"] if named else common.algorithm
    if common.size is None and kind.sizes is not Sizes.NONE:
        typos = [f"; it has no option {key!r}" for key in given if did_you_mean(key, ["size"])]
        raise InputError(
            f"{spec}: {kind.name} needs size, the {kind.sizes.value}{''.join(typos[:1])}"
        )
    if common.library is not None:
        if chosen is not None:
            raise InputError(f"{spec}: the library selects no algorithm where one is named")
        libraries[common.library]
    if common.count < 1:
        raise InputError(f"{spec}: count is {common.count}; expected 1 or more")
    if not 0 <= common.spread <= 1:
        raise InputError(f"{spec}: spread is {common.spread}; expected 0 to 1")
    if common.spread and not kind.uneven:
        raise InputError(f"{spec}: the blocks of {kind.name} have equal sizes; spread must be 0")
    whole_number(common.seed, f"{spec}: seed")
    return kind, chosen, common, given


def _kind(name: str) -> Collective:
    plain = name.strip().lower().replace("_", "-")
    if plain not in COLLECTIVES:
        raise InputError(
            f"unknown collective {name!r}{did_you_mean(plain, COLLECTIVES)}; "
            f"expected {', '.join(COLLECTIVES)}"
        )
    return COLLECTIVES[plain]


def _entry(kind: Collective, name: str) -> Entry:
    full = f"{kind.name}-{name}"
    if full not in collective:
        known = algorithms(kind.name)
        raise InputError(wrong_name(f"{kind.name} has no algorithm", name, known, "it has"))
    return collective[full]


def _sizes(kind: Collective, size_bytes: ArrayLike, n: int) -> Any:
    """Return sizes in the shape that algorithms expect: one number, [n] or [n, n]."""
    array = np.asarray(size_bytes)
    if array.dtype.kind not in "iu" and not (
        array.dtype.kind == "f" and np.all(array == np.floor(array))
    ):
        raise InputError(f"{kind.name}: size {size_bytes!r} is not a whole number of bytes")
    bad = array[~((array >= 0) & (array <= MAX_BYTES))]
    if bad.size:
        raise InputError(f"{kind.name}: a size of {bad.flat[0]} bytes; expected 0 to 2^56")
    shape: tuple[int, ...] = ()
    if kind.sizes in (Sizes.BLOCK, Sizes.PAIR):
        shape = (n,) if kind.sizes is Sizes.BLOCK else (n, n)
    if array.ndim and (not kind.uneven or array.shape != shape):
        needs = f"one number or an array of shape {shape}" if kind.uneven else "one number"
        raise InputError(
            f"{kind.name} of {n} ranks: sizes of shape {array.shape}; expected {needs}"
        )
    total = float(array.sum()) if array.ndim else float(array) * int(np.prod(shape))
    if total > MAX_BYTES:
        raise InputError(f"{kind.name}: {total:.3g} bytes in all; expected at most 2^56")
    if kind.sizes is Sizes.NONE and total:
        raise InputError(f"{kind.name} has no data; its size must be 0")
    if not shape:
        return int(array)
    return np.broadcast_to(array.astype(np.int64), shape)
