"""dfsssp: the paths of sssp, in virtual lanes that cannot deadlock."""

from __future__ import annotations

from weft.fabrics import Fabric
from weft.routes import TableRoutes, VirtualLanes
from weft.routing.engine_registry import PASSES, Balance, engine, provenance
from weft.routing.engines.sssp import sssp_table
from weft.routing.lane_assignment import assign_lanes, check_vls


@engine("dfsssp", deadlock_free=True, lmc=True, as_opensm="dfsssp:balance=opensm")
def dfsssp(
    fabric: Fabric,
    *,
    balance: Balance = "flows",
    lmc: int = 0,
    passes: int = PASSES,
    max_vls: int = 8,
    management: bool = False,
) -> TableRoutes:
    """Shortest paths balanced by weights, in as few virtual lanes as keep them from deadlock.

    Parameters
    ----------
    fabric
        Any fabric.
    balance, lmc, passes
        As for `sssp`.
    max_vls
        Virtual lanes that there are, 1 to 15.
    management
        Give lanes to the ways from and to switches, too. OpenSM's counts those to switches,
        not those from them.

    Raises
    ------
    NotApplicable
        When the fabric has nothing that forwards, or more than `max_vls` lanes would be needed.
    InputError
        When an option is out of range.

    Notes
    -----
    The service level depends on the switch at the source and the LID; SL i is VL i everywhere.
    Source: Domke, Hoefler and Nagel 2011.
    """
    check_vls(max_vls)
    table = sssp_table(fabric, balance, lmc, passes)
    sl, lanes = assign_lanes(fabric, table, lmc=lmc, max_vls=max_vls, management=management)
    return TableRoutes(
        **provenance(fabric, "dfsssp"),
        table=table,
        lmc=lmc,
        sl=sl,
        lanes=VirtualLanes.uniform(range(lanes)),
    )
