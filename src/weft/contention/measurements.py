"""Measured times of contention graphs, and the one tidy file that holds them.

The file is comma-separated text with one row per communication. Lines before the header that
begin with ``#`` state how it was measured, as ``# key: value``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.arguments import whole_numbers
from weft.core.columns import Column
from weft.core.errors import InputError
from weft.core.files import read_text, write_text
from weft.core.frozen import FrozenArrays, read_only
from weft.core.registry import did_you_mean

#: What the columns of a file of measurements hold; those after `time_s` may be left out.
MEASUREMENT_COLUMNS: dict[str, Column] = {
    "graph": Column(pl.String, "", "name of the contention graph; its rows stand together"),
    "edge": Column(pl.Int64, "", "number of the communication in its graph, from 0"),
    "source": Column(pl.Int64, "", "node of the graph that sends, from 0"),
    "destination": Column(pl.Int64, "", "node of the graph that receives, from 0"),
    "size_bytes": Column(pl.Int64, "B", "size of the message"),
    "time_s": Column(
        pl.Float64, "s", "median over the repetitions of the time from the common start to the end"
    ),
    "start_s": Column(
        pl.Float64, "s", "median of the delay from the common start to where the sender began"
    ),
    "lower_s": Column(pl.Float64, "s", "lower quartile of the times"),
    "upper_s": Column(pl.Float64, "s", "upper quartile of the times"),
    "min_s": Column(pl.Float64, "s", "shortest of the times"),
    "max_s": Column(pl.Float64, "s", "longest of the times"),
    "repetitions": Column(pl.Int64, "", "number of times behind the statistics"),
}
_NEEDED = ("graph", "edge", "source", "destination", "size_bytes", "time_s")
_LARGEST = 2**62 - 1


@dataclass(frozen=True, eq=False)
class Measurement(FrozenArrays):
    """Completion times of one contention graph whose communications start together.

    Parameters
    ----------
    name
        What messages call the graph.
    sources, destinations
        Nodes of each communication, int64 [edges], at least 0; no loops.
    size_bytes
        Size of each message, or of all: int64 [edges], at least 1.
    time_s
        Time from the common start to the end of each communication, float64 [edges], above 0.
    start_s
        When each communication began after the common start, float64 [edges]; 0 when left out.
    statistics
        Further columns of the file (`MEASUREMENT_COLUMNS`), each [edges].

    Raises
    ------
    InputError
        Naming the graph, when an array does not fit.
    """

    name: str
    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    time_s: NDArray[np.float64]
    start_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    statistics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        what = f"graph {self.name!r}"
        if not self.name or self.name != self.name.strip() or not self.name.isprintable():
            raise InputError(f"{what}: expected a printable name without blanks around it")
        sources = whole_numbers(self.sources, f"{what}: sources", low=0, high=_LARGEST)
        destinations = whole_numbers(
            self.destinations, f"{what}: destinations", low=0, high=_LARGEST
        )
        size_bytes = whole_numbers(
            self.size_bytes, f"{what}: size_bytes", low=1, high=_LARGEST, each=len(sources)
        )
        time_s = np.array(self.time_s, dtype=np.float64)
        edges = sources.size
        if edges == 0 or destinations.shape != (edges,):
            raise InputError(f"{what}: expected as many sources as destinations, and at least one")
        loops = np.flatnonzero(sources == destinations)
        if loops.size:
            raise InputError(
                f"{what}: edge {loops[0]} is a loop at node {sources[loops[0]]}; "
                "communications inside a node are not part of the model"
            )
        start_s = np.array(self.start_s, dtype=np.float64)
        if start_s.size == 0:
            start_s = np.zeros(edges)
        statistics = {
            name: np.array(values, dtype=np.float64) for name, values in self.statistics.items()
        }
        arrays = {"size_bytes": size_bytes, "time_s": time_s, "start_s": start_s, **statistics}
        for name, values in arrays.items():
            if values.shape != (edges,):
                raise InputError(f"{what}: {name} has {values.size} values for {edges} edges")
            if not np.isfinite(values).all():
                raise InputError(f"{what}: {name} must be finite")
        if not (time_s > 0).all():
            raise InputError(f"{what}: times must be above 0 s, not {time_s.min()}")
        for name, values in {"sources": sources, "destinations": destinations, **arrays}.items():
            read_only(values)
            if name not in statistics:
                object.__setattr__(self, name, values)
        object.__setattr__(self, "statistics", statistics)

    @property
    def num_edges(self) -> int:
        """Number of communications."""
        return int(self.sources.size)


@dataclass(frozen=True)
class MeasurementFile:
    """Measurements of one run, and what was said about the run."""

    measurements: tuple[Measurement, ...]
    metadata: Mapping[str, str]


def write_measurements(
    path: str | Path,
    measurements: Sequence[Measurement],
    metadata: Mapping[str, object] | None = None,
) -> None:
    """Write measurements as comma-separated text, under a temporary name that is then renamed.

    Parameters
    ----------
    path
        The file.
    measurements
        At least one; all with the same statistics, and names that differ.
    metadata
        What to say about the run, one line each.

    Raises
    ------
    InputError
        When there are none, two have the same name, they have different statistics, or the file
        cannot be written.
    """
    if not measurements:
        raise InputError("there are no measurements to write")
    extra = [name for name in measurements[0].statistics if name in MEASUREMENT_COLUMNS]
    seen: set[str] = set()
    rows = 0
    body = io.StringIO()
    table = csv.writer(body, lineterminator="\n")
    table.writerow([*_NEEDED, "start_s", *extra])
    for graph in measurements:
        if graph.name in seen:
            raise InputError(f"two graphs are called {graph.name!r}; expected names that differ")
        seen.add(graph.name)
        if list(graph.statistics) != extra:
            raise InputError(f"graph {graph.name!r}: its statistics are not those of the others")
        rows += graph.num_edges
        for edge in range(graph.num_edges):
            table.writerow(
                [
                    graph.name,
                    edge,
                    int(graph.sources[edge]),
                    int(graph.destinations[edge]),
                    int(graph.size_bytes[edge]),
                    repr(float(graph.time_s[edge])),
                    repr(float(graph.start_s[edge])),
                    *(_number(name, graph.statistics[name][edge]) for name in extra),
                ]
            )
    facts = {**(metadata or {}), "graphs": len(measurements), "rows": rows}
    head = "".join(f"# {key}: {' '.join(str(value).split())}\n" for key, value in facts.items())
    write_text(path, head + body.getvalue())


def _number(name: str, value: float) -> str:
    return str(int(value)) if MEASUREMENT_COLUMNS[name].dtype is pl.Int64 else repr(float(value))


def read_measurements(path: str | Path) -> MeasurementFile:
    """Read a file of measurements.

    Parameters
    ----------
    path
        A file that the benchmark program wrote, or any other with the columns `graph`, `edge`,
        `source`, `destination`, `size_bytes` and `time_s` and perhaps the others of
        `MEASUREMENT_COLUMNS`.

    Raises
    ------
    InputError
        With file and line, when a column or value is missing, unknown or wrong, the edges of a
        graph are not numbered from 0, or rows are missing at the end.
    """
    text = read_text(path)
    metadata: dict[str, str] = {}
    lines = text.splitlines(keepends=True)
    head = 0
    while head < len(lines) and (lines[head].startswith("#") or not lines[head].strip()):
        key, colon, value = lines[head].lstrip("#").partition(":")
        if colon:
            metadata[key.strip()] = value.strip()
        head += 1
    rows = _rows(lines, head, path)
    graphs: list[Measurement] = []
    for name, line, values in _grouped(rows, path):
        columns = {column: [value[column] for value in values] for column in values[0]}
        try:
            graphs.append(
                Measurement(
                    name,
                    np.array(columns["source"]),
                    np.array(columns["destination"]),
                    np.array(columns["size_bytes"]),
                    np.array(columns["time_s"]),
                    np.array(columns.get("start_s", [])),
                    {
                        column: np.array(columns[column])
                        for column in MEASUREMENT_COLUMNS
                        if column in columns and column not in (*_NEEDED, "start_s")
                    },
                )
            )
        except InputError as error:
            raise InputError(error.message, file=path, line=line) from None
    if not graphs:
        raise InputError("has no measurements", file=path)
    for key, found in (
        ("graphs", len(graphs)),
        ("rows", sum(graph.num_edges for graph in graphs)),
    ):
        if key in metadata and metadata[key] != str(found):
            raise InputError(
                f"has {found} {key} where its head says {metadata[key]}; it may be cut short",
                file=path,
            )
    return MeasurementFile(tuple(graphs), metadata)


_Row = dict[str, int | float | str]


def _rows(lines: Sequence[str], head: int, path: str | Path) -> Iterator[tuple[int, _Row]]:
    """Line number and converted values of each row."""
    table = csv.reader(lines[head:], strict=True)
    try:
        columns = [name.strip() for name in next(table, [])]
        for name in columns:
            if name not in MEASUREMENT_COLUMNS or columns.count(name) > 1:
                reason = "twice" if name in MEASUREMENT_COLUMNS else "which is unknown"
                raise InputError(
                    f"has a column {name!r}, {reason}{did_you_mean(name, MEASUREMENT_COLUMNS)}; "
                    f"expected {', '.join(MEASUREMENT_COLUMNS)}",
                    file=path,
                    line=head + 1,
                )
        missing = [name for name in _NEEDED if name not in columns]
        if missing:
            raise InputError(f"lacks the column {missing[0]}", file=path, line=head + 1)
        for values in table:
            line = head + table.line_num
            if not values or (len(values) == 1 and not values[0].strip()):
                continue
            if len(values) != len(columns):
                raise InputError(
                    f"has {len(values)} values for {len(columns)} columns", file=path, line=line
                )
            try:
                yield (
                    line,
                    {
                        name: _value(name, value.strip())
                        for name, value in zip(columns, values, strict=True)
                    },
                )
            except ValueError as error:
                raise InputError(str(error), file=path, line=line) from None
    except csv.Error as error:
        raise InputError(str(error), file=path, line=head + table.line_num) from None


def _value(name: str, text: str) -> int | float | str:
    dtype = MEASUREMENT_COLUMNS[name].dtype
    if dtype is pl.String:
        return text
    whole = dtype is pl.Int64
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = math.nan
    if abs(value) > _LARGEST and not math.isnan(value):
        raise ValueError(f"{name} is {text[:40]!r}, which is too large")
    if math.isnan(value):
        kind = "an integer" if whole else "a number"
        raise ValueError(f"{name} is {text[:40]!r}; expected {kind}")
    return value


def _grouped(
    rows: Iterator[tuple[int, _Row]], path: str | Path
) -> Iterator[tuple[str, int, list[_Row]]]:
    """Name, first line and rows of each graph."""
    name, first, kept = "", 0, list[_Row]()
    seen: set[str] = set()
    for line, row in rows:
        if row["graph"] != name or not kept:
            if kept:
                yield name, first, kept
            name, first, kept = str(row["graph"]), line, []
            if name in seen:
                raise InputError(
                    f"graph {name!r} occurs again; its rows must stand together",
                    file=path,
                    line=line,
                )
            seen.add(name)
        if row["edge"] != len(kept):
            raise InputError(
                f"graph {name!r}: edge {row['edge']} where {len(kept)} was expected",
                file=path,
                line=line,
            )
        kept.append(row)
    if kept:
        yield name, first, kept
