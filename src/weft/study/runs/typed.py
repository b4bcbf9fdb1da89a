"""Runs of typed functions: from dataclasses to parameters, and from results to measures and tables.

A function takes shared data, a task and `watch`, as for `weft.core.pool.run_all`, and is annotated
with the types of these and of its result. Shared data and tasks consist of what JSON knows, tuples
and dataclasses. A result is a dataclass or a mapping of scalars, arrays, and further dataclasses
and mappings. Numbers and arrays are restored exactly, to the last bit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl

from weft.core.errors import InputError
from weft.core.pool import RunTask, cores
from weft.core.registry import adapter
from weft.study.runs.execute import StudyProgress, execute
from weft.study.runs.executors import InProcess, Limits, LocalProcesses
from weft.study.runs.rows import Member
from weft.study.runs.store import PROGRESS, Store
from weft.study.runs.task import Packed, RunResult, Task, Value, contents, function_name

F = TypeVar("F", bound=Callable[..., Any])
Shared = TypeVar("Shared")
Given = TypeVar("Given")
Result = TypeVar("Result")


def _ignore(_: object) -> None:
    return None


@dataclass(frozen=True)
class Results:
    """Where the results of runs are kept, and who is told of the progress."""

    #: Folder of a store, which is created if it does not exist; None keeps results in memory only.
    store: Path | None = None
    #: Function that is called with the progress after each run and several times a second; an
    #: interrupt that it raises ends the active runs.
    watch: Callable[[StudyProgress], None] = _ignore
    #: Function that is called with a line about what the store has.
    say: Callable[[str], None] = _ignore

    def of(
        self,
        study: str,
        run: RunTask[Shared, Given, Result],
        shared: Shared,
        tasks: Sequence[Given],
        processes: int | None = None,
        *,
        first: Callable[[Given], Any] | None = None,
        alone: Callable[[Given], Given] = lambda task: task,
    ) -> dict[Given, Result]:
        """Return the result of each task; compute those that are not in the store.

        Equal runs are computed once. Results of another version of weft are computed again. The
        first interrupt lets the active runs end; a second one ends them at once.

        - `study`: name of the study in the store. Its list of runs replaces that of the same name.
        - `run`: function of a module. A field of its result with the type of the tasks is the task,
          and is not stored.
        - `processes`: number of worker processes; by default one per core. If it is 1, this process
          computes.
        - `first`: key by which the tasks are sorted before they begin.
        - `alone`: function that returns a task without the fields that do not influence the result.

        Returns results in the order of the tasks; after an interrupt those that are known.
        """
        if not tasks:
            return {}
        function: Callable[..., Any] = run
        types = _types_of(function)
        common = {"run": function_name(function), "shared": _json(types[0], shared)}
        perform = partial(perform_typed, function)
        job_of = {
            task: Task(perform, {**common, "task": _json(types[1], alone(task))}) for task in tasks
        }
        key_of = {task: job.key for task, job in job_of.items()}
        jobs = {key_of[task]: job_of[task] for task in sorted(job_of, key=first or (lambda _: 0))}
        known: dict[str, Packed] = {}
        results: dict[Any, Any] = {}
        progress = StudyProgress(study, len(jobs), 0)
        if self.store is None:
            self._compute(jobs, known, None, processes, progress)
        else:
            with Store(self.store, write=True) as store:
                store.set_study(study, *_listed(study, common, job_of, key_of))
                known = self._stored(store, jobs)
                for task, key in key_of.items():
                    try:
                        results[task] = _result(types[2], known[key], task)
                    except _UNFIT:  # not stored, or not as this function writes it
                        known.pop(key, None)
                progress.stored = len(known)
                self._compute(jobs, known, store, processes, progress)
        return {
            task: results[task] if task in results else _result(types[2], known[key], task)
            for task, key in key_of.items()
            if key in known
        }

    def _stored(self, store: Store, jobs: Mapping[str, Task]) -> dict[str, Packed]:
        """Return the results that are stored and valid, and say how many there are."""
        have = {key: run for key, run in store.briefs(jobs).items() if run.status == "complete"}
        valid = [
            k for k, run in have.items() if run.build == jobs[k].build and store.is_whole(k, run)
        ]
        known = {}
        for run in store.runs(valid):
            paths = {
                name: (store.table_path(run.key, name, digest), digest)
                for name, (_, digest) in run.tables.items()
            }
            # A run with a damaged table is computed again.
            if all(contents(str(path)) == digest for path, digest in paths.values()):
                tables = {name: path.read_bytes() for name, (path, _) in paths.items()}
                known[run.key] = Packed("complete", "", json.dumps(dict(run.measures)), tables)
        self.say(f"store {store.folder}: {len(known):,} of {len(jobs):,} runs are done")
        if older := [run.build for key, run in have.items() if run.build != jobs[key].build]:
            versions = ", ".join(sorted(set(older)))
            self.say(f"{len(older):,} runs of weft {versions} are computed again")
        return known

    def _compute(
        self,
        jobs: Mapping[str, Task],
        known: dict[str, Packed],
        store: Store | None,
        processes: int | None,
        progress: StudyProgress,
    ) -> None:
        """Add the missing results to `known`, and to the store."""
        todo = [job for key, job in jobs.items() if key not in known]
        failed: list[Packed] = []

        def keep(job: Task, packed: Packed, wall_s: float, memory_bytes: int) -> None:
            if store is not None:
                store.add(job, packed, wall_s=wall_s, memory_bytes=memory_bytes)
            if packed.status == "complete":
                known[job.key] = packed
                return
            failed.append(packed)
            if store is None:
                raise _Failed

        limits, number = Limits(), min(processes or cores(), len(todo))
        executor = LocalProcesses(number, limits) if number > 1 else InProcess()
        try:
            if todo:
                file = None if store is None else store.folder / PROGRESS
                execute(todo, executor, keep, limits, progress, file, self.watch)
        except _Failed:
            pass
        for packed in failed:
            # A store shows the details of its runs.
            more = f"\n{packed.details}" if packed.details and store is None else ""
            raise InputError(f"a run failed: {packed.reason}{more}")


#: Errors of results of a store that no function of this version has written.
_UNFIT = (
    AttributeError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)  # fmt: skip

#: Results that are not stored.
IN_MEMORY = Results()


class _Failed(Exception):
    """A run failed whose results are not stored."""


# -- parameters ------------------------------------------------------------------------------------


@cache
def _types_of(run: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """Return the types of a function's shared data, tasks and result."""
    hints = get_type_hints(run)
    shared, task, *_ = (hint for name, hint in hints.items() if name != "return")
    return shared, task, hints["return"]


def _json(kind: Any, value: Any) -> Any:
    """Return a value of a type as JSON."""
    of_kind = adapter(kind)
    described = of_kind.dump_python(value, mode="json", warnings=False)
    if of_kind.validate_python(described) != value:
        raise TypeError(f"JSON does not describe {value!r}")
    return described


#: Name -> function that performs runs; stores name them, and nothing else is called by name.
typed_runs: dict[str, Callable[..., Any]] = {}


def typed_run(function: F) -> F:
    """Register a function that performs runs."""
    typed_runs[function_name(function)] = function
    return function


def perform_typed(
    run: Callable[..., Any], parameters: Mapping[str, Any], watch: Callable[[Any], None]
) -> RunResult:
    """Perform a run of a typed function, whose name is a parameter; see `RunFunction`."""
    shared, task, _ = _types_of(run)
    given = adapter(task).validate_python(parameters["task"])
    result = run(adapter(shared).validate_python(parameters["shared"]), given, watch)
    measures: dict[str, Value] = {}
    described: set[str] = set()
    arrays: dict[str, list[tuple[str, Any]]] = {}
    for name, value in _leaves(result, type(given)):
        if isinstance(value, np.ndarray):
            measures[name] = f"{value.dtype.name} {'x'.join(map(str, value.shape))}"
            arrays.setdefault(value.dtype.name, []).append((name, value.ravel()))
            described.add(name)
        else:
            measures[name] = value
    # Descriptions of arrays are last, so that lists of runs show numbers.
    measures = dict(sorted(measures.items(), key=lambda each: each[0] in described))
    return RunResult(measures, {kind: _table(each) for kind, each in arrays.items()})


def _listed(
    study: str, common: Mapping[str, Any], job_of: Mapping[Any, Task], key_of: Mapping[Any, str]
) -> tuple[dict[str, Any], list[Member]]:
    """Return the description of a study, and its list of runs."""
    points = [dict(_texts(job.parameters["task"])) for job in job_of.values()]
    axes: dict[str, dict[str, None]] = {}
    for point in points:
        for name, text in point.items():
            axes.setdefault(name, {})[text] = None
    varied = {name: list(texts) for name, texts in axes.items() if len(texts) > 1}
    varied.pop("seed", None)
    members = [
        Member(
            number, key_of[task], getattr(task, "seed", None),
            {name: text for name, text in point.items() if name in varied},
        )
        for number, (task, point) in enumerate(zip(job_of, points, strict=True), 1)
    ]  # fmt: skip
    about = {
        "title": study, "command": f"paper {study}", "file": "", "text": json.dumps(common),
        "axes": varied, "baseline": {},
        "measures": [], "seeds": sorted({each.seed for each in members if each.seed is not None}),
    }  # fmt: skip
    return about, members


def _texts(values: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the text of each scalar, and of each list of scalars."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _texts(value, f"{start}{name}.")
        elif not isinstance(value, list):
            yield start + name, value if isinstance(value, str) else json.dumps(value)
        elif not any(isinstance(each, list | dict) for each in value):
            yield start + name, " ".join(map(str, value))


# -- results ---------------------------------------------------------------------------------------


def _leaves(value: Any, task: type, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the scalars and arrays of a result, with their dotted names."""
    if is_dataclass(value) or isinstance(value, Mapping):
        parts = (
            value if isinstance(value, Mapping)
            else {field.name: getattr(value, field.name) for field in fields(value)}
        )  # fmt: skip
        for each, part in parts.items():
            if not isinstance(part, task):
                yield from _leaves(part, task, f"{name}.{each}" if name else each)
    else:
        yield name, value.item() if isinstance(value, np.generic) else value


def _table(arrays: Sequence[tuple[str, Any]]) -> pl.DataFrame:
    """Return arrays of one type as a table with a row for each value."""
    names = np.repeat([name for name, _ in arrays], [len(values) for _, values in arrays])
    return pl.DataFrame({
        "array": pl.Series(names, dtype=pl.Categorical),
        "value": np.concatenate([values for _, values in arrays]),
    })  # fmt: skip


def _result(kind: Any, packed: Packed, task: Any) -> Any:
    """Return a result from its measures and tables."""
    arrays: dict[str, Any] = {}
    for data in packed.tables.values():
        for (name,), part in pl.read_parquet(data).group_by("array", maintain_order=True):
            arrays[str(name)] = part["value"].to_numpy(writable=True)
    return _built(kind, json.loads(packed.measures), arrays, task, "")


def _built(
    kind: Any, measures: Mapping[str, Any], arrays: Mapping[str, Any], task: Any, name: str
) -> Any:
    """Return the part of a result that has this type and name."""
    if kind is type(task):
        return task
    start = f"{name}." if name else ""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{
            field.name: _built(hints[field.name], measures, arrays, task, start + field.name)
            for field in fields(kind)
        })  # type: ignore[operator]  # fmt: skip
    origin = get_origin(kind)
    if origin is np.ndarray:
        dtype, _, shape = measures[name].partition(" ")
        values = arrays.get(name, np.empty(0, dtype))
        return values.reshape([int(each) for each in shape.split("x") if each])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = [each.removeprefix(start) for each in measures if each.startswith(start)]
        each_kind = get_args(kind)[1]
        if is_dataclass(each_kind):
            inner = list(dict.fromkeys(each.partition(".")[0] for each in inner))
        return {
            each: _built(each_kind, measures, arrays, task, start + each) for each in inner
        }  # fmt: skip
    value = measures[name]
    if kind is float and not isinstance(value, str | bool):
        return np.nan if value is None else float(value)  # as in JSON
    if kind in (bool, int, float, str) and type(value) is not kind:
        raise TypeError(f"{name} is {value!r}, not of type {kind.__name__}")
    return value
