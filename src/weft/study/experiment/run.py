"""Execution of the runs of an experiment, one after the other."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from weft.core.errors import InputError, NotApplicable, OutOfMemory
from weft.core.files import is_source
from weft.core.words import clock_text
from weft.fabrics import Fabric
from weft.routing import engine as engines
from weft.routing import route
from weft.routing.routes import Routes
from weft.sim.common.progress import Forecast, Progress
from weft.sim.flit import routing as routings
from weft.sim.flow.contention import INFINIBAND
from weft.sim.flow.contention.coefficients import read_coefficients
from weft.sim.options import COARSE, RunSettings, check_policy
from weft.study.experiment.run_level import Outcome, duration, refused, run_level
from weft.study.experiment.spec import Experiment, FabricKeys, JobPart, Run
from weft.study.runs.task import contents, files_in
from weft.workload import Workload, WorkloadBuilder, load_workload
from weft.workload.jobs import Job, JobMix, combine, place_jobs
from weft.workload.load import depends_on_places, load_rolled
from weft.workload.placement import placement as placements
from weft.workload.placement.placement_registry import allowed_hosts
from weft.workload.places import Places
from weft.workload.rolled import ROLLED_FROM, RolledWorkload

#: Error of an experiment by the status of its only run.
_ERRORS = {"does not fit": NotApplicable, "out of memory": OutOfMemory, "failed": InputError}
#: Largest number of operations of workloads that are kept for later runs; about 0.6 GB.
_KEPT_OPS = 10_000_000

#: Seconds of wall time and share of a run after which the remaining time is estimated.
TELLING_S, TELLING_SHARE = 1.0, 0.01


@dataclass
class ExperimentStage:
    """Present stage of an experiment, updated as the experiment runs."""

    runs: int
    #: The active run; None before the first run.
    run: Run | None = None
    #: The present step, such as ``routing``.
    doing: str = "reading the fabric"
    #: Progress of a level with time, None in other steps.
    progress: Progress | None = None
    #: Whether the user interrupted the active run, which has a partial result.
    interrupted: bool = False
    #: Time and memory that the active run is expected to take; None if that is surely little.
    forecast: Forecast | None = None
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
        return ", ".join(filter(None, (self.whose(), self.where())))

    def whose(self) -> str:
        """Return the active run in words if there are several."""
        if self.run is None or self.runs < 2:
            return ""
        return f"run {self.run.number} of {self.runs} ({self.run.routes})"

    def outlook(self) -> str:
        """Return the stage and the remaining time of the active run in words."""
        if self.progress is None or self.progress.ended == self.progress.operations:
            return self.text()
        left = self.left_s()
        return f"{self.text()}; " + (
            "remaining time unknown" if left is None else f"about {clock_text(left)} left"
        )


class FabricCache:
    """The last fabric, and routes on it, kept for further experiments while their files are equal.

    `most_routes`: number of engines whose routes are kept; None for all. `again`: whether files may
    change between two uses.
    """

    def __init__(self, most_routes: int | None = None, again: bool = True) -> None:
        self._most, self._again = most_routes, again
        self._source: object = None
        self._fabric: Fabric | None = None
        self._routes: OrderedDict[object, Routes | NotApplicable] = OrderedDict()

    def fabric(self, experiment: FabricKeys) -> Fabric:
        """Return the fabric of an experiment."""
        fabric = experiment.fabric
        files = self._contents(
            fabric.source,
            *filter(None, (fabric.names, fabric.machines, fabric.node)),
            *(fabric.also or ()),
        )
        source = fabric, experiment.faults.instance, files
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
        key = engine, self._contents(engine)
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

    def _contents(self, *texts: str) -> tuple[str, ...]:
        """Return hashes of the contents of the files that texts name, except pipes."""
        names = [name for text in texts for name in files_in(text)] if self._again else []
        return tuple(
            contents(each) for each in names if os.path.isfile(each) or os.path.isdir(each)
        )


#: Fabric and routes of the last runs of this process, for the commands of studies.
LAST = FabricCache(most_routes=12)


def perform(
    experiment: Experiment,
    *,
    watch: Callable[[ExperimentStage], None] | None = None,
    stage: ExperimentStage | None = None,
    loaded: FabricCache | None = None,
    dry: bool = False,
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
    dry
        Whether to run nothing: outcomes have forecasts instead of results.

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
    OutOfMemory
        If the only run needs more memory than is available.
    """
    runs = experiment.runs
    session = _Session(experiment, runs, watch, stage, loaded, dry)
    if len(runs) == 1:
        yield session.only()
        return
    session.check()
    for run in runs:
        yield session.perform(run)
        if session.stage.interrupted:
            return


class _Session:
    """An experiment in progress; each workload is made once if there is room to keep it."""

    def __init__(
        self,
        experiment: Experiment,
        runs: Sequence[Run],
        watch: Callable[[ExperimentStage], None] | None,
        stage: ExperimentStage | None,
        loaded: FabricCache | None,
        dry: bool = False,
    ):
        self._dry = dry
        self._experiment, self._runs, self._watch = experiment, runs, watch
        self.stage = stage or ExperimentStage(len(runs))
        self.stage.runs = len(runs)
        self.stage.limit_ns, self.stage.limit_s = experiment.max_time, experiment.max_seconds
        for run in runs:
            if run.engine is not None:
                engines.bind(*engines.parse(run.engine))
            if run.routing is not None:
                routings.bind(*routings.parse(run.routing))
            for _, spec in run.jobs:
                placements.bind(*placements.parse(spec))
            if run.policy is not None:
                check_policy(run.level, run.policy)
        given = experiment.coefficients
        self._model = INFINIBAND if given is None else read_coefficients(given).model
        self._at("reading the fabric")
        self._loaded = loaded or FabricCache(again=False)
        self._fabric = self._loaded.fabric(experiment)
        self._at("writing the workload")
        self._kept: dict[tuple[int, str, str], Workload | RolledWorkload | NotApplicable] = {}
        self._ranks: dict[tuple[int, str], Workload] = {}
        self._room = _KEPT_OPS
        self._once = len({run.jobs for run in runs}) == 1
        self._placed: tuple[tuple[tuple[str, str], ...], JobMix | NotApplicable] | None = None

    def _at(self, doing: str, progress: Progress | None = None) -> None:
        self.stage.at(doing, progress)
        if self._watch is not None:
            self._watch(self.stage)

    def _expect(self, forecast: Forecast) -> None:
        self.stage.forecast = forecast
        self._at("running")

    def only(self) -> Outcome:
        """Perform the only run; raise an error if it does not fit or fails."""
        (run,) = self._runs
        outcome = self.perform(run)
        if (error := _ERRORS.get(outcome.status)) is not None:
            raise error(outcome.reason)
        return outcome

    def perform(self, run: Run) -> Outcome:
        """Perform a run."""
        self.stage.run, self.stage.forecast = run, None
        if self._placed is None or self._placed[0] != run.jobs:
            self._at("writing the workload")
            self._placed = run.jobs, self._mix(run)
        mix = self._placed[1]
        routes: Routes | str = run.routes
        if run.engine is not None:
            found = self._loaded.routes(self._fabric, run.engine, self._at)
            if isinstance(found, NotApplicable):
                return refused(run, found)
            routes = found
        self._at("running")
        if isinstance(mix, NotApplicable):
            return refused(run, mix)
        outcome = run_level(
            self._experiment, run, self._fabric, routes, mix, self._model, self._at, self._expect,
            self._dry,
        )  # fmt: skip
        self.stage.interrupted = outcome.interrupted
        return outcome

    def check(self) -> None:
        """Make every workload and placement once, before the first run."""
        for choice in dict.fromkeys(run.jobs for run in self._runs):
            # A placement only needs the number of ranks of a workload.
            works = [self._idle(number, text) for number, (text, _) in enumerate(choice)]
            known = [work for work in works if work is not None]
            if len(known) == len(works):
                with suppress(NotApplicable):
                    place_jobs(
                        self._jobs(known, choice), self._fabric, overlap=self._experiment.overlap
                    )

    def _mix(self, run: Run) -> JobMix | NotApplicable:
        """Return the placed jobs of a run, or the reason why a workload does not fit."""
        works = []
        try:
            for number, (text, _) in enumerate(run.jobs):
                work = self._workload(number, text, self._places(number, run))
                if isinstance(work, NotApplicable):
                    return work
                works.append(work)
            if self._once:
                self._kept.clear()
            return combine(
                self._jobs(works, run.jobs), self._fabric, overlap=self._experiment.overlap
            )
        except NotApplicable as reason:
            return reason

    def _places(self, number: int, run: Run) -> Places | None:
        """Return the places of a job's ranks if its workload depends on them."""
        if not depends_on_places(run.jobs[number][0]):
            return None
        idle = [self._idle(other, text) for other, (text, _) in enumerate(run.jobs[: number + 1])]
        before = [work for work in idle if work is not None]
        if len(before) < len(idle):
            return None  # a job before it does not fit, so that there is no run
        placed = place_jobs(
            self._jobs(before, run.jobs[: number + 1]),
            self._fabric,
            overlap=self._experiment.overlap,
        )
        return Places.of(self._fabric, placed[number])

    def _idle(self, number: int, text: str) -> Workload | None:
        """Return an empty workload with a job's number of ranks; None if the job does not fit."""
        if (number, text) not in self._ranks:
            part = self._experiment.job[number]
            if depends_on_places(text):
                ranks = _num_ranks(part, text, self._fabric)
            else:
                work = self._workload(number, text)
                if isinstance(work, NotApplicable):
                    return None
                ranks = work.num_ranks
            self._ranks[number, text] = WorkloadBuilder(ranks or 1).build()
        return self._ranks[number, text]

    def _workload(
        self, number: int, text: str, places: Places | None = None
    ) -> Workload | RolledWorkload | NotApplicable:
        key = number, text, "" if places is None else places.digest
        if key in self._kept:
            return self._kept[key]
        work: Workload | RolledWorkload | NotApplicable
        try:
            work = self._load(self._experiment.job[number], text, places)
        except NotApplicable as reason:
            work = reason
        except InputError as error:
            jobs = self._experiment.job
            whose = f"job {jobs[number].name}: " if len(jobs) > 1 else ""
            raise InputError(whose + error.message, file=error.file, line=error.line) from None
        size = 0 if isinstance(work, NotApplicable) else work.num_ops
        if size <= self._room or len(self._experiment.job[number].workload) == 1:
            self._room -= size
            self._kept[key] = work
        return work

    def _load(self, part: JobPart, text: str, places: Places | None) -> Workload | RolledWorkload:
        """Return a workload, rolled if it is large, of the only job, and all runs allow it."""
        ranks = _num_ranks(part, text, self._fabric)
        given: dict[str, Any] = {"num_ranks": ranks, "places": places, **part.options}
        levels = {run.level for run in self._runs}
        alone = len(self._experiment.job) == 1 and not part.start and not part.format
        why = ""
        whole = self._experiment
        least = -1 if part.rolled else ROLLED_FROM
        if alone and levels <= {*COARSE} and not (whole.output.html or whole.trace):
            try:
                work = load_rolled(text, above=least, **given)
                if work.num_messages > least:
                    for run in self._runs:
                        RunSettings.at(run.level, whole.options(run)).check_rolled(run.level)
                    return work
            except OutOfMemory:  # nor does it fit in full
                raise
            except NotApplicable as reason:
                if part.rolled:
                    raise InputError(f"rolled: {reason}") from None
                why = f"; its rounds are not computed once, because {reason}"
        elif part.rolled:
            raise InputError(
                "rolled needs a single job, without start and format, at the flow or the packet "
                "level, and neither a page nor traced messages"
            )
        try:
            return load_workload(text, format=part.format, **given)
        except OutOfMemory as error:
            raise OutOfMemory(f"{error}{why}") from None

    def _jobs(self, works: Sequence[Any], choice: Sequence[tuple[str, str]]) -> list[Job]:
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


def _hosts(part: JobPart) -> str | None:
    return None if part.hosts is None else ",".join(part.hosts)


def _num_ranks(part: JobPart, text: str, fabric: Fabric) -> int | None:
    """Return the number of ranks of a job; by default as many as fit on its hosts."""
    ranks = part.ranks
    if ranks is None and part.format is None and not is_source(text):
        hosts = allowed_hosts(fabric, _hosts(part))
        each = part.ranks_per_host
        machines = set(fabric.machine_of_host[hosts].tolist())
        ranks = len(hosts) if each is None else len(machines) * each
    return ranks
