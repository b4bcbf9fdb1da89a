"""`weft flits`: synthetic traffic at the flit level, and configuration files of BookSim 2."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from weft.cli.common import (
    ALL_HOSTS,
    JudgedOptions,
    announced_compile,
    as_number,
    console,
    is_booksim,
)
from weft.cli.option_types import FIRST, FLIT, OUTPUT, ROUTING, RUNS, File, Loads, Policy, Whole
from weft.cli.options import options_of
from weft.cli.output import emit
from weft.cli.series import (
    NO_RESULT,
    USUAL,
    SeriesOptions,
    each_name,
    heading,
    interrupted,
    show_runs,
    watched,
)
from weft.core.arguments import whole_number
from weft.core.errors import InputError, NotApplicable
from weft.core.settings import settings
from weft.fabrics import Fabric
from weft.report.load_curves import SUFFIXES
from weft.routing import route
from weft.sim.flit.booksim import BookSimRun, read_booksim
from weft.sim.flit.router import MOST_CYCLES, Router, parse_router
from weft.sim.flit.run import LONGEST_DRAIN, MOST_THREADS, FlitTraffic
from weft.sim.flit.traffic import Load
from weft.sim.methods import USUAL_ENGINE
from weft.sim.options import RunSettings
from weft.sim.sweep.flits import FlitSeries, unusual
from weft.sim.sweep.settings import loads_of

_LOAD = settings(Load)
_ROUTER = [item for item in settings(RunSettings) if item.field == "router"]
FlitsOptions: Any = options_of(
    "FlitsOptions", [*_ROUTER, *(item for item in _LOAD if item.field != "rate")]
)


DEFAULT = FlitsOptions()


def flits_command(
    source: Annotated[
        str,
        Parameter(
            help="A fabric: a file or a spec such as 'torus:8x8'; or a configuration file of "
            "BookSim 2."
        ),
    ],
    /,
    *changes: Annotated[
        str,
        Parameter(
            help="Assignments KEY=VALUE after those of the configuration file, as BookSim takes "
            "them."
        ),
    ],
    series: SeriesOptions = USUAL,
    policy: Annotated[
        tuple[Policy, ...],
        ROUTING(
            name=["--policy", "--policies"],
            help="Policy that chooses among the candidates of an engine's routes, with options "
            "('weft list flit-policies'). Repeatable. Default: the engine's own, or ecmp.",
            consume_multiple=(1, None),
        ),
    ] = (),
    loads: Annotated[
        tuple[Loads, ...],
        FIRST(
            name=["--load", "--loads"],
            help="Flits that an endpoint generates in a cycle on average, requests only, at most "
            "1: FIRST:LAST:STEP, or a list with commas. Default: 0.1, or injection_rate of the "
            "configuration file.",
            consume_multiple=(1, None),
        ),
    ] = (),
    chosen: FlitsOptions = DEFAULT,
    latency: Annotated[
        Whole | None,
        FLIT(help="Cycles that a flit is on a link. Default: 1, or those of BookSim's channels."),
    ] = None,
    drain: Annotated[
        Whole | None,
        RUNS(
            help="Most cycles after the measurement in which its packets may arrive. Default: ten "
            "times warmup and measure."
        ),
    ] = None,
    threads: Annotated[
        Whole | None,
        RUNS(
            help="Threads of each run, which do not change its results. Default: all processors "
            "for one large run, 1 for each of several runs."
        ),
    ] = None,
    lenient: Annotated[
        bool,
        FLIT(
            help="Use similar values for keys of the configuration file that have no counterpart, "
            "and warn of them."
        ),
    ] = False,
    congestion_matrix: Annotated[
        File | None,
        OUTPUT(help="Draw where packets of the only run wait to this .png, .svg or .pdf file."),
    ] = None,
    options: JudgedOptions = ALL_HOSTS,
) -> int:
    """Run synthetic traffic cycle by cycle, or repeat a configuration file of BookSim 2.

    Prints accepted load and latency in cycles for each load, and whether the run settled; 'weft
    sweep --level flit' runs messages in bytes and ns. Options replace settings of a configuration
    file. The exit status is 1 if no run has a result, or a run
    deadlocks.

    Example: `weft flits torus:4x4 --routing dor --load 0.1:0.3:0.1`
    """
    series.check(("--congestion-matrix", congestion_matrix, SUFFIXES))
    out = console()
    config = None
    if is_booksim(source):
        if options != ALL_HOSTS:
            raise InputError(
                f"{options.flags()[0]} requires a fabric, but {source} is a configuration file of "
                "BookSim"
            )
        config = _read(source, changes, lenient=lenient)
    elif changes or lenient:
        what = f"{changes[0]!r}" if changes else "--lenient"
        raise InputError(f"{what} requires a configuration file of BookSim, not {source}")
    usual = config.load if config else Load()
    texts = [each for text in loads for each in loads_of(text, "--load")] or [usual.rate]
    traffic = [chosen.build(Load, **(usual.table() | {"rate": rate})) for rate in texts]
    wanted, load = [each.rate for each in traffic], traffic[0]
    try:
        words = parse_router(chosen.value("router"))
        router = replace(config.router if config else Router(), **words)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"--router: {error.message}") from None
    engines, names = series.names
    policies = each_name(policy)
    several = max(len(wanted), len(names + engines), len(policies)) > 1
    if congestion_matrix is not None and several:
        raise InputError(
            "--congestion-matrix shows one run: expected one load, one routing or engine, and one "
            "policy"
        )
    for value, option, least, most in (
        (latency, "--latency", 1, MOST_CYCLES), (drain, "--drain", 0, LONGEST_DRAIN),
        (threads, "--threads", 1, MOST_THREADS),
    ):  # fmt: skip
        if value is not None:
            whole_number(value, option, least, most)
    unfit: dict[str, str] = {}
    with announced_compile():
        loaded = options.load(config.fabric if config else source)
        if config and not names and not engines:
            routes: list[Any] = [config.routes(loaded)]
            policies = policies or ([config.policy] if config.policy else [])
        else:
            if not names and not engines:
                engines = [USUAL_ENGINE]
            routes, unfit = _routes(loaded, engines, names)
        delays: Any = 1 if config is None else config.latencies(loaded)
        runs = FlitSeries.of(
            loaded, routes, load, router, delays if latency is None else latency,
            policies or None, drain, 1 if several and threads is None else threads,
        )  # fmt: skip
        with watched("runs") as progress:
            whole = congestion_matrix is not None
            table, result = runs.run(wanted, series.processes, progress, whole=whole)
    if config:
        out.print(f"{escape(config.file)}: channels {config.channels}, cycles", soft_wrap=True)
    show(table, load, unusual(router), out)
    for name, reason in unfit.items():
        out.print(escape(f"{name}: does not fit: {reason}"), soft_wrap=True)
    emit(loads=table, refusals=unfit, notes=list(config.notes) if config else [])
    known = table.filter(pl.col("status") == "complete")
    drawn = known["latency_mean_cycles"].is_not_null().any()
    series.write(table, [table] if drawn else [], out)
    if congestion_matrix is not None and result is not None:
        _draw(result, congestion_matrix)
        out.print(f"congestion matrix: {escape(str(congestion_matrix))}")
    if "interrupted" in table["status"]:
        return interrupted(len(table) - len(known), len(table))
    return NO_RESULT if known.is_empty() or (known["deadlock"] != "").any() else 0


# -- input -----------------------------------------------------------------------------------------


def _read(source: str, changes: tuple[str, ...], *, lenient: bool) -> BookSimRun:
    """Read a configuration file, and print what differs to standard error."""
    try:
        config = read_booksim(source, changes, lenient=lenient)
    except InputError as error:
        text = error.message.replace("`lenient`", "--lenient")
        raise InputError(text, file=error.file, line=error.line) from None
    for note in config.notes:
        kind = "weft: warning" if note in config.replaced else "note"
        print(f"{kind}: {note}", file=sys.stderr)
    return config


def _routes(
    fabric: Fabric, engines: list[str], names: list[str]
) -> tuple[list[Any], dict[str, str]]:
    """Return routes of engines and names of routings; and engines that do not fit, with reasons."""
    routes: list[Any] = []
    unfit: dict[str, str] = {}
    for each in engines:
        try:
            routes.append(route(fabric, each))
        except NotApplicable as reason:
            unfit[each] = str(reason)
    if not routes and not names:
        raise NotApplicable("; ".join(unfit.values()))
    return [*routes, *names], unfit


# -- output ----------------------------------------------------------------------------------------


def show(frame: pl.DataFrame, load: Load, router: str, out: Console) -> None:
    """Print a row for each run, and which loads settle.

    `frame`: frame of `TRAFFIC_COLUMNS`. `router`: the settings of routers that were asked for, as
    text.
    """
    first = frame.row(0, named=True)
    several = len({heading(row) for row in frame.iter_rows(named=True)}) > 1
    alone = "" if several else f", {heading(first)}"
    size = f"packets of {load.size_text} flit{'s' * (load.largest > 1)}"
    size += f", replies of {load.reply:,}" * (load.reply > 0)
    lines = [
        f"{first['fabric']}{alone}: {first['pattern']}, {size}; warm-up {load.warmup:,}, "
        f"measurement {load.measure:,} cycles; seed {load.seed}"
    ]
    if router != "usual":
        lines += [f"routers: {router}"]
    out.print(escape("\n".join(lines)), soft_wrap=True)
    show_runs(
        frame,
        ("offered", "accepted", "±", "latency", "±", "network", "median", "p99", "hops", "packets"),
        _cells,
        lambda row: row["settled"] is False,
        lambda part: _summary(part, router),
        out,
        "flits per cycle and endpoint; latencies in cycles, ± 95 % intervals",
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a run."""
    return [
        as_number(row["offered_load"], 3), as_number(row["accepted_load"], 3),
        as_number(row["accepted_ci95"], 4), as_number(row["latency_mean_cycles"], 1),
        as_number(row["latency_ci95_cycles"], 1), as_number(row["network_latency_mean_cycles"], 1),
        as_number(row["latency_p50_cycles"], 0), as_number(row["latency_p99_cycles"], 0),
        as_number(row["hops"], 2), f"{row['packets']:,}",
        "settled" if row["settled"] else escape(row["why"]),
    ]  # fmt: skip


def _summary(part: pl.DataFrame, router: str) -> Iterator[str]:
    """Yield a summary of the runs of one routing."""
    known = part.filter(pl.col("status") == "complete")
    if len(known) > 1:
        settled, others = (
            known.filter(pl.col("settled") == each)["load"].to_list() for each in (True, False)
        )
        limits = [f"settles up to {max(settled):.3f}"] if settled else []
        limits += [f"does not settle from {min(others):.3f} on"] if others else []
        most = max(known["accepted_load"].to_list())
        yield f"{', '.join(limits)}; largest accepted load {most:.3f}."
    if len(known) and (made := known["router"][0]) != router:
        yield f"routers are changed to {made}, without which this routing can deadlock"
    stuck = known.filter(pl.col("deadlock") != "")
    if len(stuck):
        yield f"deadlock at {stuck['load'][0]:.3f}: {stuck['deadlock'][0]}"


def _draw(result: FlitTraffic, file: Path) -> None:
    """Draw the congestion matrix."""
    from weft.report.plot import plot  # only here: it loads all kinds of pictures

    title = f"{result.load.pattern} on {result.fabric.name}, {result.routing}"
    plot(result, title=title).write(file, format=file.suffix[1:].lower())
