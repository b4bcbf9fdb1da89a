"""Logs of ``nccl-tests`` and ``rccl-tests``, any number of tables in a file.

The collective is that of the line ``# Collective test starting``, which nccl-tests 2.17 and later
print, else that of a command before the table, else that in the name of the file. Ranks and
machines are those of the lines of devices. Messages of NCCL may stand between and in the lines.

Source: src/common.cu and src/util.cu of nccl-tests.
"""

from __future__ import annotations

import re
from pathlib import Path

from weft.measured.formats.measurement_format_registry import (
    LogReader,
    MeasuredValue,
    has_log_line,
    log_lines,
    measurement_reader,
)

#: Operations of programs, longer names first.
_OPERATIONS = {
    "reduce_scatter": "reduce-scatter", "all_reduce": "allreduce", "all_gather": "allgather",
    "broadcast": "bcast", "alltoall": "alltoall", "sendrecv": "sendrecv", "scatter": "scatter",
    "gather": "gather", "reduce": "reduce",
}  # fmt: skip
_TYPES = {
    "int8", "char", "uint8", "int32", "int", "uint32", "int64", "uint64", "half", "float16",
    "float", "float32", "double", "float64", "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2",
}  # fmt: skip
_HEADER = re.compile(r"#\s+size\s+count\s+type\b.*time\b")
_DEVICE = re.compile(r"#\s+Rank\s+(\d{1,9}) (?:Group\s+\d+ )?Pid\s+\d+ on\s+(\S+) device\s+\d+")
_STARTING = re.compile(r"# Collective test starting: (\w+?)(?:_perf(?:_mpi)?)?$")
_PROGRAM = re.compile(r"(?:^|[/\s])([a-z_]+?)_perf(?:_mpi)?(?=\s|$)")
_MESSAGE = re.compile(r"\S*:\d+(?::\d+)? \[\w*\] (?:\S+ )?NCCL |NCCL (?:INFO|WARN|TRACE|version) ")
#: The beginning of a row before a message that was printed into it.
_TORN = re.compile(r"(\s*\d+\s+\d+\s+[a-z]\w*\s+\w+\s+-?\d+?)\s*(?=\S*:\d+:\d+ \[\d+\])")
_END = re.compile(r"# (?:Out of bounds values\s*:\s*(\S+)\s+(\w+)|Avg bus bandwidth\s*:)")


@measurement_reader("nccl-tests", sniff=has_log_line(r"#(?:\s+size\s+count\s+type| nThread \d)"))
def read(text: str, file: str) -> list[MeasuredValue]:
    """Tables of ``nccl-tests``: times of collectives, out of place and in place."""
    return _NcclTests(file).read(text)


class _NcclTests(LogReader):
    """The present run: its program and the hosts of its ranks."""

    program = ""
    ended = False

    def read(self, text: str) -> list[MeasuredValue]:
        self.hosts: dict[int, str] = {}
        torn, number = "", 0
        for number, line in log_lines(text):
            if _MESSAGE.search(line):
                part = _TORN.match(line)
                torn = part[1] if part else torn
            else:
                self._line(f"{torn} {line}" if torn else line.rstrip(), number)
                torn = ""
        if torn or self.columns:
            self.cut(number, "'# Out of bounds values' after it")
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
        elif named := _STARTING.match(line) or (not self.columns and _PROGRAM.search(line)):
            self.program = named[1]
        elif _HEADER.match(line):
            if self.columns:
                self.cut(number, "'# Out of bounds values' after it")
            self._begin(line[1:].split(), number)
        elif end := _END.match(line):
            if end[2] not in (None, "OK"):
                self.fail(f"{end[1]} values were wrong; times of wrong results say nothing", number)
            # A table after this one names its collective again.
            self.columns, self.ended, self.program = [], True, ""
        elif self.columns and re.match(r"\s*\d+(?:\s+\d|\s*$)", line):
            self._row(line.split(), number)

    def _begin(self, columns: list[str], number: int) -> None:
        name = Path(self.file).name.lower()
        self.program = self.program or next((each for each in _OPERATIONS if each in name), "")
        if self.program not in _OPERATIONS:
            self.fail(
                f"unknown collective {self.program!r}; expected one of {', '.join(_OPERATIONS)}"
                if self.program
                else "does not say which collective it measured; expected a line '# Collective "
                "test starting: all_reduce_perf', the command, or all_reduce in the name of the "
                "file", number,
            )  # fmt: skip
        if not columns.count("time") == columns.count("busbw") > 0:
            cpu = "cputime" in columns
            self.fail(
                "has times of processors (-C 1), not of collectives" if cpu
                else "expected the columns time, algbw and busbw", number,
            )  # fmt: skip
        if sorted(self.hosts) != list(range(len(self.hosts))):
            self.fail(f"the lines of devices lack ranks below {max(self.hosts)}", number)
        placed = [self.hosts[rank] for rank in range(len(self.hosts))]
        names = list(dict.fromkeys(placed))
        if placed != [name for name in names for _ in range(len(placed) // len(names))]:
            self.fail(
                "the ranks are not in blocks of one size, machine after machine; expected as many "
                "on each, as srun -m block places them", number,
            )  # fmt: skip
        self.columns, self.began = columns, number

    def _row(self, values: list[str], number: int) -> None:
        if len(values) == len(self.columns) - 1 and "redop" in self.columns:
            values.insert(self.columns.index("redop"), "")  # blank for those that do not reduce
        self.row(values, number)
        if values[2] not in _TYPES:
            expected = ", ".join(sorted(_TYPES))
            self.fail(f"unknown datatype {values[2]!r}; expected one of {expected}", number)
        size = self.count(values[0], "size", number)
        starts = [at for at, name in enumerate(self.columns) if name == "time"]
        hosts = list(dict.fromkeys(self.hosts.values()))
        pair = hosts if len(hosts) == 2 else ["", ""]
        for at, end in zip(starts, [*starts[1:], len(values)], strict=True):
            row = dict(zip(self.columns[at:end], values[at:end], strict=True))
            wrong = row.get("#wrong", row.get("error", "0"))
            if wrong not in ("0", "N/A") and not re.fullmatch(r"\de[-+]\d\d", wrong):
                self.fail(f"{wrong} values were wrong; times of wrong results say nothing", number)
            time = self.value(row, "time", number, 1e3)
            if size:
                self.found.append(
                    MeasuredValue(
                        number, _OPERATIONS[self.program], size, time,
                        ranks=len(self.hosts) or None, nodes=len(hosts) or None,
                        in_place=at != starts[0], from_machine=pair[0], to_machine=pair[1],
                        program=f"{self.program}_perf",
                    )
                )  # fmt: skip
