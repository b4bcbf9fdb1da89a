"""What runs over a fabric: who sends how much to whom."""

from weft.workload.patterns import Pairs, pattern, traffic

__all__ = ["Pairs", "pattern", "traffic"]
