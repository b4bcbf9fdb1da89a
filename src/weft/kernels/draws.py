"""Random numbers by counter: each depends only on a seed, a stream and its count in the stream."""

import numpy as np

from weft.kernels.cache import njit
from weft.kernels.hashing import splitmix64


@njit(cache=True)
def uniforms(seed, streams, counts, out):
    """Write number `counts[i]` of stream `streams[i]`, uniform on [0, 1), into `out`.

    Parameters
    ----------
    seed
        uint64.
    streams, counts
        int64 [draws].
    out
        float64 [draws], written.
    """
    base = splitmix64(seed)
    for i in range(len(streams)):
        state = splitmix64(base ^ np.uint64(streams[i]))
        out[i] = (splitmix64(state ^ np.uint64(counts[i])) >> np.uint64(11)) * 2.0**-53
