"""lash: minimal paths, chosen together with virtual lanes that make them deadlock-free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from weft.fabrics import Fabric
from weft.kernels.routing.distances import search_space
from weft.kernels.routing.lane_assignment import no_dependencies
from weft.kernels.routing.lash import layered_paths, spread_paths, widen_orders
from weft.routing.engine_registry import (
    PASSES,
    destination_ports,
    empty_table,
    engine,
    fill_balanced,
    row_sources,
    sending_rows,
    worst_load,
)
from weft.routing.lane_assignment import MOST_LANES, MaxVls, TablePaths, in_lanes, refuse_lanes
from weft.routing.opensm.ports import check_lmc
from weft.routing.routes import TableRoutes

#: On fabrics with more edges, only one rule to choose paths is tried. If balanced minimal paths
#: need at most two lanes and these are available, no rule is tried.
MANY_EDGES = 1500


@engine("lash", deadlock_free=True, lmc=True)
def lash(
    fabric: Fabric,
    *,
    lmc: int = 0,
    passes: Annotated[int, Field(ge=0, le=100)] = PASSES,
    max_vls: MaxVls = 8,
    management: bool = False,
) -> TableRoutes:
    """Route on minimal paths in few virtual lanes; the balance of links breaks ties.

    Parameters
    ----------
    fabric
        Any fabric.
    lmc
        LMC: each endpoint gets 2^lmc LIDs; each LID has separate paths.
    passes
        Number of times that the paths to each LID are chosen again for balance, in the same lanes;
        0 uses the same path to all hosts of a switch, as in OpenSM.
    max_vls
        Number of available virtual lanes, 1 to 15.
    management
        Also assign lanes to paths from and to switches, as OpenSM always does.

    Raises
    ------
    NotApplicable
        If the fabric has no row, or the search finds no assignment to `max_vls` lanes.
    InputError
        If an option is out of range.

    Notes
    -----
    Each pair of switches gets a minimal path, in the lowest lane in which such a path closes no
    cycle of dependencies. Several rules to choose among minimal paths are tried, and the result
    with the fewest lanes is used. A dependency that closes a cycle in a lane is excluded from that
    lane for all later paths; on meshes this leads to dimension order without OpenSM's
    ``--do_mesh_analysis``. The service level depends on the source's switch and the destination's
    LID. On all links, SL i is mapped to VL i. Source: Skeie, Lysne and Theiss 2002; Sancho, Robles
    and Duato for choosing paths by the dependencies in use.
    """
    check_lmc(lmc)
    attempts = list(_attempts(fabric, lmc, passes, max_vls, management))
    fewest = min(layers.used for layers in attempts)
    refuse_lanes(fewest, max_vls)
    attempts = [layers for layers in attempts if layers.used == fewest]
    best = min(attempts, key=lambda layers: worst_load(fabric, layers.table, lmc))
    return in_lanes("lash", fabric, best.table, best.sl, best.used, lmc=lmc)


@dataclass(frozen=True)
class _Layers:
    """One set of paths: table and service levels as in the routes, and number of lanes in use."""

    table: NDArray[np.unsignedinteger[Any]]
    sl: NDArray[np.uint8]
    used: int


def _attempts(
    fabric: Fabric, lmc: int, passes: int, max_vls: int, management: bool
) -> Iterator[_Layers]:
    """Yield sets of paths to choose from."""
    cost = 1.0 / fabric.link_rate_gbps[fabric.graph.edge_link]
    fewest = MOST_LANES + 1
    if passes:
        table = empty_table(fabric, lmc)
        fill_balanced(fabric, table, lmc=lmc, passes=passes)
        paths = TablePaths.of(fabric, table, lmc, management)
        lanes, _ = paths.fewest(max_vls, easy=True)
        fewest = int(lanes.max(initial=0)) + 1
        yield _Layers(table, paths.service_levels(lanes), fewest)
    many = len(cost) > MANY_EDGES
    if many and fewest <= min(2, max_vls):
        return
    for frugal in (False,) if many else (False, True):
        table = empty_table(fabric, lmc)
        load = np.zeros(len(cost), dtype=np.int64)
        layer = _choose_trees(fabric, table, lmc, management, frugal, cost, load)
        paths = TablePaths.of(fabric, table, lmc, management)
        start = layer[fabric.graph.destination_row[paths.lines >> lmc]]
        lanes, position = paths.fewest(max_vls, start)
        used = int(lanes.max(initial=0)) + 1
        if used > fewest:
            continue
        fewest = used
        sl = paths.service_levels(lanes)
        if passes and used <= MOST_LANES:
            _spread(paths, lanes, position, table, lmc, passes, cost, load, sl)
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
    """Fill tables with one path for each pair of rows.

    Return the lane of each path, uint8 [target rows, rows].
    """
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
        graph.parts, cost, counts, sources, weight,
        frugal, np.tile(np.arange(edges, dtype=np.int32), (MOST_LANES, 1)), load, chosen, layer,
        search_space(rows, edges), no_dependencies(rows, graph.first_dependency, MOST_LANES),
    )  # fmt: skip
    ports = np.full((rows, rows), np.iinfo(table.dtype).max, dtype=table.dtype)
    routed = chosen >= 0
    ports[routed] = graph.edge_port[chosen[routed]]
    destinations = np.flatnonzero(graph.destination_row >= 0)
    lids = ((destinations[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1)
    goals = graph.destination_row[lids >> lmc]
    table[lids] = ports[goals]
    table[lids, goals] = destination_ports(fabric)[lids >> lmc]
    return layer


def _spread(
    paths: TablePaths,
    lanes: NDArray[np.uint8],
    position: NDArray[np.int32],
    table: NDArray[np.unsignedinteger[Any]],
    lmc: int,
    passes: int,
    cost: NDArray[np.float64],
    load: NDArray[np.int64],
    sl: NDArray[np.uint8],
) -> None:
    """Balance the paths to each host LID; each path ascends in the edge order of its lane."""
    fabric, graph = paths.fabric, paths.fabric.graph
    hosts = np.flatnonzero(graph.destination_row[: fabric.num_host_endpoints] >= 0)
    hosts = hosts[np.argsort(graph.destination_row[hosts], kind="stable")]
    lids = ((hosts[:, None] << lmc) + np.arange(1 << lmc)).reshape(-1).astype(np.int32)
    goals = graph.destination_row[lids >> lmc]
    sources = row_sources(fabric)
    search = search_space(graph.num_rows, len(graph.edge_row))
    widen_orders(
        graph.parts, np.unique(goals), paths.counts, (sources > 0).astype(np.uint8),
        table, paths.lines, lanes, position, search,
        no_dependencies(graph.num_rows, graph.first_dependency, len(position)),
    )  # fmt: skip
    new_lanes = np.empty((len(lids), graph.num_rows), dtype=np.uint8)
    spread_paths(
        graph.parts, cost, lids, goals, paths.counts, sources, position, passes, load, table,
        new_lanes, search,
    )  # fmt: skip
    sl[:, lids] = new_lanes.T
