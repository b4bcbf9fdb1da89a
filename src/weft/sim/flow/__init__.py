"""Flow level: messages as fluids that share links over time."""

from typing import Literal

#: How concurrent messages share links; see `weft.sim.flow.sharing`.
Sharing = Literal["maxmin", "penalty", "none"]
#: How messages use several paths; see `weft.sim.flow.network`.
Multipath = Literal["split", "hash"]
