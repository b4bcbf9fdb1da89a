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
    """Each mapper divides its output among the reducers, which fetch it.

    A reducer fetches from `parallel` mappers at once, waits for these and goes on; reducer j begins
    with mapper j. Mappers offer all they have when they are done: a part moves when its reducer
    asks for it, as far as messages are sent by rendez-vous. Empty parts and those that stay on one
    rank are not sent.

    Parameters
    ----------
    num_ranks
        Ranks.
    size
        Output of a mapper.
    mappers, reducers
        How many; mappers are the first ranks, reducers the last. All ranks are both where left
        out.
    skew
        Exponent s of Zipf's law: the n-th largest reducer gets a part that goes with n^-s. 0 gives
        all the same.
    parallel
        Fetches of a reducer at once; Hadoop's default.
    map_time, reduce_time
        Calculation before and after.
    seed
        Of which reducer gets how much.
    """
    at_least(1, mappers=mappers, reducers=reducers, parallel=parallel)
    need(0 <= skew < float("inf"), f"skew must be 0 or more, not {skew}")
    sources = num_ranks if mappers is None else mappers
    targets = num_ranks if reducers is None else reducers
    if max(sources, targets) > num_ranks:
        raise NotApplicable(
            f"{max(sources, targets)} mappers or reducers need as many ranks; there are {num_ranks}"
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
    """All sends of all mappers at once; handles, int64 [k, mappers], -1 for none.

    In step s a mapper i serves the reducers j with j + s = i modulo the mappers.
    """
    sources, targets = len(mapper), len(reducer)
    rounds = -(-targets // sources)
    turn, source = np.divmod(np.arange(sources * rounds * sources, dtype=np.int64), sources)
    step, block = np.divmod(turn, rounds)
    target = (source - step) % sources + block * sources
    there = target < targets
    there[there] = parts[target[there]] > 0
    there[there] = reducer[target[there]] != source[there]
    sent = np.full(len(target), -1, dtype=np.int64)
    sent[there] = builder.operations(
        source[there], Kind.SEND, peer=reducer[target[there]], size_bytes=parts[target[there]]
    )
    builder.requires(sent[there], mapped[source[there]])
    return sent.reshape(-1, sources)


def _fetch(
    builder: WorkloadBuilder, mapper: Ints, reducer: Ints, parts: Ints, parallel: int
) -> None:
    """Receives of all reducers, some at a time: reducer j begins with mapper j."""
    places = np.arange(len(reducer), dtype=np.int64)
    handles: list[Ints] = []
    for step in range(len(mapper)):
        source = (places + step) % len(mapper)
        moves = (parts > 0) & (source != reducer)
        row = np.full(len(reducer), -1, dtype=np.int64)
        row[moves] = builder.irecv(reducer[moves], source[moves], parts[moves])
        handles.append(row)
        if len(handles) == parallel or step + 1 == len(mapper):
            builder.wait(reducer, np.stack(handles))
            handles = []
