"""ugal: minimal paths or paths via a random intermediate, by load."""

from __future__ import annotations

from functools import partial

from weft.fabrics import Fabric
from weft.routing.engine_registry import engine
from weft.routing.engines.valiant import around, dragonfly_plan
from weft.routing.lane_assignment import MaxVls
from weft.routing.routes import Routes


@engine("ugal", deadlock_free=True, lmc=False, candidates=True)
def ugal(fabric: Fabric, *, max_vls: MaxVls = 8, progressive: bool = False) -> Routes:
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
    progressive
        Whether a dragonfly's packets may turn to an intermediate after a minimal hop in the group
        of their source (policy ``par`` of the flit level); this takes one lane more.

    Raises
    ------
    NotApplicable
        If `valiant` does not support the fabric, max_vls is too low, or the fabric is no dragonfly
        and `progressive` is set.
    InputError
        If max_vls is not 1 to 15.

    Notes
    -----
    Source: Singh 2005; Kim, Dally, Scott and Abts 2008; Jiang, Kim and Dally 2009 (progressive).
    """
    plan_of = partial(dragonfly_plan, turns=True) if progressive else None
    return around(fabric, "ugal", max_vls, direct=True, plan_of=plan_of)
