"""Output of the OSU micro-benchmarks 5 to 7, for MPI with and without GPUs.

The output names no ranks and machines. It has no end, so a log that is cut after a line is not
recognised; one that is cut within a line is, because all numbers have two decimals.

Source: c/util/osu_util_mpi.c and the tests in c/mpi of OSU 5.8 and 7.4.
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
from weft.measured.measurements import POINT_TO_POINT

#: Program and operation of tests by their titles.
_TESTS = {
    "Latency": ("osu_latency", "latency"),
    "Multi Latency": ("osu_multi_lat", "latency"),
    "Bandwidth": ("osu_bw", "bandwidth"),
    "Bi-Directional Bandwidth": ("osu_bibw", "bibandwidth"),
    "Multiple Bandwidth / Message Rate": ("osu_mbw_mr", "bandwidth"),
    "All-to-All Personalized Exchange Latency": ("osu_alltoall", "alltoall"),
    "All-to-Allv Personalized Exchange Latency": ("osu_alltoallv", "alltoall"),
    "Broadcast Latency": ("osu_bcast", "bcast"),
    "Reduce_scatter Latency": ("osu_reduce_scatter", "reduce-scatter"),
    **{
        f"{name.capitalize()}{v} Latency": (f"osu_{name}{v}", name)
        for name in ("allgather", "allreduce", "barrier", "gather", "reduce", "scatter")
        for v in ("", "v")
    },
}
_TITLE = re.compile(r"# OSU MPI(?:-\w+)? (.+?) Test v\d")
_COLUMN = re.compile(
    r"(Size)|(?:(Avg|Min|Max) )Latency ?\(us\)|(Latency) ?\(us\)|(?:Bandwidth \()?(MB/s)\)?"
    r"|(Messages/s)|(Iterations)|(P\d+) Tail Lat(?:ency)? ?\(us\)|(Validation)"
)
_HEADER = re.compile(r"#\s+(?:Size\b.*(?:\(us\)|MB/s)|(?:Avg )?Latency ?\(us\))")
_PAIRS = re.compile(r"# \[ pairs: ([1-9]\d{0,3}) \](?: \[ window size: (\d{1,9}) \])?")
_VALUE = re.compile(r"\d{1,18}\.\d\d")
#: Columns of whole numbers and words.
_WHOLE = ("Size", "Iterations", "Validation")


@measurement_reader("osu", sniff=has_log_line("# OSU "))
def read(text: str, file: str) -> list[MeasuredValue]:
    """Tables of the OSU micro-benchmarks: latency, bandwidth and collectives."""
    return _Osu(file).read(text)


class _Osu(LogReader):
    """The present test."""

    test = ("", "")
    pairs = 1
    window: int | None = None

    def read(self, text: str) -> list[MeasuredValue]:
        for number, line in log_lines(text):
            self._line(line.strip(), number)
        self._end()
        return self.found

    def _end(self) -> None:
        """Refuse a test without results."""
        if not self.found or self.found[-1].line < self.began:
            self.fail(f"{self.test[0]} has no row of results", self.began)

    def _line(self, line: str, number: int) -> None:
        if line.startswith("# OSU "):
            if self.began:
                self._end()
            title = _TITLE.match(line)
            if title is None or title[1] not in _TESTS:
                names = ", ".join(program for program, _ in _TESTS.values())
                self.fail(f"unknown test {line[2:]!r}; expected one of {names}", number)
            self.test, self.began, self.columns = _TESTS[title[1]], number, []
            self.pairs, self.window = 1, 64 if self.test[1].endswith("bandwidth") else None
        elif line.startswith("# [ pairs:"):
            if (pairs := _PAIRS.match(line)) is None:
                self.fail("expected [ pairs: N ] with 1 to 9,999 pairs, and a window size", number)
            self.pairs, self.window = int(pairs[1]), int(pairs[2] or 0) or None
        elif self.began and _HEADER.match(line):
            self.header(_COLUMN, line[1:], number)
        elif self.columns and re.match(r"\d+(?:\.|\s|$)", line):
            self._row(self.row(line.split(), number), number)

    def _row(self, row: dict[str, str], number: int) -> None:
        if row.get("Validation", "Pass").lower() != "pass":
            self.fail("validation failed; times of wrong results say nothing", number)
        for name, text in row.items():
            if name not in _WHOLE and not _VALUE.fullmatch(text):
                self.fail(f"{name} is {text!r}; expected a number with two decimals", number)
        rate = self.value(row, "MB/s", number, 8e-3)
        time = self.value(row, "Avg" if "Avg" in row else "Latency", number, 1e3)
        if (rate is None) == (time is None):
            self.fail(f"expected a column of latency or of bandwidth, not {', '.join(row)}", number)
        least, most = (self.value(row, name, number, 1e3) for name in ("Min", "Max"))
        program, operation = self.test
        ends = operation in POINT_TO_POINT and program != "osu_multi_lat"
        self.found.append(
            MeasuredValue(
                number, operation, self.count(row.get("Size", "0"), "Size", number), time, rate,
                least, most, samples=1 if least is None else None,
                ranks=2 * self.pairs if ends else None, nodes=2 if ends else None,
                pairs=self.pairs, window=self.window, program=program,
            )
        )  # fmt: skip
