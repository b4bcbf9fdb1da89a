"""hdor: Hybrid-DOR, dimension-order routing over the lines of a KNS."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.graph import Graph
from weft.kernels.parts import parts
from weft.kernels.routing.distances import bfs_many
from weft.kernels.routing.hdor import Joints, Lines, hdor_tables, inner_paths
from weft.routing.engine_registry import (
    PASSES,
    empty_table,
    engine,
    row_sources,
    targets_of,
)
from weft.routing.lane_assignment import MaxVls, TablePaths, in_lanes, refuse_lanes
from weft.routing.routes import Routes
from weft.routing.structure.kns import Kns, find_kns

#: Order of dimensions along a path: shortest lines first, or longest lines first.
Order = Literal["ascending", "descending"]


@engine("hdor", deadlock_free=True, lmc=False)
def hdor(
    fabric: Fabric,
    *,
    order: Order = "ascending",
    lanes: int = 1,
    max_vls: MaxVls = 8,
    management: bool = False,
) -> Routes:
    """Route a KNS by Hybrid-DOR: routers correct one coordinate after the other, line by line.

    Parameters
    ----------
    fabric
        A complete or degraded KNS of any number of dimensions, recognised without labels; also
        BCube and other members of the family whose hosts forward.
    order
        Order of dimensions by the length of their lines, shortest or longest first. Of dimensions
        with equally long lines, the one with the switch of lowest index is first.
    lanes
        Number of virtual lanes over which destinations are spread, to reduce head-of-line
        blocking. If faults also require lanes, destinations are spread over fewer lanes, so that
        `max_vls` suffices.
    max_vls
        Number of available lanes, 1 to 15.
    management
        Also prevent credit loops of paths from and to switches. These paths violate the dimension
        order and so need lanes of their own.

    Returns
    -------
    TableRoutes
        If the KNS is complete and `management` is False, the routes use `lanes` lanes. Faults force
        some paths to violate the dimension order; paths that could close a credit loop get further
        lanes.

    Raises
    ------
    NotApplicable
        If the fabric is not a KNS, or faults need more lanes than `max_vls`; the message gives the
        difference or the number of lanes.
    InputError
        If `max_vls` is not 1 to 15, or `lanes` is not 1 to `max_vls`.

    Notes
    -----
    Each path crosses the fewest lines that the cables allow, and among such paths violates the
    dimension order as rarely as forwarding tables allow. On a complete KNS the paths are in
    dimension order and cannot deadlock: links of a line depend only on links of the same line or of
    later dimensions, and inside a line paths go up first and then down. Source: KNS on InfiniBand,
    sections 2.2 and 3.2.2 to 3.2.4 (algorithms 1 and 2); Peñaranda et al. 2016.
    """
    if not 1 <= lanes <= max_vls:
        raise InputError(f"lanes must be 1 to max_vls={max_vls}, not {lanes}")
    table = empty_table(fabric)
    kns = find_kns(fabric)
    reversals = _fill(fabric, kns, order, table)
    paths = TablePaths.of(fabric, table, 0, management)
    groups = (reversals[fabric.graph.destination_row[paths.lines]] > 0).astype(np.uint8)
    notes = [kns.describe()]
    sl, used = np.zeros((), dtype=np.uint8), 1
    # Management packets reach switches inside lines, which may have no up/down path.
    if management or groups[:, paths.counts > 0].any():
        path_lanes = paths.fewest(max_vls, groups)[0]
        used = int(path_lanes.max(initial=0)) + 1
        refuse_lanes(used, max_vls)
        if used > 1:
            sl = paths.service_levels(path_lanes)
            notes.append(f"faults or management need {used} lanes")
    spread = min(lanes, max_vls - used + 1)
    if spread > 1:
        # Dividing the paths of a lane over several lanes cannot create cycles.
        own = _lane_of_destination(fabric, kns, spread)
        sl = own if used == 1 else np.where(sl > 0, sl + np.uint8(spread - 1), own)
    if spread < lanes:
        notes.append(f"destinations are spread over {spread} lanes, not {lanes}")
    return in_lanes("hdor", fabric, table, sl, int(sl.max(initial=0)) + 1, notes=tuple(notes))


def _lane_of_destination(fabric: Fabric, kns: Kns, lanes: int) -> NDArray[np.uint8]:
    """Return a lane for each destination, uint8 [destinations].

    The lane is a sum of multiples of the router's coordinates and of the host's index at the
    router. Destinations that differ in only one of these share most of their paths, and so get
    different lanes as far as possible.
    """
    rows = fabric.graph.destination_row
    order = np.argsort(rows, kind="stable")
    index = np.empty(len(rows), dtype=np.int64)
    index[order] = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
    hosts = int(row_sources(fabric).max(initial=1))
    lane = index * _multiple(prod(kns.sizes), hosts, lanes)
    of_row = np.zeros(fabric.graph.num_rows, dtype=np.int64)
    distinct = 1
    for axis in reversed(range(len(kns.sizes))):
        size = kns.sizes[axis]
        of_row[kns.routers] += kns.coordinates[:, axis] * _multiple(distinct, size, lanes)
        distinct *= size
    return ((lane + of_row[rows]) % lanes).astype(np.uint8)


def _multiple(distinct: int, size: int, lanes: int) -> int:
    """Return the factor of a coordinate or host index in the sum that gives the lane.

    `size` is the number of values of the coordinate or index, `distinct` the number of combinations
    of values of the earlier terms. The factor is `distinct` if there are enough lanes, else
    lanes / size.
    """
    return distinct if distinct * size <= lanes else max(1, lanes // size)


def _fill(
    fabric: Fabric, kns: Kns, order: Order, table: NDArray[np.unsignedinteger[Any]]
) -> NDArray[np.uint8]:
    """Fill the tables; return the violations of the dimension order, uint8 [target rows, rows].

    An entry counts the violations on the path from a row to a target row. See
    `weft.kernels.routing.hdor.hdor_tables`.
    """
    graph = fabric.graph
    position = kns.dimension if order == "ascending" else len(kns.sizes) - 1 - kns.dimension
    lines = _inside_lines(fabric, kns)
    node_offset, node_joint = _joints_of_nodes(fabric, kns, position)
    edge_offset, edges = _edges_of_joints(fabric, kns)
    # If all cables are single and each line has one switch, there is no choice of links.
    choice = len(lines.order) > kns.num_lines or len(edges) > len(kns.joint_router)
    passes = PASSES if choice else 1
    steps = np.empty((graph.num_rows if choice else 0, len(node_offset) - 1), dtype=np.int32)
    graph.need_memory(graph.num_rows, 1, "violations of the dimension order")
    reversals = np.empty((graph.num_rows, graph.num_rows), dtype=np.uint8)
    hdor_tables(
        graph.parts, lines,
        Joints(
            node_offset=node_offset,
            of_node=node_joint,
            router=kns.joint_router,
            line=kns.joint_line,
            switch=kns.joint_switch,
            edge_offset=edge_offset,
            edges=edges,
            position=position,
        ),
        _target_rows(fabric, kns), targets_of(fabric, table), row_sources(fabric), passes,
        np.zeros(len(graph.edge_row), dtype=np.int64), steps, reversals, table,
    )  # fmt: skip
    return reversals


def _target_rows(fabric: Fabric, kns: Kns) -> NDArray[np.int32]:
    """Return all rows in the order in which the paths to them are chosen, routers first.

    Routers are ordered by coordinates, the first dimension varying fastest. If lines have
    several switches, routers at the same switch are consecutive: the trees of paths to successive
    routers then diverge in the upward direction, as in D-mod-K.
    """
    keys = np.empty_like(kns.coordinates)
    router = np.searchsorted(kns.routers, kns.joint_router)
    for axis, size in enumerate(kns.sizes):
        joints = np.flatnonzero(kns.dimension[kns.joint_line] == axis)
        fullest = np.argmax(np.bincount(kns.joint_line[joints], minlength=kns.num_lines))
        joints = joints[kns.joint_line[joints] == fullest]
        switch = np.full(size, fabric.graph.num_rows, dtype=np.int64)
        switch[kns.coordinates[router[joints], axis]] = kns.joint_switch[joints]
        rank = np.argsort(np.argsort(switch, kind="stable"), kind="stable")
        keys[:, axis] = rank[kns.coordinates[:, axis]]
    routers = kns.routers[np.lexsort(keys.T)]
    return np.concatenate((routers, np.flatnonzero(kns.line >= 0))).astype(np.int32)


def _joints_of_nodes(
    fabric: Fabric, kns: Kns, position: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return, in CSR form, the joints of each row and then of each line.

    A joint is the connection of a router to a line. The joints of a router are ordered by
    dimension, those of a line by coordinate.
    """
    rows = fabric.graph.num_rows
    nodes = np.concatenate((kns.joint_router, rows + kns.joint_line))
    router = np.searchsorted(kns.routers, kns.joint_router)
    axis = np.minimum(kns.dimension[kns.joint_line], len(kns.sizes) - 1)
    along = kns.coordinates[router, axis]
    order = np.lexsort((np.concatenate((position[kns.joint_line], along)), nodes))
    offset = np.zeros(rows + kns.num_lines + 1, dtype=np.int32)
    np.cumsum(np.bincount(nodes, minlength=rows + kns.num_lines), out=offset[1:])
    return offset, (order % len(kns.joint_router)).astype(np.int32)


def _edges_of_joints(fabric: Fabric, kns: Kns) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return, in CSR form, the edges of each joint from the router to the line, by port."""
    graph = fabric.graph
    edges = np.flatnonzero((kns.line[graph.edge_tail] < 0) & (kns.line[graph.edge_row] >= 0))
    rows = np.int64(graph.num_rows)
    key = kns.line[graph.edge_row[edges]] * rows + graph.edge_tail[edges]
    joint = np.searchsorted(kns.joint_line * rows + kns.joint_router, key)
    offset = np.zeros(len(kns.joint_router) + 1, dtype=np.int32)
    np.cumsum(np.bincount(joint, minlength=len(kns.joint_router)), out=offset[1:])
    return offset, edges[np.argsort(joint, kind="stable")].astype(np.int32)


def _inside_lines(fabric: Fabric, kns: Kns) -> Lines:
    """Return the legal paths inside lines.

    Up is away from the routers. If faults leave two switches of a line without an up/down path, up
    is instead towards one top switch of the line, so that all its switches are connected.
    """
    graph = fabric.graph
    switches: NDArray[np.int32] = np.flatnonzero(kns.line >= 0).astype(np.int32)
    switches = switches[np.argsort(kns.line[switches], kind="stable")]
    line = kns.line[switches]
    start = np.zeros(kns.num_lines + 1, dtype=np.int32)
    np.cumsum(np.bincount(line, minlength=kns.num_lines), out=start[1:])
    number = np.full(graph.num_rows, -1, dtype=np.int32)
    number[switches] = np.arange(len(switches), dtype=np.int32)
    rank = (number[switches] - start[line]).astype(np.int32)
    sizes = np.diff(start)[line].astype(np.int64)
    base = np.cumsum(sizes) - sizes
    hops = np.empty(int(sizes.sum()), dtype=np.uint16)
    down = np.empty(len(hops), dtype=np.uint8)
    order = np.empty(len(hops), dtype=np.int32)

    edges = np.flatnonzero((number[graph.edge_tail] >= 0) & (number[graph.edge_row] >= 0))
    edges = edges[np.argsort(number[graph.edge_tail[edges]], kind="stable")]
    tail, head = number[graph.edge_tail[edges]], number[graph.edge_row[edges]]
    offset = np.zeros(len(switches) + 1, dtype=np.int32)
    np.cumsum(np.bincount(tail, minlength=len(switches)), out=offset[1:])
    inner = parts(Graph(edge_offset=offset, edge_row=head))
    has_joints = np.isin(switches, kns.joint_switch).astype(np.uint8)
    height = kns.stage[switches].astype(np.int64)
    unreached = np.ones(kns.num_lines, dtype=np.int64)
    rooted = False
    while unreached.any():
        up = (height[head] > height[tail]) | ((height[head] == height[tail]) & (head > tail))
        inner_paths(
            inner, up.astype(np.uint8), start, rank, line, has_joints, base, hops, down, order,
            unreached,
        )  # fmt: skip
        assert not (rooted and unreached.any())
        for split in np.flatnonzero(unreached):
            run = slice(start[split], start[split + 1])
            top = np.array([start[split] + int(np.argmax(height[run]))], dtype=np.int32)
            away = np.empty((1, len(switches)), dtype=np.uint16)
            bfs_many(offset, head, top, away)
            height[run] = -away[0, run].astype(np.int64)
        rooted = True
    edge_up = np.zeros(len(graph.edge_row), dtype=np.uint8)
    edge_up[edges] = up
    rank_of_row = np.zeros(graph.num_rows, dtype=np.int32)
    base_of_row = np.zeros(graph.num_rows, dtype=np.int64)
    rank_of_row[switches], base_of_row[switches] = rank, base
    return Lines(
        of_row=kns.line,
        rank=rank_of_row,
        base=base_of_row,
        start=start,
        switches=switches,
        hops=hops,
        down=down,
        order=order,
        up=edge_up,
        cost=1.0 / fabric.link_rate_gbps[graph.edge_link],
    )
