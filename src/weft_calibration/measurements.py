"""Measured times of contention graphs, and their file format.

The file is comma-separated text with one row per communication. Lines ``# key: value`` before the
header are metadata of the measurement.
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
from weft.core.registry import wrong_name

#: Columns of a file of measurements; the columns after `time_s` are optional.
MEASUREMENT_COLUMNS: dict[str, Column] = {
    "graph": Column(pl.String, "", "Name of the contention graph (its rows are consecutive)"),
    "edge": Column(pl.Int64, "", "Index of the communication in the graph"),
    "source": Column(pl.Int64, "", "Sending node of the graph, from 0"),
    "destination": Column(pl.Int64, "", "Receiving node of the graph, from 0"),
    "size_bytes": Column(pl.Int64, "B", "Size of the message"),
    "time_s": Column(pl.Float64, "s", "Median completion time after the common start"),
    "start_s": Column(pl.Float64, "s", "Median delay of the sender after the common start"),
    "lower_s": Column(pl.Float64, "s", "Lower quartile of the completion times"),
    "upper_s": Column(pl.Float64, "s", "Upper quartile of the completion times"),
    "min_s": Column(pl.Float64, "s", "Minimum of the completion times"),
    "max_s": Column(pl.Float64, "s", "Maximum of the completion times"),
    "repetitions": Column(pl.Int64, "", "Number of measured repetitions"),
}
_NEEDED = ("graph", "edge", "source", "destination", "size_bytes", "time_s")
_LARGEST = 2**62 - 1


@dataclass(frozen=True, eq=False)
class Measurement(FrozenArrays):
    """Completion times of one contention graph whose communications start together."""

    name: str
    #: Nodes of each communication, int64 [edges], at least 0; no loops.
    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    #: int64 [edges], or one number for all edges: size of each message, at least 1.
    size_bytes: NDArray[np.int64]
    #: Time from the common start to the end of each communication, float64 [edges], above 0.
    time_s: NDArray[np.float64]
    #: Start of each communication after the common start, float64 [edges]; by default 0.
    start_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    #: Further columns of the file by name (see `MEASUREMENT_COLUMNS`), each float64 [edges].
    statistics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        what = f"graph {self.name!r}"
        if not self.name or self.name != self.name.strip() or not self.name.isprintable():
            raise InputError(f"{what}: expected a printable name without leading or trailing space")
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
                "the model has no communications inside a node"
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
    """Measurements and metadata of one run."""

    measurements: tuple[Measurement, ...]
    metadata: Mapping[str, str]


def write_measurements(
    path: str | Path,
    measurements: Sequence[Measurement],
    metadata: Mapping[str, object] | None = None,
) -> None:
    """Write measurements as comma-separated text, atomically.

    `measurements`: at least one measurement; all with the same statistics and different names.
    `metadata`: metadata of the run; each entry becomes one line of the file.
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
            raise InputError(f"two graphs have the name {graph.name!r}; names must be unique")
        seen.add(graph.name)
        if list(graph.statistics) != extra:
            raise InputError(f"graph {graph.name!r}: its statistics differ from those of others")
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
        A file with the columns `graph`, `edge`, `source`, `destination`, `size_bytes` and `time_s`
        and optionally the other `MEASUREMENT_COLUMNS`, as written by the benchmark program.

    Raises
    ------
    InputError
        If a column or value is missing, unknown or invalid, the edges of a graph are not numbered
        from 0, or rows are missing at the end; the message names file and line.
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
        raise InputError("the file has no measurements", file=path)
    for key, actual in (
        ("graphs", len(graphs)),
        ("rows", sum(graph.num_edges for graph in graphs)),
    ):
        if key in metadata and metadata[key] != str(actual):
            raise InputError(
                f"the file has {actual} {key}; expected {metadata[key]} as in its head; it may be "
                "truncated",
                file=path,
            )
    return MeasurementFile(tuple(graphs), metadata)


_Row = dict[str, int | float | str]


def _rows(lines: Sequence[str], head: int, path: str | Path) -> Iterator[tuple[int, _Row]]:
    """Yield the line number and the converted values of each row."""
    table = csv.reader(lines[head:], strict=True)
    try:
        columns = [name.strip() for name in next(table, [])]
        for name in columns:
            if name not in MEASUREMENT_COLUMNS or columns.count(name) > 1:
                reason = "duplicate" if name in MEASUREMENT_COLUMNS else "unknown"
                raise InputError(
                    wrong_name(f"{reason} column", name, MEASUREMENT_COLUMNS, "expected"),
                    file=path,
                    line=head + 1,
                )
        missing = [name for name in _NEEDED if name not in columns]
        if missing:
            raise InputError(f"column {missing[0]} is missing", file=path, line=head + 1)
        for values in table:
            line = head + table.line_num
            if not values or (len(values) == 1 and not values[0].strip()):
                continue
            if len(values) != len(columns):
                raise InputError(
                    f"{len(values)} values for {len(columns)} columns", file=path, line=line
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
    is_integer = dtype is pl.Int64
    try:
        value = int(text) if is_integer else float(text)
    except ValueError:
        value = math.nan
    if abs(value) > _LARGEST and not math.isnan(value):
        raise ValueError(f"{name} is {text[:40]!r}, which is too large")
    if math.isnan(value):
        kind = "an integer" if is_integer else "a number"
        raise ValueError(f"{name} is {text[:40]!r}; expected {kind}")
    return value


def _grouped(
    rows: Iterator[tuple[int, _Row]], path: str | Path
) -> Iterator[tuple[str, int, list[_Row]]]:
    """Yield the name, first line and rows of each graph."""
    name, first, graph_rows = "", 0, list[_Row]()
    seen: set[str] = set()
    for line, row in rows:
        if row["graph"] != name or not graph_rows:
            if graph_rows:
                yield name, first, graph_rows
            name, first, graph_rows = str(row["graph"]), line, []
            if name in seen:
                raise InputError(
                    f"graph {name!r} occurs again; its rows must be consecutive",
                    file=path,
                    line=line,
                )
            seen.add(name)
        if row["edge"] != len(graph_rows):
            raise InputError(
                f"graph {name!r}: expected edge {len(graph_rows)}, not {row['edge']}",
                file=path,
                line=line,
            )
        graph_rows.append(row)
    if graph_rows:
        yield name, first, graph_rows
