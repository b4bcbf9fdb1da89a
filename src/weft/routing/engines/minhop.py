"""minhop: shortest paths, spread over the least-loaded links."""

from __future__ import annotations

from weft.fabrics import Fabric
from weft.routes import Routes, TableRoutes
from weft.routing.engine_registry import (
    PASSES,
    Balance,
    check_lmc,
    empty_table,
    engine,
    fill,
    provenance,
)


@engine("minhop", deadlock_free=False, lmc=True, as_opensm="minhop:balance=opensm")
def minhop(
    fabric: Fabric, *, balance: Balance = "flows", lmc: int = 0, passes: int = PASSES
) -> Routes:
    """Fewest hops; among those ways the one whose links carry least.

    Counting the flows of all host pairs over each link, divided by its rate, and choosing every
    destination's paths again once all are there, balances the links further on, and cables of
    unequal speed, too. OpenSM's engine of this name counts the destinations behind each port of
    one switch; ``balance=opensm`` gives its tables entry by entry. It can deadlock on
    topologies with rings either way.

    Parameters
    ----------
    fabric
        Any fabric.
    balance
        ``flows``, or ``opensm`` for what the real one counts.
    lmc
        Each endpoint gets 2^lmc LIDs, each offset balanced on its own.
    passes
        How often each destination's paths are chosen, with ``flows``.
    """
    check_lmc(fabric, lmc)
    table = empty_table(fabric, lmc)
    fill(fabric, table, balance, lmc=lmc, passes=passes)
    return TableRoutes(**provenance(fabric, "minhop"), table=table, lmc=lmc)
