"""The contention-graph model: penalties and times of communications that share adapters."""

from weft.sim.flow.contention.coefficients import INFINIBAND, PenaltyModel

__all__ = ["INFINIBAND", "PenaltyModel"]
