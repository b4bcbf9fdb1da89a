"""Options and output that `weft sweep` and `weft flits` share: runs at a series of loads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from weft.cli.common import TABLES, check_files
from weft.cli.option_types import FIRST, OUTPUT, ROUTING, RUNS, Engine, File, Routing, Whole
from weft.cli.options import split_names
from weft.core.columns import write_table
from weft.core.signals import ended_by
from weft.report.load_curves import SUFFIXES, write_load_curves

#: Exit status when no run has a result, or one deadlocks.
NO_RESULT = 1


@Parameter(name="*")
@dataclass(frozen=True)
class SeriesOptions:
    """What runs, in how many processes, and the files of results."""

    engine: Annotated[
        tuple[Engine, ...],
        FIRST(
            name=["--engine", "--engines"],
            help="Routing engine, with options as in 'updn:roots=center'. Repeatable. Default: "
            "minhop, or none if a routing is given.",
            consume_multiple=(1, None),
        ),
    ] = ()
    routing: Annotated[
        tuple[Routing, ...],
        ROUTING(
            name=["--routing", "--routings"],
            help="Routing by coordinates of the flit level, with options ('weft list routings'). "
            "Repeatable.",
            consume_multiple=(1, None),
        ),
    ] = ()
    processes: Annotated[
        Whole | None,
        RUNS(help="Number of worker processes. Default: one per core if that is faster."),
    ] = None
    plot: Annotated[
        File | None, OUTPUT(help="Draw load-latency curves to this .png, .svg or .pdf file.")
    ] = None
    output: Annotated[
        File | None,
        OUTPUT(name=["--output", "-o"], help="Write the table to this .csv or .parquet file."),
    ] = None

    def check(self, *more: tuple[str, Path | None, Sequence[str]]) -> None:
        """Refuse files that cannot be written."""
        check_files(("--plot", self.plot, SUFFIXES), *more, ("--output", self.output, TABLES))

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The engines and the routings."""
        return each_name(self.engine), each_name(self.routing)

    def write(self, table: pl.DataFrame, drawn: Sequence[pl.DataFrame], out: Console) -> None:
        """Write the table, and draw frames if there are any."""
        if self.output is not None:
            write_table(table, self.output)
        if self.plot is not None and drawn:
            write_load_curves(drawn, self.plot)
            out.print(f"plot: {escape(str(self.plot))}")


USUAL = SeriesOptions()


def each_name(texts: Sequence[str]) -> list[str]:
    """Return the names in texts, which commas separate."""
    return [name for text in texts for name in split_names(text)]


def interrupted(left: int, runs: int) -> int:
    """Print that a signal has ended the runs; return the exit status."""
    word, status = ended_by()
    print(f"weft: {word}: {left} of {runs} runs have no result", file=sys.stderr)
    return status


def load_text(value: float | None) -> str:
    """Return a load as text."""
    return "-" if value is None else f"{value:.3f}"


def heading(row: Mapping[str, Any]) -> str:
    """Return the engine and policy, or the routing, of a run."""
    if row["engine"] is None:
        return f"routing {row['routing']}"
    usual = row["policy"] in (None, "deterministic")
    return str(row["engine"]) if usual else f"{row['engine']}, {row['policy']}"


def show_runs(
    frame: pl.DataFrame,
    heads: Sequence[str],
    cells: Callable[[Mapping[str, Any]], list[str]],
    bad: Callable[[Mapping[str, Any]], bool],
    summary: Callable[[pl.DataFrame], Iterator[str]],
    out: Console,
    title: str | None = None,
) -> None:
    """Print a row for each run, and lines about all runs of an engine or routing.

    - `frame`: frame with the columns ``engine``, ``policy``, ``routing``, ``load``, ``status``,
      ``reason`` and ``offered_load``.
    - `heads`: columns of numbers; one with remarks follows.
    - `cells`: function from a run with a result to its cells.
    - `bad`: function from a run to whether its row is red.
    - `summary`: function from the runs of an engine or routing to lines.
    """
    table = Table(title=title, title_justify="left")
    several = len({heading(row) for row in frame.iter_rows(named=True)}) > 1
    if several:
        table.add_column("engine", overflow="fold")
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    last = None
    for row in frame.filter(pl.col("status") != "does not fit").iter_rows(named=True):
        name = heading(row)
        if last not in (None, name):
            table.add_section()
        named = [escape(name) if name != last else ""] if several else []
        last = name
        texts = [load_text(row["load"]), *(len(heads) - 1) * ["-"], escape(row["status"])]
        if row["offered_load"] is not None:
            texts = cells(row)
        table.add_row(*named, *texts, style="red" if bad(row) else None)
    out.print(table)
    for _, part in frame.group_by("engine", "policy", "routing", maintain_order=True):
        name = heading(part.row(0, named=True))
        unfit = part.filter(pl.col("status") == "does not fit")["reason"].to_list()[:1]
        for line in (*(f"does not fit: {reason}" for reason in unfit), *summary(part)):
            out.print(escape(f"{name}: {line}"), soft_wrap=True)


@contextmanager
def watched(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar if standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    columns = (BarColumn(), TextColumn("{task.completed:.0f} of {task.total:.0f} " + what))
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("", total=1)

        def update(ready: int, number: int) -> None:
            bar.update(task, completed=ready, total=number)

        yield update
