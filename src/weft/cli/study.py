"""`weft study`: the runs that a file describes, computed once and kept."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import announced_compile, console
from weft.cli.option_types import FIRST, OUTPUT, RUNS, Folder, Name, Pair, Whole
from weft.cli.output import emit
from weft.cli.study_progress import Display, spent_text
from weft.cli.study_progress import watch as show_progress
from weft.cli.study_text import show_study
from weft.core.counts import count_text, with_status
from weft.core.errors import InputError
from weft.core.files import file_exists
from weft.core.pool import cores
from weft.core.signals import ended_by
from weft.core.words import clock_text
from weft.report.study_summary import summary
from weft.study.command_registry import run_function
from weft.study.data import study_data
from weft.study.perform import perform, store_study
from weft.study.plan import Plan, plan
from weft.study.resolved import resolved
from weft.study.runs import shares, slurm
from weft.study.runs.execute import StudyProgress, counts
from weft.study.runs.executors import DaskCluster, Executor, InProcess, Limits, LocalProcesses
from weft.study.runs.store import INDEX, Store
from weft.study.schema import schema
from weft.study.spec import StudyFile, read_study

#: Largest number of runs whose summary is printed after a study.
MOST_SHOWN = 20_000
#: Exit status if a run has no complete result and fits.
NOT_WHOLE = 1
#: Pairs of options that may be given together; other pairs exclude each other.
TOGETHER = (
    {"--workers", "--share"}, {"--workers", "--dry-run"}, {"--scheduler", "--dry-run"},
)  # fmt: skip
#: Reasons of runs without a result that are printed.
MOST_REASONS = 5
#: Largest number of jobs of an array by default, and the largest by Slurm's default MaxArraySize.
JOBS, MOST_JOBS = 16, 1001


def study_command(
    file: Annotated[
        str | None, Parameter(help="File of the study (.toml); see docs/studies.md.")
    ] = None,
    /,
    *,
    store: Annotated[
        Folder | None,
        FIRST(help="Folder of the results. Default: FILE without .toml, with .study."),
    ] = None,
    dry_run: Annotated[
        bool,
        FIRST(help="Print the number of runs, what is done, and an estimate; run nothing."),
    ] = False,
    print_resolved: Annotated[
        bool,
        OUTPUT(name="--resolved", help="Print the file with every key and default; run nothing."),
    ] = False,
    workers: Annotated[
        Whole | None,
        FIRST(help="Processes that compute; 0 computes in this one. Default: one per core."),
    ] = None,
    scheduler: Annotated[
        Name | None,
        RUNS(help="Compute on the workers of this Dask scheduler, as in tcp://host:8786."),
    ] = None,
    retry: Annotated[
        bool, RUNS(help="Compute runs again that have failed or were ended by a limit.")
    ] = False,
    keep_versions: Annotated[
        bool, RUNS(help="Keep results of other versions of weft instead of computing again.")
    ] = False,
    sbatch: Annotated[
        bool,
        RUNS(help="Write job scripts of Slurm that compute the runs; they are not submitted."),
    ] = False,
    array: Annotated[
        Whole | None,
        RUNS(help=f"Jobs among which --sbatch shares the runs. Default: up to {JOBS}."),
    ] = None,
    sbatch_option: Annotated[
        tuple[Pair, ...],
        RUNS(
            help="Option of sbatch for the job scripts, as in --sbatch-option=--time=2:00:00; "
            "may be given several times.",
            allow_leading_hyphen=True,
        ),
    ] = (),
    submit: Annotated[bool, RUNS(help="Submit the jobs that --sbatch has written.")] = False,
    collect: Annotated[
        bool,
        RUNS(help="Take the results of jobs into the store and compute nothing."),
    ] = False,
    share: Annotated[
        Whole | None,
        RUNS(
            help="Compute one share of what --sbatch has written to the folder FILE, as its job "
            "scripts do."
        ),
    ] = None,
    watch: Annotated[
        bool,
        OUTPUT(help="Show the progress of a study that another process computes."),
    ] = False,
    print_schema: Annotated[
        bool,
        OUTPUT(name="--schema", help="Print the JSON schema of the file, for editors."),
    ] = False,
) -> int:
    """Compute every run that a file describes, and keep the results in a store.

    Runs that the store has are not computed again. The first Ctrl-C finishes the active runs, a
    second one ends them. The exit status is 1 if a run failed, was ended by a limit or has no
    result, or if none fits; 130 after an interrupt, and 143 after SIGTERM.

    Example: `weft study engines.toml --workers 2`
    """
    if print_schema:
        print(json.dumps(schema(), indent=1))
        return 0
    _check_options(
        {
            "--workers": workers is not None, "--scheduler": scheduler is not None,
            "--sbatch": sbatch, "--collect": collect, "--share": share is not None,
            "--watch": watch, "--dry-run": dry_run,
        }
    )  # fmt: skip
    for option, given in (
        ("--array", array is not None), ("--submit", submit), ("--sbatch-option", sbatch_option),
    ):  # fmt: skip
        if given and not sbatch:
            raise InputError(f"{option} requires --sbatch")
    if workers is not None and workers < 0:
        raise InputError(f"--workers: expected 0 or more, not {workers}")
    if array is not None and not 1 <= array <= MOST_JOBS:
        raise InputError(f"--array: expected 1 to {MOST_JOBS:,} jobs, not {array}")
    if file is None and not (collect and store):
        raise InputError("nothing to run: expected a file of a study (.toml)")
    if share is not None:
        assert file is not None
        return _compute_share(Path(file), share, workers)
    folder = store or Path(file or "").with_suffix(".study")
    if watch:
        return 0 if show_progress(folder) else NOT_WHOLE
    # Where there is no store, there is nothing to collect.
    write = not collect or (folder / INDEX).exists()
    if file is None:
        with Store(folder, write=write) as opened:
            print(f"collected {count_text(_collect(opened), 'result')} of jobs")
        return 0
    study = read_study(file)
    if print_resolved:
        study.runs()  # report mistakes of all runs
        print(resolved(study), end="")
        return 0
    if dry_run:
        return _show_plan(study, folder, retry, keep_versions)
    study.runs()  # a wrong file leaves no store
    options = slurm.checked_options(sbatch_option)
    if submit:
        slurm.check_sbatch()
    if workers == 0:
        _local(workers, study.limits, 1)  # refuses limits that cannot be kept
    cluster = None if scheduler is None else DaskCluster(scheduler, study.limits)
    with nullcontext() if cluster is None else cluster, Store(folder, write=write) as opened:
        if (collected := _collect(opened)) or collect:
            print(f"collected {count_text(collected, 'result')} of jobs")
        planned = plan(study, opened, retry=retry, keep_versions=keep_versions)
        for line in plan_lines(planned, folder):
            print(line, flush=True)
        _warn_of_another(planned, opened)
        if write and (collect or not planned.todo):
            store_study(planned, opened)  # its title, baseline or axes may be others
        if collect or not planned.todo:
            return _end(planned, opened, None)
        if sbatch:
            script = _write_jobs(planned, opened, array or JOBS, options)
        else:
            executor = cluster or _local(workers, planned.limits, len(planned.todo))
            with announced_compile(), Display() as display:
                progress = perform(planned, opened, executor, display.update)
            return _end(planned, opened, progress)
    # The store is closed: the job that collects may begin at once.
    if not submit:
        print(f"submit them with: sh {shlex.quote(str(script))}")
        return 0
    for line in slurm.submit(script):
        print(line)
    return 0


def _warn_of_another(planned: Plan, store: Store) -> None:
    """Say that the study takes the place of one of another file in the same store."""
    name, path = planned.study.name, planned.study.path.resolve()
    other = store.studies().get(name, {}).get("file")
    if other and other != str(path) and file_exists(Path(other)):
        print(
            f"weft: study {name} of {path} replaces that of {other} in {store.folder}; its runs "
            "stay, but belong to no study. A file of another name keeps both",
            file=sys.stderr,
        )


def _local(workers: int | None, limits: Limits, runs: int) -> Executor:
    """Return the executor of this machine for a number of runs."""
    if workers == 0:
        if limits.table:
            raise InputError("run_seconds and run_memory require worker processes, not --workers 0")
        return InProcess()
    return LocalProcesses(max(1, min(workers or cores(), runs)), limits)


def _check_options(given: dict[str, bool]) -> None:
    """Refuse options that exclude each other."""
    chosen = [option for option, is_given in given.items() if is_given]
    if len(chosen) > 1 and set(chosen) not in TOGETHER:
        raise InputError(f"{' and '.join(chosen[:2])} exclude each other")


def _collect(store: Store) -> int:
    """Take the results of jobs into the store; return how many."""
    number, wrong = shares.collect(store)
    for text in wrong:
        print(f"weft: {text}; the run is still to be computed", file=sys.stderr)
    return number


def _compute_share(folder: Path, number: int, workers: int | None) -> int:
    """Compute a share of the plan in a folder."""
    share = shares.read_share(folder, number, run_function)
    executor = _local(workers, share.limits, len(share.tasks))
    with announced_compile(), Display() as display:
        progress = shares.perform_share(share, executor, display.update)
    print(f"share {number} of study {share.study}: {spent_text(progress)}")
    return _interrupted(progress) if progress.stopping else 0


def _write_jobs(planned: Plan, store: Store, most: int, options: Sequence[str]) -> Path:
    """Write the plan of the runs to compute, and the scripts of its jobs; return what submits."""
    store_study(planned, store)
    tasks = [planned.tasks[number] for number in planned.todo]
    jobs = min(most, len(tasks))
    folder = shares.write_plan(store.folder, planned.study.name, tasks, planned.limits, jobs)
    script = slurm.write_scripts(folder, planned.study.name, jobs, options)
    emit(jobs=jobs, folder=str(folder), script=str(script))
    each = count_text(-(-len(tasks) // jobs), "run")
    print(f"jobs: {folder} ({jobs} with up to {each}, and one to collect)")
    return script


def _interrupted(progress: StudyProgress) -> int:
    """Say that a signal has ended a study, and return the exit status."""
    word, status = ended_by()
    print(f"weft: {word}; {count_text(progress.left, 'run')} left", file=sys.stderr)
    return status


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
        f"study {study.name}: {count_text(len(planned.runs), 'run')} of weft {study.command.name}"
        + (f" ({', '.join(varied)})" if varied else "")
    ]
    lines += [
        f"to compute again: {count_text(count, 'run')} of weft {version} "
        f"(--keep-versions keeps them; 'weft store check {folder} --rerun 10' says what changes)"
        for version, count in planned.older.items()
    ]
    lines += [
        f"to compute again: {with_status(count, status)}"
        for status, count in planned.retried.items()
    ]
    same = len(planned.runs) - len({task.key for task in planned.tasks})
    lines += [f"computed once: {count_text(same, 'run')} equal to another one"] * (same > 0)
    todo = len(planned.todo)
    lines.append(f"store {folder}: {count_text(planned.stored, 'run')} done, {todo:,} to compute")
    if todo and planned.seconds is None:
        lines.append("time and memory: unknown until a run of the study is stored")
    elif todo and planned.seconds is not None:
        memory = planned.memory_bytes or 0
        rest = (
            f"; {count_text(planned.unknown, 'run')} without an estimate" if planned.unknown else ""
        )
        lines.append(
            f"estimate: {clock_text(planned.seconds)} of computation, "
            f"{clock_text(planned.seconds / cores())} on {cores()} cores; up to "
            f"{memory / 2**30:.2f} GiB for each run at a time{rest}"
        )
    return lines


def _end(planned: Plan, store: Store, progress: StudyProgress | None) -> int:
    """Print what the store has now, and return the exit status."""
    have = store.briefs(task.key for task in planned.tasks)
    statuses: dict[str, int] = {}
    for task in planned.tasks:
        status = have[task.key].status if task.key in have else "not run"
        statuses[status] = statuses.get(status, 0) + 1
    emit(study=planned.study.name, store=str(store.folder), statuses=statuses)
    if progress is not None:
        print(spent_text(progress))
    print(f"results: {store.folder} ({counts(statuses)})")
    reasons = Counter(
        f"{run.status}: {run.reason}"
        for run in store.runs(
            key for key, run in have.items() if run.status not in ("complete", "does not fit")
        )
    )
    for text, number in reasons.most_common(MOST_REASONS):
        print(f"weft: {count_text(number, 'run')} {text}", file=sys.stderr)
    if len(reasons) > MOST_REASONS:
        rest = len(reasons) - MOST_REASONS
        print(f"weft: {count_text(rest, 'more reason')}: weft report lists them", file=sys.stderr)
    if progress is not None and progress.stopping:
        return _interrupted(progress)
    if "complete" in statuses and len(planned.runs) <= MOST_SHOWN:
        show_study(summary(study_data(store.folder, planned.study.name)), console())
        print(f"more: weft report {shlex.quote(str(store.folder))} --out report.html")
    if progress is None and planned.todo:  # such as results of another version
        return NOT_WHOLE
    fine = {"complete", "does not fit"}
    return 0 if set(statuses) <= fine and "complete" in statuses else NOT_WHOLE
