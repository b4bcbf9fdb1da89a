"""`weft trace`: check, format and unfold programs of the MPI trace language."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter
from rich.table import Table

from weft.cli.common import check_files, console
from weft.cli.option_types import FIRST, OUTPUT, WORKLOAD, File, Format, Pair, Whole
from weft.cli.output import emit
from weft.core.errors import InputError
from weft.core.files import read_text, write_text
from weft.workload import Workload
from weft.workload.formats import read_workload
from weft.workload.trace import dense_text, format_program, parse

trace_app = cyclopts.App(
    name="trace",
    help="Check, format and unfold programs of the MPI trace language.",
    help_format="markdown",
)

TraceFile = Annotated[Path, Parameter(help="Trace file.")]
Ranks = Annotated[
    Whole | None, FIRST(help="Number of ranks; required if the trace has no RANKS line.")
]
Settings = Annotated[
    tuple[Pair, ...],
    WORKLOAD(name="--set", help="Value of a parameter, such as n=64KiB. Repeatable."),
]
Seed = Annotated[Whole | None, WORKLOAD(help="Seed of the calculation times.")]
Output = Annotated[
    File | None,
    OUTPUT(name=["--output", "-o"], help="File to write. Default: standard output."),
]
WorkloadFormat = Annotated[
    Format | None, WORKLOAD(help="Format of the file if it is not a trace, such as goal.")
]


@trace_app.command(name="format")
def format_command(
    file: TraceFile,
    /,
    *,
    in_place: Annotated[
        bool, OUTPUT(name=["--in-place", "-i"], help="Overwrite the file.")
    ] = False,
    check: Annotated[
        bool, OUTPUT(help="Write nothing; exit with status 1 if the file would change.")
    ] = False,
    output: Output = None,
) -> int:
    """Write a trace in the canonical form, which is unique for each program.

    Example: `weft trace format examples/stencil.trace`
    """
    check_files(("--output", output, ()))
    if check and (in_place or output is not None):
        named = "--in-place" if in_place else "--output"
        raise InputError(f"--check writes nothing, so {named} cannot be used with it")
    text = read_text(file)
    formatted = format_program(parse(text, str(file)))
    if check:
        if formatted != text:
            print(f"{file} is not in the canonical form", file=sys.stderr)
        return int(formatted != text)
    if in_place and formatted != text:
        write_text(file, formatted)
    if not in_place or output is not None:
        _write(formatted, output)
    return 0


@trace_app.command(name="dense")
def dense_command(
    file: TraceFile,
    /,
    *,
    ranks: Ranks = None,
    settings: Settings = (),
    seed: Seed = None,
    format: WorkloadFormat = None,
    output: Output = None,
) -> int:
    """Unfold a program into the operations of each rank, in numbers only.

    Example: `weft trace dense examples/pipeline.trace --ranks 4`
    """
    check_files(("--output", output, ()))
    _write(dense_text(_workload(file, ranks, settings, seed, format)), output)
    return 0


@trace_app.command(name="check")
def check_command(
    file: TraceFile,
    /,
    *,
    ranks: Ranks = None,
    settings: Settings = (),
    seed: Seed = None,
    format: WorkloadFormat = None,
) -> int:
    """Check a program, and whether its sends and receives match; print its size.

    Example: `weft trace check examples/stencil.trace --ranks 64`
    """
    workload = _workload(file, ranks, settings, seed, format)
    counts = {
        "ranks": workload.num_ranks,
        "operations": workload.num_ops,
        "messages": len(workload.messages),
        "bytes": int(workload.size_bytes[workload.messages].sum()),
    }
    phases = [name for name in workload.phase_names if name]
    emit(name=workload.name, **counts, phases=phases, notes=workload.notes)
    table = Table(box=None, show_header=False)
    table.add_row("name", workload.name)
    for name, value in counts.items():
        table.add_row(name, f"{value:,}")
    if phases:
        table.add_row("phases", ", ".join(phases))
    console().print(table)
    for note in workload.notes:
        print(f"note: {note}")
    return 0


def _workload(
    file: Path, ranks: int | None, settings: tuple[str, ...], seed: int | None, format: str | None
) -> Workload:
    options = {"ranks": ranks, "seed": seed, "parameters": settings or None}
    given = {key: value for key, value in options.items() if value is not None}
    return read_workload(file, format or "trace", **given)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
