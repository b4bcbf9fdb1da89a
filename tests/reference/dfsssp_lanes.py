"""OpenSM's assignment of lanes in dfsssp, pair by pair of ports, with dictionaries."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from weft.fabrics import Fabric
from weft.routing.opensm.lids import predict_lids

Channel = tuple[int, int]


class Lane:
    """Channels in a binary tree, and the pairs that use each dependency, in order of insertion."""

    def __init__(self, key: dict[int, int]) -> None:
        self.key = key
        self.children: dict[Channel, list[Channel | None]] = {}
        self.root: Channel | None = None
        self.after: dict[Channel, dict[Channel, list]] = {}
        self.left: dict[tuple[Channel, Channel], int] = {}

    def order(self, channel: Channel) -> tuple[int, int]:
        return self.key[channel[0]], channel[1]

    def insert(self, channel: Channel) -> None:
        self.children[channel], self.after[channel] = [None, None], {}
        if self.root is None:
            self.root = channel
            return
        at = self.root
        while True:
            side = self.order(channel) > self.order(at)
            below = self.children[at][side]
            if below is None:
                self.children[at][side] = channel
                return
            at = below

    def add(self, pair: tuple[int, int], path: list[Channel]) -> None:
        for number, channel in enumerate(path):
            if channel not in self.children:
                self.insert(channel)
            if number:
                self.after[path[number - 1]].setdefault(channel, []).append(pair)

    def remove(self, path: list[Channel]) -> None:
        for one, other in pairwise(path):
            if other in self.after[one]:
                self.left[one, other] = self.left.get((one, other), 0) + 1

    def preorder(self, at: Channel | None) -> list[Channel]:
        if at is None:
            return []
        first, second = self.children[at]
        return [at, *self.preorder(first), *self.preorder(second)]


def search(lane: Lane, start: Channel, state: dict[Channel, str], before: dict) -> Channel | None:
    """Return a channel of a cycle; the channels of the present path are open."""
    at: Channel | None = start
    while at is not None:
        state[at] = "open"
        following = None
        for target in lane.after[at]:
            if state.get(target, "new") == "new":
                following = target
                break
            if state[target] == "open":
                return target
        if following is not None:
            before[following] = at
            at = following
            continue
        state[at] = "done"
        for target, pairs in lane.after[at].items():
            pairs.clear()
            lane.left.pop((at, target), None)
        previous = before.pop(at, None)
        new = (c for c in lane.preorder(lane.root) if state.get(c, "new") == "new")
        at = previous if previous is not None else next(new, None)
    return None


def weakest(lane: Lane, cycle: Channel, state: dict[Channel, str]) -> list:
    """Remove the weakest dependency of a cycle; return its pairs."""
    steps, at = [], cycle
    while not steps or at != cycle:
        following = next(t for t in lane.after[at] if state.get(t, "new") == "open")
        steps.append((at, following))
        if at != cycle:
            state[at] = "new"
        at = following
    state[cycle] = "new"
    uses = [len(lane.after[a][b]) - lane.left.get((a, b), 0) for a, b in steps]
    one, other = steps[int(np.argmin(uses))]
    return lane.after[one].pop(other)


def lanes(fabric: Fabric, table: np.ndarray, available: int) -> tuple[int, dict]:
    """Return the number of lanes and the lane of each (source port, destination), with LMC 0."""
    lids = predict_lids(fabric).base
    key = {s: int(lids[fabric.num_endpoints + s]) for s in range(fabric.num_switches)}
    far = {
        (int(fabric.link_from[k]), int(fabric.link_from_port[k])): int(fabric.link_to[k])
        for k in range(fabric.num_links)
    }
    switch_of = {
        end: far[int(fabric.endpoint_node[end]), int(fabric.endpoint_port[end])]
        for end in range(fabric.num_endpoints)
        if (int(fabric.endpoint_node[end]), int(fabric.endpoint_port[end])) in far
    }
    guid = fabric.node_guid.byteswap()
    hung = {s: sum(leaf == s for leaf in switch_of.values()) for s in range(fabric.num_switches)}
    switches = sorted(range(fabric.num_switches), key=lambda s: (-hung[s], int(guid[s])))
    port_to = {
        end: next(p for (node, p), other in far.items() if node == switch
                  and other == fabric.endpoint_node[end]
                  and _other_port(fabric, node, p) == fabric.endpoint_port[end])
        for end, switch in switch_of.items()
    }  # fmt: skip
    ports = [
        end for s in switches
        for end in sorted((e for e, w in switch_of.items() if w == s), key=port_to.__getitem__)
    ]  # fmt: skip
    paths = {}
    for d in [*ports, *(fabric.num_endpoints + s for s in switches)]:
        for source in ports:
            if source == d:
                continue
            at, path = switch_of[source], []
            while (port := int(table[d, at])) not in (0, 255) and far[at, port] < len(key):
                path.append((at, port))
                at = far[at, port]
            paths[source, d] = path
    of = dict.fromkeys(paths, 0)
    lane = Lane(key)
    for pair, path in paths.items():
        lane.add(pair, path)
    needed = 1
    for here in range(available):
        following, state, before = Lane(key), {}, {}
        start = lane.root
        while start is not None and (start := search(lane, start, state, before)) is not None:
            needed = here + 2
            if needed > available:
                return needed, of
            for pair in weakest(lane, start, state):
                if of[pair] == here:
                    lane.remove(paths[pair])
                    following.add(pair, paths[pair])
                    of[pair] = here + 1
        lane = following
    return needed, of


def _other_port(fabric: Fabric, node: int, port: int) -> int:
    (link,) = np.flatnonzero((fabric.link_from == node) & (fabric.link_from_port == port))
    return int(fabric.link_to_port[link])
