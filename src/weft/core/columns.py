"""What the columns of a result hold: every frame that weft returns has such a description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl


class Column(NamedTuple):
    """One column of a frame.

    Parameters
    ----------
    dtype
        Its polars type.
    unit
        Unit of its values, empty for names and numbers of things.
    meaning
        What it says, and what null stands for where null may occur.
    """

    dtype: type[pl.DataType]
    unit: str
    meaning: str


def frame(columns: Mapping[str, Column], data: Mapping[str, Any]) -> pl.DataFrame:
    """A frame of exactly the described columns, in their order; NaN becomes null."""
    if columns.keys() != data.keys():
        wrong = ", ".join(sorted(columns.keys() ^ data.keys()))
        raise ValueError(f"the columns do not match their description: {wrong}")
    ordered = {name: data[name] for name in columns}
    schema = {name: column.dtype for name, column in columns.items()}
    return pl.DataFrame(ordered, schema=schema).with_columns(pl.col(pl.Float64).fill_nan(None))
