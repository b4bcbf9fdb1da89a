"""`weft convert`: a fabric or a workload in another format."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import NO_OPTIONS, FabricOptions, check_files
from weft.cli.option_types import FIRST, WORKLOAD, File, Format, Whole
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.fabrics.formats import write_fabric, writer
from weft.workload.formats import workload_writer, write_workload
from weft.workload.load import load_workload


def convert_command(
    source: Annotated[
        str,
        Parameter(
            help="A fabric: a file or a spec such as 'xgft:3;6,6,6;1,6,6'; or a workload: a file, "
            "a folder of traces or a spec such as 'allreduce:size=1MiB'."
        ),
    ],
    /,
    *,
    options: FabricOptions = NO_OPTIONS,
    ranks: Annotated[
        Whole | None,
        WORKLOAD(help="Number of ranks of a workload; required if the source does not give it."),
    ] = None,
    to: Annotated[
        Format | None,
        FIRST(
            help="Format to write, with options as in 'graphviz:hosts=false'. Default: the format "
            "for the suffix of the output file."
        ),
    ] = None,
    output: Annotated[
        File | None,
        FIRST(name=["--output", "-o"], help="File to write. Default: standard output."),
    ] = None,
) -> int:
    """Write a fabric in another format, such as ibsim, Slurm's topology.yaml or Graphviz.

    The source is a workload if the output format is GOAL or the MPI trace language.

    Example: `weft convert torus:4x4 --to ibsim --output torus.net`
    """
    check_files(("--output", output, ()))
    if _is_of_workloads(to, output):
        return _convert_workload(source, options, ranks, to, output)
    if ranks is not None:
        raise InputError("--ranks requires a workload, but the output format is for fabrics")
    entry, given = writer.parse(to) if to else (writer["ibnetdiscover"], {})
    if output is not None and not to:
        entry = writer.of_file(output)
    loaded = options.load(source)
    if output is not None:
        write_fabric(loaded, output, entry.name, **given)
        return 0
    sys.stdout.write(entry.function(loaded, **writer.bind(entry, given)))
    return 0


def _is_of_workloads(to: str | None, output: Path | None) -> bool:
    """Return whether the output format is a format of workloads."""
    if to is not None:
        name = to.partition(":")[0].strip()
        if name not in writer and name not in workload_writer:
            fabrics, workloads = writer.names(), workload_writer.names()
            raise InputError(
                f"unknown format {name!r}{did_you_mean(name, [*fabrics, *workloads])}; formats of "
                f"fabrics: {', '.join(fabrics)}; of workloads: {', '.join(workloads)}"
            )
        return name in workload_writer
    return output is not None and bool(workload_writer.of_suffix(output))


def _convert_workload(
    source: str, options: FabricOptions, ranks: int | None, to: str | None, output: Path | None
) -> int:
    if replace(options, format=None) != NO_OPTIONS:
        raise InputError(
            "names and faults require a fabric, but the output format is for workloads"
        )
    entry, given = workload_writer.parse(to) if to else (None, {})
    workload = load_workload(source, ranks, format=options.format)
    for note in workload.notes:
        print(f"note: {note}", file=sys.stderr)
    if output is not None:
        write_workload(workload, output, entry.name if entry else None, **given)
    elif entry is not None:
        written = entry.function(workload=workload, **workload_writer.bind(entry, given))
        if isinstance(written, bytes):
            sys.stdout.buffer.write(written)
        else:
            sys.stdout.write(written)
    return 0
