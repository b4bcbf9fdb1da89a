"""The shuffle of MapReduce: every reducer fetches its part from every mapper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.errors import NotApplicable
from weft.units import Bytes, Nanoseconds
from weft.workload.apps.base import (
    application,
    at_least,
    check_messages,
    generator,
    need,
    popularity,
    shares,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload


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
    place = np.arange(targets, dtype=np.int64)
    reducer = place + num_ranks - targets
    if map_time:
        builder.phase("map")
        builder.calc(mapper, map_time)
    builder.phase("shuffle")
    for step in range(sources):
        source = (place + step) % sources
        moves = (parts > 0) & (source != reducer)
        # More reducers than mappers: a mapper then serves several in one step.
        for start in range(0, targets, sources):
            some = np.arange(start, min(start + sources, targets))
            some = some[moves[some]]
            builder.isend(source[some], reducer[some], parts[some])
    handles: list[NDArray[np.int64]] = []
    for step in range(sources):
        source = (place + step) % sources
        moves = (parts > 0) & (source != reducer)
        row = np.full(targets, -1, dtype=np.int64)
        row[moves] = builder.irecv(reducer[moves], source[moves], parts[moves])
        handles.append(row)
        if len(handles) == parallel or step == sources - 1:
            builder.wait(reducer, np.stack(handles))
            handles = []
    builder.waitall()
    if reduce_time:
        builder.phase("reduce")
        builder.calc(reducer, reduce_time)
    return builder.build()
