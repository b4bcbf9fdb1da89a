"""Contract of the commands of studies: each one that is registered, including plug-ins'."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weft.study.command_registry import study_command
from weft.study.experiment.toml_file import toml_text
from weft.study.plan import tasks_of
from weft.study.runs.task import Packed, perform
from weft.study.spec import StudyFile, study_of

NAMES = study_command.names()
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(folder: Path, name: str, study: str = "") -> StudyFile:
    (folder / "graph.txt").write_text((EXAMPLES / "contention_graph.txt").read_text())
    keys = {"command": name, **study_command[name].facts["example"]}
    lines = [f"{key} = {toml_text(value)}" for key, value in keys.items()]
    return study_of("\n".join([*lines, "[study]", study]), folder / "many.toml")


def results(file: StudyFile) -> list[Packed]:
    tasks = tasks_of(file, file.runs())
    return [perform(None, task, lambda progress: None) for task in tasks]


def described(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of each table of a command."""
    return {name: each() if callable(each) else each for name, each in facts["tables"].items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs_and_measures_what_is_described(tmp_path: Path, name: str) -> None:
    facts = study_command[name].facts
    tables = described(facts)
    (packed,) = results(example(tmp_path, name, f"tables = {toml_text(list(tables))}"))
    assert (packed.status, packed.reason, packed.details) == ("complete", "", "")
    measures = [each.name for each in facts["measures"]]
    # Texts, such as the engine that was chosen, are not compared.
    found = {k: v for k, v in json.loads(packed.measures).items() if not isinstance(v, str)}
    assert set(found) <= set(measures)
    if name != "cost":  # which needs prices
        assert measures[0] in found
    for table, data in packed.tables.items():
        rows = pl.read_parquet(data)
        assert set(rows.columns) <= set(tables[table]), table
        assert len(rows)


@pytest.mark.parametrize("name", NAMES)
def test_no_table_is_made_that_is_not_kept(tmp_path: Path, name: str) -> None:
    (packed,) = results(example(tmp_path, name))
    assert not packed.tables


@pytest.mark.parametrize("name", NAMES)
def test_measures_and_tables_are_described(name: str) -> None:
    facts = study_command[name].facts
    measures = facts["measures"]
    assert len({each.name for each in measures}) == len(measures) > 0
    assert measures[0].better is not None
    for each in measures:
        assert each.meaning, each.name
        units = {"_per_s": "1/s", "_ns": "ns", "_bytes": "B", "_gbps": "Gb/s", "_s": "s"}
        unit = next((unit for suffix, unit in units.items() if each.name.endswith(suffix)), None)
        assert unit is None or each.unit == unit, each.name
    for table, columns in described(facts).items():
        assert columns, table
        assert all(column.meaning for column in columns.values()), table
    assert study_command[name].summary.endswith(".")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_seeds_determine_the_result(tmp_path: Path, name: str) -> None:
    """Equal seeds give equal results; if something is random, other seeds give others."""
    file = example(tmp_path, name, "seeds = [1, 2]")
    first, second = results(file)
    assert results(file)[0].measures == first.measures
    first_task, second_task = tasks_of(file, file.runs())
    if first_task.key == second_task.key:
        assert first.measures == second.measures
    elif name not in ("place-io", "paper"):  # these count and choose
        assert first.measures != second.measures
