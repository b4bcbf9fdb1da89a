"""Counter-based random numbers: each depends only on a seed, a stream and a count."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import splitmix64


@njit(cache=True)
def uniforms(seed, streams, counts, out):
    """Write number `counts[i]` of stream `streams[i]`, uniform on [0, 1), into `out`.

    `seed`, uint64. `streams`, `counts`, int64 [draws]: stream of each number, and index of the
    number in the stream. `out`, float64 [draws], written.
    """
    base = splitmix64(seed)
    for i in range(len(streams)):
        state = splitmix64(base ^ np.uint64(streams[i]))
        out[i] = (splitmix64(state ^ np.uint64(counts[i])) >> np.uint64(11)) * 2.0**-53
