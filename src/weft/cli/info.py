"""`weft info`: description of a fabric."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from weft.advice.describe import describe
from weft.cli.common import ALL_HOSTS, FabricArgument, JudgedOptions, announced_compile, console
from weft.cli.machine_output import emit


def info_command(fabric: FabricArgument, /, *, options: JudgedOptions = ALL_HOSTS) -> int:
    """Describe a fabric: counts, rates, diameter, bisection and irregularities."""
    with announced_compile():
        described = options.load(fabric)
        rows = describe(described)
    counts = {
        "hosts": described.num_hosts, "switches": described.num_switches,
        "cables": described.num_cables,
    }  # fmt: skip
    # A number in brackets counts the listed cables or switches; it is not part of the key.
    emit(fabric={name.partition(" (")[0]: value for name, value in rows} | counts)
    table = Table(show_header=False)
    table.add_column()
    table.add_column()
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    console().print(table)
    return 0
