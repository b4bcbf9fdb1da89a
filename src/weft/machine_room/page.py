"""A cost plan as text."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from weft.machine_room.cables import INTERNAL
from weft.machine_room.planning import CostPlan

_LEAVES = {
    "top": "switches with hosts on top of their hosts' racks",
    "beside": "switches beside their hosts",
    "separate": "all switches in racks of their own",
}
_CORE = {
    "middle": "in the middle of the floor",
    "end": "at the end of the floor",
    "row-ends": "at the ends of the rows",
}
_ORDER = {
    "number": "node number",
    "coordinates": "coordinates, the first one most significant",
    "coordinates-reversed": "coordinates, the last one most significant",
    "cables": "who is cabled to whom",
}
_NAMES = {"switch": "switches", "adapter": "adapters", "cable": "cables", "rack": "racks"}


def page(plan: CostPlan) -> str:
    """The plan as `weft cost` prints it: floor, things to buy, and totals."""
    lines = [*_floor(plan), "", *_things(plan), "", *_totals(plan)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _floor(plan: CostPlan) -> list[str]:
    fabric, racks, layout = plan.fabric, plan.racks, plan.layout
    rows = racks["row"].n_unique()
    only = int((racks["role"] == "switches").sum())
    several = f" with {fabric.num_hosts} adapters" if plan.num_hosts < fabric.num_hosts else ""
    lines = [
        f"{fabric.name}: {plan.num_hosts} hosts{several}, {fabric.num_switches} switches, "
        f"{fabric.num_cables} cables",
        f"{len(racks)} {'rack' if len(racks) == 1 else 'racks'} of {layout.rack_units} U in "
        f"{rows} {'row' if rows == 1 else 'rows'}, {_LEAVES[plan.leaves]}",
    ]
    if only:
        held = f"{only} for switches alone"
        lines.append(held if plan.leaves == "separate" else f"{held}, {_CORE[layout.core]}")
    lines.append(f"along the racks by {_ORDER[plan.order]}")
    return lines


def _things(plan: CostPlan) -> list[str]:
    priced = plan.currency is not None
    power = plan.power_w is not None
    head = ["item", "count", "ports used", "ports free", "total m"]
    head += [f"price {plan.currency}", f"cost {plan.currency}"] if priced else []
    head += ["power W"] if power else []
    table = [head]
    for row in plan.summary.iter_rows(named=True):
        length = None if row["length_m"] is None else row["length_m"] * row["count"]
        cells = [row["item"], *map(_number, (row["count"], row["ports_used"], row["ports_free"]))]
        cells.append(_number(length))
        cells += [_number(row["price"], 2), _number(row["cost"], 2)] if priced else []
        cells += [_number(row["power_w"])] if power else []
        table.append(cells)
    return _aligned(table)


def _totals(plan: CostPlan) -> list[str]:
    bought = plan.cables.filter(pl.col("kind") != INTERNAL)
    count = bought.group_by("kind").len().sort("kind").rows()
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in count)
    lines = [f"cables   {len(bought):,}{f' ({kinds})' if kinds else ''}, {plan.cable_m:,g} m"]
    if len(bought):
        lines[0] += f", longest {max(bought['length_m'].to_list()):g} m"
        known = bought["route_m"].null_count()
        if known:
            lines.append(f"lengths  {known:,} were known and are kept")
    if plan.total_cost is not None:
        per_host = plan.cost_per_host
        share = "" if per_host is None else f", {per_host:,.2f} per host"
        lines.append(f"cost     {plan.total_cost:,.2f} {plan.currency}{share}")
        if plan.unpriced:
            lines.append(
                f"without  {', '.join(_NAMES[name] for name in plan.unpriced)} (no prices)"
            )
    if plan.power_w is not None:
        silent = plan.summary.filter(
            pl.col("power_w").is_null() & ~pl.col("category").is_in(["rack", "internal"])
        )
        rest = f", without {', '.join(silent['item'])}" if len(silent) else ""
        lines.append(f"power    {plan.power_w:,.0f} W{rest}")
    return lines


def _number(value: float | None, digits: int = 0) -> str:
    if value is None:
        return ""
    return f"{value:,.{digits}f}" if digits or value == int(value) else f"{value:,.1f}"


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = row[0].ljust(widths[0])
        lines.append("  ".join(cells))
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines
