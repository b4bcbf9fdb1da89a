"""The runs of a study in a store, as plain data for tables, figures and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from weft.core.columns import Measure
from weft.core.errors import WeftError
from weft.fabrics import Fabric
from weft.report.study_data import StudyData
from weft.study.command_registry import (
    details_of,
    drawn,
    measures_of,
    repeated,
    study_command,
)
from weft.study.experiment.spec import FabricKeys
from weft.study.runs.listing import chosen_study
from weft.study.runs.rows import StoredRun
from weft.study.runs.store import Store
from weft.study.runs.task import Inputs

#: Measures that are the size of what a run does.
_SIZES = ("hosts", "num_ranks")
#: Seed of a repetition that tells whether a run without seeds draws anything.
_OTHER_SEED = 1


def study_data(
    folder: str | Path, study: str | None = None, *, every_measure: bool = False
) -> StudyData:
    """Return a study of a store with all its runs, done or not.

    `study`: name of the study; by default the one that was run last. `every_measure`: whether to
    return all measures of the runs, not only those that the file of the study lists.
    """
    with Store(folder) as store:
        name = chosen_study(store, study)
        about = store.studies()[name]
        members = store.members(name)
        runs = {run.key: run for run in store.runs(member.key for member in members)}
    # A measure with the name of an axis repeats its value, such as the load of a sweep.
    measures = tuple(
        each
        for each in _measures(about, runs.values(), every_measure)
        if each.name not in about["axes"]
    )
    details = details_of(about["command"])
    texts: dict[str, list[str | None]] = {name: [] for name in details if name not in about["axes"]}
    kinds: dict[str, Any] = {
        "run": pl.Int64, "key": pl.String, "seed": pl.Int64, "status": pl.String,
        "reason": pl.String, "wall_s": pl.Float64, "memory_bytes": pl.Int64,
    }  # fmt: skip
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    axes: dict[str, list[str | None]] = {axis: [] for axis in about["axes"]}
    values: dict[str, list[float | None]] = {measure.name: [] for measure in measures}
    for member in members:
        run = runs.get(member.key)
        ended: Any = ("not run", "", None, None)
        if run is not None:
            ended = run.status, run.reason, run.wall_s, run.memory_bytes
        of_run = (member.number, member.key, member.seed, *ended)
        for column, value in zip(columns.values(), of_run, strict=True):
            column.append(value)
        for axis, listed in axes.items():
            listed.append(member.point.get(axis, ""))
        for name, written in texts.items():
            written.append(None if run is None else _text(run, name))
        for measure, found in values.items():
            found.append(None if run is None else _number(run.measures.get(measure)))
    command, void = about["command"], study_command[about["command"]].facts.get("void")
    complete = [run for run in runs.values() if run.status == "complete"]
    seeded = any(member.seed is not None for member in members)
    excluded = {run.key: void(run.measures) for run in complete} if void else {}

    def fixed(keys: Collection[str]) -> Collection[str]:
        known = [dict(runs[key].parameters) for key in keys if key in runs]
        if len(known) == 1 and not seeded:
            known.append(dict(repeated(command, known[0], {}, _OTHER_SEED)))
        others = [{**each, "seed": None} for each in known]
        if len(known) < 2 or any(each != others[0] for each in others):
            return ()
        return {each.name for each in measures} - drawn(command, known[0])

    kinds |= dict.fromkeys((*axes, *texts), pl.String) | dict.fromkeys(values, pl.Float64)
    currencies = {run.measures["currency"] for run in runs.values() if "currency" in run.measures}
    if len(currencies) == 1:
        (name,) = map(str, currencies)
        measures = tuple(
            replace(each, unit=name) if each.unit == "currency" else each for each in measures
        )
    return StudyData(
        title=about["title"],
        experiment=about["text"],
        command=about["command"],
        axes={axis: tuple(listed) for axis, listed in about["axes"].items()},
        runs=pl.DataFrame({**columns, **axes, **texts, **values}, schema=kinds),
        details={name: details[name] for name in texts},
        measures=measures,
        baseline=about["baseline"],
        table=lambda key, table: _table(folder, key, table),
        versions=dict(Counter(run.build for run in runs.values())),
        fabric=lambda key: _fabric(runs[key]) if key in runs else None,
        fixed=fixed,
        excluded={key: why for key, why in excluded.items() if why[1]},
        sizes={
            key: run.measures[name]
            for key, run in runs.items()
            for name in _SIZES
            if name in run.measures
        },
    )


def _table(folder: str | Path, key: str, name: str) -> pl.DataFrame | None:
    with Store(folder) as store:
        return store.table(key, name)


def _fabric(run: StoredRun) -> Fabric | None:
    """Return the fabric of a run; None if it has none, or its files have changed or gone."""
    source, faults = run.parameters.get("fabric"), run.parameters.get("faults")
    if not isinstance(source, dict):
        return None
    try:
        # Its files are those that the parameters name, whatever its row says.
        if not Inputs().are(run.parameters, run.inputs):
            return None
        return FabricKeys.model_validate({"fabric": source, "faults": faults or {}}).load_fabric()
    except (WeftError, LookupError, TypeError, ValidationError):
        return None


def _text(run: StoredRun, name: str) -> str | None:
    value = run.parameters.get(name, run.measures.get(name))
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _measures(about: dict[str, Any], runs: Any, every: bool) -> tuple[Measure, ...]:
    """Return the measures that are shown: the listed ones, or those that some run has."""
    known = {each.name: each for each in measures_of(about["command"])}
    found: dict[str, None] = {}
    for run in runs:
        found |= dict.fromkeys(run.measures)
    if about["measures"] and not every:
        return tuple(known[name] for name in about["measures"] if name in known)
    return tuple(each for name, each in known.items() if name in found)
