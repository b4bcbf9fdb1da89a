"""dnup: up*/down* by the distance from the leaves, as OpenSM's Down/Up engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.opensm_ranks import EARLY, LATE, LEVEL
from weft.routes import Routes, TableRoutes
from weft.routing.engine_registry import (
    PASSES,
    Balance,
    check_lmc,
    empty_table,
    engine,
    fill,
    provenance,
    row_adapters,
)
from weft.routing.engines.ranked import fill_ranked, missing_ways, refuse_long


@engine(
    "dnup",
    deadlock_free=True,
    deadlock_with={"balance": "opensm"},
    lmc=True,
    as_opensm="dnup:balance=opensm",
)
def dnup(
    fabric: Fabric, *, balance: Balance = "flows", lmc: int = 0, passes: int = PASSES
) -> Routes:
    """Down/Up: every path leads away from the leaf switches first and then back to one.

    Parameters
    ----------
    fabric
        Any fabric in which that reaches every host, such as a tree.
    balance
        ``flows``, or ``opensm`` for the real one's tables entry by entry. The real one lets cables
        between switches of one rank be crossed at any time, so that those tables can deadlock
        where there are such cables.
    lmc
        Each endpoint gets 2^lmc LIDs, with ``flows``.
    passes
        How often each destination's paths are chosen, with ``flows``.

    Raises
    ------
    NotApplicable
        When hosts would be left without a path; OpenSM leaves them so in silence.
    InputError
        When an option is out of range.

    Notes
    -----
    Switches with adapters rank 0 and every other one its distance to the nearest of them. A link
    to a higher rank goes away from the leaves, and with ``flows`` among equals the one to the
    switch with fewer adapters, such as a spine that has some, then to the higher GUID. Source:
    OpenSM's ``dnup``.
    """
    check_lmc(fabric, lmc)
    table = empty_table(fabric, lmc)
    graph = fabric.graph
    rank = leaf_ranks(fabric)
    if passes < 1:
        raise InputError(f"passes must be at least 1, not {passes}")
    step = None
    if balance == "opensm":
        if lmc:
            raise InputError("balance=opensm goes with lmc=0 only")
        away = rank[graph.edge_row] - rank[graph.edge_tail]
        step = np.where(away > 0, EARLY, np.where(away < 0, LATE, LEVEL)).astype(np.uint8)
        fill_ranked(fabric, table, step)
    else:
        place = np.empty(graph.num_rows, dtype=np.int64)
        guid = fabric.node_guid[graph.row_node]
        place[np.lexsort((~guid, row_adapters(fabric), -rank))] = np.arange(graph.num_rows)
        up = (place[graph.edge_row] < place[graph.edge_tail]).astype(np.uint8)
        fill(fabric, table, balance, edge_up=up, lmc=lmc, passes=passes)
    gaps, example = missing_ways(fabric, table, lmc)
    if gaps:
        if step is not None:
            refuse_long(fabric, step, example)
        raise NotApplicable(
            f"{gaps} ways from a switch to a host would have to lead away from the leaf switches "
            f"twice, such as {example}; this engine is for trees"
        )
    return TableRoutes(**provenance(fabric, "dnup"), table=table, lmc=lmc)


def leaf_ranks(fabric: Fabric) -> NDArray[np.int64]:
    """Hops of each row to the nearest with an adapter, or that is a host; int64 [rows]."""
    graph = fabric.graph
    host = graph.row_node >= fabric.num_switches
    leaves = np.flatnonzero((row_adapters(fabric) > 0) | host).astype(np.int32)
    if not len(leaves):
        raise NotApplicable(f"{fabric.name} has no switch with an adapter, where ranks begin")
    nearest: NDArray[np.int64] = graph.hops(leaves).min(axis=0).astype(np.int64)
    return nearest
