"""Studies of `weft simulate`: workloads on routed fabrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import polars as pl

from weft.core.columns import Column
from weft.core.errors import InputError
from weft.core.settings import settings
from weft.routing import engine as engines
from weft.sim.options import RunSettings, chooses, usual_choice
from weft.study.checks import (
    FABRIC_FILES,
    WORKLOADS,
    Files,
    check_distinct,
    check_fabric,
    check_job,
    check_methods,
    check_models,
    check_policies,
    with_seed,
)
from weft.study.checks import seeded as with_usual_seeds
from weft.study.command_registry import Point, Watch, study_command
from weft.study.experiment import check
from weft.study.experiment.result_tables import (
    JOB_COLUMNS,
    LEVELS,
    RUN_COLUMNS,
    TABLES,
    columns_of,
    job_rows,
    of_columns,
    run_row,
)
from weft.study.experiment.result_tables import tables as tables_of
from weft.study.experiment.run import LAST, perform
from weft.study.experiment.spec import HardwarePart, Run, Simulation
from weft.study.measures import measures, values
from weft.study.runs.task import RunResult
from weft.workload.placement import placement as placements

#: Measures for which lower values are better, the main one first, and those that are shown first.
_LOWER = (
    "makespan_ns", "communication_ns", "mean_slowdown", "mean_message_ns", "max_message_ns",
    "bound_ns", "max_contention", "mean_contention", "mean_wait_ns", "reordering_ns",
)  # fmt: skip
_COLUMNS = {**RUN_COLUMNS, "num_ranks": Column(pl.Int64, "", "Number of ranks of all jobs")}
MEASURES = measures(_COLUMNS, lower=_LOWER, higher=("tokens_per_s", "mfu"), without=("run",))


def _columns(table: str) -> Mapping[str, Column]:
    """Return the columns of a table, of all levels together."""
    found: dict[str, Column] = {}
    for level in LEVELS:
        found |= columns_of(level).get(table, {})
    return found


#: Policies that make routing keys, with the seed of the run.
KEYED = ("ark", "nrk")


def points(keys: Simulation, files: Files) -> list[Point]:
    """Return the runs of an experiment; specs are checked as far as possible without running."""
    if keys.threads is not None:
        raise InputError(
            "threads: a study uses the processors for several runs at a time, each on one thread; "
            "leave it out, and see --workers"
        )
    check_fabric(keys, files)
    check_methods(keys, files)
    check_distinct(keys.sharing, "sharing")
    check_policies(keys.level, keys.policy)
    check_models(keys, keys.sharing, files)
    names = [job.name for job in keys.job]
    for number, job in enumerate(keys.job):
        check_job(job, number, files)
        check_distinct(names[: number + 1], "job")
    common = keys.model_dump(mode="json", exclude_none=True)
    found = []
    for run in keys.runs:
        axes = run.method
        # A single policy or sharing model follows from the engine and the level.
        for name in ("sharing", "policy"):
            if len(getattr(keys, name) or ()) < 2:
                axes[name] = None
        given = {name: value for name, value in axes.items() if value is not None}
        given |= {"workload": run.workloads, "placement": run.placements}
        found.append(Point(given, _parameters(common, run)))
    return found


def _parameters(common: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Return the keys of one run: single values, and only settings that its level has."""
    keys = dict(common)
    own = {item.key for item in settings(RunSettings, run.level)}
    for item in settings(RunSettings):
        if item.key not in own:
            keys.pop(item.key, None)
    for name, value in run.method.items():
        keys.pop(name, None)
        if value is not None:
            keys[name] = value
    if run.policy is None or run.policy.partition(":")[0] != "nrk":
        keys.pop("scheduler", None)
    if run.sharing != "penalty":
        keys.pop("coefficients", None)
    keys["job"] = [
        {**job, "workload": workload, "placement": placement}
        for job, (workload, placement) in zip(common["job"], run.jobs, strict=True)
    ]
    return keys


def seeded(parameters: Mapping[str, Any], given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return parameters in which everything random without a seed of its own has a seed."""
    changed = with_usual_seeds(parameters, given, seed)
    changed["job"] = [
        {
            **job,
            "workload": with_seed(job["workload"], seed, *WORKLOADS),
            "placement": with_seed(job["placement"], seed, placements),
        }
        for job in changed["job"]
    ]
    return changed


def draws(parameters: Mapping[str, Any]) -> list[str]:
    """Return all measures if the seed of the run matters: choices of paths, marks, or keys."""
    level, policy = parameters["level"], parameters.get("policy")
    engine = parameters.get("engine", "")
    choice = bool(engine) and engines.parse(engine)[0].facts.get("candidates", False)
    if level == "packet" and choice:
        drawn = chooses(policy or usual_choice(engine, level))
    else:
        drawn = level == "flit" and (choice or not engine)
    control = HardwarePart(**parameters.get("hardware", {})).instance.congestion_control
    drawn |= level == "packet" and control is not None and control.marking_rate > 0
    drawn |= parameters.get("lids") == "hash" or (choice and parameters.get("multipath") == "hash")
    drawn |= policy is not None and policy.partition(":")[0] in KEYED
    return [each.name for each in MEASURES] if drawn else []


@study_command(
    "simulate",
    keys=Simulation,
    points=points,
    measures=MEASURES,
    tables={"jobs": JOB_COLUMNS, **{name: partial(_columns, name) for name in TABLES}},
    seeded=seeded,
    draws=draws,
    files=(*FABRIC_FILES, "workload", "coefficients", "host_parameters"),
    example={
        "fabric": "xgft:2;4,4;1,2",
        "level": "packet",
        "job": [{"workload": "alltoall:size=1KiB", "placement": "random"}],
    },
)
def simulate(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Time workloads on a routed fabric, as `weft simulate` does."""
    given = dict(parameters)
    wanted = given.pop("tables")
    experiment = check(given)
    (outcome,) = perform(experiment, watch=watch, loaded=LAST)
    jobs = job_rows(outcome)
    row = {**run_row(outcome), "num_ranks": sum(job["ranks"] for job in jobs)}
    tables = tables_of(outcome, [name for name in wanted if name != "jobs"])
    if "jobs" in wanted:
        tables["jobs"] = of_columns(JOB_COLUMNS, jobs)
    status = outcome.status
    assert status in ("complete", "partial", "stopped")
    return RunResult(values(MEASURES, row), tables, status, outcome.reason)
