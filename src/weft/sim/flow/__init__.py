"""Flow level: messages as fluids that share links over time."""

from weft.sim.flow.engine import IncompleteRun, Progress, run_flows
from weft.sim.flow.result import FlowResult

__all__ = ["FlowResult", "IncompleteRun", "Progress", "run_flows"]
