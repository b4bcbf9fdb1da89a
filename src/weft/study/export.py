"""All runs of a study, or one of their tables, as one table with a description of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from weft.core.columns import Column, Measure
from weft.core.errors import InputError
from weft.core.registry import wrong_name
from weft.study.command_registry import study_command as commands
from weft.study.data import study_data
from weft.study.runs.listing import chosen_study
from weft.study.runs.store import Store
from weft.study.runs.task import function_name

#: Descriptions of the columns that every run has.
_RUN = {
    "run": Column(pl.Int64, "", "Number of the run in the study, from 1"),
    "key": Column(pl.String, "", "Hash of all that determines the result"),
    "seed": Column(pl.Int64, "", "Seed of the repetition (null: the study has no seeds)"),
    "status": Column(pl.String, "", "Status: complete, or why there is no complete result"),
    "reason": Column(pl.String, "", "Reason of a missing or partial result"),
    "wall_s": Column(pl.Float64, "s", "Wall time of the run"),
    "memory_bytes": Column(pl.Int64, "B", "Peak of the memory of the process of the run"),
}


def run_table(folder: Path, study: str | None = None) -> tuple[pl.DataFrame, dict[str, Column]]:
    """Return all runs of a study with axes and measures, and the descriptions of the columns.

    `study`: name of the study; by default the one that was run last.
    """
    data = study_data(folder, study, every_measure=True)
    columns = dict(_RUN)
    columns |= {axis: Column(pl.String, "", f"Value of {axis}") for axis in data.axes}
    columns |= {name: Column(pl.String, "", text) for name, text in data.details.items()}
    columns |= {each.name: Column(pl.Float64, each.unit, each.meaning) for each in data.measures}
    return data.runs, {name: columns[name] for name in data.runs.columns}


def stacked_table(folder: Path, name: str, study: str | None = None) -> pl.DataFrame:
    """Return a table of all runs of a study, one below the other, with the number of each run.

    `folder`, `study`: as in `run_table`. `name`: name of the table, such as ``jobs``.
    """
    parts = []
    with Store(folder) as store:
        chosen = chosen_study(store, study)
        check_table(store.studies()[chosen]["command"], name)
        for member in store.members(chosen):
            table = store.table(member.key, name)
            if table is not None:
                number = pl.lit(member.number, pl.Int64).alias("run")
                parts.append(table.drop("run", strict=False).select(number, pl.all()))
    if not parts:
        raise InputError(
            f"has no table {name!r} of any run; 'tables' in [study] names those that are kept",
            file=folder,
        )
    return pl.concat(parts, how="diagonal_relaxed")


def check_table(command: str, name: str) -> None:
    """Refuse a table that no run of a command has."""
    known = commands[command].facts["tables"]
    if name not in known:
        raise InputError(wrong_name("unknown table", name, known))


def meanings(columns: Mapping[str, Column]) -> pl.DataFrame:
    """Return the descriptions of columns as a table."""
    return pl.DataFrame(
        [(name, each.unit, each.meaning) for name, each in columns.items()],
        schema=["column", "unit", "meaning"],
        orient="row",
    )


def measures_of(function: str) -> dict[str, Measure]:
    """Return the measures of the command whose runs a function performs; none if it is unknown."""
    for entry in commands:
        if function_name(entry.function) == function:
            return {each.name: each for each in entry.facts["measures"]}
    return {}
