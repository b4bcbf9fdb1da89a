"""The registry of formats of logs, and what their readers share.

A format is added by a file with one function::

    @measurement_reader("mine", sniff=lambda text: text.startswith("mine"))
    def read(text: str, file: str) -> list[MeasuredValue]: ...

A reader raises `InputError` with the file and line of an error; `LogReader` helps with that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from weft.core.arguments import shown
from weft.core.errors import InputError
from weft.core.registry import Registry
from weft.core.units import MAX_BYTES

#: Readers. The fact `sniff` tells whether a text is in the format.
measurement_reader = Registry(
    "format of measurements",
    "weft.measured.formats",
    "weft.measurement_readers",
    ("text", "file"),
    ("sniff",),
)

#: What starters of programs put before each line: the time, and the tag of ``mpirun`` (also of
#: Open MPI 5) or the label of ``srun``.
_LABEL = re.compile(
    r"(?:(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}|\d{4}-\d\d-\d\d[T ][\d:]{8}[\d.,Z+:-]*) ?)?"
    r"(?:\[(?:[\w.@-]+@)?\d+,\d+\]<std(?:out|err)>: ?|[ ]{0,8}\d{1,7}:(?: |(?=$|#)))?"
)
_COUNT = re.compile(r"\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{0,18})?(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


@dataclass(slots=True)
class MeasuredValue:
    """One measured value; the fields are those columns of `MEASUREMENT_COLUMNS` that logs have."""

    line: int
    operation: str
    size_bytes: int
    time_ns: float | None = None
    gbps: float | None = None
    least: float | None = None
    most: float | None = None
    samples: int | None = 1
    ranks: int | None = None
    nodes: int | None = None
    pairs: int = 1
    window: int | None = None
    in_place: bool = False
    from_machine: str = ""
    to_machine: str = ""
    round: str = ""
    program: str = ""
    system: str = ""
    #: Suite, if it is not the name of the format.
    benchmark: str = ""


class LogReader:
    """The values that are read of a log so far, and the present table."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[MeasuredValue] = []
        #: Columns of the present table, none outside of tables, and the line of its header.
        self.columns: list[str] = []
        self.began = 0

    def fail(self, text: str, line: int) -> NoReturn:
        """Raise an error about a line."""
        raise InputError(text, file=self.file, line=line)

    def cut(self, line: int, expected: str) -> NoReturn:
        """Raise an error about a table without its end."""
        self.fail(f"the table that begins in line {self.began} is cut; expected {expected}", line)

    def header(self, pattern: re.Pattern[str], line: str, number: int) -> None:
        """Begin a table, whose columns are those groups of the pattern that match."""
        if rest := pattern.sub("", line).split():
            self.fail(f"unknown columns: {' '.join(rest)}", number)
        self.columns = [next(filter(None, each.groups())) for each in pattern.finditer(line)]
        self.began = number

    def row(self, values: list[str], line: int) -> dict[str, str]:
        """Return the values of a row by column."""
        if len(values) != len(self.columns):
            expected = f"expected {len(self.columns)}, as in the header in line {self.began}"
            self.fail(f"the row has {len(values)} values; {expected}", line)
        return dict(zip(self.columns, values, strict=True))

    def count(self, text: str, what: str, line: int) -> int:
        """Return a whole number of a line, up to the largest size of a message."""
        if not _COUNT.fullmatch(text) or int(text) > MAX_BYTES:
            self.fail(f"{what} is {shown(text)}; expected a whole number", line)
        return int(text)

    def value(
        self, row: Mapping[str, str], name: str, line: int, unit: float = 1.0
    ) -> float | None:
        """Return a positive number of a row times a unit; None without the column."""
        if not (text := row.get(name, "")):
            return None
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not 0 < value < math.inf:
            self.fail(f"{name} is {shown(text)}; expected a number above 0", line)
        return value * unit


def log_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, without what starters of programs put before it."""
    for number, line in enumerate(text.split("\n"), 1):
        yield number, _LABEL.sub("", line, count=1)


def has_log_line(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return a test for a line of a log, with or without such a label before it."""
    return re.compile(rf"^{_LABEL.pattern}{pattern}", re.MULTILINE).search
