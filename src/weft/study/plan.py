"""What a study still has to compute: runs that are stored, runs to compute, and estimates."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.study.runs.executors import Limits
from weft.study.runs.rows import Brief, Member
from weft.study.runs.store import Store
from weft.study.runs.task import SETTLED, Inputs, Task
from weft.study.spec import PlannedRun, StudyFile


@dataclass(frozen=True, eq=False)
class Plan:
    """The runs of a study and what the store has of them."""

    study: StudyFile
    #: Every run.
    runs: Sequence[PlannedRun]
    #: Task of each run.
    tasks: Sequence[Task]
    #: Indices of the runs to compute, one for each task.
    todo: Sequence[int]
    #: Number of runs whose result is stored.
    stored: int
    #: Version of weft -> number of stored runs that it computed and that are computed again.
    older: Mapping[str, int]
    #: Status -> number of stored runs without a result that are computed again.
    retried: Mapping[str, int]
    #: Estimated sum of the wall times, and largest memory of a run; None if nothing is known.
    seconds: float | None
    memory_bytes: int | None
    #: Number of runs to compute without an estimate.
    unknown: int

    @property
    def limits(self) -> Limits:
        """Limits of a run."""
        return self.study.limits

    def members(self) -> Iterator[Member]:
        """Yield the runs as they are stored."""
        for run, task in zip(self.runs, self.tasks, strict=True):
            yield Member(run.number, task.key, run.seed, run.point)


def tasks_of(study: StudyFile, runs: Sequence[PlannedRun]) -> list[Task]:
    """Return the task of each run."""
    function = study.command.function
    wanted = list(study.study.tables)
    inputs = Inputs()
    return [Task.of(function, {**run.parameters, "tables": wanted}, inputs) for run in runs]


def plan(
    study: StudyFile, store: Store | None, *, retry: bool = False, keep_versions: bool = False
) -> Plan:
    """Compare the runs of a study with a store.

    `store`: the store; None if there is none yet. `retry`: whether to compute all runs again that
    have no complete result. `keep_versions`: whether results of other versions of weft are kept.
    """
    runs = study.runs()
    tasks = tasks_of(study, runs)
    limits = study.limits.table
    known = {} if store is None else store.briefs(task.key for task in tasks)
    todo: dict[str, int] = {}
    done = 0
    older: Counter[str] = Counter()
    retried: Counter[str] = Counter()
    for number, task in enumerate(tasks):
        have = known.get(task.key)
        if have is None:
            todo.setdefault(task.key, number)
            continue
        assert store is not None
        if have.build != task.build and not keep_versions:
            older[have.build] += 1
        elif _again(have, limits, retry):
            retried[have.status] += 1
        elif store.is_whole(task.key, have):
            done += 1
            continue
        todo.setdefault(task.key, number)
    estimates = _Estimates(runs, tasks, known)
    chosen = list(todo.values())
    costs = [estimates.of(runs[number]) for number in chosen]
    seen = [cost for cost in costs if cost is not None]
    return Plan(
        study=study,
        runs=runs,
        tasks=tasks,
        todo=chosen,
        stored=done,
        older=dict(older),
        retried=dict(retried),
        seconds=sum(cost[0] for cost in seen) if seen else None,
        memory_bytes=max((cost[1] for cost in seen), default=0) or None,
        unknown=len(costs) - len(seen),
    )


def _again(have: Brief, limits: Mapping[str, float], retry: bool) -> bool:
    """Return whether a run without a complete result is computed again."""
    if have.status in SETTLED:
        return retry and have.status == "failed"
    # Whether a limit that was in force is larger now, or is gone.
    wider = any(limits.get(name, math.inf) > value for name, value in have.limits.items())
    return retry or have.status == "lost" or wider


class _Estimates:
    """Estimates of wall time and memory from stored runs that are alike."""

    def __init__(
        self, runs: Sequence[PlannedRun], tasks: Sequence[Task], known: Mapping[str, Brief]
    ) -> None:
        self._axes = list(runs[0].point) if runs else []
        self._of: list[dict[tuple[str, ...], list[tuple[float, int]]]] = []
        samples = [
            (run.point, (known[task.key].wall_s, known[task.key].memory_bytes))
            for run, task in zip(runs, tasks, strict=True)
            if task.key in known
        ]
        # Alike are runs with the same values of all axes, then of the first axes only.
        for number in range(len(self._axes), -1, -1):
            groups: defaultdict[tuple[str, ...], list[tuple[float, int]]] = defaultdict(list)
            for point, cost in samples:
                groups[self._values(point, number)].append(cost)
            self._of.append(dict(groups))

    def _values(self, point: Mapping[str, Any], number: int) -> tuple[str, ...]:
        return tuple(str(point.get(name)) for name in self._axes[:number])

    def of(self, run: PlannedRun) -> tuple[float, int] | None:
        """Return the estimated wall time in s and memory in bytes of a run; None if unknown."""
        for back, groups in enumerate(self._of):
            found = groups.get(self._values(run.point, len(self._axes) - back))
            if found:
                return statistics.fmean(s for s, _ in found), max(b for _, b in found)
        return None
