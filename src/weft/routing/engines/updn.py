"""updn: Up*/Down* routing, free of deadlock on any topology."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.words import few
from weft.fabrics import Fabric
from weft.kernels.routing.distances import UNREACHED
from weft.kernels.routing.opensm_ranks import EARLY, LATE
from weft.opensm.files.guids import listed_nodes, read_guids
from weft.routes import Routes, TableRoutes
from weft.routing.engine_registry import (
    PASSES,
    Balance,
    check_lmc,
    components,
    empty_table,
    engine,
    fill,
    provenance,
    row_adapters,
    sending_rows,
)
from weft.routing.engines.ranked import fill_ranked, missing_ways, refuse_long
from weft.routing.structure.fat_tree import find_levels

#: A root sees this share of the adapters at one distance, and no other distance above the second.
ROOT_SHARE = 0.9
OTHER_SHARE = 0.05
#: Rows that are held against all others at a time.
_BLOCK = 512


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
        Names or GUIDs of the root switches, or ``@FILE`` with one GUID a line; ``auto`` takes the
        top tier of a tree, and on other fabrics what ``opensm`` finds (see Notes); ``opensm`` finds
        them as OpenSM does without a list, by the distances to all hosts; ``center`` takes the
        switch of least eccentricity, which serves any topology. A part of a split fabric without a
        root gets its center.
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
        When no root is found, or the roots leave hosts without a legal path.
    InputError
        When a root is no switch of the fabric; of a file with its line.

    Notes
    -----
    Roots rank 0 and every other switch its distance to the nearest; a link to a lower rank goes
    up, and among equals the one to the higher GUID does (with ``opensm`` the lower).

    ``auto`` counts levels from the switches with hosts. Where no cable joins two switches of one
    level, the roots are all switches of the lowest level from which each pair of hosts has a legal
    path. Otherwise they are the roots that OpenSM finds, without those that have hosts themselves
    if the others suffice: with more than 20 leaf switches its search takes the leaves for roots.

    Source: Schroeder et al. 1991; OpenSM's ``updn`` for its search of roots.
    """
    check_lmc(fabric, lmc)
    table = empty_table(fabric, lmc)
    chosen, rule = chosen_roots(fabric, roots, root_guid_file)
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
    names = few([fabric.node_names[fabric.graph.row_node[row]] for row in chosen])
    count = f"{len(chosen)} root{'s' if len(chosen) > 1 else ''}"
    note = f"{count}{f' ({rule})' if rule else ''}: {names}"
    return TableRoutes(**provenance(fabric, "updn", notes=(note,)), table=table, lmc=lmc)


def chosen_roots(
    fabric: Fabric, roots: tuple[str, ...] = ("auto",), root_guid_file: Path | None = None
) -> tuple[NDArray[np.int32], str]:
    """Find the root switches that `updn` takes.

    Parameters
    ----------
    fabric, roots, root_guid_file
        As for `updn`.

    Returns
    -------
    tuple
        Rows, int32, at least one in each connected part; and how they were found, empty for those
        that were named.

    Raises
    ------
    NotApplicable
        When ``auto`` or ``opensm`` finds none.
    InputError
        When a root is no switch of the fabric; of a file with its line.
    """
    rule = ""
    if root_guid_file is not None:
        if roots != ("auto",):
            raise InputError("updn: roots are either named or in root_guid_file, not both")
        found = fabric.graph.node_row[read_guids(fabric, root_guid_file, kind="root")]
    elif roots == ("auto",):
        found, rule = _roots_of_tree(fabric), "top tier of the tree"
        if not len(found):
            found, rule = _searched(fabric), "by their distances to the hosts"
            outer = found[row_adapters(fabric)[found] == 0]
            if len(outer) and _joins_all(fabric, _complete(fabric, outer)):
                found = outer
    elif roots == ("opensm",):
        found, rule = _searched(fabric), "by their distances to the hosts"
    elif roots == ("center",):
        found, rule = np.zeros(0, dtype=np.int32), "center"
    else:
        found = _named_roots(fabric, roots)
    return _complete(fabric, found), rule


def _searched(fabric: Fabric) -> NDArray[np.int32]:
    found = roots_by_distance(fabric)
    if not len(found):
        raise NotApplicable(
            "no switch sees nearly all hosts at one distance, so no roots can be found; "
            "name them, or use roots=center"
        )
    return found


def _roots_of_tree(fabric: Fabric) -> NDArray[np.int32]:
    """Rows of the lowest tree level that joins all hosts; none where it is no tree."""
    try:
        level = find_levels(fabric)
    except NotApplicable:
        return np.zeros(0, dtype=np.int32)
    for top in range(1, int(level.max()) + 1):
        found = np.flatnonzero(level == top).astype(np.int32)
        if _joins_all(fabric, _complete(fabric, found)):
            return found
    return np.zeros(0, dtype=np.int32)


def _joins_all(fabric: Fabric, roots: NDArray[np.int32]) -> bool:
    """Whether each pair of sending rows in one connected part has a way up to a common root."""
    graph = fabric.graph
    order = _order(fabric, roots)
    up = order[graph.edge_row] < order[graph.edge_tail]
    above = np.zeros((graph.num_rows, len(roots)), dtype=np.bool_)
    above[roots, np.arange(len(roots))] = True
    for row in np.argsort(order):
        edges = slice(graph.edge_offset[row], graph.edge_offset[row + 1])
        above[row] |= above[graph.edge_row[edges][up[edges]]].any(axis=0)
    rows, label = sending_rows(fabric), components(fabric)
    reach = above[rows].astype(np.float32)
    for start in range(0, len(rows), _BLOCK):
        some = slice(start, start + _BLOCK)
        common = reach[some] @ reach.T > 0
        if np.any(~common & (label[rows[some]][:, None] == label[rows])):
            return False
    return True


def _complete(fabric: Fabric, found: NDArray[np.int32]) -> NDArray[np.int32]:
    """These roots, and the center of each connected part that has none."""
    label = components(fabric)
    parts = int(label.max(initial=-1)) + 1
    rootless = np.setdiff1d(np.arange(parts), label[found])
    if not len(rootless):
        return np.unique(found).astype(np.int32)
    centers = _centers(fabric, label)[rootless]
    return np.unique(np.concatenate((found, centers))).astype(np.int32)


def _named_roots(fabric: Fabric, roots: tuple[str, ...]) -> NDArray[np.int32]:
    nodes = listed_nodes(fabric, roots, kind="root", what="updn: option roots")
    return fabric.graph.node_row[nodes]


def _centers(fabric: Fabric, label: NDArray[np.int32]) -> NDArray[np.int32]:
    """The switch of least eccentricity of each connected part, the first of equals."""
    graph = fabric.graph
    hops = graph.hops()
    hops[hops == UNREACHED] = 0
    forwarding_host = graph.row_node >= fabric.num_switches
    order = np.lexsort((hops.max(axis=0), forwarding_host, label))
    return order[np.searchsorted(label[order], np.unique(label))].astype(np.int32)


def roots_by_distance(fabric: Fabric) -> NDArray[np.int32]:
    """Rows that see over 90 % of the adapters at one distance and over 5 % at no other (OpenSM)."""
    graph = fabric.graph
    sources = row_adapters(fabric)
    leaves = np.flatnonzero(sources).astype(np.int32)
    hops = graph.hops(leaves)
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
    ranks = np.full(graph.num_rows, graph.num_rows, dtype=np.int64)
    near = np.zeros(graph.num_rows, dtype=np.bool_)
    near[roots] = True
    rank = 0
    while near.any():
        ranks[near] = rank
        rank += 1
        further = near[graph.edge_tail] & (ranks[graph.edge_row] > rank)
        near = np.zeros(graph.num_rows, dtype=np.bool_)
        near[graph.edge_row[further]] = True
    return ranks


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
    order = _order(fabric, roots)
    return (order[graph.edge_row] < order[graph.edge_tail]).astype(np.uint8)


def _order(fabric: Fabric, roots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Place of each row, the roots first: int64 [rows]."""
    graph = fabric.graph
    order = np.empty(graph.num_rows, dtype=np.int64)
    guid = fabric.node_guid[graph.row_node]
    order[np.lexsort((~guid, _ranks(fabric, roots)))] = np.arange(graph.num_rows)
    return order
