"""`weft check`: a cable plan, or an earlier reading, against the fabric that was found."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich import box
from rich.markup import escape
from rich.table import Table

from weft.advice.plan_check.check import PlanCheck, check
from weft.cli.common import NO_OPTIONS, TABLES, FabricArgument, FabricOptions, check_files, console
from weft.cli.option_types import FIRST, OUTPUT, File, Pair
from weft.cli.output import emit
from weft.core.columns import write_table
from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.files import is_source, read_text
from weft.core.severity import FailOn, fails
from weft.core.units import parse_rate
from weft.fabrics import DEFAULT_RATE, Fabric
from weft.fabrics.cabling import Cabling, cabling_of
from weft.fabrics.formats import reader
from weft.fabrics.formats.cable_plan import is_plan, parse_columns, read_plan
from weft.fabrics.formats.format_registry import ASSUMED_RATE
from weft.fabrics.formats.slurm import SlurmTopology, is_topologies, parse_topologies
from weft.fabrics.formats.slurm_check import check_topologies
from weft.fabrics.load import fabric as load_fabric

_SHEETS = (".csv", ".tsv", ".ndt")
_WORKBOOKS = (".xlsx", ".xls", ".ods")


def check_command(
    plan: Annotated[
        str,
        Parameter(
            help="A list of cables (CSV), a fabric's file, such as an earlier one, a spec, or "
            "Slurm's topology.conf or topology.yaml."
        ),
    ],
    found: FabricArgument,
    /,
    *,
    columns: Annotated[
        Pair | None,
        FIRST(
            help="Headers of the plan's columns, as in 'from_node=Device A,from_port=Port A,"
            "to_node=Device B,to_port=Port B'.",
            name="--columns",
        ),
    ] = None,
    out: Annotated[
        File | None,
        FIRST(help="Write the differences, one row per cable, to this .csv or .parquet file."),
    ] = None,
    options: FabricOptions = NO_OPTIONS,
    fail_on: Annotated[
        FailOn,
        OUTPUT(help="Least severity that gives exit status 1: error, warning, note, or never."),
    ] = "warning",
) -> int:
    """Compare a cable plan with the fabric that was found, and list what to do, rack by rack.

    A plan is a CSV file with named columns, such as the list of `weft cost` or UFM's NDT. Two
    readings of one fabric are compared by GUID. Slurm's topology files are checked by Slurm's
    rules and against the cables. The exit status is 0 if nothing differs.

    Example: `weft check plan.csv cluster.ibnetdiscover --out work.csv`
    """
    check_files(("--out", out, TABLES))
    path = Path(plan)
    if path.suffix.lower() in _WORKBOOKS and path.is_file():
        raise InputError("is a workbook; export its sheet as CSV", file=plan)
    text = read_text(plan, utf16=True) if is_source(plan) and not path.is_dir() else None
    if text is not None and columns is None and is_topologies(text):
        if out is not None:
            raise InputError("--out requires cables, which a topology file of Slurm does not have")
        return _check_slurm(parse_topologies(text, plan), plan, options.load(found), fail_on)
    there = _cabling_of(lambda: options.load(found))
    result = check(_planned(plan, text, columns, options), there)
    table = result.table()
    emit(
        plan=result.plan, found=result.found, readings=result.readings,
        planned_cables=result.planned_cables, found_cables=result.found_cables,
        same_cables=result.same_cables, notes=result.notes, differences=table,
    )  # fmt: skip
    _print(result)
    if out is not None:
        write_table(table, out)
    return int(fails((each.severity for each in result.differences), fail_on))


def _check_slurm(
    topologies: Sequence[SlurmTopology], plan: str, fabric: Fabric, fail_on: FailOn
) -> int:
    """Print what is wrong with a topology file of Slurm; return the exit status."""
    findings = check_topologies(topologies, fabric)
    count = Counter(each.severity for each in findings)
    emit(plan=plan, found=fabric.name, findings=[each._asdict() for each in findings])
    out = console()
    for each in findings:
        out.print(escape(f"{each.severity}: {plan}:{each.line}: {each.text}"), soft_wrap=True)
    nodes = {node for each in topologies for node in each.nodes}
    text = ", ".join(f"{count_text(number, kind)}" for kind, number in count.items())
    out.print(
        escape(f"{plan}: {count_text(len(nodes), 'node')}, compared with {fabric.name}: ")
        + (text or "no difference"), soft_wrap=True,
    )  # fmt: skip
    return int(fails(count, fail_on))


def _planned(plan: str, text: str | None, columns: str | None, options: FabricOptions) -> Cabling:
    """Return the cabling of a plan: a list of cables, or else a fabric."""
    named = parse_columns(columns) if columns is not None else {}
    if named or text is not None:
        text = read_text(plan, utf16=True) if text is None else text
        # A pipe cannot be read again as a fabric.
        pipe = not Path(plan).is_file()
        sheet = pipe or Path(plan).suffix.lower() in _SHEETS
        if named or is_plan(text) or (sheet and not any(e.facts["sniff"](text) for e in reader)):
            return read_plan(text, plan, named)
        if pipe:
            raise InputError("is a pipe; give the file of a fabric by its name", file=plan)
    names = getattr(options, "names", None) if is_source(plan) else None
    return _cabling_of(lambda: load_fabric(plan, names=names))


def _cabling_of(load: Callable[[], Fabric]) -> Cabling:
    """Return the cabling of a fabric, and what rate was assumed for want of one in its file."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fabric = load()
    kinds = set()
    for each in seen:
        warnings.showwarning(each.message, each.category, each.filename, each.lineno)
        kinds.add(getattr(each.message, "kind", ""))
    return cabling_of(fabric, parse_rate(DEFAULT_RATE)[0] if ASSUMED_RATE in kinds else math.nan)


def _print(result: PlanCheck) -> None:
    out = console()
    sides = ("before", "now") if result.readings else ("planned", "found")
    count = Counter(each.kind for each in result.differences)
    out.print(
        escape(
            f"{result.plan}: {count_text(result.planned_cables, 'cable')} {sides[0]}; "
            f"{result.found}: {result.found_cables:,} {sides[1]}; {result.same_cables:,} the same"
        ),
        soft_wrap=True,
    )
    for note in result.notes:
        out.print(escape(f"note: {note}"), soft_wrap=True)
    if not count:
        out.print("no difference")
        return
    out.print("; ".join(f"{number:,} × {kind}" for kind, number in count.most_common()))
    action = "text" if result.readings else "action"
    racks = [each.rows[0].get("rack") or "" for each in result.differences]
    heads = ["", *["rack"] * any(racks), "port", "difference", action.replace("action", "to do")]
    screen = Table(box=box.SIMPLE_HEAD)
    for head in heads:
        screen.add_column(head, justify="left" if head else "right", overflow="fold")
    for number, (rack, each) in enumerate(zip(racks, result.differences, strict=True), 1):
        unit = each.rows[0].get("unit")
        place = rack if unit is None else f"{rack} U{unit}"
        cells = [str(number), *[place] * any(racks), each.place, each.kind, getattr(each, action)]
        screen.add_row(*map(escape, cells))
    out.print(screen)
