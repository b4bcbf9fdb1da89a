"""`weft what-if`: what happens if parts of a fabric fail, are slower, are drained or are added."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.advice.comparison import contention_text
from weft.advice.what_if.evaluate import ENGINES, PATTERNS, InPlace, WhatIf, what_if
from weft.advice.what_if.jobs import JOBS, JobTraffic
from weft.advice.what_if.page import NOW, value_text, what_if_page
from weft.advice.what_if.scenario import Scenario
from weft.advice.what_if.singles import SAMPLES, Singles, singles
from weft.advice.what_if.words import sentences, singles_sentences
from weft.cli.common import (
    TABLES,
    FabricArgument,
    JudgedOptions,
    announced_compile,
    check_files,
    table_width,
)
from weft.cli.common import console as open_console
from weft.cli.option_types import (
    FIRST,
    OUTPUT,
    RUNS,
    WORKLOAD,
    Engine,
    File,
    JobsFile,
    Pattern,
    Whole,
    Workload,
)
from weft.cli.options import options_of, split_names
from weft.cli.output import emit
from weft.cli.series import watched
from weft.core.columns import write_table
from weft.core.errors import InputError
from weft.core.settings import settings
from weft.fabrics import Fabric
from weft.fabrics.faults import Faults
from weft.fabrics.judged import Judged
from weft.fabrics.load import Source
from weft.report.comparison_page import write_comparison_page
from weft.routing import engine as engines_of_weft
from weft.subnet.audit import audit
from weft.workload.slurm_jobs import job_hosts, read_jobs

#: Failures that are printed.
_PRINTED = 10
#: Columns that are printed besides the first one; then those that a narrow terminal lacks, in this
#: order, and the width to which names may be folded.
_SHOWN = (
    "pairs_lost", "deadlock", "ebb", "bandwidth_left", "max_load", "max_hops", "entries_changed",
    "pairs_moved",
)  # fmt: skip
_SHOWN_FAILURES = (
    "failed", "machines_cut", "pairs_lost_until", "deadlock_until", "ebb_until",
    "demand_lost_gbps_until", "pairs_lost", "deadlock", "ebb", "bandwidth_left", "max_load",
    "demand_load",
)  # fmt: skip
_DISPENSABLE = (
    "max_hops", "entries_changed", "deadlock_until", "ebb_until", "max_load", "pairs_moved", "ebb",
    "demand_lost_gbps_until", "machines_cut",
)  # fmt: skip
_NAME = 20
#: Engine of OpenSM if nothing names another one.
_USUAL = "minhop"
#: Kinds of findings of an audit that concern the tables in place.
_OF_TABLES = (
    "stale", "no table", "dead port", "no group", "LIDs", "lanes", "loop", "fallback", "not up"
)  # fmt: skip
#: Settings of opensm.conf that name lists of GUIDs on which the tables of an engine depend.
_LISTS = (
    "root_guid_file", "cn_guid_file", "io_guid_file", "guid_routing_order_file", "hop_weights_file",
    "port_search_ordering_file",
)  # fmt: skip

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
    jobs: JobsFile = None,
    workload: Annotated[
        Workload | None,
        WORKLOAD(help="Workload within each running job. Default: all-to-all."),
    ] = None,
    samples: Annotated[
        Whole | None,
        RUNS(help="Number of random bisections. Default: 1000, or 100 for each of many failures."),
    ] = None,
    seed: Annotated[Whole, RUNS(help="Seed of bisections and random patterns.")] = 0,
    report: Annotated[File | None, OUTPUT(help="Write one self-contained HTML page.")] = None,
    table: Annotated[
        File | None, OUTPUT(help="Write the table of figures to this .csv or .parquet file.")
    ] = None,
    failures: Annotated[
        File | None,
        OUTPUT(help="Write the failures of single parts, worst first, to .csv or .parquet."),
    ] = None,
) -> int:
    """Say what happens if parts of a fabric fail, are slower, are drained or are added.

    Compares the tables in place, as they are until OpenSM's next sweep, with those of that sweep
    and of other engines: pairs without a path, credit loops, bandwidth left, and what moves. All
    changes are made together, and each row has the figures of `weft compare` after them. With
    `--fail each-switch` and `--fail each-cable`, each part fails by itself after these changes.

    Example: `weft what-if 'xgft:2;4,4;1,4' --fail each-switch`
    """
    check_files(
        ("--report", report, (".html", ".htm")), ("--table", table, TABLES),
        ("--failures", failures, TABLES),
    )  # fmt: skip
    scenario = options.build(Scenario)
    if table is not None and not scenario.changes:
        raise InputError("--table needs a change besides each-switch and each-cable")
    if failures is not None and not scenario.each:
        raise InputError("--failures needs --fail each-switch, each-cable or each-pair")
    if workload is not None and jobs is None:
        raise InputError("--workload needs --jobs")
    chosen = [name for text in engines for name in split_names(text)] or ENGINES
    wanted = [name for text in patterns for name in split_names(text)] or PATTERNS
    result, single = None, None
    with announced_compile(kind="comparisons"), watched("failures") as progress:
        loaded, place, notes = _in_place(options.load(fabric), fabric, tables, engine)
        traffic = None
        if jobs is not None:
            placed, missed = job_hosts(loaded, read_jobs(jobs))
            notes += map(str, missed)
            traffic = JobTraffic.of(loaded, placed, workload or "")

        most = 1000 if samples is None else samples

        def judged(of: Scenario) -> WhatIf:
            found = what_if(loaded, place, of, chosen, wanted, samples=most, seed=seed)
            if traffic is None:
                return found
            text = "What running jobs exchange if each host sends at its full rate."
            return found.with_runs(traffic.runs(found.before), traffic.runs(found.after), text)

        if scenario.changes:
            result = judged(scenario)
        if scenario.each:
            base, after = (loaded, place) if result is None else result.settled
            single = singles(
                base, after, scenario.each, chosen,
                samples=SAMPLES if samples is None else samples, seed=seed,
                demand=None if traffic is None else traffic.traffic, progress=progress,
            )  # fmt: skip
        if report is not None:
            shown = result
            if shown is None and single is not None:
                first = single.failures[single.worst_whole]
                shown = judged(Scenario(fail=first.options(loaded)))
    said = sentences(result) if result is not None else []
    if traffic is not None and result is not None:
        said += traffic.sentences(result)
    if single is not None:
        said += singles_sentences(single)
    if report is not None and shown is not None:
        write_comparison_page(
            what_if_page(shown, single, said, notes, example=result is None), report
        )
    if table is not None and result is not None:
        write_table(result.table, table)
    if failures is not None and single is not None:
        write_table(single.table, failures)
    out = open_console()
    for line in (*said, *notes):
        out.print(escape(line), soft_wrap=True)
    if result is not None:
        _show(result, out)
    if single is not None:
        _show_failures(single, out)
    emit(
        answer=said, notes=notes, scenario=result.changed.title if result else None,
        machines_cut=result.changed.lost_machines if result else [],
        figures=result.table if result else None,
        patterns_before=result.before.runs_table if result else None,
        patterns=result.after.runs_table if result else None,
        refusals=result.refusals if result else {},
        failures=single.table if single else None,
        failures_by_engine=single.engines if single else None,
        pairs=single.pairs.table if single and single.pairs else None,
    )  # fmt: skip
    if report is not None:
        out.print(f"report: {escape(str(report))}")
    return 0


def _in_place(
    fabric: Fabric, given: str, tables: Path | None, spec: str | None
) -> tuple[Fabric, InPlace, list[str]]:
    """Return the fabric with the LIDs of its tables, the tables, and what is to be known of them.

    The lists of GUIDs that ``opensm.conf`` names are taken if the engine of weft has the option.
    """
    path = tables or (Path(given) if os.path.isdir(given) else None)
    if path is None:
        return fabric, InPlace.of(fabric, spec or _USUAL), []
    found = audit([path], fabric, weigh=False)
    notes = [
        f"{finding.severity} {finding.kind}: {finding.text}"
        for finding in found.findings if finding.kind in _OF_TABLES
    ]  # fmt: skip
    if found.routes is None:
        notes.append(f"note: no tables in {path}; those of the first sweep are taken")
    chosen = found.settings.get("routing_engine", "").partition(",")[0].strip()
    named = spec or found.engine or (chosen if chosen != "(null)" else "") or _USUAL
    for name in _LISTS:
        listed = found.settings.get(name, "(null)")
        if spec is not None or listed in ("", "(null)"):
            continue
        copy = (path if path.is_dir() else path.parent) / Path(listed).name
        if copy.is_file() and name in engines_of_weft.parse(named)[0].options:
            named = f"{named}:{name}={copy}"
        else:
            notes.append(f"note: opensm.conf has {name} {listed}, which the prediction leaves out")
    place = InPlace.of(found.fabric, named, found.routes, found.validation)
    return found.fabric, place, notes


def _show(result: WhatIf, out: Console) -> None:
    """Print the figures and the patterns."""
    routes = pl.when(pl.col("state") == NOW).then(pl.lit(NOW)).otherwise("routes").alias("routes")
    rows = result.table.select(routes, *_SHOWN)
    out.print(_table(rows, "The state now, then after the change, what is worst first", out.width))
    if result.after.runs:
        out.print(_patterns(result))
    for name, refusal in result.refusals.items():
        out.print(escape(f"{name} does not fit: {refusal}"), soft_wrap=True)


def _show_failures(single: Singles, out: Console) -> None:
    """Print the worst failures."""
    title = "Failures of single parts, worst first (until: before OpenSM's next sweep)"
    shown = single.table.select(
        name
        for name in _SHOWN_FAILURES
        if single.now["demand_load"] is not None or not name.startswith("demand")
    )
    out.print(_table(shown.head(_PRINTED), title, out.width))
    if (more := len(single.table) - _PRINTED) > 0:
        out.print(f"and {more:,} more (--failures, --report)")


def _table(frame: pl.DataFrame, title: str, width: int) -> Table:
    """Return a table without the columns of `_DISPENSABLE` for which the terminal is too narrow."""
    rows = [
        {name: value_text(name, value) for name, value in row.items()}
        for row in frame.iter_rows(named=True)
    ]
    needs = {
        name: max(map(len, (*name.split("_"), *(row[name] for row in rows))))
        for name in frame.columns
    }
    first = frame.columns[0]
    needs[first] = min(needs[first], _NAME)
    for name in _DISPENSABLE:
        if name in needs and table_width(needs.values()) > width:
            del needs[name]
    screen = Table(title=title, title_justify="left")
    screen.add_column(first.replace("_", " "), overflow="fold")
    for name in [*needs][1:]:
        screen.add_column(name.replace("_", " "), justify="right", width=needs[name])
    broken = frame.select(pl.col("pairs_lost") + pl.col("deadlock") > 0).to_series()
    for row, bad in zip(rows, broken, strict=True):
        screen.add_row(*(escape(row[name]) for name in needs), style="red" if bad else "")
    return screen


def _patterns(result: WhatIf) -> Table:
    cells = {
        (name or run.engine, run.pattern): contention_text(run)
        for name, found in ((NOW, result.before), ("", result.after))
        for run in found.runs if run.pattern != JOBS
    }  # fmt: skip
    title = "Largest contention: flows on a link (links to hosts included) over its relative rate"
    screen = Table(title=title, title_justify="left")
    screen.add_column("routes", overflow="fold")
    specs = dict.fromkeys(spec for _, spec in cells)
    for spec in specs:
        screen.add_column(escape(spec), justify="right", overflow="fold")
    for name in dict.fromkeys(name for name, _ in cells):
        screen.add_row(escape(name), *(cells.get((name, spec), "–") for spec in specs))
    return screen
