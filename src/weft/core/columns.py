"""Descriptions of columns of frames and of measures; functions that make and write frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from weft.core.files import write_with


class Column(NamedTuple):
    """Description of one column of a frame.

    Parameters
    ----------
    dtype
        Polars type of the values.
    unit
        Unit of the values; empty for names, indices and counts.
    meaning
        Meaning of the values, and of null if null may occur.
    """

    dtype: type[pl.DataType] | pl.DataType
    unit: str
    meaning: str


@dataclass(frozen=True)
class Measure:
    """Description of a number that runs measure.

    Parameters
    ----------
    name
        Name of the column in the table of runs, with the unit as a suffix.
    unit
        Unit; empty for counts and shares.
    meaning
        Meaning in one sentence.
    better
        Whether lower or higher values are better; None if neither is.
    """

    name: str
    unit: str
    meaning: str
    better: Literal["lower", "higher"] | None = None


def frame(columns: Mapping[str, Column], data: Mapping[str, Any]) -> pl.DataFrame:
    """Return a frame of exactly the described columns, in their order; NaN becomes null."""
    if columns.keys() != data.keys():
        wrong = ", ".join(sorted(columns.keys() ^ data.keys()))
        raise ValueError(f"the columns do not match their description: {wrong}")
    ordered = {name: data[name] for name in columns}
    schema = {name: column.dtype for name, column in columns.items()}
    return pl.DataFrame(ordered, schema=schema).with_columns(pl.col(pl.Float64).fill_nan(None))


def frame_of_rows(columns: Mapping[str, Column], rows: Iterable[Sequence[Any]]) -> pl.DataFrame:
    """Return the frame that `frame` makes, from rows with one value per column."""
    listed = list(rows)
    values = zip(*listed, strict=True) if listed else ((),) * len(columns)
    return frame(columns, dict(zip(columns, map(list, values), strict=True)))


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a frame as CSV if the name ends in .csv, else as Parquet."""
    write_with(path, table.write_csv if path.suffix.lower() == ".csv" else table.write_parquet)
