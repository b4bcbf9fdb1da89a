"""Flow level: messages as fluids that share links over time."""

from weft.sim.flow.engine import IncompleteRun, run_flows
from weft.sim.flow.result import FlowResult

__all__ = ["FlowResult", "IncompleteRun", "run_flows"]
