"""Hybrid-DOR as in the paper on KNS over InfiniBand, and a measure of its lanes' benefit."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np

from tests.reference.routing import destinations, follow, out_link
from weft.fabrics import Fabric
from weft.routing.routes import TableRoutes


def neighbours(fabric: Fabric, node: int) -> dict[int, int]:
    """Return the port to each neighbour (the lowest of parallel ones), in ascending order."""
    ports: dict[int, int] = {}
    for port in range(1, int(fabric.num_ports[node]) + 1):
        link = out_link(fabric, node, port)
        if link >= 0:
            ports.setdefault(int(fabric.link_to[link]), port)
    return ports


def paper_coordinates(fabric: Fabric) -> tuple[dict[int, list[int]], dict[int, tuple[int, int]]]:
    """Apply sections 3.2.2 and 3.2.3, for two dimensions and lines of one switch.

    Return the coordinates of each router, and (dimension, index) of each line's switch.
    """
    near = {node: neighbours(fabric, node) for node in range(fabric.num_switches)}
    routers = [node for node in near if any(other >= fabric.num_switches for other in near[node])]
    lines = [node for node in near if node not in routers]
    where: dict[int, list[int]] = {}
    line_index: dict[int, tuple[int, int]] = {lines[0]: (0, 0)}

    def number_routers(line: int) -> None:
        for number, router in enumerate(near[line]):
            where[router] = [number, line_index[line][1]]

    number_routers(lines[0])
    for router in near[lines[0]]:
        (other,) = [line for line in near[router] if line in lines and line != lines[0]]
        line_index[other] = (1, where[router][0])
    rest = [line for line in lines if line not in line_index]
    for number, line in enumerate(rest, start=1):
        line_index[line] = (0, number)
    for router in routers:
        first, second = sorted(line_index[line] for line in near[router] if line in lines)
        where[router] = [second[1], first[1]]
    return where, line_index


def paper_tables(
    fabric: Fabric, where: dict[int, list[int]], dimension: dict[int, int]
) -> dict[tuple[int, int], int]:
    """Return (switch, host) -> port, by algorithms 1 and 2."""
    table = {}
    for host in range(fabric.num_switches, fabric.num_nodes):
        (home,) = neighbours(fabric, host)
        goal = where[home]
        for node in range(fabric.num_switches):
            near = neighbours(fabric, node)
            if node in dimension:
                axis = dimension[node]
                (port,) = [port for other, port in near.items() if where[other][axis] == goal[axis]]
            elif node == home:
                port = near[host]
            else:
                axis = min(i for i in range(len(goal)) if where[node][i] != goal[i])
                (port,) = [port for other, port in near.items() if dimension.get(other, -1) == axis]
            table[node, host] = port
    return table


def bystanders(fabric: Fabric, routes: TableRoutes) -> float:
    """Return the mean number of flows that share a queue with a flow and leave by another port.

    All host pairs send. A queue is a lane of a link into a forwarding node; each queue along each
    flow's path counts. A flow delayed by such flows is a victim of congestion on a link that it
    does not cross.
    """
    node_ports = destinations(fabric)
    row_of = {int(node): row for row, node in enumerate(np.flatnonzero(fabric.forwards))}
    sl = np.asarray(routes.sl)
    queues: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    hosts = [d for d, (node, _) in enumerate(node_ports) if node >= fabric.num_switches]
    for source in hosts:
        for d in hosts:
            path = follow(fabric, routes, node_ports[source], node_ports[d], d)
            if source == d or not path:
                continue
            first = int(fabric.link_to[path[0]])
            level = int(sl if sl.ndim == 0 else sl[d] if sl.ndim == 1 else sl[row_of[first], d])
            lane = int(routes.lanes.tables[0, level])
            for link, following in pairwise(path):
                queues[link, lane][following] += 1
    flows = sum(sum(out.values()) for out in queues.values())
    shared = sum(
        count * (sum(out.values()) - count) for out in queues.values() for count in out.values()
    )
    return shared / flows
