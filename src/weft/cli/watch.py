"""`weft watch`: what cables carry and wait, whose traffic it is, and what would relieve them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.advice.watch.watch import By, Watch, interval_of, watch
from weft.cli.common import (
    NO_OPTIONS,
    TABLES,
    FabricArgument,
    FabricOptions,
    announced_compile,
    check_files,
    console,
)
from weft.cli.option_types import (
    FIRST,
    OUTPUT,
    ROUTING,
    RUNS,
    WORKLOAD,
    Engine,
    File,
    JobsFile,
    Pattern,
    Whole,
    Word,
    Workload,
)
from weft.cli.output import emit, given
from weft.core.columns import write_table
from weft.core.errors import InputError
from weft.core.files import file_exists
from weft.core.units import parse_duration_ns
from weft.counters.counters import Counters
from weft.counters.rates import Rates, rates
from weft.counters.read import read_counters
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import FormatWarning
from weft.routing import route
from weft.routing.routes import Routes
from weft.routing.validation.validate import Validation, validate
from weft.subnet.audit import audit
from weft.workload.slurm_jobs import RunningJob, job_hosts, read_jobs

#: A shorter time between two readings is a number without a unit, taken for nanoseconds.
_LEAST_S = 1e-3


def watch_command(
    fabric: FabricArgument,
    /,
    *readings: Annotated[
        str,
        Parameter(
            help="Readings of port counters: files and folders, also PATH@TIME, in any order.",
            name="READING",
        ),
    ],
    options: FabricOptions = NO_OPTIONS,
    tables: Annotated[
        tuple[File, ...],
        ROUTING(
            help="Files or folders of the tables in place, such as opensm-lfts.dump. Default: "
            "those in the folder of the fabric.",
            consume_multiple=(1, None),
        ),
    ] = (),
    engine: Annotated[
        Engine | None,
        ROUTING(help="Engine that computed the tables, if they are not in a file."),
    ] = None,
    jobs: JobsFile = None,
    pattern: Annotated[
        Pattern, WORKLOAD(help="Traffic pattern of the prediction, within each job.")
    ] = "all-to-all",
    workload: Annotated[
        Workload | None,
        WORKLOAD(help="Workload of the prediction, within each job, instead of the pattern."),
    ] = None,
    top: Annotated[Whole, FIRST(help="Number of hot cables between switches.")] = 10,
    by: Annotated[
        By | None, FIRST(help="What makes a cable hot. Default: the larger of both shares.")
    ] = None,
    no_relief: Annotated[bool, FIRST(help="Do not search for what relieves the cables.")] = False,
    every: Annotated[
        str | None,
        RUNS(
            help="Time from one reading to the next, such as 30s: each time, the command after "
            "-- prints a new reading.",
            metavar="TIME",
        ),
    ] = None,
    times: Annotated[Whole | None, RUNS(help="Largest number of such readings.")] = None,
    command: Annotated[
        tuple[Word, ...], RUNS(help="Word of the command that prints a reading; or after --.")
    ] = (),
    store: Annotated[
        File | None, OUTPUT(help="Keep the readings in this .parquet file, with those before.")
    ] = None,
    report: Annotated[
        File | None, OUTPUT(help="Write a page with the cables, the fabric and its loads (.html).")
    ] = None,
    table: Annotated[
        File | None, OUTPUT(help="Write a row for each link to this .csv or .parquet file.")
    ] = None,
) -> int:
    """Say what cables carry and how long they wait, whose traffic it is, and what helps.

    Compares two or more readings of port counters with the traffic that the running jobs would have
    by the tables in place, and explains the hottest cables by jobs. The exit status is 2 if a file
    cannot be read.

    Example: `weft watch examples/cluster.ibnetdiscover before.txt after.txt --engine updn`
    """
    check_files(
        ("--store", store, (".parquet",)), ("--report", report, (".html", ".htm")),
        ("--table", table, TABLES),
    )  # fmt: skip
    if not readings and not (every or store):
        raise InputError("expected two or more readings of port counters after the fabric")
    if top < 1:
        raise InputError(f"--top: expected at least 1, not {top}")
    if (every is None) != (not command):
        raise InputError("--every needs the command that prints a reading, after --, and no other")
    if times is not None and (every is None or times < 1):
        raise InputError("--times: expected at least 1 reading, with --every")
    with announced_compile():
        loaded, routes, checked, opensm = in_place(fabric, options, tables, engine)
    for files in _readings(list(readings), every, command, times):
        with announced_compile(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FormatWarning)
            counters = _counted(files, loaded, store)
            if every is not None and len(counters.readings) < 2:
                continue
            series = rates(counters)
            listed = [] if jobs is None else read_jobs(jobs)
            placed, missed = job_hosts(loaded, listed)
            began = _began(listed, series[-1])
            result = watch(
                series, routes, checked, placed, pattern=pattern, workload=workload or "", top=top,
                by=by, engine=opensm, relief=not no_relief,
                notes=(*_said(caught), *map(str, missed), *began),
            )  # fmt: skip
        if table is not None:
            write_table(result.table(), table)
        if report is not None:
            from weft.advice.watch.page import watch_page
            from weft.report.comparison_page import write_comparison_page

            write_comparison_page(watch_page(result), report)
        if given("--json"):
            emit(**result.as_json())
        show(result, console())
    return 0


def in_place(
    source: str, options: FabricOptions, tables: Sequence[Path], engine: str | None
) -> tuple[Fabric, Routes, Validation, str]:
    """Return the fabric, the routes in place, their validation, and OpenSM's engine if known."""
    if engine is not None:
        if tables:
            raise InputError("--engine and --tables both give the routes; expected one of them")
        fabric = options.load(source)
        routes = route(fabric, engine)
        return fabric, routes, validate(fabric, routes), engine
    folder = file_exists(Path(source)) and Path(source).is_dir()
    found = (
        audit([Path(source), *tables], weigh=False)
        if folder and not options.given()
        else audit(tables, options.load(source), weigh=False)
    )
    if found.routes is None or found.validation is None:
        raise InputError(
            f"the tables in place are in none of {', '.join(map(str, (source, *tables)))}; "
            "expected opensm-lfts.dump or another dump with --tables, or --engine"
        )
    return found.fabric, found.adaptive or found.routes, found.validation, found.engine


def _readings(
    files: list[str], every: str | None, command: Sequence[str], times: int | None
) -> Iterator[list[str]]:
    """Yield the files with readings so far; with a command, again after each of its readings."""
    if every is None:
        yield files
        return
    seconds = parse_duration_ns(every) / 1e9
    if seconds < _LEAST_S:
        raise InputError(f"--every {every}: expected a time with a unit, such as 30s")
    with tempfile.TemporaryDirectory(prefix="weft-watch-") as folder:
        number = read = 0
        while times is None or number < times:
            due = time.monotonic() + seconds
            now = datetime.now(UTC)
            try:
                done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            except OSError as error:
                raise InputError(f"cannot run {command[0]}: {error.strerror}") from None
            if done.returncode:
                print(
                    f"weft: warning: {command[0]} ended with status {done.returncode}; its reading "
                    "is left out", file=sys.stderr,
                )  # fmt: skip
            else:
                files.append(os.path.join(folder, f"{now:%Y-%m-%dT%H:%M:%S.%fZ}.txt"))
                Path(files[-1]).write_bytes(done.stdout)
                read += 1
                yield files
            number += 1
            if times is None or number < times:
                time.sleep(max(due - time.monotonic(), 0.0))
        if not read:
            raise InputError(f"{command[0]} gave no reading in {times} tries")


def _counted(files: Sequence[str], fabric: Fabric, store: Path | None) -> Counters:
    """Return the counters of files and of those that are stored, and keep both together."""
    counters = read_counters(files, fabric)
    if store is None:
        return counters
    if file_exists(store):
        kept = Counters.read(store, fabric)
        new = counters.frame.join(kept.frame, on=["reading", "slot"], how="anti")
        counters = Counters.joined([kept, Counters(fabric, new)])
    counters.write(store)
    return counters


def _said(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Return what readers left out, each once, and show all other warnings."""
    for each in caught:
        if not isinstance(each.message, FormatWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    texts = (str(each.message) for each in caught if isinstance(each.message, FormatWarning))
    return list(dict.fromkeys(texts))


def _began(jobs: Sequence[RunningJob], rates: Rates) -> list[str]:
    """Return a sentence for each job that began within the interval."""
    begin, end = interval_of(rates)
    return [
        f"Job {job.title} began within the interval: its rates are lower than what it sends."
        for job in jobs
        if job.began_after(begin, end)
    ]


def show(result: Watch, out: Console) -> None:
    """Print the hot cables as a table and in words, the relief, and what else was found."""
    changes = "Changes, the cheapest that helps first: largest utilisation between switches"
    for title, rows in (
        ("Hottest cables between switches", [each.cells() for each in result.hot]),
        (changes, [each.cells() for each in result.reliefs if each.after < each.before]),
    ):
        if rows:
            table = Table(title=title, title_justify="left")
            for name in rows[0]:
                left = name in ("cable", "most of it", "change", "cost", "but")
                table.add_column(name, justify="left" if left else "right", overflow="fold")
            for row in rows:
                table.add_row(*map(escape, row.values()))
            out.print(table)
    out.print(escape(result.text()), soft_wrap=True)
