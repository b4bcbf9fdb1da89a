"""How long a processor waits for memory when each load needs the one before."""

from __future__ import annotations

from weft.kernels.cache import njit


@njit(cache=True)
def chase(following, steps):
    """Follow a chain of indices for some steps; return its end."""
    at = 0
    for _ in range(steps):
        at = following[at]
    return at
