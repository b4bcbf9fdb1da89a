"""Loads of all-to-all traffic, in which every host sends to every other host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.frozen import read_only
from weft.fabrics import Fabric
from weft.kernels.routes.all_to_all import all_to_all_table_loads
from weft.kernels.routes.split import split_loads
from weft.kernels.routes.walk import row_users
from weft.routing.engine_registry import row_sources
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes
from weft.routing.routes.flows import EndpointFlows, endpoint_out
from weft.routing.routes.intermediates import routed_rows
from weft.routing.validation.validate import reached_rows
from weft.sim.static.loads import Loads, flow_loads, host_flows, link_users, round_loads

#: Largest number of pairs of hosts whose flows are listed.
MAX_LISTED_FLOWS = 2**22


@dataclass(frozen=True, eq=False)
class LinkGroups:
    """Flows over one link, grouped by the forwarding nodes of their hosts."""

    #: int64 [groups]: the forwarding node to which the sending and the receiving hosts are
    #: connected; for a host that forwards, the host itself.
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    #: int64 [groups]: number of flows.
    flows: NDArray[np.int64]


def within_machines(fabric: Fabric) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all ordered pairs of different hosts of one machine, as host numbers."""
    groups = [np.array(hosts) for hosts in fabric.machines.values() if len(hosts) > 1]
    pairs = [(np.repeat(group, len(group)), np.tile(group, len(group))) for group in groups]
    ends = np.concatenate([np.zeros((2, 0), dtype=np.int64), *map(np.array, pairs)], axis=1)
    different = ends[0] != ends[1]
    return ends[0][different], ends[1][different]


def loads_between_machines(fabric: Fabric, routes: Routes) -> Loads:
    """Return the loads of one flow from every host to every host of another machine.

    If the fabric has the inside of machines, flows inside them cross it and count as well.
    For routes with intermediates on many hosts, flows within machines count as well.
    """
    inside = within_machines(fabric)
    if not len(inside[0]):
        return all_to_all_loads(fabric, routes)
    if routes.num_intermediates and fabric.num_hosts**2 <= MAX_LISTED_FLOWS:
        source, target = np.divmod(np.arange(fabric.num_hosts**2), fabric.num_hosts)
        away = fabric.apart(source, target)
        flows = host_flows(fabric, source[away], target[away], lmc=routes.lmc)
        return flow_loads(fabric, routes, flows)
    every = all_to_all_loads(fabric, routes)
    if routes.num_intermediates:
        return every
    less = flow_loads(fabric, routes, host_flows(fabric, *inside, lmc=routes.lmc, scale_up=False))
    more = Loads(np.zeros_like(every.per_link), 0, 0)
    if fabric.machine_model is not None:
        more = flow_loads(fabric, routes, host_flows(fabric, *inside, lmc=routes.lmc))
    return Loads(
        every.per_link - less.per_link + more.per_link, every.flows - less.flows + more.flows,
        every.unrouted - less.unrouted + more.unrouted,
    )  # fmt: skip


def all_to_all_loads(fabric: Fabric, routes: Routes) -> Loads:
    """Return the loads of one flow from every host to every other host, without listing flows.

    The result equals `link_loads` for all ordered pairs of different hosts (first port, LID
    offset 0), but flows are counted per switch: 46,656 hosts take about a second.

    Returns int64 loads, or float64 loads if routes are candidates; a flow without a path adds no
    load.
    """
    routes.check(fabric)
    hosts = fabric.num_hosts
    pairs = hosts * (hosts - 1)
    graph = fabric.graph
    endpoint = fabric.host_endpoint
    row = np.where(endpoint >= 0, graph.destination_row[np.maximum(endpoint, 0)], -1)
    joined = endpoint[row >= 0]
    uncabled = pairs - len(joined) * (len(joined) - 1)
    loads, unrouted, minimal_share = _loads(routes, fabric, joined)
    return Loads(loads, pairs, unrouted + uncabled, minimal_share)


@singledispatch
def _loads(
    routes: Routes, fabric: Fabric, joined: NDArray[np.int32]
) -> tuple[NDArray[Any], int, float]:
    """Return link loads, the number of flows without a path, and the share of minimal paths.

    Only flows between the endpoints `joined` are counted.
    """
    raise NotApplicable(f"{routes.engine} does not define the links of a flow")


@_loads.register
def _of_tables(
    routes: TableRoutes, fabric: Fabric, joined: NDArray[np.int32]
) -> tuple[NDArray[Any], int, float]:
    graph = fabric.graph
    loads = np.zeros(fabric.num_links, dtype=np.int64)
    unrouted = all_to_all_table_loads(
        routes.table, (joined << routes.lmc).astype(np.int32), graph.destination_row[joined],
        graph.destination_link[joined], graph.parts, row_sources(fabric), routes.no_path, loads,
    )  # fmt: skip
    # A host injects the flows that have a path; all flows have one unless routes are broken.
    out = endpoint_out(fabric)[joined]
    if unrouted == 0:
        loads[out[out >= 0]] += len(joined) - 1
    else:
        loads[out[out >= 0]] += _delivered_by_host(fabric, routes, joined)[out >= 0]
    return loads, int(unrouted), float("nan")


@_loads.register
def _of_paths(
    routes: PathRoutes, fabric: Fabric, joined: NDArray[np.int32]
) -> tuple[NDArray[Any], int, float]:
    flows = _listed(fabric, routes, joined)
    unrouted = len(joined) * (len(joined) - 1) - len(flows.sources)
    return routes.link_loads(fabric, flows)[0], unrouted, float("nan")


def _delivered_by_host(
    fabric: Fabric, routes: TableRoutes, joined: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return the number of destinations that each connected host reaches."""
    rows = fabric.graph.destination_row[joined]
    reached = reached_rows(fabric, routes, joined)
    own = reached[np.arange(len(joined)), rows]
    delivered: NDArray[np.int64] = reached.sum(axis=0)[rows] - own
    return delivered


@_loads.register
def _split(
    routes: CandidateRoutes, fabric: Fabric, joined: NDArray[np.int32]
) -> tuple[NDArray[Any], int, float]:
    """Route one weighted flow for each pair of rows with hosts, and add the loads of host links.

    The flow is between one representative endpoint of each row.
    """
    graph = fabric.graph
    sources = row_sources(fabric)
    if routes.num_intermediates:
        return _split_round(fabric, routes, joined)
    leaves = np.flatnonzero(sources)
    endpoint_of = np.full(graph.num_rows, -1, dtype=np.int32)
    endpoint_of[graph.destination_row[joined][::-1]] = joined[::-1]
    start, end = np.meshgrid(leaves, leaves)
    start, end = start[start != end], end[start != end]
    weight = (sources[start] * sources[end]).astype(np.float64)
    offset = np.zeros(graph.num_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(end, minlength=graph.num_rows), out=offset[1:])
    order = np.argsort(end, kind="stable").astype(np.int32)
    nothing = np.full(fabric.num_destinations, -1, dtype=np.int32)
    loads = np.zeros(fabric.num_links)
    split_loads(
        routes.set_id, routes.set_offset, routes.set_edge, graph.parts, read_only(nothing.view()),
        nothing, offset, order, endpoint_of[start], endpoint_of[end], weight, loads,
    )  # fmt: skip
    reached = (routes.set_id[end, start] >= 0) * weight
    unrouted = float(weight.sum() - reached.sum())
    rows = graph.destination_row[joined]
    per_source = np.bincount(start, weights=reached, minlength=graph.num_rows)
    per_target = np.bincount(end, weights=reached, minlength=graph.num_rows)
    out = endpoint_out(fabric)[joined]
    own = sources[rows] - 1
    wired = out >= 0
    loads[out[wired]] += (per_source[rows] / sources[rows] + own)[wired]
    back = graph.destination_link[joined]
    loads[back[wired]] += (per_target[rows] / sources[rows] + own)[wired]
    return loads, round(unrouted), float("nan")


def _split_round(
    fabric: Fabric, routes: CandidateRoutes, joined: NDArray[np.int32]
) -> tuple[NDArray[Any], int, float]:
    """Return the same as `_split` for routes with intermediates."""
    graph = fabric.graph
    sources = row_sources(fabric)
    routed = np.where(routed_rows(fabric, routes), np.outer(sources, sources), 0)
    np.fill_diagonal(routed, sources * (sources - 1))
    edges, share = round_loads(fabric, routes, routed.astype(np.float64))
    loads = np.zeros(fabric.num_links)
    loads[graph.edge_link] += edges
    rows = graph.destination_row[joined]
    back = graph.destination_link[joined]
    wired = back >= 0
    loads[back[wired] ^ 1] += (routed.sum(axis=0)[rows] / sources[rows])[wired]
    loads[back[wired]] += (routed.sum(axis=1)[rows] / sources[rows])[wired]
    unrouted = len(joined) * (len(joined) - 1) - int(routed.sum())
    return loads, unrouted, share


def all_to_all_users(
    fabric: Fabric, routes: Routes, links: NDArray[np.integer[Any]]
) -> list[LinkGroups]:
    """Return the flows over links, grouped by switch, if hosts send to those of other machines.

    The result equals `link_users` for all ordered pairs of hosts of different machines (first port,
    LID offset 0), grouped by switch without a list of all flows: with forwarding tables, all
    packets from the hosts of one switch to one destination have the same path. Flows inside
    machines are left out.

    `fabric`, `routes`: as in `all_to_all_loads`; the routes must have a single path for each flow.
    `links`: directed links, each at most once.
    """
    routes.check(fabric)
    graph = fabric.graph
    endpoint = fabric.host_endpoint[fabric.host_endpoint >= 0]
    endpoint = endpoint[graph.destination_row[endpoint] >= 0]
    index, start, end, flows = _users(routes, fabric, endpoint, links)
    inside = host_flows(fabric, *within_machines(fabric), lmc=routes.lmc, scale_up=False)
    if len(inside.sources):
        ends = [
            graph.destination_row[each].astype(np.int64)
            for each in (inside.sources, inside.destinations)
        ]
        key = (index.astype(np.int64) * graph.num_rows + start) * graph.num_rows + end
        place = {each: at for at, each in enumerate(key.tolist())}
        for number, through in enumerate(link_users(fabric, routes, inside, links)):
            theirs = (number * graph.num_rows + ends[0]) * graph.num_rows + ends[1]
            group, count = np.unique(theirs[through], return_counts=True)
            flows[[place[each] for each in group.tolist()]] -= count
        some = flows > 0
        index, start, end, flows = (each[some] for each in (index, start, end, flows))
    order = np.argsort(index, kind="stable")
    cuts = np.cumsum(np.bincount(index, minlength=len(links)))[:-1]
    node = graph.row_node.astype(np.int64)
    parts = zip(*(np.split(x[order], cuts) for x in (node[start], node[end], flows)), strict=True)
    return [LinkGroups(*part) for part in parts][: len(links)]


@singledispatch
def _users(
    routes: Routes, fabric: Fabric, endpoint: NDArray[np.int32], links: NDArray[np.integer[Any]]
) -> tuple[NDArray[Any], ...]:
    """Return the index in `links`, source row, destination row and size of each group of flows."""
    raise NotApplicable(f"{routes.engine} leaves the path of a flow to a policy")


@_users.register
def _table_users(
    routes: TableRoutes,
    fabric: Fabric,
    endpoint: NDArray[np.int32],
    links: NDArray[np.integer[Any]],
) -> tuple[NDArray[Any], ...]:
    graph = fabric.graph
    slot = np.full(fabric.num_links, -1, dtype=np.int32)
    used = np.flatnonzero(graph.row_link >= 0)
    slot[graph.row_link[used]] = used
    # For a link from a host, `sender` is the endpoint at its tail and `at` the row at its head.
    sender = np.full(fabric.num_links, -1, dtype=np.int32)
    out = endpoint_out(fabric)[endpoint]
    sender[out[out >= 0]] = endpoint[out >= 0]
    carries = np.flatnonzero((slot[links] >= 0) | (sender[links] >= 0))
    known = np.asarray(links)[carries]
    leaves = graph.node_row[fabric.link_from[known]]
    at = np.where(slot[known] >= 0, leaves, graph.link_row[known])
    targets = endpoint[np.argsort(graph.destination_row[endpoint], kind="stable")]
    index, start, end, flows = row_users(
        routes.table, targets << routes.lmc, targets, graph.parts, routes.no_path,
        row_sources(fabric), slot[known], at, sender[known],
    )  # fmt: skip
    return carries[index], start, end, flows


@_users.register
def _path_users(
    routes: PathRoutes,
    fabric: Fabric,
    endpoint: NDArray[np.int32],
    links: NDArray[np.integer[Any]],
) -> tuple[NDArray[Any], ...]:
    rows = fabric.graph.num_rows
    flows = _listed(fabric, routes, endpoint)
    row = fabric.graph.destination_row.astype(np.int64)
    key = [
        index * rows**2 + row[flows.sources[through]] * rows + row[flows.destinations[through]]
        for index, through in enumerate(link_users(fabric, routes, flows, links))
    ]
    group, count = np.unique(np.concatenate([*key, np.zeros(0, int)]), return_counts=True)
    group = group.astype(np.int64)
    return group // rows**2, group // rows % rows, group % rows, count


def _listed(fabric: Fabric, routes: PathRoutes, endpoint: NDArray[np.int32]) -> EndpointFlows:
    """Return a flow for each path between two of the endpoints."""
    ends = np.divmod(routes.pair, fabric.num_host_endpoints)
    counted = np.isin(ends[0], endpoint) & np.isin(ends[1], endpoint) & (ends[0] != ends[1])
    source, target = (end[counted].astype(np.int32) for end in ends)
    nothing = np.zeros(0, dtype=np.int32)
    return EndpointFlows(
        source, target, nothing, np.arange(len(source), dtype=np.int32), np.zeros(0)
    )
