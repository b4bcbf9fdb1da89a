"""Routings of the reference implementation of the flit level: the output that a packet takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx

from tests.reference.flit_parts import Endpoint, Lane, Link, Packet, Switch, after
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
