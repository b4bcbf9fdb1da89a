"""Traffic patterns as workloads: all flows of a pattern at once, once or in rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    application,
    at_least,
    check_messages,
    numbered,
)
from weft.workload.apps.application_registry import (
    barrier as wait_for_all,
)
from weft.workload.builder import WorkloadBuilder
from weft.workload.patterns import Pairs, pattern, traffic
from weft.workload.workload import Workload

Mode = Literal["put", "sendrecv"]


@application(
    "pattern", source="docs/patterns.md", passes_on="the traffic pattern", positional=("pattern",)
)
def pattern_application(
    num_ranks: int,
    *,
    pattern: str = "uniform",
    size: Bytes = 2**20,
    rounds: int = 1,
    barrier: bool = True,
    mode: Mode = "put",
    arguments: Mapping[str, Any] | None = None,
) -> Workload:
    """All flows of a traffic pattern at once: ``pattern:pattern=shift,offset=3,size=64KiB``.

    Parameters
    ----------
    num_ranks
        Ranks.
    pattern
        Name of the pattern. All options that are not named here are the pattern's.
    size
        Of each message.
    rounds
        How often; a pattern with a seed takes the next seed in each round.
    barrier
        All ranks wait for each other before each round but the first; else each waits for its own
        messages only.
    mode
        `put`: one-sided. `sendrecv`: each flow is sent and received, all at once.
    arguments
        The pattern's options.
    """
    spec = pattern_spec(pattern, arguments or {})
    return pattern_workload(num_ranks, spec, size, rounds=rounds, barrier=barrier, mode=mode)


def pattern_spec(name: str, options: Mapping[str, Any]) -> str:
    """The spec of a pattern with options.

    Raises
    ------
    InputError
        When the name already has options of its own.
    """
    if ":" in name:
        raise InputError(f"pattern {name!r} takes its options beside it, not after a colon")

    def text(value: Any) -> str:
        return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

    given = ",".join(f"{key}={text(value)}" for key, value in options.items())
    return f"{name}:{given}" if given else name


def pattern_workload(
    num_ranks: int,
    spec: str,
    size_bytes: int,
    *,
    rounds: int = 1,
    barrier: bool = True,
    mode: Mode = "put",
) -> Workload:
    """All flows of a traffic pattern at once, once or in rounds; a phase each round.

    Parameters
    ----------
    num_ranks
        Ranks, the pattern's hosts.
    spec
        A pattern's name, with or without options: ``"shift:offset=3"``.
    size_bytes
        Of each message.
    rounds
        How often. A pattern with a seed takes the next seed in each round.
    barrier
        All ranks wait for each other between rounds; else a rank begins the next round when its
        own messages have arrived.
    mode
        ``"put"``: messages that need no receive. ``"sendrecv"``: each is sent and received, all
        receives and sends of a rank at once.

    Raises
    ------
    InputError
        On an unknown pattern or option, or a value that does not fit.
    NotApplicable
        When the pattern does not exist for this number of ranks.
    """
    at_least(1, rounds=rounds)
    if mode not in ("put", "sendrecv"):
        raise InputError(f"mode must be put or sendrecv, not {mode!r}")
    entry, given = pattern.parse(spec)
    bound = pattern.bind(entry, given)
    flows = traffic(num_ranks, entry.name, **bound)
    builder = WorkloadBuilder(num_ranks, name=f"{flows.spec}, {size_bytes} B")
    seeded = "seed" in entry.options
    for turn in range(rounds):
        if turn and seeded:
            seed = bound.get("seed", entry.options["seed"].default)
            flows = traffic(num_ranks, entry.name, **{**bound, "seed": seed + turn})
        check_messages(num_ranks, float(rounds) * len(flows))
        if turn and barrier:
            wait_for_all(builder)
        builder.phase(numbered(entry.name, turn, rounds))
        _at_once(builder, flows, size_bytes, mode)
    return builder.build()


def _at_once(builder: WorkloadBuilder, flows: Pairs, size: int, mode: Mode) -> None:
    if mode == "sendrecv":
        for some in _turns(flows.destinations):
            builder.irecv(flows.destinations[some], flows.sources[some], size)
    for some in _turns(flows.sources):
        call = builder.put if mode == "put" else builder.isend
        call(flows.sources[some], flows.destinations[some], size)
    builder.waitall()


def _turns(ranks: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Places of the first, second, ... appearance of each rank."""
    order = np.argsort(ranks, kind="stable")
    sorted_ranks = ranks[order]
    turn = np.arange(len(order)) - np.searchsorted(sorted_ranks, sorted_ranks)
    by_turn = np.argsort(turn, kind="stable")
    bounds = np.flatnonzero(np.diff(turn[by_turn])) + 1
    return [order[part] for part in np.split(by_turn, bounds)]
