"""`weft compare`: which routing engine suits a fabric, and which links are overloaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.advice.compare import compare
from weft.advice.comparison import (
    Comparison,
    EngineOutcome,
    adaptive_gains,
    cell_text,
    contention_text,
    no_tables,
    recommendation,
    roots_taken,
)
from weft.cli.common import (
    ALL_HOSTS,
    TABLES,
    FabricArgument,
    JudgedOptions,
    announced_compile,
    check_files,
    console,
    table_width,
)
from weft.cli.option_types import FIRST, OUTPUT, RUNS, Engine, File, Pattern, Whole
from weft.cli.options import split_names
from weft.cli.output import emit
from weft.core.columns import write_table
from weft.core.errors import InputError
from weft.core.files import write_text
from weft.report.comparison_page import write_comparison_page
from weft.routing.opensm.guids import guid_list

#: Columns of the engine table on a terminal; the page and --table have all columns.
COLUMNS = (
    "engine",
    "valid",
    "unrouted",
    "deadlock",
    "lanes",
    "mean_hops",
    "max_hops",
    "minimal",
    "ebb",
    "max_load",
    "cv",
    "used",
    "routing",
    "nvidia_sm",
)
#: Columns that are left out, in this order, if the terminal is too narrow.
DISPENSABLE = (
    "nvidia_sm",
    "minimal",
    "mean_hops",
    "used",
    "lanes",
    "routing",
    "cv",
    "max_hops",
    "deadlock",
)


def compare_command(
    fabric: FabricArgument,
    /,
    *,
    options: JudgedOptions = ALL_HOSTS,
    engines: Annotated[
        tuple[Engine, ...],
        FIRST(
            name=["--engine", "--engines"],
            help="Engine, with options as in 'updn:roots=center'. Repeatable. Default: all.",
            consume_multiple=(1, None),
        ),
    ] = (),
    patterns: Annotated[
        tuple[Pattern, ...],
        FIRST(
            name=["--pattern", "--patterns"],
            help="Traffic pattern, with options as in 'shift:offset=3'. Repeatable.",
            consume_multiple=(1, None),
        ),
    ] = (),
    samples: Annotated[Whole, RUNS(help="Number of random bisections.")] = 1000,
    seed: Annotated[Whole, RUNS(help="Seed of bisections and random patterns.")] = 0,
    two_way: Annotated[
        bool, RUNS(help="Let both halves of each bisection send at the same time.")
    ] = False,
    report: Annotated[File | None, OUTPUT(help="Write one self-contained HTML page.")] = None,
    table: Annotated[
        File | None, OUTPUT(help="Write the engine table to this .csv or .parquet file.")
    ] = None,
    roots: Annotated[
        File | None,
        OUTPUT(help="Write the roots that updn or ar_updn uses, for OpenSM's root_guid_file."),
    ] = None,
    timing: Annotated[bool, OUTPUT(help="Print the routing time of each engine.")] = False,
) -> int:
    """Route a fabric with every engine that fits, validate the routes and compare the loads.

    Prints the engines, best first, and why other engines do not fit. The exit status is 1 if no
    engine gives valid routes.

    Example: `weft compare 'xgft:2;4,4;1,4' --engine minhop,updn --pattern shift`
    """
    check_files(("--report", report, ()), ("--table", table, TABLES), ("--roots", roots, ()))
    chosen = tuple(name for text in engines for name in split_names(text))
    wanted = tuple(name for text in patterns for name in split_names(text))
    with announced_compile(kind="comparisons"):
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
        engines=result.table, patterns=result.runs_table, advice=lambda: advice(result),
        faults=lambda: result.faults,
        refusals={each.name: each.refusal for each in result.outcomes if each.refusal},
        fallbacks={
            each.name: {"engine": each.routes.engine, "reason": each.routes.refusals[0][1]}
            for each in result.outcomes if each.routes is not None and each.routes.refusals
        },
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
    """Return the GUIDs of the roots of the first ``updn`` or ``ar_updn`` that fits."""
    fabric = result.fabric
    for outcome in result.outcomes:
        if outcome.routes is not None and outcome.routes.engine in ("updn", "ar_updn"):
            nodes = fabric.graph.row_node[roots_taken(fabric, outcome)]
            return guid_list(fabric, nodes, kind="root")
    raise InputError("--roots: no compared updn engine fits this fabric")


def show(result: Comparison, out: Console) -> None:
    """Print a comparison: the fabric, the engines, the patterns and the advice."""
    fabric = result.fabric
    out.print(f"[bold]{escape(fabric.name)}[/]")
    out.print(escape("; ".join(f"{name} {value}" for name, value in result.page().facts)))
    if len(result.table):
        out.print(_engines(result, out.width))
    for line in _remarks(result):
        out.print(escape(line), soft_wrap=True)
    if result.runs:
        out.print(_patterns(result, out.width))
    for spec, fit in result.pattern_fits.items():
        if fit.refusal or fit.some_hosts:
            text = f"n/a: {fit.refusal}" if fit.refusal else fit.some_hosts
            out.print(escape(f"{spec}: {text}"), soft_wrap=True)
    out.print()
    for line in advice(result):
        out.print(escape(line), soft_wrap=True)


def _remarks(result: Comparison) -> list[str]:
    """Return findings, notes and refusals, each once and preceded by the engines it concerns."""
    remarks: dict[str, list[str]] = {}
    refused: dict[str, list[str]] = {}
    for outcome in result.outcomes:
        if outcome.refusal:
            refused.setdefault(outcome.refusal, []).append(outcome.name)
        elif outcome.validation is not None:
            for line in dict.fromkeys((*outcome.validation.findings(), *outcome.remarks)):
                remarks.setdefault(line, []).append(outcome.name)
    return [
        *(f"{', '.join(names)}: {line}" for line, names in remarks.items()),
        *(
            f"{', '.join(names)} {'do' if len(names) > 1 else 'does'} not fit: {reason}"
            for reason, names in refused.items()
        ),
    ]


def _engines(result: Comparison, width: int) -> Table:
    rows = []
    for row in result.table.iter_rows(named=True):
        cells = {name: cell_text(name, value) for name, value in row.items()}
        if row["ebb_low"] is not None:
            cells["ebb"] += f" ±{(row['ebb_high'] - row['ebb_low']) / 2:.3f}"
        rows.append(cells)
    needs = {name: max(map(len, (name, *(cells[name] for cells in rows)))) for name in COLUMNS}
    for name in DISPENSABLE:
        if table_width(needs.values()) > width:
            del needs[name]
    fits = table_width(needs.values()) <= width
    table = Table(title="Routing engines, highest ebb first", title_justify="left")
    for name in needs:
        left = name in ("engine", "routing", "nvidia_sm")
        table.add_column(
            name.replace("_", " "),
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=fits or not left,
        )
    for cells, valid in zip(rows, result.table["valid"], strict=True):
        table.add_row(*(escape(cells[name]) for name in needs), style="" if valid else "red")
    return table


def _patterns(result: Comparison, width: int) -> Table:
    texts: dict[tuple[str, str], str] = {}
    for run in result.runs:
        texts[run.engine, run.pattern] = contention_text(run)
        if run.static_peak is not None:
            texts[f"{run.engine}, static", run.pattern] = f"{run.static_peak:,.4g}"
    names = list(dict.fromkeys(name for name, _ in texts))
    table = Table(
        title="Largest contention: flows on a link (links to hosts included) over its relative "
        "rate",
        title_justify="left",
    )
    patterns = list(dict.fromkeys(run.pattern for run in result.runs))
    # If the table is too wide, fold names of patterns (to three letters), not names of engines.
    least = [
        max(len(word) for name in names for word in (*texts[name, spec].split(), spec[:3]))
        for spec in patterns
    ]
    fits = table_width((max(map(len, (*names, "engine"))), *least)) <= width
    table.add_column("engine", overflow="fold", no_wrap=fits)
    for spec in patterns:
        table.add_column(escape(spec), justify="right", overflow="fold")
    for name in names:
        table.add_row(escape(name), *(texts[name, spec] for spec in patterns))
    return table


def advice(result: Comparison) -> list[str]:
    """Return the advice: the best engine, its most contended link, and what OpenSM can do."""
    best = result.best
    if best is None or best.bisection is None:
        return ["No engine gives valid routes on this fabric; the reasons are listed above."]
    equals = result.equals(best, result.candidates)
    lines = [
        f"Best valid engine: {best.name}, with {best.bisection.mean:.1%} of the injection rate "
        f"({best.bisection.mean_gbps:.1f} Gb/s per host) over random bisections"
        f"{_giving_the_same(equals)}.{no_tables(result)}"
    ]
    rows = result.runs_table.rows(named=True)
    for row in rows:
        if row["engine"] == best.name and row["busiest_link"]:
            lines.append(f"Its most contended link under {row['pattern']}: {row['busiest_link']}.")
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
            f"Best engine of OpenSM itself: {theirs.name.partition(':')[0]}, with "
            f"{theirs.bisection.mean:.1%} ({theirs.bisection.mean_gbps:.1f} Gb/s per host), row "
            f"{theirs.name}{_giving_the_same(same)}{_within(near)}."
        )
    lines += [*recommendation(result), *adaptive_gains(result)]
    apart = best.validation.num_disconnected_pairs if best.validation is not None else 0
    if apart:
        lines.append(
            f"{apart:,} host pairs are not connected by cables; their flows count with rate 0 for "
            "every engine."
        )
    return lines


def _giving_the_same(others: Sequence[EngineOutcome]) -> str:
    if not others:
        return ""
    names = ", ".join(sorted(other.name for other in others))
    return f"; {names} {'are' if len(others) > 1 else 'is'} equally good"


def _within(others: Sequence[EngineOutcome]) -> str:
    if not others:
        return ""
    names = ", ".join(other.name for other in others)
    return f"; {names} {'are' if len(others) > 1 else 'is'} within its 95 % interval"
