"""The contention-graph model: penalties of communications that share adapters, and their times."""

from weft.contention.coefficients import INFINIBAND, PenaltyModel
from weft.contention.model import (
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
