"""One run at one level of detail, and its result or the reason why it is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.common.progress import Progress, StopRun
from weft.sim.common.times import PS_PER_NS
from weft.sim.flit import FlitResult
from weft.sim.flow import FlowResult, IncompleteRun
from weft.sim.flow.contention import PenaltyModel
from weft.sim.packet import PacketResult
from weft.sim.simulate import simulate
from weft.sim.static.phases import StaticWorkload
from weft.study.experiment.spec import Experiment, Run
from weft.workload.jobs import JobMix

Result = FlowResult | PacketResult | FlitResult | StaticWorkload


@dataclass(frozen=True, eq=False)
class Found:
    """Result of a run."""

    #: Result of the level.
    result: Result
    #: Reason why the result is partial; empty for a complete result.
    partial: str = ""
    #: Whether the user interrupted the run.
    interrupted: bool = False


def duration(nanoseconds: float) -> str:
    """Return a time as text in a suitable unit: ``1.25 ms``."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= factor:
            return f"{nanoseconds / factor:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"


def run_level(
    experiment: Experiment,
    run: Run,
    fabric: Fabric,
    routes: Routes | str,
    mix: JobMix,
    model: PenaltyModel,
    at: Callable[[str, Progress | None], None],
) -> Found:
    """Perform one run.

    Raises
    ------
    IncompleteRun
        If a limit stops a run of the flow level.
    InputError, NotApplicable
        If the level cannot simulate the input.
    """
    if run.level in ("packet", "flit"):
        return _in_part(experiment, run, fabric, routes, mix, at)
    assert isinstance(routes, Routes)
    if run.level == "static":
        return Found(
            simulate(
                fabric, routes, mix.workload, mix.hosts, level="static", **experiment.options(run)
            )
        )
    clock = _Clock(experiment.max_seconds)

    def watched(progress: Progress) -> None:
        at("running", progress)
        if clock.is_over():
            raise IncompleteRun(
                f"stopped after {clock.text}, {_so_far(progress)}; there is no result"
            )

    return Found(
        simulate(
            fabric, routes, mix.workload, mix.hosts, coefficients=model, progress=watched,
            **experiment.options(run),
        )
    )  # fmt: skip


def _in_part(
    experiment: Experiment,
    run: Run,
    fabric: Fabric,
    routes: Routes | str,
    mix: JobMix,
    at: Callable[[str, Progress | None], None],
) -> Found:
    """Perform a run of the packet or flit level, which has a partial result if it stops early."""
    clock = _Clock(experiment.max_seconds)
    out_of_seconds = interrupted = False

    def watched(progress: Progress) -> None:
        nonlocal out_of_seconds, interrupted
        try:
            at("running", progress)
        except KeyboardInterrupt:
            interrupted = True
            raise StopRun from None
        if clock.is_over():
            out_of_seconds = True
            raise StopRun

    options = experiment.options(run)
    if run.level == "packet":
        options["trace"] = [traced(text, mix) for text in experiment.trace]
    result = simulate(
        fabric, routes, mix.workload, mix.hosts, level=run.level, progress=watched, **options
    )
    assert isinstance(result, PacketResult | FlitResult)
    if result.complete:
        return Found(result, interrupted=interrupted)
    limit = experiment.max_time
    timed_out = limit is not None and result.end_ps >= round(limit * PS_PER_NS)
    interrupted = not (out_of_seconds or timed_out)
    why = f"stopped after {clock.text}" if out_of_seconds else "stopped"
    if interrupted:
        why = "interrupted"
    messages = mix.workload.messages
    arrived = int((result.arrived_ps[messages] >= 0).sum())
    now = Progress(0, 0, arrived, len(messages), result.end_ps / PS_PER_NS)
    return Found(result, f"{why}, {_so_far(now)}; the result is partial", interrupted)


class _Clock:
    """Limit of the wall time of a run."""

    def __init__(self, limit_s: float | None):
        self._limit_s, self._began = limit_s, time.perf_counter()
        self.text = f"{limit_s:g} s of wall time" if limit_s is not None else ""

    def is_over(self) -> bool:
        return self._limit_s is not None and time.perf_counter() - self._began > self._limit_s


def _so_far(now: Progress) -> str:
    return (
        f"at {duration(now.now_ns)} of simulated time: {now.arrived:,} of {now.messages:,} "
        "messages had arrived"
    )


def traced(text: str, mix: JobMix) -> int:
    """Return the operation that sends a message given as ``RANK:N`` or ``JOB:RANK:N``."""
    *names, rank_text, number_text = text.rsplit(":", 2)
    if not names and len(mix.names) > 1:
        raise InputError(
            f"trace {text}: expected JOB:RANK:N with one of the jobs {', '.join(mix.names)}"
        )
    if names and names[0] not in mix.names:
        raise InputError(
            f"trace {text}: unknown job {names[0]!r}; expected one of {', '.join(mix.names)}"
        )
    job = mix.names.index(names[0]) if names else 0
    rank, number = int(rank_text), int(number_text)
    first, last = int(mix.first_rank[job]), int(mix.first_rank[job + 1])
    if rank >= last - first:
        raise InputError(f"trace {text}: expected a rank from 0 to {last - first - 1}")
    work = mix.workload
    mine = work.messages[work.rank[work.messages] == first + rank]
    if number >= len(mine):
        raise InputError(f"trace {text}: rank {rank} sends {len(mine)} messages, numbered from 0")
    return int(mine[number])
