"""minhop: shortest paths, spread over the least-loaded links."""

from __future__ import annotations

from weft.fabric import Fabric
from weft.routes import Routes, TableRoutes
from weft.routing.base import (
    PASSES,
    check_lmc,
    check_passes,
    empty_table,
    engine,
    fill_balanced,
    provenance,
)


@engine("minhop", deadlock_free=False, lmc=True)
def minhop(fabric: Fabric, *, lmc: int = 0, passes: int = PASSES) -> Routes:
    """Fewest hops; among those ways the one whose links carry least.

    OpenSM's engine of this name counts the destinations behind each port; this one counts the
    flows of all host pairs over each link, divided by its rate, and chooses every destination's
    paths again once all are there. That balances the links further on, and cables of unequal
    speed, too. It can deadlock on topologies with rings, as OpenSM's.

    Parameters
    ----------
    fabric
        Any fabric.
    lmc
        Each endpoint gets 2^lmc LIDs, each offset balanced on its own.
    passes
        How often each destination's paths are chosen.
    """
    check_lmc(fabric, lmc)
    check_passes(passes)
    table = empty_table(fabric, lmc)
    fill_balanced(fabric, table, lmc=lmc, passes=passes)
    return TableRoutes(**provenance(fabric, "minhop"), table=table, lmc=lmc)
