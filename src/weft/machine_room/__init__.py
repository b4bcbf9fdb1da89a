"""What a fabric takes to build: racks, cables, a cabling list, and money where prices are given."""

from weft.machine_room.planning import CostPlan, plan
from weft.machine_room.prices import Prices
from weft.machine_room.room_options import Layout

__all__ = ["CostPlan", "Layout", "Prices", "plan"]
