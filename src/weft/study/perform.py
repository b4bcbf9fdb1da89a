"""A study from its file to results in a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.study.plan import Plan
from weft.study.resolved import resolved
from weft.study.runs.execute import StudyProgress, execute
from weft.study.runs.executors import Executor
from weft.study.runs.store import PROGRESS, Store


def about(plan: Plan) -> dict[str, Any]:
    """Return the description of a study as it is stored."""
    study = plan.study
    axes: dict[str, dict[str, None]] = {}
    for run in plan.runs:
        for name, value in run.point.items():
            axes.setdefault(name, {})[value] = None
    return {
        "title": study.title,
        "command": study.command.name,
        "file": str(study.path.resolve()),
        "text": resolved(study),
        "original": study.text,
        "axes": {name: list(values) for name, values in axes.items()},
        "baseline": study.baseline,
        "measures": list(study.study.measures),
        "seeds": list(study.study.seeds or ()),
    }


def store_study(plan: Plan, store: Store) -> None:
    """Store the description of a study and the list of its runs."""
    store.set_study(plan.study.name, about(plan), plan.members())


def perform(
    plan: Plan, store: Store, executor: Executor, watch: Callable[[StudyProgress], None]
) -> StudyProgress:
    """Perform the runs of a plan that are to be computed, and store each as soon as it is known.

    `store`: the store, open for writing. `watch`: function that is called with the progress after
    each run and several times a second.

    Returns what was done; `stopping` if an interrupt ended it.
    """
    store_study(plan, store)
    progress = StudyProgress(plan.study.name, len({task.key for task in plan.tasks}), 0)
    progress.stored = progress.runs - len(plan.todo)
    limits = plan.limits
    tasks = [plan.tasks[number] for number in plan.todo]
    execute(
        tasks,
        executor,
        lambda task, packed, wall_s, memory: store.add(
            task, packed, wall_s=wall_s, memory_bytes=memory, limits=limits.table
        ),
        limits,
        progress,
        store.folder / PROGRESS,
        watch,
    )
    return progress
