"""Open-loop traffic as an application, so that commands and experiments reach it by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import application
from weft.workload.apps.one_shot import pattern_spec
from weft.workload.patterns import pattern as patterns
from weft.workload.sources import Distribution
from weft.workload.sources import open_loop as write
from weft.workload.workload import Workload


@application(
    "open-loop",
    source="Dally and Towles 2004, section 23.1",
    passes_on="the traffic pattern",
    positional=("pattern",),
)
def open_loop(
    num_ranks: int,
    *,
    pattern: str = "uniform",
    load: float = 0.5,
    rate_gbps: float = 100.0,
    size: Bytes = 4096,
    size_distribution: Distribution = "fixed",
    interarrival: Distribution = "exponential",
    duration: Nanoseconds = 100_000.0,
    warmup: Nanoseconds = 0.0,
    seed: int = 0,
    arguments: Mapping[str, Any] | None = None,
) -> Workload:
    """Sources send at an offered load: ``open-loop:pattern=uniform,load=0.3,rate_gbps=200``.

    Exact distributions stand at `weft.workload.sources.open_loop`.

    Parameters
    ----------
    num_ranks
        Ranks.
    pattern
        Name of a traffic pattern. All options that are not named here are the pattern's.
    load
        Mean rate of a source over `rate_gbps`.
    rate_gbps
        Rate to which the load relates, such as that of the cable of a host.
    size
        Mean of a message.
    size_distribution, interarrival
        `fixed`, `uniform` or `exponential`.
    duration, warmup
        How long sources send before and after the warm-up ends; the phases are ``warm-up`` and
        ``measured``.
    seed
        Of all draws, the pattern's too.
    arguments
        The pattern's options.
    """
    given = dict(arguments or {})
    if "seed" in patterns[pattern].options:
        given["seed"] = seed
    return write(
        num_ranks, pattern_spec(pattern, given), load=load, rate_gbps=rate_gbps, size=size,
        size_distribution=size_distribution, interarrival=interarrival, duration_ns=duration,
        warmup_ns=warmup, seed=seed,
    )  # fmt: skip
