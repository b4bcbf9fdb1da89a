"""`CostPlan`: the tables of a cost plan, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from weft.advice.machine_room.cables import INTERNAL
from weft.advice.machine_room.room_options import RoomLayout
from weft.core.columns import Column
from weft.core.files import write_text
from weft.fabrics import Fabric

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
    "cables": "cables (reverse Cuthill-McKee)",
}
_NAMES = {"switch": "switches", "adapter": "adapters", "cable": "cables", "rack": "racks"}

#: Columns of `CostPlan.summary`, one row per item.
SUMMARY_COLUMNS = {
    "category": Column(
        pl.String, "", "Category: switch, adapter, cable, rack, or internal (not bought)"
    ),
    "item": Column(pl.String, "", "Name of the item"),
    "count": Column(pl.Int64, "", "Number of pieces"),
    "ports": Column(
        pl.Int64, "", "Number of ports of a piece as bought (null for cables and racks)"
    ),
    "ports_needed": Column(
        pl.Int64, "", "Number of ports of a piece in the fabric (null for cables and racks)"
    ),
    "ports_used": Column(pl.Int64, "", "Number of ports with a cable, sum of all pieces"),
    "ports_free": Column(pl.Int64, "", "Number of ports without a cable, sum of all pieces"),
    "kind": Column(pl.String, "", "Kind of cable, copper or optical (cables)"),
    "rate": Column(pl.String, "", "Name of the data rate (cables)"),
    "length_m": Column(pl.Float64, "m", "Length of a piece (cables)"),
    "price": Column(pl.Float64, "currency", "Price of a piece (null without a price)"),
    "cost": Column(pl.Float64, "currency", "Cost of all pieces (null without a price)"),
    "power_w": Column(pl.Float64, "W", "Power of all pieces (null if not in the price file)"),
}

#: Columns of `CostPlan.racks`, one row per rack.
RACK_COLUMNS = {
    "rack": Column(pl.String, "", "Name of the rack (row letter and position in the row)"),
    "row": Column(pl.Int32, "", "Row of racks (from 1)"),
    "place": Column(pl.Int32, "", "Position in the row (from 1)"),
    "x_m": Column(pl.Float64, "m", "Distance along the row from its first rack"),
    "y_m": Column(pl.Float64, "m", "Distance across the rows from the first row"),
    "role": Column(pl.String, "", "Contents: switches, hosts or mixed"),
    "switches": Column(pl.Int32, "", "Number of switch boxes"),
    "hosts": Column(pl.Int32, "", "Number of hosts (a host with several adapters counts once)"),
    "units_used": Column(pl.Int32, "U", "Number of occupied units"),
    "units_free": Column(pl.Int32, "U", "Number of free units"),
    "cables_within": Column(
        pl.Int32, "", "Number of cables with both ends in the rack, without internal connections"
    ),
    "cables_out": Column(pl.Int32, "", "Number of cables that leave the rack over the tray"),
}

#: Columns of `CostPlan.positions`, one row per node.
POSITION_COLUMNS = {
    "node": Column(pl.String, "", "Label of the node"),
    "kind": Column(pl.String, "", "Kind of node: switch, host or auxiliary"),
    "rack": Column(pl.String, "", "Rack (null for an auxiliary adapter without a cable)"),
    "unit": Column(pl.Int32, "U", "Lowest unit of the node's box (1 at the bottom)"),
    "units": Column(pl.Int32, "U", "Height of the node's box"),
}


@dataclass(frozen=True, eq=False, repr=False)
class CostPlan:
    """Racks, cabling and counts of a fabric.

    Parameters
    ----------
    fabric
        The fabric with the planned cable lengths and the latencies derived from them.
    layout
        All options.
    leaves, order
        Location of the switches with hosts, and their order along the racks, as chosen for the
        options ``auto`` and ``shortest``.
    cables
        The cabling list, with the columns `weft.advice.machine_room.cables.CABLE_COLUMNS`.
    summary, racks, positions
        Tables with the columns `SUMMARY_COLUMNS`, `RACK_COLUMNS` and `POSITION_COLUMNS`.
    currency
        Currency of the prices, None without prices.
    unpriced
        Categories without prices in the price file.
    """

    fabric: Fabric
    layout: RoomLayout
    leaves: str
    order: str
    cables: pl.DataFrame
    summary: pl.DataFrame
    racks: pl.DataFrame
    positions: pl.DataFrame
    currency: str | None
    unpriced: tuple[str, ...]

    @property
    def total_cost(self) -> float | None:
        """Cost of all items with a price; None without prices."""
        return None if self.currency is None else float(self.summary["cost"].sum())

    @property
    def num_hosts(self) -> int:
        """Number of hosts; a host with several adapters counts once."""
        return int(self.racks["hosts"].sum())

    @property
    def cost_per_host(self) -> float | None:
        """Total cost divided by the number of hosts; None without prices or hosts."""
        total = self.total_cost
        return total / self.num_hosts if total is not None and self.num_hosts else None

    @property
    def power_w(self) -> float | None:
        """Total power of the items whose power is in the price file; None if there are none."""
        known = self.summary["power_w"].drop_nulls()
        return float(known.sum()) if len(known) else None

    @property
    def cable_m(self) -> float:
        """Total length of the cables to buy."""
        return float(self.cables.filter(pl.col("kind") != INTERNAL)["length_m"].sum())

    def write_cables(self, path: str | Path) -> None:
        """Write the cabling list as CSV, one line per cable.

        Raises
        ------
        InputError
            If the file cannot be written; an existing file is then unchanged.
        """
        write_text(path, self.cables.write_csv())

    def text(self) -> str:
        """Return the plan as text for `weft cost`: floor, items and totals."""
        lines = [*_floor(self), "", *_items(self), "", *_totals(self)]
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
        text = f"{only} with switches only"
        lines.append(text if plan.leaves == "separate" else f"{text}, {_CORE[layout.core]}")
    lines.append(f"ordered along the racks by {_ORDER[plan.order]}")
    return lines


def _items(plan: CostPlan) -> list[str]:
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
            lines.append(f"lengths  {known:,} known in advance and kept")
    if plan.total_cost is not None:
        per_host = plan.cost_per_host
        share = "" if per_host is None else f", {per_host:,.2f} per host"
        lines.append(f"cost     {plan.total_cost:,.2f} {plan.currency}{share}")
        if plan.unpriced:
            lines.append(
                f"without  {', '.join(_NAMES[name] for name in plan.unpriced)} (no prices)"
            )
    if plan.power_w is not None:
        unknown = plan.summary.filter(
            pl.col("power_w").is_null() & ~pl.col("category").is_in(["rack", "internal"])
        )
        rest = f", without {', '.join(unknown['item'])}" if len(unknown) else ""
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
