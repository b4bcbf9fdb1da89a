"""dnup: up*/down* by the distance from the leaves, as OpenSM's Down/Up engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.opensm_ranks import EARLY, LATE, LEVEL
from weft.routing.engine_registry import (
    PASSES,
    Balance,
    Passes,
    empty_table,
    engine,
    fill_balanced,
    row_adapters,
)
from weft.routing.engines.ranked import fill_ranked, lost_pairs, missing_paths
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import Routes, TableRoutes


@engine(
    "dnup",
    deadlock_free=True,
    deadlock_with={"balance": "opensm"},
    lmc=True,
    as_opensm="dnup:balance=opensm",
)
def dnup(
    fabric: Fabric, *, balance: Balance = "flows", lmc: int = 0, passes: Passes = PASSES
) -> Routes:
    """Route by Down/Up: every path goes away from the leaf switches first and then towards them.

    Parameters
    ----------
    fabric
        Any fabric in which paths of this form connect all hosts, for example a tree.
    balance
        ``flows``, or ``opensm`` for exactly the tables of OpenSM, in which pairs may have no path.
        OpenSM's paths may use links between switches of equal rank (see Notes) at any position, so
        such links can cause deadlock.
    lmc
        LMC: each endpoint gets 2^lmc LIDs; each LID offset is balanced separately.
    passes
        Number of times that ``flows`` chooses the paths to each destination.

    Raises
    ------
    NotApplicable
        If no switch has an adapter; with ``balance=flows``, if no path of this form connects a pair
        of hosts.
    InputError
        If an option is out of range.

    Notes
    -----
    OpenSM's rank of a switch is its distance to the nearest switch with adapters. A link to a
    higher rank goes away from the leaves. Of two switches of equal rank, ``flows`` regards the one
    with fewer adapters as farther from the leaves; if the numbers of adapters are equal, the one
    with the higher GUID. Source: OpenSM's ``dnup``.
    """
    check_lmc(lmc)
    table = empty_table(fabric, lmc)
    graph = fabric.graph
    rank = leaf_ranks(fabric)
    if balance == "opensm":
        return dnup_as_opensm(fabric, table, lmc)
    order = np.empty(graph.num_rows, dtype=np.int64)
    guid = fabric.node_guid[graph.row_node]
    order[np.lexsort((~guid, row_adapters(fabric), -rank))] = np.arange(graph.num_rows)
    up = (order[graph.edge_row] < order[graph.edge_tail]).astype(np.uint8)
    fill_balanced(fabric, table, edge_up=up, lmc=lmc, passes=passes)
    gaps, example = missing_paths(fabric, table, lmc)
    if gaps:
        raise NotApplicable(
            f"{gaps} pairs of a switch and a host have no path that goes away from the leaf "
            f"switches only once, for example {example}; this engine is for trees"
        )
    return TableRoutes("dnup", fabric.digest, table=table, lmc=lmc)


def dnup_as_opensm(
    fabric: Fabric, table: NDArray[np.unsignedinteger[Any]], lmc: int = 0
) -> TableRoutes:
    """Return OpenSM's tables.

    `table`: the present tables, of which entries on shortest legal paths stay; changed in place.
    """
    step = dnup_steps(fabric)
    fill_ranked(fabric, table, step, lmc)
    notes = lost_pairs(fabric, table, step, lmc)
    return TableRoutes("dnup", fabric.digest, notes=notes, table=table, lmc=lmc)


def dnup_steps(fabric: Fabric) -> NDArray[np.uint8]:
    """Return the kind of each edge in OpenSM's search from the destination, uint8 [edges]."""
    rank, graph = leaf_ranks(fabric), fabric.graph
    away = rank[graph.edge_row] - rank[graph.edge_tail]
    return np.where(away > 0, EARLY, np.where(away < 0, LATE, LEVEL)).astype(np.uint8)


def leaf_ranks(fabric: Fabric) -> NDArray[np.int64]:
    """Return the hops of each row to the nearest row that has an adapter or is a host.

    The result is int64 [rows].
    """
    graph = fabric.graph
    host = graph.row_node >= fabric.num_switches
    leaves = np.flatnonzero((row_adapters(fabric) > 0) | host).astype(np.int32)
    if not len(leaves):
        raise NotApplicable(f"{fabric.name} has no switch with an adapter, so no rank 0")
    nearest: NDArray[np.int64] = graph.hops(leaves).min(axis=0).astype(np.int64)
    return nearest
