"""Folder of results, written atomically."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl

from weft.core.columns import Column
from weft.core.errors import InputError
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
from weft.study.experiment.run_level import Outcome
from weft.study.experiment.spec import Experiment
from weft.study.experiment.toml_file import resolved, with_absolute_paths

Format = Literal["parquet", "csv"]

#: Files of every folder of results besides its tables.
EXPERIMENT, MEANINGS = "experiment.toml", "columns.csv"


class ResultWriter:
    """Writer of results, which all become visible when `keep` is called.

    Tables of each run are written to a hidden folder inside the output folder; `close` removes
    tables that are not kept.

    `folder`: output folder, created if it does not exist. Earlier results in the folder are
    replaced; tables that the new results do not have are removed. `experiment`: the experiment; a
    copy with every key is written next to the tables.
    """

    def __init__(self, folder: str | Path, experiment: Experiment):
        self.folder = Path(folder)
        self.experiment = experiment
        self.format: Format = experiment.output.format
        self._several = len(experiment.runs) > 1
        self._rows: list[dict[str, Any]] = []
        self._jobs: list[dict[str, Any]] = []
        self._levels: dict[str, None] = {}
        #: Folders that were created and are removed if no results are kept.
        self._created = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        self._hidden: Path | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._hidden = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=self.folder))
        except OSError as error:
            self._clear()
            raise InputError(f"cannot be written to: {error.strerror}", file=folder) from None

    def close(self) -> None:
        """Remove results that are not kept; must be called in any case."""
        self._clear()

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a run."""
        self._rows.append(run_row(outcome))
        self._jobs += job_rows(outcome)
        messages = self.experiment.output.messages
        only = [name for name in TABLES if name != "messages" or messages]
        number = f"-{outcome.run.number}" if self._several else ""
        for name, table in tables_of(outcome, only).items():
            self._levels.setdefault(outcome.run.level)
            self._write(f"{name}{number}.{self.format}", table)

    def keep(self) -> list[Path]:
        """Make the results visible and return their files."""
        self._write(f"runs.{self.format}", of_columns(RUN_COLUMNS, self._rows))
        self._write(f"jobs.{self.format}", of_columns(JOB_COLUMNS, self._jobs))
        self._write(MEANINGS, meanings(tuple(self._levels)))
        hidden = self._need()
        try:
            (hidden / EXPERIMENT).write_text(
                resolved(with_absolute_paths(self.experiment)), encoding="utf-8"
            )
            written = sorted(path.name for path in hidden.iterdir())
            if (self.folder / EXPERIMENT).exists():
                for old in self.folder.iterdir():
                    if _is_table(old.name) and old.name not in written:
                        old.unlink()
            for name in written:
                os.replace(hidden / name, self.folder / name)
        except OSError as error:
            raise InputError(f"cannot be written to: {error.strerror}", file=self.folder) from None
        self._created = []
        return [self.folder / name for name in written]

    def _need(self) -> Path:
        assert self._hidden is not None
        return self._hidden

    def _write(self, name: str, table: pl.DataFrame) -> None:
        path = self._need() / name
        try:
            if path.suffix == ".csv":
                table.write_csv(path)
            else:
                table.write_parquet(path)
        except OSError as error:
            text = error.strerror or str(error)
            raise InputError(f"cannot be written: {text}", file=self.folder / name) from None

    def _clear(self) -> None:
        if self._hidden is not None:
            shutil.rmtree(self._hidden, ignore_errors=True)
            self._hidden = None
        for path in self._created:
            try:
                path.rmdir()
            except OSError:
                break
        self._created = []


def meanings(levels: tuple[str, ...]) -> pl.DataFrame:
    """Return a table of all columns: table, level, column, type, unit and meaning."""
    described: list[tuple[str, str, Mapping[str, Column]]] = [
        ("runs", "", RUN_COLUMNS),
        ("jobs", "", JOB_COLUMNS),
        *(
            (name, level, columns)
            for level in LEVELS
            if level in levels
            for name, columns in columns_of(level).items()
        ),
    ]
    rows = [
        (table, level, name, str(column.dtype), column.unit, column.meaning)
        for table, level, columns in described
        for name, column in columns.items()
    ]
    names = ["table", "level", "column", "type", "unit", "meaning"]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _is_table(name: str) -> bool:
    """Return whether a file has the name of a table of results."""
    stem, dot, suffix = name.partition(".")
    table, dash, number = stem.partition("-")
    known = {"runs", "jobs", *TABLES}
    return (
        bool(dot)
        and suffix in {"parquet", "csv"}
        and table in known
        and (not dash or number.isdecimal())
    )
