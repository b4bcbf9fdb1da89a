"""`weft info`: description of a fabric, and its faults."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from weft.advice.describe import describe
from weft.advice.faults import fault_rows, fault_table, faults
from weft.cli.common import (
    ALL_HOSTS,
    FabricArgument,
    JudgedOptions,
    announced_compile,
    console,
)
from weft.cli.output import emit


def info_command(
    fabric: FabricArgument,
    /,
    *,
    options: JudgedOptions = ALL_HOSTS,
) -> None:
    """Describe a fabric: counts, rates, diameter, bisection and irregularities.

    `weft audit` lists all irregularities, and its exit status tells whether there are any.

    Example: `weft info dragonfly:p=2,a=4,h=2`
    """
    with announced_compile():
        described = options.load(fabric)
        found = faults(described)
        rows = describe(described, found)
    counts = {
        "hosts": described.num_hosts, "switches": described.subnet.num_switches,
        "cables": described.subnet.num_cables,
    }  # fmt: skip
    # A number in brackets counts the listed cables or switches; it is not part of the key.
    whole = dict(rows) | dict(fault_rows(found, most=len(found)))
    emit(
        fabric={name.partition(" (")[0]: value for name, value in whole.items()} | counts,
        faults=fault_table(found),
    )
    screen = Table(show_header=False)
    screen.add_column()
    screen.add_column()
    for name, value in rows:
        screen.add_row(escape(name), escape(value))
    console().print(screen)
