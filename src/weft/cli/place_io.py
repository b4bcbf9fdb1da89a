"""`weft place-io`: which hosts to use as I/O nodes, and how to map jobs beside them."""

from __future__ import annotations

from typing import Annotated, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.advice.io_nodes.candidates import ALL, Candidate, Figures
from weft.advice.io_nodes.place import place_io
from weft.advice.io_nodes.result import IoPlacement, gbps
from weft.advice.io_nodes.settings import IoSettings
from weft.cli.common import (
    ALL_HOSTS,
    TABLES,
    FabricArgument,
    JudgedOptions,
    announced_compile,
    check_files,
    console,
)
from weft.cli.option_types import FIRST, OUTPUT, Engine, File, Hosts
from weft.cli.options import in_flags, options_of, split_names
from weft.cli.output import emit
from weft.core.columns import write_table
from weft.core.errors import InputError
from weft.core.settings import settings
from weft.core.words import few

_SETTINGS = settings(IoSettings)
_ROLES = [item for item in _SETTINGS if item.field in ("io_nodes", "compute", "clients")]
_Options: Any = options_of(
    "PlaceIoOptions", [item for item in _SETTINGS if item.field != "io_nodes"]
)


class PlaceIoOptions(_Options):  # type: ignore[misc]
    """Options of the roles of hosts, of the traffic and of the search."""


DEFAULT = PlaceIoOptions()


def place_io_command(
    fabric: FabricArgument,
    /,
    *,
    io_nodes: Annotated[
        Hosts,
        FIRST(help="Number of I/O nodes to place, or their hosts: then only jobs are placed."),
    ],
    chosen: PlaceIoOptions = DEFAULT,
    engine: Annotated[
        tuple[Engine, ...],
        FIRST(
            name=["--engine", "--engines"],
            help="Routing engine, with options as in 'updn:roots=center'; several in order of "
            "preference. Default: minhop, or nue if minhop's routes can deadlock.",
            consume_multiple=(1, None),
        ),
    ] = (),
    table: Annotated[
        File | None, OUTPUT(help="Write the candidates to this .csv or .parquet file.")
    ] = None,
    options: JudgedOptions = ALL_HOSTS,
) -> int:
    """Choose hosts for I/O nodes, and for the jobs beside them, and say why.

    Compares placements at the static and flow levels, confirms the best at the packet or flit
    level, and prints them, best first, with the cables that limit them.

    Example: `weft place-io 'xgft:2;8,4;1,4' --io-nodes 4`
    """
    check_files(("--table", table, TABLES))
    wanted = chosen.build(IoSettings, io_nodes=io_nodes).table()
    engines = [name for text in engine for name in split_names(text)]
    with announced_compile():
        loaded = options.load(fabric)
        try:
            result = place_io(loaded, wanted.pop("io_nodes"), engines or None, **wanted)
        except InputError as error:
            text = in_flags(error.message, _ROLES)
            raise InputError(text, file=error.file, line=error.line) from None
    show(result, console())
    best = result.best
    emit(
        candidates=result.table, engine=result.engine, margin=result.margin,
        recommended={role: best.hosts(role) for role in ("io", "clients", "compute")},
        reasons=result.reasons, refusals=result.refused, notes=result.notes,
    )  # fmt: skip
    if table is not None:
        write_table(result.table, table)
    return 0


def show(result: IoPlacement, out: Console) -> None:
    """Print the candidates that were run, best first, and the reasons."""
    out.print(f"[bold]{escape(result.fabric.name)}[/], engine {escape(result.engine)}")
    ran = [each for each in result.candidates if each.stage]
    out.print(_table(result, ran))
    if left := len(result.candidates) - len(ran):
        out.print(f"{left} more candidates were compared at the static level only.")
    for name, reason in result.refused.items():
        out.print(escape(f"{name} does not fit: {reason}"), soft_wrap=True)
    for line in result.notes:
        out.print(escape(line), soft_wrap=True)
    out.print()
    for line in result.reasons():
        out.print(escape(line), soft_wrap=True)


def _table(result: IoPlacement, ran: list[Candidate]) -> Table:
    level = result.settings.confirm
    table = Table(
        title="Gb/s: each client if all write or read at once (static); each job, alone and beside "
        "the other; and what I/O costs the compute job",
        title_justify="left",
    )
    table.add_column("placement", overflow="fold")
    mapped = any(each.compute_placements[0] != ALL for each in ran)
    if mapped:
        table.add_column("compute placement", overflow="fold")
    heads = ["write", "read", "flow: I/O alone", "compute alone", "I/O", "compute", "lost"]
    heads += [f"{level}: I/O", "compute", "lost"] if level != "flow" else []
    for head in heads:
        table.add_column(head, justify="right", overflow="fold")
    for each in ran:
        cells = [few(each.placements, 2)] + [few(each.compute_placements, 2)] * mapped
        cells += [gbps(each.loads.limit("write").gbps), gbps(each.loads.limit("read").gbps)]
        cells += _cells(each.flow, alone=True)
        cells += _cells(each.confirmed) if level != "flow" else []
        table.add_row(*map(escape, cells), style="bold" if each is result.best else None)
    return table


def _cells(figures: Figures | None, *, alone: bool = False) -> list[str]:
    if figures is None:
        return ["-"] * (5 if alone else 3)
    values = (figures.io_alone, figures.compute_alone) if alone else ()
    rates = map(gbps, (*values, figures.io, figures.compute))
    return [*rates, f"{figures.interference:.0%}"]
