"""`weft study`: the runs that a file describes, computed once and kept."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from weft.cli.common import Whole, announced_compile
from weft.cli.machine_output import emit, given
from weft.core.errors import InputError
from weft.core.pool import cores
from weft.core.signals import INTERRUPTED
from weft.experiment.run import clock_text
from weft.runs.execute import Progress, counts
from weft.runs.executors import DaskCluster, Executor, InProcess, LocalProcesses
from weft.runs.store import INDEX, Store
from weft.study.perform import perform
from weft.study.plan import Plan, plan
from weft.study.schema import schema
from weft.study.spec import StudyFile, read_study

#: Exit status if a run has no complete result and fits.
NOT_WHOLE = 1
#: Seconds between two lines of progress if standard error is not a terminal.
LINE_S = 10.0


def study_command(
    file: Annotated[
        str | None, Parameter(help="File of the study (.toml); see docs/studies.md.")
    ] = None,
    /,
    *,
    store: Annotated[
        Path | None,
        Parameter(help="Folder of the results. Default: FILE without .toml, with .study."),
    ] = None,
    dry_run: Annotated[
        bool,
        Parameter(help="Print the number of runs, what is done, and an estimate; run nothing."),
    ] = False,
    workers: Annotated[
        Whole | None,
        Parameter(help="Processes that compute; 0 computes in this one. Default: one per core."),
    ] = None,
    scheduler: Annotated[
        str | None,
        Parameter(help="Compute on the workers of this Dask scheduler, as in tcp://host:8786."),
    ] = None,
    retry: Annotated[
        bool, Parameter(help="Compute runs again that have failed or were ended by a limit.")
    ] = False,
    keep_versions: Annotated[
        bool, Parameter(help="Keep results of other versions of weft instead of computing again.")
    ] = False,
    print_schema: Annotated[
        bool,
        Parameter(name="--schema", help="Print the JSON schema of the file, for editors."),
    ] = False,
) -> int:
    """Compute every run that a file describes, and keep the results in a store.

    Runs that the store has are not computed again. The first Ctrl-C finishes the active runs, a
    second one ends them. The exit status is 1 if a run failed or has no result, and 130 after an
    interrupt.
    """
    if print_schema:
        print(json.dumps(schema(), indent=2))
        return 0
    if file is None:
        raise InputError("nothing to run: expected a file of a study (.toml)")
    if workers is not None and scheduler is not None:
        raise InputError("--workers and --scheduler exclude each other")
    if workers is not None and workers < 0:
        raise InputError(f"--workers: expected 0 or more, not {workers}")
    study = read_study(file)
    folder = store or study.path.with_suffix(".study")
    if dry_run:
        return _show_plan(study, folder, retry, keep_versions)
    # The executor comes first: nothing is written if there is none.
    with Store(folder, write=True) as opened:
        planned = plan(study, opened, retry=retry, keep_versions=keep_versions)
        for line in plan_lines(planned, folder):
            print(line)
        if not planned.todo:
            return _end(planned, opened, None)
        executor = _executor(workers, scheduler, planned)
        with announced_compile(), _Watch() as watch:
            progress = perform(planned, opened, executor, watch.update)
        return _end(planned, opened, progress)


def _executor(workers: int | None, scheduler: str | None, planned: Plan) -> Executor:
    """Return where the runs are computed."""
    limits = planned.limits
    if scheduler is not None:
        return DaskCluster(scheduler, limits)
    if workers == 0:
        if limits.table:
            raise InputError("run_seconds and run_memory require worker processes, not --workers 0")
        return InProcess()
    return LocalProcesses(min(workers or cores(), len(planned.todo)), limits)


def _show_plan(study: StudyFile, folder: Path, retry: bool, keep_versions: bool) -> int:
    if (folder / INDEX).exists():
        with Store(folder) as opened:
            planned = plan(study, opened, retry=retry, keep_versions=keep_versions)
    else:
        planned = plan(study, None)
    for line in plan_lines(planned, folder):
        print(line)
    emit(
        runs=len(planned.runs), stored=planned.stored, todo=len(planned.todo),
        older=planned.older, retried=planned.retried, seconds=planned.seconds,
        memory_bytes=planned.memory_bytes, without_estimate=planned.unknown,
    )  # fmt: skip
    return 0


def plan_lines(planned: Plan, folder: Path) -> list[str]:
    """Return a plan in words."""
    study = planned.study
    axes: dict[str, dict[str, None]] = {}
    for run in planned.runs:
        for name, value in run.point.items():
            axes.setdefault(name, {})[value] = None
    varied = [f"{len(values)} x {name}" for name, values in axes.items() if len(values) > 1]
    seeds = len(study.study.seeds or ())
    varied += [f"{seeds} seeds"] * (seeds > 1)
    lines = [
        f"study {study.name}: {len(planned.runs):,} runs of weft {study.command.name}"
        + (f" ({', '.join(varied)})" if varied else "")
    ]
    lines += [
        f"{count:,} runs are stored from weft {version}; they are computed again "
        "(--keep-versions keeps them)"
        for version, count in planned.older.items()
    ]
    lines += [
        f"{count:,} runs that were {status!r} are computed again"
        for status, count in planned.retried.items()
    ]
    same = len(planned.runs) - len({task.key for task in planned.tasks})
    lines += [f"{same:,} runs are equal to others and are computed once"] * (same > 0)
    todo = len(planned.todo)
    lines.append(f"store {folder}: {planned.stored:,} runs are done, {todo:,} are to be computed")
    if todo and planned.seconds is None:
        lines.append("time and memory: unknown until a run of the study is stored")
    elif todo and planned.seconds is not None:
        memory = planned.memory_bytes or 0
        rest = f"; {planned.unknown:,} runs without an estimate" if planned.unknown else ""
        lines.append(
            f"estimate: {clock_text(planned.seconds)} of computation, "
            f"{clock_text(planned.seconds / cores())} on {cores()} cores; up to "
            f"{memory / 2**30:.2f} GiB for each run at a time{rest}"
        )
    return lines


def _end(planned: Plan, store: Store, progress: Progress | None) -> int:
    """Print what the store has now, and return the exit status."""
    have = store.briefs(task.key for task in planned.tasks)
    statuses: dict[str, int] = {}
    for task in planned.tasks:
        status = have[task.key].status if task.key in have else "not run"
        statuses[status] = statuses.get(status, 0) + 1
    emit(study=planned.study.name, store=str(store.folder), statuses=statuses)
    print(f"results: {store.folder} ({', '.join(f'{n:,} {name}' for name, n in statuses.items())})")
    reasons: dict[str, int] = {}
    for key in have:
        if have[key].status not in ("complete", "does not fit") and len(reasons) < 5:
            run = store.run(key)
            if run is not None:
                reasons[f"{run.status}: {run.reason}"] = reasons.get(run.reason, 0) + 1
    for reason in reasons:
        print(f"weft: {reason}", file=sys.stderr)
    if progress is not None and progress.stopping:
        print(f"weft: interrupted; {progress.left:,} runs are left", file=sys.stderr)
        return INTERRUPTED
    fine = {"complete", "does not fit"}
    return 0 if set(statuses) <= fine and "complete" in statuses else NOT_WHOLE


class _Watch:
    """Display of the progress: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._quiet = given("--quiet")
        self._next = time.monotonic() + 1.0
        self._bar: Bar | None = None
        self._stopping = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, progress: Progress) -> None:
        """Show the progress."""
        if progress.stopping and not self._stopping:
            self._stopping = True
            print(
                "weft: finishing the active runs; Ctrl-C again ends them at once", file=sys.stderr
            )
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._terminal else LINE_S)
        if not self._terminal:
            print(f"weft: {text_of(progress)}", file=sys.stderr, flush=True)
            return
        if self._bar is None:
            self._bar = Bar(
                BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._bar.add_task("", total=progress.runs)
            self._bar.start()
        done = progress.runs - progress.left
        self._bar.update(self._bar.task_ids[0], description=text_of(progress), completed=done)


def text_of(progress: Progress) -> str:
    """Return the progress of a study in words."""
    parts = [f"{progress.runs - progress.left:,} of {progress.runs:,} runs"]
    if progress.done and set(progress.done) != {"complete"}:
        parts.append(counts(progress))
    if rate := progress.rate():
        parts.append(f"{rate:.3g} runs/s")
    left = progress.left_s()
    if left is not None:
        parts.append(f"about {clock_text(left)} left")
    return "; ".join(parts)
