"""`weft convert`: a fabric or a workload in another format."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import NO_OPTIONS, FabricOptions, Whole, check_files
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.fabrics.formats import write_fabric, writer
from weft.workload import Workload
from weft.workload.formats import workload_reader, workload_writer, write_workload
from weft.workload.load import load_workload


def convert_command(
    source: Annotated[
        str,
        Parameter(
            help="A fabric, as a file or a spec such as 'xgft:3;6,6,6;1,6,6'; or a workload, as a "
            "file, a folder of traces or a spec such as 'allreduce:size=1MiB'."
        ),
    ],
    /,
    *,
    options: FabricOptions = NO_OPTIONS,
    ranks: Annotated[
        Whole | None, Parameter(help="Ranks of a workload, where a file does not say.")
    ] = None,
    to: Annotated[
        str | None,
        Parameter(
            help="Format to write, with options as in 'graphviz:hosts=false'; the output's name "
            "tells when left out."
        ),
    ] = None,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="File; standard output if left out.")
    ] = None,
) -> int:
    """Write a fabric as ibnetdiscover, ibsim, node-name-map, Slurm, GraphML or Graphviz.

    Or a workload as GOAL or in the MPI trace language, which is what these formats mean.
    """
    check_files(("--output", output, ()))
    if _is_of_workloads(to, output):
        return _convert_workload(source, options, ranks, to, output)
    if ranks is not None:
        raise InputError("--ranks is for workloads, and what is written is a fabric")
    entry, given = writer.parse(to) if to else (writer["ibnetdiscover"], {})
    if output is not None and not to:
        entry = writer.of_file(output)
    made = options.load(source)
    if output is not None:
        write_fabric(made, output, entry.name, **given)
        return 0
    sys.stdout.write(entry.function(made, **writer.bind(entry, given)))
    return 0


def _is_of_workloads(to: str | None, output: Path | None) -> bool:
    """Whether the format that is to be written is one of workloads."""
    if to is not None:
        name = to.partition(":")[0].strip()
        if name not in writer and name not in workload_writer:
            ours, theirs = writer.names(), workload_writer.names()
            raise InputError(
                f"unknown format {name!r}{did_you_mean(name, [*ours, *theirs])}; fabrics are "
                f"written as {', '.join(ours)}, workloads as {', '.join(theirs)}"
            )
        return name in workload_writer
    return output is not None and bool(workload_writer.of_suffix(output))


def _convert_workload(
    source: str, options: FabricOptions, ranks: int | None, to: str | None, output: Path | None
) -> int:
    if replace(options, format=None) != NO_OPTIONS:
        raise InputError("names and faults are for fabrics, and what is written is a workload")
    entry, given = workload_writer.parse(to) if to else (None, {})
    made = _load(source, options.format, ranks)
    for note in made.notes:
        print(f"note: {note}", file=sys.stderr)
    if output is not None:
        write_workload(made, output, entry.name if entry else None, **given)
    elif entry is not None:
        sys.stdout.write(entry.function(workload=made, **workload_writer.bind(entry, given)))
    return 0


def _load(source: str, format: str | None, ranks: int | None) -> Workload:
    if format is None:
        return load_workload(source, ranks)
    entry, given = workload_reader.parse(format)
    return load_workload(source, ranks, format=entry.name, **given)
