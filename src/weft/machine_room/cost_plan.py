"""What a cost plan holds, and how it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from weft.core.columns import Column
from weft.core.files import write_text
from weft.fabrics import Fabric
from weft.machine_room.cables import INTERNAL
from weft.machine_room.room_options import Layout

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

#: Columns of `CostPlan.summary`, one row per thing that is bought.
SUMMARY_COLUMNS = {
    "category": Column(pl.String, "", "switch, adapter, cable, rack, or internal (not bought)"),
    "item": Column(pl.String, "", "what it is"),
    "count": Column(pl.Int64, "", "how many"),
    "ports": Column(pl.Int64, "", "ports of each as bought; null for cables and racks"),
    "ports_needed": Column(pl.Int64, "", "ports of each in the fabric; null for cables and racks"),
    "ports_used": Column(pl.Int64, "", "ports with a cable, of all of them together"),
    "ports_free": Column(pl.Int64, "", "ports without, of all of them together"),
    "kind": Column(pl.String, "", "of a cable: copper or optical"),
    "rate": Column(pl.String, "", "of a cable: name of the data rate"),
    "length_m": Column(pl.Float64, "m", "of a cable: its length"),
    "price": Column(pl.Float64, "currency", "of one; null without a price"),
    "cost": Column(pl.Float64, "currency", "of all of them; null without a price"),
    "power_w": Column(pl.Float64, "W", "of all of them; null where the price file does not say"),
}

#: Columns of `CostPlan.racks`, one row per rack.
RACK_COLUMNS = {
    "rack": Column(pl.String, "", "name: a letter for the row, the place in it"),
    "row": Column(pl.Int32, "", "row, from 1"),
    "place": Column(pl.Int32, "", "place in the row, from 1"),
    "x_m": Column(pl.Float64, "m", "along the row, from the first rack"),
    "y_m": Column(pl.Float64, "m", "across the rows, from the first row"),
    "role": Column(pl.String, "", "switches, hosts or mixed"),
    "switches": Column(pl.Int32, "", "switch boxes in it"),
    "hosts": Column(pl.Int32, "", "hosts in it, however many adapters each has"),
    "units_used": Column(pl.Int32, "U", "units taken"),
    "units_free": Column(pl.Int32, "U", "units left"),
    "cables_within": Column(pl.Int32, "", "cables with both ends in it, internal ones left out"),
    "cables_out": Column(pl.Int32, "", "cables that leave it over the tray"),
}

#: Columns of `CostPlan.places`, one row per node.
PLACE_COLUMNS = {
    "node": Column(pl.String, "", "label"),
    "kind": Column(pl.String, "", "switch, host or auxiliary"),
    "rack": Column(pl.String, "", "its rack; null for an auxiliary adapter without a cable"),
    "unit": Column(pl.Int32, "U", "lowest unit of its box, from 1 at the bottom"),
    "units": Column(pl.Int32, "U", "height of its box"),
}


@dataclass(frozen=True, eq=False, repr=False)
class CostPlan:
    """Racks, cabling and counts of a fabric.

    Parameters
    ----------
    fabric
        The fabric with the planned cable lengths and the latencies that follow from them.
    layout
        The options, all of them.
    leaves, order
        What became of the options that leave a choice: where the switches with hosts are, and
        the order of the switches along the racks.
    cables
        The cabling list: columns of `weft.machine_room.cables.CABLE_COLUMNS`.
    summary, racks, places
        Columns of `SUMMARY_COLUMNS`, `RACK_COLUMNS` and `PLACE_COLUMNS`.
    currency
        Of the prices, None without any.
    unpriced
        Categories that the price file leaves out.
    """

    fabric: Fabric
    layout: Layout
    leaves: str
    order: str
    cables: pl.DataFrame
    summary: pl.DataFrame
    racks: pl.DataFrame
    places: pl.DataFrame
    currency: str | None
    unpriced: tuple[str, ...]

    @property
    def total_cost(self) -> float | None:
        """Cost of everything that has a price; None without prices."""
        return None if self.currency is None else float(self.summary["cost"].sum())

    @property
    def num_hosts(self) -> int:
        """Hosts; one with several adapters counts once."""
        return int(self.racks["hosts"].sum())

    @property
    def cost_per_host(self) -> float | None:
        """Total cost over hosts; None without prices or hosts."""
        total = self.total_cost
        return total / self.num_hosts if total is not None and self.num_hosts else None

    @property
    def power_w(self) -> float | None:
        """Power of everything whose power the price file gives; None when it gives none."""
        known = self.summary["power_w"].drop_nulls()
        return float(known.sum()) if len(known) else None

    @property
    def cable_m(self) -> float:
        """Length of all cables to be bought together."""
        return float(self.cables.filter(pl.col("kind") != INTERNAL)["length_m"].sum())

    def write_cables(self, path: str | Path) -> None:
        """Write the cabling list as CSV, one line per cable.

        Raises
        ------
        InputError
            When the file cannot be written; what was there before is then unchanged.
        """
        write_text(path, self.cables.write_csv())

    def text(self) -> str:
        """The plan as `weft cost` prints it: floor, things to buy, and totals."""
        lines = [*_floor(self), "", *_things(self), "", *_totals(self)]
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def __repr__(self) -> str:
        cost = "" if self.total_cost is None else f", {self.total_cost:,.0f} {self.currency}"
        return (
            f"CostPlan({self.fabric.name!r}: {len(self.racks)} racks, {len(self.cables)} cables, "
            f"{self.cable_m:,.0f} m{cost})"
        )


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
