"""Cost plans of fabrics: racks, cables, a cabling list, and costs if prices are given."""

from weft.advice.machine_room.cost_plan import CostPlan
from weft.advice.machine_room.planning import cost
from weft.advice.machine_room.prices import Prices
from weft.advice.machine_room.room_options import RoomLayout

__all__ = ["CostPlan", "Prices", "RoomLayout", "cost"]
