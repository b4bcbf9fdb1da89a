"""`weft cost`: parts, cables and price of a fabric, and its cabling list."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from weft.advice.machine_room import RoomLayout, cost
from weft.cli.common import NO_OPTIONS, FabricArgument, FabricOptions, check_files
from weft.cli.machine_output import emit
from weft.cli.options import options_of
from weft.core.settings import settings

_Options: Any = options_of("LayoutOptions", settings(RoomLayout))


class LayoutOptions(_Options):  # type: ignore[misc]
    """Options of the machine room."""


DEFAULT_LAYOUT = LayoutOptions()


def cost_command(
    fabric: FabricArgument,
    /,
    *,
    options: FabricOptions = NO_OPTIONS,
    layout: LayoutOptions = DEFAULT_LAYOUT,
    prices: Annotated[
        Path | None, Parameter(help="Price file (TOML); without it, no prices are printed.")
    ] = None,
    cables: Annotated[
        Path | None, Parameter(help="Write the cabling list, one line per cable, as CSV.")
    ] = None,
) -> int:
    """Place a fabric in racks: switches, ports, cables by length, and the cabling list."""
    check_files(("--cables", cables, ()))
    room = layout.build(RoomLayout)  # options are checked before the fabric is loaded
    costs = cost(options.load(fabric), prices=prices, layout=room)
    if cables is not None:
        costs.write_cables(cables)
    emit(
        summary=costs.summary,
        racks=costs.racks,
        total_cost=costs.total_cost,
        currency=costs.currency,
    )
    sys.stdout.write(costs.text().rstrip("\n") + "\n")
    if cables is not None:
        print(f"cabling list: {cables}")
    return 0
