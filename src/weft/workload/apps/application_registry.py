"""The registry of applications, and what they share.

Entries carry the fact `source`: what describes the program, or the program itself. Three more are
for those that need them: `passes_on`, what takes the options that the entry does not know; `small`,
options that make it quick for contract tests; `seeded`, options without which the seed decides
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.registry import Registry
from weft.core.units import MAX_BYTES
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.workload import Workload

application = Registry(
    "application", "weft.workload.apps", "weft.applications", pipeline=("num_ranks", "arguments")
)

#: Most ranks of an application.
MAX_RANKS = 2**20
#: Most messages that an application sends: with their receives, some 4 GB while they are written.
MAX_MESSAGES = 2**24
#: Most messages of one rank: written one after the other, they take a minute.
MAX_STEPS = 2**18


def application_workload(spec: str, num_ranks: int, **options: Any) -> Workload:
    """What an application of so many ranks computes and sends.

    Parameters
    ----------
    spec
        An application's name, with or without options: ``"hpcg"``, ``"hpcg:local=32x32x32"``.
    num_ranks
        Ranks, numbered from 0.
    **options
        Options of the application, besides those in the spec.

    Returns
    -------
    A workload whose name is a spec that holds every option, and gives the same workload.

    Raises
    ------
    InputError
        On an unknown application or option, or a value that the application never takes.
    NotApplicable
        When the application does not exist for this number of ranks; the text gives the number
        and the reason.
    """
    entry, given = application.parse(spec, options)
    others: dict[str, Any] = {}
    if entry.facts.get("passes_on"):
        others = {key: given.pop(key) for key in [*given] if key not in entry.options}
    bound = application.bind(entry, given)
    if num_ranks < 1:
        raise InputError(f"{entry.name}: there cannot be {num_ranks} ranks")
    if num_ranks > MAX_RANKS:
        raise InputError(f"{entry.name}: {num_ranks:,} ranks; at most {MAX_RANKS:,} are possible")
    if num_ranks < 2:
        raise NotApplicable(f"{entry.name} needs at least 2 ranks, and there is 1")
    passed = {"arguments": others} if others else {}
    try:
        workload: Workload = entry.function(num_ranks, **bound, **passed)
    except InputError as error:
        raise InputError(f"{entry.name}: {error}") from None
    return replace(workload, name=entry.text({**entry.complete(bound), **others}))


# -- for the files of applications -----------------------------------------------------------------


def need(condition: bool, message: str) -> None:
    """Refuse a value that no number of ranks makes right.

    Raises
    ------
    InputError
        With the message, when the condition does not hold.
    """
    if not condition:
        raise InputError(message)


def at_least(least: int, **options: float | None) -> None:
    """Refuse options below a least value; None is no value.

    Raises
    ------
    InputError
        Naming the option.
    """
    for name, value in options.items():
        need(value is None or value >= least, f"{name} must be at least {least}, not {value}")


def check_messages(num_ranks: int, messages: float) -> None:
    """Refuse to write more messages than fit in memory, or take more than minutes to write.

    Raises
    ------
    NotApplicable
        When there are more than `MAX_MESSAGES`, or more than `MAX_STEPS` for each rank.
    """
    if messages > num_ranks * float(MAX_STEPS):
        raise NotApplicable(
            f"each of {num_ranks} ranks sends {messages / num_ranks:,.0f} messages, and at most "
            f"{MAX_STEPS:,} are written down one after the other; fewer iterations give fewer"
        )
    if messages > MAX_MESSAGES:
        raise NotApplicable(
            f"{num_ranks} ranks send {messages:,.0f} messages, and at most {MAX_MESSAGES:,} are "
            "written down; its options give fewer"
        )


def check_size(size_bytes: int) -> int:
    """Refuse messages of more than 2^56 bytes; the size itself.

    Raises
    ------
    InputError
        When they are larger.
    """
    need(size_bytes <= MAX_BYTES, f"{float(size_bytes):.3g} bytes are too many; at most 2^56")
    return size_bytes


def generator(seed: int, *streams: int) -> np.random.Generator:
    """The random numbers of a seed; those of different streams are independent.

    Raises
    ------
    InputError
        When the seed is negative.
    """
    need(seed >= 0, f"seed must be at least 0, not {seed}")
    return np.random.default_rng([seed, *streams] if streams else seed)


def barrier(builder: WorkloadBuilder) -> None:
    """Let all ranks wait for each other, outside phases."""
    builder.phase("")
    barrier_here(builder)


def barrier_here(builder: WorkloadBuilder) -> None:
    """Let all ranks wait for each other, within the phase that there is."""
    collective_on(builder, "barrier", everyone(builder), 0)


def allreduce(builder: WorkloadBuilder, size_bytes: int) -> None:
    """Reduce to all ranks, by the algorithm that MPICH takes."""
    collective_on(builder, "allreduce", everyone(builder), size_bytes)


def everyone(builder: WorkloadBuilder) -> NDArray[np.int64]:
    """int64 [ranks]: all ranks."""
    return np.arange(builder.num_ranks, dtype=np.int64)


def numbered(name: str, turn: int, turns: int) -> str:
    """Name of a phase that comes several times: numbered from 1 when there are more than one."""
    return name if turns == 1 else f"{name} {turn + 1}"


def alltoallv(
    builder: WorkloadBuilder,
    groups: NDArray[np.int64],
    size_bytes: NDArray[np.int64],
    *,
    algorithm: str | None = None,
) -> None:
    """MPI_Alltoallv within each of several groups that share no rank.

    Parameters
    ----------
    builder
        Whose programs grow.
    groups
        int64 [groups, members], ranks of each group.
    size_bytes
        int64 [groups, members, members]: from the first member to the second.
    algorithm
        Of the collective; as in MPICH when left out.
    """
    for members, sizes in zip(groups, size_bytes, strict=True):
        collective_on(builder, "alltoallv", members, sizes, algorithm=algorithm)


def group_size(num_ranks: int, asked: int | None, most: int, name: str) -> int:
    """Ranks of a group: as asked, else the largest divisor up to `most`, else all ranks.

    Raises
    ------
    InputError
        When fewer than 2 are asked for.
    NotApplicable
        When the ranks are no whole number of groups.
    """
    if asked is None:
        fits = [size for size in range(2, min(most, num_ranks) + 1) if num_ranks % size == 0]
        return fits[-1] if fits else num_ranks
    at_least(2, **{name: asked})
    if num_ranks % asked:
        raise NotApplicable(f"{num_ranks} ranks are no whole number of groups of {name}={asked}")
    return asked


def popularity(count: int, skew: float, random: np.random.Generator) -> NDArray[np.float64]:
    """float64 [count]: shares by Zipf's law, the n-th as n^-skew, in random order."""
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
    """Add many blocking operations at once: each waits for the rank's one before it.

    Parameters
    ----------
    ranks
        int64 [ops]: the rank of each; the operations of a rank are in program order.
    kind, peer, size_bytes, tag, duration_ns
        As `WorkloadBuilder.operations` takes them.
    """
    if not len(ranks):
        return
    taking = np.unique(ranks)
    before = np.full(builder.num_ranks, -1, dtype=np.int64)
    before[taking] = builder.calc(taking, 0.0)
    ops = builder.operations(
        ranks, kind, peer=peer, size_bytes=size_bytes, tag=tag, duration_ns=duration_ns
    )
    by_rank = np.argsort(ranks, kind="stable")
    mine, sorted_ranks = ops[by_rank], ranks[by_rank]
    first = np.ones(len(mine), dtype=np.bool_)
    first[1:] = sorted_ranks[1:] != sorted_ranks[:-1]
    previous = np.empty_like(mine)
    previous[1:] = mine[:-1]
    previous[first] = before[sorted_ranks[first]]
    builder.requires(mine, previous)
    builder.wait(taking, mine[np.append(first[1:], True)])


def shares(total: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """A whole number divided by weights: cumulative rounding, so that the parts add up to it.

    Raises
    ------
    InputError
        When the total is above 2^56.
    """
    need(0 <= total <= MAX_BYTES, f"{total} bytes are not possible; expected 0 to 2^56")
    edges = np.cumsum(weights) / np.sum(weights)
    edges[-1] = 1.0
    marks = np.rint(edges * total).astype(np.int64)
    return np.diff(marks, prepend=0)


def per_size(values: tuple[int, ...], sizes: tuple[int, ...], name: str) -> tuple[int, ...]:
    """One value for each size, when one is given for all or one for each.

    Raises
    ------
    InputError
        On another number of values, or one below 1.
    """
    need(
        len(values) in (1, len(sizes)),
        f"{name} takes one number, or one for each of the {len(sizes)} sizes, not {len(values)}",
    )
    need(min(values) >= 1, f"{name} must be at least 1, not {min(values)}")
    return values if len(values) == len(sizes) else values * len(sizes)


def check_sizes(sizes: tuple[int, ...]) -> None:
    """Refuse an empty list of message sizes.

    Raises
    ------
    InputError
        When there is none.
    """
    need(len(sizes) > 0, "sizes must hold at least one size")
