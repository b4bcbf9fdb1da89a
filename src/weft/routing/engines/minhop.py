"""minhop: minimal paths, spread over the least loaded links."""

from __future__ import annotations

from weft.fabrics import Fabric
from weft.routing.engine_registry import PASSES, Balance, Passes, empty_table, engine, fill
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import Routes, TableRoutes


@engine("minhop", deadlock_free=False, lmc=True, as_opensm="minhop:balance=opensm")
def minhop(
    fabric: Fabric, *, balance: Balance = "flows", lmc: int = 0, passes: Passes = PASSES
) -> Routes:
    """Route on minimal paths, and of these on the path with the least loaded links.

    The load of a link is the number of host pairs that use it, divided by its rate. Each
    destination's paths are chosen again after all others, which also balances links far from the
    source and links of different rates. OpenSM's minhop counts the destinations of each port at
    one switch; ``balance=opensm`` gives exactly its tables. On topologies with rings, the tables of
    either balance can deadlock.

    Parameters
    ----------
    fabric
        Any fabric.
    balance
        ``flows``, or ``opensm`` for exactly the tables of OpenSM.
    lmc
        LMC: each endpoint gets 2^lmc LIDs; each LID offset is balanced separately.
    passes
        Number of times that ``flows`` chooses the paths to each destination.
    """
    check_lmc(lmc)
    table = empty_table(fabric, lmc)
    fill(fabric, table, balance, lmc=lmc, passes=passes)
    return TableRoutes("minhop", fabric.digest, table=table, lmc=lmc)
