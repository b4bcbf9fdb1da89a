"""dfsssp: the paths of sssp, with virtual lanes that make them deadlock-free."""

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
    """Route on minimal paths balanced by weights, in few virtual lanes that prevent deadlock.

    Parameters
    ----------
    fabric
        Any fabric.
    balance, lmc, passes
        As for `sssp`.
    max_vls
        Number of available virtual lanes, 1 to 15.
    management
        Also assign lanes to paths from and to switches. OpenSM includes paths to switches, but
        not paths from them.

    Raises
    ------
    NotApplicable
        If the fabric has no row, or the search finds no assignment to `max_vls` lanes.
    InputError
        If an option is out of range.

    Notes
    -----
    The service level depends on the source's switch and the destination's LID. On all links, SL i
    is mapped to VL i. Source: Domke, Hoefler and Nagel 2011.
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
