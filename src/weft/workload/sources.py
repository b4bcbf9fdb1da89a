"""Open-loop sources: messages that are generated at times independent of the network's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import finite_number, need_memory, whole_number
from weft.core.errors import InputError, NotApplicable
from weft.core.units import MAX_BYTES, parse_bytes, parse_duration_ns
from weft.workload.patterns import pattern, traffic
from weft.workload.workload import Kind, Workload

Distribution = Literal["fixed", "uniform", "exponential"]

#: Names of the phases of messages before and after the end of the warm-up.
WARM_UP, MEASURED = "warm-up", "measured"
#: Largest number of messages of a workload; generating them takes about 8 GB.
MAX_MESSAGES = 2**26
#: Largest number of intervals that are drawn at once.
_BLOCK = 2**22


def open_loop(
    num_ranks: int,
    spec: str = "uniform",
    *,
    load: float = 0.5,
    rate_gbps: float,
    size: str | int = 4096,
    size_distribution: Distribution = "fixed",
    interarrival: Distribution = "exponential",
    duration_ns: str | float = 100_000.0,
    warmup_ns: str | float = 0.0,
    seed: int = 0,
) -> Workload:
    """Generate messages of independent sources at an offered load, as puts without dependencies.

    A source is a rank from which the pattern has a flow; other ranks send nothing. Each source
    sends at the times of an independent renewal process with mean interval
    T = 8 size / (load · rate_gbps) ns, from time 0 to before warmup + duration:

    - ``fixed``: one message every T; the first at a time drawn uniformly from 0 to T, so that
      sources are not synchronised.
    - ``uniform``: intervals drawn uniformly from 0 to 2T.
    - ``exponential``: exponential intervals, a Poisson process.

    In the last two cases, the first message is sent after one such interval. The size of each
    message is drawn independently; its expected value is `size` exactly:

    - ``fixed``: all sizes are `size`.
    - ``uniform``: each whole number from 1 to 2 size - 1 with equal probability.
    - ``exponential``: the geometric distribution on 1, 2, ..., that is, the exponential one rounded
      up to whole bytes; sizes are limited to 2^56.

    Each message follows one of the pattern's flows from the message's source. A pattern with an
    option `flows` (uniform, hot-spot) draws a new flow for every message, unless `flows` is given.
    Otherwise the flows are drawn once, from the pattern's own seed, and each message of a source
    takes one of the source's flows with equal probability.

    Parameters
    ----------
    num_ranks
        Number of ranks, which are the hosts of the pattern.
    spec
        A traffic pattern's name, with or without options.
    load
        Offered load: mean rate of a source divided by `rate_gbps`. It is above 0; if it is above 1,
        queues grow without limit.
    rate_gbps
        Rate at a load of 1, such as the rate of an adapter's link.
    size
        Mean size in bytes, 1 or more, or text such as ``4KiB``.
    size_distribution, interarrival
        ``"fixed"``, ``"uniform"`` or ``"exponential"``.
    duration_ns
        Time for which sources send after the warm-up, as a number of ns or text such as ``1ms``.
    warmup_ns
        Messages sent before this time are in the phase ``warm-up``, later ones in ``measured``.
    seed
        Seed of intervals, sizes and choices among flows.

    Returns
    -------
    A workload of puts with release times, which ascend within a rank.

    Raises
    ------
    InputError
        If a pattern, option or distribution is unknown, or a value is out of range.
    NotApplicable
        When the pattern does not exist for this number of ranks, or there would be more
        than `MAX_MESSAGES` messages.
    """
    mean, duration, warmup = _checked(
        size, load, rate_gbps, duration_ns, warmup_ns, size_distribution, interarrival, seed
    )
    interval = 8 * mean / (load * rate_gbps)
    end = warmup + duration
    entry, given = pattern.parse(spec)
    bound = pattern.bind(entry, given)
    flows = traffic(num_ranks, entry.name, **bound)
    sources = np.unique(flows.sources)
    expected = len(sources) * (end / interval + 1)
    if expected > MAX_MESSAGES:
        raise NotApplicable(
            f"{len(sources)} sources send about {expected:.3g} messages, more than the maximum of "
            f"{MAX_MESSAGES:,}; use a shorter duration"
        )
    times, sizes, choices = (np.random.default_rng([seed, stream]) for stream in range(3))
    need_memory(int(120 * expected), f"{expected:.3g} messages", "use a shorter duration")
    count, release = _arrivals(times, len(sources), interval, end, interarrival)
    if "flows" in entry.options and "flows" not in bound:
        most = max(1, int(count.max(initial=0)))
        target = _drawn_anew(num_ranks, entry.name, bound, most, sources, count)
    else:
        target = _among(choices, num_ranks, flows.sources, flows.destinations, sources, count)
    return _puts(
        f"open loop {spec} at {load:g} of {rate_gbps:g} Gb/s",
        num_ranks,
        np.repeat(sources, count),
        target,
        _sizes(sizes, mean, int(count.sum()), size_distribution),
        release,
        warmup,
    )


def _checked(
    size: str | int,
    load: float,
    rate_gbps: float,
    duration_ns: str | float,
    warmup_ns: str | float,
    size_distribution: str,
    interarrival: str,
    seed: int,
) -> tuple[int, float, float]:
    """Check all arguments, and return size, duration and warm-up as numbers."""

    def parse(name: str, value: Any, parser: Callable[[Any], Any]) -> Any:
        try:
            return parser(value)
        except (TypeError, ValueError) as error:
            raise InputError(f"open loop: {name}: {error}") from None

    mean = parse("size", size, parse_bytes)
    duration = parse("duration_ns", duration_ns, parse_duration_ns)
    warmup = parse("warmup_ns", warmup_ns, parse_duration_ns)
    known = ("fixed", "uniform", "exponential")
    for name, value in (("size_distribution", size_distribution), ("interarrival", interarrival)):
        if value not in known:
            raise InputError(f"open loop: {name} {value!r}; expected {', '.join(known)}")
    for name, number in (("load", load), ("rate_gbps", rate_gbps)):
        finite_number(number, f"open loop: {name}", above=True)
    if mean < 1:
        raise InputError(f"open loop: size must be at least 1, not {mean}")
    if duration <= 0:
        raise InputError("open loop: duration_ns must be above 0")
    whole_number(seed, "open loop: seed")
    return mean, duration, warmup


def _arrivals(
    random: np.random.Generator, sources: int, interval: float, end: float, kind: str
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each source's number of messages before the end, and all times, source by source."""
    if kind == "fixed":
        first = random.uniform(0.0, interval, sources)
        count = np.maximum(0, np.ceil((end - first) / interval)).astype(np.int64)
        index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return count, np.repeat(first, count) + index * interval
    counts, parts = [], []
    # Six standard deviations above the mean number of intervals; the loop draws more when needed.
    mean = end / interval
    width = int(mean + 6 * mean**0.5 + 10)
    rows = max(1, _BLOCK // width)
    for start in range(0, sources, rows):
        at = np.zeros((min(rows, sources - start), 0))
        while not at.shape[1] or at[:, -1].min() < end:
            shape = (len(at), width)
            if kind == "uniform":
                gaps = random.uniform(0.0, 2 * interval, shape)
            else:
                gaps = random.exponential(interval, shape)
            last = at[:, -1:] if at.shape[1] else 0.0
            at = np.concatenate([at, last + np.cumsum(gaps, axis=1)], axis=1)
        inside = at < end
        counts.append(inside.sum(axis=1))
        parts.append(at[inside])
    return np.concatenate(counts), np.concatenate(parts)


def _sizes(random: np.random.Generator, mean: int, count: int, kind: str) -> NDArray[np.int64]:
    if kind == "fixed":
        return np.full(count, mean, dtype=np.int64)
    if kind == "uniform":
        return random.integers(1, 2 * mean, count)
    return np.minimum(random.geometric(1.0 / mean, count), MAX_BYTES)


def _drawn_anew(
    num_ranks: int,
    name: str,
    bound: dict[str, Any],
    most: int,
    sources: NDArray[np.int64],
    count: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return a destination for each message, from `most` flows of the pattern per source."""
    flows = traffic(num_ranks, name, **{**bound, "flows": most})
    degree = np.bincount(flows.sources, minlength=num_ranks)
    starts = (np.cumsum(degree) - degree)[sources]
    index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    index %= np.repeat(degree[sources], count)
    by_source = flows.destinations[np.argsort(flows.sources, kind="stable")]
    chosen: NDArray[np.int64] = by_source[np.repeat(starts, count) + index]
    return chosen


def _among(
    random: np.random.Generator,
    num_ranks: int,
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    sending: NDArray[np.int64],
    count: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return a destination for each message, drawn among the flows of its source."""
    degree = np.bincount(sources, minlength=num_ranks)
    offset = np.cumsum(degree) - degree
    owner = np.repeat(sending, count)
    index = offset[owner] + random.integers(0, degree[owner])
    chosen: NDArray[np.int64] = destinations[np.argsort(sources, kind="stable")][index]
    return chosen


def _puts(
    name: str,
    num_ranks: int,
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    size: NDArray[np.int64],
    release: NDArray[np.float64],
    warmup: float,
) -> Workload:
    """Return the workload of the puts, which have no dependencies and need no matching."""
    ops = len(source)
    count = np.bincount(source, minlength=num_ranks)
    return Workload(
        name=name,
        op_offset=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        kind=np.full(ops, Kind.PUT, dtype=np.uint8),
        peer=target.astype(np.int32),
        size_bytes=size.astype(np.int64),
        tag=np.zeros(ops, dtype=np.int32),
        comm=np.zeros(ops, dtype=np.int32),
        duration_ns=np.zeros(ops),
        phase=np.where(release < warmup, 1, 2).astype(np.int32),
        phase_names=("", WARM_UP, MEASURED),
        dep_offset=np.zeros(ops + 1, dtype=np.int64),
        dep=np.zeros(0, dtype=np.int32),
        dep_on_start=np.zeros(0, dtype=np.bool_),
        match=np.full(ops, -1, dtype=np.int32),
        release_ns=release,
        cpu=np.zeros(0, dtype=np.uint8),
    )
