"""Reference implementation of OpenSM's fat-tree engine: recursive, with dictionaries."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np

from tests.reference.routing import destinations, out_link
from weft.fabrics import Fabric


@dataclass(eq=False)
class Group:
    """Ports of a switch to one neighbour, as (own port, port at the other end), and their loads."""

    to: int | None
    adapter: tuple[int, int] | None = None
    ports: list[tuple[int, int]] = field(default_factory=list)
    up: int = 0
    down: int = 0
    port_up: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    port_down: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class FatTree:
    """A connected tree of switches with hosts at its leaves only."""

    def __init__(self, fabric: Fabric, roots: set[int] | None = None) -> None:
        self.fabric = fabric
        self.switches = sorted(
            range(fabric.num_switches),
            key=lambda node: int(fabric.node_guid[node]).to_bytes(8, "little"),
        )
        self.neighbours: dict[int, list[tuple[int, int, int]]] = {s: [] for s in self.switches}
        for tail, port, head, far_port, _ in sorted(fabric.links.tolist()):
            if tail < fabric.num_switches:
                self.neighbours[tail].append((port, head, far_port))
        leaves = {
            s
            for s in self.switches
            if any(head >= fabric.num_switches for _, head, _ in self.neighbours[s])
        }
        height = self.distances(leaves)
        self.switches = [s for s in self.switches if s in height]
        if roots is None:
            roots = {s for s in self.switches if height[s] == max(height.values())}
        self.roots = roots
        self.rank = self.distances(roots)
        self.leaf_rank = max(self.rank[leaf] for leaf in leaves)
        self.down, self.side, self.up = (
            {s: self.groups(s, direction) for s in self.switches} for direction in (1, 0, -1)
        )
        self.index = self.make_index(next(s for s in self.switches if s in leaves))
        of_rank = [s for s in self.switches if self.rank[s] == self.leaf_rank]
        of_rank.sort(key=lambda s: self.index.get(s, (99,)))
        real = [number for number, s in enumerate(of_rank) if s in leaves]
        self.leaves = of_rank[real[0] : real[-1] + 1]
        self.tables = {(s, 0): {s: 0} for s in range(fabric.num_switches)}

    def distances(self, starts: set[int]) -> dict[int, int]:
        result = dict.fromkeys(starts, 0)
        queue = deque(starts)
        while queue:
            s = queue.popleft()
            for _, head, _ in self.neighbours[s]:
                if head in self.neighbours and head not in result:
                    result[head] = result[s] + 1
                    queue.append(head)
        return result

    def groups(self, s: int, direction: int) -> list[Group]:
        result: dict[tuple[int, int], Group] = {}
        for port, head, far_port in self.neighbours[s]:
            if head not in self.neighbours:
                if direction == 1:
                    result[head, far_port] = Group(None, (head, far_port), [(port, far_port)])
            elif head != s and np.sign(self.rank[head] - self.rank[s]) == direction:
                result.setdefault((head, 0), Group(head)).ports.append((port, far_port))
        return list(result.values())

    def make_index(self, first: int) -> dict[int, tuple[int, ...]]:
        index = {first: (self.rank[first], *[0] * self.leaf_rank)}
        queue = deque([first])
        while queue:
            s = queue.popleft()
            for groups, step, digit in (
                (self.down[s], 1, self.rank[s] + 1),
                (self.up[s], -1, self.rank[s]),
            ):
                if step == 1 and self.rank[s] >= self.leaf_rank:
                    continue
                for group in groups:
                    if group.to is None or group.to in index:
                        continue
                    value = 0
                    while True:
                        new = list(index[s])
                        new[0] += step
                        new[digit] = value
                        if tuple(new) not in index.values():
                            break
                        value += 1
                    index[group.to] = tuple(new)
                    queue.append(group.to)
                groups.sort(key=lambda group: index.get(group.to, (99,)))
        return index

    def place(self, group: Group) -> tuple[int, ...]:
        return (99,) if group.to is None else self.index.get(group.to, (99,))

    def go_down(self, s: int, before: int | None, hops: int, real: bool) -> bool:
        if not self.down[s]:
            return False
        self.down[s].sort(key=lambda group: (group.up, self.place(group)))
        self.side[s].sort(key=lambda group: (group.up, self.place(group)))
        routed_any = False
        for group in self.down[s] + (self.side[s] if real else []):
            if group.to is None:
                routed_any = True
                continue
            if group.to == before or self.hops.get(group.to, 999) <= hops + 1:
                continue
            port, far_port = min(group.ports, key=lambda pair: group.port_up[pair[0]])
            self.line[group.to] = far_port
            self.hops[group.to] = hops + 1
            if self.go_down(group.to, None, hops + 1, real):
                routed_any = True
                group.up += 1
                group.port_up[port] += 1
        return routed_any

    def go_up(self, s: int, before: int | None, hops: int, main: bool, real: bool) -> bool:
        routed_any = self.go_down(s, before, hops, real)
        if self.rank[s] == 0:
            return routed_any
        self.up[s].sort(key=lambda group: (group.down, self.place(group)))
        first = self.up[s][0]
        groups = list(self.up[s])
        if main:
            port, far_port = min(first.ports, key=lambda pair: first.port_down[pair[0]])
            first.down += 1
            first.port_down[port] += 1
            assert first.to is not None
            if first.to not in self.line or hops + 1 < self.hops[first.to]:
                self.line[first.to] = far_port
                self.hops[first.to] = hops + 1
            routed_any |= self.go_up(first.to, s, hops + 1, True, real)
            groups = groups[1:]
        self.side[s].sort(key=lambda group: (0, self.place(group)))
        for group in groups + self.side[s]:
            assert group.to is not None
            if group.to in self.line and self.hops[group.to] <= hops + 1:
                continue
            port, far_port = min(group.ports, key=lambda pair: group.port_down[pair[0]])
            self.line[group.to] = far_port
            self.hops[group.to] = hops + 1
            routed = self.go_up(group.to, s, hops + 1, False, real)
            routed_any |= routed
            if routed and group in self.side[s]:
                first.down += 1
                group.port_down[port] += 1
        return routed_any

    def to(self, place: tuple[int, int] | None, s: int, port: int, main: bool) -> None:
        """Route to one adapter port, to a switch (port 0), or to None for a missing host."""
        hops = 0 if port == 0 else 1
        self.hops = {s: hops}
        self.line = {} if place is None else {s: port}
        self.go_up(s, None, hops, main, place is not None)
        if place is not None:
            self.tables[place] = self.line

    def route(self) -> np.ndarray:
        """Return ports in the layout of `TableRoutes.table`."""
        hosts = [[group for group in self.down[s] if group.adapter] for s in self.leaves]
        most = max(map(len, hosts))
        for s, groups in zip(self.leaves, hosts, strict=True):
            for group in groups:
                self.to(group.adapter, s, group.ports[0][0], True)
            for _ in range(most - len(groups)):
                self.to(None, s, 1, True)
        for s in self.switches:
            self.to((s, 0), s, 0, False)
        node_ports = destinations(self.fabric)
        table = np.full((len(node_ports), self.fabric.num_switches), 255)
        for number, place in enumerate(node_ports):
            for s, port in self.tables.get(place, {}).items():
                table[number, s] = port
                assert port == 0 or out_link(self.fabric, s, port) >= 0
        return table
