"""`weft opensm rehearse`: new tables, a failure and the way back, tried with the real OpenSM."""

from __future__ import annotations

from typing import Annotated

from rich import box
from rich.markup import escape
from rich.table import Table

from weft.cli.common import (
    NO_OPTIONS,
    FabricArgument,
    FabricOptions,
    announced_compile,
    check_files,
    check_folder,
    console,
    opensm_settings,
)
from weft.cli.option_types import (
    FIRST,
    OUTPUT,
    RUNS,
    SERVICE,
    Engine,
    File,
    KeptFolder,
    Name,
    OsmSettings,
    SmHost,
    Whole,
)
from weft.cli.output import emit
from weft.core.errors import InputError
from weft.routing import route
from weft.subnet.export import read_routes
from weft.subnet.live.processes import check_limit
from weft.subnet.live.rehearsal import RANDOM, Rehearsal, rehearse
from weft.subnet.live.subnet import TIMEOUT_S


def rehearse_command(
    fabric: FabricArgument,
    /,
    *,
    options: FabricOptions = NO_OPTIONS,
    engine: Annotated[
        Engine | None, FIRST(help="weft engine of the new tables, as in 'updn:roots=center'.")
    ] = None,
    tables: Annotated[
        File | None, FIRST(help="The new tables: a folder of 'weft opensm export', or an LFT dump.")
    ] = None,
    before: Annotated[
        File | None,
        FIRST(help="The present tables: an LFT dump, or a folder with one, of the fabric."),
    ] = None,
    real: Annotated[
        Engine | None,
        FIRST(help="OpenSM's engine that computes the present tables. Default: minhop."),
    ] = None,
    fail: Annotated[
        tuple[Name, ...],
        FIRST(
            help="What fails: a switch or machine, node[port], a list or pattern, 'random' (a "
            "cable between switches) or 'random-switch'. Repeatable; all fail together."
        ),
    ] = (RANDOM,),
    at: Annotated[
        Whole | None, FIRST(help="Step of loading after which it fails. Default: the middle one.")
    ] = None,
    seed: Annotated[Whole, RUNS(help="Seed of what fails at random.")] = 0,
    sm_host: SmHost | None = None,
    option: OsmSettings = (),
    timeout: Annotated[
        float, SERVICE(help="Time limit of each sweep of OpenSM, in seconds.")
    ] = TIMEOUT_S,
    keep: KeptFolder | None = None,
    report: Annotated[
        File | None, OUTPUT(help="Write a page with the moments and the fabric (.html).")
    ] = None,
) -> int:
    """Rehearse new tables with the real OpenSM: load them, let a part fail, and go back.

    The fabric is simulated by ibsim. At each moment the tables that the switches hold are read from
    them, and the pairs without a path and possible deadlocks are listed, also those of mixtures of
    entries while they change. The exit status is 1 if the tables are not safe to load, or cannot be
    taken back, and 2 if OpenSM does not do what it is told.

    Example: `weft opensm rehearse 'xgft:2;4,4;1,4' --engine updn --real ftree --fail s2-1`
    """
    if (engine is None) == (tables is None):
        raise InputError("expected the new tables: either --engine (weft) or --tables")
    if before is not None and real is not None:
        raise InputError("expected only one of --before (tables) and --real (OpenSM's engine)")
    check_limit(timeout)
    check_folder("--keep", keep)
    check_files(("--report", report, (".html", ".htm")))
    loaded = options.load(fabric)
    with announced_compile():
        new = read_routes(loaded, tables)[0] if tables is not None else route(loaded, engine or "")
        result = rehearse(
            loaded, new, before=before, engine=real or "minhop", fail=fail, at=at, seed=seed,
            sm_host=sm_host, options=opensm_settings(option), timeout_s=timeout, keep=keep,
        )  # fmt: skip
    if report is not None:
        from weft.report.comparison_page import write_comparison_page
        from weft.subnet.live.rehearsal_page import rehearsal_page

        write_comparison_page(rehearsal_page(result), report)
    table = result.table()
    emit(
        fabric=loaded.name, failed=result.failed, safe=not result.problems, moments=table,
        change=result.change.text(), problems=result.problems, risks=result.risks,
        worst=result.worst.name, notes=result.notes,
    )  # fmt: skip
    _print(result)
    return int(bool(result.problems))


def _print(result: Rehearsal) -> None:
    out = console()
    for line in result.change.text():
        out.print(escape(line), soft_wrap=True)
    screen = Table(box=box.SIMPLE_HEAD)
    for head in ("moment", "s", "entries", "switches", "no path", "cut off", "deadlock", "between"):
        right = head not in ("moment", "deadlock", "between")
        screen.add_column(head, justify="right" if right else "left", overflow="fold")
    for name, took_s, *counts, deadlock, between in result.table().iter_rows():
        cells = [name, f"{took_s:.2f}", *(f"{n:,}" for n in counts), deadlock, between or ""]
        screen.add_row(*map(escape, cells))
    out.print(screen)
    for line in result.text():
        out.print(escape(line), soft_wrap=True)
