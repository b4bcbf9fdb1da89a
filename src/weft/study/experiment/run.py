"""Execution of the runs of an experiment, one after the other."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.core.errors import InputError, NotApplicable
from weft.core.files import is_source
from weft.core.words import clock_text
from weft.fabrics import Fabric
from weft.routing import engine as engines
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.common.progress import Progress
from weft.sim.flit.routings import routing as routings
from weft.sim.flow import FlowResult, IncompleteRun
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.coefficients import read_coefficients
from weft.sim.options import check_policy
from weft.study.experiment.run_level import Result, duration, run_level
from weft.study.experiment.spec import Experiment, FabricKeys, JobPart, Run
from weft.study.runs.task import contents, files_in
from weft.workload import Workload, WorkloadBuilder, load_workload
from weft.workload.jobs import Job, JobMix, combine, place_jobs
from weft.workload.placement import placement as placements
from weft.workload.placement.placement_registry import allowed_hosts

#: Largest number of operations of workloads that are kept for later runs; about 0.6 GB.
_KEPT_OPS = 10_000_000

#: Seconds of wall time and share of a run after which the remaining time is estimated.
TELLING_S, TELLING_SHARE = 1.0, 0.01

Status = Literal["complete", "partial", "stopped", "does not fit", "failed", "not run"]


@dataclass
class ExperimentStage:
    """Present stage of an experiment, updated as the experiment runs."""

    #: Number of runs.
    runs: int
    #: The active run; None before the first run.
    run: Run | None = None
    #: The present step, such as ``routing``.
    doing: str = "reading the fabric"
    #: Progress of a level with time, None in other steps.
    progress: Progress | None = None
    #: Whether the user interrupted the active run, which has a partial result.
    interrupted: bool = False
    #: Simulated time and wall time at which runs stop; None if there is no limit.
    limit_ns: float | None = None
    limit_s: float | None = None
    _began: float = field(default=0.0, init=False)
    _seen: tuple[float, float] | None = field(default=None, init=False)

    def at(self, doing: str, progress: Progress | None = None) -> None:
        """Record the present step and its progress."""
        self.doing, self.progress = doing, progress
        if progress is None:
            self._began, self._seen = time.perf_counter(), None
        elif self._seen is None:
            # Measure the speed from the first report: before it, kernels may have been compiled.
            self._seen = time.perf_counter(), self.share

    @property
    def share(self) -> float:
        """Finished share of the active run, 0 to 1: of bytes or messages, or of the time limit."""
        now = self.progress
        if now is None:
            return 0.0
        done = now.delivered
        if done is None:
            done = now.arrived / now.messages if now.messages else 0.0
        return max(done, now.now_ns / self.limit_ns) if self.limit_ns else done

    def left_s(self) -> float | None:
        """Return the remaining seconds of the active run at its present speed, None if unknown."""
        if self._seen is None:
            return None
        began, first = self._seen
        spent, gained = time.perf_counter() - began, self.share - first
        estimates = []
        if spent >= TELLING_S and gained >= TELLING_SHARE:
            estimates.append((1.0 - self.share) / gained * spent)
        if self.limit_s is not None:
            estimates.append(max(self._began + self.limit_s - time.perf_counter(), 0.0))
        return min(estimates, default=None)

    def where(self) -> str:
        """Return the progress of the active run in words."""
        now = self.progress
        if now is None:
            return self.doing
        part = "" if now.delivered is None else f" ({now.delivered:.0%} of all bytes)"
        return (
            f"at {duration(now.now_ns)} of simulated time, {now.arrived:,} of {now.messages:,} "
            f"messages arrived{part}"
        )

    def text(self) -> str:
        """Return the stage in words."""
        if self.run is None:
            return self.doing
        run = f"run {self.run.number} of {self.runs} ({self.run.routes}), " * (self.runs > 1)
        return run + self.where()

    def outlook(self) -> str:
        """Return the stage and the remaining time of the active run in words."""
        if self.progress is None or self.progress.ended == self.progress.operations:
            return self.text()
        left = self.left_s()
        return f"{self.text()}; " + (
            "remaining time unknown" if left is None else f"about {clock_text(left)} left"
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """Outcome of one run."""

    #: The run.
    run: Run
    #: ``complete``; ``partial`` (a run of the packet or the flit level that was stopped or
    #: interrupted, with a result); ``stopped`` by a limit, ``does not fit`` (an engine, policy or
    #: placement does not apply) or ``failed`` (no path, or ranks or buffers that wait for ever),
    #: all three without a result; ``not run`` after an interrupt.
    status: Status
    #: Reason why the result is missing or partial; else empty.
    reason: str = ""
    #: Result of the level, and the placed jobs.
    result: Result | None = None
    mix: JobMix | None = None
    #: Notes for the user.
    notes: tuple[str, ...] = field(default=())
    #: Wall time of the level.
    seconds: float = 0.0
    #: Rows in the tables of runs and jobs, set by `weft.study.experiment.result_tables.brief`.
    row: Mapping[str, Any] = field(default_factory=dict)
    jobs: tuple[Mapping[str, Any], ...] = ()


class FabricCache:
    """The last fabric, and routes on it, kept for further experiments while their files are equal.

    Parameters
    ----------
    most_routes
        Number of engines whose routes are kept; None for all.
    """

    def __init__(self, most_routes: int | None = None) -> None:
        self._most = most_routes
        self._source: object = None
        self._fabric: Fabric | None = None
        self._routes: OrderedDict[object, Routes | NotApplicable] = OrderedDict()

    def fabric(self, experiment: FabricKeys) -> Fabric:
        """Return the fabric of an experiment."""
        fabric = experiment.fabric
        source = fabric, experiment.faults.instance, _contents(fabric.source, fabric.names or "")
        if self._fabric is None or self._source != source:
            self._fabric, self._source = None, None
            self._routes.clear()
            self._fabric = experiment.load_fabric()
            self._source = source
        return self._fabric

    def routes(
        self, fabric: Fabric, engine: str, at: Callable[[str], None]
    ) -> Routes | NotApplicable:
        """Return the routes of an engine on the last fabric, or why it does not fit."""
        key = engine, _contents(engine)
        if key not in self._routes:
            at("routing")
            while self._most is not None and len(self._routes) >= self._most:
                self._routes.popitem(last=False)
            try:
                self._routes[key] = route(fabric, engine)
            except NotApplicable as reason:
                self._routes[key] = reason
        self._routes.move_to_end(key)
        return self._routes[key]


def _contents(*texts: str) -> tuple[str, ...]:
    """Return hashes of the contents of the files that texts name; pipes can be read only once."""
    names = [name for text in texts for name in files_in(text)]
    return tuple(contents(each) for each in names if os.path.isfile(each) or os.path.isdir(each))


def perform(
    experiment: Experiment,
    *,
    watch: Callable[[ExperimentStage], None] | None = None,
    stage: ExperimentStage | None = None,
    loaded: FabricCache | None = None,
) -> Iterator[Outcome]:
    """Perform every run of an experiment, and yield each outcome as soon as it is known.

    Parameters
    ----------
    experiment
        The experiment.
    watch
        Function to call regularly with the stage.
    stage
        Stage to update, which the caller can read after an interrupt.
    loaded
        Fabric and routes of earlier experiments, to be used again.

    Yields
    ------
    Outcome
        Outcomes in the order of `Experiment.runs`. If there are several runs, one that does not fit
        or fails yields an outcome, too, and the others continue. An interrupted run yields the last
        outcome.

    Raises
    ------
    InputError
        If the experiment is invalid (if possible, before the first run), or its only run fails.
    NotApplicable
        If the engine or the placement of the only run does not fit.
    """
    runs = experiment.runs
    stage = stage or ExperimentStage(len(runs))
    stage.runs = len(runs)
    stage.limit_ns, stage.limit_s = experiment.max_time, experiment.max_seconds

    def at(doing: str, progress: Progress | None = None) -> None:
        stage.at(doing, progress)
        if watch is not None:
            watch(stage)

    for run in runs:
        if run.engine is not None:
            engines.bind(*engines.parse(run.engine))
        if run.routing is not None:
            routings.bind(*routings.parse(run.routing))
        for _, spec in run.jobs:
            placements.bind(*placements.parse(spec))
        if run.policy is not None:
            check_policy(run.level, run.policy)
    model = _model(experiment)
    at("reading the fabric")
    loaded = loaded or FabricCache()
    fabric = loaded.fabric(experiment)
    at("writing the workload")
    jobs = _Jobs(experiment, fabric)
    jobs.check(runs)
    placed: tuple[tuple[tuple[str, str], ...], JobMix | NotApplicable] | None = None
    for run in runs:
        stage.run = run
        if placed is None or placed[0] != run.jobs:
            at("writing the workload")
            placed = run.jobs, jobs.mix(run)
        routes: Routes | str | NotApplicable = run.routes
        if run.engine is not None:
            routes = loaded.routes(fabric, run.engine, at)
        at("running")
        outcome = _outcome(experiment, run, fabric, routes, placed[1], model, stage, at)
        if len(runs) == 1 and outcome.status == "does not fit":
            raise NotApplicable(outcome.reason)
        if len(runs) == 1 and outcome.status == "failed":
            raise InputError(outcome.reason)
        yield outcome
        if stage.interrupted:
            return


class _Jobs:
    """Jobs of an experiment; each workload is made once if there is room to keep it."""

    def __init__(self, experiment: Experiment, fabric: Fabric):
        self._experiment = experiment
        self._fabric = fabric
        self._kept: dict[tuple[int, str], Workload | NotApplicable] = {}
        self._ranks: dict[tuple[int, str], Workload] = {}
        self._room = _KEPT_OPS
        self._once = False

    def check(self, runs: Sequence[Run]) -> None:
        """Make every workload and placement once, before the first run."""
        choices = dict.fromkeys(run.jobs for run in runs)
        self._once = len(choices) == 1
        for choice in choices:
            # A placement only needs the number of ranks of a workload.
            works = [self._idle(number, text) for number, (text, _) in enumerate(choice)]
            known = [work for work in works if work is not None]
            if len(known) == len(works):
                with suppress(NotApplicable):
                    place_jobs(
                        self._placed(known, choice), self._fabric, overlap=self._experiment.overlap
                    )

    def mix(self, run: Run) -> JobMix | NotApplicable:
        """Return the placed jobs of a run, or the reason why a workload does not fit."""
        works = []
        for number, (text, _) in enumerate(run.jobs):
            work = self._workload(number, text)
            if isinstance(work, NotApplicable):
                return work
            works.append(work)
        if self._once:
            self._kept.clear()
        try:
            return combine(
                self._placed(works, run.jobs), self._fabric, overlap=self._experiment.overlap
            )
        except NotApplicable as reason:
            return reason

    def _idle(self, number: int, text: str) -> Workload | None:
        """Return an empty workload with a job's number of ranks; None if the job does not fit."""
        if (number, text) not in self._ranks:
            work = self._workload(number, text)
            if isinstance(work, NotApplicable):
                return None
            self._ranks[number, text] = WorkloadBuilder(work.num_ranks).build()
        return self._ranks[number, text]

    def _workload(self, number: int, text: str) -> Workload | NotApplicable:
        if (number, text) in self._kept:
            return self._kept[number, text]
        work: Workload | NotApplicable
        try:
            work = _workload(self._experiment.job[number], text, self._fabric)
        except NotApplicable as reason:
            work = reason
        except InputError as error:
            jobs = self._experiment.job
            whose = f"job {jobs[number].name}: " if len(jobs) > 1 else ""
            raise InputError(whose + error.message, file=error.file, line=error.line) from None
        size = work.num_ops if isinstance(work, Workload) else 0
        if size <= self._room or len(self._experiment.job[number].workload) == 1:
            self._room -= size
            self._kept[number, text] = work
        return work

    def _placed(self, works: Sequence[Workload], choice: Sequence[tuple[str, str]]) -> list[Job]:
        return [
            Job(
                work,
                part.name,
                placement,
                ranks_per_host=part.ranks_per_host,
                distribution=part.distribution,
                hosts=_hosts(part),
                start_ns=part.start,
            )
            for work, part, (_, placement) in zip(works, self._experiment.job, choice, strict=True)
        ]


def _model(experiment: Experiment) -> PenaltyModel:
    if experiment.coefficients is None:
        return INFINIBAND
    return read_coefficients(experiment.coefficients).model


def _hosts(part: JobPart) -> str | None:
    return None if part.hosts is None else ",".join(part.hosts)


def _workload(part: JobPart, text: str, fabric: Fabric) -> Workload:
    """Return the workload of a job; by default with as many ranks as fit on its hosts."""
    ranks = part.ranks
    if ranks is None and part.format is None and not is_source(text):
        ranks = len(allowed_hosts(fabric, _hosts(part))) * (part.ranks_per_host or 1)
    return load_workload(text, ranks, format=part.format, **part.options)


def _outcome(
    experiment: Experiment,
    run: Run,
    fabric: Fabric,
    routes: Routes | str | NotApplicable,
    mix: JobMix | NotApplicable,
    model: PenaltyModel,
    stage: ExperimentStage,
    at: Callable[[str, Progress | None], None],
) -> Outcome:
    for part in (routes, mix):
        if isinstance(part, NotApplicable):
            return Outcome(run, "does not fit", str(part))
    assert not isinstance(routes, NotApplicable)
    assert isinstance(mix, JobMix)
    notes = (*mix.notes, *(routes.notes if isinstance(routes, Routes) else ()))
    began = time.perf_counter()

    try:
        run_result = run_level(experiment, run, fabric, routes, mix, model, at)
    except IncompleteRun as reason:
        return Outcome(run, "stopped", str(reason), mix=mix, notes=notes)
    except NotApplicable as reason:
        return Outcome(run, "does not fit", str(reason), mix=mix, notes=notes)
    except InputError as reason:
        text = str(reason) + _whose_ranks(mix)
        return Outcome(run, "failed", text, mix=mix, notes=notes)
    stage.interrupted = run_result.interrupted
    status: Status = "partial" if run_result.partial else "complete"
    took = time.perf_counter() - began
    if isinstance(run_result.result, FlowResult) and run_result.result.network.minimal_share >= 0:
        share = run_result.result.network.minimal_share
        notes = (*notes, f"{share:.1%} of the traffic takes minimal paths, not via intermediates")
    return Outcome(run, status, run_result.partial, run_result.result, mix, notes, took)


def _whose_ranks(mix: JobMix) -> str:
    """Return the ranks of each job, for messages that number the ranks of all jobs together."""
    if len(mix.names) == 1:
        return ""
    ends = zip(mix.names, mix.first_rank.tolist(), mix.first_rank[1:].tolist(), strict=False)
    return f" (ranks {', '.join(f'{start} to {end - 1} are {name}' for name, start, end in ends)})"
