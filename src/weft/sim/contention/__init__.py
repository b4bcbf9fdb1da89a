"""The contention-graph model: penalties of communications that share adapters, and their times."""

from weft.sim.contention.coefficients import INFINIBAND, PenaltyModel

__all__ = ["INFINIBAND", "PenaltyModel"]
