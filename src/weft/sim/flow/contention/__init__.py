"""The contention-graph model: penalties and times of communications that share adapters."""

from weft.sim.flow.contention.coefficients import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.model import (
    PAPER_INVERSE_BANDWIDTH,
    ContentionSteps,
    penalties,
    predict,
    predict_elapsed,
    predict_steps,
)

__all__ = [
    "INFINIBAND",
    "PAPER_INVERSE_BANDWIDTH",
    "ContentionSteps",
    "PenaltyModel",
    "penalties",
    "predict",
    "predict_elapsed",
    "predict_steps",
]
