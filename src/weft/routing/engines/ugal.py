"""ugal: straight or by way of a random intermediate, whichever is less loaded."""

from __future__ import annotations

from weft.fabrics import Fabric
from weft.routes import Routes
from weft.routing.engine_registry import engine
from weft.routing.engines.valiant import around


@engine("ugal", deadlock_free=True, lmc=False, candidates=True)
def ugal(fabric: Fabric, *, max_vls: int = 8) -> Routes:
    """Universal globally-adaptive load balancing: straight, or as `valiant`, as load asks for.

    Where queues are known each packet chooses by them at its source. The static level knows none:
    loads are those of the share of straight traffic, one for the whole pattern, that makes the
    most loaded cable carry least, which is what an ideal adaptive choice would come to. The
    bisection bandwidth lets one flow after the other take the better of its two ways.

    Parameters
    ----------
    fabric
        A dragonfly, megafly or HyperX; see `valiant`.
    max_vls
        Virtual lanes that there are; straight packets ride on those of the second phase.

    Raises
    ------
    NotApplicable
        On anything else, with what is missing, and when max_vls is too low.
    InputError
        When max_vls is not 1 to 15.

    Notes
    -----
    Source: Singh 2005; Kim, Dally, Scott and Abts 2008.
    """
    return around(fabric, "ugal", max_vls, direct=True)
