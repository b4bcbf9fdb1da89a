"""What a fabric takes to build: racks, cables, a cabling list, and money where prices are given."""

from weft.cost.layout import Layout
from weft.cost.planning import CostPlan, plan
from weft.cost.prices import Prices

__all__ = ["CostPlan", "Layout", "Prices", "plan"]
