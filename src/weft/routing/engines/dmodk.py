"""dmodk: D-mod-K, in which the destination's number determines the upward path."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.kernels.routing.tables import dmodk_tables
from weft.routing.engine_registry import empty_table, engine, fill_balanced, targets_of
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import Routes, TableRoutes
from weft.routing.structure.fat_tree import FatTree, find_fat_tree


@engine("dmodk", deadlock_free=True, lmc=True)
def dmodk(fabric: Fabric, *, lmc: int = 0) -> Routes:
    """Route complete fat trees by D-mod-K: without contention for shifts and all-to-all phases.

    For packets to host number d, a switch of level l uses its up-port number
    floor(d / (w1 w2 … wl)) mod (w(l+1) p(l+1)). Downwards, the child is fixed. Of the parallel
    cables to the child, the switch uses the one that the formula selects for upward packets.

    Parameters
    ----------
    fabric
        A complete XGFT or PGFT, possibly slimmed, recognised without labels.
    lmc
        LMC: each endpoint gets 2^lmc LIDs; the LID of host d at offset o is routed like host d + o.

    Raises
    ------
    NotApplicable
        If the fabric is not such a tree; the message names the first difference.

    Notes
    -----
    Hosts are numbered subtree by subtree in the order of the fabric. Paths to switches, which may
    have to go down and then up, are balanced minimal paths. Source: Zahavi, Fat-Trees Routing and
    Node Ordering, 2010; Gomez et al. 2007.
    """
    check_lmc(lmc)
    table = empty_table(fabric, lmc)
    tree = find_fat_tree(fabric)
    fill_balanced(fabric, table, lmc=lmc, passes=1, destinations=_others(fabric, tree))
    hosts = np.flatnonzero(tree.rank >= 0)
    lids = ((hosts[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1)
    # Hosts have one endpoint each and are the first endpoints, so the table begins with their LIDs.
    assert lids[-1] == len(lids) - 1
    _fill(fabric, tree, table[: len(lids)], lmc)
    return TableRoutes("dmodk", fabric.digest, notes=(_describe(tree),), table=table, lmc=lmc)


def _others(fabric: Fabric, tree: FatTree) -> NDArray[np.int64]:
    """Return the destinations that are not hosts: switches and auxiliary adapters."""
    other = np.ones(fabric.num_destinations, dtype=bool)
    other[np.flatnonzero(tree.rank >= 0)] = False
    return np.flatnonzero(other)


def _describe(tree: FatTree) -> str:
    lists = [",".join(map(str, values)) for values in (tree.m, tree.w, tree.p)]
    if set(tree.p) == {1}:
        return f"found XGFT({len(tree.m)}; {lists[0]}; {lists[1]})"
    return f"found PGFT({len(tree.m)}; {'; '.join(lists)})"


def _fill(fabric: Fabric, tree: FatTree, table: NDArray[np.unsignedinteger], lmc: int) -> None:
    graph = fabric.graph
    rows = graph.num_rows
    level = tree.level.astype(np.int64)
    w = np.array([prod(tree.w[:at]) for at in range(len(tree.m) + 1)], dtype=np.int64)
    below = np.array([prod(tree.m[:at]) for at in range(len(tree.m) + 1)], dtype=np.int64)
    parallel = np.array((0, *tree.p), dtype=np.int64)
    rank = tree.rank[tree.rank >= 0]

    down: list[NDArray[np.int32]] = []
    host_port = np.zeros(len(rank), dtype=np.int32)
    links = graph.destination_link[np.flatnonzero(tree.rank >= 0)]
    host_port[rank] = fabric.link_from_port[links]
    for row in range(rows):
        if level[row] == 1:
            down.append(host_port[tree.start[row] : tree.end[row]])
        else:
            down.append(graph.edge_port[tree.down_edges[row]])
    up = [graph.edge_port[edges] for edges in tree.up_edges]
    dmodk_tables(
        rank, tree.start, tree.end, below[level - 1], w[level],
        _offsets(up), np.concatenate(up).astype(np.int32),
        _offsets(down), np.concatenate(down).astype(np.int32),
        parallel[level], targets_of(fabric, table, lmc), table,
    )  # fmt: skip


def _offsets(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.cumsum([0, *(len(part) for part in parts)]).astype(np.int32)
