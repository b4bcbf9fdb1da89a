"""`weft what-if`: what happens if parts of a fabric fail, are slower, are drained or are added."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.advice.comparison import cell_text
from weft.advice.what_if.evaluate import (
    ENGINES,
    PATTERNS,
    WHAT_IF_COLUMNS,
    InPlace,
    WhatIf,
    what_if,
)
from weft.advice.what_if.scenario import Scenario
from weft.advice.what_if.words import sentences
from weft.cli.common import TABLES, FabricArgument, JudgedOptions, announced_compile, check_files
from weft.cli.common import console as open_console
from weft.cli.option_types import FIRST, OUTPUT, RUNS, Engine, File, Pattern, Whole
from weft.cli.options import options_of, split_names
from weft.cli.output import emit
from weft.core.columns import write_table
from weft.core.settings import settings
from weft.fabrics import Fabric
from weft.fabrics.faults import Faults
from weft.fabrics.judged import Judged
from weft.fabrics.load import Source
from weft.subnet.audit import Audit, audit

#: Engine of OpenSM if nothing names another one.
_USUAL = "minhop"

_Options: Any = options_of(
    "WhatIfOptions",
    [*settings(Scenario), *settings(Source), *settings(Faults), *settings(Judged)],
)


class WhatIfOptions(_Options):  # type: ignore[misc]
    """Options of the scenario, of the fabric's source and of the hosts that are judged."""

    load = JudgedOptions.load


NO_CHANGE = WhatIfOptions()


def what_if_command(
    fabric: FabricArgument,
    /,
    *,
    options: WhatIfOptions = NO_CHANGE,
    tables: Annotated[
        File | None,
        FIRST(help="Folder or file with the tables in place: a dump of OpenSM or ibdiagnet2."),
    ] = None,
    engine: Annotated[
        Engine | None,
        FIRST(
            help="Engine with which OpenSM routes. Default: that of the log beside the tables, or "
            "else minhop."
        ),
    ] = None,
    engines: Annotated[
        tuple[Engine, ...],
        FIRST(
            help=f"Engines to compare with OpenSM's. Repeatable. Default: {', '.join(ENGINES)}.",
            consume_multiple=(1, None),
        ),
    ] = (),
    patterns: Annotated[
        tuple[Pattern, ...],
        FIRST(
            name=["--pattern", "--patterns"],
            help=f"Traffic pattern. Repeatable. Default: {', '.join(PATTERNS)}.",
            consume_multiple=(1, None),
        ),
    ] = (),
    samples: Annotated[Whole, RUNS(help="Number of random bisections.")] = 1000,
    seed: Annotated[Whole, RUNS(help="Seed of bisections and random patterns.")] = 0,
    report: Annotated[File | None, OUTPUT(help="Write one self-contained HTML page.")] = None,
    table: Annotated[
        File | None, OUTPUT(help="Write the table of figures to this .csv or .parquet file.")
    ] = None,
) -> int:
    """Say what happens if parts of a fabric fail, are slower, are drained or are added.

    Compares the tables in place, as they are until OpenSM's next sweep, with those of that sweep
    and of other engines: pairs without a path, credit loops, bandwidth left, and what moves. All
    changes are made together, and each row has the figures of `weft compare` after them.

    Example: `weft what-if 'xgft:2;4,4;1,4' --fail 'S2_0.0'`
    """
    check_files(("--report", report, (".html", ".htm")), ("--table", table, TABLES))
    scenario = options.build(Scenario)
    with announced_compile(kind="comparisons"):
        loaded, place, found = _in_place(options.load(fabric), fabric, tables, engine)
        result = what_if(
            loaded, place, scenario,
            [name for text in engines for name in split_names(text)] or ENGINES,
            [name for text in patterns for name in split_names(text)] or PATTERNS,
            samples=samples, seed=seed,
        )  # fmt: skip
    out = open_console()
    show(result, found, out)
    emit(
        scenario=result.changed.title, answer=sentences(result),
        stale=[finding.text for finding in found.findings if finding.kind == "stale"]
        if found else [],
        machines_cut=result.changed.lost_machines, figures=result.table,
        patterns_before=result.before.runs_table, patterns=result.after.runs_table,
        refusals={each.name: each.refusal for each in result.after.outcomes if each.refusal},
    )  # fmt: skip
    if table is not None:
        write_table(result.table, table)
    return 0


def _in_place(
    fabric: Fabric, given: str, tables: Path | None, spec: str | None
) -> tuple[Fabric, InPlace, Audit | None]:
    """Return the fabric with the LIDs of its tables, the tables, and what is wrong with them."""
    folder = tables or (Path(given) if os.path.isdir(given) else None)
    if folder is None:
        return fabric, InPlace.of(fabric, spec or _USUAL), None
    found = audit([folder], fabric, weigh=False)
    named = spec or found.engine or _USUAL
    return found.fabric, InPlace.of(found.fabric, named, found.routes, found.validation), found


def show(result: WhatIf, found: Audit | None, out: Console) -> None:
    """Print what a scenario does: the answer, the figures and the patterns."""
    for line in sentences(result):
        out.print(escape(line), soft_wrap=True)
    for finding in found.findings if found else ():
        if finding.kind == "stale":
            out.print(escape(f"{finding.severity} {finding.kind}: {finding.text}"), soft_wrap=True)
    out.print(_figures(result))
    if result.after.runs:
        out.print(_patterns(result))
    for outcome in result.after.outcomes:
        if outcome.refusal:
            out.print(escape(f"{outcome.name} does not fit: {outcome.refusal}"), soft_wrap=True)


_SHOWN = ("routes", "state", "pairs_lost", "deadlock", "ebb", "bandwidth_left", "max_load",
          "max_hops", "entries_changed", "pairs_moved")  # fmt: skip


def _figures(result: WhatIf) -> Table:
    screen = Table(title="The state now, then after the change, what is worst first",
                   title_justify="left")  # fmt: skip
    for name in _SHOWN:
        text = WHAT_IF_COLUMNS[name].dtype.is_numeric()
        screen.add_column(
            name.replace("_", " "), justify="right" if text else "left", overflow="fold"
        )
    for row in result.table.iter_rows(named=True):
        cells = [
            f"{row[name]:.0%}" if name == "bandwidth_left" and row[name] is not None
            else cell_text(name, row[name])
            for name in _SHOWN
        ]  # fmt: skip
        screen.add_row(*map(escape, cells), style="" if row["valid"] else "red")
    return screen


def _patterns(result: WhatIf) -> Table:
    before = {run.pattern: run for run in result.before.runs}
    names = list(dict.fromkeys(run.engine for run in result.after.runs))
    specs = list(dict.fromkeys(run.pattern for run in result.after.runs))
    cells = {
        (run.engine, run.pattern): f"{run.load.max(initial=0.0):,.4g}"
        + (f" ({run.unrouted_share:.1%} unrouted)" if run.unrouted_share else "")
        for run in result.after.runs
    }
    screen = Table(title="Largest contention of a link", title_justify="left")
    screen.add_column("routes", overflow="fold")
    for spec in specs:
        screen.add_column(escape(spec), justify="right", overflow="fold")
    now = [f"{before[s].load.max(initial=0.0):,.4g}" if s in before else "–" for s in specs]
    screen.add_row("now", *now)
    for name in names:
        screen.add_row(escape(name), *(cells[name, spec] for spec in specs))
    return screen
