"""CSV with a header: measured values of any benchmark, and of pairs of machines.

`COLUMNS` lists the columns and their other names. A value is in a column whose name has the unit,
or in ``value``, ``median`` or ``mean`` with the name of that column in ``measure``. Rows without a
suite are of nccl-tests if there is a column ``gpus_per_node``, else of the OSU micro-benchmarks;
what a size counts, and which library sends, depends on it.
"""

from __future__ import annotations

import csv

from weft.core.registry import wrong_name
from weft.fabrics.formats.format_registry import warn_of
from weft.measured.formats.measurement_format_registry import (
    LogReader,
    MeasuredValue,
    measurement_reader,
)
from weft.measured.measurements import OPERATIONS

#: Names of columns, the usual one first.
COLUMNS = {
    "operation": ("operation", "collective", "benchmark", "test"),
    "suite": ("suite",),
    "size_bytes": ("size_bytes", "size", "bytes"),
    "measure": ("measure", "metric"),
    "value": ("value", "median", "mean"),
    "least": ("least", "min"),
    "most": ("most", "max"),
    "samples": ("samples",),
    "ranks": ("ranks",),
    "nodes": ("nodes", "machines"),
    "ranks_per_node": ("ranks_per_node", "gpus_per_node"),
    "from_machine": ("from_machine", "from", "source"),
    "to_machine": ("to_machine", "to", "target", "destination"),
    "round": ("round",),
    "system": ("system",),
}
#: Columns of values: whether they are times, and ns or Gb/s in one of their units.
VALUES = {
    "time_ns": (True, 1.0), "time_us": (True, 1e3), "time_ms": (True, 1e6),
    "latency_us": (True, 1e3), "avg_latency_us": (True, 1e3),
    "gbps": (False, 1.0), "mb_s": (False, 8e-3), "bandwidth_mb_s": (False, 8e-3),
    "gb_s": (False, 8.0), "bandwidth_gb_s": (False, 8.0),
}  # fmt: skip
#: Columns that follow from others.
_DERIVED = ("algbw_gb_s", "busbw_gb_s")
_SYNONYMS = {
    "bw": "bandwidth", "bibw": "bibandwidth", "broadcast": "bcast", "all-reduce": "allreduce",
    "all-gather": "allgather", "all-to-all": "alltoall", "reducescatter": "reduce-scatter",
}  # fmt: skip
_SUITES = ("nccl-tests", "osu", "perftest")


def _is_table(text: str) -> bool:
    """Return whether the first line that is no comment names a size and an operation."""
    lines = (line for line in text.split("\n") if line.strip() and line.lstrip()[0] != "#")
    names = {cell.strip(' "') for cell in next(lines, "").split(",")}
    return all(names & {*COLUMNS[each]} for each in ("operation", "size_bytes"))


@measurement_reader("csv", sniff=_is_table)
def read(text: str, file: str) -> list[MeasuredValue]:
    """CSV with a header, such as ``operation,size_bytes,time_us,ranks,nodes``."""
    return _Table(file).read(text)


class _Table(LogReader):
    """The column of values, and the suite of rows that do not name it."""

    value_column = suite = ""

    def read(self, text: str) -> list[MeasuredValue]:
        reader = csv.reader(text.split("\n"), strict=True)
        try:
            for cells in reader:
                row = [each.strip() for each in cells]
                if not any(row) or row[0].startswith("#"):
                    continue
                if self.columns:
                    self._row(self.row(row, reader.line_num), reader.line_num)
                else:
                    self._begin(row, reader.line_num)
        except csv.Error as error:
            self.fail(f"is not valid CSV: {error}", reader.line_num)
        if not self.found:
            self.fail("has no row below the header", reader.line_num)
        return self.found

    def _begin(self, header: list[str], line: int) -> None:
        usual = {other: name for name, others in COLUMNS.items() for other in others}
        names = [usual.get(each, each) for each in header]
        if twice := [each for each in (*COLUMNS, *VALUES) if names.count(each) > 1]:
            self.fail(f"has two columns for {twice[0]}", line)
        values = [each for each in names if each in VALUES]
        if len(values) > 1 or (not values and not {"measure", "value"} <= {*names}):
            self.fail(f"expected one column of {', '.join(VALUES)}; or measure and value", line)
        others = [each for each in names if each not in (*COLUMNS, *VALUES, *_DERIVED)]
        warn_of(self.file, others, "column", "that weft does not know, left out", kind="left out")
        self.value_column = values[0] if values else ""
        self.suite = "nccl-tests" if "gpus_per_node" in header else "osu"
        self.columns, self.began = names, line

    def _row(self, row: dict[str, str], line: int) -> None:
        given = row["operation"].lower().replace("_", "-")
        operation = _SYNONYMS.get(given, given)
        measure, suite = self.value_column or row["measure"], row.get("suite") or self.suite
        for what, name, known in (
            ("operation", operation, OPERATIONS), ("measure", measure, VALUES),
            ("suite", suite, _SUITES),
        ):  # fmt: skip
            if name not in known:
                self.fail(wrong_name(f"unknown {what}", name, known), line)
        is_time, unit = VALUES[measure]
        value, least, most = (
            self.value(row, name, line, unit)
            for name in (self.value_column or "value", "least", "most")
        )
        if value is None:
            self.fail(f"{self.value_column or 'value'} is empty", line)
        samples, ranks, nodes, each = (
            self.count(row[name], name, line) if row.get(name) else None
            for name in ("samples", "ranks", "nodes", "ranks_per_node")
        )
        self.found.append(
            MeasuredValue(
                line, operation, self.count(row["size_bytes"], "size_bytes", line),
                value if is_time else None, None if is_time else value, least, most,
                samples=samples or (1 if least is None else None),
                ranks=nodes * each if nodes and each and not ranks else ranks, nodes=nodes,
                from_machine=row.get("from_machine", ""), to_machine=row.get("to_machine", ""),
                round=row.get("round", ""), system=row.get("system", ""), benchmark=suite,
            )
        )  # fmt: skip
