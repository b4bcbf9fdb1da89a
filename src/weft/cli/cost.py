"""`weft cost`: parts, cables and price of a fabric, and its cabling list."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from weft.advice.machine_room import RoomLayout, cost
from weft.cli.common import NO_OPTIONS, FabricArgument, FabricOptions, check_files
from weft.cli.option_types import OUTPUT, ROOM, File
from weft.cli.options import options_of
from weft.cli.output import emit
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
        File | None, ROOM(help="Price file (TOML); without it, no prices are printed.")
    ] = None,
    cables: Annotated[
        File | None, OUTPUT(help="Write the cabling list, one line per cable, as CSV.")
    ] = None,
) -> int:
    """Place a fabric in racks: switches, ports, cables by length, and the cabling list.

    Example: `weft cost fat-tree:k=8 --cables cables.csv`
    """
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
