"""The cables of a plan: their lengths, kinds, order of installation and labels."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.machine_room.equipment import Equipment
from weft.advice.machine_room.racks import Placement
from weft.advice.machine_room.room_options import RoomLayout
from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.units import RATE_NAMES
from weft.fabrics import Fabric, rate_text

COPPER, OPTICAL, INTERNAL = "copper", "optical", "internal"

#: Columns of the cabling list, one row per cable in the order of installation.
CABLE_COLUMNS = {
    "number": Column(pl.Int32, "", "Number on the labels (from 1, in the order of the list)"),
    "cable": Column(pl.Int32, "", "Number of the cable in the fabric"),
    "from_rack": Column(
        pl.String, "", "Rack of the first end (row letter and position in the row)"
    ),
    "from_unit": Column(pl.Int32, "U", "Lowest unit of the box of the first end (1 at the bottom)"),
    "from_node": Column(pl.String, "", "Label of the switch or host at the first end"),
    "from_port": Column(pl.UInt16, "", "Port at the first end"),
    "to_rack": Column(pl.String, "", "Rack of the second end"),
    "to_unit": Column(pl.Int32, "U", "Lowest unit of the box of the second end"),
    "to_node": Column(pl.String, "", "Label of the switch or host at the second end"),
    "to_port": Column(pl.UInt16, "", "Port at the second end"),
    "route_m": Column(
        pl.Float64, "m", "Length from port to port with slack (null if the length was known)"
    ),
    "length_m": Column(pl.Float64, "m", "Length to buy (0 inside a chassis)"),
    "kind": Column(pl.String, "", "Kind of cable: copper, optical, or internal (not bought)"),
    "rate": Column(pl.String, "", "Name of the data rate"),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Data rate"),
    "from_label": Column(pl.String, "", "Text of the label at the first end"),
    "to_label": Column(pl.String, "", "Text of the label at the second end"),
}


def bought_m(
    gear: Equipment, layout: RoomLayout, route_m: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the length of each cable in m: known, else the shortest sufficient length sold."""
    fabric = gear.fabric
    sold = np.array(layout.cable_lengths_m)
    known = ~np.isnan(fabric.cable_length_m) & ~gear.inside
    # Subtract a tolerance, so that a rounding error does not select the next longer cable.
    index = np.searchsorted(sold, route_m - 1e-9)
    index[known | gear.inside] = 0
    far = np.flatnonzero(index == len(sold))
    if len(far):
        worst = int(far[np.argmax(route_m[far])])
        raise InputError(
            f"cable {fabric.cable_name(worst)} needs {route_m[worst]:.1f} m, but the longest cable "
            f"sold is {sold[-1]:g} m ({len(far)} cables are too long); "
            "put more hosts into a rack, or set racks_per_row or cable_lengths_m"
        )
    length = sold[index]
    length[known] = fabric.cable_length_m[known]
    length[gear.inside] = 0.0
    return length


def cable_kinds(
    gear: Equipment, layout: RoomLayout, length_m: NDArray[np.float64]
) -> NDArray[np.str_]:
    """Return each cable's kind: internal; else copper up to the limit of its rate, or optical."""
    fabric = gear.fabric
    pairs = np.stack((fabric.cable_rate_gbps, fabric.cable_rate_code), axis=1)
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
    limits = [layout.copper_limit_m(gbps / lanes(int(code))) for gbps, code in distinct.tolist()]
    reach = np.array(limits, dtype=np.float64)[inverse.reshape(-1)]
    kinds = np.where(length_m <= reach, COPPER, OPTICAL)
    return np.where(gear.inside, INTERNAL, kinds)


def lanes(code: int) -> int:
    """Return the number of physical lanes of a named rate; 4 for a rate without a name."""
    return int(RATE_NAMES[code].partition("x")[0]) if code else 4


def rate_texts(fabric: Fabric) -> pl.Series:
    """Return the name of each cable's rate."""
    pairs = zip(fabric.cable_rate_gbps.tolist(), fabric.cable_rate_code.tolist(), strict=True)
    return pl.Series([rate_text(gbps, code) for gbps, code in pairs], dtype=pl.String)


def rack_names(placement: Placement) -> list[str]:
    """Return the rack names: row letters (A to Z, AA, …) and position in the row, as ``B07``."""
    digits = max(2, len(str(int(placement.rack_column.max(initial=0)) + 1)))
    positions = zip(placement.rack_row.tolist(), placement.rack_column.tolist(), strict=True)
    return [f"{row_name(row)}{column + 1:0{digits}d}" for row, column in positions]


def row_name(row: int) -> str:
    """Return the letters of a row: A, B, …, Z, AA, AB, … for rows from 0."""
    letters = ""
    row += 1
    while row:
        row, digit = divmod(row - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def cabling_list(
    gear: Equipment,
    placement: Placement,
    route_m: NDArray[np.float64],
    length_m: NDArray[np.float64],
    kinds: NDArray[np.str_],
) -> pl.DataFrame:
    """Return the cables in the order of installation: by pair of racks, longest first.

    Pairs of racks are ordered by their longest cable, so that long bundles are laid before short
    ones. Within a pair, longer cables come first; equally long cables are ordered by the ports at
    their first ends. The first end is the end in the first rack, or if both ends are in one rack,
    the upper end. Connections inside a chassis are last.

    Returns columns of `CABLE_COLUMNS`.
    """
    fabric = gear.fabric
    node = fabric.link_from.reshape(-1, 2).astype(np.int64)
    port = fabric.link_from_port.reshape(-1, 2)
    rack, unit = (
        placement.node_rack[node].astype(np.int64),
        placement.node_unit[node].astype(np.int64),
    )
    swap = _later(rack[:, 0], rack[:, 1], unit, node)
    end_order = np.where(swap[:, None], [[1, 0]], [[0, 1]])
    node, rack, unit = (np.take_along_axis(ends, end_order, axis=1) for ends in (node, rack, unit))
    port = np.take_along_axis(port, end_order, axis=1)

    pair = (rack[:, 0] + 1) * (placement.num_racks + 1) + rack[:, 1] + 1
    _, inverse = np.unique(pair, return_inverse=True)
    longest = np.zeros(int(inverse.max(initial=-1)) + 1)
    np.maximum.at(longest, inverse, route_m)
    order = np.lexsort(
        (
            port[:, 0], node[:, 0], -unit[:, 0],
            -np.round(route_m, 6), -length_m, pair, -np.round(longest[inverse], 6), gear.inside,
        )
    )  # fmt: skip
    node, port, unit, rack = node[order], port[order], unit[order], rack[order]

    labels = pl.Series(fabric.node_names, dtype=pl.String)
    racks = pl.Series([*rack_names(placement), None], dtype=pl.String)
    known = ~np.isnan(fabric.cable_length_m) & ~gear.inside
    table = pl.DataFrame(
        {
            "number": np.arange(1, len(order) + 1, dtype=np.int32),
            "cable": order.astype(np.int32),
            "from_rack": racks.gather(rack[:, 0] % (placement.num_racks + 1)),
            "from_unit": unit[:, 0].astype(np.int32),
            "from_node": labels.gather(node[:, 0]),
            "from_port": port[:, 0],
            "to_rack": racks.gather(rack[:, 1] % (placement.num_racks + 1)),
            "to_unit": unit[:, 1].astype(np.int32),
            "to_node": labels.gather(node[:, 1]),
            "to_port": port[:, 1],
            "route_m": np.where(known, np.nan, np.round(route_m, 3))[order],
            "length_m": length_m[order],
            "kind": pl.Series(kinds[order].tolist(), dtype=pl.String),
            "rate": rate_texts(fabric).gather(order),
            "rate_gbps": fabric.cable_rate_gbps[order],
        }
    )
    return frame(CABLE_COLUMNS, table.with_columns(*_labels(table)).to_dict())


def _later(
    rack_a: NDArray[np.int64],
    rack_b: NDArray[np.int64],
    unit: NDArray[np.int64],
    node: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return whether the second end of each cable is to be listed first."""
    other = rack_a > rack_b
    level = rack_a == rack_b
    lower = unit[:, 0] < unit[:, 1]
    same = unit[:, 0] == unit[:, 1]
    swap: NDArray[np.bool_] = other | (level & (lower | (same & (node[:, 0] > node[:, 1]))))
    return swap


def _labels(table: pl.DataFrame) -> tuple[pl.Expr, pl.Expr]:
    """Return the label texts of both ends: the cable's number, the near end, then the far end."""
    width = max(4, len(str(len(table))))
    number = pl.col("number").cast(pl.String).str.zfill(width)

    def end(which: str) -> pl.Expr:
        return pl.format(
            "{} U{} {}[{}]",
            pl.col(f"{which}_rack").fill_null("?"),
            pl.col(f"{which}_unit").cast(pl.String).str.zfill(2),
            pl.col(f"{which}_node"),
            pl.col(f"{which}_port"),
        )

    return (
        pl.format("{} | {} > {}", number, end("from"), end("to")).alias("from_label"),
        pl.format("{} | {} > {}", number, end("to"), end("from")).alias("to_label"),
    )
