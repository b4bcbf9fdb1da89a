"""Routings of the reference implementation of the flit level: the output that a packet takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx

from tests.reference.flit_parts import Endpoint, Lane, Link, Packet, Switch, after, mix
from weft.fabrics import Fabric


class Tables:
    """Forwarding tables."""

    adaptive = False

    def __init__(self, fabric: Fabric, table: Any, links: Sequence[Link]):
        ports = zip(fabric.link_from.tolist(), fabric.link_from_port.tolist(), strict=True)
        self.table, self.of_port = table, dict(zip(ports, links, strict=True))

    def __call__(self, switch: Switch, packet: Packet) -> Link:
        return self.of_port[switch.number, int(self.table[packet.destination, switch.number])]


class Nca:
    """Shortest paths of a tree: up by any cable until the destination is below, then down.

    Where there are several links, one is drawn. If `adaptive`, one of those up is drawn that have a
    free lane, if any, and of them one of the least loaded: the first in rotating order.
    """

    def __init__(
        self,
        fabric: Fabric,
        endpoints: Sequence[Endpoint],
        lanes_of: Callable[[Link, int], list[Lane]],
        adaptive: bool,
    ):
        self.adaptive, self.lanes_of = adaptive, lanes_of
        self.head, tail = fabric.link_to.tolist(), fabric.link_from.tolist()
        self.goals = [self.head[end.link.number ^ 1] for end in endpoints]
        cables = nx.Graph(zip(tail, self.head, strict=True))
        level = nx.multi_source_dijkstra_path_length(cables, set(self.goals))
        ends = zip(tail, self.head, strict=True)
        tree = nx.DiGraph(end for end in ends if level[end[0]] > level[end[1]])
        self.below = {node: nx.descendants(tree, node) | {node} for node in tree}
        self.goes_up = [level[a] < level[b] for a, b in zip(tail, self.head, strict=True)]

    def __call__(self, switch: Switch, packet: Packet) -> Link:
        goal, up = self.goals[packet.destination], self.goes_up
        is_below = goal in self.below[switch.number]
        links = [
            link
            for link in switch.outputs
            if up[link.number] != is_below
            and (not is_below or goal in self.below[self.head[link.number]])
        ]
        drawn = packet.drawn(len(links))
        if is_below or not self.adaptive:
            return links[drawn]

        def worth(link: Link) -> tuple[bool, int]:
            lanes = self.lanes_of(link, packet.kind)
            return all(lane.owner for lane in lanes), sum(lane.load for lane in link.lanes)

        return min(after(links, drawn - 1), key=worth)


class DimensionOrder:
    """Dimension order on grids, with datelines on rings; if `valiant`, via a drawn switch.

    Rings have at least four switches, so that they differ from lines and full dimensions.
    """

    adaptive = False

    def __init__(self, fabric: Fabric, endpoints: Sequence[Endpoint], lanes: int, valiant: bool):
        self.lanes, self.valiant = lanes, valiant
        self.head = fabric.link_to.tolist()
        self.into = [end.link.number ^ 1 for end in endpoints]
        self.goals = [self.head[end.link.number] for end in endpoints]
        self.where = {
            node: tuple(fabric.coordinates[node].tolist())
            for node in sorted({*self.head} - {self.head[link] for link in self.into})
        }
        self.size = [max(at) + 1 for at in zip(*self.where.values(), strict=True)]
        apart = {
            (d, abs(a[d] - b[d]))
            for a, b in zip(
                [self.where.get(node) for node in fabric.link_from.tolist()],
                [self.where.get(node) for node in self.head],
                strict=True,
            )
            if a and b
            for d in range(len(self.size))
        }
        self.is_ring = [
            (d, n - 1) in apart and (d, 2) not in apart for d, n in enumerate(self.size)
        ]
        self.is_full = [(d, 2) in apart for d in range(len(self.size))]

    def __call__(self, switch: Switch, packet: Packet) -> Link:
        goal, lanes, half = self.goals[packet.destination], range(self.lanes), self.lanes // 2
        if self.valiant:
            nodes = list(self.where)
            via = nodes[(mix(packet.key) >> 32) * len(nodes) >> 32]
            if switch.number == via and not packet.second:
                packet.second, packet.crossed = True, set()
            goal, lanes = (goal, lanes[half:]) if packet.second else (via, lanes[:half])
        packet.only = None
        here, there = self.where[switch.number], self.where[goal]
        if here == there:
            return next(x for x in switch.outputs if x.number == self.into[packet.destination])
        d = next(d for d, (x, y) in enumerate(zip(here, there, strict=True)) if x != y)
        x, y, size = here[d], there[d], self.size[d]
        step, packet.only = y, lanes
        if self.is_ring[d]:
            ahead = (y - x) % size
            down = 2 * ahead > size or (2 * ahead == size and packet.key >> (8 + d) & 1 == 1)
            step = (x - 1 if down else x + 1) % size
            will_cross = y > x if down else y < x
            upper = packet.key >> (24 + d) & 1 == 1 and not will_cross
            upper = upper or d in packet.crossed
            middle = len(lanes) // 2
            packet.only = lanes[middle:] if upper else lanes[:middle]
            if abs(step - x) > 1:
                packet.crossed.add(d)
        elif not self.is_full[d]:
            step = x + 1 if y > x else x - 1
        next_at = (*here[:d], step, *here[d + 1 :])
        links = [x for x in switch.outputs if self.where.get(self.head[x.number]) == next_at]
        return links[packet.drawn(len(links))]
