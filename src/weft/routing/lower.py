"""Conversion of source routes to forwarding tables, with several LIDs where paths diverge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.kernels.routing.lower import colour_paths, extend_rows
from weft.routing.engine_registry import empty_table, fill_balanced, targets_of
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import PathRoutes, TableRoutes


def lower(
    fabric: Fabric, routes: PathRoutes, lmc: int = 0
) -> tuple[TableRoutes, NDArray[np.uint8]]:
    """Convert source routes to forwarding tables.

    Two paths to one destination can share a LID only if they leave every common switch by the
    same port (and, if they begin at the same switch, have the same service level). In the order of
    their sources, each path gets the lowest LID offset at which it agrees with all earlier paths.
    This greedy order may use more LIDs than necessary, but uses one LID if one is enough.

    Parameters
    ----------
    fabric
        Fabric of the routes.
    routes
        Source routes.
    lmc
        LMC: each endpoint has 2^lmc LIDs, so up to 2^lmc paths to it may diverge at a switch.

    Returns
    -------
    TableRoutes
        The tables. An entry that no path uses leads to the nearest switch that has an entry for
        the LID; destinations without any path, such as switches, get balanced minimal paths.
        These additional paths may add credit loops: validate the result.
    ndarray
        uint8 [paths]: the LID offset of each path.

    Raises
    ------
    NotApplicable
        If more LIDs are needed; the message names the destination, a switch and two ports, or a
        conflict of service levels.
    InputError
        If the LMC is not 0 to 7, or `routes` are not source routes or belong to another fabric.
    """
    if not isinstance(routes, PathRoutes):
        raise InputError(
            f"only source routes (PathRoutes) can be lowered to tables; {routes.engine} gives "
            f"{type(routes).__name__}"
        )
    check_lmc(lmc)
    routes.check(fabric)
    graph = fabric.graph
    table = empty_table(fabric, lmc)
    source, destination = np.divmod(routes.pair, fabric.num_host_endpoints)
    order = np.argsort(destination, kind="stable")
    offset = np.zeros(len(order), dtype=np.uint8)
    levels = np.broadcast_to(routes.sl, len(order)).astype(np.uint8)
    shape = (graph.num_rows, table.shape[0]) if routes.sl.ndim else (1, 1)
    sl = np.full(shape, levels[0] if len(levels) and not routes.sl.ndim else 255, dtype=np.uint8)
    targets = targets_of(fabric, table, lmc)
    path, row = colour_paths(
        order, source, destination, routes.offset, routes.edge, levels, graph.parts,
        targets, table, sl, offset,
    )  # fmt: skip
    if path >= 0:
        raise NotApplicable(_conflict(fabric, routes, table, lmc, int(path), int(row)))
    used = np.unique(destination)
    extend_rows(used, graph.parts, targets, table)
    rest = np.setdiff1d(np.arange(fabric.num_destinations), used)
    fill_balanced(fabric, table, lmc=lmc, passes=1, destinations=rest)
    if routes.sl.ndim:
        # Entries that no path uses get the lowest service level in use.
        sl[sl == 255] = levels.min(initial=15)
    lowered = TableRoutes(
        routes.engine,
        fabric.digest,
        notes=routes.notes,
        options=routes.options,
        table=table,
        lmc=lmc,
        sl=sl if routes.sl.ndim else routes.sl,
        lanes=routes.lanes,
    )
    return lowered, offset


def _conflict(
    fabric: Fabric, routes: PathRoutes, table: NDArray[Any], lmc: int, path: int, row: int
) -> str:
    """Describe the first row at which a path disagrees with every LID of its destination."""
    graph = fabric.graph
    source, destination = divmod(int(routes.pair[path]), fabric.num_host_endpoints)
    edges = routes.edge[routes.offset[path] : routes.offset[path + 1]]
    lids = f"{1 << lmc} LIDs" if lmc else "one LID"
    target = fabric.node_names[fabric.endpoint_node[destination]]
    origin = fabric.node_names[fabric.endpoint_node[source]]
    switch = fabric.node_names[graph.row_node[row]]
    wanted = graph.edge_port[edges[graph.edge_tail[edges] == row]].tolist()
    other = int(table[destination << lmc, row])
    clash = f"sends on two service levels, one for {origin}"
    if wanted and wanted[0] != other:
        clash = f"sends by port {other} and, from {origin}, by port {wanted[0]}"
    return f"the paths to {target} need more than {lids}: switch {switch} {clash}"
