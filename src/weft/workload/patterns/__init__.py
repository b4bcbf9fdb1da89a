"""Traffic patterns: the source and destination of each flow, one file per family.

A file with one function adds a pattern::

    @pattern("to-first", source="where it is defined")
    def to_first(num_hosts: int) -> Pairs:
        sources = np.arange(1, num_hosts)
        return Pairs(sources, np.zeros_like(sources))
"""

from weft.workload.patterns.pattern_registry import Pairs, pattern, traffic

__all__ = ["Pairs", "pattern", "traffic"]
