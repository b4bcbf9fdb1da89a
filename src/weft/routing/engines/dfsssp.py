"""dfsssp: the paths of sssp, with virtual lanes that make them deadlock-free."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.routing.dfsssp_lanes import dfsssp_lanes
from weft.kernels.routing.distances import UNREACHED
from weft.routing.engine_registry import PASSES, Balance, Passes, engine, row_adapters
from weft.routing.engines.as_opensm import fall_back
from weft.routing.engines.sssp import opensm_order, sssp_table, too_far
from weft.routing.lane_assignment import MaxVls, assign_lanes, in_lanes
from weft.routing.opensm.lids import predict_lids
from weft.routing.routes import TableRoutes


@engine(
    "dfsssp",
    deadlock_free=True,
    deadlock_with={"balance": "opensm"},
    lmc=True,
    as_opensm="dfsssp:balance=opensm",
)
def dfsssp(
    fabric: Fabric,
    *,
    balance: Balance = "flows",
    lmc: int = 0,
    passes: Passes = PASSES,
    max_vls: MaxVls = 8,
    management: bool = False,
) -> TableRoutes:
    """Route on minimal paths balanced by weights, in few virtual lanes that prevent deadlock.

    Parameters
    ----------
    fabric
        Any fabric.
    balance, lmc, passes
        As for `sssp`. With ``opensm``, lanes are those of OpenSM, too, which include paths to
        switches. Where OpenSM needs more than `max_vls` lanes, the routes are those of ``minhop``,
        to which it falls back, and can deadlock.
    max_vls
        Number of available virtual lanes, 1 to 15.
    management
        Also assign lanes to paths from and to switches; only with ``balance=flows``.

    Raises
    ------
    NotApplicable
        If the fabric has no row, or the search finds no assignment to `max_vls` lanes.
    InputError
        If an option is out of range.

    Notes
    -----
    The service level depends on the source's switch and the destination's LID. On all links, SL i
    is mapped to VL i. OpenSM spreads the paths of a lane over lanes that are left, at random for
    each query of a path, which ``opensm`` does not. Source: Domke, Hoefler and Nagel 2011.
    """
    if balance == "opensm" and management:
        raise InputError(
            "management requires balance=flows: OpenSM gives paths from switches no lanes"
        )
    if balance == "opensm":
        return dfsssp_as_opensm(fabric, None, lmc, passes, max_vls)
    table = sssp_table(fabric, balance, lmc, passes)
    sl, lanes = assign_lanes(fabric, table, lmc=lmc, max_vls=max_vls, management=management)
    return in_lanes("dfsssp", fabric, table, sl, lanes, lmc=lmc)


def dfsssp_as_opensm(
    fabric: Fabric,
    present: NDArray[np.unsignedinteger[Any]] | None,
    lmc: int,
    passes: int,
    max_vls: int,
) -> TableRoutes:
    """Return OpenSM's tables with its lanes, or with too few lanes the tables of minhop.

    `present`: the present tables, of which only minhop keeps entries, in place; None for none.
    """
    graph, table = fabric.graph, sssp_table(fabric, "opensm", lmc, passes)
    if reason := too_far(fabric, lmc):
        return fall_back(fabric, "dfsssp", reason, lmc=lmc, table=present)
    rows, destinations = opensm_order(fabric, lmc)
    adapters = row_adapters(fabric)
    rows = rows[adapters[rows] > 0]
    # A switch has one LID with any LMC.
    offsets = np.arange(1 << lmc)
    own = destinations >= fabric.num_endpoints
    lines = ((destinations[:, None] << lmc) + offsets)[(offsets == 0) | ~own[:, None]]
    degree = np.diff(graph.edge_offset)
    hops = graph.hops(rows).astype(np.int64)
    turns = np.where(hops == UNREACHED, 0, hops).sum(axis=0)[graph.destination_row[lines >> lmc]]
    lids = np.zeros(fabric.num_nodes, dtype=np.int64)
    lids[: fabric.num_switches] = predict_lids(fabric, lmc=lmc).base[fabric.num_endpoints :]
    sl = np.zeros((graph.num_rows, len(table)), dtype=np.uint8)
    needed = dfsssp_lanes(
        graph.parts, (lids[graph.row_node[graph.edge_tail]] << 16) + graph.edge_port, rows, adapters
        << lmc, lines.astype(np.int32), int(degree[graph.edge_row].sum()) + 1, int(turns.sum()) + 1,
        max_vls, table, sl,
    )  # fmt: skip
    if needed > max_vls:
        reason = f"OpenSM needs more than {max_vls} virtual lanes"
        behind = _counted(fabric, table, lmc)
        return fall_back(fabric, "dfsssp", reason, lmc=lmc, behind=behind, table=present)
    of_switches = destinations[own] << lmc
    for offset in offsets[1:]:
        sl[:, of_switches + offset] = sl[:, of_switches]
    return in_lanes("dfsssp", fabric, table, sl, needed, lmc=lmc)


def _counted(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int
) -> NDArray[np.int64]:
    """Return the number of adapters' LIDs that rows reach via each edge, int64 [edges]."""
    graph = fabric.graph
    behind = np.zeros(len(graph.edge_row), dtype=np.int64)
    none = np.iinfo(table.dtype).max
    for line in table[: fabric.num_endpoints << lmc]:
        rows = np.flatnonzero(line != none)
        edges = graph.slot_edge[graph.row_base[rows] + line[rows]]
        behind[edges[edges >= 0]] += 1
    return behind
