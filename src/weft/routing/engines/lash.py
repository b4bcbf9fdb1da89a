"""lash: shortest paths chosen together with the virtual lanes that keep them from deadlock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.routing.lash import layered_paths, spread_ways, widen_orders
from weft.routes import TableRoutes, VirtualLanes
from weft.routing.engine_registry import (
    PASSES,
    check_lmc,
    destination_ports,
    empty_table,
    engine,
    fill_balanced,
    provenance,
    row_sources,
    sending_rows,
    worst_load,
)
from weft.routing.lane_assignment import (
    MOST_LANES,
    Ways,
    check_vls,
    edges_back,
    refuse_lanes,
    waits,
)

#: On fabrics with more edges only one way to choose paths is tried, and none where two lanes do
#: and are there.
MANY_EDGES = 1500


@engine("lash", deadlock_free=True, lmc=True)
def lash(
    fabric: Fabric,
    *,
    lmc: int = 0,
    passes: int = PASSES,
    max_vls: int = 8,
    management: bool = False,
) -> TableRoutes:
    """Shortest paths in layers: as few virtual lanes as possible first, balance second.

    Parameters
    ----------
    fabric
        Any fabric.
    lmc
        Each endpoint gets 2^lmc LIDs, with paths of their own.
    passes
        How often the paths to each LID are chosen again for balance, in the lanes that are
        there; 0 keeps one path for all hosts of a switch, as OpenSM's does.
    max_vls
        Virtual lanes that there are, 1 to 15.
    management
        Give lanes to the ways from and to switches, too. OpenSM's always does.

    Raises
    ------
    NotApplicable
        When the fabric has nothing that forwards, or more than `max_vls` lanes would be needed.
    InputError
        When an option is out of range.

    Notes
    -----
    Every pair of switches takes a shortest path in the lowest lane that takes one without closing
    a cycle; of two ways to choose among those the one with fewer lanes is kept. What was a cycle
    stays out, so the order of turns comes by itself where OpenSM needs ``--do_mesh_analysis``.
    The service level depends on the switch at the source and the LID; SL i is VL i everywhere.
    Source: Skeie, Lysne and Theiss 2002; Sancho, Robles and Duato for choosing paths by the turns
    that are taken.
    """
    check_lmc(fabric, lmc)
    check_vls(max_vls)
    if passes < 0:
        raise InputError(f"passes must be at least 0, not {passes}")
    tried = list(_attempts(fabric, lmc, passes, max_vls, management))
    fewest = min(layers.used for layers in tried)
    refuse_lanes(fewest, max_vls)
    tried = [layers for layers in tried if layers.used == fewest]
    best = min(tried, key=lambda layers: worst_load(fabric, layers.table, lmc))
    return TableRoutes(
        **provenance(fabric, "lash"),
        table=best.table,
        lmc=lmc,
        sl=best.sl,
        lanes=VirtualLanes.uniform(range(best.used)),
    )


@dataclass(frozen=True)
class _Layers:
    """One set of paths in lanes.

    Parameters
    ----------
    table, sl, used
        As in the result; `used` lanes.
    """

    table: NDArray[np.unsignedinteger[Any]]
    sl: NDArray[np.uint8]
    used: int


def _attempts(
    fabric: Fabric, lmc: int, passes: int, max_vls: int, management: bool
) -> Iterator[_Layers]:
    """Sets of paths to choose from."""
    cost = 1.0 / fabric.link_rate_gbps[fabric.graph.edge_link]
    fewest = MOST_LANES + 1
    if passes:
        table = empty_table(fabric, lmc)
        fill_balanced(fabric, table, lmc=lmc, passes=passes)
        ways = Ways.of(fabric, table, lmc, management)
        lanes, _ = ways.fewest(max_vls, easy=True)
        fewest = int(lanes.max(initial=0)) + 1
        yield _Layers(table, ways.service_levels(lanes), fewest)
    many = len(cost) > MANY_EDGES
    if many and fewest <= min(2, max_vls):
        return
    for frugal in (False,) if many else (False, True):
        table = empty_table(fabric, lmc)
        load = np.zeros(len(cost), dtype=np.int64)
        layer = _choose_trees(fabric, table, lmc, management, frugal, cost, load)
        ways = Ways.of(fabric, table, lmc, management)
        start = layer[fabric.graph.destination_row[ways.lines >> lmc]]
        lanes, place = ways.fewest(max_vls, start)
        used = int(lanes.max(initial=0)) + 1
        if used > fewest:
            continue
        fewest = used
        sl = ways.service_levels(lanes)
        if passes and used <= MOST_LANES:
            _spread(ways, lanes, place, table, lmc, passes, cost, load, sl)
        yield _Layers(table, sl, used)


def _choose_trees(
    fabric: Fabric,
    table: NDArray[np.unsignedinteger[Any]],
    lmc: int,
    management: bool,
    frugal: bool,
    cost: NDArray[np.float64],
    load: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """Fill tables with one path for each pair of rows; returns lanes, uint8 [rows, rows]."""
    graph = fabric.graph
    rows = graph.num_rows
    edges = len(graph.edge_row)
    sources = row_sources(fabric)
    counts = np.zeros(rows, dtype=np.uint8)
    counts[np.arange(rows) if management else sending_rows(fabric)] = 1
    hosts = graph.destination_row[: fabric.num_host_endpoints]
    wanted = np.bincount(hosts[hosts >= 0], minlength=rows) << lmc
    weight = np.maximum(wanted, 1) if management else wanted
    graph.need_memory(rows, 6, "paths")
    chosen = np.empty((rows, rows), dtype=np.int32)
    layer = np.empty((rows, rows), dtype=np.uint8)
    layered_paths(
        graph.edge_offset, graph.edge_row, graph.edge_tail, edges_back(fabric), cost,
        waits(fabric), np.arange(rows, dtype=np.int32), counts, sources, weight, frugal,
        MOST_LANES, np.tile(np.arange(edges, dtype=np.int32), (MOST_LANES, 1)), load, chosen,
        layer,
    )  # fmt: skip
    ports = np.full((rows, rows), np.iinfo(table.dtype).max, dtype=table.dtype)
    there = chosen >= 0
    ports[there] = graph.edge_port[chosen[there]]
    destinations = np.flatnonzero(graph.destination_row >= 0)
    lids = ((destinations[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1)
    goals = graph.destination_row[lids >> lmc]
    table[lids] = ports[goals]
    table[lids, goals] = destination_ports(fabric)[lids >> lmc]
    return layer


def _spread(
    ways: Ways,
    lanes: NDArray[np.uint8],
    place: NDArray[np.int32],
    table: NDArray[np.unsignedinteger[Any]],
    lmc: int,
    passes: int,
    cost: NDArray[np.float64],
    load: NDArray[np.int64],
    sl: NDArray[np.uint8],
) -> None:
    """Balance the ways to each host LID within the orders of the lanes."""
    fabric, graph = ways.fabric, ways.fabric.graph
    hosts = np.flatnonzero(graph.destination_row[: fabric.num_host_endpoints] >= 0)
    hosts = hosts[np.argsort(graph.destination_row[hosts], kind="stable")]
    lids = ((hosts[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1).astype(np.int32)
    goals = graph.destination_row[lids >> lmc]
    sources = row_sources(fabric)
    widen_orders(
        graph.edge_offset, graph.edge_row, graph.edge_tail, edges_back(fabric), waits(fabric),
        np.unique(goals), ways.counts, (sources > 0).astype(np.uint8), graph.row_base,
        graph.slot_edge, table, ways.lines, lanes, place,
    )  # fmt: skip
    found = np.empty((len(lids), graph.num_rows), dtype=np.uint8)
    spread_ways(
        graph.edge_offset, graph.edge_row, graph.edge_port, cost, graph.row_base, graph.slot_edge,
        lids, goals, ways.counts, sources, place, passes, load, table, found,
    )  # fmt: skip
    sl[:, lids] = found.T
