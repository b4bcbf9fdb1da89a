"""Times of many contention graphs at once, as fits ask for them over and over."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.flow.contention_steps import solve_steps


@njit(cache=True)
def synchronous_times(offset, source, destination, nodes, coefficients, completion):
    """Write when edges complete in graphs whose edges start together with equal sizes.

    Times are in units of one communication alone. Edges of graph g are `offset[g]` to
    `offset[g + 1]`; it has `nodes[g]` nodes, numbered from 0.
    """
    no_end, no_table = np.zeros(0), np.zeros((0, 0))
    elapsed = np.zeros(len(source))
    for g in range(len(nodes)):
        first, last = offset[g], offset[g + 1]
        solve_steps(
            source[first:last], destination[first:last], nodes[g],
            np.ones(last - first), np.zeros(last - first), np.arange(last - first), 1.0,
            coefficients, completion[first:last], elapsed[first:last], no_end, no_table, no_table,
        )  # fmt: skip
