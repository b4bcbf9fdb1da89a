"""updn: Up*/Down* routing, deadlock-free on any topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.levels import tree_levels
from weft.kernels.routing.distances import UNREACHED
from weft.kernels.routing.opensm_ranks import EARLY, LATE
from weft.routing.engine_registry import (
    PASSES,
    Balance,
    Passes,
    empty_table,
    engine,
    fill_balanced,
    row_adapters,
    sending_rows,
)
from weft.routing.engines.as_opensm import detected_roots, fall_back
from weft.routing.engines.ranked import fill_ranked, lost_pairs, missing_paths
from weft.routing.opensm.guids import listed_nodes, read_guids
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import Routes, TableRoutes


@engine(
    "updn",
    deadlock_free=True,
    deadlock_with={"balance": "opensm"},
    lmc=True,
    as_opensm="updn:balance=opensm",
    lists=("roots", "root_guid_file"),
)
def updn(
    fabric: Fabric,
    *,
    roots: tuple[str, ...] = (),
    root_guid_file: Path | None = None,
    balance: Balance = "flows",
    lmc: int = 0,
    passes: Passes = PASSES,
) -> Routes:
    """Route by Up*/Down*: every path goes up towards the roots first and never up again.

    Parameters
    ----------
    fabric
        Any fabric.
    roots
        Names or GUIDs of the root switches, or ``@FILE`` with one GUID per line. ``opensm``: the
        switches that OpenSM detects if no list is given, by their distances to all hosts; the
        default with ``balance=opensm``. ``auto``, the default with ``balance=flows``: the top level
        of a tree; on other fabrics, like ``opensm`` (see Notes). ``center``: the switch of least
        eccentricity, which works on any topology.
    root_guid_file
        Instead of `roots`, a file with the GUID of one root switch per line, as OpenSM's ``-a``.
    balance
        ``flows``: a connected component without a root gets its center as root, and roots that
        leave hosts without a legal path are refused. ``opensm``: exactly the tables of OpenSM. In a
        component without a root, these are the tables of ``minhop``, which can deadlock; and pairs
        without a legal path have none. If cables connect switches of equal rank (see Notes), paths
        can go down and up again, and so can deadlock. Roots other than ``opensm`` assume that
        OpenSM gets them as a file (``-a``).
    lmc
        LMC: each endpoint gets 2^lmc LIDs; each LID offset is balanced separately.
    passes
        Number of times that ``flows`` chooses the paths to each destination.

    Raises
    ------
    NotApplicable
        With ``balance=flows``, if no root is found, or the roots leave hosts without a legal path.
    InputError
        If a root is not a switch of the fabric; the message gives the line of a file.

    Notes
    -----
    OpenSM's rank of a switch is its distance to the nearest root. A link to a lower rank goes up;
    between equal ranks, the link to the higher GUID (with ``opensm``: to the lower GUID) goes up.

    ``auto`` finds the levels of a tree by its shape, even if leaf switches are idle, hosts are
    attached to upper switches or cables are missing. The roots are all switches of the lowest level
    that gives each pair of hosts a legal path. On other fabrics the roots are OpenSM's; those with
    hosts are left out if the others suffice, since OpenSM's search also selects leaves if there are
    more than 20 leaf switches.

    Source: Schroeder et al. 1991; OpenSM's ``updn`` for its search of roots.
    """
    check_lmc(lmc)
    if balance == "opensm":
        return updn_as_opensm(fabric, empty_table(fabric, lmc), roots, root_guid_file, lmc)
    table = empty_table(fabric, lmc)
    chosen, rule = chosen_roots(fabric, roots, root_guid_file)
    fill_balanced(fabric, table, edge_up=up_edges(fabric, chosen), lmc=lmc, passes=passes)
    gaps, example = missing_paths(fabric, table, lmc)
    if gaps:
        raise NotApplicable(
            f"with these roots {gaps} pairs of a switch and a host have no path that goes only up "
            f"and then down, for example {example}; specify other roots, or use roots=center"
        )
    notes = (_roots_note(fabric, chosen, rule),)
    return TableRoutes("updn", fabric.digest, notes=notes, table=table, lmc=lmc)


def updn_as_opensm(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    roots: tuple[str, ...] = (),
    root_guid_file: Path | None = None,
    lmc: int = 0,
) -> TableRoutes:
    """Return OpenSM's tables; those of minhop in each connected component without a root.

    `table`: the present tables, of which entries on shortest legal paths stay; changed in place.
    """
    chosen, rule, rootless = opensm_roots(fabric, roots, root_guid_file)
    other = None
    if rootless.any():
        name = fabric.node_names[fabric.graph.row_node[np.argmax(rootless)]]
        reason = "no roots found" if rule else "no root is specified"
        if not rootless.all():
            reason += f" in the connected component of switch {name}"
        other = fall_back(fabric, "updn", reason, lmc=lmc, table=table.copy())
        if not len(chosen):
            return other
    step = opensm_steps(fabric, chosen)
    fill_ranked(fabric, table, step, lmc)
    notes = (_roots_note(fabric, chosen, rule), *lost_pairs(fabric, table, step, lmc))
    if other is not None:
        rows = np.repeat(fabric.graph.destination_row, 1 << lmc)
        lines = (rows >= 0) & rootless[rows]
        table[lines] = other.table[lines]
    refusals = () if other is None else other.refusals
    return TableRoutes("updn", fabric.digest, table=table, lmc=lmc, notes=notes, refusals=refusals)


def opensm_roots(
    fabric: Fabric, roots: tuple[str, ...] = (), root_guid_file: Path | None = None
) -> tuple[NDArray[np.int32], str, NDArray[np.bool_]]:
    """Return the rows of OpenSM's roots, the rule that selected them, and the rows without any."""
    if root_guid_file is None and roots in ((), ("opensm",)):
        chosen, rule = detected_roots(fabric), "detected by OpenSM"
    else:
        chosen, rule = chosen_roots(fabric, roots, root_guid_file, complete=roots == ("center",))
    label = fabric.graph.components
    rootless = np.isin(label, np.setdiff1d(label[row_adapters(fabric) > 0], label[chosen]))
    return chosen, rule, rootless


def _roots_note(fabric: Fabric, roots: NDArray[np.int32], rule: str) -> str:
    names = few([fabric.node_names[fabric.graph.row_node[row]] for row in roots])
    count = f"{len(roots)} root{'s' if len(roots) > 1 else ''}"
    return f"{count}{f' ({rule})' if rule else ''}: {names}"


def chosen_roots(
    fabric: Fabric,
    roots: tuple[str, ...] = (),
    root_guid_file: Path | None = None,
    *,
    complete: bool = True,
) -> tuple[NDArray[np.int32], str]:
    """Find the root switches of `updn`.

    `fabric`, `roots`, `root_guid_file`: as for `updn`. `complete`: whether a connected component
    without a root gets its center as root.

    Returns rows, int32, and the rule that selected them, empty for specified roots.

    Raises `NotApplicable` if ``auto`` or ``opensm`` finds no roots.
    """
    rule = ""
    if root_guid_file is not None:
        if roots:
            raise InputError("updn: roots and root_guid_file must not both be given")
        rows = fabric.graph.node_row[read_guids(fabric, root_guid_file, kind="root")]
    elif roots in ((), ("auto",)):
        rows, rule = _roots_of_tree(fabric), "top level of the tree"
        if not len(rows):
            rows, rule = _searched(fabric), "by their distances to the hosts"
            hostless = rows[row_adapters(fabric)[rows] == 0]
            if len(hostless) and _connects_all(fabric, _complete(fabric, hostless)):
                rows = hostless
    elif roots == ("opensm",):
        rows, rule = _searched(fabric), "by their distances to the hosts"
    elif roots == ("center",):
        rows, rule = np.zeros(0, dtype=np.int32), "center"
    else:
        nodes = listed_nodes(fabric, roots, kind="root", what="updn: option roots")
        rows = fabric.graph.node_row[nodes]
    return _complete(fabric, rows) if complete else np.unique(rows), rule


def _searched(fabric: Fabric) -> NDArray[np.int32]:
    rows = detected_roots(fabric)
    if not len(rows):
        raise NotApplicable(
            "no roots found: no switch has nearly all hosts at one distance; "
            "specify roots, or use roots=center"
        )
    return rows


def _roots_of_tree(fabric: Fabric) -> NDArray[np.int32]:
    """Return the rows of the lowest level that connects all hosts; none if there is no tree."""
    try:
        level = tree_levels(fabric)
    except NotApplicable:
        return np.zeros(0, dtype=np.int32)
    if fabric.graph.num_rows != fabric.num_switches:  # some hosts forward
        return np.zeros(0, dtype=np.int32)
    for top in range(1, int(level.max()) + 1):
        rows = np.flatnonzero(level == top).astype(np.int32)
        if _connects_all(fabric, _complete(fabric, rows)):
            return rows
    return np.zeros(0, dtype=np.int32)


def _connects_all(fabric: Fabric, roots: NDArray[np.int32]) -> bool:
    """Return whether any two sending rows of a component have upward paths to a common root."""
    graph, label = fabric.graph, fabric.graph.components
    up = np.flatnonzero(up_edges(fabric, roots))
    lower, start = np.unique(graph.edge_tail[up], return_index=True)
    # Each row has the bits of the roots that its upward paths lead to.
    bit = np.arange(len(roots))
    above = np.zeros((graph.num_rows, len(roots) // 64 + 1), dtype=np.uint64)
    above[roots, bit // 64] = np.uint64(1) << (bit % 64).astype(np.uint64)
    before = np.zeros_like(above)
    while not np.array_equal(before, above):
        before = above.copy()
        above[lower] |= np.bitwise_or.reduceat(before[graph.edge_row[up]], start)
    rows = sending_rows(fabric)
    kinds = np.unique(np.column_stack((label[rows].astype(np.uint64), above[rows])), axis=0)
    for i, kind in enumerate(kinds):
        others = kinds[i:][kinds[i:, 0] == kind[0]]
        if not np.all(np.any(others[:, 1:] & kind[1:], axis=1)):
            return False
    return True


def _complete(fabric: Fabric, roots: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the roots, and the center of each connected component without a root."""
    label = fabric.graph.components
    parts = int(label.max(initial=-1)) + 1
    rootless = np.setdiff1d(np.arange(parts), label[roots])
    if not len(rootless):
        return np.unique(roots).astype(np.int32)
    centers = _centers(fabric, label)[rootless]
    return np.unique(np.concatenate((roots, centers))).astype(np.int32)


def _centers(fabric: Fabric, label: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the switch of least eccentricity of each connected component, the first of equals."""
    graph = fabric.graph
    hops = graph.hops()
    hops[hops == UNREACHED] = 0
    forwarding_host = graph.row_node >= fabric.num_switches
    order = np.lexsort((hops.max(axis=0), forwarding_host, label))
    return order[np.searchsorted(label[order], np.unique(label))].astype(np.int32)


def _ranks(fabric: Fabric, roots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the hops of each row to the nearest root."""
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


def opensm_steps(fabric: Fabric, roots: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return EARLY for edges that go up in OpenSM's search from the destination, else LATE.

    Between equal ranks, the edge to the lower GUID goes up; between two roots, both edges go up.
    """
    graph = fabric.graph
    rank = _ranks(fabric, roots)
    guid = fabric.node_guid[graph.row_node]
    tail, head = graph.edge_tail, graph.edge_row
    level = (rank[tail] == rank[head]) & ((rank[head] == 0) | (guid[tail] > guid[head]))
    return np.where((rank[head] < rank[tail]) | level, EARLY, LATE).astype(np.uint8)


def up_edges(fabric: Fabric, roots: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return 1 for edges to a lower rank, or to an equal rank with a higher GUID, uint8 [edges]."""
    graph = fabric.graph
    order = np.empty(graph.num_rows, dtype=np.int64)
    guid = fabric.node_guid[graph.row_node]
    order[np.lexsort((~guid, _ranks(fabric, roots)))] = np.arange(graph.num_rows)
    return (order[graph.edge_row] < order[graph.edge_tail]).astype(np.uint8)
