"""Studies of `weft simulate`: workloads on routed fabrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from weft.core.errors import InputError, NotApplicable
from weft.core.settings import settings
from weft.experiment import Experiment, check
from weft.experiment.result_tables import (
    JOB_COLUMNS,
    RUN_COLUMNS,
    TABLES,
    job_rows,
    of_columns,
    run_row,
)
from weft.experiment.result_tables import tables as tables_of
from weft.experiment.run import Loaded, Stage, perform
from weft.experiment.spec import Run
from weft.experiment.toml_file import beside, with_absolute_paths
from weft.report.study_data import Better, Measure
from weft.routing import engine as engines
from weft.runs.task import RunResult
from weft.sim.flit.routings import routing as routings
from weft.sim.options import RunSettings, check_policy
from weft.study.command_registry import Point, command, seeded_fabric, seeded_list
from weft.workload.apps import application
from weft.workload.collectives import collective
from weft.workload.patterns import pattern
from weft.workload.placement import placement as placements

_LOWER: Better = "lower"
#: Measure -> which values are better; all other numbers of `RUN_COLUMNS` are measures, too.
_BETTER: dict[str, Better | None] = {
    "makespan_ns": _LOWER, "communication_ns": _LOWER, "mean_slowdown": _LOWER,
    "mean_message_ns": _LOWER, "max_message_ns": _LOWER, "bound_ns": _LOWER,
    "max_contention": _LOWER, "mean_contention": _LOWER, "busiest_share": None,
    "mean_wait_ns": _LOWER, "reordering_ns": _LOWER,
}  # fmt: skip
_NUMBERS = (pl.Float64, pl.Int64, pl.Int32)
_OTHERS = [
    name for name, column in RUN_COLUMNS.items()
    if column.dtype in _NUMBERS and name not in ("run", *_BETTER)
]  # fmt: skip
MEASURES = tuple(
    Measure(name, RUN_COLUMNS[name].unit, RUN_COLUMNS[name].meaning, _BETTER.get(name))
    for name in (*_BETTER, *_OTHERS)
)
_TABLES = ("jobs", *dict.fromkeys(name for _, name in TABLES))
_WORKLOADS = (application, collective, pattern)

#: Fabric and routes of the last runs of this process.
_loaded = Loaded(most_routes=12)


def points(experiment: Experiment) -> list[Point]:
    """Return the runs of an experiment; specs are checked as far as possible without running."""
    if experiment.output.model_fields_set:
        raise InputError("output is not a key of a study; its results are in the store")
    found = []
    for run in experiment.runs:
        _check(run)
        axes = {
            "engine": run.engine, "routing": run.routing, "level": run.level,
            "sharing": run.sharing, "policy": run.policy,
        }  # fmt: skip
        axes |= {"workload": run.workloads, "placement": run.placements}
        given = {name: value for name, value in axes.items() if value is not None}
        found.append(Point(given, _parameters(experiment, run)))
    return found


def _check(run: Run) -> None:
    if run.engine is not None:
        engines.bind(*engines.parse(run.engine))
    if run.routing is not None:
        routings.bind(*routings.parse(run.routing))
    for _, spec in run.jobs:
        placements.bind(*placements.parse(spec))
    if run.policy is not None:
        check_policy(run.level, run.policy)


def _parameters(experiment: Experiment, run: Run) -> dict[str, Any]:
    """Return the keys of one run: single values, and only settings that its level has."""
    keys = experiment.model_dump(mode="json", exclude={"output"}, exclude_none=True)
    for item in settings(RunSettings):
        if not item.of(run.level):
            keys.pop(item.key, None)
    single = {
        "engine": run.engine, "routing": run.routing, "level": run.level, "sharing": run.sharing,
        "policy": run.policy,
    }  # fmt: skip
    for name, value in single.items():
        keys.pop(name, None)
        if value is not None:
            keys[name] = value
    if run.policy is None or run.policy.partition(":")[0] != "nrk":
        keys.pop("scheduler", None)
    if run.sharing != "penalty":
        keys.pop("coefficients", None)
    for job, (workload, placement) in zip(keys["job"], run.jobs, strict=True):
        job |= {"workload": workload, "placement": placement}
    keys["tables"] = []
    return keys


def seeded(keys: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return keys in which everything random without a seed of its own has a seed."""
    given = dict(keys)
    seeded_fabric(given, seed)
    given.setdefault("seed", seed)
    if isinstance(given.get("job"), list):
        given["job"] = [
            {
                **job,
                **{
                    name: seeded_list(job[name], registries, seed)
                    for name, registries in (("workload", _WORKLOADS), ("placement", (placements,)))
                    if name in job
                },
            }
            for job in given["job"]
        ]
    return given


def absolute(experiment: Experiment, folder: Path) -> Experiment:
    """Return keys with absolute paths; names of files are searched in a folder first."""
    return with_absolute_paths(beside(experiment, folder))


@command(
    "simulate",
    keys=Experiment,
    points=points,
    measures=MEASURES,
    tables=_TABLES,
    seeded=seeded,
    paths=absolute,
)
def simulate(parameters: Mapping[str, Any], watch: Callable[[Any], None]) -> RunResult:
    """Time workloads on a routed fabric, as `weft simulate` does."""
    given = dict(parameters)
    wanted = given.pop("tables")
    experiment = check(given)
    (outcome,) = perform(experiment, watch=watch, stage=Stage(1), loaded=_loaded)
    if outcome.status == "does not fit":
        raise NotApplicable(outcome.reason)
    row = run_row(outcome)
    measures = {each.name: row[each.name] for each in MEASURES if row[each.name] is not None}
    tables = tables_of(outcome, [name for name in wanted if name != "jobs"])
    if "jobs" in wanted:
        tables["jobs"] = of_columns(JOB_COLUMNS, job_rows(outcome))
    status = outcome.status
    assert status in ("complete", "partial", "stopped")
    return RunResult(measures, tables, status, outcome.reason)
