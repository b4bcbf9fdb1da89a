"""Two jobs side by side, of which one does I/O and the other computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import application, generator
from weft.workload.patterns import pattern as patterns
from weft.workload.patterns import servers as io_servers
from weft.workload.sources import REQUEST_BYTES, Distribution, OpenLoop, open_loop_jobs
from weft.workload.workload import Workload

Half = Literal["lower", "upper"]


@application(
    "io-and-compute",
    source="Petrini et al. 2003, section 4.7",
    passes_on="the traffic pattern of the compute job",
    small={"io_size": 4096, "size": 4096, "duration": 200_000.0},
)
def io_and_compute(
    num_ranks: int,
    *,
    servers: int | None = None,
    mapping: io_servers.Mapping = "clustered",
    dedicated: bool = False,
    compute_half: Half = "lower",
    choice: io_servers.Choice = "random",
    write_share: float = 0.5,
    request: Bytes = REQUEST_BYTES,
    io_load: float = 0.3,
    io_size: Bytes = 2**20,
    io_size_distribution: Distribution = "fixed",
    io_interarrival: Distribution = "exponential",
    pattern: str = "uniform",
    load: float = 0.5,
    size: Bytes = 2**18,
    size_distribution: Distribution = "fixed",
    interarrival: Distribution = "exponential",
    rate_gbps: float = 100.0,
    duration: Nanoseconds = 10_000_000.0,
    warmup: Nanoseconds = 0.0,
    seed: int = 0,
    arguments: Mapping[str, Any] | None = None,
) -> Workload:
    """Send open-loop traffic of a compute job on half of the ranks and an I/O job on the others.

    The phases of the jobs are called ``compute: measured``, ``io: measured`` and so on; requests of
    reads are in the phase ``io: requests``.

    Parameters
    ----------
    servers, mapping
        Number and location of the I/O servers, as in the pattern `io`.
    dedicated
        Whether jobs use only ranks that are not servers; otherwise they use all ranks, and the
        servers are also ranks of a job (shared I/O).
    compute_half
        Half of the ranks that the compute job uses; with an odd number, the lower half has one
        more. With clustered servers, `lower` is the paper's case 1c, and `upper` is 1i.
    choice
        Choice of the server, as in the pattern `io`.
    write_share, request
        Probability that a transfer of the I/O job is a write, and size of the request of a read.
    io_load, io_size
        Load and mean size of the I/O job, as in `open-loop`.
    io_size_distribution, io_interarrival
        Distributions of the I/O job, as in `open-loop`.
    pattern
        Name of the traffic pattern of the compute job. Options that are not listed here are options
        of the pattern.
    load, size, size_distribution, interarrival
        Load, mean size and distributions of the compute job, as in `open-loop`.
    rate_gbps
        Rate that both loads are relative to, such as the rate of a host's cable.
    duration, warmup
        Time for which sources send in the phases ``measured``, and before it in ``warm-up``.
    seed
        Seed of all draws, including those of the patterns.
    """
    serving = io_servers.servers_of(num_ranks, servers, mapping)
    compute, clients = halves(num_ranks, serving, dedicated, compute_half)
    if len(compute) < 2:
        raise NotApplicable(
            f"io-and-compute on {num_ranks} ranks leaves the compute job {len(compute)}; it needs 2"
        )
    seeds = generator(seed).integers(2**32, size=2)
    options = dict(arguments or {})
    if "seed" in patterns[pattern].options:
        options["seed"] = int(seeds[0])
    io_options = {
        "hosts": tuple(serving.tolist()),
        "clients": tuple(clients.tolist()),
        "choice": choice,
        "seed": int(seeds[1]),
    }
    jobs = [
        OpenLoop(
            pattern, load, size, size_distribution, interarrival, ranks=compute, name="compute",
            options=options,
        ),
        OpenLoop(
            "io", io_load, io_size, io_size_distribution, io_interarrival, write_share, request,
            name="io", options=io_options,
        ),
    ]  # fmt: skip
    return open_loop_jobs(
        num_ranks, jobs, rate_gbps=rate_gbps, duration_ns=duration, warmup_ns=warmup, seed=seed
    )


def halves(
    num_ranks: int, serving: NDArray[np.int64], dedicated: bool, compute_half: Half
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ranks of the compute job and those of the I/O job."""
    ranks = np.arange(num_ranks)
    if dedicated:
        ranks = np.setdiff1d(ranks, serving)
    lower, upper = np.split(ranks, [(len(ranks) + 1) // 2])
    return (lower, upper) if compute_half == "lower" else (upper, lower)
