"""Open-loop sources: messages that are generated at times independent of the network's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.core.arguments import finite_number, need_memory, whole_number, whole_numbers
from weft.core.errors import InputError, NotApplicable
from weft.core.units import MAX_BYTES, parse_bytes, parse_duration_ns
from weft.workload.patterns import Pairs, pattern, traffic
from weft.workload.workload import Kind, Workload

Distribution = Literal["fixed", "uniform", "exponential"]

#: Names of the phases of messages before and after the end of the warm-up, and of the requests of
#: reads.
WARM_UP, MEASURED, REQUESTS = "warm-up", "measured", "requests"
#: Largest number of messages of a workload; generating them takes about 10 GB.
MAX_MESSAGES = 2**26
#: Size of the request of a read.
REQUEST_BYTES = 64
#: Largest number of intervals that are drawn at once.
_BLOCK = 2**22


@dataclass(frozen=True)
class OpenLoop:
    """Traffic of one job with independent sources.

    A source is a rank from which the pattern has a flow; other ranks issue nothing. Each source
    issues transfers at the times of an independent renewal process with mean interval
    T = 8 size / (load · rate_gbps) ns, from time 0 to before warmup + duration:

    - ``fixed``: one transfer every T; the first at a time drawn uniformly from 0 to T, so that
      sources are not synchronised.
    - ``uniform``: intervals drawn uniformly from 0 to 2T.
    - ``exponential``: exponential intervals, a Poisson process.

    In the last two cases, the first transfer is issued after one such interval. The size of each
    transfer is drawn independently; its expected value is `size` exactly:

    - ``fixed``: all sizes are `size`.
    - ``uniform``: each whole number from 1 to 2 size - 1 with equal probability.
    - ``exponential``: the geometric distribution on 1, 2, ..., that is, the exponential one rounded
      up to whole bytes; sizes are limited to 2^56.

    Each transfer follows one of the pattern's flows from its source. A pattern with an option
    `flows` (uniform, hot-spot, io) draws a new flow for every transfer, unless `flows` is given.
    Otherwise the flows are drawn once, from the pattern's own seed, and each transfer of a source
    takes one of the source's flows with equal probability.

    A transfer is a write with probability `write_share`: a put to the flow's destination. Else it
    is a read: the source sends a request, and the destination puts the data to the source when the
    request has arrived.
    """

    #: A traffic pattern's name, with or without options.
    spec: str = "uniform"
    #: Offered load: mean rate of a source divided by the rate at a load of 1. It is above 0; if it
    #: is above 1, queues grow without limit. Requests do not count.
    load: float = 0.5
    #: Mean size in bytes, 1 or more, or text such as ``4KiB``.
    size: str | int = 4096
    #: ``"fixed"``, ``"uniform"`` or ``"exponential"``.
    size_distribution: Distribution = "fixed"
    interarrival: Distribution = "exponential"
    #: Probability that a transfer is a write, 0 to 1: the read/write ratio of Petrini et al. 2003,
    #: section 4.6, which is 0 for reads only.
    write_share: float = 1.0
    #: Size of the request of a read.
    request_bytes: str | int = REQUEST_BYTES
    #: Distinct ranks that are the hosts of the pattern, in this order; if left out, all.
    ranks: ArrayLike | None = None
    #: Prefix of the names of the phases, which tells jobs apart.
    name: str = ""
    #: Options of the pattern, in addition to those in the spec.
    options: Mapping[str, Any] = field(default_factory=dict)


def open_loop(
    num_ranks: int,
    spec: str = "uniform",
    *,
    rate_gbps: float,
    duration_ns: str | float = 100_000.0,
    warmup_ns: str | float = 0.0,
    seed: int = 0,
    **traffic_of_job: Any,
) -> Workload:
    """Generate the transfers of independent sources at an offered load, as one job.

    The options of a job are those of `OpenLoop`, the rest and the result are as in
    `open_loop_jobs`.
    """
    job = OpenLoop(spec, **traffic_of_job)
    return open_loop_jobs(
        num_ranks, [job], rate_gbps=rate_gbps, duration_ns=duration_ns, warmup_ns=warmup_ns,
        seed=seed,
    )  # fmt: skip


def open_loop_jobs(
    num_ranks: int,
    jobs: Sequence[OpenLoop],
    *,
    rate_gbps: float,
    duration_ns: str | float = 100_000.0,
    warmup_ns: str | float = 0.0,
    seed: int = 0,
) -> Workload:
    """Generate the transfers of several jobs with independent sources.

    - `num_ranks`: number of ranks, which the jobs may share.
    - `jobs`: the traffic of each job; names differ.
    - `rate_gbps`: rate at a load of 1, such as the rate of an adapter's link.
    - `duration_ns`: time for which sources issue transfers after the warm-up, as a number of ns or
      text such as ``1ms``.
    - `warmup_ns`: transfers issued before this time are in the phase ``warm-up``, later ones in
      ``measured``.
    - `seed`: seed of intervals, sizes, choices among flows, and choices between reads and writes;
      jobs have independent draws.

    Returns puts with release times, which ascend within a rank, and reads. A read is a send (the
    request) with a release time, its receive, and a put that waits for the receive. Requests and
    their receives are in the phase ``requests``. The phases of a job with a name are called ``name:
    measured`` and so on.
    """
    duration, warmup = (
        _parsed(name, value, parse_duration_ns)
        for name, value in (("duration_ns", duration_ns), ("warmup_ns", warmup_ns))
    )
    finite_number(rate_gbps, "open loop: rate_gbps", above=True)
    if duration <= 0:
        raise InputError("open loop: duration_ns must be above 0")
    whole_number(seed, "open loop: seed")
    if len({job.name for job in jobs}) < len(jobs) or not jobs:
        raise InputError("open loop: expected jobs with different names")
    end = warmup + duration
    plans = [_Plan.of(job, num_ranks, rate_gbps) for job in jobs]
    expected = sum(plan.messages(end) for plan in plans)
    sources = sum(len(plan.sources) for plan in plans)
    if expected > MAX_MESSAGES:
        raise NotApplicable(
            f"{sources} sources send about {expected:.3g} messages, more than the maximum of "
            f"{MAX_MESSAGES:,}; use a shorter duration"
        )
    need_memory(int(160 * expected), f"{expected:.3g} messages", "use a shorter duration")
    names = [""]
    drawn = []
    for number, plan in enumerate(plans):
        part = _transfers(plan, end, warmup, (seed, number))
        part["phase"] += len(names)
        part["request_phase"] = np.full(len(part["phase"]), len(names) + 2, dtype=np.int32)
        own = (WARM_UP, MEASURED) if part["write"].all() else (WARM_UP, MEASURED, REQUESTS)
        names += [f"{plan.job.name}: {name}" if plan.job.name else name for name in own]
        drawn.append(part)
    return _workload(
        "; ".join(
            f"{job.name or 'open loop'} {job.spec} at {job.load:g} of {rate_gbps:g} Gb/s"
            for job in jobs
        ),
        num_ranks,
        tuple(names),
        {name: np.concatenate([part.pop(name) for part in drawn]) for name in [*drawn[0]]},
    )


def _parsed(name: str, value: Any, parser: Callable[[Any], Any]) -> Any:
    try:
        return parser(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"open loop: {name}: {error}") from None


@dataclass(frozen=True, eq=False)
class _Plan:
    """A job with checked values, and the flows of its pattern."""

    job: OpenLoop
    pattern: str
    options: Mapping[str, Any]
    anew: bool  # whether every transfer draws its flow
    ranks: NDArray[np.int64]
    flows: Pairs
    sources: NDArray[np.int64]
    mean: int
    request: int
    interval: float

    @classmethod
    def of(cls, job: OpenLoop, num_ranks: int, rate_gbps: float) -> _Plan:
        """Check a job and return its plan."""
        mean = _parsed("size", job.size, parse_bytes)
        request = _parsed("request_bytes", job.request_bytes, parse_bytes)
        known = ("fixed", "uniform", "exponential")
        for name in ("size_distribution", "interarrival"):
            value = getattr(job, name)
            if value not in known:
                raise InputError(f"open loop: {name} {value!r}; expected {', '.join(known)}")
        finite_number(job.load, "open loop: load", above=True)
        if not 0 <= finite_number(job.write_share, "open loop: write_share") <= 1:
            raise InputError(f"open loop: write_share must be 0 to 1, not {job.write_share}")
        if mean < 1:
            raise InputError(f"open loop: size must be at least 1, not {mean}")
        ranks = np.arange(num_ranks)
        if job.ranks is not None:
            ranks = whole_numbers(job.ranks, "open loop: ranks")
        if len(np.unique(ranks)) < len(ranks) or not np.isin(ranks, np.arange(num_ranks)).all():
            raise InputError(f"open loop: ranks must be different ranks from 0 to {num_ranks - 1}")
        entry, given = pattern.parse(job.spec, job.options)
        bound = pattern.bind(entry, given)
        flows = traffic(len(ranks), entry.name, **bound)
        return cls(
            job=job,
            pattern=entry.name,
            options=bound,
            anew="flows" in entry.options and "flows" not in bound,
            ranks=ranks,
            flows=flows,
            sources=np.unique(flows.sources),
            mean=mean,
            request=request,
            interval=8 * mean / (job.load * rate_gbps),
        )

    def messages(self, end: float) -> float:
        """Return the expected number of messages until the end."""
        return len(self.sources) * (end / self.interval + 1) * (2 - self.job.write_share)


def _transfers(
    plan: _Plan, end: float, warmup: float, seed: tuple[int, int]
) -> dict[str, NDArray[Any]]:
    """Draw all transfers of a job, and return them by source; phase 0 is the warm-up."""
    job = plan.job
    times, sizes, choices, writes = (
        np.random.default_rng([seed[0], stream, seed[1]]) for stream in range(4)
    )
    count, release = _arrivals(times, len(plan.sources), plan.interval, end, job.interarrival)
    total = int(count.sum())
    write = np.ones(total, np.bool_)
    if job.write_share < 1:
        write = writes.random(total) < job.write_share
    return {
        "source": plan.ranks[np.repeat(plan.sources, count)],
        "target": plan.ranks[_targets(choices, plan, count)],
        "size": _sizes(sizes, plan.mean, total, job.size_distribution),
        "release": release,
        "write": write,
        "phase": np.where(release < warmup, 0, 1).astype(np.int32),
        "request": np.full(total, plan.request, dtype=np.int64),
    }


def _workload(
    name: str,
    num_ranks: int,
    phase_names: tuple[str, ...],
    drawn: Mapping[str, NDArray[Any]],
) -> Workload:
    """Return a put for each write; for each read a send, its receive, and a put that waits for it.

    Operations of a rank are in the order of the times at which their transfers are issued, so that
    sends and receives between the same ranks are in the same order.
    """
    write, release = drawn["write"], drawn["release"]
    if write.all() and np.all(np.diff(drawn["source"]) >= 0):
        which: Any = slice(None)  # already by rank, then time
        step = np.zeros(len(write), np.int8)
        rank = drawn["source"]
        match = np.full(len(write), -1, dtype=np.int32)
    else:
        which = np.argsort(release, kind="stable")
        steps = np.where(write[which], 1, 3)
        which = np.repeat(which, steps)
        # Steps of a read: the request is sent, the request is received, the data is put.
        step = (np.arange(len(which)) - np.repeat(np.cumsum(steps) - steps, steps)).astype(np.int8)
        rank = np.where(step > 0, drawn["target"][which], drawn["source"][which])
        order = np.argsort(rank, kind="stable")
        number = np.empty(len(order), dtype=np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        sends = np.flatnonzero((step == 0) & ~write[which])
        match = np.full(len(order), -1, dtype=np.int32)
        match[number[sends]], match[number[sends + 1]] = number[sends + 1], number[sends]
        which, step, rank = which[order], step[order], rank[order]
    answers = step == 2
    asks = ~write[which] & ~answers
    return Workload(
        name=name,
        op_offset=np.concatenate([[0], np.cumsum(np.bincount(rank, minlength=num_ranks))]),
        kind=np.where(asks, np.where(step > 0, Kind.RECV, Kind.SEND), Kind.PUT).astype(np.uint8),
        peer=np.where(step > 0, drawn["source"][which], drawn["target"][which]).astype(np.int32),
        size_bytes=np.where(asks, drawn["request"][which], drawn["size"][which]),
        tag=np.zeros(len(rank), dtype=np.int32),
        comm=np.zeros(len(rank), dtype=np.int32),
        duration_ns=np.zeros(len(rank)),
        phase=np.where(asks, drawn["request_phase"][which], drawn["phase"][which]),
        phase_names=phase_names,
        dep_offset=np.concatenate([[0], np.cumsum(answers)]).astype(np.int64),
        # The put of a read comes directly after the receive of its request.
        dep=(np.flatnonzero(answers) - 1).astype(np.int32),
        dep_on_start=np.zeros(0, dtype=np.bool_),
        match=match,
        release_ns=np.where(step > 0, 0.0, release[which]),
        cpu=np.zeros(0, dtype=np.uint8),
    )


@dataclass(frozen=True, eq=False)
class Transfers:
    """Transfers of an open-loop workload, in the order of the puts that carry their data."""

    #: int64 [transfers]: the put.
    ops: NDArray[np.int64]
    #: float64 [transfers]: time at which the source issued the write, or the request of the read.
    issued_ns: NDArray[np.float64]
    #: int32 [transfers]: the rank that issued the transfer, and the rank that it writes to or reads
    #: from.
    source: NDArray[np.int32]
    destination: NDArray[np.int32]
    #: bool [transfers]: whether the transfer is a write.
    write: NDArray[np.bool_]
    #: Name of each transfer's job, object [transfers].
    job: NDArray[np.object_]


def transfers(workload: Workload) -> Transfers:
    """Return the transfers of a workload of `open_loop` or `open_loop_jobs`, or of several."""
    ops = np.flatnonzero(workload.kind == Kind.PUT)
    write = workload.dep_offset[ops] == workload.dep_offset[ops + 1]
    issued = ops.copy()
    issued[~write] = workload.match[workload.dep[workload.dep_offset[ops[~write]]]]
    rank, peer = workload.rank[ops], workload.peer[ops]
    names = [name.rpartition(": ")[0] for name in workload.phase_names]
    return Transfers(
        ops=ops,
        issued_ns=workload.release_ns[issued] if len(workload.release_ns) else np.zeros(len(ops)),
        source=np.where(write, rank, peer),
        destination=np.where(write, peer, rank),
        write=write,
        job=np.array(names, dtype=object)[workload.phase[ops]],
    )


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


def _targets(
    random: np.random.Generator, plan: _Plan, count: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a destination for each transfer: of flows drawn anew, or drawn among the flows."""
    hosts, flows = len(plan.ranks), plan.flows
    if plan.anew:
        most = max(1, int(count.max(initial=0)))
        flows = traffic(hosts, plan.pattern, **{**plan.options, "flows": most})
    degree = np.bincount(flows.sources, minlength=hosts)
    start = np.cumsum(degree) - degree
    owner = np.repeat(plan.sources, count)
    if plan.anew:
        index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        index %= degree[owner]
    else:
        index = random.integers(0, degree[owner])
    by_source = flows.destinations[np.argsort(flows.sources, kind="stable")]
    chosen: NDArray[np.int64] = by_source[start[owner] + index]
    return chosen
