"""The shuffle of MapReduce: every reducer fetches its part from every mapper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import (
    application,
    at_least,
    check_messages,
    generator,
    need,
    popularity,
    shares,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Kind, Workload

Ints = NDArray[np.int64]


@application(
    "shuffle",
    aliases=("mapreduce",),
    source="Dean and Ghemawat 2004; Hadoop's parallel copies",
    seeded={"skew": 1.0},
    draws=lambda options: options["skew"] > 0,
)
def shuffle(
    num_ranks: int,
    *,
    size: Bytes = 2**24,
    mappers: int | None = None,
    reducers: int | None = None,
    skew: float = 0.0,
    parallel: int = 5,
    map_time: Nanoseconds = 0.0,
    reduce_time: Nanoseconds = 0.0,
    seed: int = 0,
) -> Workload:
    """Divide the output of each mapper among the reducers, which fetch it.

    A reducer fetches from `parallel` mappers at once, waits for these fetches and continues with
    the next mappers; reducer j begins with mapper j. A mapper starts all its sends after its
    calculation; a part sent by rendezvous is transferred when its reducer posts the receive. Empty
    parts and parts for the mapper's own rank are not sent.

    Parameters
    ----------
    size
        Output of a mapper in bytes.
    mappers, reducers
        Number of mappers and of reducers; mappers are the first ranks, reducers the last. By
        default, all ranks are mappers and reducers.
    skew
        Exponent s of Zipf's law: the n-th largest part is proportional to n^-s; 0 gives equal
        parts.
    parallel
        Number of concurrent fetches of a reducer; the default is Hadoop's.
    map_time, reduce_time
        Calculation time of a mapper before the shuffle, and of a reducer after it.
    seed
        Seed of the assignment of part sizes to reducers.
    """
    at_least(1, mappers=mappers, reducers=reducers, parallel=parallel)
    need(0 <= skew < float("inf"), f"skew must be 0 or more, not {skew}")
    sources = num_ranks if mappers is None else mappers
    targets = num_ranks if reducers is None else reducers
    if max(sources, targets) > num_ranks:
        raise NotApplicable(
            f"mappers and reducers must be at most the {num_ranks} ranks, "
            f"not {max(sources, targets)}"
        )
    check_messages(num_ranks, sources * targets)
    parts = shares(size, popularity(targets, skew, generator(seed)))
    builder = WorkloadBuilder(num_ranks)
    mapper = np.arange(sources, dtype=np.int64)
    reducer = np.arange(num_ranks - targets, num_ranks, dtype=np.int64)
    if map_time:
        builder.phase("map")
    mapped = builder.calc(mapper, map_time)
    builder.phase("shuffle")
    offered = _offer(builder, mapper, reducer, parts, mapped)
    _fetch(builder, mapper, reducer, parts, parallel)
    builder.wait(mapper, offered)
    if reduce_time:
        builder.phase("reduce")
        builder.calc(reducer, reduce_time)
    return builder.build()


def _offer(
    builder: WorkloadBuilder, mapper: Ints, reducer: Ints, parts: Ints, mapped: Ints
) -> Ints:
    """Add all sends of all mappers; return their handles, int64 [steps, mappers]; -1 for no send.

    In step s mapper i sends to the reducers j with j + s = i modulo the number of mappers.
    """
    sources, targets = len(mapper), len(reducer)
    rounds = -(-targets // sources)
    index, source = np.divmod(np.arange(sources * rounds * sources, dtype=np.int64), sources)
    step, block = np.divmod(index, rounds)
    target = (source - step) % sources + block * sources
    sends = target < targets
    sends[sends] = parts[target[sends]] > 0
    sends[sends] = reducer[target[sends]] != source[sends]
    handles = np.full(len(target), -1, dtype=np.int64)
    handles[sends] = builder.operations(
        source[sends], Kind.SEND, peer=reducer[target[sends]], size_bytes=parts[target[sends]]
    )
    builder.requires(handles[sends], mapped[source[sends]])
    return handles.reshape(-1, sources)


def _fetch(
    builder: WorkloadBuilder, mapper: Ints, reducer: Ints, parts: Ints, parallel: int
) -> None:
    """Add the receives of all reducers, `parallel` at a time; reducer j begins with mapper j."""
    index = np.arange(len(reducer), dtype=np.int64)
    handles: list[Ints] = []
    for step in range(len(mapper)):
        source = (index + step) % len(mapper)
        moves = (parts > 0) & (source != reducer)
        row = np.full(len(reducer), -1, dtype=np.int64)
        row[moves] = builder.irecv(reducer[moves], source[moves], parts[moves])
        handles.append(row)
        if len(handles) == parallel or step + 1 == len(mapper):
            builder.wait(reducer, np.stack(handles))
            handles = []
