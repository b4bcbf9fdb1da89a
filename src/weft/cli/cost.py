"""`weft cost`: what a fabric takes to build, and the list a technician follows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from weft.cli.common import NO_OPTIONS, FabricArgument, FabricOptions, check_files
from weft.cli.machine_output import emit
from weft.cli.options import options_of
from weft.core.settings import settings
from weft.machine_room import Layout, cost

_Options: Any = options_of("LayoutOptions", settings(Layout))


class LayoutOptions(_Options):  # type: ignore[misc]
    """The machine room."""


DEFAULT_LAYOUT = LayoutOptions()


def cost_command(
    fabric: FabricArgument,
    /,
    *,
    options: FabricOptions = NO_OPTIONS,
    layout: LayoutOptions = DEFAULT_LAYOUT,
    prices: Annotated[
        Path | None, Parameter(help="A price file (TOML); without one no money is printed.")
    ] = None,
    cables: Annotated[
        Path | None, Parameter(help="Write the cabling list, one line per cable, as CSV.")
    ] = None,
) -> int:
    """Put a fabric into racks: switches, ports, cables by length, and the cabling list."""
    check_files(("--cables", cables, ()))
    room = layout.made(Layout)
    made = cost(options.load(fabric), prices=prices, layout=room)
    if cables is not None:
        made.write_cables(cables)
    emit(summary=made.summary, racks=made.racks, total_cost=made.total_cost, currency=made.currency)
    sys.stdout.write(made.text().rstrip("\n") + "\n")
    if cables is not None:
        print(f"cabling list: {cables}")
    return 0
