"""One run at one level of detail, and its outcome: a result, or the reason why it is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.core.errors import InputError, NotApplicable, OutOfMemory
from weft.fabrics import Fabric
from weft.routing.routes import Routes
from weft.sim.common.progress import Forecast, IncompleteRun, Progress, StopRun
from weft.sim.common.times import PS_PER_NS
from weft.sim.flow.contention import PenaltyModel
from weft.sim.methods import CHOOSING
from weft.sim.simulate import forecast, simulate
from weft.study.experiment.spec import Experiment, Run
from weft.workload.jobs import JobMix
from weft.workload.rolled import RolledWorkload

Status = Literal[
    "complete", "partial", "stopped", "does not fit", "out of memory", "failed", "not run"
]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Outcome of one run."""

    run: Run
    #: ``complete``; ``partial`` (a run of the packet or the flit level that was stopped or
    #: interrupted, with a result); ``stopped`` by a limit, ``does not fit`` (an engine, policy or
    #: placement does not apply), ``out of memory`` or ``failed`` (no path, or ranks or buffers that
    #: wait for ever), all four without a result; ``not run`` after an interrupt or in a dry run.
    status: Status
    #: Reason why the result is missing or partial; else empty.
    reason: str = ""
    #: Result of the level, and the placed jobs.
    result: Any = None
    mix: JobMix | None = None
    #: Notes for the user.
    notes: tuple[str, ...] = field(default=())
    #: Wall time of the level.
    seconds: float = 0.0
    #: Time and memory that the run is expected to take, in a dry run.
    forecast: Forecast | None = None
    #: Whether the user interrupted the run.
    interrupted: bool = False
    #: Rows in the tables of runs and jobs, set by `weft.study.experiment.result_tables.brief`.
    row: Mapping[str, Any] = field(default_factory=dict)
    jobs: tuple[Mapping[str, Any], ...] = ()


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
    expected: Callable[[Forecast], None] | None = None,
    dry: bool = False,
) -> Outcome:
    """Perform one run, and return its outcome.

    `model`: coefficients of the flow level's model of contention. `at`: function to call regularly
    with what is done and its progress. `expected`: function to call with the forecast of a run that
    may take long. `dry`: whether to return the forecast of the run instead of its result.
    """
    notes = (*mix.notes, *(() if isinstance(routes, str) else routes.notes))
    # A run that stops early has a partial result.
    in_part = run.level in CHOOSING and not isinstance(mix.workload, RolledWorkload)
    began = time.perf_counter()
    limit_s = experiment.max_seconds
    out_of_time = f"stopped after {limit_s or 0:g} s of wall time"
    out_of_seconds = interrupted = False

    def watched(progress: Progress) -> None:
        nonlocal out_of_seconds, interrupted
        try:
            at("running", progress)
        except KeyboardInterrupt:
            if not in_part:
                raise
            interrupted = True
            raise StopRun from None
        if limit_s is None or time.perf_counter() - began <= limit_s:
            return
        if in_part:
            out_of_seconds = True
            raise StopRun
        raise IncompleteRun(f"{out_of_time}, {_so_far(progress)}; there is no result")

    try:
        options = experiment.options(run)
        if run.level != "static" and not dry:
            options["progress"] = watched
        if run.level == "flow":
            options["coefficients"] = model
        if run.level == "packet":
            options["trace"] = [traced(text, mix) for text in experiment.trace]
        if dry:
            told = forecast(fabric, routes, mix.workload, mix.hosts, level=run.level, **options)
            told.check()
            return Outcome(run, "not run", mix=mix, notes=notes, forecast=told)
        result: Any = simulate(
            fabric, routes, mix.workload, mix.hosts, level=run.level, expected=expected, **options
        )
    except IncompleteRun as reason:
        return Outcome(run, "stopped", str(reason), mix=mix, notes=notes)
    except NotApplicable as reason:
        return refused(run, reason, mix, notes)
    except InputError as reason:
        return Outcome(run, "failed", str(reason) + _whose_ranks(mix), mix=mix, notes=notes)
    took = time.perf_counter() - began
    if run.level == "flow" and (share := result.network.minimal_share) >= 0:
        notes = (*notes, f"{share:.1%} of the traffic takes minimal paths, not via intermediates")
    if isinstance(mix.workload, RolledWorkload):
        notes = (*notes, result.recalled)
    if not in_part or result.complete:
        return Outcome(run, "complete", "", result, mix, notes, took, interrupted=interrupted)
    limit_ns = experiment.max_time
    timed_out = limit_ns is not None and result.end_ps >= round(limit_ns * PS_PER_NS)
    interrupted = not (out_of_seconds or timed_out)
    why = out_of_time if out_of_seconds else "stopped"
    if interrupted:
        why = "interrupted"
    messages = mix.workload.messages
    arrived = int((result.arrived_ps[messages] >= 0).sum())
    now = Progress(0, 0, arrived, len(messages), result.end_ps / PS_PER_NS)
    why = f"{why}, {_so_far(now)}; the result is partial"
    return Outcome(run, "partial", why, result, mix, notes, took, interrupted=interrupted)


def refused(
    run: Run, reason: NotApplicable, mix: JobMix | None = None, notes: tuple[str, ...] = ()
) -> Outcome:
    """Return the outcome of a run that cannot begin."""
    status: Status = "out of memory" if isinstance(reason, OutOfMemory) else "does not fit"
    return Outcome(run, status, str(reason), mix=mix, notes=notes)


def _whose_ranks(mix: JobMix) -> str:
    """Return the ranks of each job, for messages that number the ranks of all jobs together."""
    if len(mix.names) == 1:
        return ""
    ends = zip(mix.names, mix.first_rank.tolist(), mix.first_rank[1:].tolist(), strict=False)
    return f" (ranks {', '.join(f'{start} to {end - 1} are {name}' for name, start, end in ends)})"


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
