"""The command ``quick`` of studies in tests, whose workers start at once."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from weft.core.errors import InputError, NotApplicable
from weft.study.runs.task import RunResult

#: Name of the environment variable with the file of the ends of runs.
LOG = "WEFT_TEST_LOG"


def quick(parameters: Mapping[str, Any], watch: Callable[[Any], None]) -> RunResult:
    """Compute for some milliseconds; one run in ten fails and one does not fit.

    The begin and the end of each run are lines in the file that the environment names as `LOG`:
    ``+3`` and ``3``.
    """
    number = parameters["number"]
    log(f"+{number}")
    end = time.monotonic() + parameters["seconds"]
    while time.monotonic() < end:
        watch(None)
        time.sleep(0.001)
    log(str(number))
    if number % 10 == 3:
        raise InputError(f"run {number} cannot be")
    if number % 10 == 7:
        raise NotApplicable(f"run {number} does not fit")
    digits = [hashlib.sha256(f"{number} {row}".encode()).hexdigest() for row in range(20)]
    return RunResult({"value": number, "sum": sum(map(len, digits))}, {
        "digits": pl.DataFrame({"digits": digits}), "count": pl.DataFrame({"count": [number]}),
    })  # fmt: skip


def prepared(log: Path) -> str:
    """Return what a starter of studies imports, so that a forked command begins at once.

    Parameters
    ----------
    log
        File for the begins and ends of runs.
    """
    return f"""
import os
os.environ[{LOG!r}] = {str(log)!r}
from tests.study_runs import register
register()
import numba.core.event, weft.cli.study
import weft.cli.compile_helpers, weft.kernels.cache
"""


def log(line: str) -> None:
    """Write a line into the file of the begins and ends of runs, if there is one."""
    if LOG in os.environ:
        file = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)


def logged(path: Path) -> tuple[list[int], list[int]]:
    """Return the numbers of the runs that have begun, and of those that have ended."""
    lines = path.read_text().split() if path.exists() else []
    begun = [int(line) for line in lines if line.startswith("+")]
    return begun, [int(line) for line in lines if not line.startswith("+")]


def register() -> None:
    """Register the command ``quick``."""
    from weft.core.columns import Measure
    from weft.study.command_registry import Point, study_command
    from weft.study.experiment.spec import Part

    class Quick(Part):
        number: int
        seconds: float = 0.0

    def points(keys: Quick, files: object) -> list[Point]:
        return [Point({"number": str(keys.number)}, keys.model_dump(mode="json"))]

    study_command(
        "quick",
        keys=Quick,
        points=points,
        measures=(Measure("value", "", "Value.", None), Measure("sum", "", "Sum.", None)),
        tables={},
        example={"number": 1},
        seeded=lambda parameters, given, seed: dict(parameters),
    )(quick)


@contextmanager
def registered() -> Iterator[None]:
    """Let this process know the command for a while."""
    from weft.study.command_registry import study_command

    register()
    try:
        yield
    finally:
        del study_command._entries["quick"]


def quick_file(
    folder: Path, runs: int, *, seconds: float | list[float] = 0.0, keys: str = ""
) -> Path:
    """Write a study of runs of `quick`, for each time that they take, and return its path.

    Parameters
    ----------
    folder
        Where it is written.
    runs
        Number of runs for each time.
    seconds
        The times.
    keys
        Further keys of the table ``[study]``.
    """
    path = folder / "quick.toml"
    times = seconds if isinstance(seconds, list) else [seconds]
    path.write_text(
        f'command = "quick"\n[study]\n{keys}\n[study.product]\n'
        f"number = {list(range(runs))}\nseconds = {times}\n"
    )
    return path
