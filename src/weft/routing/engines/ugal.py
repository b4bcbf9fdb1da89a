"""ugal: minimal paths or paths via a random intermediate, by load."""

from __future__ import annotations

from weft.fabrics import Fabric
from weft.routes import Routes
from weft.routing.engine_registry import engine
from weft.routing.engines.valiant import around


@engine("ugal", deadlock_free=True, lmc=False, candidates=True)
def ugal(fabric: Fabric, *, max_vls: int = 8) -> Routes:
    """Route by universal globally-adaptive load balancing: minimally, or via an intermediate.

    At the packet level, the first switch chooses for each packet, by the lengths of its queues. The
    static level has no queues: it uses one share of minimal traffic for the whole pattern, namely
    the share that gives the smallest contention, like an ideal adaptive choice. For the bisection
    bandwidth, each flow in turn uses the better of its minimal path and a path via an intermediate.

    Parameters
    ----------
    fabric
        As for `valiant`.
    max_vls
        Number of available virtual lanes, as for `valiant`; minimal traffic uses the lanes of the
        second phase.

    Raises
    ------
    NotApplicable
        If `valiant` does not support the fabric, or max_vls is too low.
    InputError
        If max_vls is not 1 to 15.

    Notes
    -----
    Source: Singh 2005; Kim, Dally, Scott and Abts 2008.
    """
    return around(fabric, "ugal", max_vls, direct=True)
