"""`weft cost`: what a fabric takes to build, and the list a technician follows."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import Parameter

from weft.cli.common import NO_OPTIONS, FabricArgument, FabricOptions, Whole, check_files
from weft.core.docstrings import meanings
from weft.machine_room import Layout, cost

#: Types of options for the types of a layout.
_OPTION: dict[Any, Any] = {int: Whole, int | None: Whole | None}


def _fields() -> Iterator[tuple[str, Any, Any]]:
    hints, told = get_type_hints(Layout), meanings(inspect.getdoc(Layout) or "")
    for item in fields(Layout):
        hint = hints[item.name]
        # Under python -OO there are no docstrings.
        option = field(
            default=item.default, metadata={"help": told.get(item.name, "").replace("`", "")}
        )
        yield item.name, _OPTION.get(hint, hint), option


#: A layout as options: counts are whole numbers, and each field has its help.
LayoutOptions: Any = make_dataclass(
    "LayoutOptions", _fields(), bases=(Layout,), namespace={"__module__": __name__}, frozen=True
)
DEFAULT_LAYOUT = LayoutOptions()


def cost_command(
    fabric: FabricArgument,
    /,
    *,
    options: FabricOptions = NO_OPTIONS,
    layout: Annotated[LayoutOptions, Parameter(name="*")] = DEFAULT_LAYOUT,
    prices: Annotated[
        Path | None, Parameter(help="A price file (TOML); without one no money is printed.")
    ] = None,
    cables: Annotated[
        Path | None, Parameter(help="Write the cabling list, one line per cable, as CSV.")
    ] = None,
) -> int:
    """Put a fabric into racks: switches, ports, cables by length, and the cabling list."""
    check_files(("--cables", cables, ()))
    made = cost(options.load(fabric), prices=prices, layout=layout)
    if cables is not None:
        made.write_cables(cables)
    sys.stdout.write(made.text().rstrip("\n") + "\n")
    if cables is not None:
        print(f"cabling list: {cables}")
    return 0
