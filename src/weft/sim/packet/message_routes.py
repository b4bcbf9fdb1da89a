"""Routes of messages in the form that packets carry: a LID, a list of links, or an endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.core.frozen import read_only
from weft.fabrics import Fabric
from weft.kernels.packet import choice
from weft.kernels.packet import route as kernel
from weft.kernels.packet.net import RouteTables
from weft.kernels.packet.records import CANDIDATE, ENDPOINT, LANE_ROW, ROUTE
from weft.kernels.records import aligned
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.routing.routes.flows import EndpointFlows, endpoint_out
from weft.routing.routes.intermediates import routed_rows
from weft.sim.keys.routes import KeyedRoutes
from weft.sim.packet.network import PacketNetwork
from weft.sim.static.loads import Ports, host_flows

#: Number of pairs whose paths are checked in one batch.
_CHECKED = 2**20


@dataclass(frozen=True, eq=False)
class MessageRoutes:
    """Routes of pairs of hosts, and the tables with which nodes forward packets."""

    #: Kind of routes, as defined in `weft.kernels.packet.route`, and of lane assignment, as defined
    #: in `weft.kernels.packet.choice`.
    kind: int
    lane_kind: int
    #: `ROUTE` of each pair.
    routes: NDArray[Any]
    #: Tables with which nodes forward packets.
    tables: RouteTables


def message_paths(
    fabric: Fabric,
    routes: Routes,
    network: PacketNetwork,
    sources: NDArray[Any],
    destinations: NDArray[Any],
    *,
    ports: Ports = "first",
    lid_offset: NDArray[Any] | int = 0,
) -> MessageRoutes:
    """Return the routes between pairs of hosts.

    `fabric`, `routes`, `network`: the fabric, its routes and its network at the packet level.
    `sources`, `destinations`: host numbers of equal length; no host is its own destination.
    `ports`, `lid_offset`: as in `weft.sim.static.loads.host_flows`.
    """
    routes.check(fabric)
    graph = fabric.graph
    flows = host_flows(
        fabric, sources, destinations, ports=ports, lid_offset=lid_offset, lmc=routes.lmc
    )
    start, end = flows.sources, flows.destinations
    cabled = (start >= 0) & (end >= 0)
    _refuse(fabric, routes, sources, destinations, ~cabled)
    out = endpoint_out(fabric)[start]
    row = np.where(out >= 0, graph.link_row[out], graph.destination_row[start])
    link = np.where(out >= 0, out, network.inject[graph.destination_row[start]]).astype(np.int32)
    last = graph.destination_link.copy()
    inner = last < 0
    rows = graph.destination_row[inner]
    last[inner] = np.where(network.inject[rows] >= 0, network.inject[rows] + 1, -1)
    forwarding: NDArray[Any] = np.zeros((1, 1), dtype=np.uint8)
    runs = np.zeros(1, dtype=np.int32)
    set_id, set_offset = np.full((1, 1), -1, dtype=np.int32), np.zeros(1, dtype=np.int32)
    candidates = np.zeros(1, dtype=CANDIDATE)
    lids: NDArray[Any] = flows.lids if len(flows.lids) else end
    address: NDArray[Any]
    level = _levels(routes, row, lids)
    lane_kind = choice.KEEP if routes.lanes.is_uniform else choice.BY_PORTS
    if isinstance(routes, TableRoutes):
        kind, address = kernel.TABLES, lids
        _check_tables(fabric, routes, sources, destinations, flows)
        forwarding = routes.table
        if forwarding.dtype != np.uint8:
            forwarding = forwarding.astype(np.uint16)
    elif isinstance(routes, PathRoutes):
        kind = kernel.RUNS
        path = routes.find(fabric, start, end)
        _refuse(fabric, routes, sources, destinations, (path < 0) & (start != end))
        address, runs = _runs(routes, graph.edge_link, path, last[end])
        if routes.sl.ndim:
            level = routes.sl[path]
    elif isinstance(routes, KeyedRoutes):
        kind = kernel.RUNS
        address, runs = _runs_of_links(fabric, routes, flows)
        _refuse(fabric, routes, sources, destinations, (address < 0) & (start != end))
    elif isinstance(routes, CandidateRoutes):
        kind, address = kernel.CANDIDATES, end
        goal = graph.destination_row[end]
        if routes.num_intermediates:
            nowhere = ~routed_rows(fabric, routes)[goal, row]
        else:
            nowhere = (row != goal) & (routes.set_id[goal, row] < 0)
        _refuse(fabric, routes, sources, destinations, nowhere)
        set_id, set_offset = routes.set_id, routes.set_offset
        edge = routes.set_edge
        candidates = aligned(len(edge), CANDIDATE, {"edge": edge, "link": graph.edge_link[edge]})
        if len(routes.set_lane):
            lane_kind = choice.BY_CANDIDATE
            candidates["lane"] = routes.set_lane
    else:
        raise NotApplicable(f"the packet level does not support the routes of {routes.engine}")
    lanes = routes.lanes
    first = lanes.tables[0][level]
    index = lanes.index
    if not lanes.is_uniform:
        # For the link into the first switch, the tables give the lane for input port 0 and the
        # output port to the host.
        port = network.topology.links["head_port"][link]
        first = lanes.tables[index[lanes.base[row] + port], level]
    else:
        index = np.zeros(1, dtype=np.int32)
    lane_rows = np.zeros(max(len(lanes.base), 1), dtype=LANE_ROW)
    if len(lanes.base):
        lane_rows["base"], lane_rows["ports"] = lanes.base, lanes.ports
    endpoints = np.zeros(len(last), dtype=ENDPOINT)
    endpoints["row"], endpoints["last_link"] = graph.destination_row, last
    values = {"link": link, "address": address, "lane": first, "level": level}
    tables = RouteTables(
        forwarding, runs, set_id, set_offset, candidates, endpoints, lanes.tables, index, lane_rows
    )
    # Read-only arrays have a distinct type for the compiler.
    fixed = (read_only(np.ascontiguousarray(each).view()) for each in tables)
    return MessageRoutes(kind, lane_kind, aligned(len(link), ROUTE, values), RouteTables(*fixed))


def _levels(routes: Routes, row: NDArray[Any], lids: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the service level of each pair."""
    sl = np.asarray(routes.sl, dtype=np.uint8)
    if sl.ndim == 2:
        return np.asarray(sl[row, lids])
    if sl.ndim == 1 and isinstance(routes, TableRoutes):
        return np.asarray(sl[lids])
    return np.full(len(row), sl if sl.ndim == 0 else 0, dtype=np.uint8)


def _runs(
    routes: PathRoutes, edge_link: NDArray[np.int32], path: NDArray[np.int32], last: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the first index of each pair's path in an array of links, and that array.

    Each path is followed by the link to its destination.
    """
    known = path >= 0
    begin = np.where(known, routes.offset[path], 0)
    length = np.where(known, routes.offset[path + 1] - begin, 0)
    offset = np.zeros(len(path) + 1, dtype=np.int64)
    np.cumsum(length + 1, out=offset[1:])
    links = np.empty(offset[-1], dtype=np.int32)
    pair = np.repeat(np.arange(len(path)), length)
    step = np.arange(len(pair)) - np.repeat(np.cumsum(length) - length, length)
    links[offset[pair] + step] = edge_link[routes.edge[begin[pair] + step]]
    links[offset[1:] - 1] = last
    return offset[:-1], links


def _runs_of_links(
    fabric: Fabric, routes: Routes, flows: EndpointFlows
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the arrays of `_runs` for routes of any kind with one path per flow.

    The first index of a flow without a path is -1.
    """
    offset, link = routes.links(fabric, flows)
    lost = np.diff(offset) == 0
    # The link from the host is not part of a run: its packets begin on it.
    outside = endpoint_out(fabric)[flows.sources] >= 0
    begin = offset[:-1] + outside
    return np.where(lost, -1, begin), link


def _check_tables(
    fabric: Fabric,
    routes: TableRoutes,
    sources: NDArray[Any],
    destinations: NDArray[Any],
    flows: EndpointFlows,
) -> None:
    """Refuse pairs whose path does not reach the destination."""
    unrouted = np.zeros(len(flows.sources), dtype=bool)
    for first in range(0, len(unrouted), _CHECKED):
        part = slice(first, first + _CHECKED)
        unrouted[part] = np.diff(routes.links(fabric, flows.part(part))[0]) == 0
    _refuse(fabric, routes, sources, destinations, unrouted)


def _refuse(
    fabric: Fabric,
    routes: Routes,
    sources: NDArray[Any],
    destinations: NDArray[Any],
    unrouted: NDArray[np.bool_],
) -> None:
    """Refuse pairs without a path; the message names the first one."""
    missing = np.flatnonzero(unrouted)
    if not len(missing):
        return
    names = (fabric.host_names[int(ends[missing[0]])] for ends in (sources, destinations))
    more = f", and none for {len(missing) - 1} more pairs" if len(missing) > 1 else ""
    raise InputError(
        f"there is no path from {' to '.join(names)} in the {routes.engine} routes of "
        f"{fabric.name}{more}"
    )
