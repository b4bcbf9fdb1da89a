"""Traffic patterns as workloads: all flows of a pattern at once, in one or more rounds."""

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
    """Send all flows of a pattern at once: ``pattern:pattern=shift,offset=3,size=64KiB``.

    Parameters
    ----------
    pattern
        Name of the pattern. Options that are not listed here are options of the pattern.
    size
        Size of each message in bytes.
    rounds
        Number of rounds; a pattern with a seed uses the next seed in each round.
    barrier
        Add a barrier before each round but the first; else each rank waits only for its own
        messages.
    mode
        `put`: one-sided messages. `sendrecv`: each flow is a send and a receive, all started at
        once.
    """
    spec = pattern_spec(pattern, arguments or {})
    return pattern_workload(num_ranks, spec, size, rounds=rounds, barrier=barrier, mode=mode)


def pattern_spec(name: str, options: Mapping[str, Any]) -> str:
    """Return the spec of a pattern with options."""
    if ":" in name:
        raise InputError(
            f"pattern must be a name, not {name!r}: give the pattern's options separately"
        )

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
    """Return a workload that sends all flows of a pattern at once; one phase per round.

    - `num_ranks`: number of ranks, which are the hosts of the pattern.
    - `spec`: a pattern's name, with or without options: ``"shift:offset=3"``.
    - `rounds`: number of rounds; a pattern with a seed uses the next seed in each round.
    - `barrier`: add a barrier between rounds; else a rank begins the next round when its own
      messages have arrived.
    - `mode`: ``"put"``: messages without a receive. ``"sendrecv"``: each message is sent and
      received, and a rank starts all its receives and sends at once.
    """
    at_least(1, rounds=rounds)
    if mode not in ("put", "sendrecv"):
        raise InputError(f"mode must be put or sendrecv, not {mode!r}")
    entry, given = pattern.parse(spec)
    bound = pattern.bind(entry, given)
    flows = traffic(num_ranks, entry.name, **bound)
    builder = WorkloadBuilder(num_ranks, name=f"{flows.spec}, {size_bytes} B")
    seeded = "seed" in entry.options
    for index in range(rounds):
        if index and seeded:
            seed = bound.get("seed", entry.options["seed"].default)
            flows = traffic(num_ranks, entry.name, **{**bound, "seed": seed + index})
        check_messages(num_ranks, float(rounds) * len(flows))
        if index and barrier:
            wait_for_all(builder)
        builder.phase(numbered(entry.name, index, rounds))
        _at_once(builder, flows, size_bytes, mode)
    return builder.build()


def _at_once(builder: WorkloadBuilder, flows: Pairs, size: int, mode: Mode) -> None:
    if mode == "sendrecv":
        for indices in _by_appearance(flows.destinations):
            builder.irecv(flows.destinations[indices], flows.sources[indices], size)
    for indices in _by_appearance(flows.sources):
        call = builder.put if mode == "put" else builder.isend
        call(flows.sources[indices], flows.destinations[indices], size)
    builder.waitall()


def _by_appearance(ranks: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the indices of the first appearance of each rank, then of the second, and so on."""
    order = np.argsort(ranks, kind="stable")
    sorted_ranks = ranks[order]
    appearance = np.arange(len(order)) - np.searchsorted(sorted_ranks, sorted_ranks)
    by_appearance = np.argsort(appearance, kind="stable")
    bounds = np.flatnonzero(np.diff(appearance[by_appearance])) + 1
    return [order[part] for part in np.split(by_appearance, bounds)]
