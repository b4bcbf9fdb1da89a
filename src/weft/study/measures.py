"""Measures of the runs of a study, from the columns of the tables that commands print."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import polars as pl

from weft.core.columns import Column, Measure
from weft.study.runs.task import Value

#: The size of a run, for commands whose tables do not have it.
HOSTS = {"hosts": Column(pl.Int64, "", "Number of hosts of the fabric")}
_NUMBERS = (pl.Float64, pl.Int64, pl.Int32, pl.Boolean)


def measures(
    columns: Mapping[str, Column],
    *,
    lower: Collection[str] = (),
    higher: Collection[str] = (),
    first: Collection[str] = (),
    without: Collection[str] = (),
) -> tuple[Measure, ...]:
    """Return a measure for each column of numbers.

    `lower`, `higher`: columns of which lower or higher values are better. `first`: columns that
    come first, in this order; by default `lower`, then `higher`. `without`: columns that are no
    measures, such as settings.
    """
    kinds = {name: column.dtype for name, column in columns.items()}
    order = dict.fromkeys([*(first or (*lower, *higher)), *lower, *higher, *columns])
    return tuple(
        Measure(
            name, columns[name].unit, columns[name].meaning,
            "lower" if name in lower else "higher" if name in higher else None,
        )
        for name in order
        if kinds[name] in _NUMBERS and name not in without
    )  # fmt: skip


def values(known: Iterable[Measure], row: Mapping[str, Any]) -> dict[str, Value]:
    """Return the measures that a row of a table has; a truth value is 1 or 0."""
    return {
        each.name: int(value) if isinstance(value, bool) else value
        for each in known
        if (value := row.get(each.name)) is not None and not math.isnan(value)
    }
