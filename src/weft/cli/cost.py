"""`weft cost`: what a fabric takes to build, and the list a technician follows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import NO_FAULTS, FabricArgument, FabricOptions
from weft.cost import Layout, plan

DEFAULT_LAYOUT = Layout()


def cost_command(
    fabric: FabricArgument,
    /,
    *,
    options: FabricOptions = NO_FAULTS,
    layout: Annotated[Layout, Parameter(name="*")] = DEFAULT_LAYOUT,
    prices: Annotated[
        Path | None, Parameter(help="A price file (TOML); without one no money is printed.")
    ] = None,
    cables: Annotated[
        Path | None, Parameter(help="Write the cabling list, one line per cable, as CSV.")
    ] = None,
) -> int:
    """Put a fabric into racks: switches, ports, cables by length, and the cabling list."""
    made = plan(options.load(fabric), prices=prices, layout=layout)
    if cables is not None:
        made.write_cables(cables)
    sys.stdout.write(made.text().rstrip("\n") + "\n")
    if cables is not None:
        print(f"cabling list: {cables}")
    return 0
