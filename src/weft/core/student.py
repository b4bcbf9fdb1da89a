"""Student's distribution, for intervals of means and for tests."""

from __future__ import annotations

from typing import Any

from scipy.special import stdtr, stdtrit  # scipy.stats takes long to import

#: Confidence of intervals; a difference is significant if its p-value is at most 1 - CONFIDENCE.
CONFIDENCE = 0.95


def student_t(degrees: Any, confidence: Any = CONFIDENCE, *, sides: int = 2) -> Any:
    """Return the quantile for a one-sided or two-sided interval, also of arrays."""
    quantile = stdtrit(degrees, 1 - (1 - confidence) / sides)
    return quantile if quantile.ndim else float(quantile)


def two_sided_p(t: Any, degrees: Any) -> Any:
    """Return the p-value of a test of no difference, of absolute values of t."""
    return 2 * stdtr(degrees, -t)
