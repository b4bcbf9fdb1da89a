"""minhop: shortest paths, spread over the least-loaded ports."""

from __future__ import annotations

from weft.fabric import Fabric
from weft.routes import Routes, TableRoutes
from weft.routing.base import check_lmc, empty_table, engine, fill_balanced, provenance


@engine("minhop", deadlock_free=False, lmc=True)
def minhop(fabric: Fabric, *, lmc: int = 0) -> Routes:
    """Fewest hops; among the ports that give them, the one that carries least.

    OpenSM's engine of this name counts the destinations behind each port; this one counts the
    flows of all host pairs over each link, divided by its rate, which also balances the links
    further on and cables of unequal speed. It can deadlock on topologies with rings, as OpenSM's.

    Parameters
    ----------
    fabric
        Any fabric.
    lmc
        Each endpoint gets 2^lmc LIDs, routed one after the other.
    """
    check_lmc(fabric, lmc)
    table = empty_table(fabric, lmc)
    fill_balanced(fabric, table, lmc=lmc)
    return TableRoutes(**provenance(fabric, "minhop"), table=table, lmc=lmc)
