"""Independent runs of several configurations, each at the same points, such as loads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.pool import check_processes, cores, run_all


@dataclass(frozen=True, eq=False)
class Configuration:
    """An engine with a policy, or a routing by coordinates."""

    #: Names of the engine and policy, or of the routing, by column.
    names: Mapping[str, str | None]
    #: What a run needs; None if they do not fit.
    what: Any
    #: Reason why they do not fit.
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Series:
    """Configurations, of which at least one fits."""

    configurations: tuple[Configuration, ...]
    #: Columns that all rows have.
    common: Mapping[str, Any]

    def row(self, number: int, doing: str) -> dict[str, Any]:
        """Return the row of a configuration that has not run."""
        each = self.configurations[number]
        fits = each.what is not None
        return {
            **self.common,
            **each.names,
            "status": "interrupted" if fits else "does not fit",
            "reason": f"the {doing} was interrupted" if fits else each.reason,
        }

    def rows(
        self,
        run: Callable[[Any, tuple[int, Any], Callable[[Any], None]], dict[str, Any]],
        points: Mapping[Any, Mapping[str, Any]],
        processes: int | None,
        progress: Callable[[int, int], None] | None,
        share: float,
        doing: str = "sweep",
    ) -> list[dict[str, Any]]:
        """Run every configuration at every point.

        The first point runs first, then the last, the middle and so on, so that what an interrupt
        leaves is spread over all points.

        `run`: function of a module from this series, the number of a configuration with a point,
        and `watch` to the columns that are measured. `points`: point -> its columns. `share`: work
        of one configuration, relative to that from which several processes save time.
        """
        check_processes(processes)
        every = list(points)
        tasks = [
            (number, every[index])
            for index in ends_first(len(every))
            for number, each in enumerate(self.configurations)
            if each.what is not None
        ]
        fitting = sum(each.what is not None for each in self.configurations)
        number = processes or (cores() if share * fitting > 1 else 1)
        outcomes, complete = run_all(run, self, tasks, number, progress)
        results = dict(zip(tasks, outcomes, strict=True))
        rows = [
            {**self.row(at, doing), **columns} | (results.get((at, point)) or {})
            for at in range(len(self.configurations))
            for point, columns in points.items()
        ]
        tried = [row for row in rows if row["status"] != "does not fit"]
        if complete and all(row["status"] == "failed" for row in tried):
            raise InputError(str(tried[0]["reason"]))
        return rows


def ends_first(number: int) -> list[int]:
    """Return the indices of a list in an order such that each prefix is spread over the list.

    Returns the first index, the last, the middle, and then the middles of ever smaller gaps, from
    the left.
    """
    order = [0, number - 1] if number > 1 else list(range(number))
    gaps = deque([(0, number - 1)])
    while gaps:
        low, high = gaps.popleft()
        middle = (low + high) // 2
        if low < middle:
            order.append(middle)
            gaps += (low, middle), (middle, high)
    return order


def table(columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a frame of rows; missing values are null."""
    return frame(columns, {name: [row.get(name) for row in rows] for name in columns})
