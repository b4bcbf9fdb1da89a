"""ftree: OpenSM's fat-tree routing, for shifts and all-to-all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.levels import tree_levels
from weft.kernels.parts import StateParts
from weft.kernels.routing.ftree import FatTreeArrays, ftree_tables, work_space
from weft.routing.engine_registry import (
    destination_ports,
    empty_table,
    engine,
    row_adapters,
    sending_rows,
)
from weft.routing.engines.ftree_index import (
    DOWN,
    INDEX_BYTES,
    SIDEWAYS,
    PortGroups,
    by_guid,
    check_pure,
    find_families,
    find_ranks,
    group_ports,
    index_rows,
)
from weft.routing.opensm.guids import listed_nodes
from weft.routing.routes import Routes, TableRoutes
from weft.routing.validation.deadlock import credit_loops

#: Up to this many nodes, an error gives the complete value of an option.
MOST_LISTED = 8


@engine("ftree", deadlock_free=True, lmc=False, as_opensm="ftree")
def ftree(
    fabric: Fabric,
    *,
    roots: tuple[str, ...] = ("auto",),
    compute: tuple[str, ...] = (),
    io: tuple[str, ...] = (),
    max_reverse_hops: int = 0,
    pure: bool = True,
    connect_roots: bool = False,
) -> Routes:
    """Route fat trees for shifts and all-to-all, with exactly the tables of OpenSM's ftree.

    Destinations are routed leaf by leaf. Starting at the destination's leaf, each switch selects
    its least loaded parent, from which the traffic to the destination descends; the parent's other
    children send up to it. Missing hosts of a leaf are counted as if they existed, to keep the
    order of shifts.

    Parameters
    ----------
    fabric
        A fat tree whose hosts do not forward.
    roots
        Names or GUIDs of the top switches, or ``@FILE`` for OpenSM's root file (``-a``); ``auto``
        selects the switches farthest from all adapters.
    compute
        Compute nodes: names or GUIDs of nodes or ports, or ``@FILE`` (OpenSM's ``-u``); by default
        all nodes that are not `io`. All other nodes are routed after the compute nodes and may be
        attached to switches of any level.
    io
        Input/output nodes in the same form (``-G``).
    max_reverse_hops
        Maximum number of changes from down to up on a path to an `io` node (``-H``).
    pure
        Refuse trees whose switches of one level differ, as OpenSM does if no roots are given.
        False also allows incomplete and faulty trees.
    connect_roots
        Connect switches via the last leaf if no up/down path connects them (``-z``). Only
        management traffic can use these paths, and they can deadlock.

    Raises
    ------
    NotApplicable
        If the fabric is not a fat tree (OpenSM then falls back to minhop), or if OpenSM's rules
        leave hosts without a path or give paths that can deadlock (OpenSM does not report that).
    InputError
        If a name is unknown or of the wrong kind, or `max_reverse_hops` is negative.

    Notes
    -----
    OpenSM orders adapters by memory addresses. Where cables connect two leaves, it does so while it
    routes the adapters of a leaf, and skips some of them: such fabrics are refused. If adapters are
    attached to switches with switches below them, the order of ports differs from run to run; in
    this engine, adapters are last. Neither
    this engine nor OpenSM's supports an LMC. Source: Zahavi et al., Optimized InfiniBand fat-tree
    routing for shift all-to-all communication patterns, 2009, as implemented in OpenSM.
    """
    if max_reverse_hops < 0:
        raise InputError(f"max_reverse_hops must be at least 0, not {max_reverse_hops}")
    routes, trees = ftree_as_opensm(
        fabric, roots, compute, io, max_reverse_hops=max_reverse_hops, pure=pure,
        connect_roots=connect_roots,
    )  # fmt: skip
    _refuse_gaps(fabric, routes.table)
    if max_reverse_hops or any(tree.groups.count(SIDEWAYS).any() for tree in trees):
        _refuse_credit_loops(fabric, routes)
    return routes


class UnsteadyError(NotApplicable):
    """OpenSM's tables differ from run to run."""


class _OddLeafError(NotApplicable):
    """Compute nodes are attached to switches of several levels."""


@dataclass(frozen=True)
class _Settings:
    max_reverse_hops: int
    pure: bool
    connect_roots: bool


def ftree_as_opensm(
    fabric: Fabric,
    roots: tuple[str, ...],
    compute: tuple[str, ...],
    io: tuple[str, ...],
    **options: Any,
) -> tuple[TableRoutes, list[_Tree]]:
    """Return OpenSM's tables, and the trees of connected components; see `ftree`.

    Pairs may have no path, and paths can deadlock.
    """
    _check_kind(fabric)
    settings = _Settings(**options)
    named = None
    if roots != ("auto",):
        nodes = listed_nodes(fabric, roots, kind="root", what="ftree: option roots")
        named = np.unique(fabric.graph.node_row[nodes])
    is_compute, is_io = _roles(fabric, compute, io)
    try:
        table, trees = _route(fabric, named, is_compute, is_io, settings)
    except _OddLeafError as refusal:
        advice = _advice(fabric, named, is_compute, is_io, settings, by_name=not compute)
        raise NotApplicable(f"{refusal}; {advice}") from None
    notes = []
    adapters = row_adapters(fabric)
    for tree in trees:
        counts = np.bincount(tree.rank[tree.rank >= 0])
        notes.append(f"switches by level, top first: {', '.join(map(str, counts))}")
        if ((adapters > 0) & (tree.groups.count(DOWN) > adapters)).any():
            notes.append(
                "adapters are attached above the leaves: OpenSM orders the ports of their switches "
                "by memory addresses, so that its tables may differ from these and between runs"
            )
    return TableRoutes("ftree", fabric.digest, notes=tuple(notes), table=table), trees


def _route(
    fabric: Fabric,
    roots: NDArray[np.int32] | None,
    is_compute: NDArray[np.bool_],
    is_io: NDArray[np.bool_],
    settings: _Settings,
) -> tuple[NDArray[np.unsignedinteger[Any]], list[_Tree]]:
    """Return the tables and the trees of the fabric's connected components."""
    table = empty_table(fabric)
    label = fabric.graph.components
    rows = fabric.graph.destination_row[: fabric.num_endpoints]
    parts = np.unique(label[rows[rows >= 0]])
    if not len(parts):
        raise NotApplicable("a fat tree needs switches and hosts")
    sizes = np.bincount(label)
    trees = [
        _find_tree(fabric, label == part, roots, is_compute, is_io, settings.pure)
        for part in parts
        if sizes[part] > 1
    ]
    if not trees:
        raise NotApplicable("no cable connects two switches, so there is no tree")
    alone = np.flatnonzero((rows >= 0) & (sizes[label[rows]] == 1))
    table[alone, rows[alone]] = destination_ports(fabric)[alone]
    table[fabric.num_endpoints + fabric.graph.row_node, np.arange(fabric.graph.num_rows)] = 0
    for tree in trees:
        _fill(fabric, tree, settings.max_reverse_hops, table)
        if settings.connect_roots:
            _connect_roots(fabric, tree, table)
    return table, trees


def _advice(
    fabric: Fabric,
    roots: NDArray[np.int32] | None,
    is_compute: NDArray[np.bool_],
    is_io: NDArray[np.bool_],
    settings: _Settings,
    *,
    by_name: bool,
) -> str:
    """Return text with tested options that route a tree with compute nodes on several levels.

    Adapters of auxiliary nodes and adapters at switches with few adapters are tried as io nodes.
    """
    rows = fabric.graph.destination_row[: fabric.num_endpoints]
    compute = np.flatnonzero(is_compute & (rows >= 0))
    adapters = np.bincount(rows[compute], minlength=fabric.graph.num_rows)
    sparse = adapters < np.median(adapters[adapters > 0]) / 2
    asides = [
        compute[:0],
        compute[compute >= fabric.num_host_endpoints],
        compute[(compute >= fabric.num_host_endpoints) | sparse[rows[compute]]],
    ]
    tried = -1
    for aside in asides if by_name else asides[:1]:
        if len(aside) == tried:
            continue
        tried = len(aside)
        left = is_compute.copy()
        left[aside] = False
        if not left.any():
            continue
        others = is_io.copy()
        others[aside] = True
        try:
            top = _tops(fabric) if roots is None else roots
            _refuse_gaps(fabric, _route(fabric, top, left, others, settings)[0])
        except NotApplicable:
            continue
        nodes = np.unique(fabric.graph.row_node[top]).tolist()
        names = "roots=" + _listed(fabric, nodes)
        if by_name and others.any():
            io = _listed(fabric, np.unique(fabric.endpoint_node[others]).tolist())
            names = f"io={io};{names}"
        return f"the fabric can be routed with {names}"
    return "specify the roots, and the io nodes or compute nodes"


def _listed(fabric: Fabric, nodes: list[int]) -> str:
    """Return nodes as an option's value; of many nodes, the first and the number of the others."""
    names = list(map(fabric.option_name, nodes))
    return ",".join(names) if len(names) <= MOST_LISTED else few(names)


def _tops(fabric: Fabric) -> NDArray[np.int32]:
    """Return the rows of the highest level of each component."""
    level, label = tree_levels(fabric), fabric.graph.components
    highest = np.ones(fabric.graph.num_rows, dtype=np.int64)
    np.maximum.at(highest, label, level)
    rows: NDArray[np.int32] = np.flatnonzero(level == highest[label]).astype(np.int32)
    return rows


@dataclass(frozen=True, eq=False)
class _Tree:
    """A fat tree in OpenSM's terms, one connected component of a fabric.

    rank: int32 [rows], hops from the nearest root, -1 outside the tree; leaf_rows: switches from
    the first to the last leaf in the order of `index_rows`, including those between them without
    compute nodes; is_leaf: bool [rows], switches with compute nodes; is_compute, is_io: bool
    [endpoints]; others: endpoints of the tree that are not compute nodes; leaf_rank: rank of the
    leaves.
    """

    rank: NDArray[np.int32]
    groups: PortGroups
    leaf_rows: NDArray[np.intp]
    is_leaf: NDArray[np.bool_]
    is_compute: NDArray[np.bool_]
    others: NDArray[np.intp]
    is_io: NDArray[np.bool_]
    leaf_rank: int


def _find_tree(
    fabric: Fabric,
    part: NDArray[np.bool_],
    roots: NDArray[np.int32] | None,
    is_compute: NDArray[np.bool_],
    is_io: NDArray[np.bool_],
    pure: bool,
) -> _Tree:
    graph = fabric.graph
    nodes = graph.row_node
    rows = graph.destination_row[: fabric.num_endpoints]
    first = fabric.node_names[nodes[np.flatnonzero(part)[0]]]
    if roots is not None:
        roots = roots[part[roots]]
        if not len(roots):
            raise NotApplicable(f"the connected component of switch {first} has no root")
    rank = find_ranks(fabric, part, roots)
    ends = np.flatnonzero(part[rows] & (rows >= 0))
    if len(ends) < 2 or rank.max() == 0:
        raise NotApplicable(
            f"the connected component of switch {first} is not a tree of several levels: "
            "no switch is farther from the hosts than others"
        )
    compute = ends[is_compute[ends]]
    if not len(compute):
        raise NotApplicable(f"no compute node is connected to switch {first}")
    leaf_rank = int(rank.max())
    if roots is not None:
        leaf_rank = int(rank[rows[compute[by_guid(fabric, fabric.endpoint_node[compute])[0]]]])
    if not 1 <= leaf_rank < INDEX_BYTES:
        raise NotApplicable(f"a fat tree has 2 to {INDEX_BYTES} levels, not {leaf_rank + 1}")
    leaves = np.unique(rows[compute])
    odd = leaves[rank[leaves] != leaf_rank]
    if len(odd):
        raise _OddLeafError(_odd_leaf(fabric, rank, compute))
    is_leaf = np.zeros(graph.num_rows, dtype=bool)
    is_leaf[leaves] = True
    start = int(leaves[by_guid(fabric, nodes[leaves])[0]])
    groups, index = index_rows(rank, group_ports(fabric, rank), start, leaf_rank)
    _refuse_unsteady(fabric, groups)
    level = np.flatnonzero(rank == leaf_rank)
    level = level[by_guid(fabric, nodes[level])]
    level = level[np.argsort(index[level], kind="stable")]
    real = np.flatnonzero(is_leaf[level])
    if len(real) < 2:
        raise NotApplicable(
            f"only switch {fabric.node_names[nodes[level[real[0]]]]} has compute nodes; a fat "
            "tree needs several leaves"
        )
    if pure and roots is None:
        check_pure(fabric, rank, groups, leaf_rank)
    return _Tree(
        rank=rank,
        groups=groups,
        leaf_rows=level[real[0] : real[-1] + 1],
        is_leaf=is_leaf,
        is_compute=is_compute,
        others=ends[~is_compute[ends]],
        is_io=is_io,
        leaf_rank=leaf_rank,
    )


def _refuse_unsteady(fabric: Fabric, groups: PortGroups) -> None:
    """Refuse switches whose adapters OpenSM reorders, by memory addresses, while it routes them."""
    unsteady = np.flatnonzero((groups.count(SIDEWAYS) > 0) & (row_adapters(fabric) > 1))
    if len(unsteady):
        row = int(unsteady[0])
        ends = (row, groups.head[groups.of(row, SIDEWAYS)[0]])
        first, second = (fabric.node_names[fabric.graph.row_node[end]] for end in ends)
        raise UnsteadyError(
            f"cables connect {first} to {second} of the same level; OpenSM then leaves pairs of "
            f"hosts without a path, and these differ from run to run"
        )


def _odd_leaf(fabric: Fabric, rank: NDArray[np.int32], compute: NDArray[np.intp]) -> str:
    """Return text that names a compute node that is attached to another level than most are."""
    rows = fabric.graph.destination_row[compute]
    counts = np.bincount(rank[rows])
    usual = int(np.argmax(counts))
    names, row_node = fabric.node_names, fabric.graph.row_node
    off = np.flatnonzero(rank[rows] != usual)
    if not len(off):
        below = names[row_node[np.argmax(rank)]]
        return (
            f"switch {below} is {rank.max()} hops from the roots, but all compute nodes are "
            f"attached to switches {usual} hops from the roots"
        )
    node, row = fabric.endpoint_node[compute[off[0]]], rows[off[0]]
    return (
        f"{names[node]} ({fabric.node_guid[node]:#x}) is attached to switch {names[row_node[row]]} "
        f"at {rank[row]} hops from the roots, but most compute nodes at {usual} hops"
    )


def _fill(
    fabric: Fabric, tree: _Tree, max_reverse_hops: int, table: NDArray[np.unsignedinteger[Any]]
) -> None:
    groups, jobs = tree.groups, _jobs(fabric, tree, max_reverse_hops)
    given = FatTreeArrays(
        tree.rank, tree.is_leaf, find_families(groups), groups.start, groups.order.copy(),
        groups.head, groups.place, groups.port_start, groups.remote_port,
    )  # fmt: skip
    work = work_space(given, int(jobs[-1].max(initial=0)), table.dtype)
    ftree_tables(StateParts(given), work, *jobs, int(np.iinfo(table.dtype).max), table)


def _check_kind(fabric: Fabric) -> None:
    """Refuse fabrics whose nodes or kinds of cables rule out a fat tree."""
    graph = fabric.graph
    if graph.num_rows != fabric.num_switches:
        name = fabric.node_names[graph.row_node[fabric.num_switches]]
        raise NotApplicable(f"hosts of a fat tree must not forward, but {name} does")
    if fabric.num_switches < 2:
        raise NotApplicable("a fat tree has at least two switches")
    if fabric.num_nodes - fabric.num_switches < 2:
        raise NotApplicable("a fat tree has at least two hosts")
    direct = np.flatnonzero(fabric.link_kind == 3)
    if len(direct):
        raise NotApplicable(
            f"this is not a fat tree: {fabric.cable_name(int(direct[0]) >> 1)} connects two "
            "adapters"
        )


def _roles(
    fabric: Fabric, compute: Sequence[str], io: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which endpoints are compute nodes, and which are io nodes; both bool [endpoints].

    Named compute nodes are not io nodes.
    """
    named, is_io = np.zeros((2, fabric.num_endpoints), dtype=bool)
    if compute:
        named[listed_nodes(fabric, compute, kind="cn", what="ftree: option compute")] = True
    if io:
        is_io[listed_nodes(fabric, io, kind="io", what="ftree: option io")] = True
        is_io &= ~named
    return (named if compute else ~is_io), is_io


def _jobs(
    fabric: Fabric, tree: _Tree, max_reverse_hops: int
) -> tuple[
    NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]
]:
    """Return five int32 arrays of the destinations in routing order.

    They are the destination (-1 for a missing host), its row, its port, whether its paths count as
    load (1 or 0; missing hosts count), and the maximum number of changes from down to up.
    """
    graph = fabric.graph
    ports = destination_ports(fabric)
    on_leaf = []
    for row in tree.leaf_rows:
        ends = tree.groups.endpoint[tree.groups.of(int(row), DOWN)]
        ends = ends[ends >= 0]
        on_leaf.append(ends[tree.is_compute[ends]])
    most = max(len(ends) for ends in on_leaf)
    compute = np.full((len(on_leaf), most), -1, dtype=np.int64)
    for ends, line in zip(on_leaf, compute, strict=True):
        line[: len(ends)] = ends

    rows = graph.destination_row[: fabric.num_endpoints]
    others = tree.others[by_guid(fabric, fabric.endpoint_node[tree.others])]
    switches = np.flatnonzero(tree.rank >= 0)
    switches = switches[by_guid(fabric, graph.row_node[switches])]

    own = fabric.num_endpoints + graph.row_node[switches]
    destination: NDArray[np.int64] = np.concatenate((compute.reshape(-1), others, own))
    row = np.concatenate((np.repeat(tree.leaf_rows, most), rows[others], switches))
    missing = destination < 0
    port = np.where(missing, 1, ports[destination])
    main = np.ones(len(row), dtype=np.int32)
    main[len(row) - len(own) :] = 0
    credit = np.zeros(len(row), dtype=np.int32)
    credit[compute.size : compute.size + len(others)] = max_reverse_hops * tree.is_io[others]
    return (destination.astype(np.int32), row.astype(np.int32), port.astype(np.int32), main, credit)


def _connect_roots(fabric: Fabric, tree: _Tree, table: NDArray[np.unsignedinteger[Any]]) -> None:
    """If switches above the leaves lack a path that the last leaf has, send via this leaf."""
    last = int(tree.leaf_rows[-1])
    nodes = fabric.graph.row_node
    above = np.flatnonzero((tree.rank >= 0) & (tree.rank < tree.leaf_rank))
    no_path = np.iinfo(table.dtype).max
    towards = table[fabric.num_endpoints + nodes[last]]
    for destination in range(fabric.num_endpoints, fabric.num_destinations):
        line = table[destination]
        if line[last] != no_path:
            gaps = above[line[above] == no_path]
            line[gaps] = towards[gaps]


def _refuse_gaps(fabric: Fabric, table: NDArray[np.unsignedinteger[Any]]) -> None:
    """Refuse tables that lack a path from a leaf to a host of the same connected component."""
    graph = fabric.graph
    leaves = sending_rows(fabric)
    label = fabric.graph.components
    no_path = np.iinfo(table.dtype).max
    rows = graph.destination_row[: fabric.num_host_endpoints]
    count, first = 0, ("", "")
    for begin in range(0, len(rows), 4096):
        part = rows[begin : begin + 4096]
        missing = table[begin : begin + len(part)][:, leaves] == no_path
        if not missing.any():
            continue
        gaps = np.argwhere(missing & (label[part][:, None] == label[leaves]) & (part >= 0)[:, None])
        if len(gaps) and not count:
            host = fabric.endpoint_node[begin + gaps[0, 0]]
            leaf = graph.row_node[leaves[gaps[0, 1]]]
            first = (fabric.node_names[leaf], fabric.node_names[host])
        count += len(gaps)
    if count:
        raise NotApplicable(
            f"{count} pairs of a switch and a host have no path that goes only up and then down, "
            f"for example from {first[0]} to {first[1]}; OpenSM leaves them without a path"
        )


def _refuse_credit_loops(fabric: Fabric, routes: TableRoutes) -> None:
    loops, _ = credit_loops(fabric, routes)
    if loops:
        raise NotApplicable(
            "with cables within a level, or changes from down to up, OpenSM's paths can deadlock: "
            f"{loops[0].text(fabric)}"
        )
