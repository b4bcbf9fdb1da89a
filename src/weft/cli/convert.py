"""`weft convert`: a fabric in another format."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import NO_FAULTS, FabricArgument, FabricOptions
from weft.formats import write_file, writer


def convert_command(
    fabric: FabricArgument,
    /,
    *,
    options: FabricOptions = NO_FAULTS,
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
    """Write a fabric as ibnetdiscover, ibsim, node-name-map, Slurm, GraphML or Graphviz."""
    entry, given = writer.parse(to) if to else (None, {})
    made = options.load(fabric)
    if output is not None:
        write_file(made, output, entry.name if entry else None, **given)
        return 0
    entry = entry or writer["ibnetdiscover"]
    sys.stdout.write(entry.function(made, **writer.bind(entry, given)))
    return 0
