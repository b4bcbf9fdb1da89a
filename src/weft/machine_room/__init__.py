"""What a fabric takes to build: racks, cables, a cabling list, and money where prices are given."""

from weft.machine_room.cost_plan import CostPlan
from weft.machine_room.planning import cost
from weft.machine_room.prices import Prices
from weft.machine_room.room_options import Layout

__all__ = ["CostPlan", "Layout", "Prices", "cost"]
