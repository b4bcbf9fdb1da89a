"""updn: Up*/Down* routing, free of deadlock on any topology."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError, NotApplicable
from weft.fabrics import Fabric, NodeKind
from weft.kernels.distances import UNREACHED, bfs_many
from weft.kernels.opensm_ranks import EARLY, LATE
from weft.opensm.guids import read_guids
from weft.routes import Routes, TableRoutes
from weft.routing.base import (
    PASSES,
    Balance,
    check_lmc,
    components,
    empty_table,
    engine,
    fill,
    provenance,
    row_adapters,
)
from weft.routing.ranked import fill_ranked, missing_ways, refuse_long

#: A root sees this share of the adapters at one distance, and no other distance above the second.
ROOT_SHARE = 0.9
OTHER_SHARE = 0.05


@engine(
    "updn",
    deadlock_free=True,
    deadlock_with={"balance": "opensm"},
    lmc=True,
    as_opensm="updn:balance=opensm",
)
def updn(
    fabric: Fabric,
    *,
    roots: tuple[str, ...] = ("auto",),
    root_guid_file: Path | None = None,
    balance: Balance = "flows",
    lmc: int = 0,
    passes: int = PASSES,
) -> Routes:
    """Up*/Down*: every path climbs towards the roots first and never climbs again.

    Parameters
    ----------
    fabric
        Any fabric.
    roots
        Names or GUIDs of the root switches; ``auto`` finds them as OpenSM does, by the distances
        to all hosts, and refuses when there is none; ``center`` takes the switch of least
        eccentricity, which serves any topology. A part of a split fabric without a root gets its
        center.
    root_guid_file
        Instead of `roots`, a file with the GUID of a root switch on each line, as OpenSM's ``-a``.
    balance
        ``flows``, or ``opensm`` for the real one's tables entry by entry. Where cables join
        switches of one rank, the real one mixes ways up and down, so that those tables can
        deadlock.
    lmc
        Each endpoint gets 2^lmc LIDs, each offset balanced on its own.
    passes
        How often each destination's paths are chosen, with ``flows``.

    Raises
    ------
    NotApplicable
        When ``auto`` finds no root, or the roots leave hosts without a legal path.
    InputError
        When a root is no switch of the fabric; of a file with its line.

    Notes
    -----
    Roots rank 0 and every other switch its distance to the nearest; a link to a lower rank goes
    up, and among equals the one to the higher GUID does (with ``opensm`` the lower). Source:
    Schroeder et al. 1991; OpenSM's ``updn`` for the search of roots.
    """
    check_lmc(fabric, lmc)
    table = empty_table(fabric, lmc)
    if root_guid_file is not None:
        if roots != ("auto",):
            raise InputError("updn: roots are either named or in root_guid_file, not both")
        listed = read_guids(fabric, root_guid_file, kind="root")
        chosen = _complete(fabric, fabric.graph.node_row[listed])
    else:
        chosen = find_roots(fabric, roots)
    if passes < 1:
        raise InputError(f"passes must be at least 1, not {passes}")
    step = None
    if balance == "opensm" and not lmc:
        step = _opensm_steps(fabric, chosen)
        fill_ranked(fabric, table, step)
    else:
        fill(fabric, table, balance, edge_up=up_edges(fabric, chosen), lmc=lmc, passes=passes)
    gaps, example = missing_ways(fabric, table, lmc)
    if gaps:
        if step is not None:
            refuse_long(fabric, step, example)
        raise NotApplicable(
            f"with these roots {gaps} ways from a switch to a host would have to go up "
            f"again, such as {example}; name other roots, or use roots=center"
        )
    names = ", ".join(fabric.node_names[fabric.graph.row_node[row]] for row in chosen[:8])
    more = f" and {len(chosen) - 8} more" if len(chosen) > 8 else ""
    return TableRoutes(
        **provenance(fabric, "updn", notes=(f"roots: {names}{more}",)), table=table, lmc=lmc
    )


def find_roots(fabric: Fabric, roots: tuple[str, ...]) -> NDArray[np.int32]:
    """Rows of the root switches, at least one in each connected part; see `updn`."""
    if roots == ("auto",):
        found = roots_by_distance(fabric)
        if not len(found):
            raise NotApplicable(
                "no switch sees nearly all hosts at one distance, so no roots can be found; "
                "name them, or use roots=center"
            )
    elif roots == ("center",):
        found = np.zeros(0, dtype=np.int32)
    else:
        found = _named_roots(fabric, roots)
    return _complete(fabric, found)


def _complete(fabric: Fabric, found: NDArray[np.int32]) -> NDArray[np.int32]:
    """These roots, and the center of each connected part that has none."""
    label = components(fabric)
    parts = int(label.max(initial=-1)) + 1
    rootless = np.setdiff1d(np.arange(parts), label[found])
    centers = _centers(fabric, label)[rootless]
    return np.unique(np.concatenate((found, centers))).astype(np.int32)


def _named_roots(fabric: Fabric, roots: tuple[str, ...]) -> NDArray[np.int32]:
    nodes = [fabric.find_node(name) for name in roots]
    if not nodes:
        raise InputError("updn: option roots names no switch")
    for node in nodes:
        if fabric.node_kind[node] != NodeKind.SWITCH:
            raise InputError(f"updn: root {fabric.node_names[node]} is no switch")
    return fabric.graph.node_row[nodes]


def _centers(fabric: Fabric, label: NDArray[np.int32]) -> NDArray[np.int32]:
    """The switch of least eccentricity of each connected part, the first of equals."""
    graph = fabric.graph
    hops = np.empty((graph.num_rows, graph.num_rows), dtype=np.uint16)
    bfs_many(graph.edge_offset, graph.edge_row, np.arange(graph.num_rows, dtype=np.int32), hops)
    hops[hops == UNREACHED] = 0
    forwarding_host = graph.row_node >= fabric.num_switches
    order = np.lexsort((hops.max(axis=0), forwarding_host, label))
    return order[np.searchsorted(label[order], np.unique(label))].astype(np.int32)


def roots_by_distance(fabric: Fabric) -> NDArray[np.int32]:
    """Rows that see over 90 % of the adapters at one distance and over 5 % at no other (OpenSM)."""
    graph = fabric.graph
    sources = row_adapters(fabric)
    leaves = np.flatnonzero(sources).astype(np.int32)
    hops = np.empty((len(leaves), graph.num_rows), dtype=np.uint16)
    bfs_many(graph.edge_offset, graph.edge_row, leaves, hops)
    total = int(sources.sum())
    over_most = np.zeros(graph.num_rows, dtype=np.int64)
    over_some = np.zeros(graph.num_rows, dtype=np.int64)
    for distance in np.unique(hops[hops != UNREACHED]):
        seen = (hops == distance).T @ sources[leaves]
        over_most += seen > ROOT_SHARE * total
        over_some += seen > OTHER_SHARE * total
    return np.flatnonzero((over_most == 1) & (over_some == 1)).astype(np.int32)


def _ranks(fabric: Fabric, roots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Hops of each row to the nearest root."""
    graph = fabric.graph
    hops = np.empty((len(roots), graph.num_rows), dtype=np.uint16)
    bfs_many(graph.edge_offset, graph.edge_row, roots, hops)
    nearest: NDArray[np.int64] = hops.min(axis=0).astype(np.int64)
    return nearest


def _opensm_steps(fabric: Fabric, roots: NDArray[np.int32]) -> NDArray[np.uint8]:
    """What OpenSM's search takes a step along each edge for; away from the destination up first.

    Among equals it goes up to the lower GUID; between two roots both ways.
    """
    graph = fabric.graph
    rank = _ranks(fabric, roots)
    guid = fabric.node_guid[graph.row_node]
    tail, head = graph.edge_tail, graph.edge_row
    level = (rank[tail] == rank[head]) & ((rank[head] == 0) | (guid[tail] > guid[head]))
    return np.where((rank[head] < rank[tail]) | level, EARLY, LATE).astype(np.uint8)


def up_edges(fabric: Fabric, roots: NDArray[np.int32]) -> NDArray[np.uint8]:
    """uint8 [edges]: 1 where an edge goes up, to a lower rank or, within one, a higher GUID."""
    graph = fabric.graph
    rank = _ranks(fabric, roots)
    guid = fabric.node_guid[graph.row_node]
    order = np.empty(graph.num_rows, dtype=np.int64)
    order[np.lexsort((~guid, rank))] = np.arange(graph.num_rows)
    tail = np.repeat(np.arange(graph.num_rows), np.diff(graph.edge_offset))
    return (order[graph.edge_row] < order[tail]).astype(np.uint8)
