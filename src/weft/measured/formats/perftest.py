"""Output of perftest: ``ib_write_bw``, ``ib_read_lat``, ``ib_send_bw`` and others.

Bandwidths in "MB/sec" are in units of 2^20 bytes, as in "MiB/sec". The time of writes and sends is
half of a round trip, that of reads a whole one.

Source: src/perftest_parameters.h and .c of perftest.
"""

from __future__ import annotations

import re

from weft.measured.formats.measurement_format_registry import (
    LogReader,
    MeasuredValue,
    has_log_line,
    log_lines,
    measurement_reader,
)

_TITLE = re.compile(r"\s+(\w+) ((?:[\w ]+ )?)(BW|Latency) Test\s*$")
#: Programs by the names of operations in titles.
_PROGRAMS = {"RDMA_Write": "ib_write", "RDMA_Read": "ib_read", "Send": "ib_send"}
_DEPTH = re.compile(r"\s*TX depth\s*:\s*(\d{1,9})\b")
_COLUMN = re.compile(
    r"#(bytes|iterations)|BW (peak|average)\[(?:Gb|MB|MiB)/sec\]|(MsgRate)\[Mpps\]"
    r"|(t_(?:min|max|typical|avg|stdev))\[usec\]|(99|99\.9)% percentile\[usec\]|(tps) average"
    r"|(CPU_Util)\[%\]"
)
_HEADER = re.compile(r"\s*#bytes\s+#iterations\b")


@measurement_reader(
    "perftest", sniff=has_log_line(rf"(?:{_HEADER.pattern}|\s+RDMA_\w+ .*Test\s*$)")
)
def read(text: str, file: str) -> list[MeasuredValue]:
    """Tables of perftest: bandwidth and latency of writes, reads and sends."""
    return _Perftest(file).read(text)


class _Perftest(LogReader):
    """The present test."""

    program = operation = ""
    depth: int | None = None
    unit = 1.0

    def read(self, text: str) -> list[MeasuredValue]:
        number = 0
        for number, line in log_lines(text):
            self._line(line.rstrip(), number)
        if self.columns:
            self.cut(number, "a line of hyphens after it")
        if not self.found:
            self.fail("has no table of perftest with a row", number)
        return self.found

    def _line(self, line: str, number: int) -> None:
        if title := _TITLE.match(line):
            if title[1] not in _PROGRAMS:
                expected = ", ".join(_PROGRAMS)
                self.fail(f"unknown test {line.strip()!r}; expected one of {expected}", number)
            both = "bi" * ("Bidirectional" in title[2])
            self.operation = f"{both}bandwidth" if title[3] == "BW" else "latency"
            self.program = f"{_PROGRAMS[title[1]]}_{title[3][:3].lower()}"
        elif depth := _DEPTH.match(line):
            self.depth = int(depth[1])
        elif _HEADER.match(line):
            if self.columns and self.found and self.found[-1].line > self.began:
                self.cut(number, "a line of hyphens after it")
            self._begin(line, number)
        elif line.startswith("-----"):
            self.columns = []
        elif self.columns and re.match(r"\s*\d+(?:\s+\d|\s*$)", line):
            self._row(self.row(line.split(), number), number)

    def _begin(self, line: str, number: int) -> None:
        self.header(_COLUMN, line, number)
        if ("average" in self.columns) == bool({"t_typical", "t_avg"} & {*self.columns}):
            self.fail("expected a column BW average, t_typical or t_avg", number)
        if (self.operation in ("", "latency")) == ("average" in self.columns):
            # Without a title it is not known whether writes, reads or sends were measured.
            self.program = ""
            self.operation = "bandwidth" if "average" in self.columns else "latency"
        self.unit = 1.0 if "average[Gb" in line else 2**20 * 8e-9

    def _row(self, row: dict[str, str], number: int) -> None:
        time = self.value(row, "t_typical" if "t_typical" in row else "t_avg", number, 1e3)
        least, most = (self.value(row, name, number, 1e3) for name in ("t_min", "99"))
        self.found.append(
            MeasuredValue(
                number, self.operation, self.count(row["bytes"], "#bytes", number), time,
                self.value(row, "average", number, self.unit), least, most,
                samples=1 if least is None or most is None else None, ranks=2, nodes=2,
                window=self.depth if time is None else None, program=self.program,
            )
        )  # fmt: skip
