"""Predictions beside what nccl-tests and the OSU micro-benchmarks measured on real machines.

The measurements are not part of weft. `docs/accuracy.md` describes the machines, what is assumed of
them, and what the errors show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from weft.core.columns import frame
from weft.core.errors import InputError
from weft.core.files import make_folder, write_text
from weft.core.pool import check_processes
from weft.core.registry import wrong_name
from weft.measured.measurements import POINT_TO_POINT
from weft.measured.read import read_measurements
from weft.study.runs.typed import IN_MEMORY, Results
from weft_papers.accuracy import tables as table
from weft_papers.accuracy.plots import figures as drawn
from weft_papers.accuracy.runs import MACHINES, Prediction, fitted, predict, rule_of_thumb
from weft_papers.paper_registry import paper
from weft_papers.reported_study import ReportedStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Largest size of a collective that takes minutes at most at the packet level.
PACKET_BYTES = {"nccl-tests": 2**27, "osu": 2**13}
#: Size of the ping whose latency the rule of thumb takes.
_PING_BYTES = 8
#: Columns of measurements that say what is to be predicted.
_OF_ROW = list(Prediction.__dataclass_fields__)[:9]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AccuracyStudy(ReportedStudy):
    """Measured points with predictions, and their errors."""

    title = "Accuracy against measurements"
    columns = table.COLUMNS
    width = 200

    #: One row for each measured point and library.
    points: pl.DataFrame

    @property
    def errors(self) -> dict[str, pl.DataFrame]:
        """Errors by machine and operation, and those by ranks and sizes, too."""
        every = table.errors(self.points, *table.PLACE, "sizes")
        return {"summary": table.summary(self.points), "errors": every}

    def result_parts(self) -> Iterable[str]:
        """Return the errors."""
        return map(table.markdown, self.errors.values())

    def figures(self) -> Iterable[tuple[str, Figure]]:
        """Draw the points of each operation."""
        return drawn(self.points)

    def write(self, out: str | Path) -> tuple[Path, ...]:
        """Write the files of all studies, and the tables as Markdown."""
        texts = self.errors
        for (system,), its in self.points.group_by("system", maintain_order=True):
            texts[f"points-{table.label(str(system))}"] = table.points_text(its)
        files = super().write(out)
        for name, text in texts.items():
            write_text(Path(out) / f"{name}.md", table.markdown(text))
        return (*files, *(Path(out) / f"{name}.md" for name in texts))


@paper("accuracy", aliases=("measured",))
def accuracy(
    *,
    measured: Path | None = None,
    operations: tuple[str, ...] = (),
    packet: bool = True,
    processes: int | None = None,
    results: Results = IN_MEMORY,
    out: Path | None = None,
) -> AccuracyStudy:
    """Predictions beside what benchmarks measured on three real machines.

    Parameters
    ----------
    measured
        Folder with the measurements, which are not part of weft.
    operations
        Operations, such as allreduce and latency; by default all that were measured.
    packet
        Whether to predict at the packet level, too, what takes minutes at most there.

    Raises
    ------
    InputError
        If there are no measurements, or they are of another machine or operation.
    KeyboardInterrupt
        If it arrives before all predictions are known.
    """
    check_processes(processes)
    if measured is None:
        raise InputError("expected measured, the folder with the measurements")
    rows = read_measurements(measured).frame
    for column, given, known in (
        ("system", rows["system"], MACHINES), ("operation", operations, {*rows["operation"]}),
    ):  # fmt: skip
        if unknown := sorted({*given} - {*known}):
            raise InputError(wrong_name(f"unknown {column}", unknown[0], sorted(known)))
    if out is not None:
        make_folder(out)  # fails before the computation
    pairs = rows.filter(pl.col("operation").is_in([*POINT_TO_POINT]))
    parameters = {
        str(system): fitted(str(system), its) for (system,), its in pairs.group_by("system")
    }
    chosen = rows.filter(pl.col("operation").is_in([*(operations or rows["operation"])]))
    points = _points(chosen, pairs)
    plan = [_ways(row, packet, parameters) for row in points.iter_rows(named=True)]
    tasks = [task for ways in plan for task in ways.values()]
    found = results.of("accuracy", predict, None, tasks, processes)
    if len(found) < len({*tasks}):
        raise KeyboardInterrupt
    values: dict[str, Any] = {
        way: [found[ways[way]]["value"] if way in ways else None for ways in plan]
        for way in ("flow", "packet", "fitted")
    }
    values["rule"] = [rule_of_thumb(row) for row in points.iter_rows(named=True)]
    values["choice"] = [found[ways["flow"]]["choice"] for ways in plan]
    whole = frame(table.COLUMNS["points"], points.to_dict(as_series=False) | values)
    return AccuracyStudy(
        parameters={"operations": operations, "packet": packet}, points=whole
    ).written(out)


def _points(rows: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each measured point and library, with what is known of its machine."""
    two = pl.col("operation").is_in([*POINT_TO_POINT])
    ranks, libraries = (
        pl.col("system").replace_strict(
            {name: getattr(each, of) for name, each in MACHINES.items()}, return_dtype=kind
        )
        for of, kind in (("ranks", pl.Int64), ("libraries", pl.List(pl.String)))
    )
    pings = pairs.filter(operation="latency")
    pings = pings.select("system", "nodes", "size_bytes", ping="time_ns")
    small = pings.filter(size_bytes=_PING_BYTES).select("system", "nodes", ping_ns="ping")
    return (
        rows.join(small, ["system", "nodes"], "left", maintain_order="left")
        .join(pings, ["system", "nodes", "size_bytes"], "left", maintain_order="left")
        .with_columns(
            value=pl.coalesce("time_ns", "gbps"), sizes=table.size_class(),
            ranks=pl.coalesce("ranks", pl.when(two).then(2).otherwise(pl.col("nodes") * ranks)),
            library=pl.when(two).then([""]).otherwise(libraries),
        )
        .with_columns(
            each=pl.when(two).then(1).otherwise(pl.col("ranks") // pl.col("nodes")),
            pathological=table.pathological("ping"),
        )
        .explode("library")
        .drop("source", "ping")
    )  # fmt: skip


def _ways(row: dict[str, Any], packet: bool, parameters: dict[str, str]) -> dict[str, Prediction]:
    """Return the predictions of a measured point by way."""
    flow = Prediction(**{name: row[name] for name in _OF_ROW}, library=row["library"])
    ways = {"flow": flow}
    largest = PACKET_BYTES[row["benchmark"]]
    if packet and (row["operation"] in POINT_TO_POINT or row["size_bytes"] <= largest):
        ways["packet"] = replace(flow, level="packet")
    if row["system"] in parameters:
        ways["fitted"] = replace(flow, parameters=parameters[row["system"]])
    return ways
