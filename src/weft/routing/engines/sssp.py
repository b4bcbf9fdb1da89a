"""sssp: minimal paths with link weights that increase with every path over a link."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.kernels.routing.dijkstra import weighted_tables
from weft.kernels.routing.distances import UNREACHED
from weft.routing.engine_registry import (
    PASSES,
    Balance,
    Passes,
    destination_ports,
    empty_table,
    engine,
    fill_balanced,
    lower_worst_load,
    row_adapters,
    worst_load,
)
from weft.routing.engines.as_opensm import fall_back
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import TableRoutes

#: If fewer than this share of the edges have the largest load, OpenSM's tables are also improved.
LONELY_PEAK = 1 / 8

#: OpenSM's infinity, the largest signed number of 32 bits: it finds no path of this weight.
OPENSM_FAR = 0x7FFFFFFF


@engine("sssp", deadlock_free=False, lmc=True, as_opensm="sssp:balance=opensm")
def sssp(
    fabric: Fabric, *, balance: Balance = "flows", lmc: int = 0, passes: Passes = PASSES
) -> TableRoutes:
    """Route destinations in turn, on minimal paths with the least weight so far.

    Parameters
    ----------
    fabric
        Any fabric.
    balance
        ``flows``: the weight of a link is the number of host pairs that use it, divided by its
        rate, and each destination's paths are chosen again after all others. If only a few links
        then have the largest load, OpenSM's tables are also improved, and the better result is
        used. ``opensm``: exactly the tables of OpenSM, in which a path adds to its links the number
        of LIDs at its source switch, the switch's own LID included; paths to switches also add
        weight, and no paths are chosen again. OpenSM's weights have 32 bits: with N LIDs, it finds
        paths of fewer than 2^31 / N^2 hops between switches, for example of four hops up to 23,170
        LIDs. Other pairs have no path; if the first host lacks paths, these are the tables of
        ``minhop``, to which OpenSM falls back.
    lmc
        LMC: each endpoint gets 2^lmc LIDs, each routed separately.
    passes
        Number of times that ``flows`` chooses the paths to each destination.

    Raises
    ------
    NotApplicable
        If the fabric has no row.
    InputError
        If an option is out of range.

    Notes
    -----
    The initial weight of a link is so large that all paths are minimal, as in OpenSM's ``sssp``.
    Source: Hoefler, Schneider and Lumsdaine 2009.
    """
    table = sssp_table(fabric, balance, lmc, passes)
    if balance == "opensm" and (reason := too_far(fabric, lmc)):
        return fall_back(fabric, "sssp", reason, lmc=lmc)
    return TableRoutes("sssp", fabric.digest, table=table, lmc=lmc)


def too_far(fabric: Fabric, lmc: int) -> str:
    """Return why OpenSM's search from the subnet manager fails, empty if it does not.

    The subnet manager is at the first host with a cable.
    """
    graph = fabric.graph
    rows = graph.destination_row[fabric.host_endpoint[fabric.host_endpoint >= 0]]
    first = rows[rows >= 0][:1]
    hops = graph.hops(first)
    most = int(hops[hops != UNREACHED].max(initial=0))
    lids = int(_row_lids(fabric, lmc).sum())
    if 1 + most * lids * lids < OPENSM_FAR:
        return ""
    return f"with {lids} LIDs the weights of paths of {most} hops do not fit into 32 bits"


def opensm_order(fabric: Fabric, lmc: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the rows and all destinations, int32, in the order in which OpenSM routes them."""
    graph = fabric.graph
    guid = fabric.node_guid[graph.row_node].byteswap()
    lids = _row_lids(fabric, lmc)
    destinations = np.flatnonzero(graph.destination_row >= 0)
    row = graph.destination_row[destinations]
    switch = destinations >= fabric.num_endpoints
    ports = destination_ports(fabric)[destinations]
    order = np.lexsort((ports, guid[row], -lids[row], switch))
    return np.lexsort((guid, -lids)).astype(np.int32), destinations[order].astype(np.int32)


def _row_lids(fabric: Fabric, lmc: int) -> NDArray[np.int64]:
    """Return the number of LIDs at each row; port 0 of a switch has one LID with any LMC."""
    return (row_adapters(fabric) << lmc) + 1


def sssp_table(
    fabric: Fabric, balance: Balance, lmc: int, passes: int
) -> NDArray[np.unsignedinteger[Any]]:
    """Return the tables of `sssp`, which `dfsssp` also uses."""
    check_lmc(lmc)
    table = empty_table(fabric, lmc)
    if balance == "opensm":
        _fill_weighted(fabric, table, lmc, OPENSM_FAR)
        return table
    fill_balanced(fabric, table, lmc=lmc, passes=passes)
    if lmc or passes == 1:
        return table
    worst, share = worst_load(fabric, table)
    if share < LONELY_PEAK:
        # Only few edges have the largest load, so it is probably not due to the topology.
        other = empty_table(fabric)
        _fill_weighted(fabric, other, 0, 1 << 62)
        lower_worst_load(fabric, other)
        if worst_load(fabric, other)[0] < worst:
            return other
    return table


def _fill_weighted(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int, far: int
) -> None:
    """Fill tables in OpenSM's order of switches and ports; see `weighted_tables`.

    Each connected component is a subnet of its own.
    """
    graph, label = fabric.graph, fabric.graph.components
    by_guid = np.argsort(fabric.node_guid[graph.row_node].byteswap(), kind="stable")
    destinations = opensm_order(fabric, lmc)[1]
    row_weight = _row_lids(fabric, lmc)
    row_rank = np.empty(graph.num_rows, dtype=np.int32)
    for part in range(int(label.max()) + 1):
        rank_row = by_guid[label[by_guid] == part].astype(np.int32)
        row_rank[rank_row] = np.arange(len(rank_row))
        listed = destinations[label[graph.destination_row[destinations]] == part]
        total = int(row_weight[rank_row].sum())
        weighted_tables(
            graph.parts, row_rank, rank_row, row_weight, total * total, far, listed,
            destination_ports(fabric), (graph.destination_link >= 0).astype(np.uint8), lmc,
            int(np.iinfo(table.dtype).max), table,
        )  # fmt: skip
