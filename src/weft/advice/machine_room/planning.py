"""The cost plan of a fabric: racks, cables, counts, and costs if the user gives prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from weft.advice.machine_room.cables import (
    INTERNAL,
    bought_m,
    cable_kinds,
    cabling_list,
    rack_names,
)
from weft.advice.machine_room.cost_plan import (
    POSITION_COLUMNS,
    RACK_COLUMNS,
    SUMMARY_COLUMNS,
    CostPlan,
)
from weft.advice.machine_room.equipment import Equipment, equipment, orders
from weft.advice.machine_room.prices import Prices
from weft.advice.machine_room.racks import Packer, Placement
from weft.advice.machine_room.room_options import RoomLayout
from weft.core.columns import frame
from weft.core.errors import InputError
from weft.core.settings import document, known_fields, settings
from weft.fabrics import Fabric, NodeKind


def cost(
    fabric: Fabric,
    *,
    prices: Prices | str | Path | None = None,
    layout: RoomLayout | None = None,
    **options: Any,
) -> CostPlan:
    """Place a fabric in racks and compute its cables, their lengths and the costs.

    Known cable lengths are kept; the others are computed from the positions in the racks.

    Parameters
    ----------
    fabric
        Any fabric, generated or read from a file, with or without tree levels.
    prices
        A price file, or the prices read from one; without it the plan has no costs.
    layout
        The machine room, or its options one by one:

    Returns
    -------
    CostPlan
        The plan, which depends only on the fabric and the options.

    Raises
    ------
    InputError
        If an option or the price file is invalid, equipment does not fit, or a cable is longer
        than the longest one sold.
    """
    if layout is not None and options:
        raise InputError(f"expected a layout or its options, not both: {', '.join(options)}")
    known_fields(options, settings(RoomLayout), "a cost plan", lambda name: "")
    layout = RoomLayout(**options) if layout is None else layout
    price_list = Prices.read(prices) if isinstance(prices, str | Path) else prices
    fabric = fabric.subnet if fabric.machine_model else fabric
    gear = equipment(fabric, layout, price_list)
    packer = Packer(gear, layout)
    order, placement = _shortest(gear, layout, packer)

    route_m = placement.route_m(gear, layout)
    length_m = bought_m(gear, layout, route_m)
    kinds = cable_kinds(gear, layout, length_m)
    cables = cabling_list(gear, placement, route_m, length_m, kinds)
    rows = [
        *_equipment_rows(gear, price_list),
        *_cable_rows(cables),
        _row("rack", "rack", placement.num_racks),
    ]
    unpriced = _put_prices(rows, price_list) if price_list else ()
    return CostPlan(
        fabric=fabric.with_lengths(length_m),
        layout=layout,
        leaves=packer.leaves,
        order=order,
        cables=cables,
        summary=frame(SUMMARY_COLUMNS, {name: [r[name] for r in rows] for name in SUMMARY_COLUMNS}),
        racks=_racks(gear, layout, placement),
        positions=_positions(fabric, placement),
        currency=price_list.currency if price_list else None,
        unpriced=unpriced,
    )


document(cost, RoomLayout)


def _shortest(gear: Equipment, layout: RoomLayout, packer: Packer) -> tuple[str, Placement]:
    """Return the order with the least cable length to buy, and its placement."""
    best: tuple[tuple[float, float], str, Placement] | None = None
    refusal: InputError | None = None
    for name, groups in orders(gear, layout.order):
        placement = packer.place(groups)
        route_m = placement.route_m(gear, layout)
        try:
            length_m = bought_m(gear, layout, route_m)
        except InputError as error:
            refusal = refusal or error
            continue
        total = (round(float(length_m.sum()), 6), round(float(route_m.sum()), 6))
        if best is None or total < best[0]:
            best = (total, name, placement)
    if best is None:
        raise refusal or AssertionError("there is no order of the groups")
    return best[1], best[2]


def _row(category: str, item: str, count: int, **columns: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(SUMMARY_COLUMNS),
        "category": category,
        "item": item,
        "count": count,
        **columns,
    }


def _equipment_rows(gear: Equipment, prices: Prices | None) -> Iterator[dict[str, Any]]:
    """Yield the summary's switches, then adapters, both by number of ports, largest first."""
    fabric = gear.fabric
    outside = np.repeat(~gear.inside, 2)
    plugged = np.bincount(fabric.link_from[outside], minlength=fabric.num_nodes)
    box_used = np.array([plugged[list(nodes)].sum() for nodes in gear.box_nodes], dtype=np.int64)
    members = np.array([len(nodes) for nodes in gear.box_nodes], dtype=np.int64)
    shapes = np.stack((gear.box_bought, gear.box_ports, members), axis=1)
    for ports, needed, inside in sorted(set(map(tuple, shapes.tolist())), reverse=True):
        here = np.all(shapes == (ports, needed, inside), axis=1)
        name = "switch" + (f", {inside} in one chassis" if inside > 1 else "")
        yield _product("switch", name, int(here.sum()), ports, needed, int(box_used[here].sum()))
    ports_of = fabric.num_ports[fabric.host_nodes]
    for needed in sorted(set(ports_of.tolist()), reverse=True):
        hosts = fabric.host_nodes[ports_of == needed]
        product = prices.of_adapter(needed) if prices else None
        ports = product.ports if product else needed
        used = int(plugged[hosts].sum())
        yield _product("adapter", "host adapter", len(hosts), ports, needed, used)


def _product(
    category: str, name: str, count: int, ports: int, needed: int, used: int
) -> dict[str, Any]:
    """Return a product of the summary; its name states the ports needed if these are fewer."""
    more = "" if ports == needed else f" for {needed} port{'s' if needed > 1 else ''}"
    return _row(
        category, f"{ports}-port {name}{more}", count,
        ports=ports, ports_needed=needed, ports_used=used, ports_free=ports * count - used,
    )  # fmt: skip


def _cable_rows(cables: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the summary's cables by kind, rate and length, then its internal connections."""
    counted = (
        cables.group_by("kind", "rate_gbps", "rate", "length_m")
        .len()
        .sort("kind", "rate_gbps", "rate", "length_m")
    )
    inside = 0
    for kind, gbps, rate, length, count in counted.rows():
        if kind == INTERNAL:
            inside += count
            continue
        yield _row(
            "cable", f"{length:g} m {kind} {rate}", count,
            kind=kind, rate=rate, length_m=length, _gbps=gbps,
        )  # fmt: skip
    if inside:
        yield _row("internal", "connection inside a chassis or switch", inside)


def _put_prices(rows: list[dict[str, Any]], prices: Prices) -> tuple[str, ...]:
    """Fill in price, cost and power of each item; return the categories without prices."""
    missing: dict[str, list[str]] = {}
    unpriced: list[str] = []
    for row in rows:
        category = row["category"]
        if category == "internal":
            continue
        if getattr(prices, category) is None:
            if category not in unpriced:
                unpriced.append(category)
            continue
        if category == "cable":
            entry: Any = prices.of_cable(row["kind"], row["_gbps"], row["length_m"])
        elif category == "rack":
            entry = prices.rack
        else:
            entry = getattr(prices, f"of_{category}")(row["ports"])
        if entry is None:
            missing.setdefault(category, []).append(row["item"])
            continue
        per_m = entry.price_per_m * row["length_m"] if category == "cable" else 0.0
        row["price"] = entry.price + per_m
        row["cost"] = row["price"] * row["count"]
        row["power_w"] = None if entry.power_w is None else entry.power_w * row["count"]
    for category, items in missing.items():
        more = f" and {len(items) - 3} more" if len(items) > 3 else ""
        raise InputError(
            f"no [[{category}]] entry matches {'; '.join(items[:3])}{more}", file=prices.file
        )
    return tuple(unpriced)


def _racks(gear: Equipment, layout: RoomLayout, placement: Placement) -> pl.DataFrame:
    fabric = gear.fabric
    racks = placement.num_racks
    first = [nodes[0] for nodes in gear.box_nodes]
    switches = np.bincount(placement.node_rack[first], minlength=racks)
    hosts = np.bincount(placement.node_rack[gear.machines], minlength=racks)
    ends = placement.node_rack[fabric.link_from.reshape(-1, 2)[~gear.inside]]
    same = ends[:, 0] == ends[:, 1]
    role = np.where(hosts == 0, "switches", np.where(switches == 0, "hosts", "mixed"))
    data: Mapping[str, Any] = {
        "rack": rack_names(placement),
        "row": placement.rack_row + 1,
        "place": placement.rack_column + 1,
        "x_m": np.round(placement.rack_column * layout.rack_pitch_m, 6),
        "y_m": np.round(placement.rack_row * layout.row_spacing_m, 6),
        "role": pl.Series(role.tolist(), dtype=pl.String),
        "switches": switches.astype(np.int32),
        "hosts": hosts.astype(np.int32),
        "units_used": placement.rack_used,
        "units_free": layout.rack_units - placement.rack_used,
        "cables_within": np.bincount(ends[same, 0], minlength=racks).astype(np.int32),
        "cables_out": np.bincount(ends[~same].reshape(-1), minlength=racks).astype(np.int32),
    }
    return frame(RACK_COLUMNS, data)


def _positions(fabric: Fabric, placement: Placement) -> pl.DataFrame:
    names = pl.Series([*rack_names(placement), None], dtype=pl.String)
    return frame(
        POSITION_COLUMNS,
        {
            "node": pl.Series(fabric.node_names, dtype=pl.String),
            "kind": [NodeKind(kind).name.lower() for kind in fabric.node_kind.tolist()],
            "rack": names.gather(placement.node_rack.astype(np.int64) % (placement.num_racks + 1)),
            "unit": placement.node_unit,
            "units": placement.node_height,
        },
    )
