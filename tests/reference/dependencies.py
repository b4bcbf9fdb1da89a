"""Reference implementation of the deadlock proof: every possible packet, channel by channel.

A channel is a pair (link between rows, VL). A packet that holds one channel and requests the next
makes a dependency, whether it is delivered in the end, dropped, or caught in a loop.
"""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np

from tests.reference.routing import destinations, out_link
from weft.fabrics import Fabric
from weft.routing.routes import CandidateRoutes, PathRoutes, Routes, TableRoutes

Channel = tuple[int, int]


def dependency_graph(fabric: Fabric, routes: Routes, *, management: bool = False) -> nx.DiGraph:
    """Return the channels with traffic, with an edge from each to those that it depends on."""
    graph = nx.DiGraph()
    if isinstance(routes, TableRoutes):
        walks = list(_by_tables(fabric, routes, management))
    elif isinstance(routes, PathRoutes):
        walks = list(_by_paths(fabric, routes))
    else:
        assert isinstance(routes, CandidateRoutes)
        walks = list(_by_candidates(fabric, routes, management))
    for walk in walks:
        graph.add_nodes_from(walk)
        nx.add_path(graph, walk)
    return graph


def cycles(graph: nx.DiGraph) -> list[set[Channel]]:
    """Return the sets of channels that wait for each other in a cycle."""
    parts = nx.strongly_connected_components(graph)
    return [part for part in parts if len(part) > 1 or any(graph.has_edge(c, c) for c in part)]


def senders(fabric: Fabric, management: bool) -> list[int]:
    """Return the indices of the endpoints that send and receive."""
    hosts = range(fabric.num_switches, fabric.num_switches + fabric.num_hosts)
    node_ports = enumerate(destinations(fabric))
    return [number for number, (node, _) in node_ports if management or node in hosts]


def _lane(routes: Routes, row: int, port_in: int, port_out: int, level: int) -> int:
    lanes = routes.lanes
    if lanes.is_uniform:
        return int(lanes.tables[0, level])
    cell = lanes.base[row] + port_in * lanes.ports[row] + port_out
    return int(lanes.tables[lanes.index[cell], level])


def _entry(fabric: Fabric, node_port: tuple[int, int]) -> tuple[int, int]:
    """Return (node, port) at which packets of an endpoint enter; (node, 0) if its node forwards."""
    if fabric.forwards[node_port[0]]:
        return node_port[0], 0
    link = out_link(fabric, *node_port)
    return int(fabric.link_to[link]), int(fabric.link_to_port[link])


def _by_tables(fabric: Fabric, routes: TableRoutes, management: bool) -> Iterator[list[Channel]]:
    node_ports = destinations(fabric)
    row_of = {int(node): row for row, node in enumerate(np.flatnonzero(fabric.forwards))}
    sl = np.asarray(routes.sl)
    ends = [n for n in senders(fabric, management) if _entry(fabric, node_ports[n])[0] in row_of]
    for source in ends:
        start, first_port = _entry(fabric, node_ports[source])
        for target in ends:
            if source == target:
                continue
            for lid in range(target << routes.lmc, (target + 1) << routes.lmc):
                level = int(sl[(row_of[start], lid)[2 - sl.ndim :]])
                yield _walk(fabric, routes, row_of, start, first_port, lid, level)


def _walk(
    fabric: Fabric, routes: TableRoutes, row_of: dict[int, int], node: int, port_in: int, lid: int,
    level: int,
) -> list[Channel]:  # fmt: skip
    """Return one packet's channels, until it is delivered, dropped, or repeats a channel."""
    walk: list[Channel] = []
    while True:
        row = row_of[node]
        port = int(routes.table[lid, row])
        link = out_link(fabric, node, port)
        if port == routes.no_path or link < 0 or int(fabric.link_to[link]) not in row_of:
            return walk
        channel = (link, _lane(routes, row, port_in, port, level))
        again = channel in walk
        walk.append(channel)
        if again:
            return walk
        node, port_in = int(fabric.link_to[link]), int(fabric.link_to_port[link])


def _by_paths(fabric: Fabric, routes: PathRoutes) -> Iterator[list[Channel]]:
    node_ports = destinations(fabric)
    row_of = {int(node): row for row, node in enumerate(np.flatnonzero(fabric.forwards))}
    levels = np.broadcast_to(routes.sl, len(routes.pair))
    for path, pair in enumerate(routes.pair.tolist()):
        node, port_in = _entry(fabric, node_ports[pair // fabric.num_host_endpoints])
        walk = []
        for edge in routes.edge[routes.offset[path] : routes.offset[path + 1]].tolist():
            link = int(fabric.graph.edge_link[edge])
            port = int(fabric.link_from_port[link])
            walk.append((link, _lane(routes, row_of[node], port_in, port, int(levels[path]))))
            node, port_in = int(fabric.link_to[link]), int(fabric.link_to_port[link])
        yield walk


def _by_candidates(
    fabric: Fabric, routes: CandidateRoutes, management: bool
) -> Iterator[list[Channel]]:
    """Yield single channels and pairs of consecutive channels."""
    graph = fabric.graph
    node_ports = destinations(fabric)
    row_of = {int(node): row for row, node in enumerate(np.flatnonzero(fabric.forwards))}
    nodes = {_entry(fabric, node_ports[number])[0] for number in senders(fabric, management)}
    rows = [row_of[node] for node in nodes if node in row_of]
    via = routes.via.tolist() if len(routes.via) else [-1] * len(row_of)
    plain_lane = int(routes.lanes.tables[0, int(routes.sl)])
    for source in rows:
        for target in rows:
            if source == target:
                continue
            vias: set[int | None] = {None}
            if min(via[source], via[target]) >= 0 and via[source] != via[target]:
                vias = set(range(routes.num_intermediates)) - {via[source], via[target]}
                vias |= {None} if routes.direct else set()
            todo: list[tuple[int, int | None, Channel | None]] = [(source, v, None) for v in vias]
            seen = set(todo)
            while todo:
                row, v, before = todo.pop()
                if v is not None and via[row] == v:
                    v = None
                if v is None and row == target:
                    continue
                number = int(routes.set_id[target, row] if v is None else routes.via_set[v, row])
                if number < 0:
                    continue
                for k in range(routes.set_offset[number], routes.set_offset[number + 1]):
                    edge = int(routes.set_edge[k])
                    lane = int(routes.set_lane[k]) if len(routes.set_lane) else plain_lane
                    channel = (int(graph.edge_link[edge]), lane)
                    yield [channel] if before is None else [before, channel]
                    following = (int(graph.edge_row[edge]), v, channel)
                    if following not in seen:
                        seen.add(following)
                        todo.append(following)
