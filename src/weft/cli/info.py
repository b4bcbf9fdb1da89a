"""`weft info`: description of a fabric, and its faults."""

from __future__ import annotations

from typing import Annotated

from rich.markup import escape
from rich.table import Table

from weft.advice.describe import describe
from weft.advice.faults import fault_rows, fault_table, faults
from weft.cli.common import (
    ALL_HOSTS,
    TABLES,
    FabricArgument,
    FailOnOption,
    JudgedOptions,
    announced_compile,
    check_files,
    console,
)
from weft.cli.option_types import FIRST, OUTPUT, File
from weft.cli.output import emit
from weft.core.columns import write_table
from weft.core.errors import InputError
from weft.core.severity import fails


def info_command(
    fabric: FabricArgument,
    /,
    *,
    options: JudgedOptions = ALL_HOSTS,
    check: Annotated[
        bool, FIRST(help="Exit with status 1 if there are faults, see --fail-on.")
    ] = False,
    fail_on: FailOnOption = None,
    faults_file: Annotated[
        File | None,
        OUTPUT(
            name="--faults",
            help="Write all faults with their ports to this .csv or .parquet file, one row each.",
        ),
    ] = None,
) -> int:
    """Describe a fabric: counts, rates, diameter, bisection and irregularities.

    Example: `weft info dragonfly:p=2,a=4,h=2 --check`
    """
    if fail_on is not None and not check:
        raise InputError("--fail-on requires --check")
    check_files(("--faults", faults_file, TABLES))
    with announced_compile():
        described = options.load(fabric)
        found = faults(described)
        rows = describe(described, found)
    table = fault_table(found)
    counts = {
        "hosts": described.num_hosts, "switches": described.num_switches,
        "cables": described.num_cables,
    }  # fmt: skip
    # A number in brackets counts the listed cables or switches; it is not part of the key.
    whole = dict(rows) | dict(fault_rows(found, most=len(found)))
    emit(
        fabric={name.partition(" (")[0]: value for name, value in whole.items()} | counts,
        faults=table,
    )
    screen = Table(show_header=False)
    screen.add_column()
    screen.add_column()
    for name, value in rows:
        screen.add_row(escape(name), escape(value))
    console().print(screen)
    if faults_file is not None:
        write_table(table, faults_file)
    failed = check and fails((fault.severity for fault in found), fail_on or "error")
    return int(failed)
