"""dfp: adaptive routing of a megafly (Dragonfly+), minimally or via one more group."""

from __future__ import annotations

from dataclasses import replace

from weft.fabrics import Fabric
from weft.routing.engine_registry import empty_table, engine, fill_balanced
from weft.routing.engines.valiant import around, megafly_plan
from weft.routing.lane_assignment import MaxVls, assign_lanes, in_lanes
from weft.routing.routes import Routes


@engine(
    "dfp", deadlock_free=True, lmc=False, candidates=True, policy="ugal",
    nvidia="dfp",
)  # fmt: skip
def dfp(fabric: Fabric, *, max_vls: MaxVls = 8) -> Routes:
    """Route a megafly (Dragonfly+) adaptively: minimally, or via one intermediate group.

    A minimal path goes up to a spine, over one global cable and down. Other paths go down to a leaf
    of a third group, and up again on the next lane. Balanced minimal tables are the fallback for
    packets that may not choose.

    Parameters
    ----------
    fabric
        A megafly, recognised without labels: leaves with hosts, which are cabled to all spines of
        their group, and spines with cables to other groups.
    max_vls
        Number of available virtual lanes. If cables connect all pairs of groups, two are needed,
        otherwise six.

    Raises
    ------
    NotApplicable
        If the fabric is not a megafly, or max_vls is too low.
    InputError
        If max_vls is not 1 to 15.

    Notes
    -----
    As in `ugal`, the first switch decides on the intermediate group. NVIDIA's manuals name the
    engine and its algorithm DF_PLUS, but do not say at which switch packets decide.

    Source: Shpiner et al. 2017 (Dragonfly+); Flajslik et al. 2018 (megafly).
    """
    routes = around(fabric, "dfp", max_vls, direct=True, plan_of=megafly_plan)
    table = empty_table(fabric)
    fill_balanced(fabric, table)
    sl, lanes = assign_lanes(fabric, table, max_vls=max_vls)
    return replace(routes, fallback=in_lanes("dfp", fabric, table, sl, lanes))
