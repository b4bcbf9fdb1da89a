"""Studies of `weft cost`: switches, cables and price of fabrics in a machine room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from weft.advice.machine_room import Prices, RoomLayout, cost
from weft.advice.machine_room.cables import INTERNAL
from weft.advice.machine_room.cost_plan import SUMMARY_COLUMNS, CostPlan
from weft.core.columns import Column
from weft.core.errors import InputError
from weft.core.settings import settings
from weft.study.checks import FABRIC_FILES, Files, WrongKey, check_fabric, check_file, check_with
from weft.study.command_registry import Point, Watch, keys_and_tables, study_command
from weft.study.experiment.run import LAST
from weft.study.experiment.spec import FabricKeys, table_model
from weft.study.measures import measures, values
from weft.study.runs.task import RunResult

_COLUMNS: Mapping[str, Column] = {
    "cost": Column(pl.Float64, "currency", "Cost of all items with a price"),
    "cost_per_host": Column(pl.Float64, "currency", "Cost divided by the number of hosts"),
    "switches": Column(pl.Int64, "", "Number of switches"),
    "hosts": Column(pl.Int64, "", "Number of hosts"),
    "cables": Column(pl.Int64, "", "Number of cables to buy"),
    "cable_m": Column(pl.Float64, "m", "Total length of the cables as bought"),
    "mean_cable_m": Column(pl.Float64, "m", "Mean length of a cable as bought"),
    "longest_cable_m": Column(pl.Float64, "m", "Length of the longest cable as bought"),
    "racks": Column(pl.Int64, "", "Number of racks"),
    "power_w": Column(pl.Float64, "W", "Power of all items whose power the price file gives"),
}
MEASURES = measures(_COLUMNS, lower=[name for name in _COLUMNS if name != "hosts"])

_Layout: Any = table_model("LayoutKeys", settings(RoomLayout), base=FabricKeys)


class CostKeys(_Layout):  # type: ignore[misc]
    """A fabric in a machine room.

    Parameters
    ----------
    prices
        A price file; without it, there are no costs.
    """

    prices: str | None = None

    def layout(self) -> RoomLayout:
        """Return the options of the machine room."""
        return RoomLayout(**{item.field: getattr(self, item.key) for item in settings(RoomLayout)})


def points(keys: CostKeys, files: Files) -> list[Point]:
    """Return the only run."""
    check_fabric(keys, files)
    try:
        keys.layout()
    except InputError as error:
        raise WrongKey.of(error, keys) from None
    if keys.prices is not None:
        check_file(files, keys.prices, "prices")
        check_with(("prices",), Prices.read, files.find(keys.prices))
    return [Point({}, keys.model_dump(mode="json", exclude_none=True))]


def _row(plan: CostPlan) -> dict[str, Any]:
    """Return the measures of a plan."""
    lengths = plan.cables.filter(pl.col("kind") != INTERNAL)["length_m"]
    return {
        "cost": plan.total_cost,
        "cost_per_host": plan.cost_per_host,
        "switches": plan.fabric.num_switches,
        "hosts": plan.num_hosts,
        "cables": len(lengths),
        "cable_m": plan.cable_m,
        "mean_cable_m": lengths.mean(),
        "longest_cable_m": lengths.max(),
        "racks": len(plan.racks),
        "power_w": plan.power_w,
    }


@study_command(
    "cost",
    keys=CostKeys,
    points=points,
    measures=MEASURES,
    tables={"items": SUMMARY_COLUMNS},
    files=(*FABRIC_FILES, "prices"),
    example={"fabric": "xgft:2;4,4;1,2"},
)
def cost_of_fabric(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Place a fabric in racks and compute cables and costs, as `weft cost` does."""
    keys, wanted = keys_and_tables(CostKeys, parameters)
    plan = cost(LAST.fabric(keys), prices=keys.prices, layout=keys.layout())
    tables = {"items": plan.summary} if "items" in wanted else {}
    return RunResult(values(MEASURES, _row(plan)), tables)
