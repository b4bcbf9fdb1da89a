"""Logs of ``nccl-tests`` and ``rccl-tests``, any number of tables in a file.

The collective of a table is that of the line ``# Collective test starting``, which nccl-tests 2.17
and later print, else that of a command before the table, else that in the name of the file. Ranks
and machines are those of the lines of devices. Messages of NCCL may stand between and in the lines.

Source: src/common.cu and src/util.cu of nccl-tests.
"""

from __future__ import annotations

import re
from pathlib import Path

from weft.measured.formats.measurement_format_registry import (
    LogReader,
    Measurement,
    has_log_line,
    log_lines,
    measurement_reader,
)

#: Operations of programs.
_OPERATIONS = {
    "all_reduce": "allreduce", "all_gather": "allgather", "alltoall": "alltoall",
    "broadcast": "bcast", "gather": "gather", "reduce": "reduce",
    "reduce_scatter": "reduce-scatter", "scatter": "scatter", "sendrecv": "sendrecv",
}  # fmt: skip
_TYPES = {
    "int8", "char", "uint8", "int32", "int", "uint32", "int64", "uint64", "half", "float16",
    "float", "float32", "double", "float64", "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2",
}  # fmt: skip
_HEADER = re.compile(r"#\s+size\s+count\s+type\b.*\btime\b|#\s+size\s+count\s+type\b.*\bcputime\b")
_SNIFF = has_log_line(r"(?:#\s+size\s+count\s+type\b|# nThread \d)")
_DEVICE = re.compile(r"#\s+Rank\s+(\d{1,9}) (?:Group\s+\d+ )?Pid\s+\d+ on\s+(\S+) device\s+\d+")
_STARTING = re.compile(r"# Collective test starting: (\w+)")
_PROGRAM = re.compile(r"(?:^|[/\s])([a-z_]+)_perf(?:_mpi)?(?=\s|$)")
_IN_NAME = re.compile("|".join(sorted(_OPERATIONS, key=len, reverse=True)))
_MESSAGE = re.compile(
    r"\S*:\d+(?::\d+)? \[\w*\] (?:\S+ )?NCCL |NCCL (?:INFO|WARN|TRACE) |NCCL version "
)
#: The beginning of a row before a message that was printed into it.
_TORN = re.compile(r"(\s*\d+\s+\d+\s+[a-z]\w*\s+\w+\s+-?\d+?)\s*(?=\S*:\d+:\d+ \[\d+\])")
_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\b")
_END = re.compile(r"# Out of bounds values\s*:\s*(\S+)\s+(\w+)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*:")


@measurement_reader("nccl-tests", sniff=_SNIFF.search)
def read(text: str, file: str) -> list[Measurement]:
    """Tables of ``nccl-tests``: times of collectives, out of place and in place.

    Raises
    ------
    InputError
        If a table or line is cut, a collective or datatype is unknown, data was wrong, or the file
        does not say which collective it measured.
    """
    return _NcclTests(file).read(text)


class _NcclTests(LogReader):
    """The present run: its program, the hosts of its ranks, and the columns of its table."""

    program = ""
    columns: tuple[str, ...] = ()
    began = 0
    ended = True

    def read(self, text: str) -> list[Measurement]:
        self.hosts: dict[int, str] = {}
        torn = ""
        number = 0
        for number, line in log_lines(text):
            if _MESSAGE.search(line):
                part = _TORN.match(line)
                torn = part[1] if part else torn
            elif torn and line.strip():
                self._line(torn + " " + line, number)
                torn = ""
            else:
                self._line(line.rstrip(), number)
        if torn or self.columns:
            self._cut(number)
        if not self.found:
            self.fail("has no table of nccl-tests with a row", number)
        return self.found

    def _line(self, line: str, number: int) -> None:
        if device := _DEVICE.match(line):
            if self.ended:
                self.hosts, self.ended = {}, False
            if int(device[1]) in self.hosts:
                self.fail(
                    f"rank {device[1]} is listed twice: nccl-tests was built without MPI, so that "
                    "each process measured by itself", number,
                )  # fmt: skip
            self.hosts[int(device[1])] = device[2]
        elif started := _STARTING.match(line) or (not self.columns and _PROGRAM.search(line)):
            self.program = started[1].removesuffix("_mpi").removesuffix("_perf")
        elif _HEADER.match(line):
            self._begin(line, number)
        elif self.columns and _ROW.match(line):
            self._row(line.split(), number)
        elif end := _END.match(line):
            if end[2] != "OK":
                self.fail(f"{end[1]} values were wrong; times of wrong results say nothing", number)
            self.columns = ()
            self.ended = True
        elif _AVERAGE.match(line):
            self.columns = ()
            self.ended = True
        elif self.columns and line[:1] not in ("#", "") and re.match(r"\s*\d+\s*(?:\d|$)", line):
            self._cut(number)

    def _cut(self, number: int) -> None:
        self.fail(
            f"the table that begins in line {self.began} is cut; expected rows of "
            f"{len(self.columns)} columns, and '# Out of bounds values' after them", number,
        )  # fmt: skip

    def _begin(self, line: str, number: int) -> None:
        if self.columns:
            self._cut(number)
        columns = tuple(line[1:].split())
        if "cputime" in columns:
            self.fail("has times of processors (-C 1), not of collectives", number)
        named = _IN_NAME.search(Path(self.file).name.lower())
        self.program = self.program or (named[0] if named else "")
        if not self.program:
            self.fail(
                "does not say which collective it measured; expected a line '# Collective test "
                "starting: all_reduce_perf', the command, or all_reduce in the name of the file",
                number,
            )
        if self.program not in _OPERATIONS:
            expected = ", ".join(_OPERATIONS)
            self.fail(f"unknown collective {self.program!r}; expected one of {expected}", number)
        if columns.count("busbw") not in (1, 2) or columns.count("time") != columns.count("busbw"):
            self.fail("expected the columns time, algbw and busbw once or twice", number)
        if sorted(self.hosts) != list(range(len(self.hosts))):
            self.fail(
                f"the lines of devices before have not all ranks to {max(self.hosts)}", number
            )
        self.columns, self.began = columns, number

    def _row(self, values: list[str], number: int) -> None:
        columns = list(self.columns)
        if len(values) == len(columns) - 1 and "redop" in columns:
            columns.remove("redop")  # blank for collectives that do not reduce
        if len(values) != len(columns):
            self.fail(
                f"the row has {len(values)} values; expected {len(columns)}, as in the header in "
                f"line {self.began}", number,
            )  # fmt: skip
        if values[2] not in _TYPES:
            self.fail(
                f"unknown datatype {values[2]!r}; expected {', '.join(sorted(_TYPES))}", number
            )
        size = self.count(values[0], "size", number)
        starts = [at for at, name in enumerate(columns) if name == "time"]
        hosts = list(dict.fromkeys(self.hosts.values()))
        pair = hosts if len(hosts) == 2 else ["", ""]
        for which, (at, end) in enumerate(zip(starts, [*starts[1:], len(columns)], strict=True)):
            group = dict(zip(columns[at:end], values[at:end], strict=True))
            wrong = group.get("#wrong", group.get("error", "N/A"))
            if wrong != "N/A" and self.number(wrong, "#wrong", number, least=-1.0) >= 0.5:
                self.fail(f"{wrong} values were wrong; times of wrong results say nothing", number)
            if size == 0:
                continue
            spread = [
                self.number(group[name], name, number) * 1e3 if name in group else None
                for name in ("min", "max")
            ]
            self.found.append(
                Measurement(
                    number, _OPERATIONS[self.program], size,
                    self.number(group["time"], "time", number) * 1e3,
                    least=spread[0], most=spread[1],
                    samples=None if spread[0] else 1, ranks=len(self.hosts) or None,
                    nodes=len(hosts) or None, in_place=which == 1, from_machine=pair[0],
                    to_machine=pair[1], program=f"{self.program}_perf",
                )
            )  # fmt: skip
