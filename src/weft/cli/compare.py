"""`weft compare`: which engine suits this fabric, and where does it congest?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.advice.compare import compare
from weft.advice.comparison import (
    Comparison,
    Outcome,
    cell_text,
    no_tables,
    recommendation,
    roots_taken,
)
from weft.cli.common import (
    NO_OPTIONS,
    FabricArgument,
    FabricOptions,
    Whole,
    announced_compile,
    check_files,
    console,
)
from weft.cli.machine_output import emit
from weft.cli.options import split_names
from weft.core.columns import write_table
from weft.core.errors import InputError
from weft.core.files import write_text
from weft.opensm.files.guids import guid_list
from weft.report.comparison_data import PatternRun
from weft.report.comparison_page import write_comparison_page
from weft.routing import engine

#: Columns of the engine table in a terminal; the page and --table have all.
COLUMNS = (
    "engine",
    "valid",
    "unrouted",
    "deadlock",
    "lanes",
    "mean hops",
    "max hops",
    "minimal",
    "ebb",
    "max load",
    "cv",
    "used",
)
#: Those that are left out, in this order, where a terminal is too narrow for all.
DISPENSABLE = ("minimal", "mean hops", "used", "lanes", "cv", "max hops", "deadlock")


def compare_command(
    fabric: FabricArgument,
    /,
    *,
    options: FabricOptions = NO_OPTIONS,
    engines: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--engine", "--engines"],
            help="Engine, with options as in 'updn:roots=center'; repeatable. All when left out.",
            consume_multiple=(1, None),
        ),
    ] = (),
    patterns: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--pattern", "--patterns"],
            help="Traffic pattern, with options as in 'shift:offset=3'; repeatable.",
            consume_multiple=(1, None),
        ),
    ] = (),
    samples: Annotated[Whole, Parameter(help="Random bisections.")] = 1000,
    seed: Annotated[Whole, Parameter(help="Seed of bisections and random patterns.")] = 0,
    two_way: Annotated[
        bool, Parameter(help="Bisections in which both halves send at the same time.")
    ] = False,
    report: Annotated[Path | None, Parameter(help="Write one self-contained HTML page.")] = None,
    table: Annotated[
        Path | None, Parameter(help="Write the engine table, .csv or .parquet by the name.")
    ] = None,
    roots: Annotated[
        Path | None,
        Parameter(help="Write the roots that updn takes, for OpenSM's root_guid_file."),
    ] = None,
    timing: Annotated[bool, Parameter(help="Print how long each engine took.")] = False,
) -> int:
    """Route a fabric with every engine that fits, check each, load it, and compare.

    Prints the engines, best first, with the reason of each that refuses; the exit status is 1
    when no engine gives valid routes.
    """
    check_files(
        ("--report", report, ()), ("--table", table, (".csv", ".parquet")), ("--roots", roots, ())
    )
    chosen = tuple(name for text in engines for name in split_names(text))
    wanted = tuple(name for text in patterns for name in split_names(text))
    with announced_compile(kind="compare"):
        result = compare(
            options.load(fabric),
            chosen or None,
            wanted or None,
            samples=samples,
            seed=seed,
            two_way=two_way,
        )
    out = console()
    show(result, out)
    emit(
        engines=result.table, patterns=result.runs_table, advice=advice(result),
        refusals={each.name: each.refusal for each in result.outcomes if each.refusal},
    )  # fmt: skip
    if timing:
        for outcome in result.outcomes:
            if outcome.routes is not None:
                print(f"{outcome.name} routed in {outcome.route_s * 1e3:.1f} ms", file=sys.stderr)
    if table is not None:
        write_table(result.table, table)
    if roots is not None:
        write_text(roots, _root_list(result))
    if report is not None:
        write_comparison_page(result, report)
        out.print(f"report: {escape(str(report))}")
    return 0 if result.best is not None else 1


def _root_list(result: Comparison) -> str:
    """GUIDs of the roots of the first ``updn`` that fits.

    Raises
    ------
    InputError
        When there is none.
    """
    fabric = result.fabric
    for outcome in result.outcomes:
        if outcome.routes is not None and engine.parse(outcome.name)[0].name == "updn":
            nodes = fabric.graph.row_node[roots_taken(fabric, outcome)]
            return guid_list(fabric, nodes, kind="root")
    raise InputError("--roots: no updn among the engines compared fits this fabric")


def show(result: Comparison, out: Console) -> None:
    """Print a comparison: the fabric, the engines, the patterns, and what to do."""
    fabric = result.fabric
    out.print(f"[bold]{escape(fabric.name)}[/]")
    out.print(escape("; ".join(f"{name} {value}" for name, value in result.page().facts)))
    if len(result.table):
        out.print(_engines(result, out.width))
    for line in _remarks(result):
        out.print(escape(line), soft_wrap=True)
    if result.runs:
        out.print(_patterns(result, out.width))
    for spec, text in result.patterns.items():
        if text.startswith("n/a"):
            out.print(escape(f"{spec}: {text}"), soft_wrap=True)
    out.print()
    for line in advice(result):
        out.print(escape(line), soft_wrap=True)


def _remarks(result: Comparison) -> list[str]:
    """What there is to say of engines, each remark once, with those that it is about."""
    said: dict[str, list[str]] = {}
    refused: dict[str, list[str]] = {}
    for outcome in result.outcomes:
        if outcome.refusal:
            refused.setdefault(outcome.refusal, []).append(outcome.name)
        elif outcome.validation is not None:
            notes = outcome.routes.notes if outcome.routes is not None else ()
            for line in dict.fromkeys((*outcome.validation.findings(), *notes)):
                said.setdefault(line, []).append(outcome.name)
    return [
        *(f"{', '.join(names)}: {line}" for line, names in said.items()),
        *(
            f"{', '.join(names)} {'do' if len(names) > 1 else 'does'} not fit: {reason}"
            for reason, names in refused.items()
        ),
    ]


def _engines(result: Comparison, width: int) -> Table:
    rows = []
    for row in result.table.iter_rows(named=True):
        cells = {name: cell_text(name, value) for name, value in row.items()}
        if row["ebb low"] is not None:
            cells["ebb"] += f" ±{(row['ebb high'] - row['ebb low']) / 2:.3f}"
        rows.append(cells)
    needs = {name: max(map(len, (name, *(cells[name] for cells in rows)))) for name in COLUMNS}
    for name in DISPENSABLE:
        if _table_width(needs.values()) > width:
            del needs[name]
    fits = _table_width(needs.values()) <= width
    table = Table(title="Routing engines, highest ebb first", title_justify="left")
    for name in needs:
        left = name == "engine"
        table.add_column(
            name,
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=fits or not left,
        )
    for cells, valid in zip(rows, result.table["valid"], strict=True):
        table.add_row(*(escape(cells[name]) for name in needs), style="" if valid else "red")
    return table


def _table_width(columns: Iterable[int]) -> int:
    """Width of a table whose columns are so wide: each has a space on both sides and a line."""
    return 1 + sum(column + 3 for column in columns)


def _patterns(result: Comparison, width: int) -> Table:
    names = list(dict.fromkeys(run.engine for run in result.runs))
    table = Table(
        title="Worst contention: flows that share a link, cables to hosts included, over its "
        "relative rate",
        title_justify="left",
    )
    patterns = list(dict.fromkeys(run.pattern for run in result.runs))
    texts = {(run.engine, run.pattern): _contention(run) for run in result.runs}
    # Where all do not fit, names of patterns are folded, down to three letters, not of engines.
    least = [
        max(len(word) for name in names for word in (*texts[name, spec].split(), spec[:3]))
        for spec in patterns
    ]
    fits = _table_width((max(map(len, (*names, "engine"))), *least)) <= width
    table.add_column("engine", overflow="fold", no_wrap=fits)
    for spec in patterns:
        table.add_column(escape(spec), justify="right", overflow="fold")
    for name in names:
        table.add_row(escape(name), *(texts[name, spec] for spec in patterns))
    return table


def _contention(run: PatternRun) -> str:
    text = f"{run.load.max(initial=0.0):,.4g}"
    return text + f" ({run.unrouted_share:.1%} unrouted)" if run.unrouted_share else text


def advice(result: Comparison) -> list[str]:
    """The answer in words: the engine to set, and the link to look at."""
    best = result.best
    if best is None or best.bisection is None:
        return ["No engine gives valid routes on this fabric; see what each lacks above."]
    equals = result.equals(best, result.candidates)
    lines = [
        f"Best valid engine: {best.name}, with {best.bisection.mean:.1%} of the injection rate "
        f"({best.bisection.mean_gbps:.1f} Gb/s a host) over random bisections"
        f"{_giving_the_same(equals)}.{no_tables(result)}"
    ]
    rows = result.runs_table.rows(named=True)
    for row in rows:
        if row["engine"] == best.name and row["hottest"]:
            lines.append(f"Its hottest link under {row['pattern']}: {row['hottest']}.")
            break
    theirs = result.best_of_opensm
    if theirs is not None and theirs.bisection is not None:
        same = result.equals(theirs, result.valid_of_opensm)
        least = theirs.bisection.interval[0]
        near = [
            other
            for other in result.valid_of_opensm
            if other is not theirs
            and other not in same
            and other.bisection is not None
            and other.bisection.mean >= least
        ]
        lines.append(
            f"Of the tables that OpenSM itself computes, those of its "
            f"{theirs.name.partition(':')[0]} are best, with {theirs.bisection.mean:.1%} "
            f"({theirs.bisection.mean_gbps:.1f} Gb/s a host): the row {theirs.name}"
            f"{_giving_the_same(same)}{_within(near)}."
        )
    lines += recommendation(result)
    apart = best.validation.num_disconnected_pairs if best.validation is not None else 0
    if apart:
        lines.append(
            f"{apart:,} host pairs are not cabled together; their flows count with rate 0, and no "
            "engine could help."
        )
    return lines


def _giving_the_same(others: Sequence[Outcome]) -> str:
    if not others:
        return ""
    names = ", ".join(sorted(other.name for other in others))
    return f"; {names} {'give' if len(others) > 1 else 'gives'} the same"


def _within(others: Sequence[Outcome]) -> str:
    if not others:
        return ""
    names = ", ".join(other.name for other in others)
    return f"; {names} {'lie' if len(others) > 1 else 'lies'} within its 95 % interval"
