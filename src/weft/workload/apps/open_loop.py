"""Open-loop traffic as an application, available by name to commands and experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import application
from weft.workload.apps.one_shot import pattern_spec
from weft.workload.patterns import pattern as patterns
from weft.workload.sources import REQUEST_BYTES, Distribution
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
    write_share: float = 1.0,
    request: Bytes = REQUEST_BYTES,
    duration: Nanoseconds = 100_000.0,
    warmup: Nanoseconds = 0.0,
    seed: int = 0,
    arguments: Mapping[str, Any] | None = None,
) -> Workload:
    """Send at an offered load: ``open-loop:pattern=uniform,load=0.3,rate_gbps=200``.

    `weft.workload.sources.OpenLoop` documents the exact distributions.

    Parameters
    ----------
    pattern
        Name of a traffic pattern. Options that are not listed here are options of the pattern.
    load
        Mean rate of a source divided by `rate_gbps`.
    rate_gbps
        Rate that the load is relative to, such as the rate of a host's cable.
    size
        Mean message size in bytes.
    size_distribution, interarrival
        Distribution of sizes and of times between messages: `fixed`, `uniform` or `exponential`.
    write_share
        Probability that a transfer is a write; else it is a read: a request, and the data that the
        destination returns when the request has arrived.
    request
        Size of the request of a read.
    duration, warmup
        Time for which sources send in phase ``measured``, and in phase ``warm-up`` before it.
    seed
        Seed of all draws, including those of the pattern.
    """
    options = dict(arguments or {})
    if "seed" in patterns[pattern].options:
        options["seed"] = seed
    return write(
        num_ranks, pattern_spec(pattern, options), load=load, rate_gbps=rate_gbps, size=size,
        size_distribution=size_distribution, interarrival=interarrival, write_share=write_share,
        request_bytes=request, duration_ns=duration, warmup_ns=warmup, seed=seed,
    )  # fmt: skip
