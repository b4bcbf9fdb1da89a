"""The registry of applications, and the functions that they share.

weft passes those of these parameters that a function has: `num_ranks`, the number of ranks;
`builder`, to which the operations are added; `places`, the machines of the ranks; and `arguments`,
the options of a pattern. Others are the application's options.
Each entry has the fact `source`: a paper about the program, or the program itself. Three facts are
optional: `passes_on` says what receives the options that the entry does not declare, such as the
traffic pattern; `small` holds options that make contract tests quick; `seeded` holds options
without which the seed has no effect. Entries with a seed that has no effect with some options,
here, among patterns and among placements, have the fact `draws`: a function from all options to
whether anything is drawn.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError, NotApplicable, OutOfMemory
from weft.core.registry import Entry, Registry
from weft.core.units import MAX_BYTES
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.places import Places
from weft.workload.rolled import RolledBuilder
from weft.workload.workload import Workload

application = Registry(
    "application",
    "weft.workload.apps",
    "weft.applications",
    pipeline=("num_ranks", "arguments", "places", "builder"),
)

#: Largest number of ranks of an application.
MAX_RANKS = 2**20
#: Largest number of messages of an application; they and their receives take about 4 GB.
MAX_MESSAGES = 2**24
#: Largest number of messages of one rank; adding them one by one takes a minute.
MAX_STEPS = 2**18


def application_workload(
    spec: str, num_ranks: int, *, places: Places | None = None,
    builder: WorkloadBuilder | None = None, **options: Any,
) -> Workload:  # fmt: skip
    """Return the workload of an application on `num_ranks` ranks.

    Parameters
    ----------
    spec
        An application's name, with or without options: ``"hpcg"``, ``"hpcg:local=32x32x32"``.
    places
        Machines and processors of the ranks; by default, each rank has a machine of its own.
    builder
        Builder without operations, for applications that take one; by default, a `WorkloadBuilder`.
    **options
        Options of the application, in addition to those in the spec.

    Returns
    -------
    A workload whose name is a spec with all options; this spec makes the same workload again.

    Raises
    ------
    InputError
        If the application or an option is unknown, or a value is invalid for every number of ranks.
    NotApplicable
        If the application does not exist for this number of ranks; the message gives the number
        and the reason.
    """
    entry, own_options = application.parse(spec, options)
    others: dict[str, Any] = {}
    if entry.facts.get("passes_on"):
        others = {key: own_options.pop(key) for key in [*own_options] if key not in entry.options}
    bound = application.bind(entry, own_options)
    if num_ranks < 1:
        raise InputError(f"{entry.name}: ranks must be at least 1, not {num_ranks}")
    if num_ranks > MAX_RANKS:
        raise InputError(f"{entry.name}: {num_ranks:,} ranks; at most {MAX_RANKS:,} are possible")
    if num_ranks < 2:
        raise NotApplicable(f"{entry.name} needs at least 2 ranks, not 1")
    passed: dict[str, Any] = {"arguments": others} if others else {}
    if _depends(entry):
        passed["places"] = places or Places.one_each(num_ranks)
    if "builder" in signature(entry.function).parameters:
        passed["builder"] = builder or WorkloadBuilder(num_ranks)
    elif builder is not None:
        raise NotApplicable(f"{entry.name} takes no builder of another kind")
    try:
        workload: Workload = entry.function(num_ranks, **bound, **passed)
    except InputError as error:
        raise InputError(f"{entry.name}: {error}") from None
    return replace(workload, name=entry.text({**entry.complete(bound), **others}))


def depends_on_places(spec: str) -> bool:
    """Return whether a spec is that of an application with the parameter ``places``."""
    name = spec.partition(":")[0].strip()
    known = application.has_module_of(name) or (application.has_plugins() and name in application)
    return known and _depends(application[name])


def _depends(entry: Entry) -> bool:
    return "places" in signature(entry.function).parameters


# -- for the files of applications -----------------------------------------------------------------


def need(condition: bool, message: str) -> None:
    """Refuse a value that is invalid for every number of ranks."""
    if not condition:
        raise InputError(message)


def at_least(least: int, **options: float | None) -> None:
    """Refuse options below a minimum; an option of None was left out and is accepted."""
    for name, value in options.items():
        need(value is None or value >= least, f"{name} must be at least {least}, not {value}")


def check_messages(ranks: int | WorkloadBuilder, messages: float) -> None:
    """Refuse more messages than fit in memory or can be built within minutes.

    `ranks`: number of ranks; or the builder, which may store those of many ranks together.
    """
    num_ranks = ranks if isinstance(ranks, int) else ranks.num_ranks
    if messages > num_ranks * float(MAX_STEPS):
        raise NotApplicable(
            f"each of {num_ranks} ranks sends {messages / num_ranks:,.0f} messages; at most "
            f"{MAX_STEPS:,} are possible; reduce the number of iterations"
        )
    if messages > MAX_MESSAGES and not isinstance(ranks, RolledBuilder):
        raise OutOfMemory(
            f"{num_ranks} ranks send {messages:,.0f} messages; at most {MAX_MESSAGES:,} are "
            "possible; choose options that give fewer, or the flow level, at which operations that "
            "ranks have in common count once"
        )


def check_size(size_bytes: int) -> int:
    """Return the size; refuse messages of more than 2^56 bytes."""
    need(size_bytes <= MAX_BYTES, f"{float(size_bytes):.3g} bytes are too many; at most 2^56")
    return size_bytes


def generator(seed: int, *streams: int) -> np.random.Generator:
    """Return the random generator of a seed and a stream; streams are independent of each other."""
    need(seed >= 0, f"seed must be at least 0, not {seed}")
    return np.random.default_rng([seed, *streams] if streams else seed)


def barrier(builder: WorkloadBuilder) -> None:
    """Add a barrier of all ranks that belongs to no phase."""
    builder.phase("")
    barrier_here(builder)


def barrier_here(builder: WorkloadBuilder) -> None:
    """Add a barrier of all ranks to the current phase."""
    collective_on(builder, "barrier", all_ranks(builder), 0)


def allreduce(builder: WorkloadBuilder, size_bytes: int) -> None:
    """Add an MPI_Allreduce of all ranks with the algorithm that MPICH selects."""
    collective_on(builder, "allreduce", all_ranks(builder), size_bytes)


def all_ranks(builder: WorkloadBuilder) -> NDArray[np.int64]:
    """Return all ranks, int64 [ranks]."""
    return np.arange(builder.num_ranks, dtype=np.int64)


def numbered(name: str, index: int, count: int) -> str:
    """Return the name of a repeated phase, numbered from 1 if there is more than one."""
    return name if count == 1 else f"{name} {index + 1}"


def alltoallv(
    builder: WorkloadBuilder,
    groups: NDArray[np.int64],
    size_bytes: NDArray[np.int64],
    *,
    algorithm: str | None = None,
) -> None:
    """Add an MPI_Alltoallv within each of several disjoint groups of ranks.

    `groups` [groups, members]: ranks of each group. `size_bytes` [groups, senders, receivers]:
    bytes that each member sends to each member. `algorithm`: algorithm of the collective; if left
    out, the one that MPICH selects.
    """
    for members, sizes in zip(groups, size_bytes, strict=True):
        collective_on(builder, "alltoallv", members, sizes, algorithm=algorithm)


def group_size(num_ranks: int, given: int | None, most: int, name: str) -> int:
    """Return the size of a group: `given`, or a default that divides `num_ranks`.

    The default is the largest divisor up to `most`, or `num_ranks` if that divisor is 1.
    """
    if given is None:
        fits = [size for size in range(2, min(most, num_ranks) + 1) if num_ranks % size == 0]
        return fits[-1] if fits else num_ranks
    at_least(2, **{name: given})
    if num_ranks % given:
        raise NotApplicable(f"{num_ranks} ranks cannot be divided into groups of {name}={given}")
    return given


def popularity(count: int, skew: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Return shuffled shares by Zipf's law, float64 [count]: proportional to n^-skew, n from 1."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -skew
    return random.permutation(weights / weights.sum())


def in_order(
    builder: WorkloadBuilder,
    ranks: NDArray[np.int64],
    kind: NDArray[np.uint8],
    *,
    peer: NDArray[np.int64],
    size_bytes: ArrayLike,
    tag: ArrayLike = 0,
    duration_ns: ArrayLike = 0.0,
) -> None:
    """Add many blocking operations at once; each waits for the previous operation of its rank.

    `ranks` [ops]: rank of each operation; the operations of a rank are in program order. `kind`,
    `peer`, `size_bytes`, `tag`, `duration_ns`: as in `WorkloadBuilder.operations`.
    """
    if not len(ranks):
        return
    active = np.unique(ranks)
    before = np.full(builder.num_ranks, -1, dtype=np.int64)
    before[active] = builder.calc(active, 0.0)
    ops = builder.operations(
        ranks, kind, peer=peer, size_bytes=size_bytes, tag=tag, duration_ns=duration_ns
    )
    by_rank = np.argsort(ranks, kind="stable")
    sorted_ops, sorted_ranks = ops[by_rank], ranks[by_rank]
    first = np.ones(len(sorted_ops), dtype=np.bool_)
    first[1:] = sorted_ranks[1:] != sorted_ranks[:-1]
    previous = np.empty_like(sorted_ops)
    previous[1:] = sorted_ops[:-1]
    previous[first] = before[sorted_ranks[first]]
    builder.requires(sorted_ops, previous)
    builder.wait(active, sorted_ops[np.append(first[1:], True)])


def shares(total: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Divide an integer in proportion to weights; cumulative rounding makes the sum exact."""
    need(0 <= total <= MAX_BYTES, f"{total} bytes are out of range; expected 0 to 2^56")
    edges = np.cumsum(weights) / np.sum(weights)
    edges[-1] = 1.0
    marks = np.rint(edges * total).astype(np.int64)
    return np.diff(marks, prepend=0)


def per_size(values: tuple[int, ...], sizes: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Return one value per size; a single value applies to all sizes."""
    need(
        len(values) in (1, len(sizes)),
        f"{name} must be one number or one for each of the {len(sizes)} sizes, not {len(values)}",
    )
    need(min(values) >= 1, f"{name} must be at least 1, not {min(values)}")
    return values if len(values) == len(sizes) else values * len(sizes)


def check_sizes(sizes: tuple[int, ...]) -> None:
    """Refuse an empty list of message sizes."""
    need(len(sizes) > 0, "sizes must hold at least one size")
